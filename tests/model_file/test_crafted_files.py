"""Files with checksums that fit and values that no fit leaves: each is refused in a sentence, or its model is sound."""

import copy
import json
import re

import numpy as np
import pytest
from crafted_files import change_table, own_array, read_parts, write_crafted
from scipy.sparse import csr_array
from sklearn.base import clone

import boundrec
from boundrec import BMCADMM, MBMF, MF, NMF, BayesianMBMF, Graph, ImplicitMBMF, PerItem, PerPair
from boundrec.models import side_information

pytestmark = pytest.mark.filterwarnings("ignore")

MODELS = {
    "ball": MBMF(2, bounds=(1, 5), n_restarts=2, max_iter=2, random_state=0),
    "sphere": MBMF(2, bounds=(1, 5), constraint="sphere", n_restarts=2, max_iter=2, random_state=0),
    "upper bound": MBMF(2, bounds=(None, 6), max_iter=2, random_state=0),
    "no bounds, form n": MBMF(2, form="n", biases=False, dtype="float32", max_iter=2, random_state=0),
    "paper": MBMF.as_in_paper(2, form="c", bounds=(1, None), max_iter=3, random_state=0),
    "Bayesian": BayesianMBMF(2, bounds=(1, 5), max_iter=6, n_kept=3, random_state=0),
    "narrow": BayesianMBMF(2, bounds=(1, 5), dtype="float16", max_iter=6, n_kept=3, random_state=0),
    "Bayesian, lower bound": BayesianMBMF(2, bounds=(0, None), slack=1.0, max_iter=6, n_kept=2, random_state=0),
    "told": BayesianMBMF(2, bounds=(1, 5), implicit="both", noise="own", max_iter=6, n_kept=2, random_state=0),
    "linked": BayesianMBMF(2, bounds=(1, 5), implicit="users", max_iter=6, n_kept=2, random_state=0),
    "chosen": MBMF(2, bounds=(1, 5), affinity=True, max_iter=2, random_state=0),
    "clicks": ImplicitMBMF(2, slack=1.5, popularity_power=0.5, max_iter=2, random_state=0),
    "known clicks": ImplicitMBMF(2, max_iter=2, random_state=0),
    "biased": MF(2, bounds=(1, 5), biases=True, clip=True, max_iter=3, random_state=0),
    "non-negative": NMF(2, validation_fraction=0.1, max_iter=3, random_state=0),
    "splitting": BMCADMM(2, bounds=(1, 5), max_iter=3, random_state=0),
    "wide": MBMF(2, bounds=(0, 1000), max_iter=2, random_state=0),
    "counts": BayesianMBMF(2, bounds=(0, 1000), link="log1p", max_iter=6, n_kept=2, random_state=0),
    "per item": MBMF(2, bounds=PerItem({item: (0, 5 + item % 3) for item in (*range(100, 107), -1)}), max_iter=2),
    "per pair": BayesianMBMF(
        2, bounds=PerPair({(0, 100): (0, 9), (1, 101): (-3, 5)}, default=(0, 6)), max_iter=6, n_kept=2, random_state=0
    ),
}
#: What is known of the ids of some models: a table, a graph and a sparse matrix.
FEATURES = {
    "told": {
        "user_features": {user: {"age": 20.0 + user, "sex": "FM"[user % 2]} for user in (*range(9), 50)},
        "item_features": ([*range(100, 107), 200], csr_array(np.eye(8)[:, :5] + np.eye(8, 5, 1))),
    },
    "linked": {"user_features": Graph([(user, user + 1) for user in range(9)])},
}
FEATURES["known clicks"] = FEATURES["told"]
LARGEST = np.finfo(float).max


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((9, 7)) < 0.7)
    return list(zip(users.tolist(), (items + 100).tolist(), strict=True)), rng.integers(1, 6, len(users)).astype(float)


@pytest.fixture(scope="module")
def files(data, tmp_path_factory):
    """Every model, saved once with its ratings; so few that whoever has one is in sets."""
    folder = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_information, "LEAST_RATED", 1)
        for name, model in MODELS.items():
            clone(model).fit(*data, **FEATURES.get(name, {})).save(folder / name, keep_ratings=True)
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


