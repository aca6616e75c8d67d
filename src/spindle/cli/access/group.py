"""`spindle group`: the tools that groups of clients see, changed while servers run."""

from __future__ import annotations

from typing import Any

import click

from spindle.cli.access.here import administration
from spindle.cli.context import CliContext, command
from spindle.cli.group import LazyGroup
from spindle.cli.options import shared_options

group = LazyGroup(
    "group",
    params=[*shared_options()],
    sections={
        "Groups": {
            "list": ("access.group", "listing", "List the groups and what they see."),
            "set": ("access.group", "set_", "Make a group, or give it other lists."),
            "remove": ("access.group", "remove", "Remove a group."),
        },
    },
    help="Groups of clients of `spindle serve`, and the tools that each sees. Changes are in force at once,"
    " in all servers of the workspace; groups in spindle.toml are changed there.",
)


@command("list")
async def listing(cli: CliContext) -> None:
    """List the groups, those of spindle.toml too."""
    written = cli.settings().serve().groups
    async with administration(cli) as (admins, _):
        made = await admins.groups()
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "from": place,
            "exposed_tools": item.exposed_tools,
            "excluded_tools": item.excluded_tools,
        }
        for place, items in (("spindle.toml", written), ("administrators", made))
        for name, item in items.items()
    ]
    if cli.output.as_json:
        cli.output.json(found)
    elif not found:
        cli.output.note("there are no groups; `spindle group set NAME --expose 'fs.*'` makes one")
    else:
        rows = [
            (
                item["name"],
                item["from"],
                "all" if item["exposed_tools"] is None else " ".join(item["exposed_tools"]) or "none",
                " ".join(item["excluded_tools"]) or "-",
            )
            for item in found
        ]
        cli.output.table(("NAME", "FROM", "SEES", "BUT NOT"), rows, drop=("FROM",))


@command("set")
@click.argument("name")
@click.option("--expose", metavar="TOOL", multiple=True, help="A tool or pattern it sees; all if left out.")
@click.option("--exclude", metavar="TOOL", multiple=True, help="A tool or pattern it does not see.")
async def set_(cli: CliContext, name: str, expose: tuple[str, ...], exclude: tuple[str, ...]) -> None:
    """Make a group that sees some tools, or give it other lists."""
    lists: dict[str, Any] = {"excluded_tools": list(exclude)}
    if expose:
        lists["exposed_tools"] = list(expose)
    async with administration(cli) as (admins, by):
        made = await admins.set_group(by, name, lists)
    if cli.output.as_json:
        cli.output.json({"name": name, **made.model_dump(mode="json")})
    else:
        cli.output.line(f"the group {name} is set")


@command("remove")
@click.argument("name")
async def remove(cli: CliContext, name: str) -> None:
    """Remove a group: its members count as those of `serve.default_agent_group`."""
    async with administration(cli) as (admins, by):
        await admins.remove(by, "group", name)
    if cli.output.as_json:
        cli.output.json({"name": name, "removed": True})
    else:
        cli.output.line(f"the group {name} is gone")
