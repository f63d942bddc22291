"""The whole sampler as Geweke (2004) tests one: sweeps and simulated ratings in turn, against draws from the prior.

If every conditional is right, drawing all unknowns given the ratings and the ratings given all unknowns, in turn, has
the distribution of the model's own forward simulation. Leaving the ball's constant out of the prior's conditional is
exact for the model conditioned on all rows being inside: forward draws with a row outside are rejected whole. The mean
of rows has Cauchy tails a priori, so what is compared is bounded.
"""

from dataclasses import dataclass
from functools import partialmethod

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import chisquare
from threadpoolctl import threadpool_limits

import naive
from boundrec.data.ratings import Csr
from boundrec.models.side_information import links_of
from boundrec.solvers import Side, gibbs, normal_equations, row_noise
from boundrec.solvers.exact import HELD_BY_ITEMS, HELD_BY_USERS, HELD_SHARE
from boundrec.solvers.gibbs import Kept, KeptSide, RatingNoise, Sampler
from boundrec.solvers.growth import NoiseGrowth
from boundrec.solvers.links import Links
from boundrec.solvers.row_noise import RowNoise
from boundrec.solvers.threads import RowPool


@pytest.fixture(autouse=True)
def one_thread():
    """Matrices of two rows are no work for several threads, which would wait for each other."""
    with threadpool_limits(1):
        yield


#: Three users who rated, one who did not, and two items; each row has a bias and one factor.
USERS, ITEMS = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 0, 0, 1])
BY_ITEM = np.lexsort((USERS, ITEMS))
RATED = np.array([True, True, True, False])
RADIUS = {"users": np.array([1.5, 2.0, 1.2, 1.0]), "items": np.array([1.6, 1.1])}
FEATURES = np.array(
    [
        [1.0, 0.0, 0.5, 0.2, 0.0, 0.4],
        [0.0, 1.0, -0.5, 0.0, 0.3, 0.0],
        [0.6, -0.8, 0.0, 0.5, 0.0, 0.2],
        [0.5, 0.1, 0.0, 0.2, 0.1, 0.2],  # nearly the mean of the others: its prior is never far outside
    ]
)
GROUPS = [4, 2]
HALF_WIDTHS = np.array([0.3, 1.0, 3.0, 1.0, 0.5])
#: Priors of noise that are stronger than those in use: chains forget sooner. Items may differ as much as users.
NOISE_ROWS, GUESS, USERS_ALIKE, ITEMS_ALIKE = 4.0, 0.5, 5.0, 3.0
N_SWEEPS, N_BATCHES, N_FORWARD = 6000, 40, 10_000
#: With 39 degrees of freedom a score is past this once in 16,000 times; a test looks at some 60.
FARTHEST = 4.5
#: Of the calibration of ranks: how often, sweeps at the start, draws of each chain, and sweeps between two of them.
N_TIMES, BURN_IN, N_DRAWS, APART = 120, 20, 7, 8


@pytest.fixture(autouse=True)
def strong_priors(monkeypatch):
    monkeypatch.setattr(gibbs, "PRIOR_NOISE", NOISE_ROWS)
    monkeypatch.setattr(row_noise, "USERS_ALIKE", USERS_ALIKE)
    monkeypatch.setattr(row_noise, "ITEMS_ALIKE", ITEMS_ALIKE)


# --- models -------------------------------------------------------------------------------------------------


@dataclass
class Small:
    """A model: its sides, what is linked to their rows (F, groups, who rated), and what its noise is like."""

    sides: dict
    linked: dict
    own_noise: bool = False
    growing: bool = False


def plain(**noise):
    """Both sides without factors, ratings or links."""
    places = {"users": (USERS, ITEMS, HELD_BY_USERS), "items": (ITEMS[BY_ITEM], USERS[BY_ITEM], HELD_BY_ITEMS)}
    sides = {}
    for name, (rows, columns, held) in places.items():
        radius = RADIUS[name]
        indptr = np.searchsorted(rows, np.arange(len(radius) + 1)).astype(np.int64)
        csr = Csr(indptr, columns.astype(np.int32), np.zeros(len(rows)), np.empty(0))
        sides[name] = Side(csr, radius, np.zeros((len(radius), 3)), held)
    return Small(sides, {}, **noise)