def assert_sound(model, data):
    """Everything that a model can be asked answers with finite numbers, inside what it promises."""
    X = [*data[0], (0, -1), (-1, 100), (-1, -1)]
    if lacks_ranges(model, [*X, (77, 102), (78, 103), (0, 105)]):
        return
    lower, upper = model._answering().ranges.interval(model._pairs(X))
    predictions = model.predict(X)
    assert np.isfinite(predictions).all()
    assert ((lower <= predictions) & (predictions <= upper)).all()
    if getattr(model, "clip", True) and isinstance(model.bounds, tuple) and getattr(model, "form", "c") == "c":
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
    if model.fitted_.choices is not None:
        _, scores = model.recommend(n=3, exclude_seen=False)
        assert (np.abs(scores) <= 1 + model.rating_weight).all()
        assert (np.abs(model.affinity_.predict(X)) <= 1).all()
    assert np.isfinite(model.similar_items(101)[1]).all()
    if model.fitted_.rule is None:
        assert len(model.export_vectors().items) <= model.n_items_
    else:
        ends = model.fitted_.rule.ends(*np.array(X).T)
        assert ((ends.lower <= predictions) & (predictions <= ends.upper)).all()
    if isinstance(model, MBMF | BayesianMBMF | ImplicitMBMF):
        new = [(77, 100), (77, 102), (78, 103)], [3.0, 2.0, 4.0]
        assert np.isfinite(model.fold_in(*new).predict(new[0])).all()
        grown = model.partial_fit([(0, 105), (99, 100)], [3.0, 2.0])
        assert np.isfinite(grown.predict(X)).all()
        if grown.fitted_.choices is not None:
            assert np.isfinite(grown.recommend([99], n=2)[1]).all()


def lacks_ranges(model, pairs):
    """Whether an id that was altered, in the model or its table, has no range now: that is said where it is asked."""
    if model.fitted_.rule is None or not np.isnan(model.fitted_.rule.ends(*np.array(pairs).T).lower).any():
        return False
    with pytest.raises(ValueError, match="ranges have no ends"):
        model.predict(pairs)
    return True


def assert_best_items(model):
    """The lists are those of a full sort of all predictions."""
    known = model.item_ids_.ids[model.fitted_.items.trained].tolist()
    by = "auto" if isinstance(model, ImplicitMBMF) else "rating"
    _, scores = model.recommend(n=3, exclude_seen=False, by=by)
    pairs = [(user, item) for user in model.user_ids_.ids.tolist() for item in known]
    if lacks_ranges(model, pairs):
        return
    best = np.sort(model.predict(pairs).reshape(-1, len(known)))[:, :-4:-1]
    assert np.array_equal(scores[:, : len(known)], best)


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
BYTES = {name: alter for name, alter in INTEGERS.items() if name != "below zero"}
BOOLS = {
    "nobody": with_all(False),
    "neither true nor false": lambda array: np.full(array.shape, 255, np.uint8).view(bool),
    "the other way round": lambda array: ~array,
}


def alterations(array):
    kind = {"f": FLOATS, "i": INTEGERS, "b": BOOLS, "u": BYTES}[array.dtype.kind]
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


NUMBERS = [{"float": "nan"}, {"float": "inf"}, -1, 0, 7.5, 1000, 1e308, 5e-324, 10**400, "3"]


@pytest.mark.parametrize("name", MODELS)
def test_an_altered_number_is_refused_or_leaves_the_model_sound(files, data, path, name):
    arrays, text = read_parts(files / name)
    for part in json.loads(text["values"]):
        for number in NUMBERS:
            changed = dict(text)
            change_table(changed, "values", **{part: number})
            write_crafted(path, arrays, changed)
            model = load_or_refuse(path)
            if model is not None and part not in RECORDS:
                assert_sound(model, data)


