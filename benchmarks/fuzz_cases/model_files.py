"""Model files that nobody saved: altered under the old checksum, and crafted under one that fits."""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import boundrec
from benchmarks.fuzz_cases.answers import check_lists, check_neighbours, check_predictions, check_vectors
from benchmarks.fuzz_cases.oracles import REFUSED, BrokenRuleError, Witness
from benchmarks.fuzz_cases.values import Rng, chance, pick
from boundrec.model_file import tensor_file
from boundrec.models.new_ratings import TakesNewRatings

#: Numbers that arrays and values of a file are replaced by.
HOSTILE_NUMBERS = [
    0, -1, 1, 2, 7, 7.5, 1000.0, -1e-3, 1e-320, 1e39, 1e200, 1e308, np.nan, np.inf, -np.inf, 2**31, 2**31 - 1, -(2**31),
    2**62, 2**63 - 1, -(2**63),
]  # fmt: skip
HOSTILE_VALUES: list[Any] = [
    *HOSTILE_NUMBERS[:11],
    10**400,
    None,
    True,
    "a",
    "",
    [],
    {},
    [1],
    {"float": "nan"},
    {"float": "inf"},
]
HOSTILE_VALUES += [{"float": "a"}, {"tuple": [1, 2]}, {"tuple": 5}, {"bytes": "zz"}, {"learned": ["mapping", "array"]}]
HOSTILE_VALUES += [
    {"learned": 1},
    {"dtype": "float32"},
    {"dtype": []},
    {"text": "ed"},
    {"a": 1, "b": 2},
    {"tuple": [5, 1]},
]
DTYPES = list(tensor_file.DTYPES.values())


