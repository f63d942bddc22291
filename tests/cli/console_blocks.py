"""Console blocks of the documentation: commands after ``$``, and below each what it prints.

Where the page has ``...``, anything may be printed; a number may differ by a few per cent, for the last bits of a fit
differ between processors, and by more where a page says so: what a sampler learns then differs as by another seed.
"""

import os
import re
import subprocess
import sysconfig

NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:e[+-]?\d+)?")
#: Of its size, and of shares near nothing.
TOLERANCE, NOTHING = 0.03, 0.001


def commands(body):
    """Each command of a block and the output shown below it; a backslash carries a command on to the next line."""
    found = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif found and found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1][0] += "\n" + line
        elif found:
            found[-1][1].append(line)
    return [(command, "\n".join(lines).rstrip()) for command, lines in found]


def run(command, folder):
    """What a shell prints for a command, results and messages in the order of a terminal.

    Whether something is compiled depends on what ran before, and is left out.
    """
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "120"}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600
    )
    return re.sub(r"^Compiling, first run only.*\n", "", done.stdout.decode(), flags=re.MULTILINE)


def agree(shown, printed, tolerance=TOLERANCE):
    """Whether a page shows what was printed, up to ``...``, spaces and the last digits of numbers."""
    pattern, numbers = "", []
    for piece in re.split(rf"(\.\.\.|\s+|{NUMBER.pattern})", shown.strip()):
        if piece == "...":
            pattern += ".*?"
        elif piece.strip() == "":
            pattern += r"\s+" if piece else ""
        elif NUMBER.fullmatch(piece):
            numbers.append(piece)
            pattern += f"({NUMBER.pattern})"
        else:
            pattern += re.escape(piece)
    pattern = pattern.replace(r"\s+.*?\s+", r"\s+(?:.*?\s+)?")  # a line of dots may stand for no line at all
    match = re.fullmatch(pattern, printed.strip(), re.DOTALL)
    return match is not None and all(close(*pair, tolerance) for pair in zip(numbers, match.groups(), strict=True))


def close(one, other, tolerance):
    a, b = (float(text.replace(",", "")) for text in (one, other))
    return abs(a - b) <= max(tolerance * max(abs(a), abs(b)), NOTHING)
