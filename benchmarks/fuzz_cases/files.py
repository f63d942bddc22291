"""Tables at the command: well formed ones, odd ones and damaged ones, through the commands that read them."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import boundrec
from benchmarks.fuzz_cases.oracles import BrokenRuleError, Witness, described, is_sentence, require
from benchmarks.fuzz_cases.values import Rng, chance, pick, some_ratings

Columns = dict[str, list[Any]]

NAMES = [("user", "item", "rating"), ("userId", "movieId", "rating"), ("u", "i", "r"), ("a", "b", "c")]
TEXTS = ["", " ", '"', "'", ",", "a,b", "\t", "\u00a0", "nan", "NaN", "inf", "-", "1e400", "1e200", "0x1", "1_000"]
TEXTS += ["é", "\ud800", "\x00", "a\nb", "a\r\nb", '""', "|", ";", "None", "007", "-0", "9" * 25, "x" * 140_000, "[1]"]
JSON_VALUES: list[Any] = [None, True, [1], {}, {"a": [1]}, [], "", "\ud800", 10**30, 10**400, 1e200, "1", float("nan")]
JSON_LINES = ["", "null", "[1]", "1", "{}", "{", "[" * 5000, '{"a":' * 5000, '{"user":"\\ud800"}']
JSON_LINES += ['{"user":1,"user":2,"item":1,"rating":1}', '{"user":1,"item":1,"rating":1e400}']
#: Files that are next to nothing.
SCRAPS = [b"", b",", b"|", b'""', b"\xc2\xa0", b"\n\n", b"\xef\xbb\xbf", b"{", b"[", b"PAR1", b"\0", b"a", b"1,2,3"]
SPLINTERS = [b'"', b",", b"\n", b"\0", b"\xff", b"\r", b"\xc2\xa0", b"{", b"[", b"1", b"e"]
ENCODINGS = ["utf-8-sig", "utf-16", "latin-1", "cp1252", "utf-32"]
BOUNDS = [("0", "5"), ("none", "5"), ("-1e9", "1e9"), ("0", "none"), ("nan", "a"), ("0", "1e999")]
csv.field_size_limit(1 << 30)  # ids may be longer than what Python reads by default
ENDINGS = [".csv", ".tsv", ".ndjson", ".parquet", ".csv.gz"]
#: Exit codes of a command that could not, or was asked wrongly; anything else is the last net's, or a crash.
REFUSALS = (1, 2)
#: What the last net says of what nobody foresaw.
UNFORESEEN = ("Traceback", "unforeseen", "panicked", "--debug")


class Table(NamedTuple):
    """A file: its ending and its bytes, and whether nothing but a refusal is right."""

    ending: str
    content: bytes
    is_wrong: bool = False


class Spoken(NamedTuple):
    """What a command ended with and printed."""

    code: int
    out: str
    err: str


def table(rng: Rng, folder: Path, witness: Witness) -> None:
    """One file, through the commands that may read it."""
    given = some_table(rng)
    path = folder / f"ratings{given.ending}"
    path.write_bytes(given.content)
    for command in _commands(rng, folder, path):
        answered = _run_checked(witness, list(map(str, command)), folder)
        require(not (answered and given.is_wrong), f"{command[0]} reads a table with a field too many in a row")
        if not answered:
            break  # without a model there is nothing to ask for


def _commands(rng: Rng, folder: Path, path: Path) -> list[list[Any]]:
    """A fit and what comes after it, or one question to a model that is there."""
    options = ["--model", pick(rng, ["mbmf", "mbmf", "bayesian", "nmf", "ccd++", "mf"])]
    options += ["-k", 2, "--sweeps", 2, "--threads", 1]
    if chance(rng, 0.3):
        options += ["--duplicates", pick(rng, ["last", "mean"])]
    if chance(rng, 0.2):
        options += ["--bounds", *pick(rng, BOUNDS)]
    reading = [pick(rng, ["--header", "--no-header"])] if chance(rng, 0.1) else []
    if chance(rng, 0.1):
        reading += ["--user", pick(rng, ["1", "user", "0", "", "rating", "é"])]
    known, fitted = folder / "known.safetensors", folder / "model.safetensors"
    known.write_bytes(_known_model())
    answers = folder / f"answers{pick(rng, ENDINGS) if chance(rng, 0.95) else '.xyz'}"
    if chance(rng, 0.5):
        return [
            ["fit", path, "-o", fitted, *options, *reading],
            ["info", fitted],
            ["predict", fitted, path, *reading],
            ["recommend", fitted, "-n", 2],
            ["recommend", fitted, "-o", answers, "-n", 2],
        ]
    asking = [
        ["predict", known, path, *reading],
        ["predict", known, path, "-o", answers, *reading],
        ["recommend", known, "--users", path, "-n", 3],
        ["evaluate", path, "--fitted", known, *reading],
        ["evaluate", path, *options, *reading],
        ["info", path],
        ["similar", known, pick(rng, TEXTS), "i1"],
    ]
    return [pick(rng, asking)]


@cache
def _known_model() -> bytes:
    """The file of a small model, with users that are whole numbers and items that are text."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "known.safetensors"
        pairs = [(user, f"i{item}") for user in range(6) for item in range(6)]
        ratings = [float(1 + (3 * user + item) % 5) for user in range(6) for item in range(6)]
        boundrec.MBMF(2, bounds=(1, 5), max_iter=2, n_jobs=1, random_state=0).fit(pairs, ratings).save(path)
        return path.read_bytes()


