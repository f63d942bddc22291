"""A new bounded model is one file (toy_model.py) and one row of the registry; all else follows."""

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest
import test_contract
from sklearn.base import clone
from test_contract import data  # noqa: F401  the contract's fixture
from toy_model import Damped

import boundrec
from boundrec import registry

ROW = registry.Entry("Damped", "toy_model", "damped")
TOY = Damped(3, bounds=(1, 5), max_iter=5, random_state=0)
pytestmark = test_contract.pytestmark

#: The whole contract, on the toy.
globals().update(
    (name, check)
    for name, check in vars(test_contract).items()
    if name.startswith("test_") and "model" in inspect.signature(check).parameters
)


@pytest.fixture
def model():
    return clone(TOY)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(registry, "MODELS", (*registry.MODELS, ROW))


def test_it_is_held_to_the_whole_contract():
    assert len([name for name in globals() if name.startswith("test_")]) > 20


def test_it_stays_inside_its_ranges_and_lists_what_it_predicts(model, data):  # noqa: F811
    model.fit(*data)
    everything = [(user, item) for user in model.user_ids_.ids for item in model.item_ids_.ids]
    predicted, lower, upper = model.predict(everything, return_range=True)
    assert np.all((lower <= predicted) & (predicted <= upper) & (lower >= 1) & (upper <= 5))
    items, scores = model.recommend(n=3)
    pairs = np.column_stack([np.repeat(model.user_ids_.ids, 3), items.ravel()])
    assert np.array_equal(model.predict(pairs), scores.ravel())


def test_it_saves_and_loads_with_the_same_bits(model, data, tmp_path, registered):  # noqa: F811
    model.fit(*data).save(tmp_path / "toy.safetensors")
    loaded = boundrec.load(tmp_path / "toy.safetensors")
    assert type(loaded) is Damped
    assert loaded.get_params() == model.get_params()
    assert np.array_equal(loaded.predict(data[0]), model.predict(data[0]))
    assert all(map(np.array_equal, loaded.recommend(n=3), model.recommend(n=3)))


def test_its_settings_are_documented_checked_and_its_own(model, data):  # noqa: F811
    assert "share\n        How much of the way" in Damped.__doc__
    with pytest.raises(ValueError, match="share=0: give a share above 0 and up to 1"):
        model.set_params(share=0).fit(*data)
    with pytest.raises(AttributeError):
        _ = model.fold_in


def test_the_command_fits_it_and_answers_by_it(boundrec_command, data, tmp_path, registered):  # noqa: F811
    table, file = tmp_path / "ratings.csv", tmp_path / "toy.safetensors"
    rows = (f"{user},{item},{rating}" for (user, item), rating in zip(*data, strict=True))
    table.write_text("\n".join(["user,item,rating", *rows]))
    code, said, errors = boundrec_command("fit", table, "-o", file, "--model", "damped", "-k", 3, "--set", "share=0.25")
    assert (code, boundrec.load(file).share) == (0, 0.25), said + errors
    assert boundrec_command("recommend", file, "-n", 2)[0] == 0
    code, said, _ = boundrec_command("info", file)
    assert (code, "damped" in said) == (0, True)


def test_the_help_of_the_command_shows_it():
    code = f"from boundrec import registry\nregistry.MODELS += (registry.Entry(*{ROW[:3]}),)\n"
    command = [sys.executable, "-c", f"{code}from boundrec.cli import main; main()", "fit", "--help"]
    wide = {**os.environ, "COLUMNS": "250"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=wide)
    assert "|bmc-admm|damped>" in done.stdout
