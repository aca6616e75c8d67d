"""`spindle agent TASK`: a language model works on a task with the workspace's tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.completion import complete_tool
from spindle.cli.context import CliContext, command
from spindle.cli.stdin import read_stdin
from spindle.cli.submitting import placing_of, refuse_mixed, show_submitted, submit_options
from spindle.cli.tape_options import refuse_tape, tape_options

if TYPE_CHECKING:
    from spindle.agents.agent import Agent
    from spindle.agents.outcomes import AgentOutcome
    from spindle.app import Spindle
    from spindle.cli.agent_view import View
    from spindle.domain.agent import AgentConfig

NOT_DONE = 1


@command("agent")
@click.argument("task", metavar="TASK|-")
@click.option("-m", "--model", metavar="PROVIDER:NAME", help="The language model.")
@click.option("--instructions", metavar="TEXT", help="Instructions for the model, besides the task.")
@click.option(
    "-t", "--tools", metavar="PATTERN", multiple=True, shell_complete=complete_tool,
    help="Tools that the model may use. Repeatable.",
)  # fmt: skip
@click.option("--max-steps", type=click.IntRange(min=1), help="Answers of the model before it must stop.")
@click.option(
    "--continue", "continued", metavar="RUN", help="Continue the conversation of a run that has ended."
)
@click.option("--thread", metavar="NAME", help="A conversation over runs, which this one continues.")
@click.option(
    "-f", "--file", "files", metavar="PATH", multiple=True, type=click.Path(),
    help="A picture, audio, document or text that goes with the task. Repeatable.",
)  # fmt: skip
@click.option("--code", is_flag=True, help="The model calls tools by programs that it writes.")
@click.option("-y", "--yes", is_flag=True, help="Approve what needs approval.")
@click.option("--stream", is_flag=True, help="Print events as they happen, as lines of JSON.")
@tape_options
@submit_options
def agent(
    cli: CliContext,
    task: str,
    model: str | None,
    instructions: str | None,
    tools: tuple[str, ...],
    max_steps: int | None,
    continued: str | None,
    thread: str | None,
    files: tuple[str, ...],
    **how: Any,
) -> int:
    """Give a task to a language model that uses the tools of this workspace.

    Its steps are shown on stderr, its answer on stdout. On a terminal you are asked to approve calls that
    need approval; otherwise, and for questions to the user, the run pauses until `spindle resume`. Ctrl-C
    pauses it too. Keys of providers are read from the environment, such as OPENAI_API_KEY or
    ANTHROPIC_API_KEY. Settings are in [agent]. With --detach the task is put into a queue for `spindle
    worker`, and the id of its run is printed.
    """
    refuse_mixed({**how, "continued": continued})
    if continued is not None and (thread is not None or files):
        raise click.UsageError("--continue goes on with a run as it is: give neither --thread nor --file")
    given: dict[str, Any] = {"thread": thread, "files": files}
    if task == "-":
        task = cli.run(read_stdin(None)) or ""
    config = cli.settings().agent()
    changed: dict[str, Any] = {"code": how["code"] or None}
    changed |= {"model": model, "models": model and (), "instructions": instructions, "tools": tools or None}
    config = config.model_copy(update={key: value for key, value in changed.items() if value is not None})
    if max_steps is not None:
        config = config.model_copy(update={"limits": config.limits.model_copy(update={"steps": max_steps})})
    if how["detach"]:
        refuse_tape(cli.tape)
        return cli.run(_submit(cli, config, task.strip(), given, how))
    worked = _agent(cli, config, task.strip(), continued, given, approve=how["yes"], stream=how["stream"])
    return cli.run(worked)


async def _submit(
    cli: CliContext, config: AgentConfig, task: str, given: Mapping[str, Any], how: Mapping[str, Any]
) -> int:
    from spindle.agents.models import no_model

    if config.model is None:
        raise no_model()
    async with cli.open() as app:
        show_submitted(cli, await _made(app, config).submit(task, placing_of(how), **given))
    return 0


async def _agent(
    cli: CliContext,
    config: AgentConfig,
    task: str,
    continued: str | None,
    given: Mapping[str, Any],
    *,
    approve: bool,
    stream: bool,
) -> int:
    from spindle.agents.models import no_model
    from spindle.agents.outcomes import AgentResult
    from spindle.cli.agent_view import View
    from spindle.cli.outcome import answered_here, show_paused
    from spindle.runs.outcomes import Paused

    if config.model is None:
        raise no_model()
    view = View(cli.output, stream=stream)
    async with cli.open() as app:
        made = _made(app, config)
        with cli.interrupted_by(_suspending(app, view)):
            outcome: AgentOutcome
            if continued is None:
                outcome = await made.run(task, **given, on_event=view.hear, streams=view.streams)
            else:
                outcome = await made.continue_run(continued, task, on_event=view.hear, streams=view.streams)
            while isinstance(outcome, Paused) and outcome.pauses:
                view.end_line()
                said = await answered_here(cli, app, outcome.pauses[0], approve=approve)
                if said is None:
                    break
                outcome = await made.resume(
                    outcome.pauses[0].token, **said, on_event=view.hear, streams=view.streams
                )
        view.end_line()
        if isinstance(outcome, Paused):
            if not outcome.pauses:
                cli.output.aside(f"spindle: suspended\n  to continue: spindle resume {outcome.run_id}")
            view.show_pause(outcome)
            show_paused(cli, outcome, quiet=stream)
            return 75
        if not isinstance(outcome, AgentResult):
            cli.output.note(f"another process is executing run {outcome.run_id} and will continue it")
            return 75
        return _show(cli, view, outcome)


def _show(cli: CliContext, view: View, result: Any) -> int:
    if cli.output.as_json and not view.is_stream:
        cli.output.json(result.to_dict())
    elif not view.is_stream and not view.has_written:
        cli.output.line(result.text)
    if result.ended_by != "answer":
        cli.output.note(f"it ended before there was an answer: the limit of {result.ended_by} was reached")
        cli.output.aside(f"  to continue: spindle agent --continue {result.run_id} TASK")
        return NOT_DONE
    return 0


def _made(app: Spindle, config: AgentConfig) -> Agent:
    from spindle.agents.agent import Agent

    assert config.model is not None
    return Agent(
        app,
        [config.model, *config.others],
        instructions=config.instructions,
        tools=config.tools,
        approve=config.approve,
        limits=config.limits.model_dump(exclude_none=True),
        prices=config.prices,
        context=config.context.model_dump(exclude_none=True),
        memory=config.memory,
        code=config.code,
        taint=config.taint,
        send_to=config.send_to,
    )


def _suspending(app: Spindle, view: View) -> Callable[[], None]:
    """Makes the first Ctrl-C pause the run, and a second one cancel it."""
    task = asyncio.current_task()
    assert task is not None
    suspended = False

    def stop() -> None:
        nonlocal suspended
        if not suspended and view.run_id is not None and app.runner.suspend(view.run_id):
            suspended = True
            view.status("waiting for running calls to end; press Ctrl-C again to cancel them …")
        else:
            task.cancel()

    return stop
