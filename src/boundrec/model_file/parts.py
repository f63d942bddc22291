"""How each part of a model is stored and restored, by its kind, and what is believed of a part that is read.

Nothing of a file is ever executed: there is no pickle, and classes come from the registry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from boundrec.arrays import Bools, Floats, Reals
from boundrec.data.columns import Names, is_missing, short
from boundrec.data.features import Features
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import LARGEST, Csr, Ends, Ratings, transposed
from boundrec.model_file.tensor_file import TensorFile
from boundrec.models.side_information import NOBODY, FittedLinks
from boundrec.ranges import Frame, Ranges, SideRule
from boundrec.ranges.rules import (
    ByFunction,
    PerItem,
    PerPair,
    PerUser,
    Widened,
    WithRows,
    check_ends,
    is_end,
    rule_like,
)
from boundrec.ranges.scale import Scale
from boundrec.top_n import Seen

OF_A_SCALE = tuple(Scale.__dataclass_fields__)
FLOATS, NUMBERS = ("float64", "float32"), ("float64",)
#: What factors may be where they are cast before they are computed with.
NARROW = (*FLOATS, "float16")
SMALLEST_NUMBER, LARGEST_NUMBER = float(np.finfo(float).smallest_subnormal), float(np.finfo(float).max)
#: What rounding may make of the mean of the largest ratings.
LARGEST_MEAN = 2 * LARGEST
#: Bits of the longest integer: Python by itself reads no text of more than 4300 digits.
LONGEST = 14_000
#: Bytes for each integer id that a table may take in which they are ticked off.
FEW_PLACES = 16
#: What `Features.to_parts` makes of features, and of the encoding of each form: ids, a plain number, or an array.
OF_FEATURES = {"ids": "ids", "data": "float64", "indptr": "int64", "indices": "int32"}
OF_ENCODINGS = {
    "table": {
        "width": "number",
        "mean": "float64",
        "scale": "float64",
        "tells_missing": "bool",
        "n_levels": "int64",
        "text": "uint8",
        "text_starts": "int64",
    },
    "sparse": {"kept": "int64", "width": "number", "scale": "number"},
    "graph": {"neighbours": "ids"},
}


# --- what a file holds --------------------------------------------------------------------------------------


@dataclass
class Contents:
    """A file in the making: arrays and plain values by name. An array with two names is stored once."""

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Take in an array."""
        twin = next((other for other, stored in self.arrays.items() if stored is array), None)
        if twin is None:
            self.arrays[name] = array
        else:
            self.shared[name] = twin

    def take_in(self, prefix: str, other: Contents) -> None:
        """What another file would hold, under a prefix."""
        for name, array in other.arrays.items():
            self.add(prefix + name, array)
        self.values |= {prefix + name: value for name, value in other.values.items()}
        self.shared |= {prefix + name: prefix + twin for name, twin in other.shared.items()}


class Source:
    """A file that was read: hands out each part once it is known to be what it should be."""

    def __init__(self, file: TensorFile, path: str, verify: bool, bounds: Any = None) -> None:
        self.text, self.path, self.verify, self.bounds = file.text, path, verify, bounds
        self.sizes: dict[str, int] = {}
        self._prefix = ""
        self._arrays, self._values, self._shared = file.arrays, self.table("values"), self.table("shared")
        self._left = {*self._arrays, *self._values, *self._shared}

    def table(self, name: str) -> dict[str, Any]:
        """A table of plain values from the file's text."""
        try:
            table = json.loads(self.text.get(name, ""))
        except (ValueError, RecursionError):
            table = None
        if not isinstance(table, dict):
            raise ValueError(f"its {name} are damaged.")
        return table

    def within(self, prefix: str) -> Source:
        """What stands under a prefix, as a file of its own with the same users and items."""
        inner = copy(self)
        inner._prefix, inner.sizes = self._prefix + prefix, {size: self.sizes[size] for size in ("users", "items")}
        return inner

    def holds(self, name: str) -> bool:
        """Whether there is something of this name."""
        name = self._prefix + name
        return name in self._arrays or name in self._shared or name in self._values

    def value(self, name: str) -> Any:
        """A plain value."""
        name = self._prefix + name
        self._left.discard(name)
        with _part(name):
            return decode(self._values[name])

    def array(self, name: str, dtypes: tuple[str, ...], *sizes: str) -> NDArray[Any]:
        """An array of one of some types, with sizes that agree with what was read before."""
        name = self._prefix + name
        self._left.discard(name)
        with _part(name):
            array: NDArray[Any] = self._arrays[self._shared.get(name, name)]
        if array.dtype.name not in dtypes or array.ndim != len(sizes):
            raise ValueError(f"its {name!r} is {array.dtype.name} of shape {array.shape}.")
        for size, length in zip(sizes, array.shape, strict=True):
            if self.sizes.setdefault(size, length) != length:
                raise ValueError(f"its {name!r} has {length} {size}, but there are {self.sizes[size]}.")
        return array

    def refuse_what_is_left(self) -> None:
        """Refuse a file with more in it than was asked for."""
        if self._left:
            raise ValueError(f"it holds {min(self._left)!r}, which this boundrec does not know: install a newer one.")


