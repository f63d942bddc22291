"""How good, how stable and how bounded predictions are: arrays in, numbers out.

Ratings and predictions are always on the original scale: add a shift or a centre back before measuring.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boundrec.data.ids import IdIndex

Average = Literal["micro", "macro"]

Numbers = NDArray[np.float64]
Codes = NDArray[np.intp]
UserMean = ArrayLike | Mapping[Any, float]
#: A rating this far outside its range, relative to both, is inside: an end is a product of roots.
ROUNDING = 1e-9
Ids = Any  #: one column of ids: an array, a series or a list


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
    rating = _finite(rating, "rating")
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
    predictions = _finite(predictions, "predictions", ndim=None)
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
    p = _finite(p, "p", ndim=None)
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
    y = _finite(y, "y")
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
    scores = _finite(scores, "scores", ndim=2)
    n = scores.shape[1] if n is None else n
    if not 1 <= n <= scores.shape[1]:
        raise ValueError(f"n={n} does not fit lists of {scores.shape[1]} scores. Pass 1 to {scores.shape[1]}.")
    top = np.sort(np.partition(scores, -n, axis=1)[:, -n:], axis=1)
    same = top[:, 1:] == top[:, :-1]
    tied = np.zeros(top.shape, dtype=bool)
    tied[:, 1:] |= same
    tied[:, :-1] |= same
    return float(tied.mean())


# --- ranking: top lists against held-out items ----------------------------------------------------------------


def ndcg_at_k(
    user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None = None, *, gain: ArrayLike | None = None
) -> float:
    """Normalised discounted cumulative gain of top lists against held-out items, averaged over users.

    NDCG@k = DCG@k / IDCG@k, where DCG@k = Σ_{rank ≤ k} gain(rank) / log₂(rank + 1) over the list and IDCG@k is the
    same over the best order of the user's held-out items. An item that was not held out gains nothing. Users
    without a positive gain cannot tell a good order from a bad one and are left out.

    Parameters
    ----------
    user, item : array
        The held-out pairs of ids, each once.
    users : array
        The user of each list. Lists of users without held-out pairs are left out, as are pairs without a list.
    lists : array, users × places
        Item ids, best first, as ``recommend`` and `lists_by_score` give them; what pads a short list is no item.
    k : int, optional
        Look at the first k places of each list; at all by default.
    gain : array of float, optional
        What each held-out pair is worth, at least 0, such as its rating above the lowest; 1 by default.

    Returns
    -------
    float
        Between 0 and 1.
    """
    found = _find_held_out(user, item, users, lists, k, gain)
    n_lists, n_places = found.gains.shape
    best_first = np.lexsort((-found.gain, found.list_of_pair))
    rank = _place_in_group(found.list_of_pair[best_first])
    near = rank < found.k
    worth = found.gain[best_first][near] * _discount(rank[near])
    ideal = np.bincount(found.list_of_pair[best_first][near], worth, n_lists)
    tells = ideal > 0
    if not tells.any():
        raise ValueError("Every gain is 0, so no order is better than another. Pass a positive gain for some pair.")
    return float(np.mean((found.gains @ _discount(np.arange(n_places)))[tells] / ideal[tells]))


def recall_at_k(user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None = None) -> float:
    """Share of a user's held-out items that are in the first k places of the list, averaged over users.

    recall@k = |list@k ∩ held out| / |held out|. Parameters are those of `ndcg_at_k`; pass as held out what a good list
    should have in it, such as the items with high ratings.
    """
    found = _find_held_out(user, item, users, lists, k)
    n_held = np.bincount(found.list_of_pair, minlength=len(found.gains))
    return float(np.mean(found.gains.sum(axis=1)[n_held > 0] / n_held[n_held > 0]))


def precision_at_k(user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None = None) -> float:
    """Share of the first k places of a list that have a held-out item, averaged over users with such items.

    precision@k = |list@k ∩ held out| / k, so that a list shorter than k cannot reach 1. Parameters are those of
    `recall_at_k`.
    """
    found = _find_held_out(user, item, users, lists, k)
    return float(np.mean(found.gains.sum(axis=1)[np.unique(found.list_of_pair)] / found.k))


def mrr(user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None = None) -> float:
    """Mean reciprocal rank: 1 / rank of the first held-out item in each list, 0 where the first k places have none.

    Parameters are those of `recall_at_k`.
    """
    found = _find_held_out(user, item, users, lists, k)
    reciprocal = found.gains.max(axis=1) / (found.gains.argmax(axis=1) + 1)
    return float(np.mean(reciprocal[np.unique(found.list_of_pair)]))


def lists_by_score(user: Ids, item: Ids, score: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Lists of scored pairs, the best of each user first: to rank the held-out items alone, and not all items.

    Parameters
    ----------
    user, item : array
        Pairs of ids, such as those held out.
    score : array of float
        What each pair is ranked by, such as its prediction. Equal scores stay in the order of the pairs.

    Returns
    -------
    users, lists : array
        As the measures above take them. Short lists are padded with None.
    """
    score = _finite(score, "score")
    users, row = IdIndex.encode(_ids(user, "user", score.size), "user")
    items, column = IdIndex.encode(_ids(item, "item", score.size), "item")
    order = np.lexsort((-score, row))
    lists = np.full((len(users), int(np.bincount(row).max())), None, dtype=object)
    lists[row[order], _place_in_group(row[order])] = items.ids[column[order]]
    return users.ids, lists


