"""The README is true: its Python and its commands run, its links lead somewhere, two commands are as scripts expect."""

import re
from pathlib import Path

import console_blocks
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_python_blocks_run_in_order():
    names = {}
    assert blocks("python")
    for number, block in enumerate(blocks("python")):
        exec(compile(block, f"README.md, block {number}", "exec"), names)


def write_tables(folder):
    """Small tables of the names and the columns that the README's commands mean."""
    rng = np.random.default_rng(0)
    people, things = ["ann", "bob", *(f"p{number}" for number in range(18))], [f"t{number}" for number in range(15)]
    chosen = [(one, thing) for one in people for thing in things if rng.random() < 0.5]
    stars = [f"{one},{thing},{rng.integers(1, 6)}" for one, thing in chosen]
    (folder / "ratings.csv").write_text("user,item,rating\n" + "\n".join(stars) + "\n")
    (folder / "clicks.csv").write_text("user,item\n" + "\n".join(map(",".join, chosen)) + "\n")
    seats = [(one, thing, int(rng.integers(20, 400))) for one, thing in chosen]
    rows = [f"{one},{thing},{most},{rng.integers(0, most + 1)}" for one, thing, most in seats]
    (folder / "flights.csv").write_text("origin,destination,seats,passengers\n" + "\n".join(rows) + "\n")
    (folder / "plan.csv").write_text("origin,destination,seats\nann,t0,50\nbob,t1,300\n")


def test_the_commands_run_one_after_the_other_and_end_in_lists(tmp_path):
    write_tables(tmp_path)
    commands = [command for block in blocks("console") for command, _ in console_blocks.commands(block)]
    assert len(commands) >= 9
    for command in commands:
        if "-o lists.csv" in command:
            (tmp_path / "lists.csv").unlink(missing_ok=True)
        printed = console_blocks.run(command, tmp_path)
        assert "Error" not in printed, (command, printed)
        assert "Usage" not in printed, (command, printed)
        if "-o lists.csv" in command:
            lists = (tmp_path / "lists.csv").read_text().splitlines()
            assert lists[0].startswith("user,item,rank,score")
            assert sum(line.startswith("ann,") for line in lists) > 1
    assert (tmp_path / "report.html").exists()


def test_it_leads_with_the_model_that_the_page_on_models_recommends():
    recommended = re.search(
        r"nothing to tune \| `(\w+)`", (ROOT / "docs" / "which-model.md").read_text(encoding="utf-8")
    )
    assert recommended
    first = re.search(r"from boundrec import (\w+)", README)
    assert first
    assert first[1] == recommended[1]
    api = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert re.search(r"autoclass:: boundrec\.(\w+)", api)[1] == recommended[1]


def test_the_picture_on_top_is_small_enough_to_load_at_once():
    picture = re.search(r"!\[[^\]]+\]\(([^)]+\.png)\)", README.split("## ")[0])
    assert picture
    assert (ROOT / picture[1]).stat().st_size < 300_000


@pytest.mark.parametrize(("block", "extra", "command"), [(0, "demo", "boundrec demo"), (1, "test", "python -m pytest")])
def test_each_of_the_two_commands_is_one_line_that_installs_and_runs(block, extra, command):
    assert blocks("sh")[block] == f'pip install -q ".[{extra}]" && {command}\n'


def test_links_lead_to_files_that_exist():
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", README) if "://" not in target]
    assert targets
    missing = [target for target in targets if not (ROOT / target).exists()]
    assert not missing
