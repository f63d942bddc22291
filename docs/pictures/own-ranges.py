"""Draws own-ranges.svg: predicted hits against at-bats, with one range for all seasons and with each season's own.

Run ``python docs/pictures/own-ranges.py`` after a change; the picture is kept in the repository.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from boundrec import BayesianMBMF, datasets
from boundrec.splits import hold_out

plt.rcParams.update({"svg.hashsalt": "boundrec", "font.size": 10})

INSIDE, ABOVE, GREY = "#1f5fa8", "#c8641b", "#8a8a8a"
#: So many seasons are drawn: more would be a blot.
SHOWN = 600


def draw(axis, title, at_bats, predicted):
    """Predictions against what they cannot pass."""
    over = predicted > at_bats
    for some, colour in ((~over, INSIDE), (over, ABOVE)):
        axis.plot(at_bats[some], predicted[some], "o", ms=2.6, mew=0, alpha=0.7, color=colour)
    edge = at_bats.max()
    axis.fill_between([0, edge], [0, edge], [edge, edge], color=GREY, alpha=0.14, lw=0)
    axis.plot([0, edge], [0, edge], color=GREY, lw=1)
    axis.set_title(f"{title}: {over.mean():.0%} above", loc="left", fontsize=10)
    axis.set(xlim=(0, 650), ylim=(0, 260), xlabel="at-bats")
    axis.spines[["top", "right"]].set_visible(False)


def main():
    """Fit both models, draw both panels and write the file next to this script."""
    data = datasets.load("baseball")
    held = hold_out(data.user, data.item, 0.1, 0)
    X, y, at_bats = data.pairs[~held], data.rating[~held], data.upper[held]
    shared = BayesianMBMF(bounds=data.bounds, random_state=0).fit(X, y)
    own = BayesianMBMF(random_state=0).fit(X, y, lower=0, upper=data.upper[~held])
    predictions = {
        "one range for all": shared.predict(data.pairs[held]),
        "each season its own range": own.predict(data.pairs[held], lower=0, upper=at_bats),
    }
    some = np.random.default_rng(0).permutation(at_bats.size)[:SHOWN]
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.4), sharey=True, layout="constrained")
    for axis, (title, predicted) in zip(axes, predictions.items(), strict=True):
        draw(axis, title, at_bats[some], predicted[some])
    axes[0].set_ylabel("predicted hits")
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))


if __name__ == "__main__":
    main()
