"""`spindle replay FILE`: what is on a tape, and with `--verify` what live sources say now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.calls.tape import Take, Tape
    from spindle.domain.json_schema import JsonObject
    from spindle.errors import SpindleError


@command("replay")
@click.option("--verify", is_flag=True, help="Compare with the live sources, and say what differs.")
@click.option(
    "--all", "everything", is_flag=True,
    help="With --verify: also make calls again that are not known to do no harm.",
)  # fmt: skip
@click.argument("tape", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
async def replay(cli: CliContext, tape: Path, *, verify: bool, everything: bool) -> int:
    """Show what is on a tape that --record made.

    With --verify the tools on the tape are compared with those of this workspace, and calls of tools that
    only read are made once more, as are requests for resources and prompts: what differs, and what could not
    be asked, is listed, and the exit code is 1. Calls that failed, those of other tools and what models
    answered are not compared; --all makes calls of all tools.
    """
    from spindle.calls.tape import Tape
    from spindle.cli.errors import UsageMistakeError

    if everything and not verify:
        raise UsageMistakeError("--all goes with --verify")
    read = Tape.read(tape)
    if not verify:
        _show(cli, read)
        return 0
    async with cli.open() as app:
        found = await _verified(cli, app, read, everything=everything)
    outcomes = {item["outcome"] for item in found}
    if cli.output.as_json:
        cli.output.json({"differs": "differs" in outcomes, "calls": found})
    else:
        for item in found:
            why = f": {item['why']}" if "why" in item else ""
            cli.output.line(f"{item['outcome']:<8} {item['what']}{why}")
    return 1 if outcomes & {"differs", "failed"} else 0


def _show(cli: CliContext, tape: Tape) -> None:
    if cli.output.as_json:
        calls: list[JsonObject] = [
            {
                "call": take.number, _key(take): take.tool,
                "arguments": take.arguments, "outcome": _outcome(take), "ms": take.milliseconds,
            }
            for take in tape.takes
        ]  # fmt: skip
        cli.output.json({"calls": calls, "tools": sorted(tape.tools)})
        return
    rows = [(str(take.number), take.what, _outcome(take), f"{take.milliseconds:g} ms") for take in tape.takes]
    cli.output.table(("CALL", "OF", "OUTCOME", "TOOK"), rows)


def _key(take: Take) -> str:
    return "model" if take.is_model else "request" if take.source is not None else "tool"


def _outcome(take: Take) -> str:
    if take.error is not None:
        return str(take.error.get("category", "error"))
    return "tool" if (take.result or {}).get("is_error") else "ok"


async def _verified(cli: CliContext, app: Spindle, tape: Tape, *, everything: bool) -> list[JsonObject]:
    from spindle.errors import SpindleError

    found: list[JsonObject] = []
    used = {take.tool for take in tape.takes if _key(take) == "tool"}
    live: dict[str, Any] = {}
    for name in sorted(used):
        try:
            live[name] = await app.show(name)
        except SpindleError as error:
            found.append({"what": name, **_told(error)})
            continue
        known = tape.tools.get(name)
        if known is not None and known.fingerprint != live[name].fingerprint:
            changed = _changed(known.definition, live[name].spec.whole_definition())
            found.append({"what": name, "outcome": "differs", "why": f"the tool is another: {changed}"})
    for take in tape.takes:
        if take.source is not None and take.error is None:
            cli.output.status(f"asking for {take.tool} …")
            found.append({"what": f"call {take.number} of {take.tool}", **await _asked_again(app, take)})
        if take.is_model or take.tool not in live:
            continue
        tool, what = live[take.tool], f"call {take.number} of {take.tool}"
        safe = app.catalog.sources.config(tool.source).trusts_hints and bool(tool.hints.read_only)
        if take.error is not None or not (everything or safe or tool.pure):
            why = "it failed when it was recorded" if take.error is not None else "it may do something"
            found.append({"what": what, "outcome": "skipped", "why": why})
            continue
        cli.output.status(f"calling {take.tool} …")
        found.append({"what": what, **await _compared(app, take)})
    return found


async def _compared(app: Spindle, take: Take) -> JsonObject:
    from spindle.calls.options import CallOptions
    from spindle.calls.tape import differences
    from spindle.domain.call import Result
    from spindle.errors import ApprovalRequired, Interruption, SpindleError

    assert take.result is not None
    try:
        result = await app.call(take.tool, take.arguments, CallOptions(use_cache=False))
    except SpindleError as error:
        return _told(error)
    except Interruption as asked:
        what = "approval" if isinstance(asked, ApprovalRequired) else "a person"
        return {"outcome": "skipped", "why": f"it waits for {what}"}
    before = Result.from_dict(take.result).parsed()
    told = differences(before, result.parsed())
    return {"outcome": "differs", "why": told} if told else {"outcome": "same"}


async def _asked_again(app: Spindle, take: Take) -> JsonObject:
    from spindle.calls.tape import differences
    from spindle.domain.identity import LOCAL
    from spindle.errors import SpindleError

    assert take.source is not None
    source = take.source[0]
    try:
        method = take.tool.removeprefix(f"{source}.")
        now = await app.requests.request(source, LOCAL, method, take.arguments)
    except SpindleError as error:
        return _told(error)
    told = differences(take.result, now or {})
    return {"outcome": "differs", "why": told} if told else {"outcome": "same"}


def _told(error: SpindleError) -> JsonObject:
    """Says how a call failed: as an answer that is another one now, or because there was no answer."""
    from spindle.errors import InvalidArgumentsError, NotFoundError, ToolError

    is_answer = isinstance(error, InvalidArgumentsError | NotFoundError | ToolError)
    hint = error.hint_for("shell")
    why = error.message if hint is None else f"{error.message}; {hint}"
    return {"outcome": "differs" if is_answer else "failed", "why": why}


def _changed(before: JsonObject, now: JsonObject) -> str:
    from spindle.calls.tape import differences

    return differences(before, now) or "its definition differs"
