"""`spindle eval FILE`: tasks for an agent, with what is expected of it."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.context import CliContext, command
from spindle.cli.tape_options import tape_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spindle.agents.agent import Agent
    from spindle.agents.evaluation import Evaluation, Trial
    from spindle.app import Spindle


@command("eval")
@click.option("-m", "--model", metavar="PROVIDER:NAME", help="The language model.")
@click.option("--repeat", type=click.IntRange(1, 1000), help="How often each task is tried.")
@click.option("--parallel", type=click.IntRange(1, 64), default=1, show_default=True, help="Tasks at once.")
@click.option(
    "--junit", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write a JUnit report."
)
@click.option("-y", "--yes", is_flag=True, help="Let the agent make calls that need approval.")
@tape_options
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
async def eval_(cli: CliContext, file: Path, parallel: int, junit: Path | None, **how: Any) -> int:
    """Give tasks to an agent, and compare what it does with what is expected.

    FILE is YAML: `tasks` with a `task` and what to `expect`: `calls` in their order with at least these
    `arguments`, tools that are `never` called, texts that the answer `contains`, a pattern that it `matches`.
    The exit code is 1 if any trial is not as expected. A tape (--record, --replay) makes it repeatable
    without servers and models.
    """
    from spindle.agents.evaluation import read_evaluation

    wanted = read_evaluation(file)
    config = cli.load().agent() if "replay" in cli.tape else cli.settings().agent()
    name = how["model"] or wanted.model or config.model
    if junit is not None:
        _make_sure(junit)
    async with cli.open() as app:
        agent = _agent(app, wanted, config, name, approves=how["yes"])
        trials = await _tried(cli, agent, wanted, how["repeat"] or wanted.repeat, parallel)
        known = [tool.name for tool in await app.tools()]
    _show(cli, wanted, trials, known)
    if junit is not None:
        junit.write_bytes(_junit(file, trials))
    return 1 if any(trial.problems for trial in trials) else 0


def _make_sure(junit: Path) -> None:
    """Raises ConfigurationError if the report could not be written in the end, when all is paid for."""
    from spindle.errors import ConfigurationError

    try:
        junit.parent.mkdir(parents=True, exist_ok=True)
        was_there = junit.exists()
        junit.open("ab").close()
        if not was_there:
            junit.unlink()  # nobody should read an empty one, if the evaluation does not come to its end
    except OSError as error:
        raise ConfigurationError(f"the report {junit} cannot be written: {error.strerror}") from None


def _agent(app: Spindle, wanted: Evaluation, config: Any, name: str | None, *, approves: bool) -> Agent:
    from spindle.agents.agent import Agent
    from spindle.agents.models import no_model

    if name is None:
        raise no_model()
    return Agent(
        app,
        name,
        instructions=config.instructions if wanted.instructions is None else wanted.instructions,
        tools=wanted.tools or config.tools,
        approve=() if approves else config.approve,
        limits=config.limits.model_dump(exclude_none=True),
        prices=config.prices,
        ask_user=False,
    )


async def _tried(
    cli: CliContext, agent: Agent, wanted: Evaluation, repeat: int, parallel: int
) -> list[Trial]:
    from spindle.agents.evaluation import Trial
    from spindle.errors import ConfigurationError

    wrong: list[ConfigurationError] = []
    trials = [Trial(task, number) for task in wanted.tasks for number in range(1, repeat + 1)]
    free, done = asyncio.Semaphore(parallel), 0

    async def tried(trial: Trial) -> None:
        nonlocal done
        async with free:
            if wrong:
                return
            try:
                await _try(agent, trial)
            except ConfigurationError as error:  # what is wrong for one is wrong for all
                wrong.append(error)
        done += 1
        cli.output.status(f"{done} of {len(trials)} tried")

    async with asyncio.TaskGroup() as together:
        for trial in trials:
            together.create_task(tried(trial))
    if wrong:
        raise wrong[0]
    return trials


async def _try(agent: Agent, trial: Trial) -> None:
    from spindle.agents.outcomes import AgentResult
    from spindle.errors import ConfigurationError, SpindleError
    from spindle.runs.outcomes import Paused

    began = time.perf_counter()
    try:
        outcome = await agent.run(trial.task.task, on_event=trial.hear)
    except ConfigurationError:
        raise
    except SpindleError as error:
        trial.problems.append(f"it ended with an error: {error.message}")
    else:
        if isinstance(outcome, AgentResult):
            trial.requests, trial.tokens = outcome.usage.requests, outcome.usage.tokens
            trial.judge(outcome.text)
            if outcome.ended_by != "answer":
                trial.problems.append(f"it ended by its limit of {outcome.ended_by}")
        elif isinstance(outcome, Paused):
            asked = "; ".join(pause.message for pause in outcome.pauses)
            trial.problems.append(f"it waits for a person: {asked}")
    trial.seconds = time.perf_counter() - began


def _show(cli: CliContext, wanted: Evaluation, trials: Sequence[Trial], known: Sequence[str]) -> None:
    passed = sum(not trial.problems for trial in trials)
    if cli.output.as_json:
        found = [trial.to_dict() for trial in trials]
        cli.output.json({"passed": passed, "trials": len(trials), "results": found})
        return
    rows: list[tuple[str, ...]] = []
    for task in wanted.tasks:
        own = [trial for trial in trials if trial.task is task]
        good = sum(not trial.problems for trial in own)
        requests, tokens = sum(trial.requests for trial in own), sum(trial.tokens for trial in own)
        took = sum(trial.seconds for trial in own) / len(own)
        cells = (
            f"{good}/{len(own)}",
            f"{requests / len(own):.1f}",
            f"{tokens / len(own):.0f}",
            f"{took:.1f} s",
        )
        rows.append((task.title, *cells))
    cli.output.table(("TASK", "PASSED", "REQUESTS", "TOKENS", "TOOK"), rows)
    for trial in trials:
        for problem in trial.problems:
            cli.output.aside(f"{trial.task.title}, trial {trial.number}: {problem}")
    for line in _mistyped(trials, known):
        cli.output.aside(line)
    cli.output.aside(f"{passed} of {len(trials)} as expected")


def _mistyped(trials: Sequence[Trial], known: Sequence[str]) -> list[str]:
    """Returns what to say of expected tools that nobody could call."""
    from spindle.errors import did_you_mean

    expected = {call.tool for trial in trials for call in trial.task.expect.calls}
    made = {tool for trial in trials for tool, _ in trial.calls}
    return [
        f"{name!r} is expected, and there is no such tool; {did_you_mean(name, known, 'see `spindle tools`')}"
        for name in sorted(expected - made - set(known))
    ]


def _junit(file: Path, trials: Sequence[Trial]) -> bytes:
    from xml.etree import ElementTree as Xml

    counts = {"tests": len(trials), "failures": sum(bool(trial.problems) for trial in trials)}
    counts |= {"errors": 0, "skipped": 0}
    took = f"{sum(trial.seconds for trial in trials):.3f}"
    numbers = {key: str(value) for key, value in counts.items()}
    suite = Xml.Element("testsuite", {"name": _text(file.name), **numbers, "time": took})
    for trial in trials:
        about = {"classname": _text(file.stem), "name": _text(f"{trial.task.title} ({trial.number})")}
        case = Xml.SubElement(suite, "testcase", {**about, "time": f"{trial.seconds:.3f}"})
        if trial.problems:
            told = Xml.SubElement(case, "failure", message=_text(trial.problems[0]))
            told.text = _text("\n".join([*trial.problems, "", trial.answer]))
    return bytes(Xml.tostring(suite, encoding="utf-8", xml_declaration=True))


def _text(text: str) -> str:
    """The text with a sign in the place of characters that XML cannot hold."""
    return re.sub("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
