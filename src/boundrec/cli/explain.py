"""``boundrec explain``: why a user gets what is predicted for an item."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from boundrec.cli import options
from boundrec.cli.bounds import comes_with_rows
from boundrec.cli.console import print_json, print_table
from boundrec.registry import command_name

if TYPE_CHECKING:
    from boundrec.models.explain import Explanation

EXAMPLES = """Examples:

boundrec explain model.safetensors 42 318

boundrec explain model.safetensors ann "Toy Story" --top 3 --json

boundrec explain flights.safetensors A57 B15 --lower 0 --upper 180

boundrec explain model.safetensors --top 3 -- 42 -1
"""
#: Digits of the largest figure in the table.
DIGITS = 4


def explain(
    model: options.ModelFile,
    user: Annotated[str, typer.Argument(metavar="USER", help="The id of a user.")],
    item: Annotated[str, typer.Argument(metavar="ITEM", help="The id of an item.")],
    top: Annotated[
        int, typer.Option("--top", "-n", min=0, help="So many ratings, and features, are shown; others summed up.")
    ] = 10,
    lower: Annotated[
        float | None, typer.Option(help="The lower end of the pair's range, where ranges came with the rows.")
    ] = None,
    upper: Annotated[float | None, typer.Option(help="The upper end of the pair's range.")] = None,
    json: options.Json = False,
) -> None:
    """Tell why a user gets what is predicted for an item: what the user's own ratings and features add to the usual.

    "Usual" is what somebody typical would get. A rating counts by its value, beside what somebody typical would have
    given, and, where the model learnt from who rated what, by the choice of its item.

    All parts are in units of ratings, the largest first, and add up to the prediction with the remainder: what the
    bounds and the mean over samples do, and what is lost in rounding. The value of a feature is that in the table of
    features, nan where it was missing; for being in a category or not it is 1 or 0.

    The model is a bayesian one, or one of clicks, whose file holds its ratings (boundrec fit --keep-ratings). Of a
    model with --affinity it is the predicted rating that is explained, not the place in a list.
    """
    fitted = _load(model)
    who = [_known(fitted, kind, one) for kind, one in (("user", user), ("item", item))]
    why = fitted.explain(*who, **_ends(fitted, model, lower, upper))
    if json:
        print_json({"user": who[0], "item": who[1], **_as_json(why, top)})
        return
    print_table(["", "rating or value", "by value", "by choice", "part"], _rows(why, top))


def _load(path: Path) -> Any:
    """The model; refused where it cannot tell."""
    import boundrec

    model = boundrec.load(path)
    if not hasattr(model, "explain"):
        raise ValueError(
            f"{path} is a model of the kind {command_name(model)}, which cannot explain what it predicts: "
            "fit a bayesian one, with boundrec fit --keep-ratings."
        )
    if model.fitted_.ratings is None:
        raise ValueError(f"{path} holds no ratings to explain by: fit it again, with boundrec fit --keep-ratings.")
    return model


def _known(model: Any, kind: str, typed: str) -> Any:
    """An id as the model has it."""
    from boundrec.cli.rating_tables import as_ids_of

    index = model.user_ids_ if kind == "user" else model.item_ids_
    (one,) = as_ids_of(index, [typed])
    if index.codes([one])[0] < 0:
        raise ValueError(
            f"The model does not know {kind} {one!r}: pass the id of one that has ratings or features, such as "
            f"{index.ids.item(0)!r}."
        )
    return one


def _ends(model: Any, path: Path, lower: float | None, upper: float | None) -> dict[str, float]:
    """The range of the pair, where the model has to be told."""
    given = {name: end for name, end in (("lower", lower), ("upper", upper)) if end is not None}
    rule = model.fitted_.rule
    if given and rule is None:
        raise typer.BadParameter(f"{path} has one range for all: leave out --lower and --upper.")
    if len(given) == 1 or (not given and comes_with_rows(rule)):
        raise typer.BadParameter(
            f"the ranges of {path} came with its rows, and this pair needs its own: pass --lower and --upper, such as "
            "--lower 0 --upper 180."
        )
    if given and given["lower"] > given["upper"]:
        raise typer.BadParameter(f"--lower {lower:g} is above --upper {upper:g}: exchange them.")
    return given


# --- as it is shown -------------------------------------------------------------------------------------------


class Units(NamedTuple):
    """Parts as whole numbers of the last digit that is shown, so that what is shown adds up."""

    decimals: int

    @classmethod
    def of(cls, largest: float) -> Units:
        """So fine that a figure of this size has some digits."""
        size = math.floor(math.log10(largest)) if largest > 0 else 0
        return cls(max(0, DIGITS - 1 - size))

    def count(self, value: float) -> int:
        """How many of the last digit a value is."""
        return round(value * float(10**self.decimals))

    def shown(self, count: int, sign: bool = True) -> str:
        """So many of the last digit as a figure."""
        return f"{count / 10**self.decimals:{'+' if sign and count else ''},.{self.decimals}f}"


def _rows(why: Explanation, top: int) -> list[list[str]]:
    """The lines of the table: the last column of all but the last adds up to that of the last."""
    units = Units.of(max(abs(why.usual), abs(why.prediction)))
    lines: list[tuple[str, str, Sequence[int]]] = []
    for part in why.ratings[:top]:
        counts = units.count(part.by_value), units.count(part.by_choice)
        lines.append((str(part.item), f"{part.rating:g}", counts))
    others = why.ratings[top:]
    if others:
        sums = (sum(getattr(one, name) for one in others) for name in ("by_value", "by_choice"))
        lines.append((_others(len(others), "rating"), "", [units.count(total) for total in sums]))
    for feature in why.features[:top]:
        lines.append((feature.name, f"{feature.value:.4g}", [units.count(feature.total)]))
    if why.features[top:]:
        total = sum(one.total for one in why.features[top:])
        lines.append((_others(len(why.features) - top, "feature"), "", [units.count(total)]))
    usual, prediction = units.count(why.usual), units.count(why.prediction)
    rest = prediction - usual - sum(sum(counts) for _, _, counts in lines)
    return [
        ["usual", "", "", "", units.shown(usual, sign=False)],
        *([name, value, *_by(units, counts), units.shown(sum(counts))] for name, value, counts in lines),
        ["remainder", "", "", "", units.shown(rest)],
        ["prediction", "", "", "", units.shown(prediction, sign=False)],
    ]


def _by(units: Units, counts: Sequence[int]) -> list[str]:
    """Both columns of a rating; a feature has neither."""
    return [units.shown(count) for count in counts] if len(counts) == 2 else ["", ""]


def _others(count: int, what: str) -> str:
    return f"{count:,} other {what}{'s' if count > 1 else ''}"


def _as_json(why: Explanation, top: int) -> dict[str, Any]:
    """The same for machines, not rounded; ratings and features that are not shown are summed up."""
    other_ratings, other_features = why.ratings[top:], why.features[top:]
    return {
        "prediction": why.prediction,
        "usual": why.usual,
        "ratings": [{**part._asdict(), "total": part.total} for part in why.ratings[:top]],
        "other_ratings": {
            "count": len(other_ratings),
            **{
                name: math.fsum(getattr(one, name) for one in other_ratings)
                for name in ("by_value", "by_choice", "total")
            },
        },
        "features": [part._asdict() for part in why.features[:top]],
        "other_features": {"count": len(other_features), "total": math.fsum(one.total for one in other_features)},
        "remainder": why.remainder,
    }
