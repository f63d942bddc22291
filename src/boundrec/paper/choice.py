"""Which cells of the plan a reader wants done: by data set, method, K and number of folds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from boundrec.paper.cells import Cell

#: What can be chosen: the setting of a cell, the option, and what to call it in a sentence.
CHOSEN_BY = {
    "data": ("--dataset", "data sets"),
    "method": ("--method", "methods"),
    "factors": ("--k", "values of K"),
    "fold": ("--folds", "folds"),
}
#: What there is to choose from: setting -> values.
Known = Mapping[str, Sequence[Any]]


class Choice(NamedTuple):
    """What is to be done; None is everything."""

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    factors: tuple[int, ...] | None = None
    n_folds: int | None = None

    @property
    def everything(self) -> bool:
        """Whether nothing was chosen."""
        return self == EVERYTHING

    def takes(self, cell: Cell, implied: Mapping[str, Any]) -> bool:
        """Whether a cell is wanted; ``implied`` is what its experiment keeps the same and does not say in each."""
        told = {**implied, **cell.settings}
        named = {"data": self.datasets, "method": self.methods, "factors": self.factors}
        if any(values is not None and told.get(key) not in values for key, values in named.items()):
            return False
        return self.n_folds is None or told.get("fold", 0) < self.n_folds  # what has no folds is not limited by them


EVERYTHING = Choice()


def _merged(known: Iterable[Known]) -> dict[str, list[Any]]:
    """What there is to choose from in several experiments together."""
    together: dict[str, dict[Any, None]] = {}
    for some in known:
        for key, values in some.items():
            together.setdefault(key, {}).update(dict.fromkeys(values))
    return {key: sorted(values) if key == "factors" else list(values) for key, values in together.items()}


def make_choice(
    target: str,
    experiments: Sequence[Known],
    *,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    factors: Sequence[str] = (),
    n_folds: int | None = None,
) -> Choice:
    """The choice that the options make among the cells of experiments; in each, all goes with all.

    ValueError names what is not in the plan, and what is.
    """
    known = _merged(experiments)
    if n_folds is not None:
        there = len(_values("fold", target, known))
        if not 1 <= n_folds <= there:
            raise ValueError(f"--folds {n_folds}: give a number from 1 to {there}, the folds that {target} has here.")
    asked = {"data": datasets, "method": methods, "factors": factors}
    named = {key: found for key, texts in asked.items() if (found := _named(key, texts, target, known)) is not None}
    if not any(all(set(values) & set(one.get(key, ())) for key, values in named.items()) for one in experiments):
        told = " ".join(f"{CHOSEN_BY[key][0]} {', '.join(map(repr, values))}" for key, values in named.items())
        raise ValueError(f"{told}: no cell of {target} has these together. Leave one of the options out.")
    return Choice(named.get("data"), named.get("method"), named.get("factors"), n_folds)


def _values(key: str, target: str, known: Known) -> Sequence[Any]:
    option, things = CHOSEN_BY[key]
    if key not in known:
        raise ValueError(f"{option}: {target} has no {things} to choose from. Leave the option out.")
    return known[key]


def _named(key: str, texts: Sequence[str], target: str, known: Known) -> tuple[Any, ...] | None:
    """The values that texts name, several with commas between them; a name may have a comma itself."""
    if not texts:
        return None
    option, things = CHOSEN_BY[key]
    values = _values(key, target, known)
    by_text = {str(value).casefold(): value for value in values}
    found: dict[Any, None] = {}
    for text in texts:
        parts = [part.strip() for part in text.split(",")]
        while parts:
            starts = {n: by_text.get(", ".join(parts[:n]).casefold()) for n in range(len(parts), 0, -1)}
            length = next((n for n, value in starts.items() if value is not None), None)
            if length is None:
                listed = ", ".join(map(repr, values))
                raise ValueError(f"{option} {parts[0]!r} is not among the {things} of {target}: {listed}.")
            found[starts[length]] = None
            parts = parts[length:]
    return tuple(found)
