"""One session of Spark for all tests of a process, where there are pyspark and Java.

It is on ``local[2]``, unless BOUNDREC_SPARK names another master. ``.ci/run`` runs these tests three times: there, on
``local-cluster[2,1,1024]``, whose executors are processes of their own, and with ``remote``, which is Spark Connect.
"""

import os
import shutil
import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pytest

MASTER = os.environ.get("BOUNDREC_SPARK", "local[2]")
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
}

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else it is whatever python3 there is

if find_spec("pyspark") is None:
    WHY_NOT = "pyspark is not installed (the extra spark brings it)"
elif not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    WHY_NOT = "there is no Java on this machine"
else:
    WHY_NOT = ""


def pytest_collection_modifyitems(items):
    """These tests skip, with a reason, where Spark cannot run; its own warnings are not for us to mend."""
    for item in items:
        if "spark" in item.path.parent.name:
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            if WHY_NOT:
                item.add_marker(pytest.mark.skip(reason=WHY_NOT))


def start(master=MASTER):
    """A session, on a master or by Spark Connect."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    builder = builder.remote("local[2]") if master == "remote" else builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = start()
    yield session
    session.stop()


class Table:
    """Ratings of people and things, with text and large numbers for ids; some structure, and noise."""

    def __init__(self, n_users, n_items, share, seed=0):
        rng = np.random.default_rng(seed)
        places = np.argwhere(rng.random((n_users, n_items)) < share)
        W, H = rng.normal(size=(n_users, 3)), rng.normal(size=(n_items, 3))
        inner = np.einsum("nk,nk->n", W[places[:, 0]], H[places[:, 1]])
        self.users = [f"u{user}" for user in places[:, 0]]
        self.items = (places[:, 1] + 10**12).tolist()
        self.ratings = np.clip(np.round(3 + 0.6 * inner + rng.normal(0, 0.5, len(places))), 1, 5)

    def frame(self, spark, **more):
        import pyarrow as pa

        columns = {"user": self.users, "item": self.items, "rating": self.ratings, **more}
        return spark.createDataFrame(pa.table({name: pa.array(values) for name, values in columns.items()}))

    @property
    def pairs(self):
        return list(zip(self.users, self.items, strict=True))


@pytest.fixture(scope="session")
def table():
    return Table(700, 500, 0.12)


@pytest.fixture(scope="session")
def small():
    return Table(60, 40, 0.3)
