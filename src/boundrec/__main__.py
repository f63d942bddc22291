"""The script ``boundrec``, and ``python -m boundrec``: the command, or how to install what it needs."""

import sys
from importlib.util import find_spec

#: What the extra "cli" installs.
NEEDED = ("matplotlib", "polars", "rich", "typer")


def main() -> None:
    """Run the command; one sentence where its packages are not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        names = " and ".join([", ".join(missing[:-1]), missing[-1]] if missing[1:] else missing)
        sys.exit(f'Error: the command needs {names}, which the library does without: pip install "boundrec[cli]"')
    from boundrec.cli import main as command

    command()


if __name__ == "__main__":
    main()
