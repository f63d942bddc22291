"""Who is compared: the paper's methods and the columns it lacks, how each is built, and how long a fit may take.

Common to all (section Experiments of the paper): at most 500 iterations, the same stopping rule, a random start that
depends on the fold. What the paper leaves open follows the resolutions named at each place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from boundrec.baselines import MeanPredictor
from boundrec.datasets import Bounds, Dataset
from boundrec.models.bayesian import BayesianMBMF
from boundrec.models.mbmf import MBMF
from boundrec.paper import Row, Section, Table
from boundrec.ranges import Form, MagnitudeRule
from boundrec.registry import entry_of_command
from boundrec.solvers.exact import Constraint
from boundrec.solvers.threads import threads_for

MAX_ITER = 500
EXACT_SWEEPS = 20
#: Factors of more bytes than this are fetched from memory for every rating, which takes so many times as long.
CACHE, MISSES = 3e7, 4.0


class Conditions(NamedTuple):
    """What a model is built for."""

    n_factors: int
    bounds: Bounds  # as declared, None where an end is open
    span: tuple[float, float]  # the smallest and largest rating stand in for an open end
    seed: int


def conditions(data: Dataset, n_factors: int, seed: int) -> Conditions:
    """The conditions on a data set: its smallest and largest rating close an open end, as in the paper."""
    low, high = data.bounds
    span = float(data.rating.min() if low is None else low), float(data.rating.max() if high is None else high)
    return Conditions(n_factors, data.bounds, span, seed)


class Method(NamedTuple):
    """A column of the comparison.

    ``build`` makes the model. ``history`` says what the past half is used for: "magnitudes", "training" (joined to
    the training ratings), "own" (magnitudes from the training ratings alone) or "" (nothing). ``cost`` is the time
    of one iteration for a rating and a factor, on one core, or None where the model has an estimate of its own.
    """

    build: Callable[[Conditions], Any]
    history: str = ""
    cost: float | None = 0.0


def _rival(name: str) -> Callable[[Conditions], Any]:
    """A rival by the paper's name for it, between the ends that were declared."""
    model = entry_of_command(name.lower()).load()
    return lambda c: model(c.n_factors, bounds=c.bounds, max_iter=MAX_ITER, random_state=c.seed)


def _spanned(name: str, **more: Any) -> Callable[[Conditions], Any]:
    """A rival that needs both ends."""
    model = entry_of_command(name.lower()).load()
    return lambda c: model(c.n_factors, bounds=c.span, max_iter=MAX_ITER, random_state=c.seed, **more)


def _as_in_paper(form: Form) -> Callable[[Conditions], Any]:
    return lambda c: MBMF.as_in_paper(c.n_factors, form=form, bounds=c.bounds, random_state=c.seed)


def _in_one_range(form: Form) -> Callable[[Conditions], Any]:
    """The same between both ends for everybody."""
    one: dict[str, Any] = {"form": form, "magnitudes": "range"}
    return lambda c: MBMF.as_in_paper(c.n_factors, bounds=c.span, random_state=c.seed, **one)


def _exact(form: Form, constraint: Constraint, magnitudes: MagnitudeRule) -> Callable[[Conditions], Any]:
    """The exact solver; on Jester with K = 50 twice as many sweeps change the held-out RMSE by 0.0001."""
    model: dict[str, Any] = {"form": form, "constraint": constraint, "magnitudes": magnitudes, "solver": "exact"}
    plain: dict[str, Any] = {"biases": False, "ridge": 0.0, "slack": 1.0}  # the paper's model, nothing more
    return lambda c: MBMF(c.n_factors, bounds=c.bounds, max_iter=EXACT_SWEEPS, random_state=c.seed, **model, **plain)


