"""The report of a model on ratings: its error, lists of a few people, where it errs, and how far its ranges reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np

from boundrec import metrics
from boundrec.arrays import Bools, Codes, Floats
from boundrec.data.ratings import Ends
from boundrec.notes import in_a_sentence, percent
from boundrec.report import document, figure, number, plots, sections
from boundrec.report.lists import SampleList, lists_section
from boundrec.report.plots import as_svg
from boundrec.top_n import Seen

#: Where it is told what bounds are to a fit.
CHOOSING_BOUNDS = "https://github.com/boundrec/boundrec/blob/main/docs/choosing-bounds.md#bounds-are-a-promise"
#: Items in each of the two lists, and the ratings that an item needs to be in a list by its error.
LISTED, ENOUGH = 8, 5
#: Ranges that are drawn one by one.
DRAWN = 40
#: Features, and parts of a prediction, in a picture; and the predictions among which one is looked for to explain.
PARTS, EXPLAINED = 12, 50
#: Ratings that are new to a model, below which the page is about all of them; and ratings that a warning needs.
ENOUGH_NEW, ENOUGH_TO_WARN = 100, 20
#: The shares of ratings in intervals of 80 % that are warned of, from below and, of new ratings, from above.
TOO_FEW_INSIDE, TOO_MANY_INSIDE = 0.6, 0.97
#: How many standard deviations the intervals of so many per cent reach.
INTERVALS = {50: 0.6745, 80: 1.2816, 95: 1.96}
MEANING = {
    "std": "std is the mean standard deviation of an item's ratings around their predictions, as the model sees it.",
    "width": "width is the mean width of the ranges of an item's ratings.",
    "RMSE": "RMSE is that of an item's ratings.",
    "std ÷ width": "std ÷ width is the mean standard deviation of an item's ratings around their predictions, each as "
    "a share of the width of its own range.",
    "RMSE ÷ width": "RMSE ÷ width is that of an item's ratings, each error as a share of the width of its range.",
}


@dataclass(frozen=True)
class Judged:
    """Ratings and what the model says about them; arrays with one entry a rating.

    ``std`` is None where the model has none, ``lower`` and ``upper`` where it has no ranges.
    """

    users: Codes  # row numbers in the model, −1 for somebody unknown
    items: Codes
    ratings: Floats
    predictions: Floats
    std: Floats | None
    lower: Floats | None
    upper: Floats | None
    pairs: tuple[Any, Any]  # the ids of users and of items
    seen: Seen  # what the model was fitted to
    known: Bools  # whether that is among it
    drawn_from: int  # of how many ratings these are a random part
    given: Ends | None = None  # the range of each pair that was given, where pairs have ranges of their own
    lists: Sequence[SampleList] = ()  # what some people would get
    sorted_by: str = "predicted rating"  # are they

    def take(self, chosen: Bools) -> Judged:
        """Some of the ratings."""
        arrays = ("users", "items", "ratings", "predictions", "std", "lower", "upper", "known")
        there = {name: getattr(self, name) for name in arrays if getattr(self, name) is not None}
        users, items = (column[chosen] for column in self.pairs)
        given = self.given and self.given.take(chosen)
        return replace(self, **{name: one[chosen] for name, one in there.items()}, pairs=(users, items), given=given)

    def in_interval(self, nominal: int) -> float:
        """The share of ratings that lie in the intervals of so many per cent that the standard deviations give."""
        assert self.std is not None
        return float((np.abs(self.ratings - self.predictions) / self.std <= INTERVALS[nominal]).mean())

    def relative(self, values: Floats) -> Floats:
        """Values as shares of the width of each pair's own range; none where that has no width."""
        assert self.given is not None
        width = self.given.upper - self.given.lower
        return np.divide(values, width, out=np.zeros(width.shape), where=width > 0)


