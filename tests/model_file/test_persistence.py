"""Model files: what is saved comes back, and what was not saved by us, or not whole, is refused in a sentence."""

import copy
import errno
import json
import mmap
import os
import pickle
import re
import resource
import subprocess
import sys
import tempfile
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from crafted_files import change_table, dissect, seal
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from test_contract import MODELS

import boundrec
import naive
from boundrec import MBMF, MF, NMF, BayesianMBMF, Ratings, registry
from boundrec.data.ids import IdIndex
from boundrec.model_file import parts, taken_apart, tensor_file
from boundrec.models.side_information import FittedLinks
from boundrec.ranges import Ranges

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FORMS = {
    "restarts": MBMF(3, bounds=(1, 5), n_restarts=2, max_iter=3, random_state=0),
    "form n": MBMF(3, bounds=(1, 5), form="n", max_iter=3, random_state=0),
    "no bounds": MBMF(3, max_iter=3, random_state=0),
    "lower bound": MBMF(3, bounds=(0, None), max_iter=3, on_contradiction="widen", random_state=0),
    "upper bound": MBMF(3, bounds=(None, 9), max_iter=3, on_contradiction="widen", random_state=0),
    "magnitudes of the paper": MBMF.as_in_paper(3, bounds=(1, 5), magnitudes="paper", max_iter=3, random_state=0),
    "ratings dropped": MBMF(
        3, bounds=(1, 5), magnitudes="history", on_contradiction="drop", max_iter=3, random_state=0
    ),
    "float32": BayesianMBMF(3, bounds=(1, 5), max_iter=6, dtype=np.float32, random_state=0),
    "float16": BayesianMBMF(3, bounds=(1, 5), max_iter=6, dtype=np.float16, affinity=True, random_state=0),
    "biases and restarts": MBMF(3, bounds=(1, 5), biases=True, n_restarts=2, max_iter=3, random_state=0),
    "validated": MF(3, validation_fraction=0.2, max_iter=5, random_state=0),
    "going on": BayesianMBMF(3, bounds=(1, 5), validation_fraction=0.2, warm_start=True, max_iter=6, random_state=0),
    "sets and noise": BayesianMBMF(3, bounds=(1, 5), implicit="both", noise="own", max_iter=6, random_state=0),
    "affinities": BayesianMBMF(3, bounds=(1, 5), affinity=True, max_iter=6, random_state=0),
    "clipped": NMF(3, bounds=(1, 5), clip=True, max_iter=3, random_state=0),
}
EVERY_MODEL = MODELS | FORMS


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((30, 20)) < 0.4)
    names = np.array([f"né {u}\0" for u in users], dtype=object)
    return list(zip(names, (items + 1000).tolist(), strict=True)), rng.integers(1, 6, len(users)).astype(float)


@pytest.fixture(scope="module")
def fitted(data):
    """Every model, fitted once."""
    return {name: clone(model).fit(*data) for name, model in EVERY_MODEL.items()}


@pytest.fixture(params=EVERY_MODEL, ids=str)
def model(request, fitted):
    return fitted[request.param]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def saved(fitted, path):
    """A file with ids of both kinds and with ratings."""
    fitted["exact ball"].save(path, keep_ratings=True)
    return path


def through_a_file(model, path, **options):
    model.save(path, **options)
    return boundrec.load(path)


def assert_same(one, other):
    """The same value, of the same type (a NumPy float may come back as a plain one); arrays of the same bits."""
    assert isinstance(one, (type(other), IdIndex))
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
    elif isinstance(one, IdIndex):
        assert one == other
        assert list(map(type, one.ids)) == list(map(type, other.ids))
    elif isinstance(one, tuple):
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    elif isinstance(one, Ranges | Ratings | FittedLinks):
        for name in one.__dataclass_fields__:
            assert_same(getattr(one, name), getattr(other, name))
    else:
        assert one == other


# --- identity -----------------------------------------------------------------------------------------------


def test_a_loaded_model_has_the_settings_and_all_that_was_learned(model, path):
    loaded = through_a_file(model, path)
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    assert {name: type(value) for name, value in loaded.get_params().items()} == {
        name: type(value) for name, value in model.get_params().items()
    }
    assert_same_parts(model.fitted_, loaded.fitted_)
    if model.fitted_.choices is not None:
        assert_same_parts(model.fitted_.choices, loaded.fitted_.choices)


def assert_same_parts(one, other):
    found = taken_apart(other)
    for name, value in taken_apart(one).items():
        assert_same(value, found.pop(name))
    assert not found


