"""``boundrec evaluate``: a model on ratings that it has not seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from boundrec.cli import options
from boundrec.cli.bounds import AskedBounds, in_ranges_of, limits_of, with_ranges
from boundrec.cli.console import say
from boundrec.cli.model_request import Request, parse_settings, refuse_affinity, with_affinity
from boundrec.cli.side_information import AskedBeside
from boundrec.registry import command_name, is_of_clicks, learns_clicks

EXAMPLES = """Examples:

boundrec evaluate ratings.csv

boundrec evaluate ratings.csv --model mbmf --by-time timestamp --share 0.2

boundrec evaluate flights.csv --user from --item to --rating passengers --lower 0 --upper seats

boundrec evaluate ratings.csv --user-features users.csv --implicit both

boundrec evaluate ratings.csv --liked 4 -n 20

boundrec evaluate ratings.csv --affinity

boundrec evaluate train.csv --test test.csv --json

boundrec evaluate test.csv --fitted model.safetensors
"""


def evaluate(
    ratings: options.RatingsFile,
    test: Annotated[
        Path | None,
        typer.Option(help="Ratings to be judged by (same columns).", rich_help_panel=options.SPLIT),
    ] = None,
    fitted: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            help="Measure this model file, without a fit, on those of RATINGS that it was not fitted to.",
            rich_help_panel=options.SPLIT,
        ),
    ] = None,
    share: options.Share = 0.1,
    by_time: options.ByTime = None,
    length: options.Length = 10,
    liked: options.Liked = None,
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
    history: options.History = None,
    user_features: options.UserFeatures = None,
    item_features: options.ItemFeatures = None,
    implicit: options.Implicit = None,
    noise: options.Noise = None,
    affinity: options.Affinity = False,
    k: options.Factors = None,
    sweeps: options.Sweeps = None,
    settings: options.Settings = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Fit a model to one part of the ratings and measure it on the other.

    RMSE and MAE are those of the held-out ratings; "outside" is the share of predictions that leave the bounds,
    or, where every pair has a range of its own, of the held-out pairs' predictions that leave these.

    F1 asks of each held-out pair whether it is above the user's mean training rating, as rated and as predicted. A dash
    stands where that is unknown: in a model file without its ratings, and where no held-out rating is above the mean.

    Lists are by predicted rating, or with --affinity by who chooses what and that together, of all unseen items. Good
    ones have the held-out ratings of at least the mean in them, or of at least --liked: NDCG, with its interval over
    users, and recall. Coverage is the share of the items that are in any list, novelty how little known these are, in
    bits: 1 more is half as many people. --json has precision, MRR, MAP and hit rate as well.

    What is trivial is measured as well: a mean with user and item offsets, and lists of what most have rated; where
    pairs have ranges of their own, also the mean share of these.

    A model of clicks is measured by its lists alone, and good ones have everything in them that is held out.
    """
    from boundrec.cli import held_out
    from boundrec.cli.rating_tables import ColumnNames, read_same_columns, read_table

    within = AskedBounds(bounds, lower, upper, bounds_file)
    names = ColumnNames(user, item, rating, by_time, **within.of_rows())
    beside = AskedBeside(user_features, item_features, implicit, noise)
    if fitted is not None:
        beside.refuse_for_a_file(fitted)
        if affinity:
            raise typer.BadParameter(f"--affinity is for a fit, and {fitted} is fitted: leave it out.")
        _evaluate_fitted(fitted, ratings, replace(names, time=None), header, within, duplicates, length, liked, json)
        return
    within.refuse_history(history)
    beside.refuse_for([model])
    refuse_affinity(affinity, [model])
    chosen = with_affinity(affinity, model, beside.settings(parse_settings(settings)))
    within.refuse_settings(chosen)
    within.refuse_for([model])
    asked = Request(model, within.typed(), k, sweeps, seed, threads, chosen)
    asked.model()
    rows = read_table(ratings, names, header, clicks=learns_clicks(model))
    table, limits = within.settle(rows.settled(duplicates), asked.on_contradiction)
    if test is None:
        parts = held_out.divide(table, share, seed)
    else:
        judged_by = read_same_columns(test, table, header, duplicates)
        if bounds_file is not None:
            judged_by = in_ranges_of(limits.rule, judged_by)
        parts = held_out.Parts(table.ratings, judged_by.ratings, f"those of {judged_by.read.file.name}")
    past = None if history is None else read_same_columns(history, table, header, duplicates).ratings
    features = beside.read(table, header)
    say(parts.in_words())
    trial = held_out.Trial.of(parts, limits, length, features, liked, rows.clicks)
    results = held_out.measure_trivial(trial)
    held_out.say_who_has_one_range([model], limits)
    results.append(held_out.fit_and_measure(asked.within(limits), trial, past))
    held_out.show(results, limits, parts, json)


def _evaluate_fitted(
    path: Path,
    ratings: Path,
    columns: Any,
    header: bool | None,
    within: AskedBounds,
    duplicates: options.Duplicated | None,
    length: int,
    liked: float | None,
    json: bool,
) -> None:
    import boundrec
    from boundrec.cli import held_out
    from boundrec.cli.rating_tables import read_table

    model = boundrec.load(path)
    rows = read_table(ratings, columns, header, fitted=True, clicks=is_of_clicks(model))
    rows = rows.with_ids_like(model.user_ids_, model.item_ids_)
    rows = with_ranges(rows, model, within, path)
    trial = held_out.Trial.by(model, rows.settled(duplicates).ratings, limits_of(model), length, liked)
    results = held_out.measure_trivial(trial)
    if trial.learnt.ratings is None and not trial.clicks:
        say("No mean + offsets: the model file holds no ratings to take them from (boundrec fit --keep-ratings does).")
    results.append(held_out.measure(model, command_name(model), trial))
    held_out.show(results, limits_of(model), None, json)
