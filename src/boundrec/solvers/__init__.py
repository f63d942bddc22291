"""Arrays in, sweeps out: what every solver has in common. Kernels, threads and the algorithms are beside this file.

A solver is an object for one fit. It owns its state, yields a `Sweep` after each iteration, and says what it has
learnt. It knows neither ids nor options: what it gets are arrays, and numbers that were chosen for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from boundrec.arrays import Floats, Reals
from boundrec.data.ratings import Csr
from boundrec.solvers.links import Links


class Sweep(NamedTuple):
    """One iteration of an algorithm: where the objective stands, and whether anything moved (resolution A11)."""

    objective: float
    accepted: bool = True


@dataclass
class Side:
    """One of the two factor matrices: the centred ratings in its row order, its magnitudes, its factors."""

    csr: Csr
    radius: Floats
    factors: Reals
    #: A coordinate of the factors that this side holds fixed, if it does.
    held: int | None = None
    #: What is known of its rows besides their ratings, where their prior is to follow it.
    links: Links | None = None


@dataclass(frozen=True)
class Learned:
    """What a solver has learnt: the factors of both sides, and whatever else it measures, by name."""

    users: Reals
    items: Reals
    found: Mapping[str, float] = field(default_factory=dict)


class Solver(Protocol):
    """What a fit runs."""

    def sweeps(self) -> Iterator[Sweep]:
        """Iterate for ever, or until there is nothing left to do."""

    def result(self) -> Learned:
        """What was learnt up to the last complete sweep; later sweeps leave it as it is."""


def in_eights(rows: Reals) -> Reals:
    """Rows with zeros added up to a whole number of eights, in blocks of which kernels work."""
    missing = -rows.shape[1] % 8
    return np.pad(rows, ((0, 0), (0, missing))) if missing else rows
