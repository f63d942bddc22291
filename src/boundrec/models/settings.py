"""Settings: each declared once, with its default, its rule and its meaning; models inherit the groups that they have.

    patience: int = setting(default=10, rule=count(), meaning="How many small decreases in a row are rest.")

A class that inherits from `Settings` takes its settings as keywords, as scikit-learn has it (``get_params``,
``clone``), checks them all by `check_settings`, and lists them in its documentation. ``class Model(Group,
defaults={...})`` is for a model that starts from other defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from inspect import get_annotations
from textwrap import indent, wrap
from typing import Any, Literal, TypeGuard, dataclass_transform, get_args

import numpy as np
from numpy.typing import NDArray

from boundrec.data.columns import short
from boundrec.data.ids import INT64_MAX
from boundrec.data.ratings import INT32_MAX, LARGEST, Duplicates, is_too_large
from boundrec.models.fit import TolMode
from boundrec.models.fitted import learned
from boundrec.ranges import Contradiction, Form, MagnitudeRule, Magnitudes, SideRule, check_bounds
from boundrec.ranges.rules import rule_like
from boundrec.ranges.scale import Link
from boundrec.ranges.slack import STEEPEST
from boundrec.solvers.threads import thread_count

#: Words are declared once, for type checkers; a list of them to check against is made by `get_args`.
Auto = Literal["auto"]
Unknown = Literal["mean", "nan", "raise"]
Precision = Literal["float64", "float32", "float16"]
Float = np.float64 | np.float32 | np.float16
FloatType = Precision | type[Float] | np.dtype[Float]
FLOAT_TYPES = (*get_args(Precision), np.float64, np.float32, np.float16)
#: ``(lo, hi)`` with either of them None, or None.
BoundsSetting = Sequence[float | None] | NDArray[Any] | None
Seed = int | Sequence[int] | np.integer | np.random.Generator | np.random.RandomState | np.random.SeedSequence | None

#: Refuses a value of the setting of that name with a sentence, or does nothing.
Rule = Callable[[str, Any], None]


# --- rules --------------------------------------------------------------------------------------------------


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a setting is a real number: no bool, no integer past a float, no timedelta, an integer to NumPy."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return isinstance(value, (float, np.integer, np.floating)) and not isinstance(value, np.timedelta64)


def is_whole(value: Any) -> bool:
    """Whether a setting is an integer (True and False are not)."""
    return is_number(value) and isinstance(value, (int, np.integer))


def is_auto(value: Any) -> bool:
    """Whether a setting is the word "auto"; data frames and the like refuse to be compared with it."""
    return isinstance(value, str) and value == "auto"


def check_count(name: str, value: Any, least: int, otherwise: str = "", most: int = INT32_MAX) -> None:
    """Refuse what is not a number of things; ``otherwise`` says what else the setting may be."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{name}={short(value)}: give a whole number of at least {least}{otherwise}.")
    if value > most:
        raise ValueError(f"{name}={short(value)}: give a whole number of at most {most}{otherwise}.")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, (int, np.integer, np.bool_)):
        raise ValueError(f"{name}={short(value)}: give True or False.")


def check_word(name: str, value: Any, words: Sequence[str]) -> None:
    """Refuse what is none of a few words."""
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{name}={short(value)}: give one of {', '.join(map(repr, words))}.")


def count(least: int = 1, or_none: bool = False, most: int = INT32_MAX) -> Rule:
    """A number of things, or None."""

    def check(name: str, value: Any) -> None:
        if not (or_none and value is None):
            check_count(name, value, least, ", or None" if or_none else "", most)

    return check


def number(remedy: str, holds: Callable[[float], bool], *, or_auto: bool = False, or_none: bool = False) -> Rule:
    """A real number of which something holds; None or "auto" where that is said."""

    def check(name: str, value: Any) -> None:
        if (or_auto and is_auto(value)) or (or_none and value is None):
            return
        if not is_number(value) or not holds(value):
            raise ValueError(f"{name}={short(value)}: give {remedy}.")

    return check


