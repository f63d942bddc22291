"""Who is compared, each fitted from arrays of codes: what is trivial, neighbours, EASE, least squares, and our models.

A method is built with its settings, gets the data ready in the form it likes (``prepare``), fits (``fit``, the only
part that is timed) and gives lists of unseen items, in one or several ways of sorting them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module, metadata
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix

import boundrec
from benchmarks.ranking.tasks import Data, Task
from benchmarks.ranking.unbounded import alternate
from boundrec import MBMF, BayesianMBMF, ImplicitMBMF
from boundrec.arrays import Codes, Floats
from boundrec.baselines import Popularity
from boundrec.models.implicit import PENALTY_SHARE

Settings = Mapping[str, Any]
Lists = dict[str, NDArray[np.int64]]  # by the way of sorting, "" where there is one; −1 where a list is short
#: Scores of users × items held at a time.
AT_A_TIME = 8_000_000
#: Rows of the largest matrix that is inverted: of 30,000² numbers, 7 GB.
MOST_INVERTED = 30_000


class Method:
    """A row of the tables, or several where lists are sorted in several ways."""

    package: ClassVar[str] = "boundrec"
    #: Seconds of a fit, as a share of those that least squares over all pairs take.
    cost: ClassVar[float] = 1.0

    def __init__(self, task: Task, seed: int, settings: Settings) -> None:
        self.task, self.seed, self.settings = task, seed, dict(settings)

    @classmethod
    def grid(cls, task: Task) -> list[Settings]:
        """The settings that are tried on the validation part; none where it is measured as it comes."""
        return []

    @classmethod
    def fits(cls, task: Task) -> bool:
        """Whether it can be run on a data set."""
        return True

    @property
    def version(self) -> str:
        """Name and version of the package behind it."""
        version = boundrec.__version__ if self.package == "boundrec" else metadata.version(self.package)
        return f"{self.package} {version}"

    def stated(self) -> dict[str, str]:
        """What it is built with, where defaults may change; a change makes another cell."""
        return {}

    def prepare(self, data: Data) -> None:
        """Bring the data into the form that the method takes."""
        self.data = data
        ones = np.ones(len(data.X), np.float32)
        self.clicks = csr_matrix((ones, (data.X[:, 0], data.X[:, 1])), shape=data.shape)

    def fit(self) -> None:
        """Fit."""
        raise NotImplementedError

    def lists(self, users: Codes, n: int) -> Lists:
        """The n best unseen items of each user, in each way of sorting."""
        blocks = [self._best(some, n) for some in _in_blocks(users, self.data.shape[1])]
        return {"": np.concatenate(blocks)}

    def scores(self, users: Codes) -> Floats:
        """Scores of some users × all items; −inf for what is not to be listed."""
        raise NotImplementedError

    def _best(self, users: Codes, n: int) -> NDArray[np.int64]:
        """The best of those that somebody chose and the user has not; equal scores in the order of the items."""
        scores = np.asarray(self.scores(users))
        scores[:, ~self.data.known] = -np.inf
        seen = self.clicks[users].tocoo()
        scores[seen.row, seen.col] = -np.inf
        near = np.argpartition(-scores, n - 1, axis=1)[:, :n]
        found = np.take_along_axis(scores, near, axis=1)
        order = np.lexsort((near, -found), axis=1)
        best = np.take_along_axis(near, order, axis=1).astype(np.int64)
        best[np.take_along_axis(found, order, axis=1) == -np.inf] = -1
        return best


def _in_blocks(users: Codes, n_items: int) -> Iterator[Codes]:
    step = max(1, AT_A_TIME // n_items)
    for start in range(0, len(users), step):
        yield users[start : start + step]


# --- what is trivial --------------------------------------------------------------------------------------------


class MostChosen(Method):
    """The items that most people chose, for everybody."""

    cost = 0.02

    def fit(self) -> None:
        """Count."""
        self.model = Popularity().fit(self.data.X)

    def lists(self, users: Codes, n: int) -> Lists:
        """As the library gives them."""
        return {"": self.model.recommend(users, n=n)[0]}


# --- neighbours and EASE ------------------------------------------------------------------------------------------


class Neighbours(Method):
    """implicit's item neighbours: a score is the sum of similarities to what the user chose."""

    package = "implicit"
    cost = 0.1
    kind: ClassVar[str]

    def fit(self) -> None:
        """Find the K most similar items of each."""
        self.model = getattr(import_module("implicit.nearest_neighbours"), self.kind)(num_threads=1, **self.settings)
        self.model.fit(self.clicks, show_progress=False)

    def scores(self, users: Codes) -> Floats:
        """Of some users × all items; an item that is a neighbour of nothing is not listed."""
        found = (self.clicks[users] @ self.model.similarity).toarray()
        found[found <= 0] = -np.inf
        return np.asarray(found)


