"""``boundrec evaluate``, ``compare`` and ``tune``: models on ratings that they have not seen."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from boundrec.cli import options
from boundrec.cli.options import Duplicated, ModelName
from boundrec.cli.speaking import print_json, print_table, say

if TYPE_CHECKING:
    from boundrec.cli.measuring import Measured, Split, Trial
    from boundrec.cli.training import Ends, Request
    from boundrec.tables import RatingTable

EVALUATE_EXAMPLES = """Examples:

boundrec evaluate ratings.csv

boundrec evaluate ratings.csv --model mbmf --by-time timestamp --share 0.2

boundrec evaluate train.csv --test test.csv --json

boundrec evaluate test.csv --fitted model.safetensors
"""
COMPARE_EXAMPLES = """Examples:

boundrec compare ratings.csv -o compare.png

boundrec compare ratings.csv --models mbmf,bayesian,nmf,ccd++ -o compare.svg --bounds 1 5

boundrec compare ratings.csv --models all --json
"""
TUNE_EXAMPLES = """Examples:

boundrec tune ratings.csv

boundrec tune ratings.csv --k 10,20,40

boundrec tune ratings.csv --model mbmf --k 10,20 --grid ridge=auto,0.05,0.1 --grid slack=1,1.5
"""
#: What tune tries where nothing else is asked for, by the model's settings.
USUAL_RIDGES = "0.02,0.05,0.1"
USUAL_FACTORS = "10,20,40"
#: The exit code of what Ctrl-C has ended, as shells have it.
INTERRUPTED = 130


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
            help="Measure this model file on all of RATINGS, without a fit.",
            rich_help_panel=options.SPLIT,
        ),
    ] = None,
    share: options.Share = 0.1,
    by_time: options.ByTime = None,
    length: options.Length = 10,
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
    seed: options.Seed = 0,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Fit a model to one part of the ratings and measure it on the other.

    RMSE and MAE are those of the held-out ratings; "outside" is the share of predictions that leave the bounds.

    NDCG, recall, precision and MRR are of top lists of all unseen items, against held-out ratings of at least the mean.

    What is trivial is measured as well: a mean with user and item offsets, and lists of what most have rated.
    """
    from boundrec.cli import measuring, training
    from boundrec.tables import Columns

    if fitted is not None:
        _evaluate_fitted(fitted, ratings, Columns(user, item, rating), header, length, json)
        return
    typed = training.read_bounds(bounds) or training.UNKNOWN
    asked = training.Request(model, typed, k, sweeps, seed, threads, training.parse_settings(settings))
    asked.model()
    table = training.read_table(ratings, Columns(user, item, rating, by_time), header).settled(duplicates)
    request = asked.with_bounds(training.choose_bounds(bounds, table))
    if test is None:
        split = measuring.divide(table, share, seed)
    else:
        split = measuring.Split(table, training.read_same_columns(test, table, header).settled(duplicates))
    past = None
    if history is not None:
        past = training.read_same_columns(history, table, header).settled(duplicates).to_ratings()
    say(measuring.split_in_words(split))
    trial = measuring.Trial.of(split, request.bounds, length)
    results = measuring.measure_trivial(trial)
    results.append(measuring.fit_and_measure(request, trial, past))
    _show(results, request.bounds, split, json)


def _evaluate_fitted(path: Path, ratings: Path, columns: Any, header: bool | None, length: int, json: bool) -> None:
    from boundrec.cli import measuring, training
    from boundrec.cli.answering import load_model, name_of

    model = load_model(path)
    table = training.read_table(ratings, columns, header)
    table = table.with_ids_like(model.user_ids_, model.item_ids_).settled("last")
    trial = measuring.Trial(measuring.Learnt.by(model), table, training.bounds_of(model), length)
    results = measuring.measure_trivial(trial)
    if trial.learnt.ratings is None:
        say("No mean + offsets: the model file holds no ratings to take them from (boundrec fit --keep-ratings does).")
    results.append(measuring.measure(model, name_of(model), trial))
    _show(results, trial.bounds, None, json)


