"""What a model from a file must be before anybody uses it: a checksum tells damage, not who wrote the file.

Whatever passes here predicts finite numbers inside its ranges and takes in new ratings. Each refusal is the end of a
sentence that begins with the file's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from boundrec.arrays import Reals
from boundrec.data.columns import short
from boundrec.data.ratings import LARGEST, SMALLEST
from boundrec.models.answers import bounded
from boundrec.models.blend import KnowsChoices, model_of
from boundrec.models.bounded import BoundedModel
from boundrec.models.estimator import FactorisationModel
from boundrec.models.fitted import Fitted, FittedSide, NoiseShape
from boundrec.models.implicit import ImplicitMBMF, clicked
from boundrec.models.side_information import FittedLinks
from boundrec.ranges import Frame, Ranges, frame_for
from boundrec.ranges.magnitudes import room_beside
from boundrec.ranges.scale import FARTHEST, Bounds, Scale
from boundrec.ranges.slack import STEEPEST
from boundrec.ranges.unit import UnitRange
from boundrec.solvers.row_noise import STEADIEST
from boundrec.top_n import norms

SIDES = ("user", "item")
#: What rounding, in float32 too, may add to a norm, a mean or a product, relative to its size.
ROUNDING = 1e-4
#: What weights of choices may be at most, and one over it at least.
LARGEST_OF_CHOICES = 1e30


def check_agreement(model: FactorisationModel) -> None:
    """Refuse a model whose settings and learned values do not go together; of the rows only the factors are not read.

    A model whose settings were changed after its fit is one of these.
    """
    _check_means(model)
    _check_widths(model)
    _check_precision(model)
    if isinstance(model, BoundedModel):
        _check_ranges(model)
    if isinstance(model.fitted_.ranges, UnitRange):
        _check_choices(model.fitted_, model.fitted_.ranges.slack)
    if model.fitted_.noise_variances is not None:
        _check_samples(model)
    if isinstance(model, KnowsChoices):
        _check_choices_beside(model)


def check_ratings(model: FactorisationModel) -> None:
    """Refuse ratings outside the declared bounds, or that are no strengths, where a file has ratings."""
    ratings = model.fitted_.ratings
    if ratings is not None:
        data = ratings.by_user.data
        _check_inside(model, "ratings that it holds", float(data.min()), float(data.max()), model._declared())
        if isinstance(model.fitted_.ranges, UnitRange) and not data.min() > 0:
            raise ValueError("the strengths that it holds are not all above 0.")


def check_factors(model: FactorisationModel) -> None:
    """Refuse factors that are not finite, or too long: in bounded models for their magnitudes. Reads all of them."""
    if model.fitted_.choices is not None:
        with _of_affinities():
            check_factors(_alone(model.fitted_.choices))
    with np.errstate(over="ignore", invalid="ignore"):
        ranges = model.fitted_.ranges
        if isinstance(ranges, Ranges | UnitRange):
            for kind in SIDES:
                _check_balls(model, kind, ranges)
            return
        users, items = (_longest(getattr(model, f"{kind}_factors_")) for kind in SIDES)
    if not max(users, items) <= LARGEST:
        raise ValueError("its factors are not finite, or too large to be multiplied.")


def _longest(factors: Reals) -> float:
    """The longest row's norm; not finite where a number in it is not."""
    longest = (float(lengths.max()) for lengths in _lengths(factors))
    return next(filter(np.isfinite, longest), np.inf)


# --- every model --------------------------------------------------------------------------------------------


def _check_means(model: FactorisationModel) -> None:
    """Somebody was trained, and what answers for the others lies inside the declared bounds."""
    for kind in SIDES:
        if not model.fitted_.side(kind).trained.any():
            raise ValueError(f"none of its {kind}s has a training rating.")
        means = getattr(model, f"{kind}_means_")
        least, most = min(float(means.min()), model.mean_), max(float(means.max()), model.mean_)
        if not max(abs(least), abs(most)) <= 2 * LARGEST:  # with room for rounding
            raise ValueError(f"its '{kind}_means' are not finite, or too large to be squared.")
        scale = model.fitted_.ranges.scale
        _check_inside(model, f"means of its {kind}s", least, most, scale.bounds(model._declared()))


