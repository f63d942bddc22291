"""Random calls, tables, altered and crafted model files: an answer or one sentence, never anything else.

    python -m benchmarks.fuzz --seed 0 --calls 10000 --files 2000 --altered 2000 --crafted 200
    python -m benchmarks.fuzz --seed 0 --only calls --case 1234

A case is known by the seed, its kind and its number, whatever ran before it. Cases run in processes of their own, which
are watched: one that crashes the interpreter or takes too long is told by its number, too, with the lines where it was.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

#: Kinds of cases: the module and function of each.
KINDS = {
    "calls": ("calls", "life"),
    "files": ("files", "table"),
    "altered": ("model_files", "altered"),
    "crafted": ("model_files", "crafted"),
}
#: Bytes of address space that a process may take: what needs more than that for a few ratings is a failure.
MOST_MEMORY = 12 << 30
#: What a process says once cases may come, and the signal that asks it where it is.
READY, ASKED_WHERE = "ready", signal.SIGUSR1


class Result(NamedTuple):
    """What came of a case: calls that were answered and refused, and what must not have happened, if it did."""

    kind: str
    case: int
    answered: int
    refused: int
    failure: str = ""


def run_case(
    seed: int, kind: str, case: int, folder: Path, tell: Callable[[BaseException], None] = lambda error: None
) -> Result:
    """Run one case in this process; ``tell`` hears of what fails."""
    from benchmarks.fuzz_cases.oracles import BrokenRuleError, Witness, described

    module, function = KINDS[kind]
    rng = np.random.default_rng([seed, list(KINDS).index(kind), case])
    witness, failure = Witness(), ""
    try:
        getattr(import_module(f"benchmarks.fuzz_cases.{module}"), function)(rng, folder, witness)
    except BrokenRuleError as error:
        failure = str(error)
        tell(error)
    except Exception as error:  # of a call that the case itself made and took for granted
        failure = f"unforeseen {described(error)}"
        tell(error)
    return Result(kind, case, witness.answered, witness.refused, failure)


# --- processes that are watched -----------------------------------------------------------------------------


def _prepare() -> None:
    """Import and compile what cases use, before their time is taken."""
    from benchmarks.fuzz_cases import model_files

    for module, _ in KINDS.values():
        import_module(f"benchmarks.fuzz_cases.{module}")
    model_files.originals()


def _work(connection: Any, seed: int, trace: Path) -> None:
    """Run cases until told to stop, in a process of its own; asked by a signal, write down where it is."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    with trace.open("w") as file, open(os.devnull, "w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        faulthandler.enable(file)
        faulthandler.register(ASKED_WHERE, file)
        _prepare()
        connection.send(READY)
        while (asked := connection.recv()) is not None:
            kind, case = asked
            with tempfile.TemporaryDirectory(dir=trace.parent) as folder:
                result = run_case(seed, kind, case, Path(folder))
            connection.send(result)


class Watched:
    """A process that runs cases; another takes its place when it crashes or hangs."""

    def __init__(self, seed: int, seconds: float, trace: Path) -> None:
        self._seed, self._seconds, self._trace = seed, seconds, trace
        self._start()

    def _start(self) -> None:
        processes = multiprocessing.get_context("spawn")
        self._connection, other = processes.Pipe()
        self._process = processes.Process(target=_work, args=(other, self._seed, self._trace))
        self._process.start()
        other.close()
        if self._connection.recv() != READY:
            raise RuntimeError("a process of the fuzzer did not get ready")

    def run(self, kind: str, case: int) -> Result:
        """Run a case there."""
        self._connection.send((kind, case))
        try:
            if self._connection.poll(self._seconds):
                result: Result = self._connection.recv()
                return result
            told = f"hangs for {self._seconds:g} s: {self._end()}"
        except EOFError:
            self._process.join()
            told = f"crashes the interpreter (exit code {self._process.exitcode}): {self._where()}"
        self._start()
        return Result(kind, case, 0, 0, told)

    def _end(self) -> str:
        """End a process that hangs; says where it was."""
        assert self._process.pid is not None
        os.kill(self._process.pid, ASKED_WHERE)
        time.sleep(1.0)
        self._process.kill()
        self._process.join()
        return self._where()

    def _where(self) -> str:
        lines = [line.strip() for line in self._trace.read_text().splitlines() if "boundrec" in line]
        return "; ".join(lines[:4])

    def stop(self) -> None:
        """End the process."""
        self._connection.send(None)
        self._process.join()


def run_cases(
    seed: int, cases: list[tuple[str, int]], workers: int, seconds: float, tell: Callable[[Result], None]
) -> list[Result]:
    """Run cases in some processes; ``tell`` hears of each as it ends."""
    waiting, lock = iter(cases), Lock()
    results: list[Result] = []

    def next_case() -> tuple[str, int] | None:
        with lock:
            return next(waiting, None)

    def serve(number: int) -> None:
        watched = Watched(seed, seconds, Path(folder) / f"trace-{number}")
        while (case := next_case()) is not None:
            result = watched.run(*case)
            with lock:
                results.append(result)
                tell(result)
        watched.stop()

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        list(pool.map(serve, range(workers)))
    return results


# --- the table ----------------------------------------------------------------------------------------------


def table(results: list[Result]) -> Iterator[str]:
    """One line a kind: how many cases, what came of their calls, and how many cases failed."""
    yield f"{'kind':<8} {'cases':>7} {'tried':>7} {'answered':>9} {'refused in a sentence':>22} {'failed':>7}"
    for kind in KINDS:
        of_kind = [result for result in results if result.kind == kind]
        answered, refused = sum(result.answered for result in of_kind), sum(result.refused for result in of_kind)
        failed = sum(bool(result.failure) for result in of_kind)
        tried = answered + refused + failed
        if of_kind:
            yield f"{kind:<8} {len(of_kind):>7,} {tried:>7,} {answered:>9,} {refused:>22,} {failed:>7,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    for kind, number in zip(KINDS, (10_000, 2000, 2000, 200), strict=True):
        parser.add_argument(f"--{kind}", type=int, default=number, help=f"cases of this kind (default {number})")
    parser.add_argument("--only", choices=KINDS, help="cases of one kind alone")
    parser.add_argument("--case", type=int, help="one case alone, with --only, in this process")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that a case may take (default 60)")
    asked = parser.parse_args()
    if asked.case is not None:
        alone(asked.seed, asked.only, asked.case)
        return
    kinds = [asked.only] if asked.only else list(KINDS)
    cases = [(kind, case) for kind in kinds for case in range(getattr(asked, kind))]
    began, done = time.monotonic(), count(1)

    def tell(result: Result) -> None:
        if result.failure:
            again = f"--seed {asked.seed} --only {result.kind} --case {result.case}"
            print(f"FAILED {again}: {result.failure}", flush=True)
        if (number := next(done)) % 1000 == 0:
            print(f"{number:,} of {len(cases):,} cases, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    results = run_cases(asked.seed, cases, asked.workers, asked.limit, tell)
    print("\n".join(table(results)))
    print(f"seed {asked.seed}, {time.monotonic() - began:.0f} s")
    sys.exit(any(result.failure for result in results))


def alone(seed: int, kind: str, case: int) -> None:
    """Repeat one case here, with the traceback of what fails."""
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as folder:
        print(run_case(seed, kind, case, Path(folder), tell=traceback.print_exception))


if __name__ == "__main__":
    main()
