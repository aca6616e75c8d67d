"""`Agent`: a model and the catalog, put to work on a task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from spindle.agents.attachments import File, read_files
from spindle.agents.context import ContextSettings
from spindle.agents.definition import DESTRUCTIVE, AgentDefinition, Job, policy_of
from spindle.agents.events import AgentEvent, listening
from spindle.agents.forking import forked
from spindle.agents.limits import Limits
from spindle.agents.models import check_name, require_library
from spindle.agents.outcomes import AgentOutcome, AgentResult, OutputType, checker_of, schema_of
from spindle.agents.record import KIND
from spindle.agents.usage import read_prices
from spindle.calls.options import CallOptions
from spindle.code_mode.limits import require_library as require_sandbox
from spindle.domain.call import new_id
from spindle.domain.identity import LOCAL, Principal
from spindle.errors import ConfigurationError, PermissionDeniedError
from spindle.runs.outcomes import Finished, Paused

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model

    from spindle.agents.record import Record
    from spindle.agents.workspace import WorkspaceAgents
    from spindle.domain.flow_of_trust import Taint
    from spindle.domain.run import Run
    from spindle.runs.outcomes import Outcome
    from spindle.runs.placing import Placing
    from spindle.runs.runner import Runner

Hear = Callable[[AgentEvent], None]


class Workspace(Protocol):
    """The parts of an open workspace that an agent uses."""

    @property
    def agents(self) -> WorkspaceAgents: ...
    @property
    def runner(self) -> Runner: ...


class Agent:
    """A language model that calls tools of the catalog, also several at once, until it can answer.

    `model` is a name such as `provider:name`, or a model object of pydantic-ai; of several, each is asked
    where the one before it fails. `tools` are patterns over the
    names of tools; without them all may be used. `approve` are patterns of tools whose calls a person must
    approve; `"destructive"` stands for all that say they are. `name` tells agents apart whose model is an
    object: a run is resumed, in another process, with the model of the agent of its name. `settings` go to
    the model: `temperature`, `max_tokens`. `context` says how long a conversation may become, and what is
    left out of it then. With `memory` the model can keep facts for later runs of the same principal. With
    `code` it calls tools by programs that it writes, executed in a sandbox; that needs the extra `code`.
    `taint` says what becomes of calls that send, write or spend once words of others entered the run: `ask` a
    person, `block`, or `off`. `send_to` are patterns of hosts and mail addresses, all that calls may name.
    """

    def __init__(
        self,
        app: Workspace,
        model: str | Model | Sequence[str | Model],
        *,
        instructions: str = "",
        tools: Sequence[str] = (),
        approve: Sequence[str] = (DESTRUCTIVE,),
        limits: Limits | Mapping[str, Any] | None = None,
        prices: Mapping[str, tuple[float, float]] | None = None,
        settings: Mapping[str, Any] | None = None,
        context: ContextSettings | Mapping[str, Any] | None = None,
        memory: bool = False,
        code: bool = False,
        ask_user: bool = True,
        taint: Taint = "ask",
        send_to: Sequence[str] | None = None,
        name: str = "agent",
    ) -> None:
        require_library()
        if code:
            require_sandbox()
        if not hasattr(app, "agents"):
            raise ConfigurationError(
                f"an agent needs an open workspace, not {type(app).__name__}",
                hint="async with spindle.open(…) as app: Agent(app, …)",
            )
        self._agents = app.agents
        self._runner = app.runner
        named, given = _models(model)
        if given:
            app.agents.know(name, given)
        self._definition = AgentDefinition(
            name,
            named[0] if named else None,
            instructions,
            _patterns(tools, "tools"),
            _patterns(approve, "approve"),
            ask_user,
            Limits.of(limits),
            read_prices(prices),
            dict(settings or {}),
            context=ContextSettings.of(context),
            others=tuple(named[1:]),
            memory=memory,
            policy=policy_of(taint, send_to),
            code=code,
        )

    # --- working

    async def run(
        self,
        task: str,
        *,
        principal: Principal = LOCAL,
        output_type: OutputType = None,
        history: Sequence[ModelMessage] = (),
        parallel: int | None = None,
        files: Sequence[File] = (),
        thread: str | None = None,
        on_event: Hear | None = None,
        streams: bool = False,
    ) -> AgentOutcome:
        """Works on a task and returns an AgentResult, or Paused if a person must act first.

        `output_type` is a Pydantic model, or any type that Pydantic knows, for an answer that is not text.
        `history` are earlier messages. `parallel` is the number of simultaneous calls for this task, if it is
        lower than the agent's limit. `files` are pictures, audio, documents and texts that go with the task.
        `thread` names a conversation of this principal that the run continues, and begins if there is none.
        `on_event` is told what happens; with `streams` also of text while the
        model writes it.
        """
        job = await self._begun(task, output_type, history, parallel, files, thread, principal)
        return await self._run(job, principal, output_type, on_event, streams=streams)

    async def submit(
        self,
        task: str,
        placing: Placing | None = None,
        *,
        principal: Principal = LOCAL,
        output_type: OutputType = None,
        history: Sequence[ModelMessage] = (),
        files: Sequence[File] = (),
        thread: str | None = None,
    ) -> Run:
        """Submits a task to a queue, where `spindle worker` works on it, and returns its run as it stands.
        `placing` says which queue, and when."""
        from spindle.runs.placing import Placing

        if self._definition.model is None:
            raise ConfigurationError(
                "the model of this agent is an object, which a worker would not know",
                hint="name the model, such as provider:name",
            )
        placing = placing or Placing()
        id = placing.id_for(principal.id)
        begun = await self._begun(task, output_type, history, None, files, thread, principal)
        job = replace(begun, run=id)
        return await self._runner.submissions.submit(
            KIND, self._definition.name, job.to_dict(), CallOptions(principal), replace(placing, id=id)
        )

    async def resume(
        self,
        token: str,
        answer: Any = None,
        *,
        refused: str | None = None,
        principal: Principal | None = None,
        output_type: OutputType = None,
        on_event: Hear | None = None,
        streams: bool = False,
    ) -> AgentOutcome:
        """Answers a pause by its token and continues the run, in any process. With the id of a run,
        continues where its process died or it was suspended."""
        with listening(on_event, streams=streams, check=checker_of(output_type)):
            outcome = await self._runner.resume(token, answer, refused=refused, principal=principal)
        return _concluded(outcome, output_type)

    def suspend(self, run_id: str) -> bool:
        """Lets a run in this process come to rest; `resume(run_id)` continues it."""
        return self._runner.suspend(run_id)

    def stream(
        self,
        task: str,
        *,
        principal: Principal = LOCAL,
        output_type: OutputType = None,
        history: Sequence[ModelMessage] = (),
        parallel: int | None = None,
        files: Sequence[File] = (),
        thread: str | None = None,
    ) -> AsyncIterator[AgentEvent]:
        """Does the same as `run`, and yields events as they happen; the last one is `pause` or `end`.
        Leaving the iteration cancels the run."""

        async def work(hear: Hear) -> AgentOutcome:
            job = await self._begun(task, output_type, history, parallel, files, thread, principal)
            return await self._run(job, principal, output_type, hear, streams=True)

        return _events(work)

    def stream_resume(
        self,
        token: str,
        answer: Any = None,
        *,
        refused: str | None = None,
        principal: Principal | None = None,
    ) -> AsyncIterator[AgentEvent]:
        """Does the same as `resume`, and yields events as they happen, without those from before the
        pause."""
        return _events(
            lambda hear: self.resume(
                token, answer, refused=refused, principal=principal, on_event=hear, streams=True
            )
        )

    # --- runs that were

    async def continue_run(
        self,
        run_id: str,
        message: str,
        *,
        principal: Principal | None = None,
        output_type: OutputType = None,
        on_event: Hear | None = None,
        streams: bool = False,
    ) -> AgentOutcome:
        """Starts a new run that continues from the end of another, however that ended, with a new message.
        It belongs to the same principal: what one user was told is not shown to others."""
        return await self.fork(
            run_id, None, message, principal=principal, output_type=output_type, on_event=on_event,
            streams=streams,
        )  # fmt: skip

    async def fork(
        self,
        run_id: str,
        step: int | None,
        message: str = "",
        *,
        principal: Principal | None = None,
        output_type: OutputType = None,
        on_event: Hear | None = None,
        streams: bool = False,
    ) -> AgentOutcome:
        """Starts a new run from a step of another, with its calls up to there. Without a message the model
        is asked again from there."""
        record = await self._agents.record(run_id)
        owner = record.run.principal
        if principal is not None and principal.id != owner.id:
            raise PermissionDeniedError(f"run {record.run.id} does not belong to {principal.id!r}")
        job = replace(
            forked(record, step, message),
            agent=self._definition,
            output=schema_of(output_type),
            parallel=None,
        )
        return await self._run(job, principal or owner, output_type, on_event, streams=streams)

    async def history(self, run_id: str) -> list[ModelMessage]:
        """Returns the messages of a run, which can be given to another as `history`."""
        return (await self.record(run_id)).messages()

    async def replay(self, run_id: str) -> list[AgentEvent]:
        """Returns the events of a run from its record, without asking the model or any tool."""
        return list((await self.record(run_id)).events())

    async def record(self, run_id: str) -> Record:
        """Returns the record of a run."""
        return await self._agents.record(run_id)

    # ---

    async def _begun(
        self,
        task: str,
        output_type: OutputType,
        history: Sequence[ModelMessage],
        parallel: int | None,
        files: Sequence[File],
        thread: str | None,
        principal: Principal,
    ) -> Job:
        """Returns a job with its files, and with what its thread holds so far."""
        from spindle.agents.conversation import write_messages

        if not task and not files:
            raise ConfigurationError("an agent needs a task")
        if parallel is not None and parallel < 1:
            raise ConfigurationError(f"`parallel` must be at least 1, and is {parallel}")
        if thread is not None and history:
            raise ConfigurationError("give either a `history` or a `thread`: a thread has its own")
        known = None if thread is None else await self._agents.memory.thread(principal, thread)
        before, runs = (write_messages(history), ()) if known is None else (known.messages, known.runs)
        given = await asyncio.to_thread(read_files, files) if files else ()
        schema = schema_of(output_type)
        untrusted = await self._agents.untrusted_in(runs[0]) if runs else ""
        return Job(
            new_id(), self._definition, task, schema, before, runs, parallel, given, thread, untrusted
        )  # fmt: skip

    async def _run(
        self,
        job: Job,
        principal: Principal,
        output_type: OutputType,
        hear: Hear | None,
        *,
        streams: bool = False,
    ) -> AgentOutcome:
        await self._agents.models_of(self._definition)  # what is wrong with it is said before a run is begun
        with listening(hear, streams=streams, check=checker_of(output_type)):
            outcome = await self._runner.start(
                KIND, self._definition.name, job.to_dict(), CallOptions(principal), id=job.run
            )
        return _concluded(outcome, output_type)


def _models(given: str | Model | Sequence[str | Model]) -> tuple[list[str], list[Model]]:
    """Returns models by their names, or as objects."""
    every = list(given) if isinstance(given, list | tuple) else [given]
    named = [model for model in every if isinstance(model, str)]
    objects = [cast("Model", model) for model in every if not isinstance(model, str)]
    if not every or (named and objects):
        raise ConfigurationError(
            "an agent needs one model, or several of which all are names or all are objects",
            hint='model="provider:name"',
        )
    for name in named:
        check_name(name)
    return named, objects


def _concluded(outcome: Outcome, output_type: OutputType) -> AgentOutcome:
    if isinstance(outcome, Finished):
        return AgentResult.of(outcome.run_id, outcome.result, output_type)
    return outcome


async def _events(work: Callable[[Hear], Awaitable[AgentOutcome]]) -> AsyncIterator[AgentEvent]:
    heard: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
    task = asyncio.ensure_future(work(heard.put_nowait))
    task.add_done_callback(lambda _: heard.put_nowait(None))
    try:
        while (event := await heard.get()) is not None:
            yield event
        outcome = await task
        if isinstance(outcome, Paused):
            yield paused_event(outcome)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def paused_event(paused: Paused) -> AgentEvent:
    """Returns the event with the pauses that a run waits for."""
    return AgentEvent("pause", paused.run_id, pauses=tuple(pause.to_dict() for pause in paused.pauses))


def _patterns(given: Sequence[str], what: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise ConfigurationError(f"`{what}` is a list of patterns", hint=f'{what}=["{given}"]')
    return tuple(given)
