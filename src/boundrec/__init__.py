"""Recommendations that stay in bounds."""

from boundrec.models.bounded_svd import BoundedSVD
from boundrec.models.mbmf import MBMF
from boundrec.models.mf import MF
from boundrec.ratings import Ratings

__version__ = "0.1.0"
__all__ = ["MBMF", "MF", "BoundedSVD", "Ratings", "__version__"]