@contextmanager
def _part(name: str) -> Iterator[None]:
    """Say which part of a file cannot be read."""
    try:
        yield
    except (KeyError, ValueError, TypeError, OverflowError, RecursionError):
        raise ValueError(f"its {name!r} is missing or damaged.") from None


# --- kinds of attributes ------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """How an attribute is stored, ``store(contents, name, value)``, and restored, ``restore(source, name, *sizes)``."""

    store: Callable[..., None]
    restore: Callable[..., Any]


def _store_nothing(contents: Contents, name: str, value: Any) -> None:
    pass


def _restore_size(source: Source, name: str, size: str) -> int:
    return source.sizes[size]


def _store_number(contents: Contents, name: str, value: Any) -> None:
    contents.values[name] = encode(value)


def _restore_any_number(source: Source, name: str) -> Any:
    value = source.value(name)
    if type(value) not in (int, float) or (type(value) is int and abs(value) > LARGEST_NUMBER):
        raise ValueError(f"its {name!r} is no number.")
    return value


def _restore_number(source: Source, name: str, least: float = -LARGEST_NUMBER, most: float = LARGEST_NUMBER) -> Any:
    value = _restore_any_number(source, name)
    if not least <= value <= most:
        raise ValueError(f"its {name!r} is {value}, which it cannot be.")
    return float(value)  # a whole number may be past all of NumPy's


def _restore_count(source: Source, name: str) -> Any:
    value = _restore_any_number(source, name)
    if type(value) is not int or value < 0:
        raise ValueError(f"its {name!r} is {value}, no whole number of at least 0.")
    return value


def _restore_measured(source: Source, name: str) -> Any:
    value = float(_restore_any_number(source, name))
    return value if np.isnan(value) else _restore_number(source, name, 0.0)


def _store_list(contents: Contents, name: str, value: list[float]) -> None:
    contents.arrays[name] = np.array(value, np.float64)


def _restore_list(source: Source, name: str) -> list[float]:
    return list(source.array(name, NUMBERS, f"length of {name}").tolist())


def _restore_course(source: Source, name: str) -> list[float]:
    course = source.array(name, NUMBERS, "sweeps")
    if not course.size or not np.isfinite(course).all():
        raise ValueError(f"its {name!r} is not the course of a fit.")
    return list(course.tolist())


def _store_names(contents: Contents, name: str, value: Names) -> None:
    contents.values[name] = encode(list(value))


def _restore_names(source: Source, name: str) -> Names:
    with _part(name):
        user, item = source.value(name)
    if not (isinstance(user, str) and isinstance(item, str)):
        raise ValueError(f"its {name!r} are no names.")
    return user, item


def _restore_floats(source: Source, name: str, *sizes: str) -> Reals:
    return source.array(name, FLOATS, *sizes)


def _restore_narrow(source: Source, name: str, *sizes: str) -> Reals:
    return source.array(name, NARROW, *sizes)


def _restore_bools(source: Source, name: str, *sizes: str) -> Bools:
    bools = source.array(name, ("bool",), *sizes)
    if bools.view(np.uint8).max(initial=0) > 1:  # NumPy counts on it when it takes rows by a mask
        raise ValueError(f"its {name!r} is neither true nor false.")
    return bools


