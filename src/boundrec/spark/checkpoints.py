"""Checkpoints of a fit: its state as a table, on whatever storage Spark writes to, so that another driver can go on.

There are two places, written in turn, so that one is whole whatever happens to the driver. A table has a row for every
part of every array and one, the head, that says what must be there; what does not match its checksum does not count.
Nothing in it is ever executed: arrays are bytes, and the head is JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from boundrec.notes import warn
from boundrec.solvers import Solver
from boundrec.solvers.gibbs import NoiseDraw, Sampler
from boundrec.spark.errors import errors_of_spark, in_a_sentence

#: Bytes of an array in one row of the table.
PART = 1 << 26
PLACES = ("checkpoint-0", "checkpoint-1")


class Checkpoints:
    """Where the state of one fit is kept, if anywhere.

    Parameters
    ----------
    folder
        On storage that Spark reads and writes; None keeps nothing.
    interval
        After how many sweeps the state is kept.
    identity
        What fit it is: another one's state is refused.
    """

    def __init__(self, session: SparkSession, folder: str | None, interval: int, identity: dict[str, Any]) -> None:
        self._session, self._folder, self._interval, self._identity = session, folder, interval, identity
        self._turn = 0
        #: Objectives of the sweeps that a fit before this one has done.
        self.earlier: list[float] = []

    @classmethod
    def of(
        cls, session: SparkSession, folder: str | None, interval: int, model: Any, counts: Sequence[int], told: bytes
    ) -> Checkpoints:
        """Those of a fit of a model to so many ratings, users and items; ``told`` is what tells these from others."""
        settings = {name: repr(value) for name, value in model.get_params().items() if name != "verbose"}
        digest = hashlib.sha256(told).hexdigest()
        identity = {"model": type(model).__name__, "settings": settings, "counts": list(counts), "ratings": digest}
        return cls(session, folder, interval, identity)

    def restore(self, solver: Solver) -> list[float]:
        """Bring a solver to where the last checkpoint left it; returns the objectives of the sweeps until there."""
        found = [one for one in (self._read(place) for place in PLACES) if one is not None] if self._folder else []
        if not found:
            return []
        head, arrays = max(found, key=lambda one: int(one[0]["n_sweeps"]))
        self._turn = 1 - PLACES.index(head["place"])
        if head["identity"] != self._identity:
            raise ValueError(
                f"checkpointDir={self._folder!r} holds the checkpoint of another fit "
                f"({_difference(head['identity'], self._identity)}): pass another folder, or remove it."
            )
        if head["done"]:
            return []
        put_back(solver, arrays, head["numbers"])
        self.earlier = [float(one) for one in head["objectives"]]
        warn(f"goes on from the checkpoint of sweep {head['n_sweeps']} in {self._folder!r}.")
        return self.earlier

    def see(self, solver: Solver, objectives: list[float]) -> None:
        """Keep the state after a sweep, where it is time for that."""
        n_sweeps = len(self.earlier) + len(objectives)
        if self._folder is not None and n_sweeps % self._interval == 0:
            arrays, numbers = state_of(solver)
            told = {"n_sweeps": n_sweeps, "objectives": self.earlier + objectives, "numbers": numbers, "done": False}
            self._write(told, arrays)

    def finish(self, solver: Solver, n_sweeps: int) -> None:
        """Note that the fit is complete: the next one begins anew."""
        if self._folder is not None:
            self._write({"n_sweeps": n_sweeps + 1, "objectives": [], "numbers": {}, "done": True}, {})

    # --- tables -------------------------------------------------------------------------------------------------

    def _path(self, place: str) -> str:
        return f"{self._folder}/{place}"

    def _write(self, told: dict[str, Any], arrays: dict[str, Any]) -> None:
        place, rows = PLACES[self._turn], list[dict[str, Any]]()
        known = {}
        for name, array in arrays.items():
            content = np.ascontiguousarray(array).tobytes()
            parts = [content[start : start + PART] for start in range(0, len(content), PART)]
            digest = hashlib.sha256(content).hexdigest()
            known[name] = {"shape": array.shape, "dtype": array.dtype.str, "n": len(parts), "digest": digest}
            rows += [{"name": name, "part": part, "content": some} for part, some in enumerate(parts)]
        head = {**told, "identity": self._identity, "arrays": known, "place": place}
        rows.append({"name": "", "part": 0, "content": json.dumps(head).encode()})
        schema = pa.schema([("name", pa.string()), ("part", pa.int32()), ("content", pa.large_binary())])
        with in_a_sentence():
            frame = self._session.createDataFrame(pa.Table.from_pylist(rows, schema))
            frame.write.mode("overwrite").parquet(self._path(place))
        self._turn = 1 - self._turn

    def _read(self, place: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The head and the arrays of a checkpoint; None where there is none that is whole."""
        try:
            rows = self._session.read.parquet(self._path(place)).toArrow().to_pylist()
        except AnalysisException:  # there is nothing, or no table yet
            return None
        except errors_of_spark():
            rows = []
        try:
            return _checked(rows)
        except (KeyError, TypeError, ValueError):
            warn(f"{self._path(place)} is not whole, and is passed over.")
            return None