# --- running ------------------------------------------------------------------------------------------------


def _run_checked(witness: Witness, asked: list[str], folder: Path) -> bool:
    """Whether a command was answered; it may only be refused in a sentence."""
    shown = f"`{' '.join(asked)}`".replace(str(folder), ".")
    spoken = run_command(asked)
    require(not any(word in spoken.err for word in UNFORESEEN), f"{shown} did not foresee this: {spoken.err[-400:]!r}")
    if spoken.code == 0:
        witness.answered += 1
        _check_rows(shown, asked, spoken)
        return True
    require(spoken.code in REFUSALS, f"{shown} ends with {spoken.code}: {spoken.err[-300:]!r}")
    # What was asked wrongly is answered in a box, everything else in the last line.
    said = "Error" in spoken.err if spoken.code == 2 else is_sentence(spoken.err.strip().rpartition("\n")[2])
    require(said, f"{shown} ends with {spoken.code} and says {spoken.err[-300:]!r}")
    witness.refused += 1
    return False


def run_command(asked: list[str]) -> Spoken:
    """Run ``main`` in this process, as its script does."""
    from boundrec import cli

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    before, sys.argv = sys.argv, ["boundrec", *asked]
    code: Any = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as ended:
        code = ended.code or 0
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of polars is no Exception
        raise BrokenRuleError(f"`{' '.join(asked):.200}` raises {described(error)}") from error
    finally:
        sys.argv = before
    return Spoken(int(code), _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


def _check_rows(shown: str, asked: list[str], spoken: Spoken) -> None:
    """Predictions and recommendations are finite and inside their range."""
    if asked[0] not in ("predict", "recommend"):
        return
    rows: list[dict[str, Any]] = list(csv.DictReader(io.StringIO(spoken.out, newline="")))
    if "-o" in asked:
        rows = _read_back(Path(asked[asked.index("-o") + 1]))
    for row in rows:
        value = float(row["prediction"] if "prediction" in row else row["score"])
        low, high = (float(end) if end not in (None, "") else value for end in (row.get("lower"), row.get("upper")))
        require(np.isfinite(value) and low <= value <= high, f"{shown} answers {row}")


def _read_back(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return pl.read_parquet(path).to_dicts()
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    if path.suffix == ".ndjson":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if path.suffix == ".tsv" else ","))


# --- tables -------------------------------------------------------------------------------------------------


def some_table(rng: Rng) -> Table:
    """Ratings in some format; some of them odd, some damaged."""
    if chance(rng, 0.05):
        return Table(".csv", pick(rng, SCRAPS))
    if chance(rng, 0.05):
        return _with_a_field_too_many(rng)
    form = pick(rng, list(FORMATS))
    content = FORMATS[form](rng, _some_rows(rng))
    if chance(rng, 0.2):
        content = _damaged(rng, content)
    if chance(rng, 0.1):
        content = gzip.compress(content)
        return Table(f".{form}.gz", _damaged(rng, content) if chance(rng, 0.3) else content)
    return Table(f".{form}", content)


def _some_rows(rng: Rng) -> Columns:
    n = int(rng.integers(1, 20))
    users, items = np.divmod(rng.choice(36, n, replace=chance(rng, 0.1)), 6)
    ratings = some_ratings(rng, n, 0.1).tolist()
    names, text = pick(rng, NAMES), chance(rng, 0.5)
    columns: Columns = {
        names[0]: [f"u{one}" if text else int(one) for one in users],
        names[1]: [f"i{one}" for one in items],
        names[2]: [int(one) if float(one).is_integer() and abs(one) < 1e15 else one for one in ratings],
    }
    if chance(rng, 0.3):
        columns["time"] = rng.integers(0, 100, n).tolist()
    if chance(rng, 0.2):
        columns["notes"] = [pick(rng, TEXTS) for _ in range(n)]
    if chance(rng, 0.15):
        columns[pick(rng, list(columns))][int(rng.integers(n))] = pick(rng, TEXTS)
    return columns


