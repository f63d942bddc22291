"""Who is compared: two baselines, three peers and our models, each fitted from arrays of codes.

A method is built for a task with its settings, gets the data ready in the form it likes (``prepare``), fits (``fit``,
the only part that is timed) and answers for pairs and for whole rows of users × items.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module, metadata
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix, csr_array, csr_matrix, hstack, identity

import boundrec
from benchmarks.accuracy.tasks import Data, Pairs
from boundrec import MBMF, BayesianMBMF
from boundrec.arrays import Floats
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import Csr, Ratings
from boundrec.models.bayesian import Implicit, Noise
from boundrec.models.side_information import MOST_IN_SETS, counting, rated_sets, well_rated
from boundrec.ranges import Form

Settings = Mapping[str, Any]
#: Settings of lists, which no prediction depends on.
FOR_LISTS = ("affinity", "rating_weight")
#: Pairs answered at a time.
BLOCK = 1 << 16
#: Users and items of the ratings on which models are compiled: enough to be in sets.
COMPILED_ON = 50


class Setup(NamedTuple):
    """What a method is built for: K, the sweeps of those that sample, a seed, and threads for those that use them."""

    n_factors: int
    sweeps: int
    seed: int
    threads: int


class Method:
    """A row of the tables.

    ``grid`` has the settings that are tried on the validation part, empty where there is nothing to tune. Settings
    named in ``late`` change only how a fitted model answers: one fit serves all their values.
    """

    package: ClassVar[str] = "boundrec"
    grid: ClassVar[tuple[Settings, ...]] = ()
    late: ClassVar[tuple[str, ...]] = ()
    #: The method whose tuned settings are taken over, where it is not tuned itself.
    tuned_as: ClassVar[str | None] = None
    #: Seconds for a rating, a factor and an iteration; and how many iterations, if not the task's sweeps.
    cost: ClassVar[float] = 0.0
    iterations: ClassVar[int | None] = None

    def __init__(self, setup: Setup, settings: Settings) -> None:
        self.setup, self.settings = setup, dict(settings)

    @property
    def version(self) -> str:
        """Name and version of the package behind it."""
        version = boundrec.__version__ if self.package == "boundrec" else metadata.version(self.package)
        return f"{self.package} {version}"

    def prepare(self, data: Data) -> None:
        """Bring the data into the form that the package takes."""
        self.data = data

    def fit(self) -> None:
        """Fit."""
        raise NotImplementedError

    def finish(self) -> None:
        """Whatever the answers need that the fit has not made."""

    def predict(self, X: Pairs) -> Floats:
        """The prediction for each pair of codes."""
        raise NotImplementedError

    def predict_all(self, users: NDArray[np.intp]) -> Floats:
        """Predictions for some users × all items."""
        raise NotImplementedError

    def predict_std(self, X: Pairs) -> Floats | None:
        """The standard deviation of a rating around each prediction, where the method has one."""
        return None

    def predict_quantiles(self, X: Pairs, quantiles: list[float]) -> Floats | None:
        """Quantiles of the rating of each pair, a column for each, where the method has them."""
        return None

    def user_noise(self) -> Floats | None:
        """The noise of each user's ratings, as a share of the usual, where the method has it; NaN for the unseen."""
        return None

    def stated(self) -> dict[str, str]:
        """What the model is built with, where defaults may change; a change makes another cell."""
        return {}

    def figures(self) -> dict[str, Any]:
        """What else is worth keeping about the fit."""
        return {}


class Additive(Method):
    """Predictions of the form mean + user's bias + item's bias + w·h; whoever is unknown has zeros."""

    mean: float
    user_bias: Floats
    item_bias: Floats
    W: Floats
    H: Floats

    def _learn(self, mean: float, user_bias: Floats, item_bias: Floats, W: Floats, H: Floats) -> None:
        self.mean, self.user_bias, self.item_bias, self.W, self.H = mean, user_bias, item_bias, W, H

    def predict(self, X: Pairs) -> Floats:
        """The prediction for each pair of codes."""
        answer = self.mean + self.user_bias[X[:, 0]] + self.item_bias[X[:, 1]]
        for start in range(0, len(X), BLOCK):
            users, items = X[start : start + BLOCK].T
            answer[start : start + BLOCK] += np.einsum("ij,ij->i", self.W[users], self.H[items], dtype=np.float64)
        return answer

    def predict_all(self, users: NDArray[np.intp]) -> Floats:
        """Predictions for some users × all items."""
        scores = self.W[users] @ self.H.T
        scores += (self.mean + self.user_bias[users])[:, None]
        scores += self.item_bias
        return np.asarray(scores)


