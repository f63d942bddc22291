"""What a run says while it runs: on a terminal a bar, elsewhere a line for each cell."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from boundrec.paper.cells import LONG, Cell

if TYPE_CHECKING:
    from rich.console import Console

#: Settings by which cells differ only as repetitions of each other.
REPETITIONS = ("fold", "repeat")


class RunDisplay:
    """Says which cell is running, how many are left and how long they may take."""

    def __init__(self, todo: Iterable[Cell], messages: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self._messages = messages
        columns = BarColumn(bar_width=20), TextColumn("{task.description}")
        self._bar = Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal)
        self._task = self._bar.add_task("", total=sum(cell.seconds for cell in todo) or 1.0)
        self._running = 0.0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, cell: Cell, left: int, seconds: float) -> None:
        """A cell begins; ``left`` are to be done, this one included, which may take so many seconds."""
        text = f"{left} left, about {in_words(seconds)}: {describe(cell)}, about {in_words(cell.seconds)}"
        self._bar.update(self._task, advance=self._running, description=text)
        self._running = cell.seconds
        if not self._messages.is_terminal:
            self._messages.print(text, soft_wrap=True)


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
