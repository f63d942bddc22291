"""Exact top-N in blocks of bounded memory: arrays in, arrays out."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from boundrec.ratings import Ratings


class Seen(NamedTuple):
    """The item row numbers that each user row has rated, ascending: ``indices[indptr[u] : indptr[u + 1]]``."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]

    @classmethod
    def of(cls, ratings: Ratings) -> Self:
        """What these ratings show to be seen; shares their memory."""
        return cls(ratings.by_user.indptr, ratings.by_user.indices)
