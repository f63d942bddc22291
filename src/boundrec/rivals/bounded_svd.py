"""Bounded-SVD: a factorisation whose observed predictions are pushed back by exponential walls at the bounds.

By Le, Nguyen and Thawonmas (EITES 2015); with biases, by Le, Mori and Thawonmas (J. Inf. Process. 24(2), 2016).
"""

from __future__ import annotations

from typing import ClassVar

from boundrec.models.settings import check_flag, not_negative, positive, setting
from boundrec.rivals.gradient import GradientModel, Loss

#: The range in which ``penalty`` and ``sharpness`` are measured: that of one to five stars.
USUAL_RANGE = 4.0


class BoundedSVD(GradientModel):
    """Bounded-SVD: squared errors and exponential walls at both bounds, on the observed entries only.

    Minimises Σ_observed (v_ij − p_ij)² + λ(e^{α(p_ij − hi)} + e^{α(lo − p_ij)}) + ridge·(|w_i|² + |h_j|²), where
    p_ij = w_i·h_j, or with biases μ + b_i + c_j + u_i·q_j. (The paper's formula lacks the square and sums over
    all entries: resolution A20.) λ is ``penalty`` and α ``sharpness`` where hi − lo is 4, or with ``scaled=False``.
    Predictions of unobserved pairs may leave the bounds.

    Examples
    --------
    >>> from boundrec import BoundedSVD
    >>> X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    >>> model = BoundedSVD(n_factors=1, bounds=(1, 5), random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    >>> model.predict([("ann", "gin")]).shape
    (1,)
    """

    penalty: float = setting(
        default=0.05,
        rule=not_negative(),
        meaning="λ, how much the walls weigh; with ``scaled`` on a range of 4 such as one to five stars, on others "
        "it is multiplied by ((hi − lo)/4)², the unit of squared errors.",
    )
    sharpness: float = setting(
        default=1.0,
        rule=positive(),
        meaning="α, how steep the walls are; with ``scaled`` on a range of 4: on others it is divided by (hi − lo)/4.",
    )
    scaled: bool = setting(
        default=True,
        rule=check_flag,
        meaning="Whether ``penalty`` and ``sharpness`` go with the width of ``bounds``: a fit to ratings in other "
        "units is the same fit in other units; False takes λ and α as the formula has them, whatever the range.",
    )

    NEEDS_BOUNDS = True
    DEFAULT_RIDGE: ClassVar[dict[str, float]] = {"gd": 0.0, "sgd": 0.0}

    def _loss(self, offset: float) -> Loss:
        from boundrec.rivals.kernels import walled_errors, walled_gradients, walled_sgd_epoch

        low, high = self._both_bounds()
        scale = (high - low) / USUAL_RANGE if self.scaled else 1.0
        walls = float(self.penalty) * scale**2, float(self.sharpness) / scale, low - offset, high - offset
        return Loss(walled_gradients, walled_errors, walled_sgd_epoch, (walls,))
