"""What a fitted model may answer: finite, inside its range and its bounds, and lists that a full sort would give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.fuzz_cases.oracles import REFUSED, BrokenRuleError, Witness, require
from benchmarks.fuzz_cases.values import NO_PAIRS, ODD, PAIRS, Rng, chance, pick, some_ids
from boundrec.models.bounded import BoundedModel
from boundrec.models.implicit import ImplicitMBMF
from boundrec.ranges import check_bounds

#: Cosines of float32 factors may pass 1 by rounding.
ROUNDING = 1e-6


def promised_ends(model: Any) -> tuple[float, float]:
    """The declared ends that a model keeps predictions within; an infinite one is not promised."""
    if model.fitted_.rule is not None:  # ranges of pairs' own, which are looked at there
        return -np.inf, np.inf
    if isinstance(model, ImplicitMBMF):
        return -1.0, 1.0
    low, high = check_bounds(model.bounds)
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    if not isinstance(model, BoundedModel):
        return (low, high) if model.clip else (-np.inf, np.inf)
    if isinstance(model.magnitudes, str) and model.magnitudes == "paper":
        return -np.inf, np.inf
    if model.form == "n":
        return -np.inf, high if np.isfinite(low) else np.inf
    return low, high


def some_pairs(rng: Rng, model: Any) -> tuple[list[Any], list[Any]]:
    """Users and items to ask for, some of them unknown."""
    n = int(rng.integers(1, 9))
    users, items = ([*ids.ids.tolist(), *some_ids(rng, 2, 0.1)] for ids in (model.user_ids_, model.item_ids_))
    return [pick(rng, users) for _ in range(n)], [pick(rng, items) for _ in range(n)]


def contained(rng: Rng, users: list[Any], items: list[Any]) -> Any:
    """Pairs in some container that can hold them."""
    try:
        return PAIRS[pick(rng, list(PAIRS))](users, items)
    except Exception:  # not the library's
        return list(zip(users, items, strict=True))


def has_range(model: Any, pair: tuple[Any, Any]) -> bool:
    """Whether the pair has a range of its own, or all have one."""
    rule = model.fitted_.rule
    return rule is None or not np.isnan(rule.ends([pair[0]], [pair[1]]).lower[0])


# --- predictions --------------------------------------------------------------------------------------------


def check_predictions(witness: Witness, model: Any, rng: Rng) -> None:
    """Predictions, ranges, deviations and quantiles of random pairs."""
    if chance(rng, 0.03):
        witness.call("predict", model.predict, pick(rng, NO_PAIRS))
    pairs = list(zip(*some_pairs(rng, model), strict=True))
    predictions = witness.call("predict", model.predict, pairs)
    if predictions is REFUSED:
        return
    _check_numbers(model, pairs, predictions)
    low, high = promised_ends(model)
    _check_inside("predict", predictions, low, high)
    other = witness.call("predict", model.predict, contained(rng, *map(list, zip(*pairs, strict=True))))
    require(other is REFUSED or len(other) == len(pairs), "predict gives other answers for another container")
    if isinstance(model, BoundedModel):
        _check_ranges(witness, model, pairs, predictions)
        if hasattr(model, "predict_quantiles"):
            _check_distribution(witness, model, rng, pairs, predictions)


def _check_numbers(model: Any, pairs: list[Any], predictions: Any) -> None:
    require(predictions.shape == (len(pairs),), f"predict gives shape {predictions.shape} for {len(pairs)} pairs")
    expected = np.ones(len(pairs), bool)
    if model.on_unknown == "nan":
        expected = ~_unknown(model, pairs)
    require(np.isfinite(predictions[expected]).all(), f"predict gives {predictions} for {pairs!r:.200}")


def _unknown(model: Any, pairs: list[Any]) -> Any:
    users, items = (model.user_ids_.codes([u for u, _ in pairs]), model.item_ids_.codes([i for _, i in pairs]))
    fitted = model.fitted_
    return (users < 0) | ~fitted.users.trained[users] | (items < 0) | ~fitted.items.trained[items]


def _check_inside(door: str, values: Any, low: Any, high: Any) -> None:
    outside = (values < low) | (values > high)
    require(not outside.any(), f"{door} gives {values!s:.200}, outside {low!s:.100} to {high!s:.100}")


def _check_ranges(witness: Witness, model: Any, pairs: list[Any], predictions: Any) -> None:
    answer = witness.call("predict(return_range)", model.predict, pairs, return_range=True)
    require(answer is not REFUSED, f"predict answers, but with return_range refuses: {witness.last_refusal}")
    again, lower, upper = answer
    require(np.array_equal(again, predictions, equal_nan=True), "predict(return_range=True) predicts other bits")
    require(np.isfinite(lower).all() and np.isfinite(upper).all(), f"ranges from {lower} to {upper}")
    _check_inside("predict", predictions, lower, upper)
    ends = witness.call("predict_range", model.predict_range, pairs)
    require(ends is not REFUSED and np.array_equal(ends, (lower, upper)), "predict_range gives another range")
    low, high = promised_ends(model)
    _check_inside("predict_range", lower, low, np.inf)
    rule = model.fitted_.rule
    if rule is not None:
        ends = rule.ends([user for user, _ in pairs], [item for _, item in pairs])
        _check_inside("predict", predictions, ends.lower, ends.upper)
    _check_inside("predict_range", upper, -np.inf, high)


def _check_distribution(witness: Witness, model: Any, rng: Rng, pairs: list[Any], predictions: Any) -> None:
    answer = witness.call("predict(return_std)", model.predict, pairs, return_std=True)
    require(answer is not REFUSED, f"predict answers, but with return_std refuses: {witness.last_refusal}")
    std = answer[1]
    require(np.isfinite(std).all() and (std >= 0).all(), f"return_std gives {std}")
    asked = pick(rng, ODD) if chance(rng, 0.2) else sorted(rng.random(3).tolist())
    found = witness.call("predict_quantiles", model.predict_quantiles, pairs, asked)
    if found is not REFUSED:
        lower, upper = model.predict_range(pairs)
        require(np.isfinite(found).all(), f"predict_quantiles gives {found}")
        _check_inside("predict_quantiles", found, lower[:, None], upper[:, None])
        require((np.diff(found, axis=1) >= 0).all(), f"quantiles {asked} fall: {found}")


# --- lists --------------------------------------------------------------------------------------------------


def check_lists(witness: Witness, model: Any, rng: Rng) -> None:
    """Lists of random users against a full sort of all predictions, equal ones in the order of the items."""
    known = model.item_ids_.ids
    trained = np.flatnonzero(model.fitted_.items.trained)
    users = _some_users(rng, model)
    n = pick(rng, [*ODD, 10**8, 10**30]) if chance(rng, 0.1) else int(rng.integers(1, len(known) + 3))
    asked: dict[str, Any] = {"n": n, "exclude_seen": chance(rng, 0.5)}
    allowed = trained
    if chance(rng, 0.2):
        allowed = rng.permutation(trained)[: int(rng.integers(0, len(trained) + 1))]
        asked["candidates"] = known[allowed]
    if chance(rng, 0.2):
        left_out = rng.permutation(len(known))[: int(rng.integers(0, len(known) + 1))]
        asked["exclude"] = known[left_out].tolist()
        allowed = np.setdiff1d(allowed, left_out)
    if chance(rng, 0.05):
        asked[pick(rng, ["candidates", "exclude", "output", "exclude_seen"])] = pick(rng, ODD)
        witness.call("recommend", model.recommend, users, **asked)
        return
    answer = witness.call("recommend", model.recommend, users, **asked)
    if answer is REFUSED:
        return
    everybody = model.user_ids_.ids.tolist() if users is None else users
    expected = [_full_sort(model, user, np.sort(allowed), asked["exclude_seen"], n) for user in everybody]
    _compare_lists(everybody, answer, expected, asked)
    if chance(rng, 0.3):
        _check_other_outputs(witness, model, rng, users, asked, expected)


def _some_users(rng: Rng, model: Any) -> list[Any] | None:
    known = model.user_ids_.ids.tolist()
    if chance(rng, 0.3):
        return None
    chosen = [pick(rng, known) for _ in range(int(rng.integers(1, 4)))]
    return chosen + (some_ids(rng, 1, 0.2) if chance(rng, 0.2) else [])


def _full_sort(model: Any, user: Any, allowed: Any, exclude_seen: bool, n: int) -> list[tuple[Any, float]]:
    row = int(model.user_ids_.codes([user])[0])
    if exclude_seen and row >= 0:
        seen = model.fitted_.seen
        allowed = np.setdiff1d(allowed, seen.indices[seen.indptr[row] : seen.indptr[row + 1]])
    if not allowed.size:
        return []
    items = [model.item_ids_.ids[code] for code in allowed]
    items = [item for item in items if has_range(model, (user, item))]
    if not items:
        return []
    scores = model.predict([(user, item) for item in items])
    if np.isnan(scores).all():  # on_unknown="nan": an empty list
        return []
    best = np.lexsort((np.arange(len(items)), -scores))[:n]
    return [(items[place], float(scores[place])) for place in best]


def _compare_lists(users: list[Any], answer: Any, expected: list[list[tuple[Any, float]]], asked: Any) -> None:
    items, scores = answer
    require(len(items) == len(scores) == len(users), f"recommend gives {len(items)} lists for {len(users)} users")
    for user, row, row_scores, right in zip(users, items, scores, expected, strict=True):
        there = ~np.isnan(row_scores)
        found = list(zip(row[there].tolist(), row_scores[there].tolist(), strict=True))
        right = [(_plain(item), score) for item, score in right]
        if found != right:
            told = f"gives user {user!r:.50} the list {found}, a full sort {right}"
            raise BrokenRuleError(f"recommend({asked!r:.200}) {told}")


def _plain(one: Any) -> Any:
    return one.item() if isinstance(one, np.int64) else one


def _check_other_outputs(
    witness: Witness, model: Any, rng: Rng, users: Any, asked: dict[str, Any], expected: Sequence[Any]
) -> None:
    """A frame has the same rows; batches have them one after the other."""
    output = pick(rng, ["pandas", "polars", "pyarrow"])
    frame = witness.call(f"recommend(output={output!r})", model.recommend, users, **asked, output=output)
    if frame is not REFUSED:
        columns = {name: frame[name].to_numpy() for name in ("rank", "score", "lower", "upper")}
        right = [score for one in expected for _, score in one]
        require(columns["score"].tolist() == right, f"recommend(output={output!r}) has other scores")
        _check_inside("recommend", columns["score"], columns["lower"], columns["upper"])
    batches = witness.call("recommend_batches", lambda: list(model.recommend_batches(users, **asked, batch_size=2)))
    if batches is not REFUSED:
        found = [score for _, _, scores in batches for score in scores[~np.isnan(scores)].tolist()]
        require(found == [score for one in expected for _, score in one], "recommend_batches has other scores")


# --- neighbours and vectors ---------------------------------------------------------------------------------


def check_neighbours(witness: Witness, model: Any, rng: Rng) -> None:
    """Similar items and users."""
    kind = pick(rng, ["item", "user"])
    ids = getattr(model, f"{kind}_ids_").ids.tolist()
    one = pick(rng, ODD) if chance(rng, 0.2) else pick(rng, ids)
    n = pick(rng, ODD) if chance(rng, 0.1) else int(rng.integers(1, 10))
    door = f"similar_{kind}s"
    answer = witness.call(door, getattr(model, door), one, n)
    if answer is not REFUSED:
        found, cosines = answer
        require(len(found) == len(cosines) <= len(ids) - 1, f"{door} finds {found}")
        require((np.abs(cosines) <= 1 + ROUNDING).all(), f"{door} gives {cosines}")
        require((np.diff(cosines) <= 0).all(), f"{door} is not in order: {cosines}")
        require(one not in found.tolist(), f"{door} finds the one asked for")


def check_vectors(witness: Witness, model: Any, rng: Rng) -> None:
    """Vectors for an index: finite, one for each id."""
    vectors = witness.call("export_vectors", model.export_vectors)
    if vectors is not REFUSED:
        require(np.isfinite(vectors.users).all() and np.isfinite(vectors.items).all(), "export_vectors is not finite")
        require(len(vectors.users) == len(vectors.user_ids), "export_vectors has other ids than users")