def test_a_loaded_model_predicts_the_same_bits_for_known_and_unknown_ids(model, data, path):
    loaded = through_a_file(model, path)
    X = [*data[0], ("nobody", 1000), (data[0][0][0], -1), ("nobody", -1)]
    assert_same(model.predict(X), loaded.predict(X))
    if hasattr(model, "predict_range"):
        assert_same(model.predict_range(X), loaded.predict_range(X))
        assert_same(model.predict(X, return_range=True), loaded.predict(X, return_range=True))
    if hasattr(model, "predict_quantiles"):
        assert_same(model.predict_quantiles(X), loaded.predict_quantiles(X))
        assert_same(model.predict(X, return_std=True), loaded.predict(X, return_std=True))


def test_saving_a_loaded_model_gives_the_same_file(model, path, tmp_path):
    through_a_file(model, path).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_files_hold_all_that_a_fit_leaves_in_a_model(model):
    assert vars(model).keys() - model.get_params().keys() <= {"_learned", "_chain"}
    forgotten = {name for name, value in taken_apart(model.fitted_).items() if value is not None} - model.STORED.keys()
    assert not forgotten, f"name {forgotten} in STORED of {type(model).__name__}, or files will not hold them"


def test_every_public_model_can_be_saved():
    public = {name for name in boundrec.__all__ if hasattr(getattr(boundrec, name), "STORED")}
    assert public == {one.name for one in registry.MODELS}


def test_a_loaded_model_can_be_fitted_cloned_and_copied(model, data, path):
    loaded = through_a_file(model, path)
    assert_same(clone(loaded).fit(*data).user_factors_, model.user_factors_)
    assert_same(copy.deepcopy(loaded).predict(data[0]), model.predict(data[0]))


def test_ratings_come_back_when_they_were_kept(data, path):
    X, y = data
    for weights in (None, np.linspace(0.5, 2, len(y))):
        model = MF(2, max_iter=1, random_state=0).fit(X, y, sample_weight=weights)
        loaded = through_a_file(model, path, keep_ratings=True)
        assert_same(loaded.fitted_.ratings, model.fitted_.ratings)
        assert loaded.fitted_.ratings.users is loaded.user_ids_
        size = path.stat().st_size
        assert through_a_file(loaded, path).fitted_.ratings is None
        assert path.stat().st_size < size


def test_ratings_that_are_not_there_cannot_be_kept(fitted, path):
    loaded = through_a_file(fitted["MF gd"], path)
    with pytest.raises(ValueError, match="keep_ratings=True, but this model has no ratings"):
        loaded.save(path, keep_ratings=True)


def test_seen_items_are_those_of_the_ratings(fitted, data, path):
    loaded = through_a_file(fitted["MF gd"], path)
    users, items = (loaded.user_ids_.ids, loaded.item_ids_.ids)
    starts, seen = loaded.fitted_.seen
    pairs = [(users[i], items[j]) for i in range(len(users)) for j in seen[starts[i] : starts[i + 1]]]
    assert sorted(pairs) == sorted(data[0])


def test_a_loaded_model_recommends_the_same_lists(model, path):
    loaded = through_a_file(model, path)
    assert_same(tuple(model.recommend(n=5)), tuple(loaded.recommend(n=5)))
    assert_same(tuple(model.recommend(n=5, exclude_seen=False)), tuple(loaded.recommend(n=5, exclude_seen=False)))


@pytest.mark.parametrize("name", ["exact ball", "ball with biases", "affinities"])
def test_a_loaded_model_takes_in_new_users_and_ratings(fitted, path, name):
    model = fitted[name]
    loaded = through_a_file(model, path, keep_ratings=True)
    X, y = [("new", 1001), ("new", 1003), ("newer", 1002)], [5.0, 1.0, 3.0]
    before = path.read_bytes()
    view = model.fold_in(X, y)
    assert_same(loaded.fold_in(X, y).predict(X), view.predict(X))
    assert_same(through_a_file(view, path.with_name("view")).predict(X), view.predict(X))
    grown = loaded.partial_fit(X, y)
    in_memory = copy.deepcopy(model).partial_fit(X, y)
    assert_same(grown.predict(X), in_memory.predict(X))
    assert_same(tuple(grown.recommend(["new"])), tuple(in_memory.recommend(["new"])))
    assert path.read_bytes() == before
    assert_same(through_a_file(grown, path).predict(X), grown.predict(X))


# --- settings -----------------------------------------------------------------------------------------------


def test_given_magnitudes_come_back_as_what_was_learned(data, path):
    X, y = data
    users, items = dict.fromkeys((u for u, _ in X), 1.0), dict.fromkeys((i for _, i in X), 2.0)
    model = MBMF(2, bounds=(1, 5), magnitudes=(users, items), max_iter=2, random_state=0).fit(X, y)
    loaded = through_a_file(model, path)
    assert loaded.get_params() == model.get_params()
    assert_same(clone(loaded).fit(X, y).user_factors_, model.user_factors_)
    assert_same(through_a_file(loaded, path).predict(X), model.predict(X))


