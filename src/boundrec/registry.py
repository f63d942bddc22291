"""The models there are: one row each, with its class, its home, and what the command calls it.

A new model is its own file, a row here, and its test.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

#: Settings for users where a class's own defaults are those of the paper.
_SGD: Mapping[str, Any] = MappingProxyType({"solver": "sgd", "biases": True, "ridge": 0.1, "max_iter": 100})


class Entry(NamedTuple):
    """One model."""

    name: str
    home: str
    command: str
    #: What the command sets where nothing else is asked for.
    settings: Mapping[str, Any] = MappingProxyType({})
    #: What it learns from: "ratings", or "clicks", which need no column of ratings.
    learns: str = "ratings"

    def load(self) -> Any:
        """The class, imported when it is asked for: ``boundrec --help`` need not wait for SciPy."""
        return getattr(import_module(self.home), self.name)


MODELS = (
    Entry("BayesianMBMF", "boundrec.models.bayesian", "bayesian"),
    Entry("MBMF", "boundrec.models.mbmf", "mbmf"),
    Entry("ImplicitMBMF", "boundrec.models.implicit", "implicit", learns="clicks"),
    Entry("MF", "boundrec.rivals.mf", "mf", _SGD),
    Entry("NMF", "boundrec.rivals.nmf", "nmf"),
    Entry("CCDPlusPlus", "boundrec.rivals.ccdpp", "ccd++"),
    Entry("BoundedSVD", "boundrec.rivals.bounded_svd", "bounded-svd", _SGD),
    Entry("BMF", "boundrec.rivals.bmf", "bmf"),
    Entry("BMCADMM", "boundrec.rivals.bmc_admm", "bmc-admm"),
)


def entry(name: str) -> Entry | None:
    """The row of a class, by its name."""
    return next((one for one in MODELS if one.name == name), None)


def entry_of_command(name: str) -> Entry:
    """The row of a model, by what the command calls it."""
    return next(one for one in MODELS if one.command == name)


def command_name(model: Any) -> str:
    """What the command calls this kind of model."""
    return next(one.command for one in MODELS if one.name == type(model).__name__)


def learns_clicks(*commands: str) -> bool:
    """Whether models, by what the command calls them, all learn from who chose what: then there need be no ratings."""
    return all(entry_of_command(name).learns == "clicks" for name in commands)


def is_of_clicks(model: Any) -> bool:
    """Whether this is a model of clicks."""
    known = entry(type(model).__name__)
    return known is not None and known.learns == "clicks"