def _store_ranges(contents: Contents, name: str, ranges: Ranges) -> None:
    for part, value in {**vars(ranges), **vars(ranges.frame)}.items():
        if part in ("slack", "scale") or (part == "led" and not value):  # have names of their own, or say nothing
            continue
        if isinstance(value, np.ndarray):
            contents.add(f"{name}.{part}", value)
        elif value is not None and part != "frame":
            contents.values[f"{name}.{part}"] = encode(int(value) if part == "led" else value)
    if not ranges.scale.is_plain:
        contents.values[f"{name}.scale"] = encode([getattr(ranges.scale, part) for part in OF_A_SCALE])


def _restore_scale(source: Source, name: str) -> Scale:
    if not source.holds(name):
        return Scale()
    with _part(name):
        parts = dict(zip(OF_A_SCALE, source.value(name), strict=True))
        link, width, even = parts.pop("link"), parts.pop("width"), bool(parts.pop("even"))
        numbers = {key: float(one) for key, one in parts.items()}
        return Scale(link, None if width is None else float(width), even=even, **numbers)


def _restore_ranges(source: Source, name: str) -> Ranges:
    def numbers(of: type[Frame] | type[Ranges]) -> dict[str, Any]:
        """What a file has of the numbers in a frame or in ranges; the others keep their defaults."""
        elsewhere = ("frame", "user", "item", "slack", "scale")
        parts = [part for part in of.__dataclass_fields__ if part not in elsewhere]
        stored = {part: f"{name}.{part}" for part in parts if source.holds(f"{name}.{part}")}
        values = {part: _restore_any_number(source, place) for part, place in stored.items()}
        kinds = {"tilt": lambda value: value, "led": bool}
        return {part: kinds.get(part, float)(value) for part, value in values.items()}

    user, item = source.array(f"{name}.user", NUMBERS, "users"), source.array(f"{name}.item", NUMBERS, "items")
    scale = _restore_scale(source, f"{name}.scale")
    with _part(name):
        return Ranges(Frame(**numbers(Frame)), user, item, scale=scale, **numbers(Ranges))


def _store_rule(contents: Contents, name: str, rule: Any) -> None:
    """What kind of rule it is, and its table; a function is given again when the file is loaded."""
    contents.values[name] = encode(_kind_of_rule(rule))
    if isinstance(rule, Widened):
        _store_rule(contents, f"{name}.but", rule.pairs)
        _store_rule(contents, f"{name}.of", rule.rule)
    elif isinstance(rule, PerItem):
        _store_ids(contents, f"{name}.ids", rule.index)
    elif isinstance(rule, PerPair):
        _store_ids(contents, f"{name}.users", rule.users)
        _store_ids(contents, f"{name}.items", rule.items)
        contents.add(f"{name}.keys", rule.keys)
    if isinstance(rule, PerItem | PerPair):
        for end, values in zip(Ends._fields, rule.range, strict=True):
            contents.add(f"{name}.{end}", values)


def _kind_of_rule(rule: Any) -> list[Any]:
    """The rule's name, and what of it is no array."""
    if isinstance(rule, WithRows):
        return ["WithRows", *(rule.columns or ())]
    return [type(rule).__name__, *((rule.default or ()) if isinstance(rule, PerPair) else ())]


def _restore_rule(source: Source, name: str) -> Any:
    with _part(name):
        kind, *more = source.value(name)
    if kind == "ByFunction":
        if not callable(source.bounds):
            raise ValueError(
                "its ranges come from a function, which files do not hold: in Python, pass that to load as its bounds."
            )
        return ByFunction(source.bounds)
    if kind == "WithRows" and len(more) in (0, 2) and all(isinstance(one, str) or is_end(one) for one in more):
        return WithRows((more[0], more[1]) if more else None)
    if kind == "Widened":
        return Widened(_restore_rule(source, f"{name}.of"), _restore_rule(source, f"{name}.but"))
    size = f"{name} ranges"
    if kind in ("PerItem", "PerUser"):
        index = _restore_ids(source, f"{name}.ids", size)
        of_side = PerItem if kind == "PerItem" else PerUser
        return of_side.of(index, _restore_ends(source, name, size))
    if kind == "PerPair":
        users = _restore_ids(source, f"{name}.users", f"{name} users")
        items = _restore_ids(source, f"{name}.items", f"{name} items")
        keys = source.array(f"{name}.keys", ("int64",), size)
        if not keys.size or keys[0] < 0 or keys[-1] >= len(users) * len(items) or (keys[1:] <= keys[:-1]).any():
            raise ValueError("its table of ranges is damaged.")
        with _part(name):
            return PerPair.of(users, items, keys, _restore_ends(source, name, size), tuple(more) or None)
    raise ValueError(f"it has a rule for ranges, {short(kind)}, that this boundrec does not know.")


