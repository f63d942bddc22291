"""Files with checksums that fit and values that no fit leaves: each is refused in a sentence, or its model is sound."""

import json
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import boundrec
from boundrec import BMCADMM, MBMF, MF, NMF, BayesianMBMF
from crafted_files import change_table, own_array, read_parts, write_crafted

pytestmark = pytest.mark.filterwarnings("ignore")

MODELS = {
    "ball": MBMF(2, bounds=(1, 5), n_restarts=2, max_iter=2, random_state=0),
    "sphere": MBMF(2, bounds=(1, 5), constraint="sphere", n_restarts=2, max_iter=2, random_state=0),
    "upper bound": MBMF(2, bounds=(None, 6), max_iter=2, random_state=0),
    "lower bound, form n": MBMF(2, bounds=(0, None), form="n", biases=False, max_iter=2, random_state=0),
    "no bounds, form n": MBMF(2, form="n", dtype="float32", max_iter=2, random_state=0),
    "paper": MBMF.as_in_paper(2, form="c", bounds=(1, None), max_iter=3, random_state=0),
    "Bayesian": BayesianMBMF(2, bounds=(1, 5), max_iter=6, n_kept=3, random_state=0),
    "Bayesian, lower bound": BayesianMBMF(2, bounds=(0, None), slack=1.0, max_iter=6, n_kept=2, random_state=0),
    "biased": MF(2, bounds=(1, 5), biases=True, clip=True, max_iter=3, random_state=0),
    "plain": MF(2, validation_fraction=0.1, max_iter=3, random_state=0),
    "non-negative": NMF(2, bounds=(1, 5), max_iter=3, random_state=0),
    "splitting": BMCADMM(2, bounds=(1, 5), max_iter=3, random_state=0),
}
LARGEST = np.finfo(float).max


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((9, 7)) < 0.7)
    return list(zip(users.tolist(), (items + 100).tolist(), strict=True)), rng.integers(1, 6, len(users)).astype(float)


@pytest.fixture(scope="module")
def files(data, tmp_path_factory):
    """Every model, saved once with its ratings."""
    folder = tmp_path_factory.mktemp("models")
    for name, model in MODELS.items():
        clone(model).fit(*data).save(folder / name, keep_ratings=True)
    return folder


@pytest.fixture
def path(tmp_path):
    return tmp_path / "crafted.safetensors"


def load_or_refuse(path):
    """The model, or None where the file is refused in one sentence that names it."""
    try:
        return boundrec.load(path)
    except ValueError as error:
        message = str(error)
        assert message.startswith(f"{path} cannot be loaded: ")
        assert message.endswith(".")
        assert "\n" not in message
        return None


def assert_refused(path):
    assert load_or_refuse(path) is None


def assert_sound(model, data):
    """Everything that a model can be asked answers with finite numbers, inside what it promises."""
    X = [*data[0], (0, -1), (-1, 100), (-1, -1)]
    users, items = model._codes(X)
    lower, upper = model._interval(users, items)
    predictions = model.predict(X)
    assert np.isfinite(predictions).all()
    assert ((lower <= predictions) & (predictions <= upper)).all()
    if getattr(model, "clip", True) and model.bounds is not None and getattr(model, "form", "c") == "c":
        low, high = (
            end if end is not None else wide for end, wide in zip(model.bounds, (-np.inf, np.inf), strict=True)
        )
        if getattr(model, "magnitudes", "") != "paper":
            assert ((low <= predictions) & (predictions <= high)).all()
    if hasattr(model, "predict_quantiles"):
        assert np.isfinite(model.predict(X, return_std=True)[1]).all()
        quantiles = model.predict_quantiles(X)
        assert ((lower[:, None] <= quantiles) & (quantiles <= upper[:, None])).all()
    assert_best_items(model)
    assert np.isfinite(model.similar_items(101)[1]).all()
    assert len(model.export_vectors().items) <= model.n_items_
    if isinstance(model, MBMF | BayesianMBMF):
        new = [(77, 100), (77, 102), (78, 103)], [3.0, 2.0, 4.0]
        assert np.isfinite(model.fold_in(*new).predict(new[0])).all()
        grown = model.partial_fit([(0, 105), (99, 100)], [3.0, 2.0])
        assert np.isfinite(grown.predict(X)).all()


def assert_best_items(model):
    """The lists are those of a full sort of all predictions."""
    known = model.item_ids_.ids[model._item_seen]
    _, scores = model.recommend(n=3, exclude_seen=False)
    for user, score in zip(model.user_ids_.ids.tolist(), scores, strict=True):
        everything = np.sort(model.predict([(user, item) for item in known.tolist()]))[::-1][:3]
        assert np.array_equal(score[: len(everything)], everything)


