"""Several models on the same held-out ratings: one after the other, and the table of what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import typer

from boundrec.cli.bounds import Ends
from boundrec.cli.console import print_json, print_table, say
from boundrec.cli.held_out import Measured, Parts, Trial, fit_or_fail
from boundrec.cli.model_request import Request
from boundrec.notes import percent

#: In a table, of a model that could not be fitted or measured, and where there is nothing to tell.
FAILED, NO_FIGURE = "failed", "-"
#: The exit code of what Ctrl-C has ended, as shells have it.
INTERRUPTED = 130


def refuse_if_all_are_wrong(asked: list[Request], in_grid: Sequence[str] = ()) -> None:
    """What is asked wrongly is refused before the file is read, unless something is asked rightly.

    Settings ``in_grid`` were given by --grid, not by --set.
    """
    refused = []
    for request in asked:
        try:
            request.model()
        except typer.BadParameter as error:
            refused.append(error)
    if len(refused) == len(asked):
        for name in in_grid:
            refused[0].message = refused[0].message.replace(f"--set {name}=", f"--grid {name}=")
        raise refused[0]


class Tried(NamedTuple):
    """The results of some requests, in their order: of all, or of those that were finished before Ctrl-C."""

    results: list[Measured]
    interrupted: bool

    def end(self, what: str) -> None:
        """End with the exit code that the results deserve, now that they are shown."""
        if self.interrupted:
            raise typer.Exit(INTERRUPTED)
        if all(result.error is not None for result in self.results):
            raise ValueError(f"No {what} could be fitted and measured: see above why.")


def try_all(requests: Sequence[tuple[str, Request]], trial: Trial) -> Tried:
    """Fit and measure one after the other; what fails is a result as well, and Ctrl-C keeps what is finished."""
    results: list[Measured] = []
    try:
        for name, request in requests:
            found = fit_or_fail(request, trial)
            results.append(found)
            if found.error is None:
                say(f"{name}: RMSE {found.rmse:.4f} after {found.seconds:.1f} s")
            else:
                say(f"{name} failed: {found.error}")
    except KeyboardInterrupt:
        say(f"Interrupted: {len(results)} of {len(requests)} are finished.")
        return Tried(results, interrupted=True)
    return Tried(results, interrupted=False)


def by_error(result: Measured) -> tuple[bool, bool, float]:
    """The least error first, then what predicts no ratings, then what failed."""
    return result.error is not None, math.isnan(result.rmse), result.rmse


# --- printing -------------------------------------------------------------------------------------------------


def show(results: list[Measured], bounds: Ends, parts: Parts | None, json: bool) -> None:
    """Print the results: a table, or JSON with how the ratings were divided."""
    if json:
        sizes = (
            {}
            if parts is None
            else {"training_ratings": parts.training.n_ratings, "test_ratings": parts.test.n_ratings}
        )
        cold = {} if parts is None else {"new_share": float(parts.cold().mean())}
        print_json({**sizes, **cold, "bounds": list(bounds), "results": [result.as_json() for result in results]})
    else:
        print_table(columns(results, bounds), [row(result, results) for result in results])
        say("popularity: the items with the most training ratings first; it predicts no rating.")


def columns(results: list[Measured], bounds: Ends) -> list[str]:
    """The heads of the table of results."""
    ends = "..".join("" if end is None else f"{end:g}" for end in bounds)
    ranking = [name.upper() if name.startswith(("ndcg", "mrr")) else name for name in _ranking_names(results)]
    return ["model", "RMSE", "MAE", f"outside {ends}", *ranking, "seconds"]


def row(result: Measured, results: list[Measured]) -> list[str]:
    """One line of the table of results: a dash where a model has no such figure."""
    rmse, mae, seconds = short_row(result)
    outside = "none" if result.outside == 0 else _shown(result.outside, percent)
    ranking = [_shown(result.ranking.get(name, math.nan)) for name in _ranking_names(results)]
    return [result.name, rmse, mae, outside, *ranking, seconds]


def short_row(result: Measured, first: Sequence[str] = ()) -> list[str]:
    """RMSE, MAE and seconds, after what comes first in the line."""
    rmse = _shown(result.rmse) if result.error is None else FAILED
    return [*first, rmse, _shown(result.mae), _shown(result.seconds, "{:.1f}".format)]


def _shown(value: float, form: Callable[[float], str] = "{:.4f}".format) -> str:
    """A figure of a table; a dash for NaN."""
    return NO_FIGURE if math.isnan(value) else form(value)


def _ranking_names(results: list[Measured]) -> list[str]:
    return list(dict.fromkeys(name for result in results for name in result.ranking))