def _restore_ends(source: Source, name: str, size: str) -> Ends:
    ends = Ends(*(source.array(f"{name}.{end}", NUMBERS, size) for end in Ends._fields))
    try:
        check_ends(ends, [], [])
    except ValueError as error:
        raise ValueError(f"of its table, {error}") from None
    return ends


def _store_links(contents: Contents, name: str, links: FittedLinks) -> None:
    """How many may be in a set, under the name itself; who they are, the matrices, and the features part by part."""
    contents.values[name] = int(links.in_sets.size)
    contents.add(f"{name}.matrices", links.matrices)
    contents.add(f"{name}.typical", links.typical)
    if links.alone is not None and links.precisions is not None:
        contents.add(f"{name}.in_sets", links.in_sets)
        contents.add(f"{name}.alone", links.alone)
        contents.add(f"{name}.precisions", links.precisions)
    for part, value in {} if links.features is None else links.features.to_parts().items():
        place = f"{name}.features.{part}"
        if isinstance(value, IdIndex):
            _store_ids(contents, place, value)
        elif isinstance(value, np.ndarray):
            contents.add(place, value)
        else:
            contents.values[place] = encode(value)


def _restore_links(source: Source, name: str, kept: str, free: str) -> FittedLinks:
    n_in_sets = _restore_count(source, name)
    matrices = source.array(f"{name}.matrices", FLOATS, kept, f"{name} features", free)
    typical = source.array(f"{name}.typical", NUMBERS, kept, f"{name} groups", free)
    features, place = None, f"{name}.features"
    if source.holds(f"{place}.indptr"):
        features = _restore_features(source, place)
    if not n_in_sets:
        return FittedLinks(matrices, typical, features, NOBODY)
    in_sets = source.array(f"{name}.in_sets", ("int64",), f"{name} in sets")
    if in_sets.size != n_in_sets:
        raise ValueError(f"its '{name}.in_sets' is missing or damaged.")
    alone = source.array(f"{name}.alone", FLOATS, kept, f"{name} features alone", free)
    precisions = source.array(f"{name}.precisions", NUMBERS, kept, free, free)
    return FittedLinks(matrices, typical, features, in_sets, alone, precisions)


def _restore_features(source: Source, name: str) -> Features:
    form = source.value(f"{name}.encoding.form")
    with _part(f"{name}.encoding.form"):
        kinds = {**OF_FEATURES, **{f"encoding.{part}": kind for part, kind in OF_ENCODINGS[form].items()}}
    parts: dict[str, Any] = {"encoding.form": form}
    for part, kind in kinds.items():
        place = f"{name}.{part}"
        if kind == "ids":
            parts[part] = _restore_ids(source, place, f"ids of {place}")
        elif kind == "number":
            parts[part] = _restore_any_number(source, place)
        else:
            parts[part] = source.array(place, (kind,), f"length of {place}")
    with _part(name):
        return Features.from_parts(parts)


def _store_seen(contents: Contents, name: str, seen: Seen) -> None:
    contents.add(f"{name}.indptr", seen.indptr)
    contents.add(f"{name}.indices", seen.indices)


def _restore_seen(source: Source, name: str) -> Seen:
    indptr = source.array(f"{name}.indptr", ("int64",), f"{name}.starts")
    indices = source.array(f"{name}.indices", ("int32",), f"{name}.entries")
    _check_rows(indptr, indices, source, source.verify)
    return Seen(indptr, indices)