@pytest.mark.filterwarnings("ignore:.*outside their own range")
@pytest.mark.parametrize("items", ["range", "history", {}], ids=str)
def test_a_rule_for_each_side_comes_back_and_serves_new_ids(data, path, items):
    X, y = data
    model = MBMF(2, bounds=(1, 5), magnitudes=({X[0][0]: 2.5}, items), max_iter=2, random_state=0).fit(X, y)
    loaded = through_a_file(model, path)
    assert loaded.magnitudes[0] == dict(zip(model.fitted_.users.ids.ids.tolist(), model.user_magnitudes_, strict=True))
    assert loaded.magnitudes[1] == (items if isinstance(items, str) else loaded.magnitudes[1])
    for axis, new in (("users", [("new", X[0][1])]), ("items", [(X[0][0], "new")])):
        views = [one.fold_in(new, [y[0]], axis=axis) for one in (model, loaded)]
        assert_same(views[1].predict_range(new), views[0].predict_range(new))
        assert_same(views[1].predict(new), views[0].predict(new))


def test_given_arrays_of_magnitudes_come_back_as_arrays(data, path):
    ratings = Ratings.read(*data)
    given = np.full(ratings.n_users, 1.0), np.full(ratings.n_items, 2.0)
    model = MBMF(2, bounds=(1, 5), magnitudes=given, max_iter=2, random_state=0).fit(ratings)
    assert_same(through_a_file(model, path).magnitudes, given)


@pytest.mark.parametrize("state", [np.random.default_rng(0), np.random.RandomState(0)], ids=["new", "old"])
def test_a_generator_comes_back_as_none(data, path, state):
    model = MF(2, max_iter=1, random_state=state).fit(*data)
    assert through_a_file(model, path).random_state is None


def test_numpy_settings_come_back_as_plain_ones(data, path):
    model = MF(np.int64(2), bounds=np.array([1, 5]), tol=np.float64(0.5), clip=np.True_, max_iter=1, random_state=0)
    loaded = through_a_file(model.fit(*data), path)
    assert (loaded.n_factors, loaded.bounds, loaded.tol, loaded.clip) == (2, [1, 5], 0.5, True)


def test_infinite_bounds_come_back(data, path):
    model = MF(2, bounds=(-np.inf, np.inf), max_iter=1, random_state=0).fit(*data)
    assert through_a_file(model, path).bounds == (-np.inf, np.inf)


# --- ids ----------------------------------------------------------------------------------------------------

KINDS_OF_IDS = {
    "text": ["a", "", "ä", "日本", "a\0b", "\0", "👩‍👧", "\ud800", "\ud800\udc00", "a\u0301", "á"],
    "mixed": [2, "2", 2.5, True, b"x", b"\xff\0", ("a", 1), ("a", (None, float("inf"))), "", -(2**70), float("-inf")],
    "tuples": [(1, 2), (1, "2"), (), ((),)],
    "truth": [True, False],
    "fractions": [0.1, 1e-300, 5e-324, 1.5],
    "large": [2**63, 2**64 - 1, 10**100],
    "surrogates in tuples": [("\ud800\udc00",), ("\U00010000",)],
}
KINDS_OF_IDS |= {
    name: np.array([1, 5, 2], name) for name in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
}
KINDS_OF_IDS |= {"float32": np.array([1, 2.5, 3], "f4"), "whole floats": np.array([1.0, 2.0])}


@pytest.mark.parametrize("ids", KINDS_OF_IDS.values(), ids=list(KINDS_OF_IDS))
def test_ids_come_back_as_they_were(ids, path):
    X = [(one, "item") for one in ids]
    model = NMF(1, max_iter=1, random_state=0).fit(X, np.arange(1.0, len(X) + 1))
    loaded = through_a_file(model, path)
    assert_same(model.user_ids_, loaded.user_ids_)
    assert model.user_ids_.ids.dtype == loaded.user_ids_.ids.dtype
    assert_same(model.predict(X), loaded.predict(X))


PLAIN_IDS = st.text(st.characters()) | st.integers() | st.booleans() | st.floats(allow_nan=False) | st.binary()
IDS = st.recursive(PLAIN_IDS, lambda inner: st.lists(inner | st.none(), max_size=3).map(tuple), max_leaves=5)


@given(st.lists(IDS, min_size=1, max_size=8) | st.lists(st.text(st.characters()), min_size=1))
def test_any_ids_come_back_as_they_were(ids):
    index, _ = IdIndex.encode(ids)
    contents = parts.Contents()
    parts._store_ids(contents, "user_ids", index)
    with tempfile.TemporaryDirectory() as folder:
        text = {"values": "{}", "shared": "{}"}
        tensor_file.write(f"{folder}/ids", contents.arrays, text)
        source = parts.Source(tensor_file.read(f"{folder}/ids"), "ids", True)
    assert_same(index, parts._restore_ids(source, "user_ids", "users"))


