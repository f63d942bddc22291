"""The options that the command has, and those that a text speaks of."""

import re
from functools import cache


@cache
def options_by_command():
    """Every option of every command, by any of its names; those before the command's name are everybody's."""
    import typer

    from boundrec import cli

    group = typer.main.get_command(cli.app)
    return {name: {"--help", *names_in(group), *names_in(command)} for name, command in group.commands.items()}


def names_in(command):
    return {option for param in command.params for option in (*param.opts, *param.secondary_opts)}


def named_but_missing(command, text):
    """Options that a text of this command names and that do not exist; "boundrec fit --set" speaks of another one's."""
    known = options_by_command()
    named = re.findall(r"(?:boundrec ([a-z]+) )?(?<![\w-])(--[a-z][\w-]*)", text)
    return {option for other, option in named if option not in known[other or command]}
