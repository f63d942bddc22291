"""Recommendations that stay in bounds."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from boundrec.registry import MODELS

if TYPE_CHECKING:
    from boundrec.data.features import Graph
    from boundrec.data.ratings import Ratings
    from boundrec.model_file import load
    from boundrec.models.bayesian import BayesianMBMF
    from boundrec.models.implicit import ImplicitMBMF
    from boundrec.models.mbmf import MBMF
    from boundrec.ranges.profiles import magnitudes_from_features, magnitudes_from_graph
    from boundrec.ranges.rules import PerItem, PerPair, PerUser
    from boundrec.rivals.bmc_admm import BMCADMM
    from boundrec.rivals.bmf import BMF
    from boundrec.rivals.bounded_svd import BoundedSVD
    from boundrec.rivals.ccdpp import CCDPlusPlus
    from boundrec.rivals.mf import MF
    from boundrec.rivals.nmf import NMF

__version__ = "0.1.0"
__all__ = [
    "BMCADMM",
    "BMF",
    "MBMF",
    "MF",
    "NMF",
    "BayesianMBMF",
    "BoundedSVD",
    "CCDPlusPlus",
    "Graph",
    "ImplicitMBMF",
    "PerItem",
    "PerPair",
    "PerUser",
    "Ratings",
    "__version__",
    "load",
    "magnitudes_from_features",
    "magnitudes_from_graph",
]

#: Where each public name lives. It is imported when first asked for: ``boundrec --help`` need not wait for SciPy.
_HOMES = {one.name: one.home for one in MODELS} | {
    "Graph": "boundrec.data.features",
    "PerItem": "boundrec.ranges.rules",
    "PerPair": "boundrec.ranges.rules",
    "PerUser": "boundrec.ranges.rules",
    "Ratings": "boundrec.data.ratings",
    "load": "boundrec.model_file",
    "magnitudes_from_features": "boundrec.ranges.profiles",
    "magnitudes_from_graph": "boundrec.ranges.profiles",
}


#: Public modules that moved, under the names that they had.
_MOVED = {"ids": "data.ids", "persistence": "model_file", "ratings": "data.ratings", "recommend": "top_n"}


class _Alias(ModuleType):
    """A module under its old name; what it has is looked up in the new one when it is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(f"boundrec.{_MOVED[self.__name__.removeprefix('boundrec.')]}"), name)


sys.modules.update({f"boundrec.{old}": _Alias(f"boundrec.{old}") for old in _MOVED})


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        return sys.modules[f"boundrec.{name}"]
    if name not in _HOMES:
        raise AttributeError(f"module 'boundrec' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