def write_page(model: Any, name: str, source: str, judged: Judged) -> str:
    """The whole page.

    Parameters
    ----------
    model
        A fitted model.
    name, source
        What to call the model and the ratings.
    judged
        The ratings with the model's answers.
    """
    known = judged.known
    held_out = bool(known.mean() < 1 and (~known).sum() >= min(ENOUGH_NEW, known.size))
    left_out = int(known.sum()) if held_out else 0
    judged = judged.take(~known) if left_out else judged
    parts = [
        ("Lists", lists_section(judged.lists, judged.sorted_by)),
        ("Error by rating", _by_rating(judged)),
        ("Error by number of ratings", _by_count(model, judged)),
        ("Convergence", _convergence(model, judged)),
        ("Ranges", _ranges(model, judged)),
        ("The most and the least certain items", _certainty(model, judged)),
        ("What features say", _features(model)),
        ("Why a prediction is what it is", _why(model, judged)),
        ("Settings", _settings(model)),
    ]
    links, body = sections([part for part in parts if part[1]])
    title = f"{name} on {source}"
    opening = (
        f"<h1>{escape(title)}</h1>{_warnings(judged, held_out)}{_cards(model, judged, held_out)}"
        f"{_what_was_seen(judged, float(known.mean()), held_out, left_out)}{links}"
    )
    return document(f"boundrec: {title}", f"{opening}<main>{body}</main>", wide=True)


# --- the head -------------------------------------------------------------------------------------------------


def _cards(model: Any, judged: Judged, held_out: bool) -> str:
    where = "held out" if held_out else "in sample"
    shown = {
        f"RMSE, {where}": number(metrics.rmse(judged.ratings, judged.predictions)),
        f"MAE, {where}": number(metrics.mae(judged.ratings, judged.predictions)),
        "RMSE of their mean": number(float(np.std(judged.ratings))),
        "ratings": f"{len(judged.ratings):,}",
        "users": f"{model.n_users_:,}",
        "items": f"{model.n_items_:,}",
    }
    cards = "".join(f"<div><b>{escape(value)}</b>{escape(label)}</div>" for label, value in shown.items())
    return f'<div class="cards">{cards}</div>'


def _warnings(judged: Judged, held_out: bool) -> str:
    """What makes the rest of the page hardly worth reading; nothing where all is well."""
    if judged.ratings.size < ENOUGH_TO_WARN:
        return ""
    found = []
    error, of_mean = metrics.rmse(judged.ratings, judged.predictions), float(np.std(judged.ratings))
    if error > of_mean:
        found.append(
            f"<b>Worse than the mean</b>: the RMSE is {number(error)}, and to predict the mean of these ratings for "
            f"all of them would have {number(of_mean)}. Are they on the scale that the model was fitted to, and "
            "the columns the same?"
        )
    known = float(((judged.users >= 0) & (judged.items >= 0)).mean())
    if known < 0.5:
        found.append(
            f"<b>Strangers</b>: {percent(1 - known)} of these ratings have a user or an item that the model does not "
            "know. Are the ids written as those that it was fitted to?"
        )
    if judged.std is not None:
        inside = judged.in_interval(80)
        if inside < TOO_FEW_INSIDE or (held_out and inside > TOO_MANY_INSIDE):
            found.append(f"<b>Intervals not to be believed</b>: those of 80 % hold {percent(inside)} of these ratings.")
    if judged.lower is not None and judged.upper is not None:
        outside = float(np.mean((judged.ratings < judged.lower) | (judged.ratings > judged.upper)))
        if outside > 0.5:
            found.append(
                f"<b>Out of reach</b>: {percent(outside)} of the ratings lie outside the ranges that predictions keep."
            )
    return f'<ul class="warnings">{"".join(f"<li>{one}</li>" for one in found)}</ul>' if found else ""


def _what_was_seen(judged: Judged, seen: float, held_out: bool, left_out: int) -> str:
    """Whether the errors are those of a test: a model is at its best on what it has learnt from."""
    known = float(((judged.users >= 0) & (judged.items >= 0)).mean())
    if not held_out:
        much = "all" if seen == 1 else percent(seen)
        text = (
            f"<b>In sample</b>: the model was fitted to {much} of these ratings, so the errors on this page are "
            "smaller than those to expect on new ones. <code>boundrec evaluate</code> holds some out; a "
            "report on ratings that were left out of the fit shows them here."
        )
    else:
        text = "<b>Held out</b>: the model was fitted to none of these ratings, and the errors are those to expect."
    if known < 1:
        text += f" {percent(1 - known)} of them have a user or an item that the model does not know."
    if left_out:
        text += f" Of those that it was given {left_out:,} are left out here, since the model was fitted to them."
    if len(judged.ratings) + left_out < judged.drawn_from:
        drawn = len(judged.ratings) + left_out
        text += f" The page looks at {drawn:,} of {judged.drawn_from:,}, drawn at random."
    return f"<p>{text}</p>"


# --- sections -------------------------------------------------------------------------------------------------


