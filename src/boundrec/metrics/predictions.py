"""How good, how stable and how bounded predictions are: arrays in, numbers out.

Ratings and predictions are always on the original scale: add a shift or a centre back before measuring.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boundrec.metrics.checks import Numbers, finite, numbers

Average = Literal["micro", "macro"]

Codes = NDArray[np.intp]
UserMean = ArrayLike | Mapping[Any, float]
#: A rating this far outside its range, relative to both, is inside: an end is a product of roots.
ROUNDING = 1e-9


def rmse(y: ArrayLike, p: ArrayLike) -> float:
    """Root mean square error of predictions p of ratings y: sqrt(mean((y − p)²))."""
    y, p = _ratings_and_predictions(y, p)
    return float(np.sqrt(np.mean((y - p) ** 2)))


def mae(y: ArrayLike, p: ArrayLike) -> float:
    """Mean absolute error of predictions p of ratings y: mean(|y − p|)."""
    y, p = _ratings_and_predictions(y, p)
    return float(np.mean(np.abs(y - p)))


def user_means(user: ArrayLike, rating: ArrayLike, n_users: int) -> Numbers:
    """Mean rating of each user, and the mean of all ratings for users without any.

    Parameters
    ----------
    user : array of int
        Codes from 0 to n_users − 1, one per rating.
    rating : array of float
        The ratings: those of training for the usual threshold of `f1`.
    n_users : int
        Number of users.

    Returns
    -------
    array of float
        One mean per user code.
    """
    rating = finite(rating, "rating")
    user = _user_codes(user, rating.size)
    if user.max() >= n_users:
        raise ValueError(f"User code {user.max()} does not fit n_users={n_users}. Pass a larger n_users.")
    count = np.bincount(user, minlength=n_users)
    total = np.bincount(user, weights=rating, minlength=n_users)
    return np.where(count > 0, total / np.maximum(count, 1), rating.mean())


def f1(
    y: ArrayLike,
    p: ArrayLike,
    user: ArrayLike,
    user_mean: UserMean,
    *,
    predicted_mean: UserMean | None = None,
    average: Average = "micro",
) -> float:
    """F1 score of the recommendations: entries above their user's mean, as rated against as predicted.

    An entry is recommended when it is strictly greater than the mean. F1 = 2 TP / (2 TP + FP + FN), which is
    2 · precision · recall / (precision + recall), and 0 where nothing is recommended either way.

    The paper does not say whose average it takes. The usual choice is the mean of the user's training
    ratings: ``user_means(train_user, train_rating, n_users)[user]``. Means of test ratings or of all
    ratings are passed in the same way.

    Parameters
    ----------
    y, p : array of float
        Ratings and predictions.
    user : array
        The user of each entry.
    user_mean : array of float or mapping
        The threshold of each entry, or a mapping from user to mean.
    predicted_mean : array of float or mapping, optional
        Another threshold for the predictions, such as the user's mean prediction; the same by default.
    average : {"micro", "macro"}
        "micro" counts all entries together; "macro" averages the scores of the users who rated something
        above their mean.

    Returns
    -------
    float
        Between 0 and 1.
    """
    if average not in get_args(Average):
        raise ValueError(f"average={average!r} is not known. Pass 'micro' or 'macro'.")
    y, p = _ratings_and_predictions(y, p)
    user = np.asarray(user)
    if user.shape != y.shape:
        raise ValueError(f"user has shape {user.shape} and y has {y.shape}. Pass the user of every entry.")
    liked = y > _thresholds(user_mean, user, "user_mean")
    recommended = p > _thresholds(user_mean if predicted_mean is None else predicted_mean, user, "predicted_mean")
    group = np.unique(user, return_inverse=True)[1] if average == "macro" else np.zeros(y.size, dtype=np.intp)
    true_positive = np.bincount(group, weights=liked & recommended)
    n_liked, n_recommended = np.bincount(group, weights=liked), np.bincount(group, weights=recommended)
    defined = n_liked > 0  # a user who liked nothing says nothing about recall
    if not defined.any():
        return 0.0
    return float(np.mean(2 * true_positive[defined] / (n_liked + n_recommended)[defined]))


def variation(predictions: ArrayLike) -> tuple[float, float]:
    """Mean and maximum over entries of the standard deviation over restarts: the paper's ave(σ) and max(σ).

    Parameters
    ----------
    predictions : array of float
        One row of predictions of the same entries per restart; the deviation is taken along this first axis.

    Returns
    -------
    mean, maximum : float
    """
    predictions = finite(predictions, "predictions", ndim=None)
    if predictions.ndim < 2 or len(predictions) < 2:
        raise ValueError(f"predictions has shape {predictions.shape}. Pass one row per restart, at least two of them.")
    deviation = predictions.std(axis=0)
    return float(deviation.mean()), float(deviation.max())


def out_of_range_share(p: ArrayLike, lower: ArrayLike | None, upper: ArrayLike | None) -> float:
    """Share of predictions below `lower` or above `upper`; the ends themselves are inside.

    Parameters
    ----------
    p : array of float
        Predictions, of any shape.
    lower, upper : float, array of float or None
        Bounds: numbers, arrays that broadcast to p's shape, or None for an open end.
    """
    p = finite(p, "p", ndim=None)
    outside = np.zeros(p.shape, dtype=bool)
    if lower is not None:
        outside |= p < _bound(lower, "lower", p)
    if upper is not None:
        outside |= p > _bound(upper, "upper", p)
    return float(outside.mean())


def coverage_and_width(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[float, float]:
    """How good ranges are: the share of ratings inside their own range, and the mean width of these ranges.

    One is worth nothing without the other: the declared range covers everything, and a point is as narrow as can be.

    Parameters
    ----------
    y : array of float
        Ratings, best such as the ranges were not made of.
    lower, upper : float or array of float
        The range of each, as ``predict_range`` gives them. The ends are inside, with room for rounding.

    Returns
    -------
    coverage, width : float
        The width is infinite where a range is.
    """
    y = finite(y, "y")
    lower, upper = _bound(lower, "lower", y), _bound(upper, "upper", y)
    turned = lower > upper
    if turned.any():
        first = int(turned.argmax())
        raise ValueError(
            f"{int(turned.sum()):,} ranges begin above their end (first: {lower[first]:g} to {upper[first]:g} at "
            f"{first}). Pass lower ends first."
        )
    width = upper - lower
    room = np.where(np.isfinite(width), ROUNDING * (width + np.abs(y)), 0.0)
    return float(np.mean((y >= lower - room) & (y <= upper + room))), float(width.mean())


def tie_share(scores: ArrayLike, n: int | None = None) -> float:
    """Share of the entries in top-n lists whose score equals that of another entry in the same list.

    Clipping makes such ties, and the order among them is lost.

    Parameters
    ----------
    scores : array of float, lists × entries
        One row of scores per list, in any order.
    n : int, optional
        Look at the n highest scores of each row; at all by default.
    """
    scores = finite(scores, "scores", ndim=2)
    n = scores.shape[1] if n is None else n
    if not 1 <= n <= scores.shape[1]:
        raise ValueError(f"n={n} does not fit lists of {scores.shape[1]} scores. Pass 1 to {scores.shape[1]}.")
    top = np.sort(np.partition(scores, -n, axis=1)[:, -n:], axis=1)
    same = top[:, 1:] == top[:, :-1]
    tied = np.zeros(top.shape, dtype=bool)
    tied[:, 1:] |= same
    tied[:, :-1] |= same
    return float(tied.mean())


# --- checks ---------------------------------------------------------------------------------------------------


def _ratings_and_predictions(y: ArrayLike, p: ArrayLike) -> tuple[Numbers, Numbers]:
    y, p = finite(y, "y"), finite(p, "p")
    if y.shape != p.shape:
        raise ValueError(f"{y.size:,} ratings and {p.size:,} predictions. Pass one prediction per rating.")
    return y, p


def _thresholds(mean: UserMean, user: NDArray, name: str) -> Numbers:
    """One threshold per entry, from an array of them or a mapping by user."""
    if isinstance(mean, Mapping):
        ids, position = np.unique(user, return_inverse=True)
        unknown = [u for u in ids.tolist() if u not in mean]
        if unknown:
            raise ValueError(
                f"{len(unknown)} users are not in {name} (first: {unknown[0]!r}). "
                "Add them, with the mean of all ratings where they have none."
            )
        return finite([mean[u] for u in ids.tolist()], name)[position]
    threshold = finite(mean, name)
    if threshold.shape != user.shape:
        raise ValueError(
            f"{name} has shape {threshold.shape} for {user.size:,} entries. Pass one mean per entry "
            "(user_means(...)[user]) or a mapping from user to mean."
        )
    return threshold


def _bound(bound: ArrayLike, name: str, p: Numbers) -> Numbers:
    bound = numbers(bound, name)
    if np.isnan(bound).any():
        raise ValueError(f"{name} has NaN. Pass numbers, or None for an open end.")
    try:
        return np.broadcast_to(bound, p.shape)
    except ValueError:
        raise ValueError(
            f"{name} has shape {bound.shape} and what it bounds has {p.shape}. Pass a number or one bound for each."
        ) from None


def _user_codes(user: ArrayLike, n_entries: int) -> Codes:
    user = np.asarray(user)
    if user.shape != (n_entries,) or not np.issubdtype(user.dtype, np.integer) or user.min() < 0:
        raise ValueError(
            f"user has shape {user.shape} and type {user.dtype} for {n_entries:,} ratings. "
            "Pass one integer code from 0 per rating."
        )
    return user.astype(np.intp, copy=False)
