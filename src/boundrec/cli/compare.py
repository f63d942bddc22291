"""``boundrec compare``: several models on the same held-out ratings."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from boundrec.cli import options
from boundrec.cli.bounds import AskedBounds
from boundrec.cli.console import say
from boundrec.cli.model_request import Request, refuse_affinity, with_affinity
from boundrec.cli.side_information import AskedBeside
from boundrec.registry import learns_clicks

EXAMPLES = """Examples:

boundrec compare ratings.csv -o compare.png

boundrec compare ratings.csv --models mbmf,bayesian,nmf,ccd++ -o compare.svg --bounds 1 5

boundrec compare flights.csv --user from --item to --rating passengers --lower 0 --upper seats

boundrec compare ratings.csv --item-features films.csv --models bayesian,mbmf

boundrec compare ratings.csv --models bayesian,implicit --liked 4 -n 20

boundrec compare ratings.csv --affinity --models bayesian,mbmf

boundrec compare ratings.csv --models all --json
"""


def compare(
    ratings: options.RatingsFile,
    models: Annotated[
        str, typer.Option(metavar="NAMES", help='Models to compare, with commas between them, or "all".')
    ] = "bayesian,mbmf,mf",
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the plot (PNG, SVG or PDF).")] = Path(
        "boundrec-compare.png"
    ),
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
    user_features: options.UserFeatures = None,
    item_features: options.ItemFeatures = None,
    implicit: options.Implicit = None,
    noise: options.Noise = None,
    affinity: options.Affinity = False,
    k: options.Factors = None,
    sweeps: options.Sweeps = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Fit several models to the same ratings and measure them on the same held-out ones: a table and a plot.

    A mean with user and item offsets and a list of what most have rated are always among them: what is not better than
    these has learnt nothing.

    Lists are of all unseen items, and good ones have the held-out ratings of at least the mean in them, or of at least
    --liked; boundrec evaluate --help says what the figures are. Where all models are of clicks, good lists have
    everything that is held out in them, and there are no errors and no plot.

    Where every pair has a range of its own, models that can only take one for all get the observed range, and the table
    says how many of their predictions leave their pair's range.

    Features are for bayesian and implicit, --implicit and --noise for bayesian; other models learn from the ratings
    alone. With --affinity the lists of bayesian and mbmf are sorted by who chooses what and by predicted rating
    together.

    A model that fails has a row that says so, and the others go on; the exit code is 1 only if all of them fail, and 2,
    without a table, if none of them goes with the options.
    Ctrl-C ends the comparison with what is finished.
    """
    from boundrec.cli import held_out
    from boundrec.cli.rating_tables import ColumnNames, read_table
    from boundrec.report.plots import write_comparison

    names = _names(models)
    if output.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise typer.BadParameter(f"--output {output.name}: the plot is a PNG, an SVG or a PDF, by the ending.")
    beside = AskedBeside(user_features, item_features, implicit, noise)
    options.check_output(output, "plot", ratings, bounds_file, *beside.files.values())
    within = AskedBounds(bounds, lower, upper, bounds_file)
    beside.refuse_for(names)
    within.refuse_for(names)
    refuse_affinity(affinity, names)
    others = {name: with_affinity(affinity, name, beside.settings_for(name)) for name in names}
    asked = [Request(name, within.typed(), k, sweeps, seed, threads, others[name]) for name in names]
    held_out.refuse_if_all_are_wrong(asked)
    columns = ColumnNames(user, item, rating, by_time, **within.of_rows())
    rows = read_table(ratings, columns, header, clicks=learns_clicks(*names))
    table, limits = within.settle(rows.settled(duplicates))
    parts = held_out.divide(table, share, seed)
    features = beside.read(table, header)
    say(parts.in_words())
    trial = held_out.Trial.of(parts, limits, length, features, liked, rows.clicks)
    trivial = held_out.measure_trivial(trial)
    held_out.say_who_has_one_range(names, limits)
    tried = held_out.try_all([(request.name, request.within(limits)) for request in asked], trial)
    results = sorted([*trivial, *tried.results], key=held_out.by_lists if rows.clicks else held_out.by_error)
    held_out.show(results, limits, parts, json)
    drawn = [result for result in results if not math.isnan(result.rmse)]
    if drawn:
        write_comparison(drawn, limits.bounds if limits.rule is None else None, parts.test.n_ratings, output)
        say(f"Wrote {output}")
    else:
        say(f"No plot in {output}: it is of errors, and models of clicks predict no ratings.")
    tried.end("model")


def _names(text: str) -> list[str]:
    known = options.model_names()
    if text.strip() == "all":
        return known
    asked = [name.strip() for name in text.split(",") if name.strip()]
    strange = [name for name in asked if name not in known]
    if strange or not asked:
        what = f"there is no model {strange[0]!r}" if strange else "names no model"
        raise typer.BadParameter(f"--models {text}: {what}. There are: {', '.join(known)}, and all.")
    return list(dict.fromkeys(asked))
