"""The README is true: its Python runs, its two commands are as scripts expect them, its links lead somewhere."""

import re
from pathlib import Path

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


@pytest.mark.parametrize(("block", "extra", "command"), [(0, "demo", "boundrec demo"), (1, "test", "python -m pytest")])
def test_each_of_the_two_commands_is_one_line_that_installs_and_runs(block, extra, command):
    assert blocks("sh")[block] == f'pip install -q ".[{extra}]" && {command}\n'


def test_links_lead_to_files_that_exist():
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", README) if "://" not in target]
    assert targets
    missing = [target for target in targets if not (ROOT / target).exists()]
    assert not missing
