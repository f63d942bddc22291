"""``boundrec similar``: what is most like some items or users."""

from __future__ import annotations

from typing import Annotated

import typer

from boundrec.cli import options

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
    import numpy as np
    import polars as pl

    import boundrec
    from boundrec.cli.rating_tables import as_ids_of, as_text, id_series, mixed_columns
    from boundrec.cli.table_files import open_rows

    options.check_rows_output(output, "list", json, model)
    fitted = boundrec.load(model)
    kind, index = ("user", fitted.user_ids_) if of_users else ("item", fitted.item_ids_)
    wanted = as_ids_of(index, list(dict.fromkeys(ids)))
    for one, code in zip(wanted, index.codes(wanted), strict=True):
        if code < 0:
            raise ValueError(
                f"The model does not know {kind} {one!r}: pass the id of one that it was fitted to, such as "
                f"{index.ids.item(0)!r}."
            )
    other = f"similar_{kind}"
    mixed = mixed_columns(**{kind: index.ids, other: index.ids})
    find = fitted.similar_users if of_users else fitted.similar_items
    with open_rows(output, json) as write:
        for one in wanted:
            found, similarity = find(one, length)
            columns = {
                kind: id_series(np.full(len(found), one, dtype=object)),
                other: id_series(found),
                "rank": range(1, len(found) + 1),
                "similarity": similarity,
            }
            write(as_text(pl.DataFrame(columns), mixed))
