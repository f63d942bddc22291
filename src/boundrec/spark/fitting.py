"""A fit on a cluster: from a data frame to the model that a fit here would give, with the same parts.

What is decided before the first sweep (ranges, scale, ridge, start) goes by numbers that Spark adds up; the loop, the
stopping rule and the solvers' other halves are those of every fit. The driver holds ids, both sides' rows and, of a
sampler, what is kept; the ratings stay with the executors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from boundrec.data.ids import IdIndex
from boundrec.data.ratings import Csr
from boundrec.models import answers
from boundrec.models.bayesian import LEAST_NOISE, BayesianMBMF, EvaluatedSampler
from boundrec.models.bounded import BoundedModel
from boundrec.models.estimator import Callback
from boundrec.models.fit import Watch, run
from boundrec.models.fitted import PRIOR_COUNT, Course, Fitted, FittedSide
from boundrec.models.mbmf import MBMF
from boundrec.notes import percent, warn
from boundrec.ranges import Frame, Ranges, check_bounds, frame_for
from boundrec.ranges.contradictions import ROUNDING as SAME
from boundrec.ranges.magnitudes import frame_of_data
from boundrec.ranges.rules import WithRows
from boundrec.ranges.scale import FARTHEST, ROUNDING, Bounds, Scale
from boundrec.solvers import Side, Solver, Sweep
from boundrec.solvers.exact import HELD_BY_ITEMS, HELD_BY_USERS, start_with_biases
from boundrec.solvers.gibbs import TINY
from boundrec.solvers.threads import RowPool
from boundrec.spark.blocks import Centring
from boundrec.spark.checkpoints import Checkpoints
from boundrec.spark.engine import Cluster, ClusterAlternation, ClusterDraws, Mode
from boundrec.spark.errors import in_a_sentence
from boundrec.spark.frames import (
    BlockTable,
    Columns,
    Summary,
    half_width,
    layout_of,
    make_blocks,
    number_ids,
    plain,
    refuse_twins,
    summary,
    widths,
)
from boundrec.top_n import Seen


@dataclass(frozen=True)
class Request:
    """What a fit on a cluster is told beside the settings of its model."""

    columns: Columns
    mode: Mode = "auto"
    n_partitions: int | None = None
    checkpoint_dir: str | None = None
    checkpoint_interval: int = 5


class Prepared:
    """Everything before the first sweep: numbered ids, blocks of both sides, ranges; and the cluster to run on."""

    def __init__(self, df: DataFrame, model: MBMF | BayesianMBMF, request: Request) -> None:
        table, columns = plain(df, request.columns), request.columns
        declared = (None, None) if columns.ranged else check_bounds(model.bounds)
        told = summary(table, declared)
        scale, table, self.infeasible_share = self._scale(model, table, told, columns)
        (self.frame, self.product), self.slack = frame_of(model, table, told, scale, declared), model._slack()
        self.scale = scale if scale.width is not None else scale.guarding(self.frame.lower, self.frame.upper, declared)
        self.users, user_numbers = number_ids(table, "user")
        self.items, item_numbers = number_ids(table, "item")
        numbered = table.join(user_numbers, "user").join(item_numbers, "item")
        centring, twins = Centring(self.scale, self.frame.offset), model.duplicates == "mean"
        self.blocks: dict[str, BlockTable] = {}
        try:
            for kind, ids in (("user", self.users), ("item", self.items)):
                layout = layout_of(numbered, kind, len(ids), told.n)
                made = make_blocks(numbered, kind, layout, centring, request.n_partitions, twins)
                self.blocks[kind] = made
                if kind == "user":
                    refuse_twins(made, self.users, self.items)
            n_columns = model.n_factors + 2
            self.cluster = Cluster(self.blocks, request.mode, n_columns)
        except BaseException:
            for made in self.blocks.values():
                made.release()
            raise

    def _scale(
        self, model: BoundedModel, table: DataFrame, told: Summary, columns: Columns
    ) -> tuple[Scale, DataFrame, float]:
        """The scale of the ratings, those that are left of them, and the share that lies outside its own range."""
        if not columns.ranged:
            return Scale(), table, 0.0
        rating, room = fn.col("rating"), SAME * half_width()
        outside = (rating < fn.col("lower") - room) | (rating > fn.col("upper") + room)
        with in_a_sentence():
            n_outside = table.where(outside).count()
        if n_outside and model.on_contradiction == "raise":
            raise ValueError(
                f"{n_outside:,} of {told.n:,} ratings lie outside their own range: pass onContradiction='drop', or "
                "'keep'."
            )
        if n_outside and model.on_contradiction == "drop":
            if n_outside == told.n:
                raise ValueError("every rating lies outside its own range, so nothing is left to fit: mend the ranges.")
            table = table.where(~outside)
        elif n_outside:
            warn(
                f"{n_outside:,} of {told.n:,} ratings ({percent(n_outside / told.n)}) lie outside their own range, and "
                "are kept: pass onContradiction='drop' to leave them out."
            )
        found = widths(table)
        even = found.largest - found.least <= ROUNDING * found.largest
        bare = Scale(None, found.root_mean_square, float(model.noise_growth), even=even)
        power = 2.0 - 2.0 * bare.growth
        weights = fn.when(half_width() > 0, fn.pow(half_width() / found.root_mean_square, power))
        with in_a_sentence():
            mean_weight = table.agg(fn.avg(weights)).first()
        assert mean_weight is not None
        return replace(bare, mean_weight=float(mean_weight[0])), table, n_outside / told.n

    def told(self) -> bytes:
        """What tells these ratings from others: ids, and the sums of every row."""
        ids = "\0".join(map(str, [*self.users.ids.tolist(), *self.items.ids.tolist()])).encode()
        return ids + b"".join(of.row_totals.tobytes() + of.row_weights.tobytes() for of in self.blocks.values())

    @property
    def root(self) -> float:
        """The magnitude of every user and every item."""
        return float(np.sqrt(self.product))

    def ranges(self, n_users: int, n_items: int) -> Ranges:
        """Of so many users and items."""
        root = self.root
        user, item = np.full(n_users, root), np.full(n_items, root)
        return Ranges(self.frame, user, item, root, root, slack=self.slack, scale=self.scale)

    def sides(self) -> tuple[Side, Side]:
        """Both sides before they have factors; their ratings are elsewhere."""
        room, none = np.sqrt(self.slack) * self.root, np.empty((0, 0))
        nothing = Csr(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0))
        users, items = (Side(nothing, np.full(len(ids), room), none) for ids in (self.users, self.items))
        return users, items

    @property
    def mean_share(self) -> float:
        """The mean of the centred ratings that count, in units of their ranges."""
        of = self.blocks["user"]
        return of.total / of.n_counting / self.product

    def start(self, columns: Columns, found: dict[str, float]) -> Fitted:
        """What is known before anything is learnt."""
        weight, offset = self.blocks["user"].weight, self.frame.offset
        mean = offset + float(self.blocks["user"].row_totals.sum()) / weight

        def side(of: BlockTable, ids: IdIndex) -> FittedSide:
            totals = of.row_totals + offset * of.row_weights
            means = (totals + PRIOR_COUNT * mean) / (of.row_weights + PRIOR_COUNT)
            return FittedSide(ids, means, of.row_weights > 0)

        users, items = side(self.blocks["user"], self.users), side(self.blocks["item"], self.items)
        ranges, names = self.ranges(len(self.users), len(self.items)), (columns.user, columns.item)
        seen = Seen.nothing(len(self.users))
        rule = WithRows() if columns.ranged else None
        return Fitted(users, items, ranges, mean, seen, names, None, rule=rule, found=found)


def frame_of(
    model: BoundedModel, table: DataFrame, told: Summary, scale: Scale, declared: Bounds
) -> tuple[Frame, float]:
    """Where ranges are centred, and r_i s_j, the same for all: as in a fit here."""
    bounds, n_telling, mean, spread = scale.bounds(declared), told.n, told.mean, told.spread
    if scale.width is not None:
        share = scale.width * (fn.col("rating") - (fn.col("lower") / 2 + fn.col("upper") / 2)) / half_width()
        most = fn.lit(FARTHEST * scale.width)
        share = fn.when(half_width() > 0, fn.greatest(fn.least(share, most), -most))
        with in_a_sentence():
            found = table.agg(fn.count(share), fn.avg(share), fn.stddev_pop(share)).first()
        assert found is not None
        n_telling, mean, spread = int(found[0]), float(found[1]), float(found[2])
    if model.form == "c" and model._in_ball() and model.magnitudes == "auto":
        frame = frame_of_data(bounds, n_telling, mean, spread, model._slack())
        if frame is not None:
            return frame, frame.limit
    if (bounds[0] is None) != (bounds[1] is None):
        raise ValueError(
            f"bounds={model.bounds}: with one end open a range is made of the ratings, of which at least ten must "
            "differ, in the ball; give both ends, more ratings, or constraint='ball' and magnitudes='auto'."
        )
    frame = frame_for(bounds, model.form, told.least)
    reach = frame.limit if np.isfinite(frame.limit) else float(frame.levels(np.array([told.least, told.most])).max())
    if not reach > 0:
        raise ValueError(f"all ratings are {told.least:g}, so there is nothing to learn: declare bounds around them.")
    return frame, reach


# --- the fit --------------------------------------------------------------------------------------------------------


def solver_of(model: MBMF | BayesianMBMF, prepared: Prepared, start: Fitted) -> Solver:
    """The algorithm at its start, with its half-steps on the cluster."""
    rng, (users, items) = model._generators()[0], prepared.sides()
    mean = prepared.mean_share / prepared.slack
    if isinstance(model, MBMF):
        users, items = model.starting_sides(users, items, prepared.ranges(0, 0), mean, rng)
        return ClusterAlternation(users, items, prepared.cluster, model.constraint, start.found["ridge"])
    users = start_with_biases(users, HELD_BY_USERS, mean, model.n_factors, rng)
    items = start_with_biases(items, HELD_BY_ITEMS, mean, model.n_factors, rng)
    of = prepared.blocks["user"]
    variance = of.squares / of.n_counting - (of.total / of.n_counting) ** 2
    guess = max(variance, (LEAST_NOISE * prepared.product) ** 2, TINY)
    burn_in, kept = model._to_keep(start, None)
    draws = ClusterDraws(prepared.cluster, of.weight)
    sampler = EvaluatedSampler(users, items, guess, guess, kept, None, RowPool(1, 0), rng, None, draws)
    sampler.burn_in, sampler.ranges = burn_in, answers.bounded(start)
    sampler.start, sampler.earlier = start, start.course
    return sampler


def fit(
    df: DataFrame, model: MBMF | BayesianMBMF, request: Request, callback: Callback | None = None
) -> tuple[MBMF | BayesianMBMF, BlockTable]:
    """Fit a model on a cluster; returns it, without its ratings, and the blocks of the users, which have them."""
    model.check_settings()
    prepared = Prepared(df, model, request)
    try:
        found = {"infeasible_share": prepared.infeasible_share}
        n = prepared.blocks["user"].n
        if isinstance(model, MBMF):
            n_rows = len(prepared.users) + len(prepared.items)
            found["ridge"] = model.ridge_amount(n, n_rows) * prepared.product
        start = prepared.start(request.columns, found)
        solver = solver_of(model, prepared, start)
        counts = n, len(prepared.users), len(prepared.items)
        where = request.checkpoint_dir, request.checkpoint_interval
        checkpoints = Checkpoints.of(df.sparkSession, *where, model, counts, prepared.told())
        outcome = run(solver, _watch(model, solver, checkpoints, callback))
        earlier = checkpoints.earlier
        course = outcome.course._replace(objectives=earlier + outcome.course.objectives)
        fitted = model._together(start, [outcome._replace(course=course)], at_the_end=True)
        model._learned = fitted
        checkpoints.finish(solver, len(course.objectives))
    except BaseException:
        prepared.cluster.release()
        raise
    prepared.blocks["item"].release()
    return model, prepared.blocks["user"]


def _watch(model: MBMF | BayesianMBMF, solver: Solver, checkpoints: Checkpoints, callback: Callback | None) -> Watch:
    """What the loop is told; a fit that goes on has fewer sweeps left, and its rule has seen those before."""
    rule = model._stopping_rule()
    done = checkpoints.restore(solver)
    for objective in done:
        rule.converged(Sweep(objective))

    def tell(course: Course) -> bool:
        checkpoints.see(solver, course.objectives)
        return callback is not None and bool(callback(len(done) + len(course.objectives), course.objectives[-1], model))

    return Watch(
        f"Spark{type(model).__name__}",
        max(model.most_iterations() - len(done), 1),
        rule,
        None,
        None,
        tell,
        model._seeks_rest(),
        bool(model.verbose),
    )