def _check_inside(model: FactorisationModel, what: str, least: float, most: float, bounds: Bounds) -> None:
    """Values inside the declared bounds, but for rounding; where pairs have their own, ratings may be outside them."""
    low, high = (None, None) if model.fitted_.rule is not None else bounds
    room = ROUNDING * max(abs(least), abs(most))
    if (low is not None and least < low - room) or (high is not None and most > high + room):
        raise ValueError(f"the {what} lie outside bounds={getattr(model, 'bounds', None)!r}.")


def _check_widths(model: FactorisationModel) -> None:
    """The factors have the columns of ``n_factors``, once for each model that this one averages."""
    width, shared = model.user_factors_.shape[1], model.fitted_.n_bias_columns
    n_averaged = (width - shared) // model.n_factors
    if isinstance(model, BoundedModel):
        biases = [model.fitted_.side(kind).biases for kind in SIDES]
        told = {rows.shape[1] for rows in biases if rows is not None} or {max(n_averaged, 1)}
        whole = told == {n_averaged} and (biases[0] is None) == (biases[1] is None)
    else:
        whole = n_averaged == 1
    if not whole or width != shared + n_averaged * model.n_factors:
        raise ValueError(f"its factors have {width} columns, which does not go with n_factors={model.n_factors!r}.")


def _check_precision(model: FactorisationModel) -> None:
    """The factors are of the type ``dtype``."""
    types = {model.user_factors_.dtype.name, model.item_factors_.dtype.name}
    if types != {np.dtype(model.dtype).name}:
        dtype = np.dtype(model.dtype).name
        raise ValueError(f"its factors are {' and '.join(sorted(types))}, which does not go with dtype={dtype!r}.")


def _check_positive(name: str, values: Any) -> None:
    if not (np.isfinite(values) & (np.asarray(values) > 0)).all():
        raise ValueError(f"its {name!r} are not positive numbers.")


# --- bounded models -----------------------------------------------------------------------------------------


def _check_ranges(model: BoundedModel) -> None:
    """Ranges around the centre of the declared bounds, none of them wider than these leave room for."""
    ranges = bounded(model.fitted_)
    frame = ranges.frame
    if not 1 <= model.slack_ < STEEPEST:
        raise ValueError(f"its slack is {model.slack_:g}, not at least 1 and below {STEEPEST:g}.")
    _check_scale(model, ranges)
    bounds = ranges.scale.bounds(model._declared())
    declared = _led_frame(ranges, bounds) if frame.led else frame_for(bounds, model.form, frame.offset)
    uncapped = replace(declared, limit=np.inf, lower=-np.inf, upper=np.inf)
    if frame != declared and not (model.magnitudes == "paper" and frame == uncapped):
        raise ValueError(f"its ranges are not those of bounds={model.bounds!r} and form={model.form!r}.")
    parts: dict[str, Any] = {"user": ranges.user, "item": ranges.item, "unknown_user": ranges.unknown_user}
    parts |= {"unknown_item": ranges.unknown_item, "overall": 1.0 if ranges.overall is None else ranges.overall}
    for name, values in parts.items():
        _check_positive(f"ranges.{name}", values)
        if np.min(values) < SMALLEST or np.max(values) > LARGEST:
            raise ValueError(f"its 'ranges.{name}' are too small or too large to be multiplied.")
    largest = _largest(model)
    widest = largest["user"] * largest["item"]
    if model.on_contradiction == "widen":  # which leaves those of the unknown as they were
        widest = float(ranges.user.max()) * float(ranges.item.max())
    if widest > frame.limit * (1 + ROUNDING):
        raise ValueError(f"its magnitudes multiply to {widest:g}, past the {frame.limit:g} that its bounds leave.")
    narrowest = float(ranges.user.min()) * float(ranges.item.min())
    if not narrowest > 0 or not np.isfinite(model.slack_ * largest["user"] * largest["item"] + abs(frame.offset)):
        raise ValueError("its magnitudes are too small or too large to be multiplied.")


