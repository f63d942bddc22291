"""What went wrong on a cluster, in a sentence: Spark tells it in a hundred lines of Java."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

#: What is found in an error of Spark's, and what it means; {0} is what the pattern catches.
MEANINGS = {
    r"Cannot run program \"([^\"]+)\"": "the executors cannot start {0}, which PYSPARK_PYTHON (or the setting "
    "spark.pyspark.python) names: let it be a Python that every machine of the cluster has",
    r"PYTHON_VERSION_MISMATCH": "driver and executors run different versions of Python: set PYSPARK_PYTHON and "
    "PYSPARK_DRIVER_PYTHON to the same one",
    r"No module named '(boundrec[^']*|numba|pyarrow|numpy)'": "the executors' Python lacks {0}: on this "
    "machine let PYSPARK_PYTHON be the Python that you run, as in os.environ['PYSPARK_PYTHON'] = sys.executable before "
    "the session starts; on a cluster install boundrec[spark] there, or ship an environment (docs/spark.md)",
    r"(OutOfMemoryError[^\n]*)": "an executor ran out of memory ({0}): give it more (spark.executor.memory, "
    'spark.executor.memoryOverhead), or pass mode="blocks"',
    r"JAVA_GATEWAY_EXITED": "Java did not start, or not with what it was told: install Java 17 or let JAVA_HOME name "
    "it, and look whether the master is a right one",
    r"Python worker exited unexpectedly \(crashed\)": "a Python process of an executor was killed, most often for want "
    "of memory: give it more (spark.executor.memoryOverhead), or run fewer tasks at a time",
    r"(?:exceeds|larger than) max.*?\((\d+)\)": "a message to the cluster was larger than the {0} bytes it may have: "
    'pass mode="blocks"',
}


#: A line that names an error, and what says no more than that there was one.
NAMES_AN_ERROR = r"^(Caused by: |: )?[\w.$]*(Error|Exception)\b.*:|^\[[A-Z_.]+\]"
OF_A_STACK = ("at ", "...", "Driver stacktrace", "JVM stacktrace")
OF_NO_USE = ("Job aborted", "py4j.protocol", "An error occurred while calling")


class SparkError(RuntimeError):
    """Spark could not do what it was asked; the sentence says why, and its ``__context__`` has Spark's own words."""


def meaning(text: str) -> str:
    """What an error of Spark's means, in a sentence; else its last telling line."""
    for pattern, words in MEANINGS.items():
        found = re.search(pattern, text)
        if found:
            return words.format(*found.groups())
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(OF_A_STACK)]
    named = [line.removeprefix("Caused by: ").removeprefix(": ") for line in lines if re.search(NAMES_AN_ERROR, line)]
    own = [line for line in named if not any(word in line for word in OF_NO_USE)]
    return (own or named or lines or ["it did not say why"])[-1][:400].rstrip(".")


def errors_of_spark() -> tuple[type[BaseException], ...]:
    """What Spark raises: its own errors and, where it is not Spark Connect, those of the way to Java."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:  # Spark Connect comes without it
        return (PySparkException,)
    return PySparkException, Py4JError


@contextmanager
def in_a_sentence() -> Iterator[None]:
    """Whatever Spark raises in here becomes a sentence of ours."""
    try:
        yield
    except errors_of_spark() as error:
        raise SparkError(f"Spark could not go on: {meaning(str(error))}.") from None
