"""Recommendations that stay in bounds."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boundrec.models.bayesian import BayesianMBMF
    from boundrec.models.bmc_admm import BMCADMM
    from boundrec.models.bmf import BMF
    from boundrec.models.bounded_svd import BoundedSVD
    from boundrec.models.ccdpp import CCDPlusPlus
    from boundrec.models.mbmf import MBMF
    from boundrec.models.mf import MF
    from boundrec.models.nmf import NMF
    from boundrec.persistence import load
    from boundrec.ratings import Ratings

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
    "Ratings",
    "__version__",
    "load",
]

#: Where each public name lives. It is imported when first asked for: ``boundrec --help`` need not wait for SciPy.
_HOMES = {
    "BMCADMM": "boundrec.models.bmc_admm",
    "BMF": "boundrec.models.bmf",
    "BayesianMBMF": "boundrec.models.bayesian",
    "BoundedSVD": "boundrec.models.bounded_svd",
    "CCDPlusPlus": "boundrec.models.ccdpp",
    "MBMF": "boundrec.models.mbmf",
    "MF": "boundrec.models.mf",
    "NMF": "boundrec.models.nmf",
    "Ratings": "boundrec.ratings",
    "load": "boundrec.persistence",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'boundrec' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
