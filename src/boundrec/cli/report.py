"""``boundrec report``: a page about a model and ratings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boundrec.cli import options
from boundrec.cli.bounds import AskedBounds, comes_with_rows, with_ranges
from boundrec.cli.console import say
from boundrec.registry import command_name, is_of_clicks

if TYPE_CHECKING:
    from boundrec.cli.rating_tables import RatingRows
    from boundrec.report.lists import SampleList
    from boundrec.report.model import Judged

EXAMPLES = """Examples:

boundrec report model.safetensors ratings.csv -o report.html

boundrec report model.safetensors flights.csv --rating passengers --lower 0 --upper seats

boundrec report model.safetensors test.parquet -o report.html --rating stars
"""
#: Ratings that the page looks at; more would not change a plot.
MOST_RATINGS = 500_000


def report(
    model: options.ModelFile,
    ratings: options.RatingsFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the page.")] = Path("report.html"),
    user: options.UserColumn = None,
    item: options.ItemColumn = None,
    rating: options.RatingColumn = None,
    header: options.Header = None,
    lower: options.Lower = None,
    upper: options.Upper = None,
    bounds_file: options.BoundsFile = None,
    duplicates: options.Duplicates = None,
) -> None:
    """Write a page about a model and ratings that needs nothing but itself.

    The error, held out where the model was not fitted to these ratings; lists of a few people; error by rating and
    by number of ratings, convergence, ranges and their widths, the pairs nearest to their ends, the surest and least
    sure items.
    """
    import boundrec
    from boundrec.cli.rating_tables import ColumnNames, read_table
    from boundrec.files import whole_file
    from boundrec.report.model import write_page

    within = AskedBounds(None, lower, upper, bounds_file)
    options.check_output(output, "report", model, ratings, bounds_file)
    fitted = boundrec.load(model)
    if is_of_clicks(fitted):
        raise ValueError(
            f"{model} is a model of clicks, and reports are about ratings. Measure it by boundrec evaluate --fitted."
        )
    rows = read_table(ratings, ColumnNames(user, item, rating, **within.of_rows()), header, fitted=True)
    rows = with_ranges(rows.with_ids_like(fitted.user_ids_, fitted.item_ids_), fitted, within, model)
    source = "standard input" if str(ratings) == "-" else ratings.name
    page = write_page(fitted, command_name(fitted), source, _judge(fitted, rows.settled(duplicates).as_rows()))
    with whole_file(output) as file:
        file.write(page.encode())
    say(f"Wrote {output}")


def _judge(model: Any, rows: RatingRows) -> Judged:
    """The model's answers for the ratings, or for a random part where there are very many."""
    import numpy as np

    from boundrec.cli.held_out import Learnt
    from boundrec.cli.predict import answers
    from boundrec.data.columns import pair_array
    from boundrec.report.model import Judged

    drawn = np.arange(rows.values.size)
    if drawn.size > MOST_RATINGS:
        drawn = np.sort(np.random.default_rng(0).choice(drawn.size, MOST_RATINGS, replace=False))
    users, items = rows.users.at(drawn), rows.items.at(drawn)
    answered = answers(model, pair_array(users.column(), items.column()), rows.ends and rows.ends.take(drawn))
    found = {name: column.to_numpy() for name, column in answered.items()}
    learnt = Learnt.by(model)
    user_rows = _rows(model.user_ids_, model.fitted_.users.trained, users)
    item_rows = _rows(model.item_ids_, model.fitted_.items.trained, items)
    return Judged(
        users=user_rows,
        items=item_rows,
        ratings=rows.values[drawn],
        predictions=found["prediction"],
        std=found.get("std"),
        lower=found.get("lower"),
        upper=found.get("upper"),
        pairs=(users.column(), items.column()),
        seen=learnt.seen,
        known=learnt.holds(user_rows, item_rows),
        drawn_from=rows.values.size,
        given=rows.ends and rows.ends.take(drawn),
        lists=_lists(model, rows),
        sorted_by="predicted rating" if model.fitted_.choices is None else "affinity and predicted rating together",
    )


def _lists(model: Any, rows: RatingRows) -> list[SampleList]:
    """What some people would get, beside their ratings here; nothing where lists need ranges of all pairs."""
    import numpy as np

    from boundrec.report.lists import list_for, people_to_show

    if comes_with_rows(model.fitted_.rule):
        return []
    codes, found = model.user_ids_.codes(rows.users.distinct.ids)[rows.users.codes], []
    for row in people_to_show(np.diff(model.fitted_.seen.indptr)):
        own = np.flatnonzero(codes == row)
        own = own[np.argsort(-rows.values[own], kind="stable")]
        rated = zip(rows.items.at(own).column().tolist(), rows.values[own].tolist(), strict=True)
        found.append(list_for(model, int(row), dict(rated)))
    return found


def _rows(index: Any, seen: Any, ids: Any) -> Any:
    """Row numbers in the model of the ids of each rating; −1 for those without a training rating."""
    import numpy as np

    codes = index.codes(ids.distinct.ids)[ids.codes]
    return np.where((codes >= 0) & seen[codes], codes, -1)
