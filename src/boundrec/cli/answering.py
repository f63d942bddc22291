"""``boundrec predict``, ``recommend``, ``similar`` and ``info``: what a model file answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boundrec.cli import options
from boundrec.cli.speaking import live_count, print_json, say
from boundrec.report.words import in_a_sentence, size

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from boundrec.tables import Ids

PREDICT_EXAMPLES = """Examples:

boundrec predict model.safetensors pairs.csv

boundrec predict model.safetensors pairs.parquet -o predictions.parquet --user userId --item movieId
"""
RECOMMEND_EXAMPLES = """Examples:

boundrec recommend model.safetensors 42

boundrec recommend model.safetensors -n 20 -o recommendations.parquet

boundrec recommend model.safetensors --users new.csv --with-seen --json
"""
SIMILAR_EXAMPLES = """Examples:

boundrec similar model.safetensors 318

boundrec similar model.safetensors 42 7 --users -n 5 --json
"""
INFO_EXAMPLE = "Example: boundrec info model.safetensors --json"

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Where to write the rows: .csv, .tsv or .ndjson, each also with .gz, or .parquet.",
        show_default="CSV to standard output",
    ),
]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object a line instead of CSV.")]

#: Pairs predicted, and users whose lists are made, before the rows are written.
PAIRS_AT_A_TIME = 100_000
ROWS_AT_A_TIME = 100_000


def load_model(path: Path) -> Any:
    """The model in a file."""
    import boundrec

    return boundrec.load(path)


def name_of(model: Any) -> str:
    """What the command calls this kind of model."""
    from boundrec.cli.training import MODELS

    return next(name.value for name, (home, _) in MODELS.items() if home == type(model).__name__)


def _check_output(output: Path | None, what: str, json: bool) -> None:
    if output is None:
        return
    from boundrec.cli.rows import format_of
    from boundrec.files import check_writable

    if json:
        raise typer.BadParameter("--json is for standard output: name the file .ndjson instead.")
    format_of(output)
    check_writable(output, what)


# --- predict --------------------------------------------------------------------------------------------------


def predict(
    model: options.ModelFile,
    pairs: Annotated[
        Path,
        typer.Argument(metavar="PAIRS", help="Pairs of a user and an item (CSV, TSV, Parquet, NDJSON; - is stdin)."),
    ],
    output: Output = None,
    user: options.UserColumn = None,
    item: options.ItemColumn = None,
    header: options.Header = None,
    json: JsonLines = False,
) -> None:
    """Predict the ratings of pairs, with the range of each, and the standard deviation where the model has one.

    Pairs of users or items that the model does not know are answered by its setting on_unknown, inside a range, too.
    """
    from boundrec.cli.rows import open_rows
    from boundrec.table_files import TableFile
    from boundrec.tables import Columns, ids_like, read_pairs

    options.refuse_to_overwrite_input(output, model, pairs)
    _check_output(output, "predictions", json)
    fitted = load_model(model)
    users, items, names = read_pairs(TableFile.open(pairs, header), Columns(user, item), say)
    users, items = ids_like(users, fitted.user_ids_), ids_like(items, fitted.item_ids_)
    n_pairs = len(users.codes)
    with open_rows(output, json) as write, live_count("Predicting pairs", n_pairs) as done:
        for start in range(0, n_pairs, PAIRS_AT_A_TIME):
            block = slice(start, min(start + PAIRS_AT_A_TIME, n_pairs))
            write(_predicted(fitted, users, items, block, names))
            done(block.stop - block.start)
    if output is not None:
        say(f"Wrote {n_pairs:,} predictions to {output}")


def _predicted(model: Any, users: Ids, items: Ids, block: slice, names: dict[str, str]) -> pl.DataFrame:
    from boundrec.columns import pair_array
    from boundrec.tables import Ids, are_mixed, as_text, pair_frame

    columns = [Ids(ids.distinct, ids.codes[block]).column() for ids in (users, items)]
    frame, answer = pair_frame(*columns), answers(model, pair_array(*columns))
    mixed = [name for name, ids in (("user", users), ("item", items)) if are_mixed(ids.distinct.ids)]
    return frame.with_columns(as_text(frame[name]) for name in mixed).rename(names).with_columns(**answer)


def answers(model: Any, pairs: NDArray[Any]) -> dict[str, Any]:
    """Prediction, range and standard deviation of pairs: as much of it as this kind of model has."""
    import polars as pl

    settings: dict[str, bool] = {}
    names = ["prediction"]
    if hasattr(model, "noise_"):
        settings["return_std"] = True
        names.append("std")
    if hasattr(model, "predict_range"):
        settings["return_range"] = True
        names += ["lower", "upper"]
    found = model.predict(pairs, **settings)
    columns = found if isinstance(found, tuple) else (found,)
    named = dict(zip(names, columns, strict=True))
    return {name: pl.Series(named[name]) for name in ("prediction", "lower", "upper", "std") if name in named}


# --- recommend ------------------------------------------------------------------------------------------------


def recommend(
    model: options.ModelFile,
    users: Annotated[
        list[str] | None,
        typer.Argument(metavar="[USERS]...", help="Ids of users.", show_default="every user of the model"),
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option("--users", metavar="FILE", help="A table with a column of users.")
    ] = None,
    output: Output = None,
    length: options.Length = 10,
    with_seen: Annotated[bool, typer.Option("--with-seen", help="Also items that the user has rated.")] = False,
    column: Annotated[
        str | None, typer.Option("--user", help="The column of users in the file.", show_default="guessed")
    ] = None,
    header: options.Header = None,
    threads: options.Threads = None,
    json: JsonLines = False,
) -> None:
    """Recommend items to some users or to all: user, item, rank, score and the score's range, best first.

    Items that a user has rated are left out.
    """
    from boundrec.cli.rows import open_rows
    from boundrec.tables import are_mixed, as_text

    options.refuse_to_overwrite_input(output, model, from_file)
    _check_output(output, "recommendations", json)
    fitted = load_model(model)
    fitted.n_jobs = threads
    wanted = _wanted_users(fitted, users, from_file, column, header)
    batch_size = max(1, ROWS_AT_A_TIME // min(length, fitted.n_items_))
    batches = fitted.recommend_batches(wanted, length, not with_seen, output="polars", batch_size=batch_size)
    users_asked = fitted.user_ids_.ids if wanted is None else wanted
    mixed = [name for name, ids in (("user", users_asked), ("item", fitted.item_ids_.ids)) if are_mixed(ids)]
    written = with_list = 0
    with open_rows(output, json) as write, live_count("Recommending to users", len(users_asked)) as done:
        for rows in batches:
            write(rows.with_columns(as_text(rows[name]) for name in mixed))
            written += len(rows)
            with_list += int((rows["rank"] == 1).sum())
            done(batch_size)
    if not with_seen and fitted.on_unknown == "mean":  # then only those who have rated everything have no list
        _say_who_has_no_list(len(users_asked) - with_list, len(users_asked))
    if output is not None:
        say(f"Wrote {written:,} recommendations to {output}")


def _say_who_has_no_list(count: int, of: int) -> None:
    if count:
        say(f"Note: {count:,} of {of:,} users have rated every item and get no list; --with-seen lists them, too.")


def _wanted_users(
    model: Any, typed: list[str] | None, from_file: Path | None, column: str | None, header: bool | None
) -> Any:
    """The ids asked for, as the model has them, or None for all; those that it does not know are said."""
    from boundrec.table_files import TableFile
    from boundrec.tables import as_ids_of, read_ids

    if typed and from_file is not None:
        raise typer.BadParameter("give users as arguments or with --users, not both.")
    if from_file is not None:
        typed = read_ids(TableFile.open(from_file, header), "user", column, say)
    if not typed:
        return None
    broken = next((one for one in typed if one.encode(errors="replace") != one.encode(errors="surrogatepass")), None)
    if broken is not None:
        raise typer.BadParameter(f"user {broken!r} is not UTF-8 text: give ids as the model has them.")
    ids = as_ids_of(model.user_ids_, list(dict.fromkeys(typed)))
    unknown = [one for one, code in zip(ids, model.user_ids_.codes(ids), strict=True) if code < 0]
    if unknown:
        more = f" and {len(unknown) - 1:,} more" if len(unknown) > 1 else ""
        say(f"Note: the model does not know user {unknown[0]!r}{more}.")
    return ids


# --- similar --------------------------------------------------------------------------------------------------


def similar(
    model: options.ModelFile,
    ids: Annotated[list[str], typer.Argument(metavar="IDS...", help="Ids of items, or of users with --users.")],
    of_users: Annotated[bool, typer.Option("--users", help="Similar users instead of similar items.")] = False,
    length: options.Length = 10,
    output: Output = None,
    json: JsonLines = False,
) -> None:
    """List the items that are most like some items, or the users most like some users."""
    from boundrec.cli.rows import open_rows
    from boundrec.tables import as_ids_of

    options.refuse_to_overwrite_input(output, model)
    _check_output(output, "list", json)
    fitted = load_model(model)
    kind, index = ("user", fitted.user_ids_) if of_users else ("item", fitted.item_ids_)
    wanted = as_ids_of(index, list(dict.fromkeys(ids)))
    for one, code in zip(wanted, index.codes(wanted), strict=True):
        if code < 0:
            raise ValueError(
                f"The model does not know {kind} {one!r}: pass the id of one that it was fitted to, such as "
                f"{index.ids.item(0)!r}."
            )
    find = fitted.similar_users if of_users else fitted.similar_items
    with open_rows(output, json) as write:
        for one in wanted:
            found, similarity = find(one, length)
            write(_neighbours(kind, one, found, similarity))


def _neighbours(kind: str, one: Any, found: Any, similarity: Any) -> pl.DataFrame:
    import polars as pl

    from boundrec.tables import are_mixed, as_text, id_series

    similar = id_series(found)
    return pl.DataFrame(
        {
            kind: [one] * len(found),
            f"similar_{kind}": as_text(similar) if are_mixed(found) else similar,
            "rank": range(1, len(found) + 1),
            "similarity": similarity,
        }
    )


# --- info -----------------------------------------------------------------------------------------------------


def info(model: options.ModelFile, json: options.Json = False) -> None:
    """Say what a model file holds."""
    fitted = load_model(model)
    found = _facts(fitted, model)
    if json:
        print_json(found)
        return
    typer.echo(f"{model}: {found['model']} ({found['class']}), {size(found['bytes'])}")
    typer.echo(f"users: {found['users']:,}   items: {found['items']:,}   ratings: {found['ratings']:,}")
    typer.echo(f"bounds: {' to '.join('none' if end is None else in_a_sentence(end) for end in found['bounds'])}")
    typer.echo(f"sweeps: {found['sweeps']}, the last with objective {in_a_sentence(found['objective'])}")
    kept = "yes" if found["ratings_kept"] else "no"
    typer.echo(f"mean rating: {in_a_sentence(found['mean'])}   ratings kept in the file: {kept}")
    settings = ", ".join(f"{name}={value!r}" for name, value in found["settings"].items())
    typer.echo(f"settings: {settings}")


def _facts(model: Any, path: Path) -> dict[str, Any]:
    from boundrec.cli.training import bounds_of

    settings = {name: value for name, value in model.get_params().items() if isinstance(value, (str, int, float, bool))}
    return {
        "model": name_of(model),
        "class": type(model).__name__,
        "bytes": path.stat().st_size,
        "users": model.n_users_,
        "items": model.n_items_,
        "ratings": int(model._seen.indices.size),
        "ratings_kept": model._ratings is not None,
        "bounds": list(bounds_of(model)),
        "mean": model.mean_,
        "sweeps": model.n_iter_,
        "objective": model.objectives_[-1],
        "settings": settings,
    }
