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
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import boundrec
from benchmarks.fuzz_cases.oracles import Failure, Witness, require
from benchmarks.fuzz_cases.values import Rng, chance, pick, some_ratings

NAMES = [("user", "item", "rating"), ("userId", "movieId", "rating"), ("u", "i", "r"), ("a", "b", "c"), ("user", "user", "r")]
TEXTS = ["", " ", '"', "'", ",", "a,b", "\t", "\u00a0", "nan", "NaN", "inf", "-", "1e400", "1e200", "0x1", "1_000", "½"]
TEXTS += ["é", "\ud800", "\x00", "a\nb", "a\r\nb", '""', "|", ";", "None", "007", "-0", "9" * 25, "x" * 140_000, "=1+1", "[1]"]
JSON_VALUES: list[Any] = [None, True, [1], {}, {"a": [1]}, [], "", "\ud800", 10**30, 1e200, -0.0, "1", 1.5, float("nan")]
ENCODINGS = ["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252", "utf-32"]
#: Exit codes of a command that could not, or was asked wrongly; anything else is the last net's, or a crash.
REFUSALS = (1, 2)
#: What the last net says of what nobody foresaw.
UNFORESEEN = ("Traceback", "unforeseen", "panicked", "--debug")


class Spoken(NamedTuple):
    """What a command ended with and printed."""

    code: int
    out: str
    err: str


def table(rng: Rng, folder: Path, witness: Witness) -> None:
    """One file, through the commands that may read it."""
    ending, content = some_file(rng)
    path = folder / f"ratings{ending}"
    path.write_bytes(content)
    fitted = folder / "model.safetensors"
    try:
        for command in _commands(rng, folder, path, fitted):
            _run_checked(witness, command, folder)
    finally:
        for left in folder.iterdir():
            left.unlink()


def _commands(rng: Rng, folder: Path, path: Path, fitted: Path) -> list[list[Any]]:
    model = pick(rng, ["mbmf", "mbmf", "bayesian", "nmf", "ccd++", "mf"])
    options = ["--model", model, "-k", 2, "--sweeps", 2, "--threads", 1]
    if chance(rng, 0.3):
        options += ["--duplicates", pick(rng, ["last", "mean"])]
    if chance(rng, 0.2):
        options += ["--bounds", *pick(rng, [("0", "5"), ("none", "5"), ("-1e9", "1e9"), ("0", "none"), ("nan", "a"), ("0", "1e999")])]
    read = ["--no-header"] if chance(rng, 0.1) else ["--header"] if chance(rng, 0.1) else []
    if chance(rng, 0.1):
        read += ["--user", pick(rng, ["1", "user", "0", "", "rating", "é"])]
    known = folder / "known.safetensors"
    known.write_bytes(_known_model())
    answers = folder / f"out{pick(rng, ['.csv', '.tsv', '.ndjson', '.parquet', '.csv.gz', '.xyz'])}"
    asking = [
        ["predict", known, path, *read],
        ["predict", known, path, "-o", answers, *read],
        ["recommend", known, "--users", path, "-n", 3],
        ["evaluate", path, "--fitted", known, *read],
        ["evaluate", path, *options, *read],
        ["info", path],
    ]
    fitting = [["fit", path, "-o", fitted, *options, *read], ["info", fitted], ["predict", fitted, path, *read]]
    fitting += [["recommend", fitted, "-n", 2], ["recommend", fitted, "-o", answers, "-n", 2]]
    return fitting if chance(rng, 0.5) else [pick(rng, asking)]


@cache
def _known_model() -> bytes:
    """A small model's file, with ids that are whole numbers and text."""
    path = Path(boundrec.__file__).parent / "unused"
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "known.safetensors"
        pairs = [(user, f"i{item}") for user in range(5) for item in range(4)]
        ratings = [float(1 + (3 * user + item) % 5) for user in range(5) for item in range(4)]
        boundrec.MBMF(2, bounds=(1, 5), max_iter=2, n_jobs=1, random_state=0).fit(pairs, ratings).save(path)
        return path.read_bytes()


