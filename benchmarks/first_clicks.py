"""The list of somebody new, by how many ratings it is made from, beside that of a stranger: NDCG@10 on MovieLens 100k.

A fifth of the people are new. Of each who rated 45 films or more forty are drawn, of which the model is given the first
1, 2, 3, …; the others are what lists are judged by, as far as they are rated at or above the mean. None of the forty is
in any list, so that all lists are of the same films.

The rows of affinities are also *lent* m clicks of the mean row of the fit, (n·w + m·w̄)/(n + m), which is no part of any
model. What m does is looked at on validation people, a fifth of those who are left, and the m that is best there on
average is tested.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Part, real_data, save_parts
from boundrec import BayesianMBMF
from boundrec.datasets import Dataset
from boundrec.metrics import ndcg_at_k

DRAWS, SHOWN, LENT = (0, 1, 2), (1, 2, 3, 5, 10, 20, 40), (0, 1, 2, 4, 8)
FORTY, FEWEST, PLACES = 40, 45, 10
STRANGER = -1


class People(NamedTuple):
    """Who is new to a model: the ratings that it may be given, in their order, and those that lists are judged by."""

    model: BayesianMBMF
    shown: dict[int, NDArray[np.intp]]
    liked: NDArray[np.intp]

    @classmethod
    def of(cls, data: Dataset, new: NDArray[Any], known: NDArray[Any], seed: int) -> People:
        """A model of those who are known, and the ratings of the others."""
        rng, train = np.random.default_rng(seed), np.isin(data.user, known)
        model = BayesianMBMF(bounds=data.bounds, affinity=True, random_state=0).fit(
            data.pairs[train], data.rating[train]
        )
        mean, usable = data.rating[train].mean(), np.isin(data.item, data.item[train])
        shown, liked = {}, []
        for user in new.tolist():
            own = rng.permutation(np.flatnonzero((data.user == user) & usable))
            if own.size >= FEWEST:
                shown[user] = own[:FORTY]
                liked.append(own[FORTY:][data.rating[own[FORTY:]] >= mean])
        return cls(model, shown, np.concatenate(liked))

    def judged(self, data: Dataset, lists: NDArray[Any]) -> float:
        """NDCG@10 of long lists, a row for each person, once the forty are taken out."""
        short = [
            [item for item in one if item not in set(data.item[self.shown[user]].tolist())][:PLACES]
            for user, one in zip(self.shown, lists.tolist(), strict=True)
        ]
        return ndcg_at_k(data.user[self.liked], data.item[self.liked], list(self.shown), short, PLACES)

    def by_stranger(self, data: Dataset) -> float:
        """Everybody has the list of somebody unknown."""
        one = self.model.recommend([STRANGER], n=FORTY + PLACES)[0]
        return self.judged(data, np.repeat(one, len(self.shown), axis=0))

    def by_few(self, data: Dataset, n: int, by: str = "blend", lent: float = 0.0) -> float:
        """Lists made from n ratings; by affinities whose rows are lent some clicks of the mean row."""
        given = np.concatenate([rows[:n] for rows in self.shown.values()])
        view = self.model.fold_in(data.pairs[given], data.rating[given])
        known, choices = self.model.fitted_.choices, view.fitted_.choices
        assert known is not None
        assert choices is not None
        rows, usual = choices.users.factors, known.users.factors.mean(axis=0)
        factors = ((n * rows + lent * usual) / (n + lent)).astype(rows.dtype)
        lent_to = replace(choices, users=replace(choices.users, factors=factors))
        view._learned = replace(view.fitted_, choices=lent_to)
        asked: Any = view.affinity_ if by == "affinity" else view
        more = {} if by == "affinity" else {"by": by}
        return self.judged(data, asked.recommend(list(self.shown), n=FORTY + PLACES, exclude_seen=False, **more)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="write the tables to benchmarks/results")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    data = real_data("movielens_100k")
    if data is None:
        raise SystemExit("MovieLens 100k is needed: set BOUNDREC_DATA to its folder.")
    validation, tested = zip(*(_people(data, seed) for seed in DRAWS), strict=True)
    chosen = [[_mean(data, validation, n, lent=lent) for lent in LENT] for n in SHOWN]
    best = LENT[int(np.argmax(np.mean(chosen, axis=0)))]
    stranger = np.mean([people.by_stranger(data) for people in tested])
    rows = [["0, a stranger", "", "", f"{stranger:.3f}", ""]]
    for n in SHOWN:
        figures = [_mean(data, tested, n, by) for by in ("rating", "affinity", "blend")]
        rows.append([str(n), *(f"{one:.3f}" for one in [*figures, _mean(data, tested, n, lent=best)])])
    shown = [[str(n), *(f"{one:.3f}" for one in line)] for n, line in zip(SHOWN, chosen, strict=True)]
    parts = {
        "a": Part("Validation people: blend, rows lent m clicks", ["ratings", *(f"m = {m}" for m in LENT)], shown),
        "b": Part("New people", ["ratings", "rating", "affinity", "blend", f"blend, lent {best}"], rows),
    }
    for part in parts.values():
        print(part.markdown())
    if arguments.save:
        save_parts(parts, "first_clicks")


def _people(data: Dataset, seed: int) -> tuple[People, People]:
    """Those by whom m is chosen, and those who are tested, of whom the first model knows nothing either."""
    people = np.random.default_rng(seed).permutation(np.unique(data.user))
    fifth = len(people) // 5
    tested, rest = people[:fifth], people[fifth:]
    return (
        People.of(data, rest[: len(rest) // 5], rest[len(rest) // 5 :], seed),
        People.of(data, tested, rest, seed),
    )


def _mean(data: Dataset, draws: tuple[People, ...], n: int, by: str = "blend", lent: float = 0.0) -> float:
    return float(np.mean([people.by_few(data, n, by, lent) for people in draws]))


if __name__ == "__main__":
    main()
