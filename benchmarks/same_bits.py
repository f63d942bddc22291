"""Whether two states of the code compute the same bits: record what some ninety fits answer, then compare.

    python -m benchmarks.same_bits record FOLDER      with the code before a change
    python -m benchmarks.same_bits compare FOLDER     with the code after it

Every model, solver, constraint, form and kind of bounds, with and without history, weights, early stopping and warm
start, on one thread and on two: predictions, ranges, standard deviations, quantiles, lists, fold-ins, partial fits and
what a model file holds. Files that the code before wrote must load and answer as they did. Only public names are used,
so that the inside may change. Another machine or another Numba may round differently: compare where you recorded.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import safe_open

import boundrec

Settings = dict[str, Any]
Answers = dict[str, str]

SMALL, LARGE = (40, 25, 400), (420, 300, 60_000)
#: Seconds differ from run to run; the checksum is taken over them.
NOT_COMPARED = {"seconds", "checksum"}


class Data(NamedTuple):
    """Ratings to fit, ratings of new users, and past ratings, on the scale of the bounds."""

    X: list[tuple[Any, Any]]
    y: Any
    X_new: list[tuple[Any, Any]]
    y_new: Any
    X_past: list[tuple[Any, Any]]
    y_past: Any


def ratings(shape: tuple[int, int, int], low: float, high: float, text_ids: bool) -> Data:
    """A matrix of rank 2 with noise, cut to the bounds."""
    n_users, n_items, n = shape
    rng = np.random.default_rng(7)
    W, H = rng.standard_normal((n_users + 3, 2)), rng.standard_normal((n_items, 2))
    share = np.clip(0.5 + 0.2 * W @ H.T + 0.1 * rng.standard_normal((n_users + 3, n_items)), 0, 1)
    values = low + (high - low) * share

    def of(cells: Any) -> tuple[list[tuple[Any, Any]], Any]:
        users, items = np.divmod(cells, n_items)
        names = [
            (f"u{u}", f"i{i}") if text_ids else (u, i) for u, i in zip(users.tolist(), items.tolist(), strict=True)
        ]
        return names, values.ravel()[cells]

    chosen = rng.choice(n_users * n_items, n, replace=False)
    past = rng.choice(n_users * n_items, n // 2, replace=False)
    new = np.concatenate([(n_users + u) * n_items + rng.choice(n_items, 5, replace=False) for u in range(3)])
    return Data(*of(chosen), *of(new), *of(past))


def cases() -> Iterator[tuple[str, str, Settings, Settings]]:
    """Name, model, settings, and how it is fitted."""
    kinds: dict[str, Any] = {"both": (1.0, 5.0), "lower": (0.0, None), "upper": (None, 5.0), "none": None}
    for kind, bounds in kinds.items():
        for form in ("c", "n"):
            for model in ("MBMF", "BayesianMBMF"):
                yield f"{model} {kind} {form}", model, {"bounds": bounds, "form": form}, {}
                yield f"{model} {kind} {form} history", model, {"bounds": bounds, "form": form}, {"history": True}
    both: Settings = {"bounds": (1.0, 5.0)}
    for form in ("c", "n"):
        yield f"as_in_paper {form}", "as_in_paper", {**both, "form": form, "max_iter": 30}, {"history": True}
        yield f"sphere {form}", "MBMF", {**both, "form": form, "constraint": "sphere"}, {}
    for init in ("angles", "sphere", "orthant"):
        yield f"init {init}", "MBMF", {**both, "init": init, "biases": False}, {}
    for step in ("dynamic", "fixed", "line-search"):
        for steps in ("separate", "shared"):
            settings = {**both, "constraint": "sphere", "solver": "angles", "step": step, "steps": steps}
            yield f"angles {step} {steps}", "MBMF", {**settings, "initial_step": 1e-3, "max_iter": 12}, {}
    own: dict[str, Settings] = {"plain": {"biases": False, "ridge": 0.0, "slack": 1.0}, "restarts": {"n_restarts": 3}}
    own |= {"float32": {"dtype": "float32"}, "widen": {"on_contradiction": "widen", "magnitudes": "history"}}
    own |= {
        "drop": {"on_contradiction": "drop", "magnitudes": "history"},
        "count": {"magnitudes": "history", "history_count": 5},
    }
    for name, settings in own.items():
        yield f"MBMF {name}", "MBMF", {**both, **settings}, {}
    for model in ("MBMF", "BayesianMBMF"):
        yield f"{model} weights", model, both, {"weights": True}
        yield f"{model} validation", model, {**both, "validation_fraction": 0.2, "n_iter_no_change": 2}, {}
        yield f"{model} eval_set", model, both, {"eval_set": True}
        yield f"{model} text", model, both, {"text_ids": True}
        yield f"{model} nan", model, {**both, "on_unknown": "nan"}, {}
        for n_jobs in (1, 2):
            yield f"{model} large {n_jobs}", model, {**both, "n_jobs": n_jobs, "max_iter": 3}, {"large": True}
            if model == "MBMF":
                settings = {**both, "n_jobs": n_jobs, "max_iter": 5, "constraint": "sphere", "solver": "angles"}
                yield f"angles large {n_jobs}", model, settings, {"large": True}
    yield (
        "BayesianMBMF warm",
        "BayesianMBMF",
        {**both, "warm_start": True, "max_iter": 10, "n_kept": 4},
        {"again": True},
    )
    yield "BayesianMBMF short", "BayesianMBMF", {**both, "max_iter": 10, "burn_in": 3, "n_kept": 3, "slack": 1.5}, {}
    rivals: dict[str, Settings] = {
        "MF": {},
        "NMF": {},
        "CCDPlusPlus": {},
        "BMF": both,
        "BMCADMM": both,
        "BoundedSVD": both,
    }
    for model, settings in rivals.items():
        limited = {**settings, "max_iter": 12}
        yield model, model, limited, {}
        yield f"{model} clip", model, {**both, **limited, "clip": True}, {"text_ids": True}
        yield f"{model} validation", model, {**limited, "validation_fraction": 0.2, "n_iter_no_change": 3}, {}
        for n_jobs in (1, 2):
            yield f"{model} large {n_jobs}", model, {**settings, "max_iter": 2, "n_jobs": n_jobs}, {"large": True}
    for model in ("MF", "BoundedSVD"):
        sgd = {**rivals[model], "solver": "sgd", "biases": True, "max_iter": 5}
        yield f"{model} sgd", model, sgd, {"weights": True}
        yield f"{model} separate", model, {**rivals[model], "steps": "separate", "max_iter": 12}, {}


def fitted(model: str, settings: Settings, how: Settings, data: Data) -> Any:
    """The fit of one case."""
    maker = boundrec.MBMF.as_in_paper if model == "as_in_paper" else getattr(boundrec, model)
    estimator = maker(n_factors=4, random_state=3, **{"max_iter": 20, **settings})
    given: Settings = {}
    if how.get("history"):
        given["history"] = (data.X_past, data.y_past)
    if how.get("weights"):
        given["sample_weight"] = 0.5 + np.arange(len(data.y)) % 3
    if how.get("eval_set"):
        given["eval_set"] = (data.X_past, data.y_past)
    estimator.fit(data.X, data.y, **given)
    return estimator.fit(data.X, data.y, **given) if how.get("again") else estimator


def answers(model: Any, data: Data) -> Answers:
    """Everything that a fitted model answers, by name, as a hash of its bits."""
    some = data.X[:300] + data.X_new + [(data.X[0][0], data.X[-1][1])]
    said = {
        "predict": model.predict(some),
        "recommend": model.recommend(n=5),
        "all": model.recommend(n=7, exclude_seen=False),
    }
    said["similar"] = (*model.similar_items(data.X[0][1], 4), *model.similar_users(data.X[0][0], 4))
    said["vectors"] = tuple(model.export_vectors()[:4])
    if isinstance(model, (boundrec.MBMF, boundrec.BayesianMBMF)):
        said["range"] = model.predict(some, return_range=True)
    if isinstance(model, boundrec.BayesianMBMF):
        said["std"] = model.predict(some, return_std=True)
        said["quantiles"] = model.predict_quantiles(some)
    return {name: digest(value) for name, value in said.items()}


def later(model: Any, data: Data) -> Answers:
    """What the model makes of ratings that come after its fit."""
    if not isinstance(model, (boundrec.MBMF, boundrec.BayesianMBMF)):
        return {}
    view = model.fold_in(data.X_new, data.y_new)
    items = model.fold_in([(u, f"new {i}") for u, i in data.X[:20]], data.y[:20], axis="items")
    said = {"fold_in": view.predict(data.X_new), "fold_in lists": view.recommend(n=4)}
    said["fold_in items"] = items.predict([(u, f"new {i}") for u, i in data.X[:20]])
    model.partial_fit(data.X_new, data.y_new)
    said["partial_fit"] = (model.predict(data.X[:300] + data.X_new), *model.recommend(n=5))
    return {name: digest(value) for name, value in said.items()}


def held(path: Path) -> Answers:
    """What a model file holds, by name."""
    with safe_open(path, "numpy") as file:
        found = {f"file {name}": digest(file.get_tensor(name)) for name in file.keys() if name not in NOT_COMPARED}  # noqa: SIM118
        for name, text in file.metadata().items():
            if name == "values":
                text = json.dumps({k: v for k, v in sorted(json.loads(text).items()) if k not in NOT_COMPARED})
            if name not in NOT_COMPARED:
                found[f"file text {name}"] = digest(text)
    return found


def digest(value: Any) -> str:
    """A hash of an array's bits (of a tuple's arrays), its type and shape included."""
    if isinstance(value, tuple):
        return " ".join(map(digest, value))
    if isinstance(value, np.ndarray) and value.dtype != object:
        value = np.where(np.isnan(value), np.nan, value) if value.dtype.kind == "f" else value
        content = f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    else:
        content = repr(value.tolist() if isinstance(value, np.ndarray) else value).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def main() -> None:
    """Record, or compare and say what differs."""
    command, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(exist_ok=True, parents=True)
    before = {} if command == "record" else json.loads((folder / "answers.json").read_text())
    warnings.simplefilter("ignore")
    now: dict[str, Answers] = {}
    differing = 0
    for number, (name, model, settings, how) in enumerate(cases()):
        low, high = settings.get("bounds") or (None, None)
        ends = (1.0 if low is None else low, 5.0 if high is None else high)
        data = ratings(LARGE if how.get("large") else SMALL, *ends, how.get("text_ids", False))
        path = folder / f"{number:03d}.safetensors"
        said: Answers = {}
        if command == "compare":
            old = boundrec.load(path)
            said |= {f"old file: {key}": value for key, value in answers(old, data).items()}
            path = folder / "now.safetensors"
        estimator = fitted(model, settings, how, data)
        estimator.save(path, keep_ratings=True)
        said |= answers(estimator, data) | held(path) | later(estimator, data)
        said |= {"objectives": digest(np.array(estimator.objectives_)), "iterations": digest(estimator.n_iter_)}
        now[name] = said
        if command == "compare":
            expected = before.get(name, {})
            expected |= {
                f"old file: {key}": expected[key] for key in answers(boundrec.load(path), data) if key in expected
            }
            wrong = [key for key in sorted({*said, *expected}) if said.get(key) != expected.get(key)]
            differing += bool(wrong)
            print(f"{name}: {'DIFFERS in ' + ', '.join(wrong) if wrong else 'same'}", flush=True)
    if command == "record":
        (folder / "answers.json").write_text(json.dumps(now, indent=1))
        print(f"recorded {len(now)} fits")
    else:
        print(f"{len(now) - differing} of {len(now)} fits have the same bits")
        raise SystemExit(differing > 0)


if __name__ == "__main__":
    main()