def _check_choices(fitted: Fitted, slack: float) -> None:
    """Of a model of clicks: shares of choices, and numbers that new rows can be solved with."""
    if not 1 <= slack < STEEPEST:
        raise ValueError(f"its slack is {slack:g}, not at least 1 and below {STEEPEST:g}.")
    if not -1 <= fitted.found["popularity_power"] <= 1:
        raise ValueError("its 'popularity_power' is not between -1 and 1.")
    for name in ("unobserved_weight", "popularity_unit", "typical_strength"):
        if not 1 / LARGEST_OF_CHOICES <= fitted.found[name] <= LARGEST_OF_CHOICES:
            raise ValueError(f"its {name!r} is too small or too large to be multiplied.")
    if fitted.found["ridge"] > LARGEST_OF_CHOICES:
        raise ValueError("its 'ridge' is too large to be multiplied.")
    for kind in SIDES:
        side = fitted.side(kind)
        chosen = clicked(side)
        by_features = side.trained & ~chosen
        if (
            np.min(side.means) < 0
            or np.max(side.means) > 1
            or np.min(side.means[chosen], initial=1.0) < 1 / LARGEST_OF_CHOICES
            or (by_features.any() and (side.links is None or not side.links.told(side.ids)[by_features].all()))
        ):
            raise ValueError(f"its '{kind}_means' are not the shares of what was chosen.")
        _check_means_by_features(side, kind, slack)


def _check_means_by_features(side: FittedSide, kind: str, slack: float) -> None:
    """Of clicks: features that lead rows somewhere, from a mean row in the ball."""
    links, usual = side.links, side.usual
    if (links is None) != (usual is None):
        raise ValueError(f"its '{kind}_links' and '{kind}_usual' do not go together.")
    if links is None or usual is None:
        return
    n_features = 0 if links.features is None else len(links.features.encoding)
    one_of_all = links.matrices.shape[:2] == (1, n_features) and links.typical.shape[1] == 1
    if not n_features or links.in_sets.size or not one_of_all:
        raise ValueError(f"its '{kind}_links' do not go with its features.")
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(np.max([np.abs(one).max(initial=0.0) for one in (links.matrices, links.typical)]))
        usable = _longest_features(links) * largest <= LARGEST_OF_CHOICES
        within = float(norms(usual[None])[0]) <= np.sqrt(slack) * (1 + ROUNDING)
    if not usable or not within:
        raise ValueError(f"its '{kind}_links' or its '{kind}_usual' are not finite, or too large to be worked with.")


def _longest_features(links: FittedLinks) -> float:
    """More than features, multiplied with numbers up to 1, can add up to for anybody."""
    return 1.0 + (0.0 if links.features is None else float(np.abs(links.features.matrix.data).sum()))


def _check_choices_beside(model: KnowsChoices) -> None:
    """Of a model of ratings that knows who chooses what: a model of clicks, and how its ratings are told beside it."""
    fitted = model.fitted_
    known = fitted.choices is not None
    told = {"rating_centre", "rating_spread"} <= fitted.found.keys()
    if known != bool(model.affinity) or told != known:
        raise ValueError(
            f"what it knows of who chooses what does not go with affinity={model.affinity!r}: "
            f"set affinity={known}, or fit again."
        )
    if fitted.choices is None:
        return
    if not SMALLEST <= fitted.found["rating_spread"] <= LARGEST:
        raise ValueError("its 'rating_spread' is too small or too large to be divided by.")
    centre, scale = fitted.found["rating_centre"], fitted.ranges.scale
    if scale.width is not None and abs(centre) > FARTHEST * scale.width * (1 + ROUNDING):
        raise ValueError("its 'rating_centre' is further out than any rating in its own range.")
    _check_inside(model, "ratings around its 'rating_centre'", centre, centre, scale.bounds(model._declared()))
    with _of_affinities():
        check_agreement(_alone(fitted.choices))


def _alone(choices: Fitted) -> ImplicitMBMF:
    """The model of clicks by itself."""
    model = model_of(choices)
    model._learned = choices
    return model