#: Numbers that say how the fit went, and settings that only another fit would look at.
RECORDS = {"n_features_in", "n_iter", "n_rejected", "best_iter", "infeasible_share", "max_violation", "rho"}
OF_THE_FIT = {
    *("solver", "init", "step", "steps", "initial_step", "penalty", "rho", "ridge", "learning_rate", "sharpness"),
    *("validation_fraction", "n_iter_no_change", "warm_start", "max_iter", "burn_in", "n_kept", "n_restarts", "slack"),
    *("tol", "patience", "tol_mode", "random_state", "verbose", "n_jobs", "duplicates"),
}
SETTINGS = [{"float": "nan"}, -1, 3, 10**400, "n", "paper", None, True, [], {"tuple": [0, None]}, {"learned": [1, 2]}]


@pytest.mark.parametrize("name", MODELS)
def test_an_altered_setting_is_refused_or_leaves_the_model_sound(files, data, path, name):
    arrays, text = read_parts(files / name)
    for part in json.loads(text["settings"]):
        for value in SETTINGS:
            settings = json.dumps(json.loads(text["settings"]) | {part: value})
            write_crafted(path, arrays, {**text, "settings": settings})
            model = load_or_refuse(path)
            if model is not None and part not in OF_THE_FIT:
                assert_sound(model, data)


# --- what must be refused -----------------------------------------------------------------------------------


def array(name, alter):
    def change(arrays, text):
        arrays[name] = np.ascontiguousarray(alter(own_array(arrays, text, name)))

    return change


def without(name):
    def change(arrays, text):
        own_array(arrays, text, name)
        del arrays[name]

    return change


def all_of(*changes):
    def change(arrays, text):
        for one in changes:
            one(arrays, text)

    return change


def twice(samples):
    return np.repeat(samples, 2, axis=0)


def value(**changes):
    return lambda arrays, text: change_table(text, "values", **changes)


def setting(**changes):
    return lambda arrays, text: change_table(text, "settings", **changes)


def wrapping(starts):
    """Starts whose differences wrap around, so that none of them is negative."""
    return np.concatenate([[0, 2**63 - 1], np.full(len(starts) - 3, -2), starts[-1:]])


def negative(numbers):
    return -numbers


def larger(rows):
    return 3 * rows