def _convergence(model: Any, judged: Judged) -> str:
    objectives = np.asarray(model.objectives_, np.float64)
    sampled = judged.std is not None
    what = "squared error of each sweep's sample" if sampled else "objective after each sweep"
    if len(objectives) < 2:
        return f"<p>One sweep, with the objective {in_a_sentence(float(objectives[-1]))}.</p>"
    if sampled:
        text = (
            "Each sweep draws another model from those that the ratings allow; the curve levels off, then fluctuates."
        )
    else:
        last = (objectives[-2] - objectives[-1]) / max(abs(objectives[-2]), 1e-300)
        text = f"The last sweep lowered the objective by {100 * last:.2g} %."
    return f"<p>{text}</p>{figure(as_svg(plots.convergence(objectives)), f'The {what}.')}"


def _by_rating(judged: Judged) -> str:
    bins = plots.rating_bins(judged.ratings)
    drawn = figure(
        as_svg(plots.predicted_by_rating(judged.ratings, judged.predictions, bins)),
        "Predictions by rating: the median, and where 9 in 10 lie. On the dashed line they would be right.",
    )
    errors = figure(
        as_svg(plots.errors_by_rating(judged.ratings, judged.predictions, bins)),
        "RMSE by rating, and how many ratings there are.",
    )
    text = "Where the curve is flatter than the dashed line, rare ratings are drawn towards common ones."
    return f'<p>{text}</p><div class="pair">{drawn}{errors}</div>'


def _by_count(model: Any, judged: Judged) -> str:
    indptr, indices = judged.seen
    counts = {"user": np.diff(indptr), "item": np.bincount(indices, minlength=model.n_items_)}
    codes = {"user": judged.users, "item": judged.items}
    of_ratings = {kind: np.where(codes[kind] >= 0, counts[kind][codes[kind]], 0) for kind in counts}
    return figure(
        as_svg(plots.errors_by_count(judged.ratings - judged.predictions, of_ratings)),
        "RMSE by how many ratings the model has learnt from, of the user and of the item; 0 is somebody new.",
    )


def _features(model: Any) -> str:
    """What the features of users and items do to ratings; nothing where the model was fitted without such."""
    effects = getattr(model, "feature_effects_", [])
    if not effects:
        return ""
    shown = sorted(effects, key=lambda effect: -abs(effect.on_ratings))[:PARTS]
    names = [f"{effect.feature} ({effect.side})" for effect in shown]
    drawn = plots.bars(
        names, [effect.on_ratings for effect in shown], [effect.spread for effect in shown], "change of the rating"
    )
    listed = "All" if len(shown) == len(effects) else f"The {len(shown)} largest of {len(effects):,}"
    return figure(
        as_svg(drawn),
        f"{listed} features: how much higher somebody rates, or is rated, by one standard deviation of a number, by "
        "being in a category, or by having a neighbour; with two standard deviations of what the samples say.",
    )


def _why(model: Any, judged: Judged) -> str:
    """The prediction, of some, that is farthest from the usual: in its parts. New pairs first, if there are any."""
    known = (judged.users >= 0) & (judged.items >= 0)
    if not hasattr(model, "explain") or model.fitted_.ratings is None or not known.any():
        return ""
    new = known & ~judged.known
    chosen = np.flatnonzero(new if new.any() else known)[:EXPLAINED]
    users, items = judged.pairs
    ends: Any = [{}] * chosen.size
    if judged.given is not None:
        ends = [{"lower": judged.given.lower[one], "upper": judged.given.upper[one]} for one in chosen]
    pairs = [(users[one], items[one]) for one in chosen]
    whys = [model.explain(*pair, **end) for pair, end in zip(pairs, ends, strict=True)]
    place = int(np.argmax([abs(why.prediction - why.usual) for why in whys]))
    (user, item), why = pairs[place], whys[place]
    parts = [(f"{number(part.rating)} for {part.item}", part.total) for part in why.ratings]
    parts += [(part.name, part.total) for part in why.features]
    parts.sort(key=lambda part: -abs(part[1]))
    shown, others = parts[:PARTS], sum(part for _, part in parts[PARTS:])
    shown += [("all others", others)] * (len(parts) > PARTS) + [("remainder", why.remainder)]
    names, values = zip(*shown, strict=True)
    caption = (
        f"Why {user} gets {in_a_sentence(why.prediction)} for {item}, where somebody typical would get "
        f"{in_a_sentence(why.usual)}: what each of their own ratings and features adds."
    )
    return figure(as_svg(plots.bars(list(names), list(values), None, "adds to the rating")), caption)