# --- every part, altered in many ways -----------------------------------------------------------------------


def with_first(value):
    def alter(array):
        array = array.copy()
        array.flat[:1] = value
        return array

    return alter


def with_all(value):
    return lambda array: np.full_like(array, value)


SHAPES = {
    "nothing in it": lambda array: array[:0],
    "a row less": lambda array: array[:-1],
    "a row more": lambda array: np.concatenate([array, array[:1]]),
    "a column less": lambda array: array[..., :-1],
    "a column more": lambda array: np.concatenate([array, array[..., :1]], axis=-1),
    "flat": lambda array: array.ravel() if array.ndim > 1 else array[:, None],
    "another type": lambda array: array.astype(np.float64 if array.dtype.kind in "iub" else np.int64),
}
FLOATS = {
    "NaN": with_first(np.nan),
    "infinity": with_first(np.inf),
    "minus infinity": with_first(-np.inf),
    "the largest number": with_first(LARGEST),
    "a large negative number": with_first(-1e9),
    "a large number": with_first(1e9),
    "nothing but infinity": with_all(np.inf),
    "nothing but zeros": with_all(0),
    "nothing but the smallest number": with_all(5e-324),
    "nothing but large numbers": with_all(1e200),
    "the other sign": lambda array: -array,
    "the other way round": lambda array: array[::-1].copy(),
}
INTEGERS = {
    "below zero": with_first(-1),
    "the smallest": lambda array: with_first(np.iinfo(array.dtype).min)(array),
    "the largest": lambda array: with_first(np.iinfo(array.dtype).max)(array),
    "nothing but zeros": with_all(0),
    "nothing but the largest": lambda array: with_all(np.iinfo(array.dtype).max)(array),
    "the other way round": lambda array: array[::-1].copy(),
    "one place on": lambda array: np.roll(array, 1),
}
BOOLS = {
    "nobody": with_all(False),
    "neither true nor false": lambda array: np.full(array.shape, 255, np.uint8).view(bool),
    "the other way round": lambda array: ~array,
}


def alterations(array):
    kind = {"f": FLOATS, "i": INTEGERS, "b": BOOLS, "u": INTEGERS}[array.dtype.kind]
    return [*SHAPES.values(), *kind.values()]


@pytest.mark.parametrize("name", MODELS)
def test_an_altered_array_is_refused_or_leaves_the_model_sound(files, data, path, name):
    refused = 0
    arrays, text = read_parts(files / name)
    for part in sorted([*arrays, *json.loads(text["shared"])]):
        arrays, text = read_parts(files / name)
        original = own_array(arrays, text, part)
        for alter in alterations(original):
            with np.errstate(all="ignore"):
                arrays[part] = np.ascontiguousarray(alter(original))
            write_crafted(path, arrays, text)
            model = load_or_refuse(path)
            if model is None:
                refused += 1
            else:
                assert_sound(model, data)
    assert refused > 100


NUMBERS = [{"float": "nan"}, {"float": "inf"}, {"float": "-inf"}, -1, 0, 7.5, 1000, 1e308, 5e-324, 10**400, "3", []]


@pytest.mark.parametrize("name", MODELS)
def test_an_altered_number_is_refused_or_leaves_the_model_sound(files, data, path, name):
    arrays, text = read_parts(files / name)
    for part in json.loads(text["values"]):
        for number in NUMBERS:
            arrays, text = read_parts(files / name)
            change_table(text, "values", **{part: number})
            write_crafted(path, arrays, text)
            model = load_or_refuse(path)
            if model is not None:
                assert_sound(model, data)


SETTINGS = [
    *NUMBERS,
    None,
    True,
    "n",
    "c",
    "auto",
    "paper",
    {"tuple": [1, 5]},
    {"tuple": [0, None]},
    {"learned": [1, 2]},
]


@pytest.mark.parametrize("name", MODELS)
def test_an_altered_setting_is_refused_or_leaves_the_model_sound(files, data, path, name):
    arrays, text = read_parts(files / name)
    for part in json.loads(text["settings"]):
        for value in SETTINGS:
            arrays, text = read_parts(files / name)
            settings = json.loads(text["settings"]) | {part: value}
            text["settings"] = json.dumps(settings)
            write_crafted(path, arrays, text)
            model = load_or_refuse(path)
            if model is not None and model.on_unknown == "mean":
                assert_sound(model, data)


def test_crafting_alone_gives_a_file_that_loads(files, data, path):
    for name in MODELS:
        write_crafted(path, *read_parts(files / name))
        assert path.read_bytes() == (files / name).read_bytes()
        with warnings.catch_warnings():
            assert_sound(boundrec.load(path), data)