BALL, BAYES, SIDES = "ball", "Bayesian", ("user", "item")
REFUSED = {
    "seen rows that wrap around": (BALL, array("seen.indptr", wrapping), "users have seen are damaged"),
    "rows of ratings that wrap around": (BALL, array("ratings.indptr", wrapping), "users have seen are damaged"),
    "seen items twice": (BALL, array("seen.indices", lambda items: np.sort(items)), "not in their order"),
    "rated items twice": (BALL, array("ratings.indices", lambda items: np.sort(items)), "not in their order"),
    "an offset of 1000": (BALL, value(**{"ranges.offset": 1000}), "its ranges are not those of bounds=(1, 5)"),
    "a tilt of 7.5": (BALL, value(**{"ranges.tilt": 7.5}), "its ranges are not those of bounds=(1, 5)"),
    "ends that are not guarded": (BALL, value(**{"ranges.upper": 9}), "its ranges are not those of bounds=(1, 5)"),
    "other bounds": (BALL, setting(bounds={"tuple": [1, 4]}), "its ranges are not those of bounds=(1, 4)"),
    "another form": (BALL, setting(form="n"), "its ranges are not those of bounds=(1, 5) and form='n'"),
    "negative magnitudes": (
        BALL,
        array("ranges.user", negative),
        "its magnitudes of users are not those of its ranges",
    ),
    "magnitudes past the bounds": (BALL, array("ranges.item", larger), "its magnitudes of items are not those of"),
    "other magnitudes to show": (BALL, array("user_magnitudes", larger), "magnitudes of users are not those of"),
    "an unknown user of no size": (BALL, value(**{"ranges.unknown_user": 0}), "'ranges.unknown_user' are not pos"),
    "a slack of 20": (BALL, value(slack=20), "its slack is 20, not at least 1 and below 20"),
    "a slack of NaN": (BALL, value(slack={"float": "nan"}), "its 'slack' is nan"),
    "long factors": (BALL, array("user_factors", larger), "lengths are not those of magnitudes"),
    "NaN in the factors": (BALL, array("item_factors", with_first(np.nan)), "not finite, or their lengths"),
    "short factors on the sphere": (
        "sphere",
        array("user_factors", lambda rows: rows / 2),
        "lengths are not those of magnitudes",
    ),
    "another n_factors": (BALL, setting(n_factors=3), "6 columns, which does not go with n_factors=3"),
    "a third restart": (BALL, array("user_biases", SHAPES["a column more"]), "there are 3"),
    "infinity in factors": ("biased", array("user_factors", with_first(np.inf)), "not finite, or too large"),
    "factors that overflow": ("non-negative", array("item_factors", with_all(1e200)), "or too large to be multiplied"),
    "means outside": (BALL, array("item_means", with_first(6.0)), "means of its items lie outside bounds=(1, 5)"),
    "ratings outside": (BALL, array("ratings.data", with_first(6.0)), "ratings that it holds lie outside bounds="),
    "a negative ridge": (BALL, value(ridge=-1), "its 'ridge' is -1, which it cannot be"),
    "an objective of NaN": (BALL, array("objectives", with_first(np.nan)), "its 'objectives' is not the course"),
    "nobody trained": (BALL, array("user_seen", with_all(False)), "none of its users has a training rating"),
    "an id twice": (BALL, array("item_ids", lambda ids: np.maximum(ids, 103)), "its 'item_ids' name somebody twice"),
    "given magnitudes from nowhere": (BALL, setting(magnitudes=3), "its 'magnitudes' is missing or damaged"),
    "singular precisions": (BAYES, array("user_prior_precisions", with_all(1.0)), "priors of its users are no normal"),
    "negative precisions": (BAYES, array("item_prior_precisions", negative), "priors of its items are no normal"),
    "no noise": (BAYES, array("noise_variances", with_all(0.0)), "its 'noise_variances' are not positive"),
    "noise of no size": (BAYES, value(noise=0), "its 'noise' is 0"),
    "noise too large": (BAYES, value(noise=1e300), "too small or too large to be worked with"),
    "negative spreads": (BAYES, array("user_spread", negative), "its 'user_spread' are not variances"),
    "steadiness of nothing": ("told", array("user_steadiness", with_first(0.0)), "'user_steadiness' are not positive"),
    "infinite steadiness": ("told", array("item_steadiness", with_first(np.inf)), "'item_steadiness' are not positive"),
    "steadiness past all": ("told", array("item_steadiness", with_all(1e-35)), "too small or too large to be mult"),
    "strangers past all": ("told", value(user_stranger=1e-35), "its 'user_stranger' is too small or too large"),
    "strangers of no steadiness": ("told", value(item_stranger=0), "its 'item_stranger' is 0"),
    "NaN in links": ("told", array("user_links.matrices", with_first(np.nan)), "'user_links' are not finite"),
    "far links": ("told", array("item_links.typical", with_all(1e200)), "'item_links' are not finite"),
    "sets of more than there are": ("told", array("user_links.in_sets", with_first(99)), "'user_links' do not go with"),
    "sets of nobody": ("told", array("user_links.in_sets", with_first(-1)), "'user_links' do not go with its feat"),
    "sets of another number": ("told", value(user_links=99), "'user_links.in_sets' is missing or damaged"),
    "a column of features less": (
        "told",
        array("user_links.matrices", lambda rows: rows[:, 1:]),
        "'user_links' do not go with its features",
    ),
    "groups of nothing": ("linked", array("user_links.typical", lambda rows: rows[:, :1]), "do not go with its feat"),
    "features that are not there": (
        "told",
        array("item_links.features.indices", with_first(99)),
        "item_links.features",
    ),
    "features of NaN": ("told", array("item_links.features.data", with_first(np.nan)), "item_links.features"),
    "features of no known form": ("told", value(**{"user_links.features.encoding.form": "cloud"}), "encoding.form"),
    "a table of no levels": (
        "told",
        array("user_links.features.encoding.n_levels", with_all(7)),
        "'user_links.features' is missing or damaged",
    ),
    "features of somebody twice": (
        "linked",
        array("user_links.features.ids", lambda ids: np.maximum(ids, 3)),
        "'user_links.features.ids' name somebody twice",
    ),
    "NaN in what features say": (
        "known clicks",
        array("user_links.typical", with_first(np.nan)),
        "'user_links' or its 'user_usual' are not finite",
    ),
    "features that lead too far": (
        "known clicks",
        array("item_links.matrices", with_all(1e31)),
        "too large to be work",
    ),
    "features of two samples": (
        "known clicks",
        all_of(
            *(array(f"{kind}_links.{part}", twice) for kind in ("user", "item") for part in ("matrices", "typical"))
        ),
        "its 'user_links' do not go with its features",
    ),
    "a mean row outside the ball": ("known clicks", array("item_usual", with_all(3.0)), "its 'item_usual' are not fin"),
    "a mean row of another width": ("known clicks", array("item_usual", lambda row: row[1:]), "has 1 width, but there"),
    "features without a mean row": ("known clicks", without("user_usual"), "'user_links' and 'user_usual' do not go"),
    "known by nothing at all": (
        "known clicks",
        all_of(array("user_means", with_first(0.0)), array("user_links.features.ids", lambda ids: ids + 70)),
        "its 'user_means' are not the shares",
    ),
    "features of affinities": (
        "chosen",
        lambda arrays, text: arrays.update({"affinity.user_usual": np.zeros(64, np.float32)}),
        "it holds 'affinity.user_usual', which this boundrec does not know",
    ),
    "affinities that nobody asked for": ("chosen", setting(affinity=False), "does not go with affinity=False"),
    "no affinities where they were asked for": (BALL, setting(affinity=True), "does not go with affinity=True"),
    "affinities past one": (
        "chosen",
        array("affinity.user_factors", lambda rows: rows + 3),
        "of its affinities, its factors of users are not finite, or their lengths",
    ),
    "affinities of others": (
        "chosen",
        array("affinity.item_factors", SHAPES["a row less"]),
        "its 'affinity.item_factors' has 6 items, but there are 7",
    ),
    "shares that are none": (
        "chosen",
        array("affinity.item_means", with_first(-0.5)),
        "of its affinities, its 'item_means' are not the shares",
    ),
    "a spread of nothing": ("chosen", value(rating_spread=0), "its 'rating_spread' is 0"),
    "a centre below all": ("chosen", value(rating_centre=0.5), "around its 'rating_centre' lie outside bounds=(1, 5)"),
    "a centre above all": ("chosen", value(rating_centre=5.5), "around its 'rating_centre' lie outside bounds=(1, 5)"),
    "a spread past all": ("chosen", value(rating_spread=1e200), "too small or too large to be divided by"),
    "n_factors of others": (BAYES, setting(n_factors=6), "does not go with n_factors=6"),
}


