"""Plots as SVG files that are equal when the results are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Marks that stay apart without colour.
MARKERS = "osv^D<>PX*h"


def new_canvas(width: float = 7.0, height: float = 4.4) -> Any:
    """An empty drawing; no display is needed."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_svg(canvas: Any, path: Path) -> None:
    """Write a drawing without metadata or dates."""
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "boundrec", "svg.fonttype": "path"}):
        canvas.savefig(path, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def style(index: int, ours: bool) -> dict[str, Any]:
    """A line and a mark for the index-th of several methods; ours stand out."""
    return {
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 5,
        "linewidth": 1.8 if ours else 1.1,
        "linestyle": "-" if ours else "--",
        "color": f"C{index % 10}",
    }
