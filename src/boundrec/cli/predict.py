"""``boundrec predict``: the ratings of pairs, with their ranges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boundrec.cli import options
from boundrec.cli.bounds import AskedBounds, with_ranges
from boundrec.cli.console import live_count, say
from boundrec.cli.model_request import declares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boundrec.data.ratings import Ends

EXAMPLES = """Examples:

boundrec predict model.safetensors pairs.csv

boundrec predict model.safetensors flights.csv --user from --item to --lower 0 --upper seats

boundrec predict model.safetensors pairs.parquet -o predictions.parquet --user userId --item movieId
"""
#: Pairs predicted before the rows are written.
PAIRS_AT_A_TIME = 100_000


def predict(
    model: options.ModelFile,
    pairs: Annotated[
        Path,
        typer.Argument(metavar="PAIRS", help="Pairs of a user and an item (CSV, TSV, Parquet, NDJSON; - is stdin)."),
    ],
    output: options.Output = None,
    user: options.UserColumn = None,
    item: options.ItemColumn = None,
    header: options.Header = None,
    lower: options.Lower = None,
    upper: options.Upper = None,
    bounds_file: options.BoundsFile = None,
    json: options.JsonLines = False,
) -> None:
    """Predict the ratings of pairs, with the range of each, and the standard deviation where the model has one.

    Pairs of users or items that the model does not know are answered by its setting on_unknown, inside a range, too.

    A model whose ranges came with its rows needs those of the pairs: --lower and --upper, or --bounds-file.
    """
    import boundrec
    from boundrec.cli.rating_tables import ColumnNames, as_text, mixed_columns, pair_frame, read_pairs
    from boundrec.cli.table_files import TableFile, open_rows
    from boundrec.data.columns import pair_array

    within = AskedBounds(None, lower, upper, bounds_file)
    options.check_rows_output(output, "predictions", json, model, pairs, bounds_file)
    fitted = boundrec.load(model)
    columns = ColumnNames(user, item, **within.of_rows())
    read = read_pairs(TableFile.open(pairs, header), columns, say)
    read = with_ranges(read.with_ids_like(fitted.user_ids_, fitted.item_ids_), fitted, within, model)
    users, items = read.users, read.items
    names = {role: read.names[role] for role in ("user", "item")}
    mixed = mixed_columns(user=users.distinct.ids, item=items.distinct.ids)
    n_pairs = len(users.codes)
    with open_rows(output, json) as write, live_count("Predicting pairs", n_pairs) as done:
        for start in range(0, n_pairs, PAIRS_AT_A_TIME):
            block = slice(start, min(start + PAIRS_AT_A_TIME, n_pairs))
            of_block = [ids.at(block).column() for ids in (users, items)]
            frame = as_text(pair_frame(*of_block), mixed).rename(names)
            ends = read.ends and read.ends.take(block)
            write(frame.with_columns(**answers(fitted, pair_array(*of_block), ends)))
            done(block.stop - block.start)
    if output is not None:
        say(f"Wrote {n_pairs:,} predictions to {output}")


def answers(model: Any, pairs: NDArray[Any], ends: Ends | None = None) -> dict[str, Any]:
    """Prediction, range and standard deviation of pairs: as much of it as this kind of model has."""
    import polars as pl

    settings: dict[str, Any] = {} if ends is None else ends._asdict()
    names = ["prediction"]
    if declares(model.predict, "return_std"):
        settings["return_std"] = True
        names.append("std")
    if declares(model.predict, "return_range"):
        settings["return_range"] = True
        names += ["lower", "upper"]
    found = model.predict(pairs, **settings)
    columns = found if isinstance(found, tuple) else (found,)
    named = dict(zip(names, columns, strict=True))
    return {name: pl.Series(named[name]) for name in ("prediction", "lower", "upper", "std") if name in named}