def _show(results: list[Measured], bounds: Ends, split: Split | None, json: bool) -> None:
    from boundrec.cli import measuring

    if json:
        parts = {} if split is None else {"training_ratings": len(split.training), "test_ratings": len(split.test)}
        cold = {} if split is None else {"new_share": float(split.cold().mean())}
        print_json({**parts, **cold, "bounds": list(bounds), "results": [result.as_json() for result in results]})
    else:
        print_table(measuring.columns(results, bounds), [measuring.row(result, results) for result in results])
        say("popularity: the items with the most training ratings first; it predicts no rating.")


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
    user: options.UserColumn = None,
    item: options.ItemColumn = None,
    rating: options.RatingColumn = None,
    header: options.Header = None,
    bounds: options.Bounds = None,
    duplicates: options.Duplicates = Duplicated.RAISE,
    k: options.Factors = 20,
    sweeps: options.Sweeps = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Fit several models to the same ratings and measure them on the same held-out ones: a table and a plot.

    A mean with user and item offsets and a list of what most have rated are always among them: what is not better than
    these has learnt nothing.

    A model that fails has a row that says so, and the others go on; the exit code is 1 only if all of them fail, and 2,
    without a table, if none of them goes with the options.
    Ctrl-C ends the comparison with what is finished.
    """
    from boundrec.cli import measuring, training
    from boundrec.files import check_writable
    from boundrec.tables import Columns

    names = _names(models)
    if output.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise typer.BadParameter(f"--output {output.name}: the plot is a PNG, an SVG or a PDF, by the ending.")
    options.refuse_to_overwrite_input(output, ratings)
    check_writable(output, "plot")
    typed = training.read_bounds(bounds) or training.UNKNOWN
    asked = [training.Request(name, typed, k, sweeps, seed, threads) for name in names]
    _refuse_if_all_are_wrong(asked)
    table = training.read_table(ratings, Columns(user, item, rating, by_time), header).settled(duplicates)
    ends = training.choose_bounds(bounds, table)
    split = measuring.divide(table, share, seed)
    say(measuring.split_in_words(split))
    trial = measuring.Trial.of(split, ends, length)
    trivial = measuring.measure_trivial(trial)
    tried = _try_all([(request.name.value, request.with_bounds(ends)) for request in asked], trial)
    results = sorted([*trivial, *tried.results], key=_by_error)
    _show(results, ends, split, json)
    _draw(results, ends, split, output)
    say(f"Wrote {output}")
    tried.end("model")


def _names(text: str) -> list[ModelName]:
    if text.strip() == "all":
        return list(ModelName)
    known = [name.value for name in ModelName]
    asked = [name.strip() for name in text.split(",") if name.strip()]
    strange = [name for name in asked if name not in known]
    if strange or not asked:
        what = f"there is no model {strange[0]!r}" if strange else "names no model"
        raise typer.BadParameter(f"--models {text}: {what}. There are: {', '.join(known)}, and all.")
    return [ModelName(name) for name in dict.fromkeys(asked)]


def _refuse_if_all_are_wrong(asked: list[Request], in_grid: Sequence[str] = ()) -> None:
    """What is asked wrongly is refused before the file is read, unless something is asked rightly.

    Settings ``in_grid`` were given by --grid, not by --set.
    """
    refused = []
    for request in asked:
        try:
            request.model()
        except typer.BadParameter as error:
            refused.append(error)
    if len(refused) == len(asked):
        for name in in_grid:
            refused[0].message = refused[0].message.replace(f"--set {name}=", f"--grid {name}=")
        raise refused[0]


class Tried(NamedTuple):
    """The results of some requests, in their order: of all, or of those that were finished before Ctrl-C."""

    results: list[Measured]
    interrupted: bool

    def end(self, what: str) -> None:
        """End with the exit code that the results deserve, now that they are shown."""
        if self.interrupted:
            raise typer.Exit(INTERRUPTED)
        if all(result.error is not None for result in self.results):
            raise ValueError(f"No {what} could be fitted and measured: see above why.")


def _try_all(requests: Sequence[tuple[str, Request]], trial: Trial) -> Tried:
    """Fit and measure one after the other; what fails is a result as well, and Ctrl-C keeps what is finished."""
    from boundrec.cli import measuring

    results: list[Measured] = []
    try:
        for name, request in requests:
            found = measuring.fit_or_fail(request, trial)
            results.append(found)
            if found.error is None:
                say(f"{name}: RMSE {found.rmse:.4f} after {found.seconds:.1f} s")
            else:
                say(f"{name} failed: {found.error}")
    except KeyboardInterrupt:
        say(f"Interrupted: {len(results)} of {len(requests)} are finished.")
        return Tried(results, interrupted=True)
    return Tried(results, interrupted=False)


def _by_error(result: Measured) -> tuple[bool, bool, float]:
    """The least error first, then what predicts no ratings, then what failed."""
    return result.error is not None, math.isnan(result.rmse), result.rmse


def _draw(results: list[Measured], bounds: Ends, split: Split, output: Path) -> None:
    from boundrec.files import whole_file
    from boundrec.report.drawing import draw_comparison, save

    predicting = [result for result in results if not math.isnan(result.rmse)]
    canvas = draw_comparison(predicting, bounds, len(split.test))
    with whole_file(output) as file:
        save(canvas, file, output.suffix[1:].lower())


def tune(
    ratings: options.RatingsFile,
    k: Annotated[
        str, typer.Option("--k", "-k", metavar="NUMBERS", help="Lengths of the factors, with commas between them.")
    ] = USUAL_FACTORS,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES",
            help="Values of a setting of the model, with commas between them; may be repeated.",
            show_default=f"ridge={USUAL_RIDGES} where the model has a ridge",
        ),
    ] = None,
    share: options.Share = 0.1,
    by_time: options.ByTime = None,
    user: options.UserColumn = None,
    item: options.ItemColumn = None,
    rating: options.RatingColumn = None,
    header: options.Header = None,
    bounds: options.Bounds = None,
    duplicates: options.Duplicates = Duplicated.RAISE,
    model: options.Model = ModelName.BAYESIAN,
    sweeps: options.Sweeps = None,
    settings: options.Settings = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Try a small grid of settings on held-out ratings and print the command that fits with the best.

    All are judged by the same held-out ratings; the best one's error on them flatters it a little. A mean with user and
    item offsets is among them: settings that are not better than that have learnt nothing.

    Settings that fail have a row that says so, and the others go on; the exit code is 1 only if all of them fail, and
    2, without a table, if none of them makes sense.
    Ctrl-C ends the search with what is finished.
    """
    from boundrec.cli import measuring, training
    from boundrec.tables import Columns

    fixed = training.parse_settings(settings)
    typed = training.read_bounds(bounds) or training.UNKNOWN
    tried = list(_grid(k, grid, model, fixed))
    asked = [
        training.Request(model, typed, factors, sweeps, seed, threads, {**fixed, **values}) for factors, values in tried
    ]
    _refuse_if_all_are_wrong(asked, in_grid=list(tried[0][1]))
    table = training.read_table(ratings, Columns(user, item, rating, by_time), header).settled(duplicates)
    ends = training.choose_bounds(bounds, table)
    split = measuring.divide(table, share, seed)
    say(measuring.split_in_words(split))
    trial = measuring.Trial.of(split, ends, None)
    trivial = measuring.measure_trivial(trial)
    names = [_pairs({"k": factors, **values}) for factors, values in tried]
    found = _try_all([(name, one.with_bounds(ends)) for name, one in zip(names, asked, strict=True)], trial)
    rows = [Candidate(*which, result) for which, result in zip(tried, found.results, strict=False)]
    rows.sort(key=lambda row: _by_error(row.measured))
    best = None
    if rows and rows[0].measured.error is None:
        data = _data_words(ratings, table, header, ends, duplicates)
        best = shlex.join(["boundrec", "fit", *data, *_model_words(model, rows[0], fixed, sweeps, seed)])
    _show_grid(rows, trivial, best, json)
    found.end("candidate")