#: The six rivals, in the paper's order, with the measured cost of an iteration.
RIVALS: dict[str, Method] = {
    "MF": Method(_rival("MF"), cost=4e-9),
    "NMF": Method(_rival("NMF"), cost=3.5e-9),
    "CCD++": Method(_rival("CCD++"), cost=5e-9),
    "BMF": Method(_spanned("BMF"), cost=None),
    "BMC-ADMM": Method(_spanned("BMC-ADMM"), cost=None),
    "Bounded-SVD": Method(_spanned("Bounded-SVD"), cost=5.5e-9),
}
#: The paper's two columns.
OURS: dict[str, Method] = {
    "MBMF-n": Method(_as_in_paper("n"), "magnitudes", 5e-9),
    "MBMF-c": Method(_as_in_paper("c"), "magnitudes", 5e-9),
}
#: The same with one range for all, so that what individual ranges are worth can be told from the rest.
ONE_RANGE: dict[str, Method] = {
    "MBMF-n, one range": Method(_in_one_range("n"), cost=5e-9),
    "MBMF-c, one range": Method(_in_one_range("c"), cost=5e-9),
}
#: The same model solved exactly, and the exact ball with magnitudes that keep the declared bounds.
EXACT: dict[str, Method] = {
    "MBMF-n exact": Method(_exact("n", "sphere", "paper"), "magnitudes"),
    "MBMF-c exact": Method(_exact("c", "sphere", "paper"), "magnitudes"),
    "MBMF-c ball": Method(_exact("c", "ball", "auto"), "magnitudes"),
}
#: Resolution A33: nobody has more data than another, either way.
FAIR: dict[str, Method] = {
    "MBMF-n, own history": OURS["MBMF-n"]._replace(history="own"),
    "MBMF-c, own history": OURS["MBMF-c"]._replace(history="own"),
    **{f"{name} + history": method._replace(history="training") for name, method in RIVALS.items()},
}
#: boundrec's own models as they come: no history, no setting but K, the bounds and the seed.
AS_IT_COMES: dict[str, Method] = {
    "MBMF as it comes": Method(lambda c: MBMF(c.n_factors, bounds=c.bounds, random_state=c.seed)),
    "BayesianMBMF as it comes": Method(lambda c: BayesianMBMF(c.n_factors, bounds=c.bounds, random_state=c.seed)),
}
#: The paper's gradient methods with MBMF's two steps, one for users and one for items, in the place of one (resolution
#: of §7.6), so that the bound can be told from the step.
TWO_STEPS: dict[str, Method] = {
    f"{name}, two steps": Method(_spanned(name, steps="separate"), cost=RIVALS[name].cost)
    for name in ("MF", "Bounded-SVD")
}
MEANS = "Means"
METHODS: dict[str, Method] = {
    MEANS: Method(lambda c: MeanPredictor()),
    **RIVALS,
    **OURS,
    **ONE_RANGE,
    **EXACT,
    **AS_IT_COMES,
    **TWO_STEPS,
    **FAIR,
}


def model_of(settings: Mapping[str, Any], conditions: Conditions) -> Any:
    """The model of a cell: its method's, with what the cell has changed."""
    model = METHODS[settings["method"]].build(conditions)
    return model.set_params(**settings["changed"]) if settings.get("changed") else model


def estimated_seconds(method: Method, n_factors: int, shape: tuple[int, int], n_ratings: int) -> float:
    """How long one fit may take on a machine with nothing else to do, if it uses all its iterations."""
    if method.cost is None:
        model = method.build(Conditions(n_factors, (0.0, 1.0), (0.0, 1.0), 0))
        return 2 * float(model.estimated_seconds(*shape, n_ratings))
    threads = threads_for(None, n_ratings)
    work = float(n_ratings * n_factors + 5 * sum(shape))
    if 8 * sum(shape) * n_factors > CACHE:
        work *= MISSES
    if method.cost:
        return 0.05 + MAX_ITER * method.cost * work / threads
    if method in (*EXACT.values(), *AS_IT_COMES.values()):  # normal matrices grow with the square of the factors
        sweeps = method.build(Conditions(n_factors, (0.0, 1.0), (0.0, 1.0), 0)).most_iterations()
        return float(0.05 + sweeps * work * (1.5e-8 + 1.2e-9 * n_factors) / threads)
    return 0.1


# --- their settings, for the report -----------------------------------------------------------------------------

#: What a reader need not be told: what varies with the cell, and what has no influence on the numbers.
UNTOLD = {
    *("n_factors", "bounds", "random_state", "n_jobs", "verbose", "dtype", "duplicates", "on_unknown"),
    *("validation_fraction", "n_iter_no_change"),
}
HISTORY = {
    "": "not used",
    "magnitudes": "sets the magnitudes",
    "own": "not used: magnitudes from the training ratings",
    "training": "trained on as well",
}
SETTINGS_TEXT = (
    "The paper gives few settings for its rivals. Where it is silent we took what the method's own paper or code has, "
    "as far as we could find it, and else values that work. MF and Bounded-SVD have one step for both factors, MBMF "
    "two (the rows “two steps” of Table 3 show what that changes). Factors, bounds and seed are those of the cell.",
)


def summarise_settings() -> Section:
    """The settings behind every column, as the models themselves state them."""
    rows: list[Row] = []
    for name, method in METHODS.items():
        model = method.build(Conditions(10, (0.0, 1.0), (0.0, 1.0), 0))
        told = model.get_params() if hasattr(model, "get_params") else {}
        words = ", ".join(f"{key}={v!r}" for key, v in sorted(told.items()) if key not in UNTOLD and v is not None)
        rows.append([name, type(model).__name__, HISTORY[method.history], words])
    columns = ["method", "model", "history", "settings"]
    table = Table("settings", "The model behind each row, as of boundrec's own signature", columns, rows, folded=True)
    return Section("Settings", list(SETTINGS_TEXT), [table])