@pytest.mark.parametrize("one", [np.datetime64("2020-01-01"), frozenset("a"), 1j, ("a", frozenset())], ids=str)
def test_ids_that_files_do_not_hold_are_named(one, path):
    model = NMF(1, max_iter=1, random_state=0).fit([("a", "i"), (one, "i")], [1.0, 2.0])
    with pytest.raises(TypeError, match=r"the user id .*files hold ids that are text, numbers"):
        model.save(path)
    assert not path.exists()


# --- mapped, and only what is needed ------------------------------------------------------------------------


def test_arrays_are_mapped_and_cannot_be_written_to_or_leave_the_file_alone(fitted, path):
    loaded = through_a_file(fitted["exact ball"], path)
    before = path.read_bytes()
    for array in (loaded.item_ids_.ids, loaded.fitted_.seen.indices):
        assert isinstance(owner(array), mmap.mmap)
        assert array.flags.aligned
        array[:] = 0
    for array in (loaded.user_factors_, loaded.user_magnitudes_):
        assert isinstance(owner(array), mmap.mmap)
        assert array.flags.aligned
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    assert path.read_bytes() == before


def owner(array):
    """What holds the memory that an array shows."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array


def test_arrays_with_two_names_are_stored_once(fitted, path):
    loaded = through_a_file(fitted["exact ball"], path, keep_ratings=True)
    assert loaded.user_magnitudes_ is loaded.fitted_.ranges.user
    assert loaded.fitted_.seen.indices is loaded.fitted_.ratings.by_user.indices


def test_the_index_of_ids_is_built_when_it_is_first_needed(fitted, data, path):
    loaded = through_a_file(fitted["exact ball"], path)
    assert "ids" not in vars(loaded.user_ids_)
    assert "_table" not in vars(loaded.item_ids_)
    assert (len(loaded.user_ids_), len(loaded.item_ids_)) == (loaded.n_users_, loaded.n_items_)
    loaded.predict(data[0][:1])
    assert "ids" in vars(loaded.user_ids_)
    assert "_table" in vars(loaded.item_ids_)


def test_loading_and_predicting_load_neither_numba_nor_a_compiler(fitted, data, tmp_path):
    for number, model in enumerate(fitted.values()):
        model.save(tmp_path / f"{number}.safetensors")
    code = f"""
import sys, warnings, pathlib, boundrec
for file in sorted(pathlib.Path({str(tmp_path)!r}).glob("*.safetensors")):
    model = boundrec.load(file)
    assert model.predict({data[0][:3]!r}).shape == (3,)
    if hasattr(model, "predict_quantiles"):
        model.predict_quantiles({data[0][:3]!r})
    assert model.recommend(n=3)
print(*{{"numba", "llvmlite", "boundrec.solvers.kernels"}} & sys.modules.keys())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


# --- the format ---------------------------------------------------------------------------------------------


def test_other_programs_read_the_file(fitted, path):
    model = fitted["Bayesian"]
    model.save(path)
    with safetensors.safe_open(path, framework="numpy") as file:
        text, names = file.metadata(), set(file.keys())
        for name in ("user_factors_", "item_factors_", "user_biases_", "user_means_"):
            assert np.array_equal(file.get_tensor(name.strip("_")), getattr(model, name))
    assert (text["format"], text["format_version"], text["model"]) == ("boundrec", "1", "BayesianMBMF")
    assert json.loads(text["settings"])["n_factors"] == 3
    assert {"item_ids", "user_ids.text", "user_ids.starts", "ranges.user", "seen.indptr", "seen.indices"} <= names


def test_the_checksum_is_that_of_the_specification(saved, monkeypatch):
    content = saved.read_bytes()
    assert checksum_in(content) == naive.file_checksum(content, 1 << 22)


def test_files_of_many_chunks_are_verified_chunk_by_chunk(fitted, path, monkeypatch):
    monkeypatch.setattr(tensor_file, "CHUNK", 1000)
    model = fitted["exact ball"]
    assert_same(through_a_file(model, path).user_factors_, model.user_factors_)
    content = bytearray(path.read_bytes())
    assert len(content) > 6000
    assert checksum_in(content) == naive.file_checksum(bytes(content), 1000)
    start = 8 + int.from_bytes(content[:8], "little")
    first, second = slice(start, start + 1000), slice(start + 1000, start + 2000)
    content[first], content[second] = content[second], content[first]
    path.write_bytes(content)
    with pytest.raises(ValueError, match="does not match its checksum"):
        boundrec.load(path)


def checksum_in(content):
    return re.search(rb'"checksum":"(\w+)"', content)[1].decode()


# --- damage -------------------------------------------------------------------------------------------------