class Candidate(NamedTuple):
    """One combination of settings, and what came of it."""

    k: int
    values: dict[str, Any]
    measured: Measured

    def as_json(self) -> dict[str, Any]:
        """Settings and figures by name."""
        figures = self.measured.as_json()
        names = [name for name in ("rmse", "mae", "seconds", "error") if name in figures]
        return {"k": self.k, **self.values, **{name: figures[name] for name in names}}


def _show_grid(rows: list[Candidate], trivial: list[Measured], best: str | None, json: bool) -> None:
    from boundrec.cli import measuring

    if json:
        results, rivals = [row.as_json() for row in rows], [result.as_json() for result in trivial]
        print_json({"results": results, "trivial": rivals, "command": best})
        return
    names = list(rows[0].values) if rows else []
    lines = [(row.measured, [str(row.k), *(str(row.values[name]) for name in names)]) for row in rows]
    lines += [(result, [result.name, *[measuring.NO_FIGURE] * len(names)]) for result in trivial]
    lines.sort(key=lambda line: _by_error(line[0]))
    print_table(["k", *names, "RMSE", "MAE", "seconds"], [measuring.short_row(*line) for line in lines])
    if best is not None:
        typer.echo(f"\n{best}")


def _grid(
    k: str, grid: list[str] | None, model: ModelName, fixed: dict[str, Any]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every combination, as the length of the factors and the other settings."""
    import boundrec
    from boundrec.cli.training import MODELS, parse_value

    try:
        factors = [int(one) for one in k.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--k {k}: give whole numbers with commas between them, such as 10,20,40.") from None
    home, _ = MODELS[model]
    if grid is None:
        ridge = getattr(boundrec, home)().get_params().get("ridge", "none") if "ridge" not in fixed else "none"
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
    ratings: Path, table: RatingTable, header: bool | None, bounds: Ends, duplicates: Duplicated
) -> list[str]:
    from boundrec.cli.training import as_typed

    words = [str(ratings), "-o", "model.safetensors"]
    words += [] if header is None else ["--header" if header else "--no-header"]
    for role in ("user", "item", "rating"):
        words += [f"--{role}", table.names[role]]
    words += ["--bounds", *map(as_typed, bounds)]
    return words + (["--duplicates", duplicates.value] if duplicates is not Duplicated.RAISE else [])


def _model_words(model: ModelName, best: Candidate, fixed: dict[str, Any], sweeps: int | None, seed: int) -> list[str]:
    words = ["--model", model.value, "--k", str(best.k)]
    words += ["--sweeps", str(sweeps)] if sweeps is not None else []
    for name, value in {**fixed, **best.values}.items():
        words += ["--set", f"{name}={value}"]
    return words + (["--seed", str(seed)] if seed else [])