class Cosine(Neighbours):
    """By the cosine of who chose them."""

    kind = "CosineRecommender"

    @classmethod
    def grid(cls, task: Task) -> list[Settings]:
        """Numbers of neighbours."""
        return [{"K": K} for K in task.neighbours]


class BM25(Neighbours):
    """By BM25's weights of who chose them."""

    kind = "BM25Recommender"

    @classmethod
    def grid(cls, task: Task) -> list[Settings]:
        """Numbers of neighbours, and how much a user's many choices count less."""
        return [{"K": K, "K1": 1.2, "B": B} for K, B in product(task.neighbours[-2:], (0.05, 0.25, 0.75))]


class EASE(Method):
    """Item weights in closed form: B = I − P diag(P)⁻¹ with P = (XᵀX + λI)⁻¹ (Steck, 2019).

    Where users are fewer than items, the same is solved among the users: XP = (XXᵀ + λI)⁻¹X, and
    diag(P) = (1 − diag(Xᵀ(XXᵀ + λI)⁻¹X)) / λ.
    """

    cost = 0.5

    @classmethod
    def fits(cls, task: Task) -> bool:
        """Where the fewer of users and items make a matrix that can be inverted."""
        return task.fewest <= MOST_INVERTED

    @classmethod
    def grid(cls, task: Task) -> list[Settings]:
        """Ridges."""
        return [{"ridge": ridge} for ridge in (12.5 * 2.0 ** np.arange(9)).tolist()]

    def fit(self) -> None:
        """Invert among the fewer of users and items."""
        X, ridge, (n_users, n_items) = self.clicks.astype(np.float64), self.settings["ridge"], self.data.shape
        if n_users < n_items:
            inverse = cho_solve(cho_factor((X @ X.T).toarray() + ridge * np.eye(n_users)), np.eye(n_users))
            self._projected = np.asarray((X.T @ inverse).T)  # (XXᵀ + λI)⁻¹ X
            diagonal = (1 - np.asarray(X.multiply(self._projected).sum(axis=0)).ravel()) / ridge
        else:
            P = cho_solve(cho_factor((X.T @ X).toarray() + ridge * np.eye(n_items)), np.eye(n_items))
            self._projected, diagonal = np.asarray(X @ P), np.diag(P)
        self._projected /= -diagonal

    def scores(self, users: Codes) -> Floats:
        """XB, but for what the user chose, which is not listed."""
        return self._projected[users]


# --- least squares over all pairs -----------------------------------------------------------------------------------


class Factors(Method):
    """Scores that are inner products."""

    W: Floats
    H: Floats

    def scores(self, users: Codes) -> Floats:
        """Products of some users' rows and all items'."""
        return np.asarray(self.W[users] @ self.H.T)


class ALS(Factors):
    """implicit's alternating least squares on the processor, as it comes."""

    package = "implicit"
    cost = 0.5

    def fit(self) -> None:
        """Fit."""
        kind = import_module("implicit.cpu.als").AlternatingLeastSquares
        self.model = kind(num_threads=1, random_state=self.seed, **self.settings)
        self.model.fit(self.clicks, show_progress=False)
        self.W, self.H = self.model.user_factors, self.model.item_factors


class TunedALS(ALS):
    """The same, tuned."""

    @classmethod
    def grid(cls, task: Task) -> list[Settings]:
        """As it comes; and with ridges and with a click's confidence c = (1 + α)/α, for which its loss weighs as ours.

        Ours has α in the unobserved pairs and 1 + α in the observed ones, implicit's 1 and c.
        """
        confidences = [round((1 + weight) / weight, 2) for weight in task.weights]
        points = [(task.factors, c, ridge) for c, ridge in product(confidences, (2.0, 20.0, 60.0))]
        points += [(task.more_factors, c, 20.0) for c in confidences if task.more_factors is not None]
        return [{}, *({"factors": K, "alpha": c, "regularization": ridge} for K, c, ridge in points)]


def all_pairs_grid(task: Task) -> list[Settings]:
    """What is tried for least squares over all pairs, with the ball and without."""
    points = [(task.factors, weight, share) for weight, share in product(task.weights, task.shares)]
    if task.more_factors is not None:
        points += [(task.more_factors, weight, PENALTY_SHARE) for weight in task.weights]
    return [{"n_factors": factors, "unobserved_weight": weight, "share": share} for factors, weight, share in points]


class Unbounded(Factors):
    """The loss of `ImplicitMBMF` without the ball, tuned over the same grid."""

    cost = 2.0

    @classmethod
    def grid(cls, task: Task) -> list[Settings]:
        """That of `ImplicitMBMF`."""
        return all_pairs_grid(task)

    def fit(self) -> None:
        """Alternate."""
        chosen = dict(self.settings)
        weight = chosen.pop("unobserved_weight")
        ridge = ridge_for(self.clicks, weight, chosen.pop("share"))
        self.W, self.H = alternate(self.clicks, weight=weight, ridge=ridge, seed=self.seed, **chosen)


