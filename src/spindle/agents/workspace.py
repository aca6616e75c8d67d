"""Agents in an open workspace. Light: the library for models is imported when a model is first asked."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING

from spindle.calls.delegation import delegation, inside
from spindle.calls.limits import Limit
from spindle.code_mode.workspace import WorkspaceCode
from spindle.domain.bounded import BoundedMap
from spindle.errors import ConfigurationError, NotFoundError, SpindleError
from spindle.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic_ai.models import Model

    from spindle.agents.definition import AgentDefinition, Job
    from spindle.agents.memory import AgentMemory
    from spindle.agents.model_client import ModelClient
    from spindle.agents.record import Record
    from spindle.agents.sampling import WorkspaceSampling
    from spindle.agents.taped_models import TapedModels
    from spindle.auth.encryption import Sealer
    from spindle.calls.caller import CallOptions
    from spindle.calls.host import CallHost, StepWork
    from spindle.calls.permissions import Visible
    from spindle.catalog.catalog import Catalog
    from spindle.domain.agent import AgentConfig
    from spindle.domain.call import Result
    from spindle.domain.json_schema import JsonObject
    from spindle.ports.store import RunStore, SecretStore


class WorkspaceAgents:
    """The agents of a workspace, and their runs."""

    def __init__(
        self, catalog: Catalog, visible: Visible, store: RunStore, sealer: Sealer, secrets: SecretStore
    ) -> None:
        self._catalog = catalog
        self._visible = visible
        self._store = store
        self.sealer = sealer
        self._secrets = secrets
        self.code = WorkspaceCode(catalog, visible)
        """Runs programs, those of agents too."""
        self._given: BoundedMap[str, Sequence[Model]] = BoundedMap()
        """By agent, models that are objects, which no record can hold."""
        self._resolved: BoundedMap[str, tuple[int, Model]] = BoundedMap()
        """By name, with the addresses and keys of providers that it was found with."""
        self._limits: BoundedMap[str, tuple[int, Limit]] = BoundedMap()
        self._open = contextlib.AsyncExitStack()
        self._http: ModelClient | None = None
        self.sampling: WorkspaceSampling | None = None
        """Makes the models that answer servers. Set by the workspace."""
        self.taped: TapedModels | None = None
        """Gives the models instead, where their answers are recorded on a tape or come from one."""

    @cached_property
    def memory(self) -> AgentMemory:
        """The threads and facts of agents."""
        # Imported when it is used: a server that has no agents should not carry it.
        from spindle.agents.memory import AgentMemory

        return AgentMemory(self._secrets, self.sealer)

    def know(self, agent: str, models: Sequence[Model]) -> None:
        """Sets the models with which runs of the agent of this name are resumed."""
        self._given[agent] = models

    def step_work(self, config: Callable[[], AgentConfig]) -> Callable[[str], StepWork]:
        """Returns a function that gives, by kind, the work of agents and models that steps of other runs may
        be."""

        def work(kind: str) -> StepWork:
            from spindle.agents.steps import AgentStep, ModelStep

            return {"model": ModelStep, "agent": AgentStep}[kind](self, config)

        return work

    async def work(self, given: JsonObject, host: CallHost, options: CallOptions) -> Result:
        """Executes a run of an agent, from its start or after a pause."""
        from spindle.agents.models import require_library

        require_library()
        from spindle.agents.calls import Calls
        from spindle.agents.code import AgentCode
        from spindle.agents.definition import Job
        from spindle.agents.events import Listener, listener
        from spindle.agents.loop import Loop
        from spindle.agents.toolbox import Toolbox
        from spindle.agents.turns import Turns
        from spindle.agents.usage import Budget

        around = delegation.get()
        outer = around.budget
        # Whoever listens to an agent is not told what others do for it, nor asked to check their answers.
        job, heard = Job.from_dict(given), listener.get() if outer is None else Listener()
        agent = job.agent
        models = await self.models_of(agent)
        limits = [self._limit(agent, around.depth)]
        if job.parallel is not None and job.parallel < agent.limits.parallel:
            limits.append(Limit(job.parallel))
        host.under(agent.policy, job.untrusted)
        budget = Budget(agent.limits, agent.prices, outer=outer, step=job.run)

        async def read_earlier(reference: str) -> str | None:
            return await self._whole(job, reference)

        with inside(budget):
            sampling = self.sampling and self.sampling.of_agent(models[0], budget, host.principal)
            host = host.with_model(sampling)
            directly = agent.hands_over_to if agent.writes_code else None
            toolbox = Toolbox(self._catalog, self._visible, host, agent.offered, agent.limits.tools, directly)
            turns = Turns(job, models, host, toolbox, budget, heard.check)
            code = AgentCode(job, host, toolbox, limits, self.code.sandbox) if agent.writes_code else None
            calls = Calls(job, host, toolbox, limits, read_earlier, budget, self.memory, code)
            loop = Loop(job, host, turns, calls, budget, heard)
            result = await tracing.work_named("invoke_agent", agent.name, loop.run())
        if job.thread is not None:
            await self.memory.keep(host.principal, job, loop.messages)
        return result

    async def record(self, run: str) -> Record:
        from spindle.agents.record import read_record

        return await read_record(self._store, self.sealer, run)

    async def untrusted_in(self, run: str) -> str:
        """Returns the tool that brought untrusted content into a run, or into those that it continued; empty:
        none did. Of a run that was forgotten, the worst is assumed."""
        try:
            return (await self.record(run)).untrusted or ""
        except NotFoundError:
            return "an earlier run"

    async def close(self) -> None:
        self._resolved.clear()
        await self.code.close()
        await self._open.aclose()

    async def models_of(self, agent: AgentDefinition) -> Sequence[Model]:
        """Returns the models of an agent, the one to ask first. Raises ConfigurationError."""
        if agent.model is None:
            known = self._given.get(agent.name)
            if known is None:
                raise ConfigurationError(
                    f"the run belongs to the agent {agent.name!r}, whose model is an object not known here",
                    hint=f"create Agent(app, model=…, name={agent.name!r}) in the program that resumes it",
                )
            taped = self.taped
            if taped is None:
                return known
            return [taped.of(model.model_name, lambda model=model: model) for model in known]
        return [await self.named(name) for name in (agent.model, *agent.others)]

    async def named(self, name: str) -> Model:
        """Returns the model of this name, one object for all its users. Raises ConfigurationError."""
        from spindle.agents.models import places, resolve

        now, taped = places(), self.taped
        known, model = self._resolved.get(name, (None, None))
        if model is None or known != now:
            # The one before is closed with the workspace: somebody may be in the middle of asking it.
            if taped is None:
                model = resolve(name, client=self._client)
            else:
                model = taped.of(name, lambda: resolve(name, client=self._client))
            self._resolved[name] = (now, model)
            await self._open.enter_async_context(model)
        return model

    def _client(self) -> ModelClient:
        """Returns the client that all models of a name share."""
        from spindle.agents.model_client import model_client

        if self._http is None:
            self._http = model_client()
            self._open.push_async_callback(self._http.aclose)
        return self._http

    def _limit(self, agent: AgentDefinition, depth: int) -> Limit:
        """Returns the limit that all runs of the agent in this process share, at one depth of delegation: who
        waits for an agent further in keeps its place, and must not keep that one out."""
        key = f"{depth} {agent.name}"
        places, limit = self._limits.get(key, (0, None))
        if limit is None or places != agent.limits.parallel:
            limit = Limit(agent.limits.parallel)
            self._limits[key] = (agent.limits.parallel, limit)
        return limit

    async def _whole(self, job: Job, reference: str) -> str | None:
        for run in job.earlier:
            try:
                record = await self.record(run)
            except SpindleError:
                continue  # forgotten meanwhile; the model is told that there is no such result
            whole = record.whole(reference)
            if whole is not None:
                return whole
        return None
