"""Algorithm 1 of the paper as it is printed: dense matrices, three-way tensors, one step for Φ and one for Θ.

Line numbers are those of the printed algorithm, conventions the paper's: Z is the 0/1 mask, H is K × M. Slip A2
(Φ_ap in the last case of the derivative) is corrected and the factor 2 left out, as in the algorithm itself.
"""

from __future__ import annotations

import numpy as np

from boundrec.arrays import Floats


def spherical_to_cartesian(phi: Floats, radius: Floats) -> Floats:
    """W_ak = r_a · sin Φ_a1 ⋯ sin Φ_a,k−1 · cos Φ_ak."""
    n_rows = len(phi)
    sines = np.cumprod(np.column_stack((np.ones(n_rows), np.sin(phi))), axis=1)
    return np.asarray(radius[:, None] * sines * np.column_stack((np.cos(phi), np.ones(n_rows))))


def derivative_tensor(phi: Floats, radius: Floats) -> Floats:
    """GradWwrtPhi: the N × K × (K−1) tensor ∂W_ak/∂Φ_ab, made column by column of Φ as the paper says.

    Replacing sin Φ_ab by cos Φ_ab, and cos Φ_ab by −sin Φ_ab, differentiates the product; entries before b are 0.
    """
    n_rows, n_angles = phi.shape
    sin, cos = np.sin(phi), np.cos(phi)
    ones = np.ones((n_rows, 1))
    tensor = np.zeros((n_rows, n_angles + 1, n_angles))
    for b in range(n_angles):
        sines, cosines = sin.copy(), cos.copy()
        sines[:, b], cosines[:, b] = cos[:, b], -sin[:, b]
        product = np.cumprod(np.hstack((ones, sines)), axis=1)
        product[:, b] = np.prod(sin[:, :b], axis=1)
        tensor[:, :, b] = radius[:, None] * product * np.hstack((cosines, ones))
        tensor[:, :b, b] = 0.0
    return tensor


def masked_product(Z: Floats, W: Floats, H: Floats) -> Floats:
    """Z ∗ (W H)."""
    return np.asarray(Z * (W @ H))


def angle_slope(gradient: Floats, phi: Floats, radius: Floats) -> Floats:
    """Lines 6–8: duplicate the gradient K−1 times, and dot it with the tensor along the factors."""
    duplicated = np.repeat(gradient[:, :, None], phi.shape[1], axis=2)
    return np.asarray(np.sum(duplicated * derivative_tensor(phi, radius), axis=1))


class TensorFormulation:
    """The state of Algorithm 1, and one turn of its loop.

    ``reuse=True`` is what an economical programmer would write instead: Z ∗ V is made once, and Z ∗ (W H) of the
    objective serves the next turn's gradients.
    """

    def __init__(self, V: Floats, Z: Floats, phi: Floats, theta: Floats, radii: tuple[Floats, Floats]) -> None:
        self.V, self.Z, self.phi, self.theta, self.radii = V, Z, phi, theta, radii
        self._update_factors()
        self.masked_ratings = Z * V
        self.product = masked_product(Z, self.W, self.H)

    def _update_factors(self) -> None:
        self.W = spherical_to_cartesian(self.phi, self.radii[0])
        self.H = spherical_to_cartesian(self.theta, self.radii[1]).T

    def literal(self, step: float) -> float:
        """Lines 5–14 as printed, then the objective, which the dynamic step needs."""
        Z, V, W, H = self.Z, self.V, self.W, self.H
        gradient_w = masked_product(Z, W, H) @ H.T - (Z * V) @ H.T
        phi = self.phi - step * angle_slope(gradient_w, self.phi, self.radii[0])
        gradient_h = W.T @ masked_product(Z, W, H) - W.T @ (Z * V)
        theta = self.theta - step * angle_slope(gradient_h.T, self.theta, self.radii[1])
        self.phi, self.theta = phi, theta
        self._update_factors()
        return float(np.sum((Z * (V - self.W @ self.H)) ** 2))

    def economical(self, step: float) -> float:
        """The same turn with nothing of the size of V computed twice."""
        error = self.product - self.masked_ratings
        phi = self.phi - step * angle_slope(error @ self.H.T, self.phi, self.radii[0])
        theta = self.theta - step * angle_slope((self.W.T @ error).T, self.theta, self.radii[1])
        self.phi, self.theta = phi, theta
        self._update_factors()
        self.product = masked_product(self.Z, self.W, self.H)
        return float(np.sum((self.product - self.masked_ratings) ** 2))
