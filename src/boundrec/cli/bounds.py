"""What predictions may be, as the options say it: in one range for all, in ranges with the rows, or in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import typer

from boundrec.cli.console import in_command_words, say, takes
from boundrec.notes import in_a_sentence
from boundrec.registry import is_of_clicks, learns_clicks

if TYPE_CHECKING:
    import boundrec.data.ratings as data
    from boundrec.cli.rating_tables import RatingRows, RatingTable
    from boundrec.ranges.rules import Rule

Ends = tuple[float | None, float | None]
#: Stand in for the observed bounds while settings are checked, before the ratings are read.
UNKNOWN: Ends = (0.0, 1.0)
#: A rating so many times further from the median than nine in ten are is in a heavy tail.
HEAVY_TAIL = 20.0


@dataclass(frozen=True)
class Limits:
    """What predictions may be.

    Parameters
    ----------
    bounds
        One range for all: the declared one, or the observed one.
    rule
        Who has which range, where pairs have ranges of their own; models that cannot take it get the bounds.
    """

    bounds: Ends
    rule: Any = None

    def in_words(self) -> str:
        """For readers."""
        if self.rule is None:
            return " to ".join("none" if end is None else in_a_sentence(end) for end in self.bounds)
        return describe(self.rule)

    def as_json(self) -> dict[str, Any]:
        """For machines: two ends, or what the ranges are."""
        return {"bounds": list(self.bounds)} if self.rule is None else {"bounds": None, "ranges": self.in_words()}


#: What scores of clicks lie in.
SCORES = Limits((-1.0, 1.0))


def limits_of(model: Any) -> Limits:
    """What the predictions of a fitted model may be."""
    from boundrec.ranges import check_bounds

    if is_of_clicks(model):
        return SCORES
    rule = model.fitted_.rule
    return Limits(check_bounds(model.bounds)) if rule is None else Limits((None, None), rule)


def describe(rule: Any) -> str:
    """A rule for ranges in words."""
    from boundrec.ranges.rules import ByFunction, PerItem, PerPair, Widened

    if isinstance(rule, Widened):
        return f"{describe(rule.rule)}, but for {len(rule.pairs.keys):,} pairs that a rating has widened"
    if isinstance(rule, ByFunction):
        return "a range for every pair, by a function, which the file does not hold"
    if not isinstance(rule, PerItem | PerPair):
        return "a range for every pair, which comes with the rows"
    ends = f"from {in_a_sentence(float(rule.range.lower.min()))} to {in_a_sentence(float(rule.range.upper.max()))}"
    if isinstance(rule, PerItem):
        return f"a range for each of {len(rule.index):,} {rule.kind}s, {ends} in all"
    others = "" if rule.default is None else ", {} to {} for others".format(*map(in_a_sentence, rule.default))
    return f"a range for each of {len(rule.keys):,} pairs, {ends} in all{others}"


def comes_with_rows(rule: Any) -> bool:
    """Whether a model knows the ranges of pairs only by being told."""
    from boundrec.ranges.rules import Widened, WithRows

    return isinstance(rule, WithRows) or (isinstance(rule, Widened) and comes_with_rows(rule.rule))


# --- what is typed --------------------------------------------------------------------------------------------


class RowEnds(TypedDict, total=False):
    """What the ends of each row's range are called in the table."""

    lower: str | None
    upper: str | None