# --- baselines --------------------------------------------------------------------------------------------------


class GlobalMean(Additive):
    """The mean of all ratings, for every pair: proves the evaluation."""

    def fit(self) -> None:
        """Take the mean."""
        n_users, n_items = self.data.shape
        nothing = np.zeros((n_users, 0)), np.zeros((n_items, 0))
        self._learn(float(self.data.y.mean()), np.zeros(n_users), np.zeros(n_items), *nothing)


class Biases(Additive):
    """Mean + user's bias + item's bias, least squares with a ridge: ten alternations, which is past rest."""

    grid = tuple({"ridge": ridge} for ridge in (2.0, 5.0, 10.0, 25.0))

    def fit(self) -> None:
        """Alternate between the biases of users and items."""
        (users, items), y = self.data.X.T, self.data.y
        mean, ridge = float(y.mean()), self.settings["ridge"]
        user_bias, item_bias = (np.zeros(count) for count in self.data.shape)
        for _ in range(10):
            item_bias = _shrunken_means(items, y - mean - user_bias[users], self.data.shape[1], ridge)
            user_bias = _shrunken_means(users, y - mean - item_bias[items], self.data.shape[0], ridge)
        n_users, n_items = self.data.shape
        self._learn(mean, user_bias, item_bias, np.zeros((n_users, 0)), np.zeros((n_items, 0)))


def _shrunken_means(codes: NDArray[np.integer], values: Floats, count: int, ridge: float) -> Floats:
    return np.asarray(np.bincount(codes, values, count) / (np.bincount(codes, minlength=count) + ridge))


# --- peers ------------------------------------------------------------------------------------------------------


class SurpriseSVD(Additive):
    """scikit-surprise's SVD: biases and factors by stochastic gradient descent, on one thread."""

    package = "scikit-surprise"
    grid = (
        {"n_epochs": 20, "lr_all": 0.005, "reg_all": 0.02},  # its defaults
        {"n_epochs": 40, "lr_all": 0.005, "reg_all": 0.06},
        {"n_epochs": 40, "lr_all": 0.005, "reg_all": 0.1},
        {"n_epochs": 40, "lr_all": 0.002, "reg_all": 0.1},
    )
    cost, iterations = 4e-8, 40

    def prepare(self, data: Data) -> None:
        """Make the Trainset, which takes Python objects."""
        super().prepare(data)
        surprise = import_module("surprise")
        entries = zip(data.X[:, 0].tolist(), data.X[:, 1].tolist(), data.y.tolist(), strict=True)
        loaded = surprise.Dataset(surprise.Reader(rating_scale=data.bounds))
        self._trainset = loaded.construct_trainset([(user, item, rating, None) for user, item, rating in entries])
        setup = self.setup
        self.model = surprise.SVD(n_factors=setup.n_factors, random_state=setup.seed, **self.settings)

    def fit(self) -> None:
        """Fit."""
        self.model.fit(self._trainset)

    def finish(self) -> None:
        """Bring its parameters into the order of the codes."""
        n_users, n_items = self.data.shape
        known = self._trainset.to_raw_uid, self._trainset.to_raw_iid
        users = [known[0](inner) for inner in range(self._trainset.n_users)]
        items = [known[1](inner) for inner in range(self._trainset.n_items)]
        bu, bi = _spread(self.model.bu, users, n_users), _spread(self.model.bi, items, n_items)
        pu, qi = _spread(self.model.pu, users, n_users), _spread(self.model.qi, items, n_items)
        self._learn(float(self._trainset.global_mean), bu, bi, pu, qi)


def _spread(values: Floats, codes: Sequence[int] | NDArray[np.integer], count: int) -> Floats:
    """Values in the order of the codes, zero for those without."""
    answer = np.zeros((count, *values.shape[1:]))
    answer[codes] = values
    return answer


