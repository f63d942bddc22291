"""MF: the factorisation without bounds, by full-batch gradient descent (the paper's baseline) or Koren's SGD."""

from __future__ import annotations

from boundrec.rivals.gradient import GradientModel, Loss


class MF(GradientModel):
    """Matrix factorisation without bounds: the paper's baseline, or Koren's with biases and ridge.

    Minimises Σ_observed (v_ij − p_ij)² + ridge·(|w_i|² + |h_j|²), where p_ij = w_i·h_j, or with biases
    p_ij = μ + b_i + c_j + u_i·q_j with the mean rating μ (b_i and c_j are penalised like the factors).

    Examples
    --------
    >>> from boundrec import MF
    >>> X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    >>> model = MF(n_factors=1, random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    >>> model.predict([("ann", "gin")]).shape
    (1,)
    """

    def _loss(self, offset: float) -> Loss:
        from boundrec.rivals.kernels import sgd_epoch
        from boundrec.solvers.kernels import row_gradients, squared_errors

        return Loss(row_gradients, squared_errors, sgd_epoch)
