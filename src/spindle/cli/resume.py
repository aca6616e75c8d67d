"""`spindle resume`: answers a pause and resumes its run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from spindle.cli.completion import complete_pause
from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.cli.node_progress import NodeProgress
    from spindle.cli.outcome import Show
    from spindle.domain.call import Result
    from spindle.domain.run import Run
    from spindle.runs.outcomes import OpenPause

LOOK_AGAIN = 0.5


@command("resume")
@click.argument("token", metavar="TOKEN|RUN", shell_complete=complete_pause)
@click.argument("value", required=False, metavar="[ANSWER]")
@click.option("--answer", metavar="JSON", help="The answer as JSON.")
@click.option("--approve", is_flag=True, help="Approve the call.")
@click.option("--refuse", metavar="REASON", help="Refuse, with a reason.")
async def resume(
    cli: CliContext, token: str, value: str | None, answer: str | None, approve: bool, refuse: str | None
) -> int:
    """Answer a pause and resume its run.

    Once consent was given at the provider, it needs no answer. Answer a request for approval with --approve
    or --refuse, or change the call's arguments with --answer '{"approved": true, "arguments": {…}}'. Answer
    a question with ANSWER, typed by its schema, or with --answer.

    With the id of a RUN (or its beginning, or `last`), resumes a run that was stopped or whose process died,
    or shows how it ended. Steps that were done are not done again.
    """
    from spindle.agents.events import listening
    from spindle.cli.agent_view import View
    from spindle.cli.errors import UsageMistakeError

    given = [name for name, said in _said(value, answer, approve, refuse).items() if said]
    if len(given) > 1:
        raise UsageMistakeError(f"{given[0]} and {given[1]} cannot both be the answer", "give one of them")
    with listening(View(cli.output, says_text=False).hear):  # to an agent, if it is one's run
        return await _answered(cli, token, value, answer, approve, refuse)


def _said(value: str | None, answer: str | None, approve: bool, refuse: str | None) -> dict[str, bool]:
    return {
        "ANSWER": value is not None,
        "--answer": answer is not None,
        "--approve": approve,
        "--refuse": refuse is not None,
    }


async def _answered(
    cli: CliContext, token: str, value: str | None, answer: str | None, approve: bool, refuse: str | None
) -> int:
    from spindle.calls.flags import load_json
    from spindle.cli.outcome import conclude, watching
    from spindle.runs.outcomes import Paused

    async with cli.open() as app:
        token = await _named(app, token)
        pause = await _find(app, token)
        run = await app.store.run(pause.run_id if pause else token)
        flow = run if run is not None and run.kind == "flow" else None
        progress, show = _for_flow(cli, flow)
        if pause is not None and not any(_said(value, answer, approve, refuse).values()):
            if cli.can_ask:
                paused = Paused(pause.run_id, (pause,))
                return await conclude(cli, app, paused, show=show, progress=progress)
            _require_answer(pause)
        said: Any = None
        if value is not None:
            said = _typed(pause, value)
        elif answer is not None:
            said = load_json(answer, "--answer")
        elif approve:
            _require_approval(pause)
            said = True
        if flow is not None and pause is None:
            await _until_it_is_free(cli, app, flow)
        heard = cli.progress_of(pause.tool or token if pause else token)
        async with watching(progress):
            outcome = await app.resume(token, said, refused=refuse, on_progress=heard)
        return await conclude(cli, app, outcome, show=show, progress=progress)


def _for_flow(cli: CliContext, flow: Run | None) -> tuple[NodeProgress | None, Show | None]:
    """The progress display and the printer of the result, if the run is of a flow."""
    if flow is None:
        return None, None
    from spindle.cli.flow.results import print_flow_result
    from spindle.cli.node_progress import NodeProgress

    async def show(run_id: str, result: Result) -> None:
        print_flow_result(cli, run_id, result)

    cli.run_id = flow.id
    return NodeProgress(cli.output), show


async def _named(app: Spindle, token: str) -> str:
    from spindle.cli.run_names import LAST, find_run

    return (await find_run(app, token)).id if token == LAST else token


async def _until_it_is_free(cli: CliContext, app: Spindle, run: Run) -> None:
    """Waits until a run whose process was perhaps killed can be taken over: when that has given no sign of
    life until its lease ended."""
    import asyncio
    import time

    lease = run.lease_until
    while run.status == "running" and lease is not None and (left := lease - time.time()) > 0:
        cli.output.status(
            f"the process that executes this run may have died; waiting {left:.0f} s to be sure …"
        )
        await asyncio.sleep(min(left, LOOK_AGAIN))
        again = await app.store.run(run.id)
        if again is None or again.lease_until != lease:
            return  # it is alive, or the run has ended: `resume` will say which
        run = again


async def _find(app: Spindle, token: str) -> OpenPause | None:
    """The pause of this token, or the only one of this run."""
    waiting = await app.pauses()
    exact = [pause for pause in waiting if pause.token == token]
    of_run = [pause for pause in waiting if pause.run_id.startswith(token)]
    return exact[0] if exact else of_run[0] if len(of_run) == 1 else None


def _typed(pause: OpenPause | None, value: str) -> Any:
    from spindle.calls.flags import value_of
    from spindle.cli.errors import UsageMistakeError

    if pause is None:
        return value  # a wrong token is reported when it is used
    if pause.kind == "approval":
        raise UsageMistakeError(
            "a request for approval is not answered with a word", "use --approve or --refuse REASON"
        )
    if pause.kind == "consent":
        raise UsageMistakeError("consent needs no answer", "give it at the provider, then resume")
    schema = pause.details.get("schema", {})
    return value_of(value, schema, "the answer") if schema else value


def _require_answer(pause: OpenPause) -> None:
    from spindle.cli.errors import UsageMistakeError

    if pause.kind == "approval":
        raise UsageMistakeError("somebody must decide", "use --approve or --refuse REASON")
    if pause.kind == "input" and pause.details.get("schema"):
        raise UsageMistakeError(
            f"an answer is needed: {pause.message}",
            f"`spindle resume {pause.token} ANSWER`",
        )


def _require_approval(pause: OpenPause | None) -> None:
    from spindle.cli.errors import UsageMistakeError

    if pause is not None and pause.kind != "approval":
        raise UsageMistakeError(
            f"this waits for {'consent' if pause.kind == 'consent' else 'an answer'}, not for approval",
            "`spindle pauses` shows what is wanted",
        )