def with_features():
    model = plain()
    model.sides["users"].links = Links(csr_array(FEATURES), GROUPS, RATED, 2)
    model.linked["users"] = FEATURES, GROUPS, RATED
    return model


def with_sets(**noise):
    model = plain(**noise)
    for name, other in (("users", "items"), ("items", "users")):
        side, n_others = model.sides[name], len(RADIUS[other])
        side.links = links_of(None, side.csr, None, np.arange(n_others), 2)
        pairs = [{} for _ in side.radius]
        for row, column in zip(side.csr.row_of_entry(), side.csr.indices, strict=True):
            pairs[row][column] = 1.0
        F = np.array([naive.rated_set(row, range(n_others)) for row in pairs])
        model.linked[name] = F, [n_others], RATED if name == "users" else np.ones(2, bool)
    return model


# --- forward ------------------------------------------------------------------------------------------------


def forward(model, n, rng):
    """Everything from its prior, and ratings: arrays by name, a draw in each row."""
    found = {}
    for name, radius in RADIUS.items():
        nothing = np.zeros((len(radius), 0)), [], np.ones(len(radius), bool)
        drawn = naive.priors_and_rows(*model.linked.get(name, nothing), np.sqrt(1 - HELD_SHARE), n, rng)
        found |= {f"{name} {what}": part for what, part in zip(("m", "P", "λ", "B", "x"), drawn, strict=True)}
    found["α"] = rng.gamma(NOISE_ROWS / 2, 2 / (NOISE_ROWS * GUESS), n)
    found["a"], found["b"], found["p"] = np.ones((n, 4)), np.ones((n, 2)), np.zeros(n)
    if model.own_noise:
        found["a"] = rng.gamma(USERS_ALIKE / 2, 2 / USERS_ALIKE, (n, 4))
        found["b"] = rng.gamma(ITEMS_ALIKE / 2, 2 / ITEMS_ALIKE, (n, 2))
    if model.growing:
        found["p"] = rng.random(n)
    return found | {"v": simulated(model, found, rng)}


def simulated(model, draws, rng):
    """Ratings of draws."""
    noise = rng.standard_normal((len(draws["α"]), len(USERS)))
    return products(draws) + noise / np.sqrt(precisions(model, draws))


def products(draws):
    """w·h of the rated pairs: the biases are inside the inner product."""
    x, y = draws["users x"][:, USERS], draws["items x"][:, ITEMS]
    held = np.sqrt(HELD_SHARE)
    shares = held * x[..., 0] + held * y[..., 0] + x[..., 1] * y[..., 1]
    return shares * RADIUS["users"][USERS] * RADIUS["items"][ITEMS]


def precisions(model, draws):
    """α a_i b_j of each rating, times what the width of its range makes it count."""
    found = draws["α"][:, None] * draws["a"][:, USERS] * draws["b"][:, ITEMS]
    if not model.growing:
        return found
    return found * [naive.share_weights(-HALF_WIDTHS, HALF_WIDTHS, np.ones(5), p) for p in draws["p"]]


# --- by the sampler -----------------------------------------------------------------------------------------


def sampler_at(model, start, rng):
    """The sampler with the first draw of ``start`` for its state."""
    for name, side in model.sides.items():
        side.factors = np.insert(start[f"{name} x"][0], side.held, np.sqrt(HELD_SHARE), axis=1) * side.radius[:, None]
        side.csr = side.csr._replace(weights=np.empty(0))
        if side.links is not None:
            side.links.matrix, side.links.strength = start[f"{name} B"][0], start[f"{name} λ"][0]
    users, items = model.sides["users"], model.sides["items"]
    ones, noise = np.ones(len(USERS)), None
    if model.own_noise or model.growing:
        rows = RowNoise(users.csr, items.csr, ones)
        rows.of_users, rows.of_items = start["a"][0], start["b"][0]
        widths = NoiseGrowth(HALF_WIDTHS, ones, NOISE_ROWS, GUESS) if model.growing else None
        noise = RatingNoise(ones, BY_ITEM, widths, start["p"][0], rows if model.own_noise else None)
    kept = Kept(set(), KeptSide(4, 1, 1, HELD_BY_USERS, float), KeptSide(2, 1, 1, HELD_BY_ITEMS, float))
    pool = RowPool(1, len(USERS))
    sampler = Sampler(users, items, 1 / start["α"][0], GUESS, kept, None, pool, rng, noise)
    if noise is not None:
        noise.weigh(users, items)
    return sampler