@pytest.mark.parametrize(("name", "change", "sentence"), REFUSED.values(), ids=list(REFUSED))
def test_what_no_fit_leaves_is_refused(files, path, name, change, sentence):
    arrays, text = read_parts(files / name)
    change(arrays, text)
    write_crafted(path, arrays, text)
    with pytest.raises(ValueError, match=re.escape(f"{path} cannot be loaded: ")) as refused:
        boundrec.load(path)
    assert sentence in str(refused.value)


def test_a_centre_past_all_ranges_of_items_is_refused(data, path):
    ranges = PerItem({item: (0, 5 + item % 3) for item in range(100, 107)})
    MBMF(2, bounds=ranges, affinity=True, max_iter=2, random_state=0).fit(*data).save(path)
    arrays, text = read_parts(path)
    change_table(text, "values", rating_centre=99)
    write_crafted(path, arrays, text)
    with pytest.raises(ValueError, match="its 'rating_centre' is further out than any rating in its own range"):
        boundrec.load(path)


@pytest.mark.parametrize("part", ["seen.indptr", "ratings.indptr"])
def test_rows_are_looked_at_even_without_verifying(files, path, part):
    arrays, text = read_parts(files / "ball")
    array(part, wrapping)(arrays, text)
    write_crafted(path, arrays, text)
    with pytest.raises(ValueError, match="users have seen are damaged"):
        boundrec.load(path, verify=False)


