"""The demonstration behind ``boundrec demo``: real ratings, four predictors, one table, one list, one plot."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boundrec import datasets, files
from boundrec.datasets import Dataset
from boundrec.demo.comparison import (
    Result,
    Split,
    compile_kernels,
    divide,
    evaluate,
    find_user,
    models,
)
from boundrec.demo.terminal import can_print_bars, favourites, results_table, titles_table, top_titles
from boundrec.models.mbmf import MBMF
from boundrec.report.words import percent

if TYPE_CHECKING:
    from rich.console import Console


def check_writable(output: Path) -> None:
    """Refuse, before any work is done, a file that could not be written in the end."""
    if output.suffix.lower() != ".png":
        raise ValueError(f"the plot is a PNG, and {output.name!r} does not end in .png.")
    files.check_writable(output, "plot")


def prepare(output: Path, user: int, seed: int) -> tuple[Split, int]:
    """Everything that can be refused, before any work is done: the file, the data, the user (as a row number)."""
    check_writable(output)
    data = datasets.movielens_sample()
    row = find_user(data, user)
    return divide(data, seed), row


def run(split: Split, user: int, n_factors: int, seed: int, output: Path, out: Console, messages: Console) -> None:
    """Fit, print the table and one user's top ten to ``out``, write the plot; progress goes to ``messages``."""
    from boundrec.demo.plot import draw

    began = time.perf_counter()
    _compile(messages)
    results = [_evaluate_visibly(name, model, split, messages) for name, model in models(n_factors, seed).items()]
    draw(results, output)
    _print_results(results, split, out)
    _print_top_ten(results[-1].model, split.data, user, out)
    messages.print(f"Wrote {output} after {time.perf_counter() - began:.0f} s", soft_wrap=True)  # a path to copy


def _compile(messages: Console) -> None:
    """Before anything is timed; whether this compiles or loads is known once it happens, and said then."""
    from boundrec.compiling import has_compiled

    had_compiled = has_compiled()
    with messages.status("Loading the kernels"):
        seconds = compile_kernels()
    if has_compiled() and not had_compiled:
        messages.print(f"Compiled the kernels in {seconds:.0f} s")


def _evaluate_visibly(name: str, model: Any, split: Split, messages: Console) -> Result:
    from rich.progress import Progress

    with Progress(console=messages, transient=True, disable=not messages.is_terminal) as bar:
        task = bar.add_task(f"Fitting {name}", total=1.0)
        result = evaluate(name, model, split, lambda done: bar.update(task, completed=done))
    messages.print(f"Fitted {name} in {result.seconds:.1f} s")
    return result


def _print_results(results: list[Result], split: Split, out: Console) -> None:
    data = split.data
    out.print(
        f"\n{data.rating.size:,} ratings by {data.n_users} users of {data.n_items:,} films. RMSE and MAE are those "
        f"on {split.held.sum():,} held-out ratings; outside, lowest and highest are of all "
        f"{data.n_users * data.n_items:,} predictions, every user with every film.\n"
    )
    out.print(results_table(results))
    out.print(
        "\nmean + offsets: the mean, a user's offset and a film's offset. MBMF, one range: every prediction within the "
        "declared bounds. MBMF, own ranges: narrower ones, drawn from the user's and the film's training ratings "
        f"({percent(results[-1].model.infeasible_share_)} of which lie outside them).\n"
    )


def _print_top_ten(model: MBMF, data: Dataset, user: int, out: Console) -> None:
    from rich.text import Text

    assert data.user_ids is not None
    liked = ", ".join(favourites(data, user))
    out.print(Text(f"Top ten unseen films for user {data.user_ids[user]} (favourites: {liked})\n"))
    out.print(titles_table(top_titles(model, data, user), out.width, plain=not can_print_bars(out.encoding)))
