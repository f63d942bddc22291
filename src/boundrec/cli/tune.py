"""``boundrec tune``: a small grid of settings on the same held-out ratings."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from boundrec.cli import options
from boundrec.cli.bounds import AskedBounds
from boundrec.cli.console import print_json, print_table, say
from boundrec.cli.model_request import (
    Request,
    parse_settings,
    parse_value,
    refuse_affinity,
    refuse_own_options,
    with_affinity,
)
from boundrec.cli.options import Duplicated
from boundrec.cli.side_information import AskedBeside
from boundrec.registry import entry_of_command, learns_clicks

if TYPE_CHECKING:
    from boundrec.cli.held_out import Measured
    from boundrec.cli.rating_tables import RatingTable

EXAMPLES = """Examples:

boundrec tune ratings.csv

boundrec tune ratings.csv --k 10,20,40

boundrec tune ratings.csv --user-features users.csv --k 20 --grid implicit=off,both --grid noise=one,own

boundrec tune flights.csv --rating passengers --lower 0 --upper seats --k 4,8 --grid noise_growth=auto,0.5,1

boundrec tune ratings.csv --model mbmf --k 10,20 --grid ridge=auto,0.05,0.1 --grid slack=1,1.5

boundrec tune ratings.csv --by ndcg --liked 4 --k 10,20

boundrec tune ratings.csv --by ndcg --affinity --k 20 --grid rating_weight=0.05,0.1,0.2

boundrec tune clicks.csv --model implicit
"""
#: What tune tries where nothing else is asked for, by the model's settings; and of models of clicks.
USUAL_RIDGES = "0.02,0.05,0.1"
USUAL_FACTORS, USUAL_FACTORS_OF_CLICKS = "10,20,40", "32,64,128"
USUAL_GRID_OF_CLICKS = "unobserved_weight=auto,0.3,1,3"
#: Length of the lists that settings are judged by.
PLACES = 10


class By(StrEnum):
    """What settings are judged by."""

    ERROR = "error"
    NDCG = "ndcg"


def tune(
    ratings: options.RatingsFile,
    k: Annotated[
        str | None,
        typer.Option(
            "--k",
            "-k",
            metavar="NUMBERS",
            help="Lengths of the factors, with commas between them.",
            show_default=f"{USUAL_FACTORS}, and {USUAL_FACTORS_OF_CLICKS} for implicit",
        ),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES",
            help="Values of a setting of the model, with commas between them; may be repeated.",
            show_default=f"ridge={USUAL_RIDGES} where the model has a ridge, and {USUAL_GRID_OF_CLICKS} for implicit",
        ),
    ] = None,
    by: Annotated[
        By | None,
        typer.Option(
            help=f"Choose by the error of held-out ratings, or by NDCG@{PLACES} of lists of all unseen items.",
            show_default="error, and ndcg for implicit",
        ),
    ] = None,
    liked: options.Liked = None,
    share: options.Share = 0.1,
    by_time: options.ByTime = None,
    user: options.UserColumn = None,
    item: options.ItemColumn = None,
    rating: options.RatingColumn = None,
    header: options.Header = None,
    bounds: options.Bounds = None,
    lower: options.Lower = None,
    upper: options.Upper = None,
    bounds_file: options.BoundsFile = None,
    duplicates: options.Duplicates = None,
    model: options.Model = options.USUAL_MODEL,
    user_features: options.UserFeatures = None,
    item_features: options.ItemFeatures = None,
    implicit: options.Implicit = None,
    noise: options.Noise = None,
    affinity: options.Affinity = False,
    sweeps: options.Sweeps = None,
    settings: options.Settings = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Try a small grid of settings on held-out ratings and print the command that fits with the best.

    All are judged by the same held-out ratings; the best one's error on them flatters it a little. A mean with user and
    item offsets is among them: settings that are not better than that have learnt nothing.

    With --by ndcg they are judged by lists: good ones have the held-out ratings of at least the mean in them, or of at
    least --liked; of clicks, everything that is held out. What most have rated is then among them. Lists are by
    predicted rating, or with --affinity by who chooses what and that together, as those of a model that is so fitted.

    Settings that fail have a row that says so, and the others go on; the exit code is 1 only if all of them fail, and
    2, without a table, if none of them makes sense.
    Ctrl-C ends the search with what is finished.
    """
    from boundrec.cli import held_out
    from boundrec.cli.rating_tables import ColumnNames, read_table

    clicks = learns_clicks(model)
    if clicks and by is By.ERROR:
        raise typer.BadParameter(f"--by error: {model} predicts no ratings; leave --by out to judge it by its lists.")
    by_lists = clicks or by is By.NDCG
    if liked is not None and not by_lists:
        raise typer.BadParameter("--liked is for lists, and these are judged by --by ndcg.")
    beside = AskedBeside(user_features, item_features, implicit, noise)
    beside.refuse_for([model])
    refuse_affinity(affinity, [model])
    given = parse_settings(settings)
    fixed = with_affinity(affinity, model, beside.settings(given))
    within = AskedBounds(bounds, lower, upper, bounds_file)
    within.refuse_settings(fixed)
    typed = within.typed()
    k = k or (USUAL_FACTORS_OF_CLICKS if clicks else USUAL_FACTORS)
    tried = list(_grid(k, grid, model, fixed))
    refuse_own_options("--grid", set(tried[0][1]) - {"max_iter"} if sweeps is None else tried[0][1])
    beside.refuse_grid(tried[0][1])
    if affinity and "affinity" in tried[0][1]:
        raise typer.BadParameter("--affinity and --grid affinity=... give the same setting: leave out one.")
    asked = [Request(model, typed, factors, sweeps, seed, threads, {**fixed, **values}) for factors, values in tried]
    held_out.refuse_if_all_are_wrong(asked, in_grid=list(tried[0][1]))
    how = asked[0].on_contradiction if len({one.on_contradiction for one in asked}) == 1 else "as tried"
    columns = ColumnNames(user, item, rating, by_time, **within.of_rows())
    table, limits = within.settle(read_table(ratings, columns, header, clicks=clicks).settled(duplicates), how)
    parts = held_out.divide(table, share, seed)
    features = beside.read(table, header)
    say(parts.in_words())
    trial = held_out.Trial.of(parts, limits, PLACES if by_lists else None, features, liked, clicks)
    if by_lists and (trial.n is None or trial.liked is None):
        raise typer.BadParameter("--by ndcg: there are no lists to judge by here, as said above; choose by the error.")
    trivial = held_out.measure_trivial(trial)
    names = [_pairs({"k": factors, **values}) for factors, values in tried]
    requests = [(name, one.within(limits)) for name, one in zip(names, asked, strict=True)]
    found = held_out.try_all(requests, trial, by_lists)
    rows = [Candidate(*which, result) for which, result in zip(tried, found.results, strict=False)]
    rows.sort(key=lambda row: (held_out.by_lists if by_lists else held_out.by_error)(row.measured))
    best = None
    if rows and rows[0].measured.error is None:
        data = _data_words(ratings, table, header, [] if clicks else within.words(limits), duplicates)
        chosen = _model_words(model, rows[0], given, sweeps, seed)
        best = shlex.join(["boundrec", "fit", *data, *beside.words(), *["--affinity"][:affinity], *chosen])
    _show_grid(rows, trivial, best, by_lists, json)
    found.end("candidate")


