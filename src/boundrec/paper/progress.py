"""What a run says while it runs: on a terminal a bar, elsewhere a line for each cell."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from boundrec.paper.cells import LONG, Cell

if TYPE_CHECKING:
    from rich.console import Console

#: Settings by which cells differ only as repetitions of each other.
REPETITIONS = ("fold", "repeat")


class Progress:
    """Says which cell is running, how many are left and how long they may take."""

    def __init__(self, todo: Iterable[Cell], budget: float, messages: Console) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self._messages, self._budget = messages, budget
        self._left, self._expected, self._running = sum(cell.seconds for cell in todo), 0.0, 0.0
        columns = BarColumn(bar_width=20), TextColumn("{task.description}")
        self._bar = Bar(*columns, console=messages, transient=True, disable=not messages.is_terminal)
        self._task = self._bar.add_task("", total=self._left or 1.0)
        self._began = time.perf_counter()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, cell: Cell, left: int) -> None:
        """A cell begins; ``left`` are to be done, this one included."""
        self._expected += self._running
        self._left -= self._running
        self._running = cell.seconds
        text = f"{left} left, about {in_words(self._to_go())}: {describe(cell)}, about {in_words(cell.seconds)}"
        self._bar.update(self._task, completed=self._expected, description=text)
        if not self._messages.is_terminal:
            self._messages.print(text, soft_wrap=True)

    def _to_go(self) -> float:
        """The estimates of what is left, at the pace of what is done, as far as the budget reaches."""
        used = time.perf_counter() - self._began
        pace = used / self._expected if self._expected > 60 else 1.0
        return min(self._left * pace, max(0.0, self._budget - used))


def describe(cell: Cell) -> str:
    """A cell in words: table3 jester1 MF factors=10 fold=0."""
    return " ".join([cell.experiment, *(_setting(key, value) for key, value in cell.settings.items())])


def _setting(key: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{key}={value}"


def describe_left_out(cells: Iterable[Cell]) -> list[str]:
    """One line for cells that are repetitions of each other, with the time that each may take."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        rest = {key: value for key, value in cell.settings.items() if key not in REPETITIONS}
        groups.setdefault(describe(Cell(cell.experiment, rest, 0.0)), []).append(cell)
    return [
        f"Left out: {name}{f', {len(some)} times,' if len(some) > 1 else ''} "
        f"may take {in_words(some[0].seconds)}{' each' if len(some) > 1 else ''} (--force runs it)."
        for name, some in groups.items()
    ]


def in_words(seconds: float) -> str:
    """A time for readers."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds <= 2 * LONG else f"{seconds / 3600:.1f} h"
