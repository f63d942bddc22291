"""What the options ask for: which model with which settings; and fitting it."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import typer

from boundrec.cli.console import in_command_words, live_objective, say
from boundrec.notes import Interrupted
from boundrec.registry import entry_of_command, learns_clicks

if TYPE_CHECKING:
    from boundrec.cli.bounds import Limits
    from boundrec.data.ratings import Ratings


#: Settings of models that have an option of their own in every command that takes --set.
OWN_OPTIONS = {"n_factors": "--k", "max_iter": "--sweeps", "random_state": "--seed", "n_jobs": "--threads"}


def takes_ranges(name: str) -> bool:
    """Whether a model can keep a range for every pair, or only one for all."""
    return declares(entry_of_command(name).load().fit, "lower")


@dataclass(frozen=True)
class Request:
    """Which model to fit, as the options say it."""

    name: str
    bounds: Any
    k: int | None = None
    sweeps: int | None = None
    seed: int = 0
    threads: int | None = None
    settings: Mapping[str, Any] | None = None

    def within(self, limits: Limits) -> Request:
        """The same request within these limits: one range for all where the model can take no others."""
        own = limits.rule is not None and takes_ranges(self.name)
        return replace(self, bounds=limits.rule if own else limits.bounds)

    @property
    def on_contradiction(self) -> str:
        """What becomes of ratings outside their own range, which is told where they are read."""
        return str((self.settings or {}).get("on_contradiction", "keep"))

    def model(self) -> Any:
        """The model, not fitted yet; settings that make no sense are asked wrongly."""
        entry = entry_of_command(self.name)
        kind = entry.load()
        known = kind().get_params()
        unknown = [name for name in self.settings or () if name not in known]
        if "bounds" in (self.settings or ()):
            raise typer.BadParameter(
                "--set bounds: bounds have options of their own: pass --bounds, --lower and --upper, or --bounds-file."
            )
        if unknown:
            raise typer.BadParameter(
                f"{self.name} has no setting {unknown[0]!r}. There are: {', '.join(sorted(known))}."
            )
        own = {"random_state": self.seed, "n_jobs": self.threads}
        if not learns_clicks(self.name):
            own["bounds"] = self.bounds
        if self.k is not None:
            own["n_factors"] = self.k
        if self.sweeps is not None:
            own["max_iter"] = self.sweeps
        model = kind(**{**entry.settings, **own, **(self.settings or {})})
        try:
            model.check_settings()
        except (TypeError, ValueError) as error:
            raise typer.BadParameter(in_command_words(str(error))) from None
        return model


def knows_choices(name: str) -> bool:
    """Whether a model of ratings can learn who chooses what besides."""
    return "affinity" in entry_of_command(name).load()().get_params()


def with_affinity(asked: bool, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a model, with those that --affinity stands for where the model can."""
    if asked and "affinity" in settings:
        raise typer.BadParameter("--affinity and --set affinity=... give the same setting: leave out one.")
    return {**settings, "affinity": True} if asked and knows_choices(name) else dict(settings)


def refuse_affinity(asked: bool, names: Sequence[str]) -> None:
    """Refuse --affinity where none of these models can learn who chooses what; say who goes without."""
    without = [name for name in names if not knows_choices(name)]
    if not asked or not without:
        return
    if len(without) < len(names):
        say(f"Note: --affinity is for {', '.join(name for name in names if name not in without)} only.")
        return
    why = "sorts by affinity as it is" if learns_clicks(*without) else "learns from ratings alone"
    raise typer.BadParameter(f"--affinity: {without[0]} {why}: name bayesian or mbmf, or leave this out.")


def parse_settings(given: Sequence[str] | None) -> dict[str, Any]:
    """NAME=VALUE pairs: numbers, true, false, none, and words."""
    settings = {}
    for pair in given or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--set {pair}: write NAME=VALUE, such as ridge=0.1.")
        settings[name.strip()] = parse_value(value.strip())
    refuse_own_options("--set", settings)
    return settings


def refuse_own_options(option: str, names: Iterable[str]) -> None:
    """Refuse to take settings by another option than their own: of two values one would go unheard."""
    for name in names:
        if name in OWN_OPTIONS:
            raise typer.BadParameter(
                f"{option} {name}: this setting has an option of its own: pass {OWN_OPTIONS[name]}."
            )


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
    model: Any,
    ratings: Ratings,
    name: str,
    history: Ratings | None = None,
    features: Mapping[str, Any] | None = None,
    *,
    keep_when_interrupted: bool = False,
) -> float:
    """Fit with a live objective, and with features if the model takes such; returns the seconds.

    Ctrl-C ends everything, or, to keep the model of the last sweep, only the fit.
    """
    if history is not None and not declares(model.fit, "history"):
        raise typer.BadParameter(f"--history: {name} has one range for all; only mbmf and bayesian learn from history.")
    began = time.perf_counter()
    with live_objective(name, model.most_iterations()) as callback, warnings.catch_warnings():
        if not keep_when_interrupted:
            warnings.simplefilter("error", Interrupted)
        try:
            beside = {name: one for name, one in (features or {}).items() if declares(model.fit, name)}
            if history is not None:
                beside["history"] = history
            if not declares(model.fit, "lower"):
                ratings = replace(ratings, ends=None)
            if ratings.ends is not None:  # was said, with the line
                warnings.filterwarnings("ignore", r".*ratings lie outside their own range", UserWarning)
            if beside:  # was said, with the name of the file
                warnings.filterwarnings("ignore", r".*\b(user|item)_features\b", UserWarning)
            model.fit(ratings, callback=callback, **beside)
        except Interrupted as interrupted:
            raise KeyboardInterrupt from interrupted
    return time.perf_counter() - began