def rate(sampler, v):
    """Give the sampler ratings."""
    sampler.users.csr = sampler.users.csr._replace(data=v)
    sampler.items.csr = sampler.items.csr._replace(data=v[BY_ITEM])


def present(sampler):
    """The state of the sampler, as `forward` has a draw."""
    sample, found = sampler.kept.last, {}
    for name, draws, side in (("users", sample.users, sampler.users), ("items", sample.items, sampler.items)):
        link = draws.link
        found[f"{name} m"] = draws.prior.mean - (0 if link is None else link.typical.sum(axis=0))
        found[f"{name} P"] = draws.prior.precision if draws.precision is None else draws.precision
        found[f"{name} λ"] = np.empty(0) if link is None else link.strength
        found[f"{name} B"] = np.empty((0, 2)) if link is None else link.matrix
        found[f"{name} x"] = np.delete(draws.rows, side.held, axis=1) / side.radius[:, None]
    noise = sample.noise
    found |= {"α": np.array(1 / noise.variance), "p": np.array(noise.growth)}
    found["a"] = np.ones(4) if noise.users is None else noise.users
    found["b"] = np.ones(2) if noise.items is None else noise.items
    return {key: value[None] for key, value in found.items()}


def together(states):
    return {key: np.concatenate([state[key] for state in states]) for key in states[0]}


# --- what is compared ---------------------------------------------------------------------------------------


def share(x, middle):
    """A positive number as one below 1."""
    return x / (x + middle)


def looks(model, draws):
    """Bounded functions by name: of everything, and of how things go together. Ratings are left out where unknown."""
    found = looks_at_noise(model, draws)
    for name in RADIUS:
        m, P, x = draws[f"{name} m"], draws[f"{name} P"], draws[f"{name} x"]
        found |= {f"{name} m{k}": np.tanh(m[:, k]) for k in range(2)}
        found |= {f"{name} P{k}": share(P[:, k, k], 4) for k in range(2)}
        found[f"{name} correlation"] = P[:, 0, 1] / np.sqrt(P[:, 0, 0] * P[:, 1, 1])
        found |= {f"{name} x{i}{k}": x[:, i, k] for i in range(x.shape[1]) for k in range(2)}
        found |= {f"{name} |x{i}|": np.sum(x[:, i] ** 2, axis=1) for i in range(x.shape[1])}
        found[f"{name} m x"] = np.sum(np.tanh(m) * x[:, 0], axis=1)
        found[f"{name} x x"] = np.sum(x[:, 0] * x[:, 1], axis=1)
        if name in model.linked:
            found |= looks_at_links(name, model.linked[name], draws)
    return {name: values for name, values in found.items() if np.ptp(values) > 0}


def looks_at_links(name, linked, draws):
    F, groups, _ = linked
    m, P, B, strengths, x = (draws[f"{name} {what}"] for what in ("m", "P", "B", "λ", "x"))
    moved, size = np.einsum("if,nfk->nik", F, B), np.einsum("nfi,nij,nfj->nf", B, P, B)
    found = {f"{name} B{f}{k}": np.tanh(B[:, f, k]) for f in range(F.shape[1]) for k in range(2)}
    found[f"{name} FB x"] = np.sum(np.tanh(moved) * x, axis=(1, 2))
    found[f"{name} FB m"] = np.sum(np.tanh(moved[:, 0]) * np.tanh(m), axis=1)
    for g, own in enumerate(np.split(np.arange(F.shape[1]), np.cumsum(groups)[:-1])):
        total, strength = size[:, own].sum(axis=1), strengths[:, g]
        found[f"{name} λ{g}"] = share(strength, 1)
        found[f"{name} BPB{g}"], found[f"{name} λBPB{g}"] = share(total, 4), share(strength * total, 2)
        found[f"{name} λ{g} P"] = np.tanh(np.log(strength)) * share(P[:, 0, 0], 4)
        found[f"{name} BB{g} P"] = np.tanh(np.sum(B[:, own] ** 2, axis=(1, 2))) * share(P[:, 0, 0], 4)
    return found


