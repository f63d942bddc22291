"""``boundrec info``: what a model file holds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import typer

from boundrec.cli import options
from boundrec.cli.bounds import limits_of
from boundrec.cli.console import print_json
from boundrec.cli.side_information import takes_features
from boundrec.notes import in_a_sentence, size
from boundrec.registry import command_name

#: So many features are named.
MOST_NAMES = 8
EXAMPLES = "Example: boundrec info model.safetensors --json"


def info(model: options.ModelFile, json: options.Json = False) -> None:
    """Say what a model file holds."""
    fitted = _load(model)
    found = _facts(fitted, model)
    if json:
        print_json(found)
        return
    typer.echo(f"{model}: {found['model']} ({found['class']}), {size(found['bytes'])}")
    typer.echo(f"users: {found['users']:,}   items: {found['items']:,}   ratings: {found['ratings']:,}")
    typer.echo(f"bounds: {limits_of(fitted).in_words()}")
    if "noise_growth" in found:
        typer.echo(f"noise grows with the width of a range to the power {in_a_sentence(found['noise_growth'])}")
    for line in _besides_in_words(found["besides_ratings"]) if "besides_ratings" in found else []:
        typer.echo(line)
    if found["affinity"]:
        typer.echo("lists: by affinity and predicted rating together")
    typer.echo(f"sweeps: {found['sweeps']}, the last with objective {in_a_sentence(found['objective'])}")
    kept = "yes" if found["ratings_kept"] else "no"
    mean = "" if math.isnan(found["mean"]) else f"mean rating: {in_a_sentence(found['mean'])}   "
    typer.echo(f"{mean}ratings kept in the file: {kept}")
    settings = ", ".join(f"{name}={value!r}" for name, value in found["settings"].items())
    typer.echo(f"settings: {settings}")


def _load(path: Path) -> Any:
    """The model; the function that its ranges may come from, which no file holds, is not asked here."""
    import boundrec

    try:
        return boundrec.load(path)
    except ValueError as error:
        if "its ranges come from a function" not in str(error):
            raise
        return boundrec.load(path, bounds=lambda users, items: ())


def _facts(model: Any, path: Path) -> dict[str, Any]:
    from boundrec.cli.held_out import Learnt

    learnt = Learnt.by(model)
    settings = {name: value for name, value in model.get_params().items() if isinstance(value, (str, int, float, bool))}
    return {
        "model": command_name(model),
        "class": type(model).__name__,
        "bytes": path.stat().st_size,
        "users": model.n_users_,
        "items": model.n_items_,
        "ratings": int(learnt.seen.indices.size),
        "ratings_kept": learnt.ratings is not None,
        **limits_of(model).as_json(),
        **({"besides_ratings": _besides(model.fitted_)} if takes_features(command_name(model)) else {}),
        **({} if model.fitted_.rule is None else {"noise_growth": model.fitted_.ranges.scale.growth}),
        "affinity": model.fitted_.choices is not None,
        "mean": learnt.mean,
        "sweeps": model.n_iter_,
        "objective": model.objectives_[-1],
        "settings": settings,
    }


def _besides(fitted: Any) -> dict[str, Any]:
    """What a model learnt from besides the values of ratings: features by name, how many are in sets, own noise.

    Of clicks it is features alone.
    """
    links = {"user": fitted.users.links, "item": fitted.items.links}
    found: dict[str, Any] = {
        f"{kind}_features": [] if own is None or own.features is None else own.features.names
        for kind, own in links.items()
    }
    if fitted.noise_variances is None:
        return found
    in_sets = {f"in_sets_of_{kind}s": 0 if own is None else int(own.in_sets.size) for kind, own in links.items()}
    return {**found, **in_sets, "noise": "one" if fitted.users.steadiness is None else "own"}


def _besides_in_words(found: dict[str, Any]) -> list[str]:
    """The same in lines."""
    features = [
        f"{len(names):,} of {kind}s ({_some(names)})"
        for kind in ("user", "item")
        if (names := found[f"{kind}_features"])
    ]
    lines = [f"features: {', '.join(features)}"] if features else []
    if "noise" not in found:
        return lines
    sets = [
        f"{count:,} {other}s in sets of {kind}s"
        for kind, other in (("user", "item"), ("item", "user"))
        if (count := found[f"in_sets_of_{kind}s"])
    ]
    noise = "of each user's and item's own" if found["noise"] == "own" else "one for all"
    return [*lines, f"who rated what: {', '.join(sets) or 'not used'}   noise: {noise}"]


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown}, ..."
