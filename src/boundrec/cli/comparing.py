"""``boundrec evaluate``, ``compare`` and ``tune``: models on ratings that they have not seen."""

from __future__ import annotations

import shlex
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boundrec.cli import options
from boundrec.cli.options import Duplicated, ModelName
from boundrec.cli.speaking import print_json, print_table, say

if TYPE_CHECKING:
    from boundrec.cli.measuring import Measured, Split
    from boundrec.cli.training import Ends
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

boundrec tune ratings.csv --model mbmf --k 10,20 --grid ridge=0.02,0.05,0.1 --grid slack=1,1.5
"""
#: What tune tries where nothing else is asked for, by the model's settings.
USUAL_RIDGES = "0.02,0.05,0.1"
USUAL_FACTORS = "10,20,40"


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
    results = [
        measuring.measure_means(split, request.bounds),
        measuring.fit_and_measure(request, split, length, past),
    ]
    _show(results, request.bounds, split, json)


def _evaluate_fitted(path: Path, ratings: Path, columns: Any, header: bool | None, length: int, json: bool) -> None:
    from boundrec.cli import measuring, training
    from boundrec.cli.answering import load_model, name_of

    model = load_model(path)
    table = training.read_table(ratings, columns, header)
    table = table.with_ids_like(model.user_ids_, model.item_ids_).settled("last")
    bounds = training.bounds_of(model)
    result = measuring.measure(model, name_of(model), table, bounds, length)
    _show([result], bounds, None, json)


def _show(results: list[Measured], bounds: Ends, split: Split | None, json: bool) -> None:
    from boundrec.cli import measuring

    if json:
        parts = {} if split is None else {"training_ratings": len(split.training), "test_ratings": len(split.test)}
        cold = {} if split is None else {"new_share": float(split.cold().mean())}
        print_json({**parts, **cold, "bounds": list(bounds), "results": [result.as_json() for result in results]})
    else:
        print_table(measuring.columns(results, bounds), [measuring.row(result, results) for result in results])


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

    A mean with user and item offsets is always among them: what is not better than that has learnt nothing.
    """
    from boundrec.cli import measuring, training
    from boundrec.files import check_writable
    from boundrec.tables import Columns

    names = _names(models)
    if output.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise typer.BadParameter(f"--output {output.name}: the plot is a PNG, an SVG or a PDF, by the ending.")
    check_writable(output, "plot")
    typed = training.read_bounds(bounds) or training.UNKNOWN
    asked = [training.Request(name, typed, k, sweeps, seed, threads) for name in names]
    for request in asked:
        request.model()
    table = training.read_table(ratings, Columns(user, item, rating, by_time), header).settled(duplicates)
    ends = training.choose_bounds(bounds, table)
    split = measuring.divide(table, share, seed)
    say(measuring.split_in_words(split))
    results = [measuring.measure_means(split, ends)]
    for request in asked:
        results.append(measuring.fit_and_measure(request.with_bounds(ends), split, length))
        say(f"{request.name.value}: RMSE {results[-1].rmse:.4f} after {results[-1].seconds:.1f} s")
    results.sort(key=lambda result: result.rmse)
    _draw(results, ends, split, output)
    _show(results, ends, split, json)
    say(f"Wrote {output}")


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


def _draw(results: list[Measured], bounds: Ends, split: Split, output: Path) -> None:
    from boundrec.files import whole_file
    from boundrec.report.drawing import draw_comparison, save

    canvas = draw_comparison(results, bounds, len(split.test))
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

    All are judged by the same held-out ratings; the best one's error on them flatters it a little.
    """
    from boundrec.cli import measuring, training
    from boundrec.tables import Columns

    fixed = training.parse_settings(settings)
    typed = training.read_bounds(bounds) or training.UNKNOWN
    tried = list(_grid(k, grid, model, fixed))
    asked = [
        training.Request(model, typed, factors, sweeps, seed, threads, {**fixed, **values}) for factors, values in tried
    ]
    for request in asked:
        request.model()
    table = training.read_table(ratings, Columns(user, item, rating, by_time), header).settled(duplicates)
    ends = training.choose_bounds(bounds, table)
    split = measuring.divide(table, share, seed)
    say(measuring.split_in_words(split))
    results = []
    for request, (factors, values) in zip(asked, tried, strict=True):
        found = measuring.fit_and_measure(request.with_bounds(ends), split, None)
        results.append({"k": factors, **values, "rmse": found.rmse, "mae": found.mae, "seconds": found.seconds})
        say(f"k={factors} {_pairs(values)}: RMSE {found.rmse:.4f} after {found.seconds:.1f} s")
    results.sort(key=lambda result: result["rmse"])
    chosen = [*_data_words(ratings, table, ends, duplicates), *_model_words(model, results[0], fixed, sweeps, seed)]
    best = shlex.join(["boundrec", "fit", *chosen])
    if json:
        print_json({"results": results, "command": best})
        return
    heads = [name.upper() if name in ("rmse", "mae") else name for name in results[0]]
    print_table(heads, [[_shown(name, value) for name, value in result.items()] for result in results])
    typer.echo(f"\n{best}")


def _grid(k: str, grid: list[str] | None, model: ModelName, fixed: dict[str, Any]) -> Any:
    """Every combination, as the length of the factors and the other settings."""
    import boundrec
    from boundrec.cli.training import MODELS, parse_value

    try:
        factors = [int(one) for one in k.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--k {k}: give whole numbers with commas between them, such as 10,20,40.") from None
    home, _ = MODELS[model]
    if grid is None:
        has_ridge = "ridge" in getattr(boundrec, home)().get_params() and "ridge" not in fixed
        grid = [f"ridge={USUAL_RIDGES}"] if has_ridge else []
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


def _shown(name: str, value: Any) -> str:
    return f"{value:.4f}" if name in ("rmse", "mae") else f"{value:.1f}" if name == "seconds" else str(value)


def _data_words(ratings: Path, table: RatingTable, bounds: Ends, duplicates: Duplicated) -> list[str]:
    words = [str(ratings), "-o", "model.safetensors"]
    for role in ("user", "item", "rating"):
        words += [f"--{role}", table.names[role]]
    words += ["--bounds", *("none" if end is None else f"{end:g}" for end in bounds)]
    return words + (["--duplicates", duplicates.value] if duplicates is not Duplicated.RAISE else [])


def _model_words(
    model: ModelName, best: dict[str, Any], fixed: dict[str, Any], sweeps: int | None, seed: int
) -> list[str]:
    words = ["--model", model.value, "--k", str(best["k"])]
    words += ["--sweeps", str(sweeps)] if sweeps is not None else []
    chosen = {name: value for name, value in best.items() if name not in ("k", "rmse", "mae", "seconds")}
    for name, value in {**fixed, **chosen}.items():
        words += ["--set", f"{name}={value}"]
    return words + (["--seed", str(seed)] if seed else [])
