"""Shows the outcome of a call: its result, or what a person must do first."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from spindle.cli.errors import PAUSED, exit_code

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.cli.context import CliContext
    from spindle.cli.node_progress import NodeProgress
    from spindle.domain.call import Result
    from spindle.runs.outcomes import OpenPause, Outcome


Show = Callable[[str, "Result"], Awaitable[None]]
"""Prints the result of a run, given its id."""


async def conclude(
    cli: CliContext,
    app: Spindle,
    outcome: Outcome,
    *,
    approve: bool = False,
    show: Show | None = None,
    progress: NodeProgress | None = None,
) -> int:
    """Prints the result. If the call is paused, asks the person at the terminal, or says what is needed.
    `progress` shows the nodes of a flow as they run."""
    from spindle.cli.results import show_result
    from spindle.runs.outcomes import Finished, Paused

    while isinstance(outcome, Paused):
        pause = outcome.pauses[0] if outcome.pauses else None
        answered = pause and await answered_here(cli, app, pause, approve=approve)
        if not pause or not answered:
            show_paused(cli, outcome)
            return PAUSED
        async with watching(progress):
            outcome = await app.resume(
                pause.token, **answered, on_progress=cli.progress_of(pause.tool or "the call")
            )
    if isinstance(outcome, Finished):
        if show is not None:
            await show(outcome.run_id, outcome.result)
        else:
            await show_result(cli, app, outcome.result)
        category = outcome.result.category
        return exit_code(category) if category is not None else 0
    cli.output.note(f"another process is executing run {outcome.run_id} and will continue it")
    if cli.output.as_json:
        cli.output.json({"continuing": {"run_id": outcome.run_id}})
    return PAUSED


@contextlib.asynccontextmanager
async def watching(progress: NodeProgress | None) -> AsyncGenerator[None]:
    """Shows the nodes of a flow as they run, if there is a `progress`."""
    if progress is None:
        yield
        return
    async with progress.watching():
        yield


async def answered_here(
    cli: CliContext, app: Spindle, pause: OpenPause, *, approve: bool
) -> dict[str, Any] | None:
    """The answer of the person at the terminal as arguments of `resume`; None if nobody gives one."""
    in_doubt = "in_doubt" in pause.details
    # Who said yes to all did not know that something would happen a second time.
    if approve and pause.kind == "approval" and not in_doubt:
        return {"answer": True}
    if not cli.can_ask or cli.answers_later or pause.kind == "wait":
        return None
    if pause.kind == "input" and (questions := _questions(pause)):
        return await _filled_in(cli, pause, questions)
    for line in _described(pause):
        cli.output.aside(line)
    match pause.kind:
        case "approval" if in_doubt:
            said = await cli.ask("call it again? [y]es, it was [d]one, [n]o; Enter decides later: ")
            return _DECISIONS.get((said or "").lower()[:1])
        case "approval":
            said = await cli.ask("approve? [y/N] ")
            if said is None:
                return None
            return (
                {"answer": True} if said.lower() in ("y", "yes") else {"refused": "refused at the terminal"}
            )
        case "consent":
            from spindle.cli.auth.here import log_in_here

            if pause.source is not None and await log_in_here(cli, app, pause.source, pause.principal):
                return {"answer": None}
            return None if await cli.ask("press Enter when you have agreed ") is None else {"answer": None}
        case _:
            return await _typed_answer(cli, pause)


_DECISIONS: dict[str, dict[str, Any]] = {
    "y": {"answer": True},
    "d": {"answer": {"done": True}},
    "n": {"refused": "refused at the terminal"},
}


def _questions(pause: OpenPause) -> list[dict[str, Any]]:
    """The forms and pages of which the pause consists, if it does."""
    from spindle.calls.forms import fields_of

    if "questions" in pause.details:
        return pause.details["questions"]
    schema = pause.details.get("schema", {})
    try:
        fields_of(schema)
    except ValueError:
        return []
    return [{"name": "answer", "message": pause.message, "schema": schema}]


async def _filled_in(
    cli: CliContext, pause: OpenPause, questions: list[dict[str, Any]]
) -> dict[str, Any] | None:
    from spindle.cli.forms import answer
    from spindle.domain.question import SourceQuestion

    contents: dict[str, Any] = {}
    for item in questions:
        asker = pause.source or pause.tool or "the call"
        parts = (item["message"], asker, pause.tool or "", item.get("schema"), item.get("url"))
        said = await answer(cli, SourceQuestion(*parts, pause.principal))
        if said is None:
            return None
        if said.action != "accept":
            return {"refused": "declined at the terminal"}
        if "url" not in item:
            contents[item["name"]] = said.content
    if not contents:
        return {"answer": None}
    return {"answer": next(iter(contents.values())) if len(questions) == 1 else contents}


async def _typed_answer(cli: CliContext, pause: OpenPause) -> dict[str, Any] | None:
    from spindle.calls.flags import value_of
    from spindle.domain.json_schema import types_of
    from spindle.errors import InvalidArgumentsError

    schema = pause.details.get("schema", {})
    if types_of(schema, schema) & {"object", "array"}:
        return None  # needs more than a line: give it with `resume --answer`
    while (said := await cli.ask("answer: ")) is not None:
        if not schema:
            return {"answer": said or None}
        try:
            return {"answer": value_of(said, schema, "the answer")}
        except InvalidArgumentsError as error:
            cli.output.aside(error.message)
    return None


def show_paused(cli: CliContext, paused: Any, *, quiet: bool = False) -> None:
    """Says what is needed and how to resume. With `quiet`, stdout has it already."""
    for pause in paused.pauses:
        if not cli.can_ask or pause.kind == "wait":
            for line in _described(pause):
                cli.output.aside(line)
    for pause in paused.pauses:
        where = "add the source to a workspace and call again" if cli.once else _command(pause)
        cli.output.aside(f"  to continue: {where}")
    if cli.output.as_json and not quiet:
        pauses = [pause.to_dict() for pause in paused.pauses]
        cli.output.json({"paused": {"run_id": paused.run_id, "pauses": pauses}})


def _described(pause: OpenPause) -> list[str]:
    import json

    from spindle.cli.output import when
    from spindle.domain.visible import quoted

    lines = [f"spindle: paused: {quoted(pause.message)}"]
    details = pause.details
    if pause.kind == "consent":
        who = details.get("provider") or pause.source or "the provider"
        scopes = ", ".join(map(str, details.get("scopes") or ()))
        lines.append(f"  {who} asks for your consent" + (f" to: {scopes}" if scopes else ""))
        lines.append(f"  to give it: {_login(pause)}")
        # If the application itself receives users who come back, the link alone is enough.
        lines.append(f"  or open: {details['url']}")
    elif "url" in details:
        lines += [f"  open: {url}" for url in details.get("urls", [details["url"]])]
    if pause.kind == "approval":
        if "tool" in details:
            lines.append(f"  tool: {details['tool']}")
        own = {key: value for key, value in details.items() if key not in ("tool", "repeats")}
        shown = details.get("arguments", own)
        if shown:
            lines.append(f"  arguments: {json.dumps(shown, ensure_ascii=False)}")
        if in_doubt := details.get("in_doubt"):
            lines.append(f"  begun: {when(in_doubt['begun_at'])} on {in_doubt['process']}")
    if "webhook" in details:
        lines.append(f"  webhook: {details['webhook']}")
    if pause.kind == "input" and details.get("schema"):
        lines.append(f"  answer: {_wanted(details['schema'])}")
    if details.get("repeats"):
        lines.append("  then the tool is called again from its start")
    return [lines[0], *(" ".join(line.splitlines()) for line in lines[1:])]


def _wanted(schema: dict[str, Any]) -> str:
    import json

    from spindle.domain.json_schema import parameters, types_of

    types = types_of(schema, schema)
    if types and types <= {"object"}:
        return ", ".join(f"{item.name} ({item.label})" for item in parameters(schema)) or "an object"
    if "enum" in schema:
        return " or ".join(json.dumps(choice, ensure_ascii=False) for choice in schema["enum"])
    return " or ".join(sorted(types)) or "anything"


def _login(pause: OpenPause) -> str:
    import shlex

    from spindle.domain.identity import LOCAL

    user = f" --as {shlex.quote(pause.principal.id)}" if pause.principal.id != LOCAL.id else ""
    return f"spindle auth login {pause.source}{user}"


def _command(pause: OpenPause) -> str:
    from spindle.domain.json_schema import types_of

    start = f"spindle resume {pause.token}"
    if pause.kind == "wait":
        run = f"spindle resume {pause.run_id[:12]}"
        return f"{run} when it is over; `spindle serve` and `spindle up` do so by themselves"
    if "in_doubt" in pause.details:
        return f"{start} --approve to call it again, --done if it was done, or --refuse REASON"
    if pause.kind == "approval":
        return f"{start} --approve, or --refuse REASON"
    schema = pause.details.get("schema")
    if pause.kind == "consent" or not schema:
        return start
    return f"{start} --answer JSON" if types_of(schema, schema) & {"object", "array"} else f"{start} ANSWER"
