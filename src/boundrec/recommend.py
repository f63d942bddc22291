"""Exact top-N recommendation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Seen(NamedTuple):
    """Which items each user has rated: those of row i are ``indices[indptr[i]:indptr[i + 1]]``, increasing."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