class Candidate(NamedTuple):
    """One combination of settings, and what came of it."""

    k: int
    values: dict[str, Any]
    measured: Measured

    def as_json(self) -> dict[str, Any]:
        """Settings and figures by name."""
        figures = self.measured.as_json()
        names = [name for name in ("rmse", "mae", *self.measured.ranking, "seconds", "error") if name in figures]
        return {"k": self.k, **self.values, **{name: figures[name] for name in names}}


def _show_grid(rows: list[Candidate], trivial: list[Measured], best: str | None, by_lists: bool, json: bool) -> None:
    from boundrec.cli import held_out

    if json:
        results, rivals = [row.as_json() for row in rows], [result.as_json() for result in trivial]
        print_json({"results": results, "trivial": rivals, "command": best})
        return
    names = list(rows[0].values) if rows else []
    lines = [(row.measured, [str(row.k), *(str(row.values[name]) for name in names)]) for row in rows]
    lines += [(result, [result.name, *[held_out.NO_FIGURE] * len(names)]) for result in trivial]
    lines.sort(key=lambda line: (held_out.by_lists if by_lists else held_out.by_error)(line[0]))
    heads, row = ["RMSE", "MAE", "seconds"], held_out.short_row
    if by_lists:
        measured = [result for result, _ in lines]
        heads, row = [*held_out.list_columns(measured), "seconds"], partial(held_out.list_row, results=measured)
    print_table(["k", *names, *heads], [row(*line) for line in lines])
    if best is not None:
        typer.echo(f"\n{best}")


def _grid(k: str, grid: list[str] | None, model: str, fixed: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every combination, as the length of the factors and the other settings."""
    try:
        factors = [int(one) for one in k.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--k {k}: give whole numbers with commas between them, such as 10,20,40.") from None
    if grid is None and learns_clicks(model):
        grid = [USUAL_GRID_OF_CLICKS] if "unobserved_weight" not in fixed else []
    if grid is None:
        ridge = entry_of_command(model).load()().get_params().get("ridge", "none") if "ridge" not in fixed else "none"
        own = "auto," if ridge == "auto" else ""
        grid = [f"ridge={own}{USUAL_RIDGES}"] if ridge != "none" else []
    values: dict[str, list[Any]] = {}
    for axis in grid:
        name, equals, given = axis.partition("=")
        if not equals or not given:
            raise typer.BadParameter(f"--grid {axis}: write NAME=VALUE,VALUE such as ridge=0.05,0.1.")
        values[name] = [parse_value(one) for one in given.split(",")]
    for one in factors:
        for combination in product(*values.values()):
            yield one, dict(zip(values, combination, strict=True))


def _pairs(values: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _data_words(
    ratings: Path, table: RatingTable, header: bool | None, bounds: list[str], duplicates: Duplicated | None
) -> list[str]:
    words = [str(ratings), "-o", "model.safetensors"]
    words += [] if header is None else ["--header" if header else "--no-header"]
    for role in ("user", "item", "rating"):
        words += [f"--{role}", table.read.names[role]] if role in table.read.names else []
    words += bounds
    return words + (["--duplicates", duplicates.value] if duplicates is not None else [])


def _model_words(model: str, best: Candidate, fixed: dict[str, Any], sweeps: int | None, seed: int) -> list[str]:
    others = {**fixed, **best.values}
    sweeps = others.pop("max_iter", sweeps)
    words = ["--model", model, "--k", str(best.k)]
    words += ["--sweeps", str(sweeps)] if sweeps is not None else []
    for name, value in others.items():
        words += ["--set", f"{name}={value}"]
    return words + (["--seed", str(seed)] if seed else [])
