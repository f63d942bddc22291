"""``boundrec similar``: what is most like some items or users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from boundrec.cli import options

if TYPE_CHECKING:
    import polars as pl


EXAMPLES = """Examples:

boundrec similar model.safetensors 318

boundrec similar model.safetensors 42 7 --users -n 5 --json
"""


def similar(
    model: options.ModelFile,
    ids: Annotated[list[str], typer.Argument(metavar="IDS...", help="Ids of items, or of users with --users.")],
    of_users: Annotated[bool, typer.Option("--users", help="Similar users instead of similar items.")] = False,
    length: options.Length = 10,
    output: options.Output = None,
    json: options.JsonLines = False,
) -> None:
    """List the items that are most like some items, or the users most like some users."""
    import boundrec
    from boundrec.cli.rating_tables import as_ids_of
    from boundrec.cli.row_writer import check_output, open_rows

    options.refuse_to_overwrite_input(output, model)
    check_output(output, "list", json)
    fitted = boundrec.load(model)
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

    from boundrec.cli.rating_tables import are_mixed, as_text, id_series

    similar = id_series(found)
    return pl.DataFrame(
        {
            kind: [one] * len(found),
            f"similar_{kind}": as_text(similar) if are_mixed(found) else similar,
            "rank": range(1, len(found) + 1),
            "similarity": similarity,
        }
    )
