"""Lists of a few people in a report: what each rated highest, what the model would give them, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from boundrec.arrays import Codes, Floats
from boundrec.notes import in_a_sentence
from boundrec.report import number

#: People whose lists are shown, items in each, and items that each rated highest.
PEOPLE, LENGTH, HIGHEST = 3, 6, 4
#: The quantiles between which an interval lies that holds 8 in 10 ratings.
QUANTILES = (0.1, 0.9)


class SampleList(NamedTuple):
    """One person's list: arrays with one entry an item. ``intervals`` is None where the model is sure of nothing.

    ``rated`` has the person's own ratings in the table that the report is on, by item, the highest first. Those of
    items of the list are new to the model, since lists leave out what it was fitted to.
    """

    user: Any
    n_ratings: int
    rated: Mapping[Any, float]
    items: Sequence[Any]
    raters: Codes
    ratings: Floats
    intervals: Floats | None


def people_to_show(n_ratings: Codes) -> Codes:
    """Some of those with ratings: one with few, one with a usual number, one with many."""
    known = np.flatnonzero(n_ratings)
    by_count = known[np.argsort(n_ratings[known], kind="stable")]
    places = np.linspace(0.1, 0.9, PEOPLE) * (by_count.size - 1)
    return np.asarray(by_count[np.unique(places.round().astype(int))])


def list_for(model: Any, row: int, rated: Mapping[Any, float]) -> SampleList:
    """The list of the user in a row of a model, who has rated these."""
    seen, user = model.fitted_.seen, model.user_ids_.ids[row]
    n_raters = np.bincount(seen.indices, minlength=model.n_items_)
    found, scores = model.recommend([user], LENGTH)
    items = found[0][~np.isnan(scores[0])]
    pairs = [(user, item) for item in items]
    sure = hasattr(model, "predict_quantiles") and len(pairs) > 0
    return SampleList(
        user,
        int(seen.indptr[row + 1] - seen.indptr[row]),
        rated,
        items.tolist(),
        n_raters[model.item_ids_.codes(items)] if len(pairs) else np.empty(0, np.int64),
        model.predict(pairs) if len(pairs) else np.empty(0),
        model.predict_quantiles(pairs, QUANTILES) if sure else None,
    )


def lists_section(lists: Sequence[SampleList], by: str) -> str:
    """All of them, side by side where there is room."""
    shown = [one for one in lists if len(one.items)]
    if not shown:
        return ""
    known = [one.intervals for one in shown if one.intervals is not None]
    scale = (min(ends.min() for ends in known), max(ends.max() for ends in known)) if known else None
    hits = any(item in one.rated for one in shown for item in one.items)
    cards = "".join(_card(one, scale, hits) for one in shown)
    drawn = " The bar is where 8 in 10 such ratings lie, the mark the prediction." if scale else ""
    if hits:
        drawn += " What they rated an item of their list in this table, which the model did not know, is beside it."
    return (
        f"<p>What somebody with few ratings, with a usual number and with many would get, sorted by {escape(by)}."
        f'{drawn}</p><div class="thirds">{cards}</div>'
    )


def _card(one: SampleList, scale: tuple[float, float] | None, hits: bool) -> str:
    highest = ", ".join(map(str, islice(one.rated, HIGHEST)))
    highest = f"; rated highest in this table: {escape(highest)}" if highest else ""
    rows = "".join(_row(one, place, scale, hits) for place in range(len(one.items)))
    rated = "<th>rated</th>" if hits else ""
    ends = "" if scale is None else f"<th>{' to '.join(in_a_sentence(round(float(end), 2)) for end in scale)}</th>"
    return (
        f"<div><h3>{escape(str(one.user))} <small>{one.n_ratings:,} ratings{highest}</small></h3>"
        f'<div class="scroll"><table class="items"><thead><tr><th>item</th><th>rated by</th><th>predicted</th>'
        f"{rated}{ends}</tr></thead><tbody>{rows}</tbody></table></div></div>"
    )


def _row(one: SampleList, place: int, scale: tuple[float, float] | None, hits: bool) -> str:
    figures = f"<td>{int(one.raters[place]):,}</td><td>{float(one.ratings[place]):,.2f}</td>"
    if hits:
        rating = one.rated.get(one.items[place])
        figures += "<td></td>" if rating is None else f"<td>{number(rating)}</td>"
    bar = "" if scale is None or one.intervals is None else _bar(one.intervals[place], one.ratings[place], scale)
    return f"<tr><th>{escape(str(one.items[place]))}</th>{figures}{bar}</tr>"


def _bar(interval: Floats, rating: float, scale: tuple[float, float]) -> str:
    low, high = interval
    first, width = scale[0], (scale[1] - scale[0]) or 1.0

    def at(value: float) -> float:
        return 100 * min(max((float(value) - first) / width, 0.0), 1.0)

    said = f"{low:,.2f} to {high:,.2f}"
    return (
        f'<td class="interval" title="{said}"><span><i style="left:{at(low):.1f}%;right:{100 - at(high):.1f}%"></i>'
        f'<b style="left:{at(rating):.1f}%"></b></span></td>'
    )