def _with_a_field_too_many(rng: Rng) -> Table:
    """Well formed but for one row with a field more than there are columns, some of which nobody reads."""
    n = int(rng.integers(2, 8))
    records = [["user", "item", "rating", "time"]] + [[str(k), f"i{k}", "3", "2021"] for k in range(n)]
    records[int(rng.integers(1, n + 1))].insert(int(rng.integers(5)), pick(rng, ["world", "7", "a b"]))
    sign = pick(rng, [",", "\t", ";", "|"])
    return Table(".csv", "\n".join(sign.join(record) for record in records).encode(), is_wrong=True)


def _delimited(usual: str) -> Callable[[Rng, Columns], bytes]:
    def write(rng: Rng, columns: Columns) -> bytes:
        sign = usual if chance(rng, 0.8) else pick(rng, [",", "\t", ";", "|", " ", ":"])
        records = [list(columns)] if chance(rng, 0.8) else []
        records += [[str(one) for one in record] for record in zip(*columns.values(), strict=True)]
        if chance(rng, 0.1):
            _make_ragged(rng, records)
        if chance(rng, 0.7):
            text = io.StringIO(newline="")
            quoting, ending = pick(rng, [csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), pick(rng, ["\n", "\n", "\r\n", "\r"])
            csv.writer(text, delimiter=sign, quoting=quoting, lineterminator=ending).writerows(records)
            lines = text.getvalue()
        else:
            lines = "\n".join(sign.join(record) for record in records)
        return lines.encode(pick(rng, ENCODINGS) if chance(rng, 0.1) else "utf-8", "replace")

    return write


def _make_ragged(rng: Rng, records: list[list[str]]) -> None:
    """A field too many or too few in a record."""
    record = pick(rng, records)
    if chance(rng, 0.6):
        record.insert(int(rng.integers(len(record) + 1)), pick(rng, TEXTS))
    else:
        del record[int(rng.integers(len(record)))]


def _ndjson(rng: Rng, columns: Columns) -> bytes:
    lines = []
    for record in zip(*columns.values(), strict=True):
        row: dict[str, Any] = dict(zip(columns, record, strict=True))
        if chance(rng, 0.03):
            row[pick(rng, list(row))] = pick(rng, JSON_VALUES)
        if chance(rng, 0.01):
            del row[pick(rng, list(row))]
        lines.append(json.dumps(row))
    if chance(rng, 0.2):
        lines.insert(int(rng.integers(len(lines) + 1)), pick(rng, JSON_LINES))
    return "\n".join(lines).encode()


def _parquet(rng: Rng, columns: Columns) -> bytes:
    frame = pl.DataFrame({name: [_unicode(one) for one in column] for name, column in columns.items()}, strict=False)
    if chance(rng, 0.3):
        frame = frame.with_columns(_odd_series(rng, pick(rng, frame.columns), len(frame)))
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression=pick(rng, ["zstd", "uncompressed"]))
    return buffer.getvalue()


def _odd_series(rng: Rng, name: str, n: int) -> pl.Series:
    """A column of a type that few would have for ids or ratings."""
    if chance(rng, 0.5):
        one = pick(rng, [[1], {"a": 1}, b"\xff\x00", None, True])
        return pl.Series(name, [one] * n)
    types: list[Any] = [pl.Duration, pl.Date, pl.Time, pl.UInt64, pl.Float32, pl.Datetime("us", "UTC")]
    return pl.Series(name, range(n)).cast(pick(rng, [*types, pl.Decimal(10, 2)]))


def _unicode(one: Any) -> Any:
    """A value as Parquet can hold it: no half of a surrogate pair."""
    return one.encode("utf-8", "replace").decode() if isinstance(one, str) else one


FORMATS: dict[str, Callable[[Rng, Columns], bytes]] = {
    "csv": _delimited(","),
    "tsv": _delimited("\t"),
    "ndjson": _ndjson,
    "parquet": _parquet,
}


def _damaged(rng: Rng, content: bytes) -> bytes:
    """Some bytes changed, left out, put in or cut off."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(len(changed) + 1))
        how = int(rng.integers(4))
        if how == 0:
            changed[place : place + 1] = rng.bytes(1)
        elif how == 1:
            del changed[place : place + int(rng.integers(1, 10))]
        elif how == 2:
            changed[place:place] = pick(rng, SPLINTERS)
        elif chance(rng, 0.3):
            del changed[place:]
    return bytes(changed)