def _checked(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A checkpoint of which everything is there; ValueError, KeyError or TypeError where it is not."""
    (head,) = (json.loads(row["content"]) for row in rows if row["name"] == "")
    if head["place"] not in PLACES or not isinstance(head["n_sweeps"], int):
        raise ValueError
    arrays = {}
    for name, known in head["arrays"].items():
        parts = sorted((row["part"], row["content"]) for row in rows if row["name"] == name)
        content = b"".join(some for _, some in parts)
        if len(parts) != known["n"] or hashlib.sha256(content).hexdigest() != known["digest"]:
            raise ValueError
        if known["dtype"] not in ("<f8", "<f4"):
            raise ValueError
        arrays[name] = np.frombuffer(content, known["dtype"]).reshape(known["shape"]).copy()
    return head, arrays


def _difference(theirs: Any, ours: Any) -> str:
    """What is not the same in two fits, the first thing that is found."""
    for name in ("model", "counts"):
        if theirs.get(name) != ours[name]:
            words = {"model": "", "counts": " ratings, users and items"}
            return f"of {theirs.get(name)}{words[name]}, and this one is of {ours[name]}"
    settings = theirs.get("settings", {})
    for name, value in ours["settings"].items():
        if settings.get(name) != value:
            return f"with {name}={settings.get(name)}, and this one has {value}"
    return "of other ratings"


# --- the state of a solver ------------------------------------------------------------------------------------------


def state_of(solver: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and numbers from which a solver can go on."""
    arrays = {"users": solver.users.factors, "items": solver.items.factors}
    if not isinstance(solver, Sampler):
        return arrays, {}
    for kind, side in (("user", solver.kept.users), ("item", solver.kept.items)):
        arrays |= {f"{kind}_{name}": array for name, array in side.state().items()}
    numbers = {
        "variance": solver.variance,
        "n_swept": solver.n_swept,
        "rng": solver.rng.bit_generator.state,
        "noise": [one.variance for one in solver.kept.noise],
    }
    return arrays, numbers


def put_back(solver: Any, arrays: dict[str, Any], numbers: dict[str, Any]) -> None:
    """Bring a solver to a state."""
    solver.users.factors, solver.items.factors = arrays["users"], arrays["items"]
    if not isinstance(solver, Sampler):
        return
    solver.variance, solver.n_swept = float(numbers["variance"]), int(numbers["n_swept"])
    solver.rng.bit_generator.state = numbers["rng"]
    solver.kept.noise = [NoiseDraw(float(one)) for one in numbers["noise"]]
    for kind, side in (("user", solver.kept.users), ("item", solver.kept.items)):
        side.put_back({name: arrays[f"{kind}_{name}"] for name in side.state()})