@pytest.mark.parametrize("ids", [b'"a""a"', b'"a"NaN', b'"a"{"float":1' + b"0" * 400 + b"}", b'"a"null'], ids=str)
def test_ids_that_come_twice_or_name_nobody_are_refused_when_they_are_read(path, ids):
    NMF(1, max_iter=1, random_state=0).fit([(10.5, "i"), ("u", "i")], [1.0, 2.0]).save(path)
    arrays, text = read_parts(path)
    arrays["user_ids.json"] = np.frombuffer(ids, np.uint8)
    arrays["user_ids.starts"] = np.array([0, 3, len(ids)])
    write_crafted(path, arrays, text)
    model = boundrec.load(path)
    with pytest.raises(ValueError, match=re.escape(f"{path} is damaged: an id c")):
        model.predict([("a", "i")])


def test_a_model_whose_settings_were_changed_after_the_fit_is_not_saved(data, path):
    model = MBMF(2, bounds=(1, 5), max_iter=1, random_state=0).fit(*data)
    for settings, sentence in (
        ({"bounds": (0, 10)}, "its ranges are not those of bounds=(0, 10) and form='c'"),
        ({"n_factors": 3}, "its factors have 4 columns, which does not go with n_factors=3"),
        ({"dtype": "float32"}, "its factors are float64, which does not go with dtype='float32'"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"{path} cannot be saved: {sentence}")):
            copy.deepcopy(model).set_params(**settings).save(path)
    assert not path.exists()


def test_crafting_alone_gives_a_file_that_loads(files, data, path):
    for name in MODELS:
        write_crafted(path, *read_parts(files / name))
        assert path.read_bytes() == (files / name).read_bytes()
        assert_sound(boundrec.load(path), data)


HUGE = {
    "prior means": (BAYES, array("item_prior_means", with_first(1e300)), "priors of its items are no normal"),
    "mean": ("Bayesian, lower bound", value(mean=1e308), "its 'mean' is 1e+308"),
    "means of items": ("Bayesian, lower bound", array("item_means", with_all(1e300)), "too large to be squared"),
    "offset": ("biased", value(offset=1e308), "its 'offset' is 1e+308"),
    "ratings in float32": (BALL, array("ratings.data", lambda data: np.full(data.shape, np.inf, "f4")), "not finite"),
    "weights": (BALL, lambda arrays, _: arrays.update({"ratings.weights": arrays["ratings.data"] * 1e200}), "weights"),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(("name", "change", "sentence"), HUGE.values(), ids=list(HUGE))
def test_what_is_too_large_to_work_with_is_refused_without_a_warning(files, path, name, change, sentence):
    test_what_no_fit_leaves_is_refused(files, path, name, change, sentence)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_ratings_in_float32_are_as_good_as_others(files, data, path):
    arrays, text = read_parts(files / BALL)
    arrays["ratings.data"] = arrays["ratings.data"].astype(np.float32)
    write_crafted(path, arrays, text)
    assert_sound(boundrec.load(path), data)


@pytest.mark.parametrize("whole", [10**30, 2**64, 3], ids="{:.0e}".format)
@pytest.mark.parametrize("name", [BALL, "paper", BAYES, "Bayesian, lower bound", "biased", "splitting"])
def test_a_whole_number_of_any_length_is_refused_or_leaves_the_model_sound(files, data, path, name, whole):
    arrays, text = read_parts(files / name)
    places = [("values", part) for part in json.loads(text["values"]) if part not in RECORDS]
    for table, part in [*places, *([("settings", "history_count")] if "history_count" in text["settings"] else [])]:
        changed = dict(text)
        change_table(changed, table, **{part: whole})
        write_crafted(path, arrays, changed)
        model = load_or_refuse(path)
        if model is not None:
            assert_sound(model, data)


def test_ids_without_a_single_start_are_refused(path):
    NMF(1, max_iter=1, random_state=0).fit([("a", "i"), ("u", "i")], [1.0, 2.0]).save(path)
    arrays, text = read_parts(path)
    arrays["user_ids.starts"] = np.empty(0, np.int64)
    write_crafted(path, arrays, text)
    with pytest.raises(ValueError, match="its 'user_ids' are damaged"):
        boundrec.load(path)
