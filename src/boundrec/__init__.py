"""Recommendations that stay in bounds."""

from boundrec.models.bmc_admm import BMCADMM
from boundrec.models.bmf import BMF
from boundrec.models.mbmf import MBMF
from boundrec.ratings import Ratings

__version__ = "0.1.0"
__all__ = ["BMCADMM", "BMF", "MBMF", "Ratings", "__version__"]
