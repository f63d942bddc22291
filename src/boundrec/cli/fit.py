"""``boundrec fit``: a table of ratings in, a model file out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boundrec.cli import options
from boundrec.cli.bounds import AskedBounds, Limits
from boundrec.cli.console import print_json
from boundrec.cli.model_request import (
    Request,
    declares,
    parse_settings,
    refuse_affinity,
    takes_ranges,
    train,
    with_affinity,
)
from boundrec.cli.on_spark import AskedSpark
from boundrec.cli.side_information import AskedBeside
from boundrec.notes import in_a_sentence, percent, size
from boundrec.registry import learns_clicks

if TYPE_CHECKING:
    from boundrec.data.ratings import Ratings

EXAMPLES = """Examples:

boundrec fit ratings.csv -o model.safetensors

boundrec fit ratings.csv -o model.safetensors --user userId --item movieId --rating rating --bounds 0.5 5

boundrec fit flights.csv -o model.safetensors --user from --item to --rating passengers --lower 0 --upper seats

boundrec fit marks.csv -o model.safetensors --bounds-file full-marks.csv

boundrec fit ratings.csv -o model.safetensors --user-features users.csv --item-features films.parquet

boundrec fit plays.tsv.gz -o model.safetensors --rating count --bounds 0 none --model mbmf

boundrec fit ratings.csv -o model.safetensors --affinity

boundrec fit clicks.csv -o model.safetensors --model implicit

zcat ratings.csv.gz | boundrec fit - -o model.safetensors --json

