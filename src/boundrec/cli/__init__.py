"""The ``boundrec`` command: options in, results to stdout, progress and messages to stderr.

Exit codes: 0 done, 1 could not be done, 2 asked wrongly, 70 something unforeseen, 130 interrupted. Heavy modules are
imported inside the commands, so that ``boundrec --help`` answers at once.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from boundrec import __version__
from boundrec.cli import compare, demo, evaluate, fit, info, predict, recommend, report, reproduce, similar, tune
from boundrec.cli.console import (
    FORESEEN,
    abandon,
    in_one_sentence,
    prepare_streams,
    say,
    speak_for,
    warnings_as_notes,
)

#: Where to tell of what nobody foresaw.
ISSUES = "https://github.com/boundrec/boundrec/issues"
UNFORESEEN = 70


class Commands(TyperGroup):
    """All commands; a reader of the results who has seen enough, such as ``head``, ends them without a word."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            abandon(sys.stdout)
            raise typer.Exit from None


app = typer.Typer(
    cls=Commands,
    help="Recommendations that stay in bounds.",
    epilog="Example: boundrec demo --user 15 --output plot.png",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # reflows paragraphs to the terminal's width
    pretty_exceptions_enable=False,
)
for command in (fit, evaluate, compare, tune, predict, recommend, similar, info, report, demo, reproduce):
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
