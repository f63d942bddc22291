"""``boundrec info``: what a model file holds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import typer

from boundrec.cli import options
from boundrec.cli.bounds import limits_of
from boundrec.cli.console import print_json
from boundrec.notes import in_a_sentence, size
from boundrec.registry import command_name

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
        **({} if model.fitted_.rule is None else {"noise_growth": model.fitted_.ranges.scale.growth}),
        "mean": learnt.mean,
        "sweeps": model.n_iter_,
        "objective": model.objectives_[-1],
        "settings": settings,
    }