def _check_rows(indptr: NDArray[np.int64], indices: NDArray[np.int32], source: Source, thorough: bool) -> None:
    """Rows of entries that exist, one for each user, and in each of them columns that exist, in their order.

    Kernels and SciPy do not look: they would read somebody else's memory.
    """
    _check_starts(indptr, source.sizes["users"], indices.size, "the items that users have seen")
    if not thorough or not indices.size:
        return
    if indices.min() < 0 or indices.max() >= source.sizes["items"]:
        raise ValueError("users have seen items that it does not hold.")
    ascending = indices[1:] > indices[:-1]
    begins = indptr[(indptr > 0) & (indptr < indices.size)]
    ascending[begins - 1] = True
    if not ascending.all():
        raise ValueError("the items that users have seen are not in their order.")


def _check_starts(starts: NDArray[np.int64], n: int, total: int, what: str) -> None:
    """``starts`` cuts ``total`` entries into ``n`` parts; neighbours are compared, for a difference may wrap around."""
    if (
        not starts.size
        or starts.size != n + 1
        or starts[0] != 0
        or starts[-1] != total
        or (starts[1:] < starts[:-1]).any()
    ):
        raise ValueError(f"{what} are damaged.")


def store_ratings(contents: Contents, ratings: Ratings | None) -> None:
    """Take in the training ratings."""
    if ratings is None:
        raise ValueError(
            "keep_ratings=True, but this model has no ratings: it comes from a file that was saved without them."
        )
    for part in Csr._fields:
        contents.add(f"ratings.{part}", getattr(ratings.by_user, part))
    for end, values in () if ratings.ends is None else zip(Ends._fields, ratings.ends, strict=True):
        contents.add(f"ratings.{end}", values)


def restore_ratings(source: Source, state: dict[str, Any]) -> Ratings | None:
    """The ratings, if the file has them; the order by items is made anew."""
    if not source.holds("ratings.data"):
        return None
    indptr = source.array("ratings.indptr", ("int64",), "ratings.starts")
    indices = source.array("ratings.indices", ("int32",), "ratings")
    data = source.array("ratings.data", FLOATS, "ratings")
    weights = source.array("ratings.weights", FLOATS, "weights")
    _check_rows(indptr, indices, source, thorough=True)
    if not data.size:
        raise ValueError("its ratings are none at all.")
    if weights.size not in (0, data.size):
        raise ValueError(f"it has {data.size} ratings but {weights.size} weights.")
    if data.size and not float(np.abs(data).max()) <= LARGEST:
        raise ValueError("its ratings are not finite, or too large to be squared.")
    if weights.size and not (weights.min() >= 0 and float(weights.max()) <= LARGEST and weights.any()):
        raise ValueError("its weights are not finite, or too large to be multiplied, or negative, or all 0.")
    by_user, ends = Csr(indptr, indices, data, weights), None
    if state.get("rule") is not None:
        ends = _restore_ends(source, "ratings", "ratings")
    by_item = transposed(by_user, source.sizes["items"])
    return Ratings(by_user, by_item, state["user_ids"], state["item_ids"], ends=ends)


# --- ids ----------------------------------------------------------------------------------------------------


def _store_ids(contents: Contents, name: str, index: IdIndex) -> None:
    if index.ids.dtype == np.int64:
        contents.add(name, index.ids)
        return
    plain = set(map(type, index.ids)) == {str}
    texts = index.ids if plain else [_id_text(one, name) for one in index.ids]
    pieces = [text.encode("utf-8", "surrogatepass") for text in texts]
    starts = np.concatenate(([0], np.cumsum([len(piece) for piece in pieces], dtype=np.int64)))
    contents.add(f"{name}.text" if plain else f"{name}.json", np.frombuffer(b"".join(pieces), np.uint8))
    contents.add(f"{name}.starts", starts)


def _id_text(one: Any, name: str) -> str:
    try:
        return json.dumps(encode(one))
    except (TypeError, ValueError, RecursionError):
        raise TypeError(
            f"the {name.removesuffix('_ids')} id {short(one)} is a {type(one).__name__}: files hold ids that are text, "
            "numbers, bytes, or tuples of these; name it by its str()."
        ) from None


