"""Rows of `BayesianMBMF` that come after the fit: where they start, and the half-step of the sampler on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from boundrec.models.base import Codes, Floats
from boundrec.models.gibbs import KeptSide, Prior, Rows, draw_rows
from boundrec.models.new_rows import HELD, OTHER, Learned, averaged_models
from boundrec.parallel import RowPool
from boundrec.ratings import Csr


def start_from_priors(model: Any, kind: str, magnitudes: Floats) -> Learned:
    """Somebody unknown: what each sample's prior expects."""
    factors, prior = getattr(model, f"{kind}_factors_"), _priors(model, kind)
    unknown = Rows.of(factors, prior, HELD[kind])
    radius = np.sqrt(model.slack_) * magnitudes[:, None]
    one_by_one = [
        Rows.of(factors[:, : 2 + model.n_factors], Prior(*each), HELD[kind]) for each in zip(*prior, strict=True)
    ]
    biases = np.array([rows.unknown[HELD[OTHER[kind]]] for rows in one_by_one])
    learned = {
        "factors_": radius * unknown.unknown,
        "biases_": radius * biases,
        "spread_": radius**2 * unknown.unknown_spread,
    }
    return {f"{kind}_{name}": rows.astype(factors.dtype) for name, rows in learned.items()}


def draw_from_priors(model: Any, kind: str, rows: Codes, csr: Csr) -> None:
    """The half-step of the sampler on some rows, in place: each sample's conditional mean, by its prior and noise.

    Draws are keyed by row, from a seed of their own: the same ratings give the same rows.
    """
    variances, factors = model.noise_variances_, getattr(model, f"{kind}_factors_")
    kept = KeptSide(len(rows), model.n_factors, len(variances), HELD[kind], factors.dtype)
    priors = (Prior(*each) for each in zip(*_priors(model, kind), strict=True))
    rng = np.random.default_rng(0)
    with RowPool(model.n_jobs, csr.indices.size) as pool:
        models = averaged_models(model, kind, rows, csr, np.float64)
        for (side, other), prior, variance in zip(models, priors, variances, strict=True):
            kept.add(side, draw_rows(side, other, prior, 1.0 / variance, pool, rng, True))
    for name, learned in (("factors_", kept.stacked()), ("biases_", kept.biases()), ("spread_", kept.spread())):
        getattr(model, f"{kind}_{name}")[rows] = learned


def _priors(model: Any, kind: str) -> Prior:
    return Prior(getattr(model, f"{kind}_prior_means_"), getattr(model, f"{kind}_prior_precisions_"))