@cache
def originals() -> list[bytes]:
    """Files of all models, with their ratings and without, with ids of every kind that files hold."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((5, 6)) < 0.7)
    ratings = rng.integers(1, 6, len(users)).astype(float)
    naming = [lambda k: int(k), lambda k: f"n{k}", lambda k: (int(k), "a"), lambda k: float(k) + 0.5]
    small: dict[str, Any] = {"max_iter": 3, "random_state": 0, "n_jobs": 1}
    given = dict.fromkeys(range(5), 2.0), dict.fromkeys(range(6), 1.5)
    models = [
        boundrec.MBMF(2, bounds=(1, 5), **small),
        boundrec.MBMF(2, bounds=(0, None), slack=1.0, biases=False, **small),
        boundrec.MBMF(2, bounds=(None, 5), n_restarts=2, **small),
        boundrec.MBMF.as_in_paper(2, form="n", bounds=(1, 5), **small),
        boundrec.MBMF(
            2,
            bounds=(-9, 9),
            magnitudes=given,
            on_contradiction="drop",
            **small,
        ),
        boundrec.BayesianMBMF(2, bounds=(1, 5), n_kept=2, **small),
        boundrec.BayesianMBMF(2, bounds=(0, None), dtype="float64", n_kept=1, **small),
        boundrec.MF(2, bounds=(1, 5), clip=True, biases=True, **small),
        boundrec.NMF(2, bounds=(1, 5), **small),
        boundrec.BMF(2, bounds=(1, 5), clip=True, **small),
        boundrec.BMCADMM(2, bounds=(1, 5), **small),
        boundrec.BoundedSVD(2, bounds=(1, 5), **small),
        boundrec.CCDPlusPlus(2, bounds=(1, 5), clip=True, **small),
    ]
    return [_file_of(model, users, items, ratings, naming[k % 4], k) for k, model in enumerate(models)]


def _file_of(model: Any, users: Any, items: Any, ratings: Any, name: Any, number: int) -> bytes:
    if number == 4:
        name = int  # its magnitudes are given by number
    with warnings.catch_warnings(), TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        weights = None if number % 3 else np.linspace(0.5, 2, len(ratings))
        pairs = [(name(u), name(i)) for u, i in zip(users, items, strict=True)]
        path = Path(folder) / "model.safetensors"
        model.fit(pairs, ratings, sample_weight=weights).save(path, keep_ratings=number % 2 == 0)
        return path.read_bytes()


# --- altered ------------------------------------------------------------------------------------------------


def altered(rng: Rng, folder: Path, witness: Witness) -> None:
    """A file with bytes changed at random under its old checksum is refused."""
    original = pick(rng, originals())
    content = original
    while content == original:
        content = _altered(rng, original)
    path = folder / "altered.safetensors"
    path.write_bytes(content)
    if witness.call("load", boundrec.load, path) is not REFUSED:
        raise BrokenRuleError("an altered file is loaded")


def _altered(rng: Rng, original: bytes) -> bytes:
    content = bytearray(original)
    start = tensor_file.PREFIX + int.from_bytes(original[: tensor_file.PREFIX], "little")
    for _ in range(int(rng.integers(1, 4))):
        end = start if chance(rng, 0.5) else len(content)  # the header is where the reader has most to go wrong
        place = int(rng.integers(max(1, min(end, len(content)))))
        length = int(rng.integers(1, 70))
        how = int(rng.integers(6))
        if how == 0 and content:
            content[place % len(content)] ^= 1 << int(rng.integers(8))
        elif how == 1:
            content[place : place + length] = rng.bytes(length)
        elif how == 2:
            del content[place : place + length]
        elif how == 3:
            content[place:place] = pick(rng, [rng.bytes(length), b"\0" * length, b" " * 64, b'"', b"{", b"9"])
        elif how == 4:
            del content[place:]
        else:
            other = int(rng.integers(max(1, len(content))))
            one, two = bytes(content[place : place + 8]), bytes(content[other : other + 8])
            content[place : place + 8], content[other : other + 8] = two, one
    return bytes(content)


# --- crafted ------------------------------------------------------------------------------------------------


def crafted(rng: Rng, folder: Path, witness: Witness) -> None:
    """A file with hostile content and a checksum that fits is refused, or the model obeys like any other."""
    path = folder / "crafted.safetensors"
    path.write_bytes(pick(rng, originals()))
    source = tensor_file.read(str(path))
    arrays = {name: np.array(array) for name, array in source.arrays.items()}
    text = {name: value for name, value in source.text.items() if name != "checksum"}
    told = [_craft(rng, arrays, text) for _ in range(int(rng.integers(1, 3)))]
    path = folder / "hostile.safetensors"
    tensor_file.write(str(path), arrays, text)
    if chance(rng, 0.15):
        told.append(_craft_header(rng, path))
    try:
        _use(rng, path, witness)
    except BrokenRuleError as failure:
        raise BrokenRuleError(f"{' and '.join(told)}: {failure}") from failure


def _use(rng: Rng, path: Path, witness: Witness) -> None:
    """Load a file and ask the model for everything."""
    model = witness.call("load", boundrec.load, path)
    if model is REFUSED or witness.call("ids", lambda: (model.user_ids_.ids, model.item_ids_.ids)) is REFUSED:
        return  # ids are read when they are first asked for
    for check in (check_predictions, check_lists, check_predictions, check_lists, check_neighbours, check_vectors):
        check(witness, model, rng)
    if isinstance(model, TakesNewRatings):
        for axis in ("users", "items"):
            new, known = ["new", "newer"], (model.item_ids_ if axis == "users" else model.user_ids_).ids.tolist()[:3]
            pairs = [(one, other) if axis == "users" else (other, one) for one in new for other in known]
            view = witness.call("fold_in", model.fold_in, pairs, np.full(len(pairs), 3.0), axis)
            if view is not REFUSED:
                check_predictions(witness, view, rng)
                check_lists(witness, view, rng)
        if witness.call("partial_fit", model.partial_fit, pairs, np.full(len(pairs), 3.0)) is not REFUSED:
            check_predictions(witness, model, rng)
    witness.call("save", model.save, path.with_name("again.safetensors"))


def _craft(rng: Rng, arrays: dict[str, Any], text: dict[str, str]) -> str:
    """Change one thing of a file; says which."""
    if chance(rng, 0.6):
        return _craft_array(rng, arrays)
    table = pick(rng, ["values", "values", "settings", "settings", "shared", "model"])
    if table == "model":
        text["model"] = pick(rng, [*boundrec.__all__, "os.system", ""])
        return f"model {text['model']!r}"
    entries = json.loads(text[table])
    name = pick(rng, [*entries, "surplus"])
    if chance(rng, 0.1):
        entries.pop(name, None)
        told = f"{table} without {name}"
    else:
        entries[name] = pick(rng, [*arrays]) if table == "shared" else pick(rng, HOSTILE_VALUES)
        if isinstance(entries[name], float) and chance(rng, 0.5):
            entries[name] = {"float": repr(entries[name])}
        told = f"{table} with {name}={entries[name]!r:.60}"
    text[table] = json.dumps(entries)
    return told


def _craft_array(rng: Rng, arrays: dict[str, Any]) -> str:
    indices = [name for name, array in arrays.items() if array.dtype.kind == "i"]
    name = pick(rng, indices if indices and chance(rng, 0.3) else list(arrays))
    array = arrays[name]
    how = pick(rng, ["value", "value", "value", "value", "fill", "shape", "dtype", "swap", "drop", "reverse", "wrap"])
    told = f"{how} of {name}"
    if how in ("value", "fill") and array.size:
        number = pick(rng, HOSTILE_NUMBERS)
        with np.errstate(all="ignore"):
            # As stored bytes would have it: a number too large for the type wraps around.
            hostile = np.array(number).astype(array.dtype) if array.dtype.kind == "f" else _wrapped(number, array.dtype)
        if how == "fill":
            array[...] = hostile
        else:
            array.flat[int(rng.integers(array.size))] = hostile
        told += f" with {number}"
    elif how == "shape":
        arrays[name] = pick(
            rng, [array[:-1], array[:0], np.concatenate([array, array]), array[None], array.reshape(-1), array.T]
        )
    elif how == "dtype":
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(pick(rng, DTYPES))
    elif how == "swap":
        other = pick(rng, list(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
        told += f" and {other}"
    elif how == "drop":
        del arrays[name]
    elif how == "wrap" and array.ndim == 1 and array.size > 2:
        place = int(rng.integers(array.size - 1))
        # Their difference wraps around to a small positive number.
        array[place : place + 2] = [_wrapped(number, array.dtype) for number in (2**63 - 1, -2)]
    elif how == "reverse":
        arrays[name] = array[::-1].copy()
    return told


def _wrapped(number: float, dtype: Any) -> Any:
    whole = int(number) if np.isfinite(number) else 0
    return np.frombuffer((whole % 2**64).to_bytes(8, "little"), np.uint8)[: dtype.itemsize].view(dtype)[0]


def _craft_header(rng: Rng, path: Path) -> str:
    """Change the layout of an array in the header, and seal the file anew."""
    content = path.read_bytes()
    start = tensor_file.PREFIX + int.from_bytes(content[: tensor_file.PREFIX], "little")
    header = json.loads(content[tensor_file.PREFIX : start])
    name = pick(rng, [one for one in header if one != "__metadata__"])
    part = pick(rng, ["dtype", "shape", "data_offsets"])
    header[name][part] = pick(
        rng, ["F64", "X9", [0], [-1], [2**62, 4], [2**64], [0, 0], [0, 2**63], [1.5], None, [], {}, [[1]]]
    )
    path.write_bytes(_sealed(header, content[start:]))
    return f"header with {part} of {name}={header[name][part]}"


def _sealed(header: dict[str, Any], data: bytes) -> bytes:
    """A file of this header and data with a checksum that fits."""
    header["__metadata__"]["checksum"] = tensor_file.BLANK
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(tensor_file.PREFIX + len(text)) % tensor_file.ALIGNMENT)
    content = len(text).to_bytes(tensor_file.PREFIX, "little") + text + data
    place = content.index(tensor_file.SEAL.encode()) + len(tensor_file.SEAL)
    seal = tensor_file.checksum(content, tensor_file.PREFIX + len(text), place)
    return content[:place] + seal.encode() + content[place + len(seal) :]