def _restore_ids(source: Source, name: str, size: str) -> IdIndex:
    if source.holds(name):
        index = IdIndex(source.array(name, ("int64",), size))
        if source.verify and not _are_distinct(index.ids):
            raise ValueError(f"its {name!r} name somebody twice.")
    else:
        plain = source.holds(f"{name}.text")
        text = source.array(f"{name}.text" if plain else f"{name}.json", ("uint8",), f"length of {name}")
        starts = source.array(f"{name}.starts", ("int64",), f"{name} starts")
        _check_starts(starts, starts.size - 1, text.size, f"its {name!r}")
        index = TextIds(text, starts, plain, source.path)
    if not len(index):
        raise ValueError(f"it holds no {size}.")
    source.sizes[size] = len(index)
    return index


def _are_distinct(integers: NDArray[np.int64]) -> bool:
    """Whether no integer comes twice; those that lie close together are ticked off, which spares sorting them."""
    if not integers.size:
        return True
    low, high = int(integers.min()), int(integers.max())
    if high - low < FEW_PLACES * integers.size:
        there = np.zeros(high - low + 1, bool)
        there[integers - low] = True
        return bool(np.count_nonzero(there) == integers.size)
    ascending = np.sort(integers)
    return bool((ascending[1:] > ascending[:-1]).all())


KINDS = {
    "ids": Kind(_store_ids, _restore_ids),
    "size": Kind(_store_nothing, _restore_size),
    "number": Kind(_store_number, partial(_restore_number, least=-LARGEST_MEAN, most=LARGEST_MEAN)),
    "positive": Kind(_store_number, partial(_restore_number, least=SMALLEST_NUMBER)),
    "amount": Kind(_store_number, partial(_restore_number, least=0.0)),
    "share": Kind(_store_number, partial(_restore_number, least=0.0, most=1.0)),
    "count": Kind(_store_number, _restore_count),
    "measured": Kind(_store_number, _restore_measured),
    "numbers": Kind(_store_list, _restore_list),
    "course": Kind(_store_list, _restore_course),
    "names": Kind(_store_names, _restore_names),
    "floats": Kind(Contents.add, _restore_floats),
    "narrow": Kind(Contents.add, _restore_narrow),
    "bools": Kind(Contents.add, _restore_bools),
    "ranges": Kind(_store_ranges, _restore_ranges),
    "rule": Kind(_store_rule, _restore_rule),
    "seen": Kind(_store_seen, _restore_seen),
    "links": Kind(_store_links, _restore_links),
}


# --- settings -----------------------------------------------------------------------------------------------


class LearnedMagnitudes(Mapping[Any, float]):
    """The magnitudes of a model's users or items, id -> magnitude: a setting as a loaded model has it."""

    def __init__(self, index: IdIndex, magnitudes: Floats) -> None:
        self._index, self._magnitudes = index, magnitudes

    @cached_property
    def _by_id(self) -> dict[Any, float]:
        return dict(zip(self._index.ids.tolist(), self._magnitudes.tolist(), strict=True))

    def __getitem__(self, one: Any) -> float:
        return self._by_id[one]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        return f"LearnedMagnitudes({len(self)} ids)"


def stored_setting(name: str, value: Any) -> Any:
    """A setting in JSON's terms."""
    if name == "magnitudes" and not isinstance(value, str):
        kinds = [
            side if isinstance(side, str) else "mapping" if isinstance(side, Mapping) else "array" for side in value
        ]
        return {"learned": kinds}
    if name == "bounds" and rule_like(value):
        return {"rule": True}
    if name == "dtype" and not isinstance(value, str):
        return {"dtype": np.dtype(value).name}
    if name == "random_state" and isinstance(value, np.random.Generator | np.random.RandomState):
        return None  # where a generator stands after the fit is no setting of the fit
    try:
        return encode(value)
    except (TypeError, RecursionError):
        raise TypeError(f"the setting {name}={short(value)} cannot be saved: give a plain value.") from None


