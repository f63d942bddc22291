"""Recommendations that stay in bounds."""

from boundrec.models.bmf import BMF
from boundrec.models.mbmf import MBMF
from boundrec.ratings import Ratings

__version__ = "0.1.0"
__all__ = ["BMF", "MBMF", "Ratings", "__version__"]