def one_of(words: Any) -> Rule:
    """One of the words of a `Literal`."""
    return lambda name, value: check_word(name, value, get_args(words))


def _check_float_type(name: str, value: Any) -> None:
    if not isinstance(value, (str, type, np.dtype)) or value not in FLOAT_TYPES:
        raise ValueError(f"{name}={short(value)}: give float32 or float64, or float16 to BayesianMBMF.")


def _check_bounds(name: str, value: Any) -> None:
    if not rule_like(value):
        check_bounds(value)


def _check_threads(name: str, value: Any) -> None:
    thread_count(value)


def check_flag_or_auto(name: str, value: Any) -> None:
    """Refuse what is neither a flag nor the word "auto"."""
    if not isinstance(value, (str, int, np.bool_)) or value not in (True, False, "auto"):
        raise ValueError(f'{name}={short(value)}: give True, False or "auto".')


def _check_magnitudes(name: str, value: Any) -> None:
    words, side_words = get_args(MagnitudeRule), get_args(SideRule)
    if isinstance(value, str) and value not in words:
        raise ValueError(f"{name}={short(value)}: give one of {words}, or a pair of mappings.")
    if isinstance(value, str):
        return
    if not hasattr(value, "__len__") or len(value) != 2 or isinstance(value, Mapping):
        raise ValueError(
            f"{name}={short(value)}: give one of {words}, or a pair (users, items) of mappings id -> magnitude, each "
            f"of which may also be one of {side_words}."
        )
    for kind, side in zip(("users", "items"), value, strict=True):
        if isinstance(side, str) and side not in side_words:
            raise ValueError(
                f"{name}={short(value)}: {kind} have {side!r}; give them a mapping id -> magnitude, or one of "
                f"{side_words}."
            )


def not_negative(otherwise: str = "", **also: bool) -> Rule:
    """A finite number of at least 0."""
    return number(f"a number of at least 0{otherwise}", lambda value: 0 <= value < np.inf, **also)


def positive(otherwise: str = "", **also: bool) -> Rule:
    """A finite number above 0."""
    return number(f"a positive number{otherwise}", lambda value: 0 < value < np.inf, **also)


# --- declarations -------------------------------------------------------------------------------------------