def ridge_for(clicks: csr_matrix, weight: float, share: float) -> float:
    """λ that makes the penalty of a typical row so large a share of its clicks: share · density / α."""
    n_users, n_items = (np.count_nonzero(np.bincount(codes)) for codes in clicks.nonzero())
    return share * clicks.nnz / (n_users * n_items) / weight


# --- ours -------------------------------------------------------------------------------------------------------------


class Own(Method):
    """A model of boundrec. Kernels are compiled on a handful of pairs before the clock starts."""

    def build(self, settings: Settings) -> Any:
        """The model, not fitted."""
        raise NotImplementedError

    def strengths(self, data: Data) -> Floats | None:
        """What is learnt besides who chose what."""
        return data.y

    def prepare(self, data: Data) -> None:
        """Compile."""
        super().prepare(data)
        rng = np.random.default_rng(0)
        few = rng.permutation(len(data.X))[:500]
        y = self.strengths(data)
        self.build({"max_iter": 3, "n_factors": 8}).fit(data.X[few], None if y is None else y[few])

    def stated(self) -> dict[str, str]:
        """All settings of the model."""
        return {name: str(value) for name, value in self.build({}).get_params().items()}

    def fit(self) -> None:
        """Fit."""
        self.model = self.build({}).fit(self.data.X, self.strengths(self.data))

    def lists(self, users: Codes, n: int) -> Lists:
        """As the model recommends."""
        return {"": self.model.recommend(users, n=n)[0]}


class Clicks(Own):
    """`ImplicitMBMF` as it comes."""

    def build(self, settings: Settings) -> Any:
        """The model, with what was chosen for it."""
        chosen = dict(self.settings)
        if "share" in chosen:
            weight, share = chosen["unobserved_weight"], chosen.pop("share")
            chosen["ridge"] = ridge_for(self.clicks, weight, share)
        return ImplicitMBMF(n_jobs=1, random_state=self.seed, **{**chosen, **settings})

    def strengths(self, data: Data) -> Floats | None:
        """Nothing: a click is a click."""
        return None


class TunedClicks(Clicks):
    """The same, tuned."""

    @classmethod
    def grid(cls, task: Task) -> list[Settings]:
        """As it comes, and over α, λ and K."""
        return [{}, *all_pairs_grid(task)]


class Stars(Clicks):
    """`ImplicitMBMF` with ratings for strengths, as it comes."""

    @classmethod
    def fits(cls, task: Task) -> bool:
        """Where there are ratings."""
        return task.ratings

    def strengths(self, data: Data) -> Floats | None:
        """The ratings."""
        return data.y


class TunedStars(Stars):
    """The same, tuned."""

    @classmethod
    def grid(cls, task: Task) -> list[Settings]:
        """That of `TunedClicks`."""
        return TunedClicks.grid(task)


class Exact(Own):
    """`MBMF` as it comes; its lists are by the predicted rating."""

    @classmethod
    def fits(cls, task: Task) -> bool:
        """Where there are ratings."""
        return task.ratings

    def build(self, settings: Settings) -> Any:
        """The model."""
        return MBMF(n_jobs=1, random_state=self.seed, **self.task.numbers, **settings)


class Sampled(Own):
    """`BayesianMBMF` with affinities beside its ratings, in every way of sorting that it has."""

    cost = 3.0

    def build(self, settings: Settings) -> Any:
        """The model."""
        return BayesianMBMF(affinity=True, n_jobs=1, random_state=self.seed, **self.task.numbers, **settings)

    def lists(self, users: Codes, n: int) -> Lists:
        """As the model recommends, by each of its scores; a lower end of every pair is for few items only."""
        ways = ("rating", "lower", "blend") if self.task.ratings else ("rating", "blend")
        return {way: self.model.recommend(users, n=n, by=way)[0] for way in ways}


METHODS: dict[str, type[Method]] = {
    "popularity": MostChosen,
    "cosine neighbours, tuned": Cosine,
    "BM25 neighbours, tuned": BM25,
    "EASE, tuned": EASE,
    "implicit's ALS": ALS,
    "implicit's ALS, tuned": TunedALS,
    "without the ball, tuned": Unbounded,
    "ImplicitMBMF": Clicks,
    "ImplicitMBMF, tuned": TunedClicks,
    "ImplicitMBMF with stars": Stars,
    "ImplicitMBMF with stars, tuned": TunedStars,
    "MBMF": Exact,
    "BayesianMBMF": Sampled,
}


def row_name(method: str, way: str) -> str:
    """What a row of the table is called."""
    return f"{method} by {way}" if way else method