class Cmfrec(Additive):
    """cmfrec's CMF: biases and factors by alternating least squares, on all threads.

    Its matrix has the users and items with ratings only, since it gives an empty row a bias of 1. Whoever is unseen
    gets the mean and the other's bias, as from cmfrec itself.
    """

    package = "cmfrec"
    grid = (
        {"lambda_": 10.0, "scale_lam": False},  # its default
        {"lambda_": 30.0, "scale_lam": False},
        {"lambda_": 0.2, "scale_lam": True},
        {"lambda_": 0.7, "scale_lam": True},
    )
    cost, iterations = 2e-8, 15

    def prepare(self, data: Data) -> None:
        """Make the sparse matrix."""
        super().prepare(data)
        self._users, users = np.unique(data.X[:, 0], return_inverse=True)
        self._items, items = np.unique(data.X[:, 1], return_inverse=True)
        self._matrix = coo_matrix((data.y, (users, items)), shape=(len(self._users), len(self._items)))
        self.model = import_module("cmfrec").CMF(
            k=self.setup.n_factors,
            precompute_for_predictions=False,
            verbose=False,
            random_state=self.setup.seed + 1,
            nthreads=self.setup.threads,
            **{"niter": 15, **self.settings},
        )

    def fit(self) -> None:
        """Fit."""
        self.model.fit(self._matrix)

    def finish(self) -> None:
        """Bring its parameters into the order of the codes."""
        model, (n_users, n_items) = self.model, self.data.shape
        user_bias = _spread(model.user_bias_, self._users, n_users)
        item_bias = _spread(model.item_bias_, self._items, n_items)
        W, H = _spread(model.A_, self._users, n_users), _spread(model.B_, self._items, n_items)
        self._learn(float(model.glob_mean_), user_bias, item_bias, W, H)


