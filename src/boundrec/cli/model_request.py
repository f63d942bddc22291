"""What the options ask for: within which bounds, which model with which settings; and fitting it."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import typer

from boundrec.cli.console import in_command_words, live_objective, say
from boundrec.notes import Interrupted, in_a_sentence
from boundrec.registry import entry_of_command

if TYPE_CHECKING:
    from boundrec.cli.rating_tables import RatingTable
    from boundrec.data.ratings import Ratings

Ends = tuple[float | None, float | None]
#: Stand in for the observed bounds while settings are checked, before the ratings are read.
UNKNOWN: Ends = (0.0, 1.0)
#: A rating so many times further from the median than nine in ten are is in a heavy tail.
HEAVY_TAIL = 20.0


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


def choose_bounds(given: tuple[str, str] | None, table: RatingTable) -> Ends:
    """The bounds that were given, checked against the ratings; else the observed range, and a word about that."""
    bounds = read_bounds(given)
    if bounds is not None:
        table.check_bounds(bounds)
        return bounds
    values = table.ratings.by_user.data
    low, high = float(values.min()), float(values.max())
    if low == high:
        say(f"Every rating is {in_a_sentence(low)}: there is nothing to learn but that.")
        room = max(0.5, 1e-12 * abs(low))  # beside a large rating a half is nothing
        return low - room, high + room
    say(f"No --bounds given: taking the observed range, --bounds {as_typed(low)} {as_typed(high)}.")
    if has_heavy_tail(values):
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


def as_typed(end: float | None) -> str:
    """An end of the bounds as an option takes it: short, and yet the same number."""
    if end is None:
        return "none"
    return f"{end:g}" if float(f"{end:g}") == end else repr(end)


def bounds_of(model: Any) -> Ends:
    """The bounds that a model was fitted with."""
    from boundrec.ranges import check_bounds

    return check_bounds(model.bounds)


@dataclass(frozen=True)
class Request:
    """Which model to fit, as the options say it."""

    name: str
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
        entry = entry_of_command(self.name)
        kind = entry.load()
        known = kind().get_params()
        unknown = [name for name in self.settings or () if name not in known]
        if unknown:
            raise typer.BadParameter(
                f"{self.name} has no setting {unknown[0]!r}. There are: {', '.join(sorted(known))}."
            )
        own = {"n_factors": self.k, "bounds": self.bounds, "random_state": self.seed, "n_jobs": self.threads}
        if self.sweeps is not None:
            own["max_iter"] = self.sweeps
        model = kind(**{**entry.settings, **own, **(self.settings or {})})
        try:
            model.check_settings()
        except (TypeError, ValueError) as error:
            raise typer.BadParameter(in_command_words(str(error))) from None
        return model


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


def declares(method: Callable[..., Any], name: str) -> bool:
    """Whether a method of a model takes such an argument: by that models say what they can do."""
    return name in signature(method).parameters


def train(
    model: Any, ratings: Ratings, name: str, history: Ratings | None = None, *, keep_when_interrupted: bool = False
) -> float:
    """Fit with a live objective; returns the seconds.

    Ctrl-C ends everything, or, to keep the model of the last sweep, only the fit.
    """
    if history is not None and not declares(model.fit, "history"):
        raise typer.BadParameter(f"--history: {name} has one range for all; only mbmf and bayesian learn from history.")
    began = time.perf_counter()
    with live_objective(name, model.most_iterations()) as callback, warnings.catch_warnings():
        if not keep_when_interrupted:
            warnings.simplefilter("error", Interrupted)
        try:
            past = {} if history is None else {"history": history}
            model.fit(ratings, callback=callback, **past)
        except Interrupted as interrupted:
            raise KeyboardInterrupt from interrupted
    return time.perf_counter() - began
