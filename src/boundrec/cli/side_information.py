"""What is known besides ratings, as the options say it: tables of features, who rated what, noise of each one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from boundrec.cli.console import say, takes
from boundrec.cli.model_request import declares
from boundrec.registry import entry_of_command

if TYPE_CHECKING:
    import polars as pl

    from boundrec.cli.rating_tables import Columns, Ids, RatingTable
    from boundrec.data.features import Features
    from boundrec.data.ids import IdIndex


class Implicit(StrEnum):
    """Whose prior follows who rated what."""

    AUTO = "auto"
    OFF = "off"
    USERS = "users"
    ITEMS = "items"
    BOTH = "both"


class Noise(StrEnum):
    """One noise for all ratings, or each row's own."""

    AUTO = "auto"
    ONE = "one"
    OWN = "own"


@dataclass(frozen=True)
class AskedBeside:
    """The options --user-features, --item-features, --implicit and --noise, as they were typed."""

    user_features: Path | None = None
    item_features: Path | None = None
    implicit: Implicit | None = None
    noise: Noise | None = None

    @property
    def files(self) -> dict[str, Path]:
        """The tables of features, by whose they are."""
        given = {"user": self.user_features, "item": self.item_features}
        return {kind: path for kind, path in given.items() if path is not None}

    def words(self) -> list[str]:
        """The same as words of a command."""
        words = [word for kind, path in self.files.items() for word in (f"--{kind}-features", str(path))]
        return words + [word for name, value in self._settings().items() for word in (f"--{name}", value)]

    def _settings(self) -> dict[str, str]:
        given = {"implicit": self.implicit, "noise": self.noise}
        return {name: value.value for name, value in given.items() if value is not None}

    def settings(self, others: Mapping[str, Any]) -> dict[str, Any]:
        """Settings that were given by --set, and those that have an option of their own."""
        self._refuse_twice("--set", others)
        return {**others, **self._settings()}

    def refuse_grid(self, values: Mapping[str, Any]) -> None:
        """Refuse to try settings by --grid that an option gives."""
        self._refuse_twice("--grid", values)

    def _refuse_twice(self, option: str, others: Mapping[str, Any]) -> None:
        for name, value in self._settings().items():
            if name in others:
                raise typer.BadParameter(
                    f"--{name} {value} and {option} {name}=... give the same setting: leave out one."
                )

    def settings_for(self, name: str) -> dict[str, Any]:
        """Those of the options that a model has a setting for, where several models are to be compared."""
        known = entry_of_command(name).load()().get_params()
        return {setting: value for setting, value in self._settings().items() if setting in known}

    def refuse_for(self, names: Sequence[str]) -> None:
        """Refuse what none of these models takes, before anything is read; say who goes without."""
        remedy = "name bayesian among --models" if takes("--models") else "pass --model bayesian"
        for without, options in self._by_who_lacks_them(names).items():
            asked, alone = " and ".join(options), len(without) == 1
            if any(map(takes_features, without)):
                why = "does not learn from that" if alone else "do not learn from that"
            else:
                why = "learns from ratings alone" if alone else "learn from ratings alone"
            who = f"{', '.join(without)} {why}"
            others = [name for name in names if name not in without]
            if not others:
                raise typer.BadParameter(f"{asked}: {who}: {remedy}, or leave this out.")
            say(f"Note: {who}: only {', '.join(others)} {'gets' if len(others) == 1 else 'get'} {asked}.")

    def _by_who_lacks_them(self, names: Sequence[str]) -> dict[tuple[str, ...], list[str]]:
        """The options that were typed, by the models that do not take them, where there are such."""
        found: dict[tuple[str, ...], list[str]] = {}
        for kind in self.files:
            without = tuple(name for name in names if not takes_features(name))
            found.setdefault(without, []).append(f"--{kind}-features")
        for setting in self._settings():
            without = tuple(name for name in names if setting not in entry_of_command(name).load()().get_params())
            found.setdefault(without, []).append(f"--{setting}")
        return {without: options for without, options in found.items() if without}

    def refuse_for_a_file(self, path: Path) -> None:
        """A model that is fitted has its features in its file."""
        if self.words():
            raise typer.BadParameter(
                f"{self.words()[0]} is for a fit, and {path} is fitted: leave it out; what it was fitted with is in it."
            )

    def read(self, table: RatingTable, header: bool | None) -> dict[str, pl.DataFrame]:
        """The tables by the arguments of ``fit`` that take them, with ids of the kind that the ratings have."""
        ratings = table.ratings
        index = {"user": ratings.users, "item": ratings.items}
        names = table.read.names if table.read.file.has_header else {}
        return {
            f"{kind}_features": read_feature_file(path, kind, index[kind], names.get(kind), header)
            for kind, path in self.files.items()
        }


def takes_features(name: str) -> bool:
    """Whether a model also learns from features."""
    return declares(entry_of_command(name).load().fit, "user_features")


# --- a table of features --------------------------------------------------------------------------------------


def read_feature_file(path: Path, kind: str, known: IdIndex, name: str | None, header: bool | None) -> pl.DataFrame:
    """A table of features as a frame that ``fit`` takes: the ids first, then numbers and categories.

    Parameters
    ----------
    path
        The file.
    kind
        Whose features they are, "user" or "item".
    known
        The ids of the ratings: those of the table become of their kind.
    name
        What the ratings call the column of these ids; None where their columns have no names.
    header
        Whether it was said that first lines are names.
    """
    import polars as pl

    from boundrec.cli.rating_tables import Columns, feature_table_columns, id_series, ids_like
    from boundrec.cli.table_files import TableFile

    file = TableFile.open(path, header or None)  # features need names, whether the ratings have such or not
    id_name, others = feature_table_columns(file, kind, name)
    roles = {str(place): column for place, column in enumerate(others)}
    columns = Columns.read(file, {kind: id_name, **roles})
    ids = columns.ids(kind)
    _refuse_repeated(columns, kind, ids)
    ids = ids_like(ids, known)
    series = [columns.numbers_or_categories(role).alias(column) for role, column in roles.items()]
    frame = pl.DataFrame([id_series(ids.column()).alias(name or id_name), *series])
    features = _checked(frame, file.name, name, known)
    unrated = len(features.only_here(known))
    say(
        f"{file.name}: {len(features.names):,} {'feature' if len(features.names) == 1 else 'features'} of "
        f"{len(features):,} {kind}s (ids in {id_name!r})"
        + (f", {unrated:,} of them without ratings." if unrated else ".")
    )
    return frame


def _refuse_repeated(columns: Columns, kind: str, ids: Ids) -> None:
    import numpy as np

    order = np.argsort(ids.codes, kind="stable")
    again = np.flatnonzero(ids.codes[order][1:] == ids.codes[order][:-1])
    if again.size:
        first = again[np.argmin(order[again + 1])]
        before, row = int(order[first]), int(order[first + 1])
        more = f" ({again.size - 1:,} more like it)" if again.size > 1 else ""
        raise ValueError(
            f"{columns.file.name}: {columns.place(row)} has {kind} {ids.column().item(row)!r} again, after "
            f"{columns.place(before)}{more}: give each {kind} one row."
        )


def _checked(frame: pl.DataFrame, file: str, name: str | None, known: IdIndex) -> Features:
    """What the fit will make of it, refused under the name of the file; what is to be noted is noted here, once."""
    from boundrec.data.features import read_features

    try:
        features = read_features(frame, f"the features in {file}", name, known)
    except TypeError as error:  # of a column in a Parquet file
        raise ValueError(str(error)) from None
    for note in features.notes:
        say(f"Note: {note}")
    return features
