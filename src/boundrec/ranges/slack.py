"""Room for the fit beyond the range, and the strictly increasing map that leads back into it.

With slack τ ≥ 1 the factors may use centre ± τ r_i s_j. A prediction t = w·h / (r_i s_j) in [−τ, τ] then goes through

    φ(t) = t                                    for |t| ≤ a
    φ(t) = ± [1 − (1 − a) x / (p − (p − 1) x)]   beyond, x = (τ − |t|)/(τ − a), p = (τ − a)/(1 − a)

which is smooth, strictly increasing and ends exactly at ±1: no ties as from clipping, so one score serves to show and
to rank. It exists only because the magnitude bound makes the domain finite.

Where the data do not fill the declared range the fit lives around them, and each tail is led into its own end:

    ψ(z) = D₊ φ(z/D₊; max(1, T/D₊))   for z ≥ 0,   mirrored with D₋ for z < 0

where z in [−T, T] and D₊, D₋ are the distances from the centre to the ends: the identity where T ≤ D.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boundrec.arrays import Floats

#: Up to this share of the range the map changes nothing, unless the slack is so wide that p would pass STEEPEST.
UNCHANGED = 0.8
#: p², the ratio between the largest and the smallest slope, must leave float64 enough digits to tell scores apart.
STEEPEST = 20.0


def _shape(slack: float) -> tuple[float, float]:
    """a and p."""
    a = min(UNCHANGED, (STEEPEST - slack) / (STEEPEST - 1))
    return a, (slack - a) / (1 - a)


def squash(t: Floats, slack: float) -> Floats:
    """φ(t): from [−slack, slack] onto [−1, 1]; the identity without slack."""
    if slack == 1.0:
        return t
    a, p = _shape(slack)
    size = np.abs(t)
    x = np.clip((slack - size) / (slack - a), 0.0, 1.0)
    bent = 1 - (1 - a) * x / (p - (p - 1) * x)
    return np.where(size <= a, t, np.copysign(bent, t))


def unsquash(y: Floats, slack: float) -> Floats:
    """φ⁻¹(y)."""
    if slack == 1.0:
        return y
    a, p = _shape(slack)
    size = np.abs(y)
    rest = np.clip((1 - size) / (1 - a), 0.0, 1.0)
    x = p * rest / (1 + (p - 1) * rest)
    return np.where(size <= a, y, np.copysign(slack - (slack - a) * x, y))


def lead(z: Floats, reach: float, below: float, above: float) -> Floats:
    """ψ(z): from [−reach, reach] into [−below, above]."""
    return np.where(z < 0, -_tail(-z, reach, below, squash), _tail(z, reach, above, squash))


def unlead(y: Floats, reach: float, below: float, above: float) -> Floats:
    """ψ⁻¹(y)."""
    return np.where(y < 0, -_tail(-y, reach, below, unsquash), _tail(y, reach, above, unsquash))


def _tail(z: Floats, reach: float, room: float, bend: Callable[[Floats, float], Floats]) -> Floats:
    return z if reach <= room else room * bend(z / room, reach / room)
