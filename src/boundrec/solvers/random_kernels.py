"""Compiled random numbers: streams of bits, normal numbers, and normal numbers within an interval.

A stream is one integer in an array. Every loop of proposals has an end, after which the distribution function is
inverted.
"""

from math import erf, erfc

import numpy as np

from boundrec.solvers.compiling import part
from boundrec.solvers.kernels import MAX_NEWTON

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
#: Proposals for one number, of which one in three or more is accepted, before the distribution function is inverted:
#: that they all fail by chance is next to impossible, but far out in the tails rounding lets none pass.
_PROPOSALS = 100


@part
def _mixed(z):
    """The 64 random bits of a state, by Splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@part
def next_bits(state):
    """Advance the state and return 64 random bits."""
    state[0] += _GOLDEN
    return _mixed(state[0])


@part
def uniform(state):
    """A number in (0, 1), ends excluded."""
    return (np.float64(next_bits(state) >> np.uint64(11)) + 0.5) * 2.0**-53


def _layers():
    """The normal's density e^{−x²/2} cut into 256 layers of equal area (Marsaglia and Tsang 2000): edges and heights.

    The first is the rectangle below the tail beyond ``_TAIL``, together with that tail; its edge is as long as the
    rectangle would be without it.
    """
    density = np.exp(-0.5 * _TAIL**2)
    area = _TAIL * density + np.sqrt(0.5 * np.pi) * erfc(_TAIL * np.sqrt(0.5))
    edges = np.zeros(257)
    edges[0], edges[1] = area / density, _TAIL
    for i in range(2, 256):
        edges[i] = np.sqrt(-2.0 * np.log(np.exp(-0.5 * edges[i - 1] ** 2) + area / edges[i - 1]))
    return edges, np.exp(-0.5 * edges**2)


#: Where the tail begins for which 256 layers fill the density to its top.
_TAIL = 3.6541528853610088
_EDGES, _HEIGHTS = _layers()


@part
def _place(bits):
    """A layer, and a share within [−1, 1) of its width, from bits of their own."""
    return np.int64(bits & np.uint64(255)), np.float64(np.int64(bits) >> np.int64(11)) * 2.0**-52


@part
def _normal_at(state, layer, share):
    """A standard normal number from a place that need not lie below the density: if it does not, from another."""
    for _ in range(_PROPOSALS):
        x = share * _EDGES[layer]
        if abs(x) < _EDGES[layer + 1]:
            return x
        if layer == 0:
            tail = _tail_normal(state, _TAIL, np.inf)
            return tail if share > 0.0 else -tail
        height = _HEIGHTS[layer] + uniform(state) * (_HEIGHTS[layer + 1] - _HEIGHTS[layer])
        if height < np.exp(-0.5 * x * x):
            return x
        layer, share = _place(next_bits(state))
    return _normal_by_inverse(state, -_TAIL, _TAIL)


@part
def fill_normal(state, out):
    """Independent standard normal numbers, each by a place in a layer taken at random.

    Nearly all lie below the density, whatever their height: they are here, and the others apart, so that this is short.
    """
    present = state[0]
    for k in range(out.shape[0]):
        present += _GOLDEN
        layer, share = _place(_mixed(present))
        x = share * _EDGES[layer]
        if not abs(x) < _EDGES[layer + 1]:
            state[0] = present
            x = _normal_at(state, layer, share)
            present = state[0]
        out[k] = x
    state[0] = present


@part
def _mills(x):
    """(1 − Φ(x))/φ(x) for x ≥ 0: by erfc where that has digits left, else by Laplace's continued fraction."""
    if x < 4.0:
        return np.sqrt(0.5 * np.pi) * np.exp(0.5 * x * x) * erfc(x * np.sqrt(0.5))
    denominator = x
    for k in range(30, 0, -1):
        denominator = x + k / denominator
    return 1.0 / denominator


@part
def _log_tail(low, width):
    """log of (1 − Φ(low + width))/(1 − Φ(low)) for low ≥ 0: no difference of large logarithms, however far the tail.

    Short widths by two terms of the series, for the ratio of the tails is then too close to 1.
    """
    hazard = 1.0 / _mills(low)
    if width * hazard < 1e-5:
        return -width * hazard * (1.0 + 0.5 * (hazard - low) * width)
    return -width * (low + 0.5 * width) + np.log(_mills(low + width) * hazard)


@part
def _tail_by_inverse(share, low, high):
    """The number with this share of the normal's mass within [low, high] below it, 0 ≤ low < high.

    Newton's method on the logarithm of the tail, which is concave: from the right it comes down to the root.
    """
    width = high - low
    wanted = np.log1p(share * np.expm1(_log_tail(low, width)))
    step = min(-wanted * _mills(low), width)
    for _ in range(MAX_NEWTON):
        change = (_log_tail(low, step) - wanted) * _mills(low + step)
        step = min(max(step + change, 0.0), width)
        if not abs(change) > 1e-15 * step:
            break
    return min(low + step, high)


@part
def _tail_normal(state, low, high):
    """A standard normal number within [low, high], 0 ≤ low: exponential or uniform proposals (Robert 1995)."""
    rate = 0.5 * (low + np.sqrt(low * low + 4.0))
    for _ in range(_PROPOSALS):
        if rate * (high - low) > 1.0:
            x = low - np.log(uniform(state)) / rate
            accept = np.exp(-0.5 * (x - rate) * (x - rate))
        else:
            x = low + (high - low) * uniform(state)
            accept = np.exp(0.5 * (low * low - x * x))
        if x <= high and uniform(state) <= accept:
            return x
    return _tail_by_inverse(uniform(state), low, high)


@part
def _normal_by_inverse(state, low, high):
    """A standard normal number within [low, high], which holds zero: one half by its mass, then a place in it."""
    below, above = erf(-low * np.sqrt(0.5)), erf(high * np.sqrt(0.5))
    if uniform(state) * (below + above) < below:
        return -_tail_by_inverse(uniform(state), 0.0, -low)
    return _tail_by_inverse(uniform(state), 0.0, high)


@part
def truncated_normal(state, low, high):
    """A standard normal number within [low, high], exactly; the lower end where nothing lies between the two."""
    if not low < high:
        return low
    if low >= 0.0:
        return _tail_normal(state, low, high)
    if high <= 0.0:
        return -_tail_normal(state, -high, -low)
    for _ in range(_PROPOSALS):  # the interval holds zero
        if high - low > 2.5:
            size = np.sqrt(-2.0 * np.log(uniform(state)))
            x = size * np.cos(2.0 * np.pi * uniform(state))
            if low <= x <= high:
                return x
        else:
            x = low + (high - low) * uniform(state)
            if uniform(state) <= np.exp(-0.5 * x * x):
                return x
    return _normal_by_inverse(state, low, high)
