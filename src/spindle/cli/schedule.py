"""`spindle schedule`: flows that are submitted at times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from spindle.cli.completion import complete_flow, from_store
from spindle.cli.context import CliContext, command
from spindle.cli.group import LazyGroup
from spindle.cli.options import shared_options
from spindle.cli.submitting import MAX_PRIORITY
from spindle.cli.times import Age
from spindle.cli.tool_completion import ToolCommand, complete_words
from spindle.domain.schedule import MAX_CATCH_UP

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.schedule import Schedule
    from spindle.ports.store import Store

schedule = LazyGroup(
    "schedule",
    params=[*shared_options()],
    sections={
        "Commands": {
            "add": ("schedule", "add", "Submit a flow at times."),
            "list": ("schedule", "listing", "List schedules: last and next tick, last outcome."),
            "pause": ("schedule", "pause", "Let no tick come until it is resumed."),
            "resume": ("schedule", "resume", "Let ticks come again."),
            "run": ("schedule", "run", "Submit the flow of a schedule now."),
            "remove": ("schedule", "remove", "Remove a schedule."),
        },
    },
    help="Flows that are submitted at times, for `spindle worker` to run.",
)


def _complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    async def names(store: Store) -> list[str]:
        return [found.name for found in await store.schedules() if found.name.startswith(incomplete)]

    return from_store(ctx, names)


@command("add", cls=ToolCommand, context_settings={"allow_interspersed_args": False})
@click.option("--cron", metavar="FIELDS", help="Minute, hour, day, month, weekday: '0 9 * * mon-fri'.")
@click.option("--every", type=Age(), metavar="TIME", help="How long between two ticks: 30s, 15m, 7d.")
@click.option("--tz", "zone", metavar="ZONE", help="The time zone of --cron. [default: UTC]")
@click.option(
    "--catch-up",
    type=click.IntRange(0, MAX_CATCH_UP),
    metavar="COUNT",
    default=0,
    show_default=True,
    help="How many missed ticks are made up for.",
)
@click.option("--queue", metavar="NAME", help="The queue.")
@click.option(
    "--priority", type=click.IntRange(1, MAX_PRIORITY), metavar="NUMBER", help="A smaller number is sooner."
)
@click.option("--no-cache", is_flag=True, help="Do not answer from the cache.")
@click.argument("name")
@click.argument("flow", metavar="FLOW", shell_complete=complete_flow)
@click.argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[--NAME=VALUE]… [JSON]",
    shell_complete=complete_words,
)
@click.pass_context
async def add(
    ctx: click.Context, cli: CliContext, name: str, flow: str, words: tuple[str, ...], **options: Any
) -> None:
    """Submit a flow at each tick of --cron, or every so often: a saved one, or a line of tools.

    Flags after FLOW are its inputs. A tick that no worker took within a minute is missed.
    """
    from spindle.calls.options import CallOptions
    from spindle.cli.errors import UsageMistakeError

    if (options["cron"] is None) == (options["every"] is None):
        raise UsageMistakeError("say when it ticks", "give --cron '0 9 * * mon-fri' or --every 15m")
    if options["zone"] is not None and options["cron"] is None:
        raise UsageMistakeError("--tz is for --cron", "leave out --tz")
    async with cli.open() as app:
        text, inputs = await _meant(app, flow, words, ctx.command)
        rest = ("cron", "every", "zone", "catch_up", "queue", "priority")
        given = {key: options[key] for key in rest if options[key] is not None}
        made = await app.flows.schedules.add(
            name, text, inputs, CallOptions(use_cache=not options["no_cache"]), **given
        )
    _show(cli, made)


async def _meant(
    app: Spindle, flow: str, words: tuple[str, ...], command: click.Command
) -> tuple[str, JsonObject]:
    """Returns the flow as it is kept, and its inputs."""
    from spindle.cli.errors import UsageMistakeError
    from spindle.cli.run import find_meant
    from spindle.flows.library import is_pipe
    from spindle.flows.text.pipe_words import quote

    _, names, said = await find_meant(app, flow, words, command)
    if said.options:
        raise UsageMistakeError(f"{said.options[0]} belongs before the name", "write it right after `add`")
    for key in said.values:
        if key not in names.inputs:
            raise UsageMistakeError(f"--{key} is a parameter of a node", "write it into the flow")
    if app.flows.saved(flow) is None and not is_pipe(flow):  # a tool, whose flags are part of the line
        flow = " ".join(map(quote, [flow, *said.own]))
    return flow, said.values


@command("list")
async def listing(cli: CliContext) -> None:
    """List the schedules, with their last and next ticks and what became of the last."""
    async with cli.open() as app:
        found = [(item, await _outcome(app, item)) for item in await app.flows.schedules.all()]
    if cli.output.as_json:
        cli.output.json([{**item.to_dict(), "last_outcome": outcome} for item, outcome in found])
    elif not found:
        cli.output.note("there are no schedules yet: `spindle schedule add` adds one")
    else:
        rows = [
            (item.name, item.flow, item.rhythm, _next(item), moment(item.last_at), outcome or "-")
            for item, outcome in found
        ]
        headings = ("NAME", "FLOW", "TICKS", "NEXT", "LAST", "OUTCOME")
        cli.output.table(headings, rows, drop=("FLOW", "TICKS", "LAST"))


async def _outcome(app: Spindle, item: Schedule) -> str | None:
    """Returns what became of the last tick: the status of its run, or why it has none."""
    if item.error is not None:
        word = "missed" if item.error.get("category") == "missed" else "refused"
        return f"{word}: {item.error.get('message', '')}"
    if item.last_run is None:
        return None
    run = await app.store.run(item.last_run)
    return "pruned" if run is None else run.status


@command("pause")
@click.argument("name", shell_complete=_complete)
async def pause(cli: CliContext, name: str) -> None:
    """Let no tick come until the schedule is resumed."""
    async with cli.open() as app:
        _show(cli, await app.flows.schedules.pause(name))


@command("resume")
@click.argument("name", shell_complete=_complete)
async def resume(cli: CliContext, name: str) -> None:
    """Let ticks come again. Those of the time between are not made up for."""
    async with cli.open() as app:
        _show(cli, await app.flows.schedules.resume(name))


@command("run")
@click.argument("name", shell_complete=_complete)
async def run(cli: CliContext, name: str) -> None:
    """Submit the flow of a schedule now, besides its ticks, and print the run's id."""
    from spindle.cli.submitting import show_submitted

    async with cli.open() as app:
        show_submitted(cli, await app.flows.schedules.run(name))


@command("remove")
@click.argument("name", shell_complete=_complete)
async def remove(cli: CliContext, name: str) -> None:
    """Remove a schedule. Its runs stay."""
    async with cli.open() as app:
        await app.flows.schedules.remove(name)
    if cli.output.as_json:
        cli.output.json({"removed": name})
    else:
        cli.output.line(f"removed {name}")


def _show(cli: CliContext, item: Schedule) -> None:
    if cli.output.as_json:
        cli.output.json(item.to_dict())
        return
    cli.output.line(f"{item.name}  {item.rhythm}  {_next(item)}")
    if not item.paused:
        cli.output.note("its ticks come while `spindle worker` runs")


def _next(item: Schedule) -> str:
    return "paused" if item.paused else moment(item.next_at)


def moment(time: float | None) -> str:
    """A moment of the past or of the time to come, in this machine's time zone."""
    from datetime import datetime

    if time is None:
        return "-"
    return datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
