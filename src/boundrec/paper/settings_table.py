"""The settings behind every column, as the models themselves state them."""

from __future__ import annotations

from boundrec.paper.methods import METHODS, Conditions
from boundrec.paper.sections import Row, Section, Table

#: What a reader need not be told: what varies with the cell, and what has no influence on the numbers.
UNTOLD = {
    *("n_factors", "bounds", "random_state", "n_jobs", "verbose", "dtype", "duplicates", "on_unknown"),
    *("validation_fraction", "n_iter_no_change"),
}
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
        model = method.build(Conditions(10, (0.0, 1.0), (0.0, 1.0), 0))
        told = model.get_params() if hasattr(model, "get_params") else {}
        words = ", ".join(f"{key}={v!r}" for key, v in sorted(told.items()) if key not in UNTOLD and v is not None)
        rows.append([name, type(model).__name__, HISTORY[method.history], words])
    table = Table("settings", "The model behind each row, as of boundrec's own signature", COLUMNS, rows, folded=True)
    return Section("Settings", list(TEXT), [table])


COLUMNS = ["method", "model", "history", "settings"]
TEXT = (
    "The paper gives few settings for its rivals. Where it is silent we took what the method's own paper or code has, "
    "as far as we could find it, and else values that work. MF and Bounded-SVD have one step for both factors, MBMF "
    "two (the rows “two steps” of Table 3 show what that changes). Factors, bounds and seed are those of the cell.",
)
