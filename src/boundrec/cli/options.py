"""Arguments and options that several commands share."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from boundrec import registry
from boundrec.cli import side_information
from boundrec.files import check_writable

#: What `fit` fits where nothing else is asked for.
USUAL_MODEL = "bayesian"
DATA = "Data"
MODEL = "Model"
BESIDE = "Besides ratings"
SPLIT = "Held-out ratings"
ELSEWHERE = "On a cluster"
#: No model has more.
MOST_ITEMS = 2**31 - 1


class Engines(StrEnum):
    """Where a fit runs."""

    HERE = "here"
    SPARK = "spark"


class SortedBy(StrEnum):
    """What lists are sorted by."""

    RATING = "rating"
    LOWER = "lower"
    BLEND = "blend"


class Duplicated(StrEnum):
    """What happens to pairs that come more than once."""

    RAISE = "raise"
    LAST = "last"
    MEAN = "mean"
    SUM = "sum"


def model_names() -> list[str]:
    """What the command calls the models there are."""
    return [entry.command for entry in registry.MODELS]


def known_model(name: str) -> str:
    """The name, if a model has it."""
    if name not in model_names():
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, model_names()))}.")
    return name


RatingsFile = Annotated[
    Path, typer.Argument(metavar="RATINGS", help="CSV, TSV, Parquet or NDJSON, gzipped or not; - is standard input.")
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file that boundrec fit has written.")]

UserColumn = Annotated[
    str | None, typer.Option("--user", help="Column of the users.", show_default="guessed", rich_help_panel=DATA)
]
ItemColumn = Annotated[
    str | None, typer.Option("--item", help="Column of the items.", show_default="guessed", rich_help_panel=DATA)
]
RatingColumn = Annotated[
    str | None, typer.Option("--rating", help="Column of the ratings.", show_default="guessed", rich_help_panel=DATA)
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line names the columns; without names they are 1, 2, 3 ...",
        rich_help_panel=DATA,
        show_default="guessed",
    ),
]
Bounds = Annotated[
    tuple[str, str] | None,
    typer.Option(
        metavar="LOW HIGH",
        help='What every rating obeys, such as 0.5 5; "none" for an open end, such as 0 none.',
        rich_help_panel=DATA,
        show_default="the observed range",
    ),
]
Lower = Annotated[
    str | None,
    typer.Option(
        "--lower",
        metavar="COLUMN",
        help="Column of the lower end of each row's own range, or a number such as 0 for all rows.",
        rich_help_panel=DATA,
    ),
]
Upper = Annotated[
    str | None,
    typer.Option(
        "--upper",
        metavar="COLUMN",
        help="Column of the upper end of each row's own range, such as a capacity, or a number for all rows.",
        rich_help_panel=DATA,
    ),
]
BoundsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A table of ranges, lower and upper, for users, for items or for pairs: its columns tell. "
        "--lower and --upper name other columns of it.",
        rich_help_panel=DATA,
    ),
]
Duplicates = Annotated[
    Duplicated | None,
    typer.Option(
        help="Pairs that come more than once: refuse them, or take the last, the mean or the sum.",
        show_default="raise, and sum for implicit",
        rich_help_panel=DATA,
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar=f"<{'|'.join(model_names())}>",
        parser=known_model,
        autocompletion=model_names,
        help="Which model to fit: bayesian is the most accurate, mbmf the fastest with bounds, implicit is for lists "
        "from clicks and counts.",
        rich_help_panel=MODEL,
    ),
]
History = Annotated[
    Path | None,
    typer.Option(
        help="Past ratings (same columns) that give every user and item a range of its own.", rich_help_panel=MODEL
    ),
]
UserFeatures = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What is known of users: a table with a column of their ids, called as in RATINGS, and columns of "
        "numbers or of text. Who has features and no ratings is answered by them. For bayesian and implicit.",
        rich_help_panel=BESIDE,
    ),
]
ItemFeatures = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="What is known of items: a table of the same kind.", rich_help_panel=BESIDE),
]
Implicit = Annotated[
    side_information.Implicit | None,
    typer.Option(
        help="Whether bayesian also learns from who rated what: from the sets of items that users have rated, of users "
        "who rated items, both, or neither.",
        show_default="auto: as the data have it",
        rich_help_panel=BESIDE,
    ),
]
Noise = Annotated[
    side_information.Noise | None,
    typer.Option(
        help="Whether bayesian has one noise for all ratings, or each user's and item's own.",
        show_default="auto: own, unless tails are heavy",
        rich_help_panel=BESIDE,
    ),
]
Affinity = Annotated[
    bool,
    typer.Option(
        "--affinity",
        help="Also learn who chooses what, for lists that are sorted by both; bayesian and mbmf can.",
        rich_help_panel=BESIDE,
    ),
]
Factors = Annotated[
    int | None,
    typer.Option(
        "--k",
        "-k",
        min=1,
        help="Length of the factors.",
        show_default="20, and 64 for implicit",
        rich_help_panel=MODEL,
    ),
]
Sweeps = Annotated[
    int | None,
    typer.Option(min=1, help="At most so many sweeps.", show_default="the model's", rich_help_panel=MODEL),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting of the model, such as ridge=0.1 or magnitudes=history; may be repeated.",
        rich_help_panel=MODEL,
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the model and of splits.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads.", show_default="every core")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Share = Annotated[
    float, typer.Option(help="Share of the ratings to hold out, above 0 and below 1.", rich_help_panel=SPLIT)
]
ByTime = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Hold out the latest ratings by this column, numbers or dates, instead of random ones.",
        rich_help_panel=SPLIT,
    ),
]
Length = Annotated[int, typer.Option("-n", "--length", min=1, max=MOST_ITEMS, help="Length of each list.")]
Liked = Annotated[
    float | None,
    typer.Option(
        metavar="RATING",
        help="Held-out ratings of at least this are what good lists have in them.",
        show_default="the mean training rating, and everything for implicit",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Where to write the rows: .csv, .tsv or .ndjson, each also with .gz, or .parquet.",
        show_default="CSV to standard output",
    ),
]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object a line instead of CSV.")]


def check_output(output: Path, what: str, *sources: Path | None) -> None:
    """Refuse, before any work is done, a file that could not be written in the end, or that is one of the sources."""
    if str(output) == "-":
        raise typer.BadParameter("--output -: this cannot go to standard output: name a file.")
    _refuse_to_overwrite(output, *sources)
    check_writable(output, what)


def check_rows_output(output: Path | None, what: str, json: bool, *sources: Path | None) -> None:
    """As `check_output`, for rows: their format is known by the file's ending, and they may go to standard output."""
    from boundrec.cli.table_files import format_of

    if output is None:
        return
    _refuse_to_overwrite(output, *sources)
    if json:
        raise typer.BadParameter("--json is for standard output: name the file .ndjson instead.")
    format_of(output)
    check_writable(output, what)


def _refuse_to_overwrite(output: Path, *sources: Path | None) -> None:
    """Refuse to write where something is read; what is read from may be a link, or stdin."""
    if not output.is_file():
        return
    for source in sources:
        read = 0 if str(source) == "-" else source
        if read is not None and os.path.exists(read) and os.path.samefile(read, output):
            raise typer.BadParameter(f"--output {output} is the file that is read: name another.")


Engine = Annotated[
    Engines,
    typer.Option(help="Where to fit: here, or on Spark (the extra spark, and Java).", rich_help_panel=ELSEWHERE),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Spark's master, such as local[2] or spark://host:7077.",
        show_default="as configured",
        rich_help_panel=ELSEWHERE,
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="A folder that Spark writes to, for the fit to go on from if it is stopped.",
        rich_help_panel=ELSEWHERE,
    ),
]
Partitions = Annotated[
    int | None,
    typer.Option(min=1, help="Tasks of a half-step.", show_default="one a block", rich_help_panel=ELSEWHERE),
]