@contextmanager
def _of_affinities() -> Iterator[None]:
    """Say what it is that is wrong."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"of its affinities, {error}") from None


def _check_scale(model: BoundedModel, ranges: Ranges) -> None:
    """A scale that goes with the settings, and on which numbers can be worked with."""
    scale = ranges.scale
    guarded = Scale(scale.link)
    if scale.width is None:
        guarded = guarded.guarding(ranges.frame.lower, ranges.frame.upper, model._declared())
    sizes = (1.0 if scale.width is None else scale.width, scale.mean_weight)
    usable = all(SMALLEST < size < LARGEST for size in sizes) and 0 <= scale.growth <= 1
    whole = (scale.width is None) == (model.fitted_.rule is None) and scale.link == model.link
    if not usable or not whole or (scale.lower, scale.upper) != (guarded.lower, guarded.upper):
        raise ValueError(f"its scale is not that of bounds={short(model.bounds)} and link={model.link!r}.")


def _led_frame(ranges: Ranges, bounds: Bounds) -> Frame:
    """The frame of ranges that are those of the data: any centre from which each tail can be led into its end."""
    frame = ranges.frame
    low, high = (-np.inf if bounds[0] is None else bounds[0]), (np.inf if bounds[1] is None else bounds[1])
    room = min(frame.offset - low, high - frame.offset)
    reach = ranges.slack * ranges.unknown_user * ranges.unknown_item
    unknown = ranges.unknown_user, ranges.unknown_item
    alike = unknown[0] == unknown[1] and all((side == unknown[0]).all() for side in (ranges.user, ranges.item))
    usable = abs(frame.offset) <= LARGEST and np.isclose(frame.limit, reach / ranges.slack, rtol=ROUNDING, atol=0)
    if not (usable and room > 0 and reach / room < STEEPEST and alike):
        raise ValueError("its ranges do not lead into those that are declared.")
    return Frame(frame.offset, limit=frame.limit, lower=low, upper=high, led=True)


def _largest(model: BoundedModel) -> dict[str, float]:
    """The largest magnitude of each side, that of somebody unknown or new among them."""
    ranges = bounded(model.fitted_)
    user, item, overall = float(ranges.user.max()), float(ranges.item.max()), ranges.overall or 0.0
    return {
        "user": max(user, float(ranges.unknown_user), min(overall, room_beside(ranges.frame, item))),
        "item": max(item, float(ranges.unknown_item), min(overall, room_beside(ranges.frame, user))),
    }


def _check_balls(model: FactorisationModel, kind: str, ranges: Ranges | UnitRange) -> None:
    """Rows, and the biases of each model that this one averages, within √slack times their magnitudes."""
    side = model.fitted_.side(kind)
    factors, biases = side.factors, side.biases
    magnitudes = getattr(ranges, kind) if isinstance(ranges, Ranges) else np.ones(len(factors))
    radius = np.sqrt(ranges.slack) * magnitudes
    room = radius * ROUNDING + factors.shape[1] * float(np.finfo(factors.dtype).smallest_subnormal)
    least = radius - room if getattr(model, "constraint", "ball") == "sphere" else 0.0
    if not (biases is None or (np.abs(biases) <= (radius + room)[:, None]).all()):
        raise ValueError(f"its biases of {kind}s are not finite, or larger than their magnitudes allow.")
    if not any(((least <= lengths) & (lengths <= radius + room)).all() for lengths in _lengths(factors)):
        raise ValueError(f"its factors of {kind}s are not finite, or their lengths are not those of magnitudes.")


def _lengths(factors: Reals) -> Iterator[Reals]:
    """Norms of rows: quickly, in float32 if they are no wider, and then, where that does not do, in float64."""
    yield np.sqrt(np.einsum("ij,ij->i", factors, factors, dtype=np.promote_types(factors.dtype, np.float32)))
    yield norms(factors)


# --- samples ------------------------------------------------------------------------------------------------


def _check_samples(model: Any) -> None:
    """Priors that rows can be drawn from, and variances whose sum and root are finite."""
    if model.user_prior_means_.shape[1] != model.n_factors + 1 or model.user_spread_.shape[1] != 2:
        raise ValueError(f"its samples do not go with n_factors={model.n_factors!r}.")
    _check_positive("noise_variances", model.noise_variances_)
    shape = model.fitted_.noise_shape
    if shape is not None:
        _check_shape(shape)
    if (model.fitted_.users.steadiness is None) != (model.fitted_.items.steadiness is None):
        raise ValueError("only its users or only its items have a noise of their own.")
    largest, spreads, noise = _largest(model), 1.0, model.noise_ * model.noise_
    for kind in SIDES:
        spread = getattr(model, f"{kind}_spread_")
        if not (spread >= 0).all():
            raise ValueError(f"its '{kind}_spread' are not variances.")
        variances = _prior_variances(
            kind, getattr(model, f"{kind}_prior_means_"), getattr(model, f"{kind}_prior_precisions_")
        )
        _check_side(model.fitted_, kind)
        spreads *= max(float(spread.max()), model.slack_ * largest[kind] * largest[kind] * max(variances, 1.0))
    with np.errstate(over="ignore", divide="ignore"):
        usable = np.isfinite([model.n_factors * spreads, noise, (1 / model.noise_variances_).max()])
    if not usable.all() or not noise > 0:
        raise ValueError("the variances of its samples are too small or too large to be worked with.")


def _check_shape(shape: NoiseShape) -> None:
    """Quantiles of distributions of some spread, and edges of as many groups as there are of them."""
    rows, edges = shape
    ascending = (
        edges is not None
        and rows.shape[1] > 1
        and len(rows) > 0
        and (np.diff(rows) >= 0).all()
        and (np.diff(edges) >= 0).all()
    )
    if not ascending or not np.abs(rows).max() <= LARGEST or not (np.ptp(rows[0]) > 0 or not rows.any()):
        raise ValueError("its 'noise_shape' are not the quantiles of a distribution.")
    if len(rows) != (len(edges) + 2 if len(edges) else 1):
        raise ValueError("its 'noise_shape' do not go with its 'noise_edges'.")


def _check_side(fitted: Fitted, kind: str) -> None:
    """Noise of rows that can be divided by, and links that move the priors of rows to numbers."""
    side = fitted.side(kind)
    if side.steadiness is not None:
        _check_positive(f"{kind}_steadiness", side.steadiness)
        if np.min(side.steadiness) < 1 / STEADIEST or np.max(side.steadiness) > STEADIEST:
            raise ValueError(f"its '{kind}_steadiness' are too small or too large to be multiplied.")
    if not 1 / STEADIEST <= fitted.found.get(f"{kind}_stranger", 1.0) <= STEADIEST:
        raise ValueError(f"its '{kind}_stranger' is too small or too large to be multiplied.")
    links = side.links
    if links is None:
        return
    others = len(fitted.side("item" if kind == "user" else "user").ids)
    n_features = 0 if links.features is None else len(links.features.encoding)
    groups = (links.features is not None) + (links.in_sets.size > 0)
    increasing = np.all(np.diff(links.in_sets) > 0) and np.all((links.in_sets >= 0) & (links.in_sets < others))
    if not increasing or links.n_features != n_features or links.typical.shape[1] != groups:
        raise ValueError(f"its '{kind}_links' do not go with its features, or with those that may be in sets.")
    assert side.prior is not None
    largest = [links.matrices, links.typical]
    if links.alone is not None and links.precisions is not None:
        if links.alone.shape[1] != n_features:
            raise ValueError(f"its '{kind}_links' do not go with its features, or with those that may be in sets.")
        _prior_variances(kind, side.prior.mean, links.precisions)
        largest.append(links.alone)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = (_longest_features(links) + np.sqrt(links.in_sets.size)) * float(
            np.max([np.abs(one).max(initial=0.0) for one in largest])
        )
        usable = moved <= LARGEST and np.isfinite(moved * float(np.abs(side.prior.precision).max()))
    if not usable:
        raise ValueError(f"its '{kind}_links' are not finite, or too large to be worked with.")


def _prior_variances(kind: str, means: Reals, precisions: Reals) -> float:
    """The largest variance of a prior; refuses priors that nothing can be drawn from."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            np.linalg.cholesky(precisions)
            variances = np.diagonal(np.linalg.inv(precisions), axis1=-2, axis2=-1)
            weighed = np.einsum("sij,sj->si", precisions, means)
            skew = np.abs(precisions - np.swapaxes(precisions, -2, -1)).max()
        even = skew <= ROUNDING * np.abs(precisions).max()
        usable = even and bool(np.isfinite(weighed).all() and (variances > 0).all() and np.abs(means).max() <= LARGEST)
    except np.linalg.LinAlgError:
        usable = False
    if not usable:
        raise ValueError(f"the priors of its {kind}s are no normal distributions.")
    return float(variances.max())
