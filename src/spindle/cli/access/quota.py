"""`spindle quota`: how much users, groups and tools may use, changed while servers run."""

from __future__ import annotations

from typing import Any

import click

from spindle.cli.access.here import administration
from spindle.cli.context import CliContext, command
from spindle.cli.group import LazyGroup
from spindle.cli.options import shared_options

quota = LazyGroup(
    "quota",
    params=[*shared_options()],
    sections={
        "Quotas": {
            "list": ("access.quota", "listing", "List the quotas."),
            "set": ("access.quota", "set_", "Make a quota, or change it."),
            "remove": ("access.quota", "remove", "Remove a quota."),
        },
    },
    help="How much clients of `spindle serve` may use. Changes are in force at once, in all servers of the"
    " workspace; quotas in spindle.toml are changed there.",
)


@command("list")
async def listing(cli: CliContext) -> None:
    """List the quotas, those of spindle.toml too."""
    written = cli.settings().serve().quotas.rules
    async with administration(cli) as (admins, _):
        made = await admins.quotas()
    found: list[dict[str, Any]] = [
        {"name": name, "from": place, **rule.model_dump(mode="json", exclude_defaults=True)}
        for place, rules in (("spindle.toml", written), ("administrators", made))
        for name, rule in rules.items()
    ]
    if cli.output.as_json:
        cli.output.json(found)
    elif not found:
        cli.output.note("there are no quotas; `spindle quota set NAME --calls 1000/hour` makes one")
    else:
        rows = [(item["name"], item["from"], _whom(item), _limits(item)) for item in found]
        cli.output.table(("NAME", "FROM", "FOR", "AT MOST"), rows, drop=("FROM",))


def _whom(item: dict[str, Any]) -> str:
    said = [f"users {' '.join(item['users'])}"] if item.get("users") else []
    said += [f"groups {' '.join(item['groups'])}"] if item.get("groups") else []
    said += [f"tools {' '.join(item['tools'])}"] if item.get("tools") else []
    return f"{', '.join(said) or 'everybody'}, {'together' if item.get('shared') else 'each'}"


def _limits(item: dict[str, Any]) -> str:
    said = [f"{item['concurrency']} at once"] if "concurrency" in item else []
    for name in ("calls", "bytes", "cost"):
        if name in item:
            amount = item[name].get("bytes", item[name].get("calls"))
            said.append(
                f"{amount:g} {'units' if name == 'cost' else name} in {item[name].get('seconds', 1):g} s"
            )
    return ", ".join(said)


@command("set")
@click.argument("name")
@click.option("--user", "users", metavar="USER", multiple=True, help="For this user; may be given again.")
@click.option("--group", "groups", metavar="GROUP", multiple=True, help="For members of this group.")
@click.option("--tool", "tools", metavar="TOOL", multiple=True, help="For calls of this tool or pattern.")
@click.option("--shared", is_flag=True, help="For all of them together, instead of each user.")
@click.option("--calls", metavar="RATE", help="Calls: 1000/hour.")
@click.option("--concurrency", metavar="COUNT", type=click.IntRange(min=1), help="Calls at once.")
@click.option("--bytes", "sizes", metavar="RATE", help="Bytes of arguments and results: 10MB/day.")
@click.option("--cost", metavar="RATE", help="Units of serve.costs: 500/day.")
async def set_(cli: CliContext, name: str, sizes: str | None, **given: Any) -> None:
    """Make a quota, or put another in its place. Left out, users and groups mean everybody, and tools all."""
    rule = {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    rule["bytes"] = sizes
    async with administration(cli) as (admins, by):
        made = await admins.set_quota(by, name, {key: value for key, value in rule.items() if value})  # pyright: ignore[reportUnknownVariableType]
    if cli.output.as_json:
        cli.output.json({"name": name, **made.model_dump(mode="json", exclude_defaults=True)})
    else:
        cli.output.line(
            f"the quota {name} is set: {_limits(made.model_dump(mode='json', exclude_defaults=True))}"
        )


@command("remove")
@click.argument("name")
async def remove(cli: CliContext, name: str) -> None:
    """Remove a quota."""
    async with administration(cli) as (admins, by):
        await admins.remove(by, "quota", name)
    if cli.output.as_json:
        cli.output.json({"name": name, "removed": True})
    else:
        cli.output.line(f"the quota {name} is gone")
