"""The settings behind every column, as the models themselves state them."""

from __future__ import annotations

from boundrec.paper.protocol import METHODS, Setting
from boundrec.paper.sections import Row, Section, Table

#: What a reader need not be told: what varies with the cell, and what has no influence on the numbers.
UNTOLD = ("n_factors", "bounds", "random_state", "n_jobs", "verbose", "dtype", "duplicates", "on_unknown")
HISTORY = {
    "": "not used",
    "magnitudes": "sets the magnitudes",
    "own": "not used: magnitudes from the training ratings",
    "training": "trained on as well",
}


def summarise() -> Section:
    """A table of all methods with their settings."""
    rows: list[Row] = []
    for name, method in METHODS.items():
        model = method.build(Setting(10, (0.0, 1.0), (0.0, 1.0), 0))
        told = model.get_params() if hasattr(model, "get_params") else {}
        words = ", ".join(f"{key}={value!r}" for key, value in sorted(told.items()) if key not in UNTOLD)
        rows.append([name, type(model).__name__, HISTORY[method.history], words])
    table = Table("settings", "The model behind each row, as of boundrec's own signature", COLUMNS, rows, folded=True)
    return Section("Settings", list(TEXT), [table])


COLUMNS = ["method", "model", "history", "settings"]
TEXT = (
    "The paper gives few settings for its rivals; where it is silent the usual ones of each method's authors are "
    "taken. Factors, bounds and seed are those of the cell.",
)
