"""Where the paper's "random angle matrices" start: four readings of it, on the first fold of the paper's protocol.

``python -m benchmarks.starts`` fits MBMF as in the paper, forms n and c, K = 10, from each start and writes
``results/starts.md``: errors on the held-out ratings, and how many of all predictions lie below the declared range.
Names choose data sets. They need BOUNDREC_DATA.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

from benchmarks.measure import SHARED_DATA, Part, save_parts
from boundrec import MBMF
from boundrec.paper import protocol
from boundrec.paper.methods import conditions

NAMES = ("movielens_100k", "jester1", "bookcrossing_explicit", "lastfm_hetrec")
STARTS = ("angles", "angles-unit", "angles-quarter", "orthant")
FACTORS = 10


def part(name: str, folder: Path) -> Part:
    """A row for each form and start."""
    fold = protocol.fold_of(name, 0, folder)
    X, y = fold.part(fold.training)
    rows = []
    for form in ("n", "c"):
        for start in STARTS:
            what: Any = {"form": form, "init": start, "bounds": conditions(fold.data, FACTORS, 0).bounds}
            model = MBMF.as_in_paper(FACTORS, random_state=0, **what)
            fitted = protocol.fit(model, X, y, history=fold.part(fold.history))
            found = protocol.judge(fitted, fold)
            below = f"{100 * found['everywhere']['below']:.2f}%"
            rows.append([form, start, f"{found['rmse']:.4g}", f"{found['mae']:.4g}", below])
            print(name, rows[-1], flush=True)
    note = "First fold, K = 10, 500 iterations at most; the magnitudes are those of history, as in the paper."
    columns = ["form", "start", "RMSE", "MAE", "of all pairs below the range"]
    return Part(protocol.PAPER_DATA[name].title, columns, rows, [], [note])


def main(arguments: list[str]) -> int:
    warnings.simplefilter("ignore")
    folder = Path(os.environ.get("BOUNDREC_DATA") or SHARED_DATA)
    for name in arguments or NAMES:
        if protocol.missing(name, folder):
            print(f"Skipped {name}: its data are not in BOUNDREC_DATA.")
            continue
        save_parts({name: part(name, folder)}, "starts")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
