"""Two matrices of ends, ratings between them, and every form in which a model takes such ranges; for tests."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import strategies as st

from boundrec import MBMF, BayesianMBMF, PerItem, PerPair, PerUser

FORMS = (
    "item",
    "item frame",
    "user",
    "pair",
    "pair frame",
    "frame alone",
    "pair with default",
    "function",
    "names",
    "names polars",
    "columns",
    "arguments",
)
#: Models whose every part has a say in what a prediction is.
MODELS = {
    "ball": MBMF(2, max_iter=4, random_state=0),
    "sphere": MBMF(2, constraint="sphere", max_iter=4, random_state=0),
    "restarts": MBMF(2, n_restarts=2, max_iter=3, random_state=0),
    "no biases": MBMF(2, biases=False, ridge=0.0, max_iter=4, random_state=0),
    "no slack": MBMF(3, slack=1.0, max_iter=4, random_state=0),
    "slack": MBMF(2, slack=4.0, max_iter=4, random_state=0),
    "whole range": MBMF(2, magnitudes="range", max_iter=4, random_state=0),
    "bayesian": BayesianMBMF(2, max_iter=6, burn_in=2, n_kept=3, random_state=0),
    "bayesian float64": BayesianMBMF(2, max_iter=6, burn_in=2, n_kept=3, dtype="float64", random_state=0),
}
#: What small and extreme problems may say without a fault: they are not about convergence.
QUIET = (
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:n_factors=",
    "ignore:.*in the table of ranges have no ratings",
)


@dataclass(frozen=True)
class Problem:
    """Matrices of ends over all users and items, the last of each unrated; which pairs are rated, and how."""

    lower: np.ndarray
    upper: np.ndarray
    rated: np.ndarray
    ratings: np.ndarray
    form: str

    @property
    def bounds(self):
        """What the model's setting is."""
        every = np.argwhere(self.lower <= self.upper)
        table = {"lower": self.lower.ravel(), "upper": self.upper.ravel()}
        match self.form:
            case "item" | "user":
                ends = self.ends(np.arange(self.lower.shape[self.form == "item"]))
                return (PerItem if self.form == "item" else PerUser)(ends)
            case "item frame":
                columns = {"lower": self.lower[0], "upper": self.upper[0]}
                return pd.DataFrame({"item": np.arange(self.lower.shape[1]), **columns})
            case "pair":
                return PerPair({(u, i): (self.lower[u, i], self.upper[u, i]) for u, i in every.tolist()})
            case "pair frame":
                return PerPair(pl.DataFrame({"user": every[:, 0], "item": every[:, 1], **table}))
            case "frame alone":
                return pd.DataFrame({"upper": table["upper"], "item": every[:, 1], "user": every[:, 0], **table})
            case "pair with default":
                some = {(u, i): (self.lower[u, i], self.upper[u, i]) for u, i in self.rated.tolist()}
                return PerPair(some, default=(self.lower[-1, -1], self.upper[-1, -1]))
            case "function":
                return lambda users, items: (self.lower[users, items], self.upper[users, items])
            case "names" | "names polars":
                return "least", "seats"
            case "columns":
                return "columns"
        return None

    def ends(self, ids):
        """Ranges by one id, where a form is per user or per item."""
        own = (lambda i: (self.lower[0, i], self.upper[0, i])) if self.form == "item" else None
        own = own or (lambda u: (self.lower[u, 0], self.upper[u, 0]))
        return {int(one): own(one) for one in ids}

    def given(self, pairs):
        """Pairs as the form has them."""
        users, items = pairs.T
        low, high = self.lower[users, items], self.upper[users, items]
        if self.form == "columns":
            return np.column_stack([users, items, low, high])
        if self.form in ("names", "names polars"):
            library = pd if self.form == "names" else pl
            return library.DataFrame({"seats": high, "user": users, "least": low, "item": items})
        return pairs

    def beside(self, pairs):
        """What goes beside X."""
        if self.form != "arguments":
            return {}
        return {"lower": self.lower[tuple(pairs.T)], "upper": self.upper[tuple(pairs.T)]}

    @property
    def listing(self):
        """The rule that lists need, where ranges come with the rows."""
        if self.form in ("names", "names polars", "columns", "arguments"):
            return {"bounds": replace(self, form="function").bounds}
        return {}

    def every_pair(self):
        """All pairs, unknown users and items among them."""
        return np.argwhere(np.ones(self.lower.shape, bool))

    def fit(self, model, **more):
        """The model fitted to the ratings."""
        settings = {**model.get_params(), "bounds": self.bounds, **more}
        return type(model)(**settings).fit(self.given(self.rated), self.ratings, **self.beside(self.rated))

    def predict(self, model, pairs=None, **more):
        """Its predictions, in the shape of the matrices where none are asked for."""
        every = self.every_pair()
        found = model.predict(
            self.given(every if pairs is None else pairs), **self.beside(every if pairs is None else pairs), **more
        )
        return found.reshape(self.lower.shape) if pairs is None and not more else found


def shaped(lower, upper, form, rated):
    """The matrices that a form can tell: one range for each item, or each user, or the default for the unrated."""
    if form.startswith("item"):
        return np.broadcast_to(lower[0], lower.shape), np.broadcast_to(upper[0], upper.shape)
    if form == "user":
        return (np.broadcast_to(end[:, :1], end.shape) for end in (lower, upper))
    if form == "pair with default":
        mask = np.zeros(lower.shape, bool)
        mask[tuple(rated.T)] = True
        return (np.where(mask, end, end[-1, -1]) for end in (lower, upper))
    return lower, upper


def problem_of(lower, upper, shares, rated, form):
    """Ratings at given shares of their ranges."""
    lower, upper = (np.ascontiguousarray(end) for end in shaped(lower, upper, form, rated))
    low, high = lower[tuple(rated.T)], upper[tuple(rated.T)]
    ratings = np.clip(low + (high - low) * shares, low, high)
    return Problem(lower, upper, rated, ratings, form)


@st.composite
def problems(draw, forms=FORMS, scales=(-100, 100), not_negative=False):
    """Ranges of any scale, of no width, below zero, and of tiny widths far away; ratings at their ends, too."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n_users, n_items = draw(st.integers(2, 6)), draw(st.integers(2, 6))
    shape = n_users + 1, n_items + 1
    least, most = scales
    spans = draw(st.sampled_from([(least, most), (0, 0), (least, least), (most, most), (-3, 3)]))
    size = 10.0 ** rng.uniform(*spans, shape)
    kind = rng.choice(draw(st.sampled_from([(0,), (0, 1), (1, 2), (3,), (0, 1, 2, 3)])), shape)
    lower = np.where(rng.random(shape) < 0.5, -size * rng.random(shape), size * rng.random(shape))
    lower = np.where(kind == 3, 0.0, np.abs(lower) if not_negative else lower)
    width = np.where(kind == 1, 0.0, np.where(kind == 2, 1e-12 * size, size))
    width[0, 0] = size[0, 0]  # one range at least has room
    mask = rng.random(shape) < draw(st.sampled_from([0.3, 0.7, 1.0]))
    mask[-1] = mask[:, -1] = False
    mask[:-1, 0] = mask[0, :-1] = True  # everybody else is known
    rated = np.argwhere(mask)
    shares = rng.choice([0.0, 0.2, 0.5, 1.0, rng.random()], len(rated))
    return problem_of(lower, lower + width, shares, rated, draw(st.sampled_from(forms)))


def inside(values, lower, upper):
    """Finite, and between two ends in floating point."""
    return bool(np.all(np.isfinite(values) & (lower <= values) & (values <= upper)))