def restore_settings(source: Source, model_class: Any, state: dict[str, Any]) -> dict[str, Any]:
    """The settings of a model, as keywords."""
    stored, known = source.table("settings"), model_class._get_param_names()
    unknown = sorted(stored.keys() - set(known))
    if unknown:
        raise ValueError(f"it has a setting {unknown[0]!r}, which this boundrec does not know: install a newer one.")
    settings = {}
    for name, value in stored.items():
        with _part(name):
            settings[name] = _restore_magnitudes(value, state) if name == "magnitudes" else _restore_setting(value)
    if stored.get("bounds") == {"rule": True}:
        rule = state.get("rule")
        settings["bounds"] = rule.rule if isinstance(rule, Widened) else rule
    return settings


def _restore_setting(stored: Any) -> Any:
    if stored == {"rule": True}:
        return None  # which is a part of its own
    if isinstance(stored, dict) and "dtype" in stored:
        return {"float16": np.float16, "float32": np.float32, "float64": np.float64}[stored["dtype"]]
    return decode(stored)


def _restore_magnitudes(stored: Any, state: dict[str, Any]) -> Any:
    """A word, or those that were learned where some were given."""
    if isinstance(stored, str):
        return stored
    user, item = stored["learned"]
    ranges: Ranges = state["ranges"]
    sides = (user, state["user_ids"], ranges.user), (item, state["item_ids"], ranges.item)
    return tuple(_restore_side(*side) for side in sides)


def _restore_side(kind: str, ids: IdIndex, values: Floats) -> Any:
    if kind in get_args(SideRule):
        return kind
    return LearnedMagnitudes(ids, values) if kind == "mapping" else values


# --- plain values in JSON's terms, and ids that are stored as text --------------------------------------------


def encode(value: Any) -> Any:
    """A plain value in JSON's terms; what JSON has no word for is a table with one entry, its kind."""
    kind = type(value)
    if isinstance(value, np.number | np.bool_ | np.str_ | np.bytes_) and not isinstance(value, np.timedelta64):
        return encode(value.item())
    if value is None or kind is bool or (kind is float and np.isfinite(value)):
        return value
    if kind is int and value.bit_length() <= LONGEST:
        return value
    if kind is float:
        return {"float": repr(value)}
    if kind is str:  # JSON would join two halves of a surrogate pair
        return value if _is_unicode(value) else {"text": value.encode("utf-8", "surrogatepass").hex()}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is list or kind is np.ndarray:
        return [encode(one) for one in value]
    if kind is tuple:
        return {"tuple": [encode(one) for one in value]}
    raise TypeError(f"{short(value)} is a {kind.__name__}, which files do not hold.")


def decode(stored: Any) -> Any:
    """The plain value behind what `encode` made of it."""
    if isinstance(stored, list):
        return [decode(one) for one in stored]
    if not isinstance(stored, dict):
        return stored
    ((kind, content),) = stored.items()
    if kind == "float":
        return float(content)
    if kind == "text":
        return bytes.fromhex(content).decode("utf-8", "surrogatepass")
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "tuple":
        return tuple(decode(content))
    raise ValueError(f"there is no kind {kind!r}.")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class TextIds(IdIndex):
    """Ids that a file holds as text; they are read when somebody first asks for one."""

    def __init__(self, text: NDArray[np.uint8], starts: NDArray[np.int64], plain: bool, source: str) -> None:
        self._text, self._starts, self._plain, self._source = text, starts, plain, source

    @cached_property
    def ids(self) -> NDArray[Any]:  # type: ignore[override]
        """The ids, row by row."""
        content, starts = self._text.tobytes(), self._starts.tolist()
        pieces = (content[first:end] for first, end in pairwise(starts))
        try:
            texts = (str(piece, "utf-8", "surrogatepass") for piece in pieces)
            values = texts if self._plain else map(_read_id, texts)
            ids = np.fromiter(values, object, len(self))
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise ValueError(f"{self._source} is damaged: an id cannot be read.") from None
        if len(set(ids.tolist())) < len(self):
            raise ValueError(f"{self._source} is damaged: an id comes twice.")
        return ids

    def __len__(self) -> int:
        return self._starts.size - 1


def _read_id(text: str) -> Any:
    one = decode(json.loads(text))
    hash(one)  # a list is no id
    if is_missing(one):
        raise ValueError("this is nobody")
    return one