@dataclass(frozen=True)
class AskedBounds:
    """The options --bounds, --lower, --upper and --bounds-file, as they were typed."""

    bounds: tuple[str, str] | None = None
    lower: str | None = None
    upper: str | None = None
    file: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself before anything is read."""
        if self.file is not None or (self.lower is None and self.upper is None):
            return
        if self.bounds is not None:
            raise typer.BadParameter(
                f"--bounds {' '.join(self.bounds)} is one range for all, --lower and --upper give every row its own: "
                "leave out one or the other."
            )
        if self.lower is None or self.upper is None:
            raise typer.BadParameter(self._missing())

    def _missing(self) -> str:
        """What to do about an end that is missing: as the upper one, a number beside a number would be of no use."""
        from boundrec.cli.table_files import is_number

        if self.lower is None:
            return "--lower is missing: name its column, or give a number for all rows, such as --lower 0."
        one_range = ""
        if takes("--bounds") and is_number(self.lower):
            one_range = f"; {self.lower} and no upper end is --bounds {self.lower} none"
        return f"--upper is missing: name its column, such as --upper capacity{one_range}."

    @property
    def own(self) -> bool:
        """Whether every pair is to have a range of its own."""
        return self.file is not None or self.lower is not None

    def refuse_for(self, names: Sequence[str]) -> None:
        """Scores of clicks have a range of their own, whatever the data are."""
        if learns_clicks(*names) and (self.own or self.bounds is not None):
            option = "--bounds" if self.bounds is not None else "--bounds-file" if self.file else "--lower and --upper"
            raise typer.BadParameter(f"{option}: scores of {names[0]} lie between -1 and 1 whatever the data are.")

    def typed(self) -> Ends:
        """The one range for all, as far as it is known before the ratings are read."""
        return UNKNOWN if self.own else read_bounds(self.bounds) or UNKNOWN

    def refuse_history(self, history: Path | None) -> None:
        """Past ratings give users and items ranges; pairs cannot have others beside these."""
        if history is not None and self.own:
            raise typer.BadParameter(
                "--history gives users and items ranges by their past ratings, but every pair has a range of its own: "
                "leave out one or the other."
            )

    def refuse_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse settings of one range for all, where every pair has its own, before anything is read."""
        for name, good in (("form", ("c",)), ("magnitudes", ("auto", "range"))):
            if self.own and settings.get(name, good[0]) not in good:
                raise typer.BadParameter(
                    f"--set {name}={settings[name]}: every pair has a range of its own, and that is its bound: leave "
                    f"it out, or pass --bounds, one range for all."
                )

    def of_rows(self) -> RowEnds:
        """The columns of ranges in the table of ratings or pairs."""
        return {} if self.file is not None else {"lower": self.lower, "upper": self.upper}

    def settle(self, table: RatingTable, on_contradiction: str = "keep") -> tuple[RatingTable, Limits]:
        """The ratings with their ranges, where they have their own, and what predictions may be."""
        if table.read.clicks:
            return table, SCORES
        table, limits = self._settled(table)
        if table.ratings.ends is not None:
            tell_contradictions(table, on_contradiction)
        return table, limits

    def _settled(self, table: RatingTable) -> tuple[RatingTable, Limits]:
        from boundrec.ranges.rules import WithRows, tell_unused

        ratings = table.ratings
        if self.file is not None:
            names = table.read.names if table.read.file.has_header else {}
            rule = read_rule(self, ratings.users, ratings.items, names)
            tell_unused(rule, ratings.users, ratings.items)
            return in_ranges_of(rule, table), Limits(_observed(table), rule)
        if ratings.ends is not None:
            return table, Limits(_observed(table), WithRows())
        return table, Limits(choose_bounds(self.bounds, table))

    def words(self, limits: Limits) -> list[str]:
        """The same as words of a command, with the bounds that were found."""
        if not self.own:
            return ["--bounds", *map(as_typed, limits.bounds)]
        given = {"--bounds-file": self.file, "--lower": self.lower, "--upper": self.upper}
        words = [word for option, value in given.items() if value is not None for word in (option, str(value))]
        return words + ([] if self.bounds is None else ["--bounds", *self.bounds])


def read_bounds(given: tuple[str, str] | None) -> Ends | None:
    """Bounds as they were typed; None where there are none."""
    from boundrec.ranges import check_bounds

    if given is None:
        return None
    try:
        return check_bounds(tuple(None if end.lower() == "none" else float(end) for end in given))
    except ValueError as error:
        if "could not convert" in str(error):
            error = ValueError(f'--bounds {" ".join(given)}: give two numbers, or "none" for an open end.')
        raise typer.BadParameter(in_command_words(str(error)).replace("write None", "write none")) from None


def as_typed(end: float | None) -> str:
    """An end of the bounds as an option takes it: short, and yet the same number."""
    if end is None:
        return "none"
    return f"{end:g}" if float(f"{end:g}") == end else repr(end)


# --- one range for all ----------------------------------------------------------------------------------------


def choose_bounds(given: tuple[str, str] | None, table: RatingTable) -> Ends:
    """The bounds that were given, checked against the ratings; else the observed range, and a word about that."""
    bounds = read_bounds(given)
    if bounds is not None:
        table.check_bounds(bounds)
        return bounds
    values = table.ratings.by_user.data
    low, high = float(values.min()), float(values.max())
    if low == high:
        say(f"Every rating is {in_a_sentence(low)}: there is nothing to learn but that.")
        return _observed(table)
    say(f"No --bounds given: taking the observed range, --bounds {as_typed(low)} {as_typed(high)}.")
    if has_heavy_tail(values):
        say(
            f"The highest rating, {in_a_sentence(high)}, is far from most of them. "
            f"If there is no highest by nature, as with counts, pass --bounds {as_typed(min(low, 0.0))} none."
        )
    return low, high


