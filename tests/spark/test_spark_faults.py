"""Whatever dies, the model is the same: an executor in the middle of a fit, or the driver, whom another follows."""

import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from conftest import MASTER

SETTINGS = {"nFactors": 3, "bounds": (1, 5), "seed": 5, "checkpointInterval": 2}
KILLED = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {folder!r})
from conftest import Table, start
import boundrec.spark
from boundrec.spark.checkpoints import Checkpoints
seen = Checkpoints.see

def see(self, solver, objectives):
    seen(self, solver, objectives)
    if len(objectives) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

Checkpoints.see = see
estimator = getattr(boundrec.spark, {name!r})(**{settings!r}, checkpointDir={checkpoints!r})
estimator.fit(Table(60, 40, 0.3).frame(start("local[1]")))
"""


def executors():
    """The processes of executors, as `ps` would show them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"CoarseGrainedExecutorBackend" in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # gone meanwhile
            continue
    return found


@pytest.mark.skipif(not MASTER.startswith("local-cluster"), reason="executors are processes in local-cluster mode only")
@pytest.mark.parametrize(("name", "mode"), [("SparkMBMF", "whole"), ("SparkBayesianMBMF", "blocks")])
def test_a_killed_executor_changes_nothing(spark, small, monkeypatch, name, mode):
    import boundrec.spark
    from boundrec.spark.engine import Cluster

    estimator = getattr(boundrec.spark, name)(**SETTINGS, maxIter=4, mode=mode)
    expected = estimator.fit(small.frame(spark)).fitted
    half_step, done = Cluster.half_step, []

    def killing(self, *arguments):
        done.append(1)
        if len(done) == 4:
            os.kill(executors()[0], signal.SIGKILL)
        return half_step(self, *arguments)

    monkeypatch.setattr(Cluster, "half_step", killing)
    found = estimator.fit(small.frame(spark)).fitted
    assert len(done) == 8
    np.testing.assert_array_equal(found.users.factors, expected.users.factors)
    np.testing.assert_array_equal(found.items.factors, expected.items.factors)


@pytest.mark.parametrize("name", ["SparkMBMF", "SparkBayesianMBMF"])
def test_a_killed_driver_is_followed_by_one_that_goes_on_to_the_same_model(spark, small, tmp_path, name):
    import boundrec.spark

    settings = {**SETTINGS, "maxIter": 4, **({"tol": 0.0} if name == "SparkMBMF" else {"nKept": 3})}
    folder = str(tmp_path / "checkpoints")
    script = KILLED.format(folder=os.path.dirname(__file__), name=name, settings=settings, checkpoints=folder)
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    df, whole = small.frame(spark), getattr(boundrec.spark, name)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = whole(**settings, checkpointDir=folder).fit(df)
    assert any("goes on from the checkpoint of sweep 2" in str(one.message) for one in told)
    expected = whole(**settings).fit(df)
    np.testing.assert_array_equal(found.fitted.users.factors, expected.fitted.users.factors)
    np.testing.assert_array_equal(found.fitted.items.factors, expected.fitted.items.factors)
    assert found.objectives == expected.objectives
    with pytest.raises(ValueError, match=r"the checkpoint of another fit .*n_factors=3, and this one has 2"):
        whole(**{**settings, "nFactors": 2}, checkpointDir=folder).fit(df)


def test_a_checkpoint_that_is_not_whole_is_passed_over(spark, small, tmp_path):
    from boundrec.spark import SparkMBMF
    from boundrec.spark.checkpoints import PLACES, Checkpoints

    places = []
    for place in PLACES:
        (tmp_path / place).mkdir()
        (tmp_path / place / "part-0.parquet").write_bytes(b"PAR1 nothing")
        places.append(tmp_path / place)
    with pytest.warns(UserWarning, match="is not whole"):
        model = SparkMBMF(**SETTINGS, maxIter=2, checkpointDir=str(tmp_path)).fit(small.frame(spark))
    assert len(model.objectives) == 2
    assert Checkpoints(spark, str(tmp_path), 1, {})._read(PLACES[0]) is not None


def test_no_plan_and_no_old_row_is_kept_while_a_fit_goes_on(spark, small):
    """Every half-step is one job over the same blocks: what a plan holds does not grow with the sweeps."""
    from boundrec import MBMF
    from boundrec.spark.blocks import Solve
    from boundrec.spark.fitting import Prepared, Request
    from boundrec.spark.frames import Columns

    prepared = Prepared(
        small.frame(spark), MBMF(3, bounds=(1, 5)), Request(Columns("user", "item", "rating"), "whole", 2)
    )
    users, items = (np.full((len(ids), 5), 0.1) for ids in (prepared.users, prepared.items))
    sizes = []
    for _ in range(3):
        task = Solve("ball", 0.1, 1.0, 1)
        frame = prepared.cluster._whole("user", task, users, items)
        sizes.append(len(frame._jdf.queryExecution().toString()) if hasattr(frame, "_jdf") else 0)
        users = prepared.cluster.half_step("user", task, users, items).rows
    assert max(sizes) - min(sizes) < 50  # ids of expressions have more digits with time
    prepared.cluster.release()


def test_a_checkpoint_of_other_ratings_is_refused(spark, small, tmp_path):
    """Of as many pairs with the same sum, some of which have changed their ratings."""
    import copy

    from boundrec.spark import SparkMBMF
    from boundrec.spark.checkpoints import Checkpoints

    other = copy.copy(small)
    other.ratings = np.roll(small.ratings, 7)
    estimator = SparkMBMF(**{**SETTINGS, "checkpointInterval": 1}, maxIter=1, checkpointDir=str(tmp_path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoints, "finish", lambda *_: None)  # as if it had been killed before its end
        estimator.fit(small.frame(spark))
    with pytest.raises(ValueError, match=r"the checkpoint of another fit .of other ratings"):
        estimator.fit(other.frame(spark))
