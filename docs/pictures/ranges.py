"""Draws ranges.svg: which range each data type and form gives, and which of its ends are the data's own.

Run ``python docs/pictures/ranges.py`` after a change; the picture is kept in the repository.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from boundrec import Ratings
from boundrec.ranges import check_bounds, constant_magnitudes, frame_for

plt.rcParams.update({"svg.hashsalt": "boundrec", "font.size": 10})

COLOUR = {"c": "#1f5fa8", "n": "#c8641b"}
GREY = "#8a8a8a"
EDGE = (-10.9, 9.9)

#: Title, bounds, ratings, and r_i s_j where the bounds do not give it.
PANELS = [
    ("type (i): bounds=(1, 5)", (1, 5), [1, 2, 3, 4, 5], None),
    ("type (ii): bounds=(0, None), with magnitudes that multiply to 4", (0, None), [0.5, 1, 2, 3.5, 6], 4.0),
    ("type (iii): bounds=None", None, [-3, -1.5, 0.5, 2, 4], None),
]


def range_of(bounds, form, ratings, product):
    """Lower end, centre and upper end, as the library works them out."""
    bounds, values = check_bounds(bounds), np.array(ratings, dtype=float)
    frame = frame_for(bounds, form, values)
    if product is None:
        pairs = [("user", number) for number in range(len(ratings))]
        ranges = constant_magnitudes(frame, bounds, Ratings.read(pairs, values))
        product = ranges.user[0] * ranges.item[0]
    centre = frame.offset + frame.tilt * product
    return centre - product, centre, centre + product


def draw_range(axis, height, form, lower, centre, upper):
    """One range as a bar: a wall where its end is a bound of the data, dots towards an end that is not."""
    colour = COLOUR[form]
    axis.plot([centre, upper], [height] * 2, color=colour, lw=3)
    axis.plot(upper, height, "|", ms=15, mew=3, color=colour)
    if form == "c":
        axis.plot([lower, centre], [height] * 2, color=colour, lw=3)
        axis.plot(lower, height, "|", ms=15, mew=3, color=colour)
    else:
        axis.plot([lower, centre], [height] * 2, color=colour, lw=2, ls=":")
        axis.plot(lower, height, "x", ms=7, mew=2, color=colour)
    axis.plot(centre, height, "o", color="white", mec=colour, mew=2, ms=8, zorder=3)


def draw_panel(axis, title, bounds, ratings, product):
    """The ratings of one data type over its legal region in grey, and the ranges of both forms."""
    low, high = check_bounds(bounds)
    axis.axvspan(EDGE[0] if low is None else low, EDGE[1] if high is None else high, color=GREY, alpha=0.14, lw=0)
    axis.plot(ratings, [2] * len(ratings), "o", color=GREY, ms=6)
    for height, form in ((1, "c"), (0, "n")):
        draw_range(axis, height, form, *range_of(bounds, form, ratings, product))
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_yticks([2, 1, 0], ["ratings", "form c", "form n"])
    axis.set(xlim=EDGE, ylim=(-0.6, 2.5), xticks=range(-10, 10, 2))
    axis.tick_params(left=False, labelbottom=True)
    axis.spines[["top", "right", "left"]].set_visible(False)


def main():
    """Draw all panels and write the file next to this script."""
    figure, axes = plt.subplots(3, 1, figsize=(7.6, 6.2), layout="constrained")
    for axis, panel in zip(axes, PANELS, strict=True):
        draw_panel(axis, *panel)
    axes[-1].set_xlabel("prediction")
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))


if __name__ == "__main__":
    main()
