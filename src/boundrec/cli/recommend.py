"""``boundrec recommend``: items for some users or for all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from boundrec.cli import options
from boundrec.cli.bounds import rule_for_lists
from boundrec.cli.console import live_count, say
from boundrec.registry import is_of_clicks

EXAMPLES = """Examples:

boundrec recommend model.safetensors 42

boundrec recommend model.safetensors -n 20 -o recommendations.parquet

boundrec recommend model.safetensors 42 --by lower

boundrec recommend model.safetensors 42 --bounds-file capacities.csv

boundrec recommend model.safetensors --users new.csv --with-seen --json
"""
ROWS_AT_A_TIME = 100_000


def recommend(
    model: options.ModelFile,
    users: Annotated[
        list[str] | None,
        typer.Argument(metavar="[USERS]...", help="Ids of users.", show_default="every user of the model"),
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option("--users", metavar="FILE", help="A table with a column of users.")
    ] = None,
    output: options.Output = None,
    length: options.Length = 10,
    by: Annotated[
        options.SortedBy | None,
        typer.Option(
            help="What lists are sorted by: the predicted rating, that less one standard deviation of what is "
            "uncertain about it, or affinity and rating together, of a model that was fitted with --affinity.",
            show_default="blend where the model has it",
        ),
    ] = None,
    with_seen: Annotated[bool, typer.Option("--with-seen", help="Also items that the user has rated.")] = False,
    column: Annotated[
        str | None,
        typer.Option("--user", help="The column of users in --users, or in --bounds-file.", show_default="guessed"),
    ] = None,
    item: Annotated[
        str | None, typer.Option("--item", help="The column of items in --bounds-file.", show_default="guessed")
    ] = None,
    header: options.Header = None,
    bounds_file: options.BoundsFile = None,
    lower: options.Lower = None,
    upper: options.Upper = None,
    threads: options.Threads = None,
    json: options.JsonLines = False,
) -> None:
    """Recommend items to some users or to all: user, item, rank, score and the rating's range, best first.

    Where lists are not sorted by predicted rating, that follows the score; the last column of --by blend is the
    affinity. Items that a user has rated are left out.

    A model whose ranges came with its rows needs --bounds-file, for lists look at every pair; pairs without a range are
    left out.
    """
    import boundrec
    from boundrec.cli.rating_tables import as_text, mixed_columns
    from boundrec.cli.table_files import open_rows

    options.check_rows_output(output, "recommendations", json, model, from_file, bounds_file)
    fitted = boundrec.load(model).set_params(n_jobs=threads)
    if by is not None and is_of_clicks(fitted):
        raise typer.BadParameter(f"--by {by.value}: the score of {model} is the affinity already: leave --by out.")
    if by is options.SortedBy.BLEND and fitted.fitted_.choices is None:
        raise typer.BadParameter(
            f"--by blend: {model} knows nothing of who chooses what: fit it with boundrec fit --affinity, or pass "
            "--by rating."
        )
    columns = {"user": None if from_file is not None else column, "item": item}
    named = {role: name for role, name in columns.items() if name is not None}
    rule = rule_for_lists(fitted, lower, upper, bounds_file, named, model)
    wanted = _wanted_users(fitted, users, from_file, column, header)
    batch_size = max(1, ROWS_AT_A_TIME // min(length, fitted.n_items_))
    batches = fitted.recommend_batches(
        wanted,
        length,
        exclude_seen=not with_seen,
        output="polars",
        batch_size=batch_size,
        bounds=rule,
        by="auto" if by is None else by.value,
    )
    users_asked = fitted.user_ids_.ids if wanted is None else wanted
    mixed = mixed_columns(user=users_asked, item=fitted.item_ids_.ids)
    written = with_list = 0
    with open_rows(output, json) as write, live_count("Recommending to users", len(users_asked)) as done:
        for rows in batches:
            write(as_text(rows, mixed))
            written += len(rows)
            with_list += int((rows["rank"] == 1).sum())
            done(batch_size)
    without = len(users_asked) - with_list
    if without and fitted.fitted_.rule is not None:
        say(f"Note: {without:,} of {len(users_asked):,} users have no unseen item with a range, and get no list.")
    elif without and not with_seen and fitted.on_unknown == "mean":  # then only those who have rated everything
        say(
            f"Note: {without:,} of {len(users_asked):,} users have rated every item and get no list; "
            "--with-seen lists them, too."
        )
    if output is not None:
        say(f"Wrote {written:,} recommendations to {output}")


def _wanted_users(
    model: Any, typed: list[str] | None, from_file: Path | None, column: str | None, header: bool | None
) -> Any:
    """The ids asked for, as the model has them, or None for all; those that it does not know are said."""
    from boundrec.cli.rating_tables import as_ids_of, read_ids
    from boundrec.cli.table_files import TableFile

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