boundrec fit ratings/ -o model.safetensors --engine spark --master local[2] --bounds 1 5
"""


def fit(
    ratings: options.RatingsFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")],
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
    keep_ratings: Annotated[
        bool, typer.Option("--keep-ratings", help="Keep the ratings in the file, for boundrec explain and partial_fit.")
    ] = False,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    engine: options.Engine = options.Engines.HERE,
    master: options.Master = None,
    checkpoint: options.Checkpoint = None,
    partitions: options.Partitions = None,
    json: options.Json = False,
) -> None:
    """Fit a model to a table of ratings and write it to a file.

    Columns with usual names are found; messages say which.

    Ctrl-C ends the fit early and keeps the model of the last whole sweep.
    """
    from boundrec.cli.rating_tables import ColumnNames, read_same_columns, read_table
    from boundrec.files import is_special

    within = AskedBounds(bounds, lower, upper, bounds_file)
    beside = AskedBeside(user_features, item_features, implicit, noise)
    options.check_output(output, "model", ratings, history, bounds_file, *beside.files.values())
    if is_special(output):
        raise OSError(f"Cannot write the model: {output} is a device or a pipe. Pass the name of a file with --output.")
    beside.refuse_for([model])
    refuse_affinity(affinity, [model])
    others = with_affinity(affinity, model, beside.settings(parse_settings(settings)))
    within.refuse_settings(others)
    within.refuse_for([model])
    asked = Request(model, within.typed(), k, sweeps, seed, threads, others)
    asked.model()  # what is asked wrongly is refused before the file is read
    spark = AskedSpark(engine, master, checkpoint, partitions)
    if spark.asked:
        elsewhere: dict[str, Any] = {
            "--history": history,
            "--bounds-file": bounds_file,
            "--user-features": user_features,
            "--item-features": item_features,
            "--implicit": implicit,
            "--noise": noise,
            "--affinity": affinity,
            "--keep-ratings": keep_ratings,
            "--threads": threads,
        }
        spark.refuse(model, elsewhere)
        asked = replace(asked, settings={**others, **({"duplicates": duplicates} if duplicates else {})})
        _fit_elsewhere(ratings, output, ColumnNames(user, item, rating), within, asked, spark, json)
        return
    if within.own and not takes_ranges(model):
        raise typer.BadParameter(
            f"{model} has one range for all: pass --bounds, or --model mbmf or bayesian, which take ranges of pairs."
        )
    within.refuse_history(history)
    names = ColumnNames(user, item, rating, **within.of_rows())
    table = read_table(ratings, names, header, clicks=learns_clicks(model)).settled(duplicates)
    summary = _summarise(table.ratings)
    if not json:
        typer.echo(_summary_in_words(table.read.file.name, summary))
    table, limits = within.settle(table, asked.on_contradiction)
    past = None if history is None else read_same_columns(history, table, header, duplicates).ratings
    features = beside.read(table, header)
    data = table.ratings
    del table  # what the fit works on is in data
    chosen = asked.within(limits).model()
    seconds = train(chosen, data, model, past, features, keep_when_interrupted=True)
    chosen.save(output, keep_ratings=keep_ratings)
    result = _describe(chosen, model, limits, seconds, output)
    if json:
        print_json({"data": summary, **result})
    else:
        typer.echo(_in_words(result, limits))


def _fit_elsewhere(
    ratings: Path, output: Path, names: Any, within: AskedBounds, asked: Request, spark: AskedSpark, json: bool
) -> None:
    """The same on a cluster."""
    from boundrec.cli.on_spark import fit_on_spark

    began = time.perf_counter()
    model, summary = fit_on_spark(ratings, names, within, asked, spark)
    model.save(output)
    found = {
        "model": asked.name,
        "sweeps": model.n_iter_,
        "objective": model.objectives_[-1],
        "seconds": time.perf_counter() - began,
        "output": str(output),
        "bytes": output.stat().st_size,
    }
    if json:
        print_json({"data": summary, **found})
        return
    typer.echo(
        f"{ratings}: {summary['ratings']:,} ratings by {summary['users']:,} users of {summary['items']:,} items\n"
        f"{asked.name} on Spark: {found['sweeps']} sweeps in {found['seconds']:.1f} s, all in, objective "
        f"{in_a_sentence(found['objective'])}\nwrote {output} ({size(found['bytes'])})"
    )


def _summarise(ratings: Ratings) -> dict[str, Any]:
    """What the ratings are like."""
    import numpy as np

    def spread(indptr: Any) -> dict[str, float]:
        counts = np.diff(indptr)
        counts = counts[counts > 0]
        return {"least": int(counts.min()), "median": float(np.median(counts)), "most": int(counts.max())}

    values = ratings.by_user.data
    return {
        "ratings": ratings.n_ratings,
        "users": ratings.n_users,
        "items": ratings.n_items,
        "density": ratings.n_ratings / (ratings.n_users * ratings.n_items),
        "lowest": float(values.min()),
        "highest": float(values.max()),
        "mean": float(values.mean()),
        "std": float(values.std()),
        "ratings_per_user": spread(ratings.by_user.indptr),
        "ratings_per_item": spread(ratings.by_item.indptr),
    }


def _summary_in_words(name: str, summary: Mapping[str, Any]) -> str:
    """The statistics for readers."""

    def spread(kind: str) -> str:
        of = summary[f"ratings_per_{kind}"]
        return f"{in_a_sentence(of['least'])} to {in_a_sentence(of['most'])}, median {in_a_sentence(of['median'])}"

    lowest, highest, mean, std = (in_a_sentence(summary[key]) for key in ("lowest", "highest", "mean", "std"))
    return (
        f"{name}: {summary['ratings']:,} ratings by {summary['users']:,} users of {summary['items']:,} items "
        f"({percent(summary['density'])} of all pairs)\n"
        f"ratings: {lowest} to {highest}, mean {mean}, standard deviation {std}\n"
        f"ratings of a user: {spread('user')}; of an item: {spread('item')}"
    )


def _describe(model: Any, name: str, limits: Limits, seconds: float, output: Path) -> dict[str, Any]:
    found = {
        "model": name,
        **limits.as_json(),
        "sweeps": model.n_iter_,
        "objective": model.objectives_[-1],
        "seconds": seconds,
    }
    if model.fitted_.choices is not None:
        found["affinity"] = True
    if declares(model.predict, "return_range"):
        found["outside_own_range"] = model.infeasible_share_
    return {**found, "output": str(output), "bytes": output.stat().st_size}


def _in_words(result: dict[str, Any], limits: Limits) -> str:
    bounds = "bounds " if limits.rule is None else ""
    text = (
        f"{result['model']}: {bounds}{limits.in_words()}, {result['sweeps']} sweeps in {result['seconds']:.1f} s, "
        f"objective {in_a_sentence(result['objective'])}\n"
    )
    if result.get("outside_own_range"):
        text += f"contradictions: {percent(result['outside_own_range'])} of the ratings lie outside their own range\n"
    if "affinity" in result:
        text += "lists: by affinity and predicted rating together\n"
    return text + f"wrote {result['output']} ({size(result['bytes'])})"