class MyFM(Method):
    """myFM's Gibbs sampler: a factorisation machine on the one-hot user and item, which are its two groups.

    ``discarded`` is how many sweeps do not count (its default is 5, or as much as a half). ``unknown`` is what a user
    or item unseen in training adds: "prior", draws from the group's distribution, as with a column of its own; or
    "nothing", as with a one-hot encoder that ignores it.
    """

    package = "myfm"
    late = ("discarded", "unknown")
    grid = tuple(
        {"discarded": discarded, "unknown": unknown}
        for discarded in ("5", "quarter", "half")
        for unknown in ("prior", "nothing")
    )
    cost = 6e-8

    def prepare(self, data: Data) -> None:
        """Make what it is fitted to."""
        super().prepare(data)
        self._given = self._inputs(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            regressor = import_module("myfm").MyFMGibbsRegressor
        self.model = regressor(rank=self.setup.n_factors, random_seed=self.setup.seed)

    def _inputs(self, data: Data) -> dict[str, Any]:
        """The one-hot matrix, with a column for every user and item of the data set, and its groups."""
        n_users, n_items = data.shape
        rows = np.repeat(np.arange(len(data.y)), 2)
        columns = (data.X + np.array([0, n_users], np.int32)).ravel()
        matrix = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(data.y), n_users + n_items))
        return {"X": matrix, "group_shapes": [n_users, n_items]}

    def fit(self) -> None:
        """Sample, and keep every sample but the first five."""
        self.model.fit(y=self.data.y, n_iter=self.setup.sweeps, **self._given)

    def finish(self) -> None:
        """Take the samples over; what unseen ids add depends on the settings."""
        samples = self.model.predictor_.samples
        self._w0 = np.array([sample.w0 for sample in samples])
        self._w = np.array([sample.w for sample in samples])
        self._V = np.array([sample.V for sample in samples])
        self._variances = np.array([1 / hyper.alpha for hyper in self.model.history_.hypers])[-len(samples) :]

    def _first(self) -> int:
        """The first sample that counts."""
        share = {"5": 0.0, "quarter": 0.25, "half": 0.5}[self.settings["discarded"]]
        return max(0, min(round(share * self.setup.sweeps) - 5, len(self._w0) - 1))

    def _samples(self, columns: NDArray[np.integer]) -> tuple[Floats, Floats]:
        """Biases and factors of some users and items, by sample that counts."""
        w, V = self._w[self._first() :, columns], self._V[self._first() :, columns]
        if self.settings["unknown"] == "nothing":
            seen = np.concatenate(self.data.seen)[columns]
            w, V = w * seen, V * seen[:, None]
        return w, V

    def _by_sample(self, X: Pairs) -> Floats:
        """What each sample predicts, one row for each."""
        answer = np.empty((len(self._w0) - self._first(), len(X)))
        for start in range(0, len(X), BLOCK // 64):
            users, items = X[start : start + BLOCK // 64].T
            (w_user, V_user), (w_item, V_item) = self._samples(users), self._samples(self.data.shape[0] + items)
            inner = np.einsum("sij,sij->si", V_user, V_item)
            answer[:, start : start + BLOCK // 64] = self._w0[self._first() :, None] + w_user + w_item + inner
        return answer

    def predict(self, X: Pairs) -> Floats:
        """The mean of the samples' predictions."""
        return np.asarray(self._by_sample(X).mean(axis=0))

    def predict_all(self, users: NDArray[np.intp]) -> Floats:
        """Predictions for some users × all items: the samples side by side are one product."""
        n_users, n_items = self.data.shape
        (w_user, V_user), (w_item, V_item) = self._samples(users), self._items(n_users, n_items)
        flat = V_user.transpose(1, 0, 2).reshape(len(users), -1)
        scores = flat @ V_item / len(w_user)
        scores += (self._w0[self._first() :].mean() + w_user.mean(axis=0))[:, None]
        scores += w_item
        return np.asarray(scores)

    def _items(self, n_users: int, n_items: int) -> tuple[Floats, Floats]:
        """Mean biases and stacked factors of all items, made once."""
        if not hasattr(self, "_stacked"):
            w, V = self._samples(np.arange(n_users, n_users + n_items))
            self._stacked = w.mean(axis=0), np.ascontiguousarray(V.transpose(0, 2, 1).reshape(-1, n_items))
        return self._stacked

    def predict_std(self, X: Pairs) -> Floats:
        """What the samples disagree on, and the noise of a single rating."""
        return np.asarray(np.sqrt(self._by_sample(X).var(axis=0) + self._variances[self._first() :].mean()))


class MyFMWithSets(MyFM):
    """myFM with the sets that `BayesianMBMF` takes, as features of users and items in a relation block each.

    A user's row of the block has the user and the items that they rated, an item's row the item and its raters. All
    that a factorisation machine makes of a row, products within it included, is a bias and a vector of factors.
    """

    tuned_as = "myFM"
    cost = 1.5e-7

    def _inputs(self, data: Data) -> dict[str, Any]:
        """The two blocks, whose columns are up to four groups."""
        sets = who_rated_what(data)
        self._sides = [csr_matrix(hstack([identity(own.shape[0]), own])) for own in sets]
        groups = [size for own in sets for size in own.shape if size]
        block = import_module("myfm").RelationBlock
        blocks = [block(data.X[:, side].astype(np.int64), self._sides[side]) for side in (0, 1)]
        return {"X": None, "X_rel": blocks, "group_shapes": groups}

    def finish(self) -> None:
        """Take the samples over, as the bias and the factors that each row comes to."""
        super().finish()
        w, V, first = [], [], 0
        for rows in self._sides:
            own = slice(first, first + rows.shape[1])
            first = own.stop
            found = [as_a_row(rows, *sample) for sample in zip(self._w[:, own], self._V[:, own], strict=True)]
            w.append([bias for bias, _ in found])
            V.append([factors for _, factors in found])
        self._w, self._V = np.concatenate(w, axis=1), np.concatenate(V, axis=1)


def as_a_row(rows: csr_matrix, w: Floats, V: Floats) -> tuple[Floats, Floats]:
    """Bias and factors that rows of features x come to: w·x + ½(|xV|² − Σ x_f²|V_f|²), and xV."""
    factors = rows @ V
    within = np.einsum("ik,ik->i", factors, factors) - rows.multiply(rows) @ np.einsum("fk,fk->f", V, V)
    return rows @ w + within / 2, factors


def who_rated_what(data: Data) -> tuple[csr_array, csr_array]:
    """The sets of users and of items, by the rule of implicit="auto"; no columns for a side that it leaves out."""
    n_users, n_items = data.shape
    users, items = IdIndex(np.arange(n_users)), IdIndex(np.arange(n_items))
    ratings = Ratings.from_codes((users, data.X[:, 0]), (items, data.X[:, 1]), data.y)
    return _sets(ratings.by_user, n_items), _sets(ratings.by_item, n_users)


def _sets(csr: Csr, n_others: int) -> csr_array:
    in_sets = well_rated(csr, n_others)
    if not in_sets.size or in_sets.size > MOST_IN_SETS * np.count_nonzero(counting(csr)):
        return csr_array((csr.indptr.size - 1, 0))
    return rated_sets(csr, in_sets)


# --- ours -------------------------------------------------------------------------------------------------------


class Own(Method):
    """A model of boundrec. Kernels are compiled on a handful of ratings before the clock starts."""

    def build(self, bounds: Any) -> Any:
        """The model, not fitted."""
        raise NotImplementedError

    def prepare(self, data: Data) -> None:
        """Build the model, and another one to compile what it needs."""
        super().prepare(data)
        self.model = self.build(data.bounds)
        warnings.simplefilter("ignore")
        pairs = np.argwhere(np.ones((COMPILED_ON, COMPILED_ON))).astype(data.X.dtype)
        ratings = np.random.default_rng(0).choice(data.y, len(pairs))
        self.build(data.bounds).set_params(max_iter=2).fit(pairs, ratings).predict(pairs)

    def fit(self) -> None:
        """Fit, reading of the arrays included."""
        self.model.fit(self.data.X, self.data.y)

    def predict(self, X: Pairs) -> Floats:
        """The prediction for each pair of codes."""
        return np.asarray(self.model.predict(X))

    def predict_all(self, users: NDArray[np.intp]) -> Floats:
        """Predictions for some users × all items, as `predict` gives them."""
        n_items = self.data.shape[1]
        X = np.column_stack((np.repeat(users, n_items), np.tile(np.arange(n_items), len(users))))
        return self.predict(X.astype(np.int32)).reshape(len(users), n_items)

    def stated(self) -> dict[str, str]:
        """Every setting of the model, but for those that change no prediction."""
        settings = self.build(None).get_params()
        return {name: repr(value) for name, value in settings.items() if name not in ("n_jobs", *FOR_LISTS)}

    def figures(self) -> dict[str, Any]:
        """How many sweeps there were, and what one takes."""
        steps = np.diff(self.model.seconds_)
        return {"iterations": int(self.model.n_iter_), "sweep_seconds": float(np.median(steps)) if steps.size else None}


class PaperN(Own):
    """The paper's MBMF-n: sphere, angles, 500 iterations; magnitudes from the range, as no history is used."""

    form: Form = "n"
    cost, iterations = 3e-9, 500

    def build(self, bounds: Any) -> Any:
        """The model, not fitted."""
        setup = self.setup
        return MBMF.as_in_paper(
            setup.n_factors, form=self.form, bounds=bounds, random_state=setup.seed, n_jobs=setup.threads
        )


class PaperC(PaperN):
    """The paper's MBMF-c."""

    form = "c"


class Exact(Own):
    """`MBMF` as it comes: the exact solver on the ball."""

    cost, iterations = 1.2e-8, 20

    def build(self, bounds: Any) -> Any:
        """The model, not fitted."""
        setup = self.setup
        return MBMF(setup.n_factors, bounds=bounds, random_state=setup.seed, n_jobs=setup.threads)


class Bayesian(Own):
    """`BayesianMBMF` with the sets and the noise that it finds worth having; K and the number of sweeps are given."""

    cost = 4e-8
    implicit: ClassVar[Implicit] = "auto"
    noise: ClassVar[Noise] = "auto"

    def build(self, bounds: Any) -> Any:
        """The model, not fitted."""
        setup = self.setup
        return BayesianMBMF(
            setup.n_factors,
            bounds=bounds,
            implicit=self.implicit,
            noise=self.noise,
            max_iter=setup.sweeps,
            random_state=setup.seed,
            n_jobs=setup.threads,
        )

    def predict_std(self, X: Pairs) -> Floats:
        """The standard deviation that the model states."""
        return np.asarray(self.model.predict(X, return_std=True)[1])

    def predict_quantiles(self, X: Pairs, quantiles: list[float]) -> Floats:
        """The quantiles that the model states."""
        return np.asarray(self.model.predict_quantiles(X, quantiles))

    def user_noise(self) -> Floats | None:
        """By the mean steadiness of the samples, where users have a noise of their own."""
        users = self.model.fitted_.users
        if users.steadiness is None:
            return None
        found = np.full(self.data.shape[0], np.nan)
        found[users.ids.ids] = 1 / np.sqrt(users.steadiness.mean(axis=1, dtype=np.float64))
        return found


class RatingsAlone(Bayesian):
    """`BayesianMBMF` without sets, and with one noise for all."""

    cost = 1.2e-8
    implicit, noise = "off", "one"


METHODS: dict[str, type[Method]] = {
    "global mean": GlobalMean,
    "biases only": Biases,
    "Surprise SVD": SurpriseSVD,
    "cmfrec": Cmfrec,
    "myFM": MyFM,
    "myFM, with sets": MyFMWithSets,
    "MBMF-n, paper": PaperN,
    "MBMF-c, paper": PaperC,
    "MBMF": Exact,
    "BayesianMBMF, ratings alone": RatingsAlone,
    "BayesianMBMF": Bayesian,
}
OURS = tuple(name for name, method in METHODS.items() if issubclass(method, Own))
PEERS = tuple(name for name, method in METHODS.items() if method.package != "boundrec")