def _ranges(model: Any, judged: Judged) -> str:
    if judged.lower is None or judged.upper is None:
        return _declared_bounds(model, judged)
    width = judged.upper - judged.lower
    inside = (judged.lower <= judged.predictions) & (judged.predictions <= judged.upper)
    kept = (judged.lower <= judged.ratings) & (judged.ratings <= judged.upper)
    text = (
        f"<b>{_all_or(inside)} predictions lie inside their ranges</b>: a bounded model cannot leave them. "
        f"{_all_or(kept)} ratings do, too" + (". " if kept.all() else f"; {_why_outside(model, judged, kept)}. ")
    )
    alike = _alike(width)
    if alike:
        text += f"Every range has the same width, {in_a_sentence(float(width[0]))}."
    else:
        low, middle, high = (in_a_sentence(float(q)) for q in np.quantile(width, [0.05, 0.5, 0.95]))
        text += f"Half of the ranges are narrower than {middle}, 9 in 10 between {low} and {high}."
    places = figure(
        as_svg(plots.places_in_range(judged.ratings, judged.predictions, judged.lower, judged.upper)),
        "Where predictions and ratings lie in their ranges, from the lower end to the upper.",
    )
    widths = "" if alike else figure(as_svg(plots.widths(width)), "Widths of the ranges.")
    own = "" if alike else _drawn_in_ranges(judged) + _nearest_to_ends(judged)
    return f'<p>{text}</p>{_coverage(judged)}<div class="pair">{places}{widths}</div>{own}'


def _why_outside(model: Any, judged: Judged, kept: Bools) -> str:
    """What is to be said of ratings outside the ranges that predictions have.

    Where the fit lives around the ratings that it learnt, it reaches less far than what was given allows.
    """
    from boundrec.ranges import check_bounds

    if not model.fitted_.ranges.frame.led:
        return "the others contradict the ranges that the model was given"
    low, high = judged.given or check_bounds(model.bounds)
    contradict = np.zeros(kept.shape, bool)
    for end, sign in ((low, 1), (high, -1)):
        if end is not None:
            contradict |= sign * judged.ratings < sign * end
    contradict &= ~kept
    many = int(contradict.sum())
    beyond = (
        "lie beyond what the fit reaches, which lives around the ratings that it learnt from and not at the ends that "
        f'were given (<a href="{CHOOSING_BOUNDS}">bounds are a promise</a>)'
    )
    if not many:
        return f"the others {beyond}"
    wrong = f"{many:,} contradict the ranges that the model was given"
    rest = kept.size - int(kept.sum()) - many
    return f"{rest:,} {beyond}, and {wrong}" if rest else wrong


def _drawn_in_ranges(judged: Judged) -> str:
    """Some ranges one by one, from the narrowest to the widest."""
    assert judged.lower is not None
    assert judged.upper is not None
    by_width = np.argsort(judged.upper - judged.lower, kind="stable")
    some = by_width[np.unique(np.linspace(0, by_width.size - 1, DRAWN).astype(int))]
    of_pairs = (judged.ratings, judged.predictions, judged.lower, judged.upper)
    return figure(
        as_svg(plots.in_their_ranges(*(column[some] for column in of_pairs))),
        f"{some.size} pairs, each in its own range, from the narrowest to the widest: predictions lie on their bars.",
    )


