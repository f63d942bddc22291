"""One side of a factorisation with a ridge: what NMF and CCD++ share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from boundrec.columns import short
from boundrec.models.base import Floats
from boundrec.models.settings import is_number
from boundrec.ratings import Csr


@dataclass
class RidgeSide:
    """The ratings (or what is left of them) in one side's row order, its factors, and the ridge of each row."""

    csr: Csr
    factors: NDArray[np.floating]
    ridge: Floats

    def penalty(self) -> float:
        """Σ_i ridge_i |w_i|², summed in float64."""
        return float(np.einsum("i,ik,ik->", self.ridge, self.factors, self.factors, dtype=np.float64))


def check_ridge(ridge: float) -> None:
    """Refuse a ridge that is negative or not a number."""
    if not is_number(ridge) or not 0 <= ridge < np.inf:
        raise ValueError(f"ridge={short(ridge)}: give a number of at least 0.")