def _observed(table: RatingTable) -> Ends:
    """The lowest and the highest rating; a little more where these are the same."""
    values = table.ratings.by_user.data
    low, high = float(values.min()), float(values.max())
    room = max(0.5, 1e-12 * abs(low)) if low == high else 0.0  # beside a large rating a half is nothing
    return low - room, high + room


def has_heavy_tail(ratings: Any) -> bool:
    """Whether the highest rating is out of all proportion to the rest."""
    import numpy as np

    median, upper, highest = np.quantile(ratings, [0.5, 0.9, 1.0])
    return bool(highest - median > HEAVY_TAIL * max(upper - median, 1e-12 * max(1.0, abs(median))))


# --- a table of ranges ----------------------------------------------------------------------------------------


def read_rule(
    asked: AskedBounds, users: Any, items: Any, names: Mapping[str, str], asked_ids: Mapping[str, str] | None = None
) -> Rule:
    """The rule in a table of ranges, which is for users, for items or for pairs: its columns tell.

    Parameters
    ----------
    asked
        With the file, and perhaps the names of its columns of ends, and a range for pairs that it lacks.
    users, items
        The ids that ratings have: those of the table become of their kind.
    names
        What the columns of users and items are called elsewhere.
    asked_ids
        What they are called in this table, as far as that was typed.
    """
    import numpy as np

    from boundrec.cli.rating_tables import Columns, ids_like, range_table_columns
    from boundrec.cli.table_files import TableFile
    from boundrec.data.ratings import Ends as DataEnds
    from boundrec.ranges.rules import PerItem, PerPair, PerUser

    assert asked.file is not None
    file = TableFile.open(asked.file)
    columns = Columns.read(file, range_table_columns(file, asked.lower, asked.upper, names, asked_ids or {}))
    ids = {
        kind: ids_like(columns.ids(kind), index)
        for kind, index in (("user", users), ("item", items))
        if kind in columns.names
    }
    ends = columns.ends()
    assert ends is not None
    (first, codes), *more = ids.values()
    keys = codes.astype(np.int64) if not more else codes.astype(np.int64) * len(more[0].distinct) + more[0].codes
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if again.size:
        rows = order[again[0]], order[again[0] + 1]
        whose = ", ".join(f"{kind} {of.column().item(rows[0])!r}" for kind, of in ids.items())
        more_like_it = f" ({again.size - 1:,} more like it)" if again.size > 1 else ""
        raise ValueError(
            f"{file.name}: {columns.place(int(rows[1]))} has a second range for {whose}, after "
            f"{columns.place(int(rows[0]))}{more_like_it}: give each one range."
        )
    sorted_ends = DataEnds(*(end[order] for end in ends))
    rule: Rule
    if more:
        default = _default(asked.bounds)
        rule = PerPair.of(first, more[0].distinct, keys[order], sorted_ends, default)
    else:
        kind = next(iter(ids))
        if asked.bounds is not None:
            raise typer.BadParameter(
                f"--bounds {' '.join(asked.bounds)} is for pairs that a table of pairs lacks, but {file.name} has "
                f"ranges of {kind}s: leave it out."
            )
        rule = (PerUser if kind == "user" else PerItem).of(first, sorted_ends)
    say(f"{file.name}: {describe(rule)}.")
    return rule


def _default(bounds: tuple[str, str] | None) -> tuple[float, float] | None:
    ends = read_bounds(bounds)
    if ends is None:
        return None
    lower, upper = ends
    if lower is None or upper is None:
        raise typer.BadParameter(
            f"--bounds {' '.join(bounds or ())}: the range of pairs that a table lacks has two ends: give both."
        )
    return lower, upper


#: What becomes of ratings outside their own range.
SETTLED = {
    "keep": "they are kept",
    "widen": "these ranges are widened",
    "drop": "they are dropped",
}


