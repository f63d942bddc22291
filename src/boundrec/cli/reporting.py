"""``boundrec report``: a page about a model and ratings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boundrec.cli import options
from boundrec.cli.speaking import say

if TYPE_CHECKING:
    from boundrec.report.model import Judged
    from boundrec.tables import RatingTable

EXAMPLES = """Examples:

boundrec report model.safetensors ratings.csv -o report.html

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
) -> None:
    """Write a page about a model and ratings that needs nothing but itself.

    Convergence, error by rating and by number of ratings, ranges and their widths, the surest and least sure items.
    """
    from boundrec.cli.answering import load_model, name_of
    from boundrec.cli.training import read_table
    from boundrec.files import check_writable, whole_file
    from boundrec.report.model import write_page
    from boundrec.tables import Columns

    options.refuse_standard_output(output)
    options.refuse_to_overwrite_input(output, model, ratings)
    check_writable(output, "report")
    fitted = load_model(model)
    table = read_table(ratings, Columns(user, item, rating), header)
    table = table.with_ids_like(fitted.user_ids_, fitted.item_ids_)
    source = "standard input" if str(ratings) == "-" else ratings.name
    page = write_page(fitted, name_of(fitted), source, _judge(fitted, table))
    with whole_file(output) as file:
        file.write(page.encode())
    say(f"Wrote {output}")


def _judge(model: Any, table: RatingTable) -> Judged:
    """The model's answers for the ratings, or for a random part where there are very many."""
    import numpy as np

    from boundrec.cli.answering import answers
    from boundrec.report.model import Judged

    total = len(table)
    if total > MOST_RATINGS:
        drawn = np.zeros(total, bool)
        drawn[np.random.default_rng(0).choice(total, MOST_RATINGS, replace=False)] = True
        table = table.where(drawn)
    pairs = table.pairs()
    found = {name: column.to_numpy() for name, column in answers(model, pairs).items()}
    return Judged(
        users=_rows(model.user_ids_, model._user_seen, table.users),
        items=_rows(model.item_ids_, model._item_seen, table.items),
        ratings=table.ratings,
        predictions=found["prediction"],
        std=found.get("std"),
        lower=found.get("lower"),
        upper=found.get("upper"),
        drawn_from=total,
    )


def _rows(index: Any, seen: Any, ids: Any) -> Any:
    """Row numbers in the model of the ids of each rating; −1 for those without a training rating."""
    import numpy as np

    codes = index.codes(ids.distinct.ids)[ids.codes]
    return np.where((codes >= 0) & seen[codes], codes, -1)