def _nearest_to_ends(judged: Judged) -> str:
    """The pairs whose predictions are nearest to an end of their range, by the range's width."""
    assert judged.lower is not None
    assert judged.upper is not None
    width = judged.upper - judged.lower
    wide = np.flatnonzero(width > 0)
    place = (judged.predictions - judged.lower)[wide] / width[wide]
    order = wide[np.argsort(place, kind="stable")]
    some = min(LISTED, max(1, order.size // 2))
    shown = {
        "pair": [f"{user} × {item}" for user, item in zip(*judged.pairs, strict=True)],
        "rating": judged.ratings,
        "predicted": judged.predictions,
        "lower": judged.lower,
        "upper": judged.upper,
    }
    return (
        "<p>The pairs whose predictions are nearest to an end of their range, as a share of its width:</p>"
        f'<div class="pair"><div><h3>Nearest to the upper end</h3>{_item_table(shown, order[::-1][:some])}</div>'
        f"<div><h3>Nearest to the lower end</h3>{_item_table(shown, order[:some])}</div></div>"
    )


def _alike(values: Floats) -> bool:
    """Whether values differ by no more than rounding."""
    return bool(np.ptp(values) <= 1e-9 * np.abs(values).max())


def _all_or(mask: Bools) -> str:
    return f"All {mask.size:,}" if mask.all() else f"{int(mask.sum()):,} of {mask.size:,}"


def _declared_bounds(model: Any, judged: Judged) -> str:
    from boundrec.ranges import check_bounds

    low, high = check_bounds(model.bounds)
    if low is None and high is None:
        return "<p>This kind of model has no ranges, and no bounds were declared.</p>"
    outside = metrics.out_of_range_share(judged.predictions, low, high)
    ends = " to ".join("none" if end is None else in_a_sentence(end) for end in (low, high))
    many = percent(outside) if outside else "None"
    return f"<p>This kind of model has no ranges of its own. {many} of the predictions leave the bounds {ends}.</p>"


def _coverage(judged: Judged) -> str:
    """How often ratings lie within a few standard deviations, beside how often they should."""
    if judged.std is None:
        return ""
    held = ", ".join(f"{percent(judged.in_interval(nominal))} in those of {nominal} %" for nominal in INTERVALS)
    return f"<p>Of the ratings, so many lie in the intervals that the standard deviations give: {held}.</p>"


# --- items ----------------------------------------------------------------------------------------------------


def _certainty(model: Any, judged: Judged) -> str:
    """Items by how sure the model is of their ratings: by standard deviation, by width of the range, or by error.

    Where pairs have ranges of their own, by shares of these: otherwise the list would be that of the widest.
    """
    known = judged.items >= 0
    counts = np.bincount(judged.items[known], minlength=model.n_items_)
    values, what, least = judged.std, "std", 1
    if values is None and judged.given is None and judged.lower is not None and judged.upper is not None:
        values, what = judged.upper - judged.lower, "width"
        if _alike(values):
            values = None
    if values is None:
        errors = judged.ratings - judged.predictions
        if judged.given is not None:
            errors = judged.relative(errors)
        values, what, least = errors**2, "RMSE" if judged.given is None else "RMSE ÷ width", ENOUGH
    elif judged.given is not None:
        values, what = judged.relative(values), "std ÷ width"
    mean = np.bincount(judged.items[known], values[known], model.n_items_) / np.maximum(counts, 1)
    score = np.sqrt(mean) if what.startswith("RMSE") else mean
    listed = np.flatnonzero(counts >= least)
    if not len(listed):
        return f"<p>No item has {least} ratings here.</p>"
    order = listed[np.argsort(score[listed], kind="stable")]
    rating = np.bincount(judged.items[known], judged.ratings[known], model.n_items_) / np.maximum(counts, 1)
    shown = {
        "item": model.item_ids_.ids,
        "ratings": counts,
        "mean rating": rating,
        what: score,
    }
    some = min(LISTED, max(1, len(order) // 2))
    note = f" Items with fewer than {least} ratings are left out." if least > 1 else ""
    why = (
        ""
        if not what.startswith("RMSE")
        else "The model is equally sure of all items, so they are told apart by their errors. "
    )
    return (
        f"<p>{why}{MEANING[what]}{note}</p>"
        f'<div class="pair"><div><h3>Most certain</h3>{_item_table(shown, order[:some])}</div>'
        f"<div><h3>Least certain</h3>{_item_table(shown, order[::-1][:some])}</div></div>"
    )


def _item_table(columns: Mapping[str, Any], rows: Sequence[int] | Codes) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = []
    for row in rows:
        first, *others = (column[row] for column in columns.values())
        cells = "".join(f"<td>{number(float(value))}</td>" for value in others)
        lines.append(f"<tr><th>{escape(str(first))}</th>{cells}</tr>")
    body = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="scroll"><table class="items">{body}</table></div>'


def _settings(model: Any) -> str:
    settings = {name: value for name, value in model.get_params().items() if not isinstance(value, (dict, tuple))}
    settings["bounds"] = model.bounds
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(repr(value) if isinstance(value, str) else str(value))}</td></tr>"
        for name, value in sorted(settings.items())
        if np.isscalar(value) or value is None or isinstance(value, (tuple, list))
    )
    return (
        f"<details><summary>{escape(type(model).__name__)}, as it was fitted</summary>"
        f'<div class="scroll"><table><tbody>{rows}</tbody></table></div></details>'
    )