def tell_contradictions(table: RatingTable, how: str) -> None:
    """Ratings outside their own range: how many, where the first one is, and what becomes of them."""
    import numpy as np

    from boundrec.ranges.contradictions import settle_own

    ratings = table.ratings
    outside = np.flatnonzero(settle_own(ratings, None, "keep")[2])
    if not outside.size:
        return
    assert ratings.rows is not None
    assert ratings.ends is not None
    first = int(outside[ratings.rows[outside].argmin()])
    value, lower, upper = (float(column[first]) for column in (ratings.by_user.data, *ratings.ends))
    user = ratings.users.ids.item(int(ratings.user_of_rating()[first]))
    item = ratings.items.ids.item(int(ratings.by_user.indices[first]))
    relation = f"{as_typed(value)} {'>' if value > upper else '<'} {as_typed(upper if value > upper else lower)}"
    text = (
        f"{table.read.file.name}: {outside.size:,} of {ratings.n_ratings:,} ratings lie outside their own range "
        f"(first: {table.read.place(int(ratings.rows[first]))}, user {user!r}, item {item!r}: {relation})"
    )
    if how == "raise":
        raise ValueError(f"{text}: correct them, or pass --set on_contradiction=widen (or drop).")
    becomes = f": {SETTLED[how]}" if how in SETTLED else ""
    remedy = "; --set on_contradiction=widen (or drop) settles them" if how == "keep" and takes("--set") else ""
    say(f"Note: {text}{becomes}{remedy}.")


# --- the ranges of rows ---------------------------------------------------------------------------------------


def in_ranges_of(rule: Rule, table: RatingTable) -> RatingTable:
    """The same ratings with the ranges that a rule has for them."""
    ratings = table.ratings
    users, items = ratings.users.ids[ratings.user_of_rating()], ratings.items.ids[ratings.by_user.indices]
    assert ratings.rows is not None
    ends = _ends(rule, users, items, table.read, ratings.rows)
    return replace(table, ratings=replace(ratings, ends=ends))


def with_ranges(rows: RatingRows, model: Any, asked: AskedBounds, path: Path) -> RatingRows:
    """Rows with the ranges that a model needs: from their own columns, from a table, or by the model's rule."""
    import numpy as np

    rule = model.fitted_.rule
    if rule is None:
        if asked.own:
            raise typer.BadParameter(
                f"{path} has one range for all, {limits_of(model).in_words()}, and takes no others: leave out "
                "--lower, --upper and --bounds-file, or fit it with them."
            )
        return rows
    if rows.ends is not None:
        return rows
    if asked.file is not None:
        rule = read_rule(asked, model.user_ids_, model.item_ids_, rows.names if rows.file.has_header else {})
    elif comes_with_rows(rule):
        raise typer.BadParameter(
            f"the ranges of {path} came with its rows, and these rows need theirs: name their columns, such as "
            "--lower 0 --upper capacity, or pass a table of ranges with --bounds-file."
        )
    ends = _ends(rule, rows.users.column(), rows.items.column(), rows, np.arange(rows.users.codes.size))
    return replace(rows, ends=ends)


def _ends(rule: Rule, users: Any, items: Any, read: RatingRows, rows: Any) -> data.Ends:
    """What a rule says of pairs, which were read in these rows; refused where it has no range."""
    import numpy as np

    from boundrec.ranges.rules import PerPair

    ends = rule.ends(users, items)
    lacking = np.flatnonzero(np.isnan(ends.lower))
    if lacking.size:
        first = int(lacking[rows[lacking].argmin()])
        of_pairs = isinstance(rule, PerPair)
        remedy = ", or give --bounds LOW HIGH as the range of all pairs that it lacks" if of_pairs else ""
        raise ValueError(
            f"{read.file.name}: {lacking.size:,} of {users.size:,} pairs have no range in the table of ranges (first: "
            f"{read.place(int(rows[first]))}, user {users.item(first)!r}, item {items.item(first)!r}): add it there"
            f"{remedy}."
        )
    return ends


def rule_for_lists(
    model: Any, lower: str | None, upper: str | None, file: Path | None, ids: Mapping[str, str], path: Path
) -> Rule | None:
    """The rule that lists are made by instead of the model's own, if there is one; refused where there is none."""
    rule = model.fitted_.rule
    if file is None:
        if lower is not None or upper is not None:
            raise typer.BadParameter("--lower and --upper name columns of a table of ranges: pass it as --bounds-file.")
        if comes_with_rows(rule):
            raise typer.BadParameter(
                f"the ranges of {path} came with its rows, and lists need one for every pair: pass --bounds-file with "
                "a table of ranges of items, of users or of pairs."
            )
        return None
    if rule is None:
        raise typer.BadParameter(
            f"{path} has one range for all, {limits_of(model).in_words()}, and takes no others: leave out "
            "--bounds-file, or fit it with that."
        )
    names = dict(zip(("user", "item"), model.fitted_.names or (), strict=False))
    return read_rule(AskedBounds(None, lower, upper, file), model.user_ids_, model.item_ids_, names, ids)
