"""`spindle resume`: answers a pause and resumes its run."""

from __future__ import annotations

from dataclasses import dataclass
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
DUE = "due"
"""Stands for all runs that waited for a time which has come."""


@command("resume")
@click.argument("token", metavar="TOKEN|RUN", shell_complete=complete_pause)
@click.argument("value", required=False, metavar="[ANSWER]")
@click.option("--answer", metavar="JSON", help="The answer as JSON.")
@click.option("--approve", is_flag=True, help="Approve the call.")
@click.option("--refuse", metavar="REASON", help="Refuse, with a reason.")
@click.option("--done", is_flag=True, help="Say that a call in doubt was done.")
async def resume(
    cli: CliContext,
    token: str,
    value: str | None,
    answer: str | None,
    approve: bool,
    refuse: str | None,
    done: bool,
) -> int:
    """Answer a pause and resume its run.

    Once consent was given at the provider, it needs no answer. Answer a request for approval with --approve
    or --refuse, or change the call's arguments with --answer '{"approved": true, "arguments": {…}}'. Answer
    a question with ANSWER, typed by its schema, or with --answer.

    A call that was begun before a fault may have been done: --approve makes it again, --done says that it was
    done (--answer '{"done": true, "result": …}' also what it returned), --refuse lets the step fail.

    With the id of a RUN (or its beginning, or `last`), resumes a run that was stopped or whose process died,
    or shows how it ended. Steps that were done are not done again. `spindle resume due` continues all runs
    that waited for a time which has come.
    """
    from spindle.agents.events import listening
    from spindle.cli.agent_view import View
    from spindle.cli.errors import UsageMistakeError

    answers = _Given(value, answer, approve, refuse, done)
    given = [name for name, said in answers.said().items() if said]
    if len(given) > 1:
        raise UsageMistakeError(f"{given[0]} and {given[1]} cannot both be the answer", "give one of them")
    if token == DUE and not given:
        return await _continue_due(cli)
    with listening(View(cli.output, says_text=False).hear):  # to an agent, if it is one's run
        return await _answered(cli, token, answers)


@dataclass(frozen=True, slots=True)
class _Given:
    """The answer as it was given on the command line: one of these."""

    value: str | None
    answer: str | None
    approve: bool
    refuse: str | None
    done: bool

    def said(self) -> dict[str, bool]:
        return {
            "ANSWER": self.value is not None,
            "--answer": self.answer is not None,
            "--approve": self.approve,
            "--refuse": self.refuse is not None,
            "--done": self.done,
        }


async def _continue_due(cli: CliContext) -> int:
    from spindle.cli.output import plural

    async with cli.open() as app:
        due = app.runner.due
        due.can_do = app.flows.can_continue
        await due.look()
        count = due.count
        await due.settled()
    cli.output.note(f"{plural(count, 'run')} continued" if count else "no run is due")
    return 0


async def _answered(cli: CliContext, token: str, given: _Given) -> int:
    from spindle.calls.flags import load_json
    from spindle.cli.outcome import conclude, watching
    from spindle.errors import SpindleError
    from spindle.runs.outcomes import Paused

    async with cli.open() as app:
        token = await _named(app, token)
        pause = await _find(app, token)
        if pause is not None and pause.kind == "wait" and not any(given.said().values()):
            token, pause = pause.run_id, None  # it goes on if its time is over
        run = await app.store.run(pause.run_id if pause else token)
        flow = run if run is not None and run.kind == "flow" else None
        progress, show = _for_flow(cli, flow)
        if pause is not None and not any(given.said().values()):
            if cli.can_ask:
                paused = Paused(pause.run_id, (pause,))
                return await conclude(cli, app, paused, show=show, progress=progress)
            _require_answer(pause)
        said: Any = None
        if given.value is not None:
            said = _typed(pause, given.value)
        elif given.answer is not None:
            said = load_json(given.answer, "--answer")
        elif given.approve or given.done:
            _require_approval(pause, done=given.done)
            said = {"done": True} if given.done else True
        if flow is not None and pause is None:
            await _until_it_is_free(cli, app, flow)
        heard = cli.progress_of(pause.tool or token if pause else token)
        try:
            async with watching(progress):
                outcome = await app.resume(token, said, refused=given.refuse, on_progress=heard)
        except SpindleError as error:
            if flow is not None and flow.status == "failed":
                error.hint = await _way_to_repeat(app, flow)
            raise
        return await conclude(cli, app, outcome, show=show, progress=progress)


async def _way_to_repeat(app: Spindle, run: Run) -> str | None:
    """Returns the command that runs a flow again from the node at which this run of it failed."""
    import shlex

    from spindle.cli.run_names import SHORT

    _, _, events = await app.flows.trace(run.id)
    failed = [event.node for event in events if event.error is not None and "/" not in event.node]
    if not failed:
        return None
    flow = shlex.quote(run.name) if app.flows.saved(run.name) is not None else "FLOW"
    again = f"`spindle run {flow} --from {shlex.quote(failed[-1])} --run {run.id[:SHORT]}`"
    return f"it has failed, and is not resumed; {again} runs the flow from there, with what this run had done"


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

    left = run.lease
    while run.status == "running" and left is not None and left > 0:
        cli.output.status(
            f"the process that executes this run may have died; waiting {left:.0f} s to be sure …"
        )
        await asyncio.sleep(min(left, LOOK_AGAIN))
        again = await app.store.run(run.id)
        if again is None or again.lease is None or again.lease > left:
            return  # it is alive, or the run has ended: `resume` will say which
        run, left = again, again.lease


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
        or_done = ", --done" if "in_doubt" in pause.details else ""
        raise UsageMistakeError("somebody must decide", f"use --approve{or_done} or --refuse REASON")
    if pause.kind == "input" and pause.details.get("schema"):
        raise UsageMistakeError(
            f"an answer is needed: {pause.message}",
            f"`spindle resume {pause.token} ANSWER`",
        )


def _require_approval(pause: OpenPause | None, *, done: bool) -> None:
    from spindle.cli.errors import UsageMistakeError

    if done and pause is not None and "in_doubt" not in pause.details:
        raise UsageMistakeError(
            "nothing is in doubt here: --done is for a call that was begun before a fault",
            "`spindle pauses` shows what is wanted",
        )
    if pause is not None and pause.kind != "approval":
        raise UsageMistakeError(
            f"this waits for {'consent' if pause.kind == 'consent' else 'an answer'}, not for approval",
            "`spindle pauses` shows what is wanted",
        )
