"""From files and options to a fitted model: what fit, evaluate, compare and tune have in common."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from boundrec.cli.options import ModelName
from boundrec.cli.speaking import in_command_words, live_objective, say
from boundrec.report.words import in_a_sentence, percent

if TYPE_CHECKING:
    from boundrec.ratings import Ratings
    from boundrec.tables import Columns, RatingTable

Ends = tuple[float | None, float | None]

#: Class and settings behind each name; settings where the class's own defaults are those of the paper, not of users.
MODELS: Mapping[ModelName, tuple[str, Mapping[str, Any]]] = {
    ModelName.BAYESIAN: ("BayesianMBMF", {}),
    ModelName.MBMF: ("MBMF", {}),
    ModelName.MF: ("MF", {"solver": "sgd", "biases": True, "ridge": 0.1, "max_iter": 100}),
    ModelName.NMF: ("NMF", {}),
    ModelName.CCDPP: ("CCDPlusPlus", {}),
    ModelName.BOUNDED_SVD: ("BoundedSVD", {"solver": "sgd", "biases": True, "ridge": 0.1, "max_iter": 100}),
    ModelName.BMF: ("BMF", {}),
    ModelName.BMC_ADMM: ("BMCADMM", {}),
}
#: Stand in for the observed bounds while settings are checked, before the ratings are read.
UNKNOWN: Ends = (0.0, 1.0)
#: A rating so many times further from the median than nine in ten are is in a heavy tail.
HEAVY_TAIL = 20.0


# --- data -----------------------------------------------------------------------------------------------------


def read_table(path: Path, columns: Columns, header: bool | None) -> RatingTable:
    """Ratings from a file, with a word about what was guessed."""
    from boundrec.table_files import TableFile
    from boundrec.tables import read_ratings

    return read_ratings(TableFile.open(path, header), columns, say)


def read_same_columns(path: Path, table: RatingTable, header: bool | None) -> RatingTable:
    """Ratings from another file with the columns and the kind of ids of one that was read before."""
    from boundrec.table_files import TableFile
    from boundrec.tables import Columns, read_ratings

    file = TableFile.open(path, header)
    names = {role: name for role, name in table.names.items() if role != "time"}
    other = read_ratings(file, Columns(**names), say)
    return other.with_ids_like(table.users.distinct, table.items.distinct)


def read_bounds(given: tuple[str, str] | None) -> Ends | None:
    """Bounds as they were typed; None where there are none."""
    from boundrec.ranges import check_bounds

    if given is None:
        return None
    try:
        return check_bounds(tuple(None if end.lower() == "none" else float(end) for end in given))
    except ValueError as error:
        if "could not convert" in str(error):
            error = ValueError(f'--bounds {" ".join(given)}: give two numbers, or "none" for an open end.')
        raise typer.BadParameter(in_command_words(str(error)).replace("write None", "write none")) from None


def as_typed(end: float | None) -> str:
    """An end of the bounds as an option takes it: short, and yet the same number."""
    if end is None:
        return "none"
    return f"{end:g}" if float(f"{end:g}") == end else repr(end)


def choose_bounds(given: tuple[str, str] | None, table: RatingTable) -> Ends:
    """The bounds that were given, checked against the ratings; else the observed range, and a word about that."""
    bounds = read_bounds(given)
    if bounds is not None:
        table.check_bounds(*bounds)
        return bounds
    low, high = float(table.ratings.min()), float(table.ratings.max())
    if low == high:
        say(f"Every rating is {in_a_sentence(low)}: there is nothing to learn but that.")
        room = max(0.5, 1e-12 * abs(low))  # beside a large rating a half is nothing
        return low - room, high + room
    say(f"No --bounds given: taking the observed range, --bounds {as_typed(low)} {as_typed(high)}.")
    if has_heavy_tail(table.ratings):
        say(
            f"The highest rating, {in_a_sentence(high)}, is far from most of them. "
            f"If there is no highest by nature, as with counts, pass --bounds {as_typed(min(low, 0.0))} none."
        )
    return low, high


def has_heavy_tail(ratings: Any) -> bool:
    """Whether the highest rating is out of all proportion to the rest."""
    import numpy as np

    median, upper, highest = np.quantile(ratings, [0.5, 0.9, 1.0])
    return bool(highest - median > HEAVY_TAIL * max(upper - median, 1e-12 * max(1.0, abs(median))))


def summarise(table: RatingTable) -> dict[str, Any]:
    """What the ratings are like."""
    import numpy as np

    def spread(codes: Any) -> dict[str, float]:
        counts = np.bincount(codes)
        counts = counts[counts > 0]
        return {"least": int(counts.min()), "median": float(np.median(counts)), "most": int(counts.max())}

    users, items = spread(table.users.codes), spread(table.items.codes)
    n_users, n_items = len(table.users.distinct), len(table.items.distinct)
    return {
        "ratings": len(table),
        "users": n_users,
        "items": n_items,
        "density": len(table) / (n_users * n_items),
        "lowest": float(table.ratings.min()),
        "highest": float(table.ratings.max()),
        "mean": float(table.ratings.mean()),
        "std": float(table.ratings.std()),
        "ratings_per_user": users,
        "ratings_per_item": items,
    }


def summary_in_words(name: str, summary: Mapping[str, Any]) -> str:
    """The statistics for readers."""

    def spread(kind: str) -> str:
        of = summary[f"ratings_per_{kind}"]
        return f"{in_a_sentence(of['least'])} to {in_a_sentence(of['most'])}, median {in_a_sentence(of['median'])}"

    lowest, highest, mean, std = (in_a_sentence(summary[key]) for key in ("lowest", "highest", "mean", "std"))
    return (
        f"{name}: {summary['ratings']:,} ratings by {summary['users']:,} users of {summary['items']:,} items "
        f"({percent(summary['density'])} of all pairs)\n"
        f"ratings: {lowest} to {highest}, mean {mean}, standard deviation {std}\n"
        f"ratings of a user: {spread('user')}; of an item: {spread('item')}"
    )


def bounds_of(model: Any) -> Ends:
    """The bounds that a model was fitted with."""
    from boundrec.ranges import check_bounds

    return check_bounds(model.bounds)


# --- models ---------------------------------------------------------------------------------------------------


def parse_settings(given: Sequence[str] | None) -> dict[str, Any]:
    """NAME=VALUE pairs: numbers, true, false, none, and words."""
    settings = {}
    for pair in given or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--set {pair}: write NAME=VALUE, such as ridge=0.1.")
        settings[name.strip()] = parse_value(value.strip())
    return settings


def parse_value(text: str) -> Any:
    """A number, true, false or none where it is one, else the text itself."""
    try:
        return json.loads({"none": "null"}.get(text.lower(), text.lower()))
    except ValueError:
        return text


@dataclass(frozen=True)
class Request:
    """Which model to fit, as the options say it."""

    name: ModelName
    bounds: Ends
    k: int = 20
    sweeps: int | None = None
    seed: int = 0
    threads: int | None = None
    settings: Mapping[str, Any] | None = None

    def with_bounds(self, bounds: Ends) -> Request:
        """The same request within these bounds."""
        return replace(self, bounds=bounds)

    def model(self) -> Any:
        """The model, not fitted yet; settings that make no sense are asked wrongly."""
        import boundrec

        home, defaults = MODELS[self.name]
        kind = getattr(boundrec, home)
        known = kind().get_params()
        unknown = [name for name in self.settings or () if name not in known]
        if unknown:
            raise typer.BadParameter(
                f"{self.name.value} has no setting {unknown[0]!r}. There are: {', '.join(sorted(known))}."
            )
        own = {"n_factors": self.k, "bounds": self.bounds, "random_state": self.seed, "n_jobs": self.threads}
        if self.sweeps is not None:
            own["max_iter"] = self.sweeps
        model = kind(**{**defaults, **own, **(self.settings or {})})
        try:
            model._check_settings()
        except (TypeError, ValueError) as error:
            raise typer.BadParameter(in_command_words(str(error))) from None
        return model


def train(
    model: Any, ratings: Ratings, name: str, history: Ratings | None = None, *, keep_when_interrupted: bool = False
) -> float:
    """Fit with a live objective; returns the seconds.

    Ctrl-C ends everything, or, to keep the model of the last sweep, only the fit.
    """
    if history is not None and "history_share" not in model.get_params():
        raise typer.BadParameter(f"--history: {name} has one range for all; only mbmf and bayesian learn from history.")
    began = time.perf_counter()
    with live_objective(name, model._most_iterations()) as callback, warnings.catch_warnings():
        if not keep_when_interrupted:
            warnings.filterwarnings("error", message="interrupted")
        try:
            past = {} if history is None else {"history": history}
            model.fit(ratings, callback=callback, **past)
        except UserWarning as interrupted:
            raise KeyboardInterrupt from interrupted
    return time.perf_counter() - began
