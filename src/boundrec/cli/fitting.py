"""``boundrec fit``: a table of ratings in, a model file out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from boundrec.cli import options
from boundrec.cli.options import Duplicated, ModelName
from boundrec.cli.speaking import print_json
from boundrec.report.words import in_a_sentence, percent, size

EXAMPLES = """Examples:

boundrec fit ratings.csv -o model.safetensors

boundrec fit ratings.csv -o model.safetensors --user userId --item movieId --rating rating --bounds 0.5 5

boundrec fit plays.tsv.gz -o model.safetensors --rating count --bounds 0 none --model mbmf

zcat ratings.csv.gz | boundrec fit - -o model.safetensors --json
"""


def fit(
    ratings: options.RatingsFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")],
    user: options.UserColumn = None,
    item: options.ItemColumn = None,
    rating: options.RatingColumn = None,
    header: options.Header = None,
    bounds: options.Bounds = None,
    duplicates: options.Duplicates = Duplicated.RAISE,
    model: options.Model = ModelName.BAYESIAN,
    history: options.History = None,
    k: options.Factors = 20,
    sweeps: options.Sweeps = None,
    settings: options.Settings = None,
    keep_ratings: Annotated[
        bool, typer.Option("--keep-ratings", help="Keep the ratings in the file, for partial_fit.")
    ] = False,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Fit a model to a table of ratings and write it to a file.

    Columns with usual names are found; messages say which.

    Ctrl-C ends the fit early and keeps the model of the last whole sweep.
    """
    from boundrec.cli import training
    from boundrec.files import check_writable, is_special
    from boundrec.tables import Columns

    options.refuse_standard_output(output)
    options.refuse_to_overwrite_input(output, ratings, history)
    check_writable(output, "model")
    if is_special(output):
        raise OSError(f"Cannot write the model: {output} is a device or a pipe. Pass the name of a file with --output.")
    asked = training.Request(
        model,
        training.read_bounds(bounds) or training.UNKNOWN,
        k,
        sweeps,
        seed,
        threads,
        training.parse_settings(settings),
    )
    asked.model()  # what is asked wrongly is refused before the file is read
    table = training.read_table(ratings, Columns(user, item, rating), header).settled(duplicates)
    summary = training.summarise(table)
    if not json:
        typer.echo(training.summary_in_words(table.file.name, summary))
    request = asked.with_bounds(training.choose_bounds(bounds, table))
    past = None
    if history is not None:
        past = training.read_same_columns(history, table, header).settled(duplicates).to_ratings()
    data = table.to_ratings()
    del table  # what the fit works on is in data
    chosen = request.model()
    seconds = training.train(chosen, data, model.value, past, keep_when_interrupted=True)
    chosen.save(output, keep_ratings=keep_ratings)
    result = _describe(chosen, model.value, request.bounds, seconds, output)
    if json:
        print_json({"data": summary, **result})
    else:
        typer.echo(_in_words(result))


def _describe(model: Any, name: str, bounds: Any, seconds: float, output: Path) -> dict[str, Any]:
    found = {
        "model": name,
        "bounds": list(bounds),
        "sweeps": model.n_iter_,
        "objective": model.objectives_[-1],
        "seconds": seconds,
    }
    if hasattr(model, "infeasible_share_"):
        found["outside_own_range"] = model.infeasible_share_
    return {**found, "output": str(output), "bytes": output.stat().st_size}


def _in_words(result: dict[str, Any]) -> str:
    low, high = ("none" if end is None else in_a_sentence(end) for end in result["bounds"])
    text = (
        f"{result['model']}: bounds {low} to {high}, {result['sweeps']} sweeps in {result['seconds']:.1f} s, "
        f"objective {in_a_sentence(result['objective'])}\n"
    )
    if result.get("outside_own_range"):
        text += f"contradictions: {percent(result['outside_own_range'])} of the ratings lie outside their own range\n"
    return text + f"wrote {result['output']} ({size(result['bytes'])})"
