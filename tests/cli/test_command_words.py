"""Sentences of the library in the words of the command: every option that one names exists."""

import ast
from pathlib import Path

import pytest
import typer
from command_options import named_but_missing, options_by_command

from boundrec import cli
from boundrec.cli import console

ROOT = Path(__file__).parents[2] / "src" / "boundrec"
COMMANDS = sorted(options_by_command())


@pytest.fixture
def speak_for(monkeypatch):
    monkeypatch.setattr(console, "_spoken", set())
    return lambda name: console.speak_for(typer.main.get_command(cli.app).commands[name])


def text_of(node):
    """A string or f-string of the source, with 7 for what is filled in; None for other expressions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "7" for part in node.values)
    return None


def messages_of_the_library():
    """Every text in a call of an exception, of `warn` or of what refuses: all that may come to be printed."""
    for file in sorted(ROOT.rglob("*.py")):
        if "cli" in file.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                texts = map(text_of, [*node.args, *(keyword.value for keyword in node.keywords)])
                yield from (text for text in texts if text and " " in text)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_message_of_the_library_becomes_an_option_that_the_command_does_not_have(speak_for, command):
    speak_for(command)
    changed = 0
    for message in messages_of_the_library():
        shown = console.in_command_words(message)
        if shown != message:
            changed += 1
            assert named_but_missing(command, shown) <= named_but_missing(command, message), shown
    assert changed > 20


def test_every_option_that_the_source_names_exists_in_some_command():
    known = set().union(*options_by_command().values(), {"--upgrade"})  # pip has that one
    for file in sorted([*ROOT.rglob("*.py")]):
        if file.parent.name == "report" and file.name == "__init__.py":  # whose style has variables that look alike
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            text = text_of(node)
            if text is not None and "--7" not in text:
                assert named_but_missing("fit", text) <= known, (file, text)


@pytest.mark.parametrize(
    ("command", "message", "shown"),
    [
        ("fit", 'Pass duplicates="last".', "Pass --duplicates last."),
        ("fit", 'Pass on_contradiction="widen" or "drop".', "Pass --set on_contradiction=widen (or drop)."),
        ("fit", "ridge='much': give a number.", "--set ridge=much: give a number."),
        (
            "fit",
            "bounds=(0.0, None): needs both, such as bounds=(1, 5).",
            "--bounds 0 none: needs both, such as --bounds 1 5.",
        ),
        ("fit", "raise max_iter, not n_factors=3.", "raise --sweeps, not --k 3."),
        ("tune", "n_jobs=-3: give a number.", "--threads -3: give a number."),
        ("demo", "n_factors=3, max_iter=5", "--factors 3, max_iter=5 " + console.WHERE_SETTINGS_GO),
        ("recommend", "not known: pass exclude_seen=False.", "not known: pass --with-seen."),
        ("recommend", 'Pass on_unknown="mean".', 'Pass on_unknown="mean". ' + console.WHERE_SETTINGS_GO),
        ("compare", "slack=0.5: give more.", "slack=0.5: give more. " + console.WHERE_SETTINGS_GO),
        ("fit", "user 'n_factors=3' has rated x=5 times.", "user 'n_factors=3' has rated x=5 times."),
        ("predict", "n_factors is n_factors here.", "n_factors is n_factors here."),
        ("fit", "--set ridge=7: as it is.", "--set ridge=7: as it is."),
    ],
)
def test_words_of_the_library_become_those_of_the_command(speak_for, command, message, shown):
    speak_for(command)
    assert console.in_command_words(message) == shown
