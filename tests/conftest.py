"""Settings that hold for the whole suite, and the command as its script runs it."""

import sys

import pytest
from command_options import named_but_missing, options_by_command
from hypothesis import settings

# The first call of a kernel compiles it, which no deadline should count.
settings.register_profile("boundrec", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("boundrec")


@pytest.fixture
def boundrec_command(monkeypatch, capsys):
    """Run `main` as the script does; returns the exit code, stdout and stderr, which names no option in vain."""
    from boundrec import cli

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["boundrec", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        if arguments[0] in options_by_command():
            assert named_but_missing(arguments[0], printed.err) <= set(map(str, arguments))
        return ended.value.code or 0, printed.out, printed.err

    return run


@pytest.fixture
def command(boundrec_command, folder, monkeypatch):
    """Run in the folder of a file's tests; the arguments are one text, in which film_12 is an id with a blank."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "400")

    def run(text, code=0):
        found, out, err = boundrec_command(*(word.replace("film_", "film ") for word in text.split()))
        assert found == code, err
        assert "Traceback" not in err
        return out, err

    return run