def flipped(content, rng, low, high):
    place = int(rng.integers(low, high))
    damaged = bytearray(content)
    damaged[place] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def other_formats(content, rng, folder):
    """Files of other kinds, each a little different every time."""
    array = rng.random(int(rng.integers(1, 50)))
    np.save(folder / "a.npy", array)
    np.savez(folder / "a.npz", array)
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("model.safetensors", content)
    named = {"npy": folder / "a.npy", "npz": folder / "a.npz", "zip": folder / "a.zip"}
    return [
        *(file.read_bytes() for file in named.values()),
        pickle.dumps({"model": array}),
        safetensors.numpy.save({"weight": array}),
        safetensors.numpy.save({"weight": array}, metadata={"format": "pt"}),
        json.dumps({"model": array.tolist()}).encode(),
        b"user,item,rating\n" * array.size,
        rng.bytes(int(rng.integers(1, 5000))),
        b"\0" * int(rng.integers(1, 5000)),
        b"",
        content[8:],
    ]


def corruptions(content, folder):
    """200 damaged files: cut, with flipped bits, with pieces moved or added, or not models at all."""
    rng = np.random.default_rng(20240501)
    start = 8 + int.from_bytes(content[:8], "little")
    yield from (content[: int(cut)] for cut in rng.integers(0, len(content), 40))
    yield from (content[:cut] for cut in (7, 8, 9, start - 1, start, start + 1, len(content) - 1))
    yield from (flipped(content, rng, 0, 8) for _ in range(10))
    yield from (flipped(content, rng, 8, start) for _ in range(50))
    yield from (flipped(content, rng, start, len(content)) for _ in range(50))
    yield from (content + rng.bytes(n) for n in (1, 8, 4096))
    for _ in range(16):
        a, b = sorted(map(int, rng.choice(np.arange(start, len(content) - 64), 2, replace=False)))
        yield content[:a] + content[b : b + 64] + content[a + 64 :]
    for _ in range(2):
        yield from other_formats(content, rng, folder)


def test_two_hundred_damaged_files_are_each_refused_by_name(saved, tmp_path):
    content, file = saved.read_bytes(), tmp_path / "damaged.safetensors"
    tried = 0
    for damaged in corruptions(content, tmp_path):
        assert damaged != content
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=re.escape(f"{file} cannot be loaded: ")) as refused:
            boundrec.load(file)
        assert str(refused.value).endswith(".")
        tried += 1
    assert tried == 200


def test_without_verifying_altered_data_pass_and_an_altered_form_does_not(saved):
    content = bytearray(saved.read_bytes())
    length = int.from_bytes(content[:8], "little")
    place = 8 + length + json.loads(content[8 : 8 + length])["user_factors"]["data_offsets"][0]
    content[place : place + 8] = np.array(7.0).tobytes()
    saved.write_bytes(content)
    with pytest.raises(ValueError, match="does not match its checksum"):
        boundrec.load(saved)
    assert boundrec.load(saved, verify=False).user_factors_[0, 0] == 7
    saved.write_bytes(content[:-1])
    with pytest.raises(ValueError, match="was cut short: it has"):
        boundrec.load(saved, verify=False)


# --- hostile files, with checksums that fit -----------------------------------------------------------------


def entry(name, **changes):
    def change(header, data):
        header[name] |= changes

    return change


def text(**changes):
    def change(header, data):
        header["__metadata__"] |= changes

    return change


def inside(table, **changes):
    """Change entries of a table in the text; None takes one away."""

    def change(header, data):
        change_table(header["__metadata__"], table, **changes)

    return change