def looks_at_noise(model, draws):
    a, b, alpha, p, inner = draws["a"], draws["b"], draws["α"], draws["p"], products(draws)
    found = {"α": share(alpha, 2), "p": p, "p α": p * np.tanh(np.log(alpha)), "p a": p * np.tanh(np.log(a[:, 0]))}
    found |= {f"a{i}": share(a[:, i], 1) for i in range(4)} | {f"b{j}": share(b[:, j], 1) for j in range(2)}
    found["a b"] = np.tanh(np.log(a[:, 0])) * np.tanh(np.log(b[:, 0]))
    found["a α"] = np.tanh(np.log(a[:, 0])) * np.tanh(np.log(alpha))
    found |= {f"w·h{n}": np.tanh(inner[:, n]) for n in range(len(USERS))}
    if "v" in draws:
        errors = draws["v"] - inner
        found |= {f"v{n}": np.tanh(draws["v"][:, n]) for n in range(len(USERS))}
        found["error w·h"] = np.sum(np.tanh(errors) * np.tanh(inner), axis=1)
        found["e²"] = np.sum(share(precisions(model, draws) * errors**2, 1), axis=1)
    return found


# --- tests --------------------------------------------------------------------------------------------------

MODELS = {
    "plain": plain,
    "features": with_features,
    "who rated what": with_sets,
    "own noise": lambda: plain(own_noise=True),
    "own noise that grows with ranges": lambda: plain(own_noise=True, growing=True),
    "who rated what and own noise": lambda: with_sets(own_noise=True),
}


def geweke_scores(model, rng):
    """How many standard errors a chain of sweeps and simulated ratings is from forward draws, by batch means."""
    expected, states = forward(model, N_FORWARD, rng), []
    sampler, v = sampler_at(model, expected, rng), expected["v"][0]
    sweeps = sampler.sweeps()
    for _ in range(N_SWEEPS):
        rate(sampler, v)
        next(sweeps)
        state = present(sampler)
        v = simulated(model, state, rng)[0]
        states.append(state | {"v": v[None]})
    expected, scores = looks(model, expected), {}
    for name, values in looks(model, together(states)).items():
        batches = values.reshape(N_BATCHES, -1).mean(axis=1)
        spread = batches.var(ddof=1) / N_BATCHES + expected[name].var() / N_FORWARD
        scores[name] = (values.mean() - expected[name].mean()) / np.sqrt(spread)
    return scores


@pytest.mark.parametrize("name", MODELS)
def test_sweeps_and_simulated_ratings_in_turn_have_the_distribution_of_the_model(monkeypatch, name):
    if name == "who rated what and own noise":  # with the solver for many features
        monkeypatch.setattr(normal_equations, "FEW", 0)
        monkeypatch.setattr(Links, "solved", partialmethod(Links.solved, tolerance=1e-9))
    scores = geweke_scores(MODELS[name](), np.random.default_rng(1))
    if "who rated what" in name:  # a stranger's set is not known, and is taken to be half-way to what others chose
        del scores["users |x3|"]
    assert len(scores) > 40
    assert not {name: round(score, 1) for name, score in scores.items() if not abs(score) < FARTHEST}


def test_what_was_drawn_ranks_anywhere_among_draws_given_its_ratings():
    """Simulation-based calibration (Talts et al. 2018): ranks of the truth are uniform, for chains that know it not."""
    rng, model = np.random.default_rng(2), with_sets(own_noise=True)
    truth, starts = forward(model, N_TIMES, rng), forward(model, N_TIMES, rng)
    wanted, ranks = looks(model, {key: value for key, value in truth.items() if key != "v"}), []
    for number in range(N_TIMES):
        sampler = sampler_at(model, {key: value[number:] for key, value in starts.items()}, rng)
        rate(sampler, truth["v"][number])
        drawn, sweeps = [], sampler.sweeps()
        for sweep in range(1, BURN_IN + N_DRAWS * APART + 1):
            next(sweeps)
            if sweep > BURN_IN and (sweep - BURN_IN) % APART == 0:
                drawn.append(present(sampler))
        found = looks(model, together(drawn))
        ranks.append([np.sum(found[name] < values[number]) for name, values in wanted.items()])
    counts = [np.bincount(own, minlength=N_DRAWS + 1) for own in np.array(ranks).T]
    assert len(counts) > 40
    assert not {name for name, count in zip(wanted, counts, strict=True) if chisquare(count).pvalue < 1e-4}
