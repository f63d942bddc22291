"""Recommendations that stay in bounds."""

from boundrec.models.ccdpp import CCDPlusPlus
from boundrec.models.mbmf import MBMF
from boundrec.models.nmf import NMF
from boundrec.ratings import Ratings

__version__ = "0.1.0"
__all__ = ["MBMF", "NMF", "CCDPlusPlus", "Ratings", "__version__"]