def numbers(name, place, value):
    def change(header, data):
        array = header[name]
        dtype = tensor_file.DTYPES[array["dtype"]]
        first, end = array["data_offsets"]
        view = np.frombuffer(data, dtype, (end - first) // dtype.itemsize, first)
        view[place] = value

    return change


def without(name):
    """Take an array away, and close the gap."""

    def change(header, data):
        first, end = header.pop(name)["data_offsets"]
        del data[first:end]
        for other in header.values():
            if other.get("data_offsets", [0])[0] >= end:
                other["data_offsets"] = [place - end + first for place in other["data_offsets"]]

    return change


def overlapping(header, data):
    """Two arrays on the same bytes, and a hole where one of them was."""
    first = header["user_factors"]["data_offsets"][0]
    header["user_means"]["data_offsets"] = [first, first + 240]


def more(header, data):
    first = len(data)
    data.extend(bytes(8))
    header["surplus"] = {"dtype": "U8", "shape": [8], "data_offsets": [first, first + 8]}


HOSTILE = {
    "overlap": overlapping,
    "a shape that is not that of the data": entry("user_means", shape=[31]),
    "a shape of 2⁶² × 2⁶²": entry("user_means", shape=[2**62, 2**62]),
    "a shape of 0 × 2⁶²": lambda header, data: header.update(
        nothing={"dtype": "U8", "shape": [0, 2**62], "data_offsets": [len(data), len(data)]}
    ),
    "a negative shape": entry("user_means", shape=[-1, -30]),
    "a shape of floats": entry("user_means", shape=[30.0]),
    "a shape of truth": entry("user_means", shape=[True]),
    "a shape that is text": entry("user_means", shape="30"),
    "65 dimensions": entry("user_means", shape=[1] * 64 + [30]),
    "one dimension too many": entry("user_means", shape=[30, 1]),
    "offsets beyond the end": entry("user_means", data_offsets=[2**60, 2**60 + 240]),
    "offsets backwards": entry("user_means", data_offsets=[240, 0]),
    "three offsets": entry("user_means", data_offsets=[0, 1, 2]),
    "an unknown type": entry("user_means", dtype="F16"),
    "a type that is a list": entry("user_means", dtype=["F64"]),
    "whole numbers for factors": entry("user_factors", dtype="I64"),
    "floats for ids": entry("item_ids", dtype="F64"),
    "more in an entry": entry("user_means", code="import os"),
    "users and items swapped": lambda header, data: header.update(
        user_means=header["item_means"], item_means=header["user_means"]
    ),
    "an array of nothing known": more,
    "no factors": without("item_factors"),
    "no ids": without("item_ids"),
    "no seen items": without("seen.indices"),
    "an item that does not exist": numbers("seen.indices", 3, 20),
    "an item below zero": numbers("seen.indices", 3, -1),
    "rows that end too late": numbers("seen.indptr", -1, 2**40),
    "rows that begin before zero": numbers("seen.indptr", 0, -8),
    "rows that go back": numbers("seen.indptr", 3, 2**40),
    "ids that go back": numbers("user_ids.starts", 3, -(2**40)),
    "a format that is not ours": text(format="pt"),
    "a newer version": text(format_version="2"),
    "version 0": text(format_version="0"),
    "a version of superscripts": text(format_version="²"),
    "a version of a million digits": text(format_version="9" * 10**5),
    "text that is a number": text(model=3),
    "a model of nobody's": text(model="system"),
    "a module for a model": text(model="os"),
    "no model": text(model=""),
    "settings that are a list": text(settings="[]"),
    "settings without end": text(settings="[" * 10**5),
    "a setting of no sense": inside("settings", on_unknown="zero"),
    "a setting of another type": inside("settings", initial_step="large"),
    "a setting nobody knows": inside("settings", colour="red"),
    "a setting of an unknown kind": inside("settings", tol={"object": "x"}),
    "a setting of two kinds": inside("settings", tol={"float": "1", "bytes": ""}),
    "a dtype of text": inside("settings", dtype={"dtype": "object"}),
    "magnitudes of three sides": inside("settings", magnitudes={"learned": ["array"] * 3}),
    "ranges without an offset": inside("values", **{"ranges.offset": None}),
    "ranges of text": inside("values", **{"ranges.limit": "wide"}),
    "a mean of text": inside("values", mean="3"),
    "column names that are numbers": inside("values", column_names=[1, 2]),
    "one column name": inside("values", column_names=["user"]),
    "a mean of truth": inside("values", mean=True),
    "no mean": inside("values", mean=None),
    "a value nobody knows": inside("values", surplus=1),
    "a table that is text": text(values='"values"'),
    "an array shared with nothing": inside("shared", user_magnitudes="nothing"),
    "an array shared with a list": inside("shared", user_magnitudes=["user_factors"]),
    "an array shared with another shape": inside("shared", user_magnitudes="user_factors"),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_files_are_refused_by_name_and_without_much_memory(saved, change):
    header, data = dissect(saved.read_bytes())
    change(header, data)
    saved.write_bytes(seal(header, bytes(data)))
    boundrec.load  # noqa: B018  imported before memory is counted
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=re.escape(f"{saved} cannot be loaded: ")) as refused:
            boundrec.load(saved)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()
    assert "checksum" not in str(refused.value)


def test_sealing_alone_gives_a_file_that_loads(saved, fitted):
    header, data = dissect(saved.read_bytes())
    saved.write_bytes(seal(header, bytes(data)))
    assert_same(boundrec.load(saved).user_factors_, fitted["exact ball"].user_factors_)


@pytest.mark.parametrize("length", [0, 1, 2**20, 2**31, 2**62, 2**64 - 1])
def test_a_header_of_absurd_length_is_refused(saved, length):
    saved.write_bytes(length.to_bytes(8, "little") + saved.read_bytes()[8:])
    with pytest.raises(ValueError, match="not a model file"):
        boundrec.load(saved)


@pytest.mark.parametrize("header", ["[1]", "3", "null", '{"a":' * 10**5, '{"a":1,"a":2}', '{"a":1}', "{}"])
def test_a_header_that_is_no_table_of_ours_is_refused(path, header):
    path.write_bytes(seal(header, b""))
    with pytest.raises(ValueError, match=re.escape(f"{path} cannot be loaded: it ")):
        boundrec.load(path)


@pytest.mark.parametrize("damage", [b"\xff", b"\xc3"])
def test_ids_that_are_no_text_are_refused_when_they_are_read(saved, damage):
    header, data = dissect(saved.read_bytes())
    first = header["user_ids.text"]["data_offsets"][0]
    data[first : first + 1] = damage
    saved.write_bytes(seal(header, bytes(data)))
    model = boundrec.load(saved)
    with pytest.raises(ValueError, match=re.escape(f"{saved} is damaged: an id cannot be read")):
        model.predict([("a", 1)])


@pytest.mark.parametrize("damage", [b"[12]", b"[[[[", b'{"a"', b"1e5]", b'"\xc3""'])
def test_ids_that_are_no_plain_values_are_refused_when_they_are_read(path, damage):
    NMF(1, max_iter=1, random_state=0).fit([(10.5, "i"), (11.5, "i")], [1.0, 2.0]).save(path)
    header, data = dissect(path.read_bytes())
    first = header["user_ids.json"]["data_offsets"][0]
    data[first : first + 4] = damage
    path.write_bytes(seal(header, bytes(data)))
    model = boundrec.load(path)
    with pytest.raises(ValueError, match=re.escape(f"{path} is damaged: an id cannot be read")):
        model.predict([("a", "i")])


def test_ratings_are_looked_at_even_without_verifying(saved):
    """The kernels trust them: an item that does not exist would be read from somebody else's memory."""
    header, data = dissect(saved.read_bytes())
    numbers("seen.indices", 3, 2**30)(header, data)
    saved.write_bytes(seal(header, bytes(data)))
    with pytest.raises(ValueError, match="items that it does not hold"):
        boundrec.load(saved, verify=False)


def test_as_many_weights_as_ratings_or_none(saved):
    header, data = dissect(saved.read_bytes())
    inside("shared", **{"ratings.weights": "mean"})(header, data)
    without("ratings.weights")(header, data)
    inside("shared", **{"ratings.weights": "item_means"})(header, data)
    saved.write_bytes(seal(header, bytes(data)))
    with pytest.raises(ValueError, match="but 20 weights"):
        boundrec.load(saved)


def test_a_newer_file_says_so(saved):
    for change, sentence in (
        (text(format_version="2"), "version 2, and this boundrec reads up to 1: install a newer boundrec"),
        (more, "holds 'surplus', which this boundrec does not know: install a newer one"),
        (inside("settings", colour="red"), "setting 'colour', which this boundrec does not know"),
    ):
        content = saved.read_bytes()
        header, data = dissect(content)
        change(header, data)
        saved.write_bytes(seal(header, bytes(data)))
        with pytest.raises(ValueError, match=sentence):
            boundrec.load(saved)
        saved.write_bytes(content)


def test_an_older_file_gets_the_defaults_of_what_it_lacks(saved, fitted):
    fitted["exact sphere"].save(saved)
    header, data = dissect(saved.read_bytes())
    inside("values", slack=None)(header, data)
    inside("settings", n_restarts=None, tol_mode=None)(header, data)
    saved.write_bytes(seal(header, bytes(data)))
    loaded = boundrec.load(saved)
    assert (loaded.slack_, loaded.n_restarts, loaded.tol_mode) == (1.0, 1, "relative")


# --- whole or not at all ------------------------------------------------------------------------------------


def leftovers(folder):
    return [file for file in os.listdir(folder) if file.startswith(".boundrec-")]


KILLER = """
import os, random, signal, sys, time
import boundrec
folder = sys.argv[1]
random.seed(0)
final = folder + "/final.safetensors"
models = [boundrec.load(folder + f"/{k}.safetensors") for k in (0, 1)]
known = [open(folder + f"/{k}.safetensors", "rb").read() for k in (0, 1)]
began = time.perf_counter()
models[0].save(final)
once = time.perf_counter() - began
killed_while_saving = 0
for turn in range(20):
    child = os.fork()
    if child == 0:
        while True:
            for model in models:
                model.save(final)
    time.sleep(random.uniform(0, 4 * once))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    boundrec.load(final)
    assert open(final, "rb").read() in known
    killed_while_saving += any(name.startswith(".boundrec-") for name in os.listdir(folder))
assert killed_while_saving, "no child was killed while it was saving"
models[0].save(final)
"""


def test_kill_9_during_saving_leaves_the_old_file_or_the_new_one_and_the_next_save_cleans_up(tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.permutation(20_000), np.arange(20_000) % 50])
    model = MF(20, max_iter=1, random_state=0).fit(X, rng.random(20_000))
    model.save(tmp_path / "0.safetensors")
    model._learned = replace(model.fitted_, users=replace(model.fitted_.users, factors=-model.user_factors_))
    model.save(tmp_path / "1.safetensors")
    done = subprocess.run([sys.executable, "-c", KILLER, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not leftovers(tmp_path)


@pytest.mark.parametrize("stage", ["fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_an_error_while_saving_is_told_and_leaves_what_was_there(saved, fitted, monkeypatch, stage, number):
    before = saved.read_bytes()

    def fail(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, stage, fail)
    sentence = re.escape(f"{saved} cannot be saved: {os.strerror(number)}.")
    with pytest.raises(OSError, match=sentence) as raised:
        fitted["MF gd"].save(saved)
    assert raised.value.errno == number
    assert saved.read_bytes() == before
    assert not leftovers(saved.parent)


def test_a_disk_that_takes_no_more_is_told_in_a_sentence(saved, fitted):
    """A real write that fails half way: files may grow to 4,000 bytes and no further."""
    before, limits = saved.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    try:
        with pytest.raises(OSError, match="cannot be saved: File too large"):
            fitted["exact ball"].save(saved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert saved.read_bytes() == before
    assert not leftovers(saved.parent)


def test_ctrl_c_while_saving_leaves_what_was_there(saved, fitted, monkeypatch):
    before = saved.read_bytes()

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted["MF gd"].save(saved)
    assert saved.read_bytes() == before
    assert not leftovers(saved.parent)


def test_a_folder_is_neither_written_over_nor_read(fitted, tmp_path):
    with pytest.raises(IsADirectoryError, match=re.escape(f"{tmp_path} cannot be saved: it is a folder.")):
        fitted["MF gd"].save(tmp_path)
    with pytest.raises(IsADirectoryError, match=re.escape(f"{tmp_path} cannot be loaded: ")):
        boundrec.load(tmp_path)


def test_a_folder_that_is_not_there_is_named(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot be saved: there is no folder .*nowhere"):
        fitted["MF gd"].save(tmp_path / "nowhere" / "model.safetensors")


def test_a_file_where_the_folder_should_be_is_called_a_file(fitted, tmp_path):
    (tmp_path / "ratings.csv").write_text("")
    with pytest.raises(NotADirectoryError, match=r"cannot be saved: .*ratings\.csv is a file, not a folder\.$"):
        fitted["MF gd"].save(tmp_path / "ratings.csv" / "model.safetensors")


def test_a_file_that_is_not_there_is_named(path):
    with pytest.raises(FileNotFoundError, match=re.escape(f"{path} cannot be loaded: there is no such file.")):
        boundrec.load(path)


def test_saving_over_the_file_of_a_loaded_model_leaves_that_model_alone(fitted, data, path):
    first = through_a_file(fitted["exact ball"], path)
    second = through_a_file(fitted["MF gd"], path)
    assert_same(first.predict(data[0]), fitted["exact ball"].predict(data[0]))
    assert_same(second.predict(data[0]), fitted["MF gd"].predict(data[0]))
    first.save(path)
    assert_same(boundrec.load(path).predict(data[0]), first.predict(data[0]))


def test_a_link_stays_a_link(fitted, path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    fitted["MF gd"].save(link)
    assert link.is_symlink()
    assert type(boundrec.load(path)) is MF


def test_the_usual_permissions_hold(fitted, path):
    mask = os.umask(0o027)
    try:
        fitted["MF gd"].save(path)
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o640


def test_text_and_paths_name_files_alike(fitted, path):
    fitted["MF gd"].save(str(path))
    assert type(boundrec.load(str(path))) is type(boundrec.load(Path(path))) is MF


# --- what cannot be saved -----------------------------------------------------------------------------------


def test_a_model_that_is_not_fitted_is_not_saved(path):
    with pytest.raises(NotFittedError, match="MBMF instance is not fitted yet"):
        MBMF().save(path)
    assert not path.exists()


def test_a_callback_may_save_the_model_as_it_is_after_a_sweep(data, path):
    models = MBMF(2, max_iter=3, random_state=0), BayesianMBMF(2, max_iter=3, random_state=0)
    for model in models:
        predicted = []

        def keep(sweep, objective, model, predicted=predicted):
            model.save(path)
            predicted.append(model.predict(data[0]))
            assert_same(boundrec.load(path).predict(data[0]), predicted[-1])
            assert model.n_iter_ == sweep

        model.fit(*data, callback=keep)
        assert len(predicted) == 3
        assert not np.array_equal(predicted[0], predicted[-1])
        assert_same(predicted[-1], model.predict(data[0]))


def test_a_class_made_from_a_model_is_not_saved(data, path):
    class Mine(MF):
        pass

    with pytest.raises(TypeError, match=r"a Mine cannot be saved: files hold BMCADMM, .*not classes made from them"):
        Mine(2, max_iter=1).fit(*data).save(path)


def test_settings_that_make_no_sense_are_not_saved(data, path):
    model = MF(2, max_iter=1, random_state=0).fit(*data)
    with pytest.raises(ValueError, match="n_factors=0"):
        model.set_params(n_factors=0).save(path)
    with pytest.raises(TypeError, match=r"the setting random_state=.* cannot be saved: give a plain value"):
        model.set_params(n_factors=2, random_state={1}).save(path)