class _Found(NamedTuple):
    """What top lists have of the held-out items."""

    gains: Numbers  #: of each place of each list, 0 where no held-out item stands
    list_of_pair: Codes  #: which list each held-out pair belongs to; pairs without a list are left out
    gain: Numbers  #: of each of those pairs
    k: int


def _find_held_out(
    user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None, gain: ArrayLike | None = None
) -> _Found:
    shown = np.asarray(lists, dtype=object if isinstance(lists, list) else None)
    if shown.ndim != 2 or not shown.size:
        raise ValueError(f"lists has shape {shown.shape}. Pass one row of item ids per user, best first.")
    k = shown.shape[1] if k is None else k
    if not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k={k!r} places cannot be looked at. Pass a whole number from 1.")
    held_user = _ids(user, "user")
    worth = np.ones(len(held_user)) if gain is None else _finite(gain, "gain")
    if worth.shape != (len(held_user),) or worth.min() < 0:
        raise ValueError(
            f"{len(held_user):,} held-out pairs and {worth.size:,} gains, the least {worth.min():g}. "
            "Pass one gain of at least 0 per pair."
        )
    owners, code = IdIndex.encode(_ids(users, "users", len(shown)), "user")
    if len(owners) < len(code):
        raise ValueError(f"{len(code):,} lists of {len(owners):,} users. Pass one list per user.")
    items, column = IdIndex.encode(_ids(item, "item", len(held_user)), "item")
    row = owners.codes(held_user)
    has_list = row >= 0
    if not has_list.any():
        raise ValueError("No list belongs to a user with held-out items. Pass the lists of such users.")
    pair = (row * len(items) + column)[has_list]
    order = np.argsort(pair)
    pairs, worth = pair[order], worth[has_list]
    shown_item = items.codes(shown[:, :k].ravel()).reshape(len(shown), -1)
    wanted = np.where(shown_item >= 0, np.arange(len(shown))[:, None] * len(items) + shown_item, -1)
    place = np.minimum(np.searchsorted(pairs, wanted), pairs.size - 1)
    hit = pairs[place] == wanted
    for name, keys in (("held out", pairs), ("in a list", np.sort(wanted[hit]))):
        if (keys[1:] == keys[:-1]).any():
            raise ValueError(f"A pair is {name} more than once. Pass each pair once.")
    return _Found(np.where(hit, worth[order][place], 0.0), row[has_list], worth, int(k))


def _discount(rank: NDArray[np.integer]) -> Numbers:
    """1 / log₂(rank + 1) for ranks from 1, here counted from 0."""
    return np.asarray(1.0 / np.log2(rank + 2.0))


def _place_in_group(group: NDArray[np.integer]) -> Codes:
    """0, 1, 2 … within each run of equal numbers; groups are sorted."""
    return np.arange(group.size) - np.searchsorted(group, group)


def _ids(column: Ids, name: str, size: int | None = None) -> NDArray[Any] | list[Any]:
    """A column of ids; a list keeps the type of each."""
    ids = column if isinstance(column, list) else np.asarray(column)
    if not isinstance(ids, list) and ids.ndim != 1:
        raise ValueError(f"{name} has shape {ids.shape}. Pass one column of ids.")
    if not len(ids):
        raise ValueError(f"{name} is empty. Pass at least one id.")
    if size is not None and len(ids) != size:
        raise ValueError(f"{name} has {len(ids):,} ids where {size:,} are needed. Pass one for each.")
    return ids


# --- checks ---------------------------------------------------------------------------------------------------


def _ratings_and_predictions(y: ArrayLike, p: ArrayLike) -> tuple[Numbers, Numbers]:
    y, p = _finite(y, "y"), _finite(p, "p")
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
        return _finite([mean[u] for u in ids.tolist()], name)[position]
    threshold = _finite(mean, name)
    if threshold.shape != user.shape:
        raise ValueError(
            f"{name} has shape {threshold.shape} for {user.size:,} entries. Pass one mean per entry "
            "(user_means(...)[user]) or a mapping from user to mean."
        )
    return threshold


def _bound(bound: ArrayLike, name: str, p: Numbers) -> Numbers:
    bound = np.asarray(bound, dtype=np.float64)
    if np.isnan(bound).any():
        raise ValueError(f"{name} has NaN. Pass numbers, or None for an open end.")
    try:
        return np.broadcast_to(bound, p.shape)
    except ValueError:
        raise ValueError(
            f"{name} has shape {bound.shape} and what it bounds has {p.shape}. Pass a number or one bound for each."
        ) from None


def _finite(values: ArrayLike, name: str, ndim: int | None = 1) -> Numbers:
    array = np.asarray(values, dtype=np.float64)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} has shape {array.shape}. Pass an array with {ndim} dimension{'s'[: ndim > 1]}.")
    if not array.size:
        raise ValueError(f"{name} is empty. Pass at least one value.")
    bad = ~np.isfinite(array)
    if bad.any():
        first = np.unravel_index(int(bad.argmax()), array.shape)
        raise ValueError(
            f"{name} has {int(bad.sum()):,} values that are NaN or infinite (first: {array[first]} at "
            f"{', '.join(map(str, first))}). Remove those entries, or see why the model made them."
        )
    return array


def _user_codes(user: ArrayLike, n_entries: int) -> Codes:
    user = np.asarray(user)
    if user.shape != (n_entries,) or not np.issubdtype(user.dtype, np.integer) or user.min() < 0:
        raise ValueError(
            f"user has shape {user.shape} and type {user.dtype} for {n_entries:,} ratings. "
            "Pass one integer code from 0 per rating."
        )
    return user.astype(np.intp, copy=False)