def setting(*, default: Any, rule: Rule, meaning: str, kw_only: bool = True) -> Any:
    """A setting of a model: what it is by default, what it may be, and what it means."""
    return field(default=default, kw_only=kw_only, metadata={"rule": rule, "meaning": meaning})


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(setting,))
class Settings:
    """Base of everything that has settings."""

    def __init_subclass__(cls, defaults: dict[str, Any] | None = None, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        inherited = {one.name: one for base in reversed(cls.__mro__[1:]) if is_dataclass(base) for one in fields(base)}
        for name, value in (defaults or {}).items():
            one = inherited[name]
            setattr(cls, name, field(default=value, kw_only=one.kw_only, metadata=one.metadata))
            cls.__annotations__ = {**get_annotations(cls), name: one.type}
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        cls.__doc__ = _with_sections(cls)

    def check_settings(self) -> None:
        """Refuse settings that make no sense, with a sentence each; models add what must hold between several."""
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if one.name != "random_state":  # a seed may have any number of digits
                _check_size(one.name, value)
            one.metadata["rule"](one.name, value)


def _check_size(name: str, value: Any) -> None:
    """Refuse a number that would overflow once it meets others; infinity is for the setting's own rule."""
    if is_number(value) and is_too_large(value):
        raise ValueError(f"{name}={short(value)}: give a number between {-LARGEST:g} and {LARGEST:g}.")


def _with_sections(cls: Any) -> str:
    """A class's own documentation, with its settings and its learned attributes listed before the examples."""
    own, mark, examples = (cls.__dict__.get("__doc__") or "").partition("\n    Examples\n")
    settings = {one.name: one.metadata["meaning"] for one in fields(cls)}
    attributes = {
        name: value.meaning
        for base in reversed(cls.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, learned)
    }
    sections = [_section("Parameters", settings), _section("Attributes", attributes)]
    return "\n".join([own.rstrip(), *filter(None, sections)]) + "\n    " + (mark + examples if mark else "")


def _section(title: str, entries: dict[str, str]) -> str:
    if not entries:
        return ""
    lines = "\n".join(f"{name}\n" + indent("\n".join(wrap(text, 110)), "    ") for name, text in entries.items())
    return "\n" + indent(f"{title}\n{'-' * len(title)}\n{lines}", "    ")


# --- the settings that several models have --------------------------------------------------------------------


class CommonSettings(Settings):
    """What every model is told."""

    n_factors: int = setting(default=20, rule=count(), meaning="K, the length of the factors.", kw_only=False)
    on_unknown: Unknown = setting(
        default="mean",
        rule=one_of(Unknown),
        meaning="What pairs with an id that has neither training ratings nor features get: the known side's "
        '``"mean"`` (of a Bayesian model the prior mean), ``"nan"``, or an error (``"raise"``).',
    )
    validation_fraction: float | None = setting(
        default=None,
        rule=number("a share between 0 and 1, or None", lambda value: 0 < value < 1, or_none=True),
        meaning="Early stopping, off by default: a random share of the ratings to set aside and not to train on. "
        "An ``eval_set`` given to ``fit`` serves instead of a share.",
    )
    n_iter_no_change: int | None = setting(
        default=5,
        rule=count(or_none=True),
        meaning="Once the error on what is set aside has not fallen for so many iterations in a row the fit stops, "
        "and the model is that of the best one; None only records the errors, in ``eval_errors_``.",
    )
    max_iter: int | None = setting(
        default=None,
        rule=count(or_none=True, most=INT64_MAX),
        meaning="At most so many iterations; None for as many as serve the method: 20 sweeps of `MBMF`'s exact "
        "solver, 100 of `BayesianMBMF`, 20 epochs of stochastic gradient descent, 500 iterations of any "
        "other.",
    )
    dtype: FloatType = setting(
        default="float64",
        rule=_check_float_type,
        meaning='``"float64"`` or ``"float32"``: how factors are stored; sums are in float64. `BayesianMBMF` may also '
        'store them in ``"float16"``, in half of the room: they are rounded towards 0, so that no row leaves its ball, '
        "and predictions move by less than a thousandth of the scale. What else it stores stays as wide.",
    )
    random_state: Seed = setting(default=None, rule=lambda *_: None, meaning="Seed of everything that is random.")
    n_jobs: int | None = setting(
        default=None,
        rule=_check_threads,
        meaning="Threads; None for every core. The result has the same bits for any number.",
    )
    verbose: int = setting(default=0, rule=check_flag, meaning="1 prints a line for every sweep to stderr.")


class RatingSettings(Settings):
    """What a model of ratings is told of them."""

    bounds: BoundsSetting = setting(
        default=None,
        rule=_check_bounds,
        meaning="What every rating is known to obey: ``(lo, hi)``, ``(lo, None)``, ``(None, hi)`` or None. Ratings "
        "outside are refused. Of bounded models it is a promise: form c keeps every prediction inside. To them it may "
        "also be a rule, by which every pair has a range of its own: `PerItem`, `PerUser` or `PerPair`, a frame with "
        "such columns, a function of user ids and item ids that returns lower and upper ends, a pair of names of "
        'columns of X (or a name and a number, ``(0, "seats")``), or ``"columns"`` for its third and fourth.',
    )
    duplicates: Duplicates = setting(
        default="raise",
        rule=lambda name, value: check_word(name, value, ("raise", "last", "mean")),
        meaning='What happens to pairs that come more than once: ``"raise"``, ``"last"``, ``"mean"``.',
    )


class RestSettings(Settings):
    """When an objective has come to rest."""

    tol: float = setting(
        default=1e-5,
        rule=number("a number of at least 0", lambda value: value >= 0),
        meaning="Stop when the objective's decrease is below this ``patience`` times in a row.",
    )
    patience: int = setting(default=10, rule=count(), meaning="How many small decreases in a row are rest.")
    tol_mode: TolMode = setting(
        default="relative",
        rule=one_of(TolMode),
        meaning='Whether ``tol`` is about the objective\'s ``"relative"`` decrease, whatever the unit of the ratings, '
        'or its ``"absolute"`` one, as printed in the paper.',
    )


class RangeSettings(Settings):
    """Where the ranges of a bounded model come from."""

    form: Form = setting(
        default="c",
        rule=one_of(Form),
        meaning='``"c"`` centres the ranges, so every declared end is guarded; ``"n"`` works on non-negative data '
        "and guards only the upper end of a range with two.",
    )
    magnitudes: Magnitudes = setting(
        default="auto",
        rule=_check_magnitudes,
        meaning='``"auto"``: from history when it is given, else from the bounds where the ratings fill them, and '
        "otherwise from the ratings: the fit lives around them, and each of its tails is led into its own declared "
        'end. ``"range"``: the declared range for all, whatever the ratings fill of it. ``"history"``: from past '
        'ratings, or from the training ratings when none are given. ``"paper"``: as "auto", but history may pass the '
        "declared bounds, as published. Or a pair of mappings (user id -> magnitude, item id -> "
        'magnitude), either of which may be partial or be one of the words "range" and "history": ids that a mapping '
        "lacks get theirs from history when it is given, else from the bounds (from the training ratings where only "
        "one end is declared), capped so that all ranges stay inside the bounds.",
    )
    history_share: float = setting(
        default=0.1,
        rule=number("a share above 0 and up to 1", lambda value: 0 < value <= 1),
        meaning="How much history makes a user's magnitude its own: a share ρ of all items, Eq. (43).",
    )
    history_count: float | None = setting(
        default=None,
        rule=number("a positive number, or None for history_share", lambda value: value > 0, or_none=True),
        meaning="Instead of a share: the weight of n past ratings is n/(n + history_count).",
    )
    slack: float | Auto = setting(
        default="auto",
        rule=number(
            f'a number of at least 1 and below {STEEPEST:g}, or "auto"',
            lambda value: 1 <= value < STEEPEST,
            or_auto=True,
        ),
        meaning="τ ≥ 1: the fit may use centre ± τ·r·s, and a strictly increasing map leads predictions back into "
        'the range, without the ties that clipping makes. For the ball only; ``"auto"`` is 1.5 for `MBMF`, '
        "and grows with ``n_factors`` for `BayesianMBMF`.",
    )
    link: Link | None = setting(
        default=None,
        rule=lambda name, value: None if value is None else check_word(name, value, get_args(Link)),
        meaning='``"log1p"`` factorises log(1 + rating): for counts, whose noise grows with their size. Predictions, '
        "ranges and quantiles are ratings as ever.",
    )
    noise_growth: float | Auto = setting(
        default="auto",
        rule=number('a number between 0 and 1, or "auto"', lambda value: 0 <= value <= 1, or_auto=True),
        meaning="Where pairs have ranges of their own: the noise's standard deviation grows as width^p. 0: the same in "
        'ratings everywhere; ½: as that of counts; 1: in proportion. ``"auto"`` learns it.',
    )
    on_contradiction: Contradiction = setting(
        default="keep",
        rule=one_of(Contradiction),
        meaning='What happens to ratings outside their own range: ``"keep"`` with a warning, ``"widen"`` the '
        'magnitudes, ``"drop"`` the ratings, ``"raise"``.',
    )