# --- running ------------------------------------------------------------------------------------------------


def _run_checked(witness: Witness, command: list[Any], folder: Path) -> None:
    asked = list(map(str, command))
    spoken = run_command(asked)
    shown = " ".join(asked).replace(str(folder), ".")
    if spoken.code == 0:
        witness.answered += 1
        _check_output(shown, spoken)
        return
    require(spoken.code in REFUSALS, f"`{shown}` ends with {spoken.code}: {spoken.err[-300:]}")
    said = [line for line in spoken.err.splitlines() if line.strip()]
    require(said and len(said[-1].split()) >= 3, f"`{shown}` ends with {spoken.code} and says {spoken.err[-300:]!r}")
    if found := next((word for word in UNFORESEEN if word in spoken.err), None):
        raise Failure(f"`{shown}` says {found!r}: {spoken.err[-400:]!r}")
    witness.refused += 1


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
    except BaseException as error:
        from benchmarks.fuzz_cases.oracles import described

        raise Failure(f"`{' '.join(asked)[:200]}` raises {described(error)}") from error
    finally:
        sys.argv = before
    out.flush()
    err.flush()
    return Spoken(int(code), _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8", "replace")


def _check_output(shown: str, spoken: Spoken) -> None:
    """Rows of predictions and recommendations are finite and inside their range."""
    if not shown.startswith(("predict", "recommend")) or " -o " in shown:
        return
    rows = list(csv.DictReader(io.StringIO(spoken.out, newline="")))
    for row in rows:
        value = float(row["prediction"] if "prediction" in row else row["score"])
        low, high = float(row["lower"] or "-inf"), float(row["upper"] or "inf")
        require(np.isfinite(value) and low <= value <= high, f"`{shown}` prints {row}")


# --- files --------------------------------------------------------------------------------------------------


def some_file(rng: Rng) -> tuple[str, bytes]:
    """The ending and the bytes of a table."""
    if chance(rng, 0.05):
        return ".csv", pick(rng, [b"", b",", b"|", b'""', "\u00a0".encode(), b"\n\n", b"\xef\xbb\xbf", b"{", b"[", b"PAR1", b"\0", b"a", b"1,2,3"])
    rows = _some_rows(rng)
    form = pick(rng, list(FORMATS))
    content = FORMATS[form](rng, rows)
    if chance(rng, 0.3):
        content = _mutated(rng, content)
    if chance(rng, 0.1):
        content = gzip.compress(content)
        content = _mutated(rng, content) if chance(rng, 0.3) else content
        return f".{form}.gz", content
    return f".{form}", content


def _some_rows(rng: Rng) -> dict[str, list[Any]]:
    n = int(rng.integers(1, 20))
    cells = rng.choice(36, n, replace=chance(rng, 0.1))
    users, items = np.divmod(cells, 6)
    ratings = some_ratings(rng, n, 0.2).tolist()
    names = pick(rng, NAMES)
    text = chance(rng, 0.5)
    columns: dict[str, list[Any]] = {
        names[0]: [f"u{one}" if text else int(one) for one in users],
        names[1]: [f"i{one}" for one in items],
        names[2]: [int(one) if float(one).is_integer() and abs(one) < 1e15 else one for one in ratings],
    }
    if chance(rng, 0.3):
        columns["time"] = [int(one) for one in rng.integers(0, 100, n)]
    if chance(rng, 0.2):
        columns["notes"] = [pick(rng, TEXTS) for _ in range(n)]
    if chance(rng, 0.3):
        name = pick(rng, list(columns))
        columns[name][int(rng.integers(n))] = pick(rng, TEXTS)
    return columns


def _delimited(separator: str) -> Callable[[Rng, dict[str, list[Any]]], bytes]:
    def write(rng: Rng, columns: dict[str, list[Any]]) -> bytes:
        sign = pick(rng, [separator, separator, separator, ",", "\t", ";", "|", " ", ":"])
        records = [list(columns)] if chance(rng, 0.8) else []
        records += [[str(one) for one in record] for record in zip(*columns.values(), strict=True)]
        if chance(rng, 0.2):
            _make_ragged(rng, records)
        if chance(rng, 0.7):
            text = io.StringIO(newline="")
            quoting = pick(rng, [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
            csv.writer(text, delimiter=sign, quoting=quoting, lineterminator=pick(rng, ["\n", "\r\n", "\r"])).writerows(records)
            lines = text.getvalue()
        else:
            lines = "\n".join(sign.join(record) for record in records)
        return lines.encode(pick(rng, ENCODINGS) if chance(rng, 0.2) else "utf-8", pick(rng, ["surrogatepass", "replace"]) if False else "replace")

    return write


def _make_ragged(rng: Rng, records: list[list[str]]) -> None:
    """A field too many or too few in a record."""
    record = pick(rng, records)
    if chance(rng, 0.6):
        record.insert(int(rng.integers(len(record) + 1)), pick(rng, TEXTS))
    elif record:
        del record[int(rng.integers(len(record)))]


def _ndjson(rng: Rng, columns: dict[str, list[Any]]) -> bytes:
    lines = []
    for record in zip(*columns.values(), strict=True):
        row: dict[str, Any] = dict(zip(columns, record, strict=True))
        if chance(rng, 0.1):
            row[pick(rng, list(row))] = pick(rng, JSON_VALUES)
        if chance(rng, 0.05):
            del row[pick(rng, list(row))]
        lines.append(json.dumps(row))
    if chance(rng, 0.2):
        line = pick(rng, ["", "null", "[1]", "1", "{}", "{", '{"user":1,"user":2,"item":1,"rating":1}', "[" * 5000, '{"a":' * 5000, '{"user":"\\ud800"}'])
        lines.insert(int(rng.integers(len(lines) + 1)), line)
    return "\n".join(lines).encode()


def _parquet(rng: Rng, columns: dict[str, list[Any]]) -> bytes:
    frame = pl.DataFrame({name: pl.Series(name, values, strict=False) for name, values in columns.items()}, strict=False)
    if chance(rng, 0.4):
        name = pick(rng, frame.columns)
        n = len(frame)
        odd: list[pl.Series] = [
            pl.Series(name, [[1]] * n),
            pl.Series(name, [{"a": 1}] * n),
            pl.Series(name, range(n)).cast(pl.Duration),
            pl.Series(name, range(n)).cast(pl.Date),
            pl.Series(name, range(n)).cast(pl.Datetime("us", "UTC")),
            pl.Series(name, range(n)).cast(pl.UInt64),
            pl.Series(name, range(n)).cast(pl.Float32),
            pl.Series(name, range(n)).cast(pl.Time),
            pl.Series(name, [b"\xff\x00"] * n),
            pl.Series(name, [None] * n),
            pl.Series(name, [True] * n),
            pl.Series(name, ["a"] * n, dtype=pl.Categorical),
            pl.Series(name, range(n)).cast(pl.Decimal(10, 2)),
        ]
        frame = frame.with_columns(pick(rng, odd))
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression=pick(rng, ["zstd", "uncompressed"]))
    return buffer.getvalue()


FORMATS: dict[str, Callable[[Rng, dict[str, list[Any]]], bytes]] = {
    "csv": _delimited(","),
    "tsv": _delimited("\t"),
    "ndjson": _ndjson,
    "parquet": _parquet,
}


def _mutated(rng: Rng, content: bytes) -> bytes:
    """Some bytes changed, left out, put in or cut off."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        if not changed:
            break
        place = int(rng.integers(len(changed)))
        how = int(rng.integers(4))
        if how == 0:
            changed[place] = int(rng.integers(256))
        elif how == 1:
            del changed[place : place + int(rng.integers(1, 10))]
        elif how == 2:
            changed[place:place] = pick(rng, [b'"', b",", b"\n", b"\0", b"\xff", b"\r", b"\xc2\xa0", b"{", b"[", b"1", b"e"])
        elif chance(rng, 0.3):
            del changed[place:]
    return bytes(changed)
