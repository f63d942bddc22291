"""Draws history.svg: how fast a user's own past takes over, by history_share and by history_count.

Run ``python docs/pictures/history.py`` after a change; the picture is kept in the repository.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

plt.rcParams.update({"svg.hashsalt": "boundrec", "font.size": 10})

N_ITEMS = 1000
OVERALL = np.sqrt(3.5 + 1.1)  # a site whose ratings have mean 3.5 and standard deviation 1.1
OWN = 1.0  # √(1 + 0): every past rating of this user is a 1


def weights(n):
    """Eq. (43) for two shares, and the alternative for two counts."""
    return {
        "history_share=0.1": (np.minimum(n / (0.1 * N_ITEMS), 1), "#1f5fa8", "-"),
        "history_share=0.02": (np.minimum(n / (0.02 * N_ITEMS), 1), "#1f5fa8", "--"),
        "history_count=10": (n / (n + 10), "#c8641b", "-"),
        "history_count=50": (n / (n + 50), "#c8641b", "--"),
    }


def main():
    """Draw both panels and write the file next to this script."""
    n = np.arange(151)
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.2), layout="constrained")
    for label, (omega, colour, style) in weights(n).items():
        left.plot(n, omega, style, color=colour, label=label)
        right.plot(n, omega * OWN + (1 - omega) * OVERALL, style, color=colour)
    left.set_title("weight of the user's own past", loc="left", fontsize=10)
    right.set_title("magnitude of a user who only gave 1s", loc="left", fontsize=10)
    left.legend(frameon=False, fontsize=8.5, loc="lower right")
    left.set(ylim=(0, 1.04))
    right.set(ylim=(0.9, 2.25))
    for axis in (left, right):
        axis.set(xlim=(0, 150), xlabel=f"past ratings of the user, of {N_ITEMS:,} items")
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))


if __name__ == "__main__":
    main()
