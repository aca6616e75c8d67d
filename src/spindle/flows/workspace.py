"""Flows in an open workspace, as `app.flows` offers them: found, run, resumed, and inspected afterwards.

Light: the modules that read and run flows are imported with the first flow, so that other commands start
without them.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.calls.options import DEFAULT_OPTIONS, CallOptions
from spindle.calls.permissions import find_callable
from spindle.errors import AuthorizationRequired, FlowError, NotFoundError, did_you_mean
from spindle.flows.run_names import name_of, named_flow
from spindle.remedies import Remedy

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.calls.caller import Caller
    from spindle.calls.host import CallHost
    from spindle.calls.validate import Validation
    from spindle.domain.call import Host, Result
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Run
    from spindle.domain.tool import Tool
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.flow import Flow
    from spindle.flows.library import Library
    from spindle.flows.made_flows import MadeFlows
    from spindle.flows.node_cache import PureNodes
    from spindle.flows.schedules import Schedules
    from spindle.flows.text.files import Loaded
    from spindle.flows.trace import NodeEvent, Observe
    from spindle.ports.store import CacheStore, RunStore
    from spindle.runs.executions import Work
    from spindle.runs.outcomes import Outcome
    from spindle.runs.placing import Placing
    from spindle.runs.runner import Runner

KIND = "flow"
MAX_NAME = 80
"""Characters of a line of tools that name its run."""
LOOKED_AT = 20
"""The number of runs among which `came_to` searches."""


class WorkspaceFlows:
    """The flows of a workspace, and their runs."""

    def __init__(
        self,
        root: Path,
        flows: Sequence[Flow],
        cache: CacheStore,
        store: RunStore,
        sealer: Sealer,
        caller: Caller,
        now: Callable[[], float],
    ) -> None:
        self.runner: Runner | None = None
        """Set when it is made, which needs `work`."""
        self._root = root
        self._known = {flow.name: flow for flow in flows}
        self._store, self._sealer = store, sealer
        self._caller = caller
        self._cache, self._now = cache, now

    @cached_property
    def library(self) -> Library:
        """The saved flows: the files in flows/."""
        from spindle.flows.library import Library

        return Library(self._root)

    # --- finding

    async def find(self, text: str, principal: Principal) -> Loaded | Flow:
        """Returns what a user means by a text: a pipe of tools, a file, a saved flow, or one tool."""
        from spindle.flows.library import ENDINGS, is_pipe
        from spindle.flows.text.known_steps import step

        found = self.saved(text)
        if found is not None:
            return found
        if not is_pipe(text) and step(text) is None:
            try:
                await self._caller.find(text, principal)
            except NotFoundError as error:
                if not text.strip():
                    raise FlowError("say which flow: its name, its file, or a line of tools") from None
                near = did_you_mean(text, [*self.library.names(), *self._known])
                if near is None and Path(text).is_file():
                    near = f"a flow's file ends in {', '.join(ENDINGS)}"
                way_out: dict[str, Any] = {"hint": near} if near else error.way_out
                raise NotFoundError(f"there is neither a flow nor a tool {text!r}", **way_out) from None
        return await self.read_pipe(text, principal)

    def saved(self, text: str) -> Loaded | Flow | None:
        """Returns the flow of a file or a name, or None if there is none."""
        from spindle.flows.library import ENDINGS, is_pipe

        if is_pipe(text):
            return None
        if Path(text).suffix.lower() in ENDINGS:
            return self.library.load(Path(text))
        return self._known[text] if text in self._known else self.library.find(text)

    async def read_pipe(self, text: str, principal: Principal) -> Loaded:
        """Reads a line of tools. Raises BrokenFlowError."""
        from spindle.flows.text.pipe import read_pipe

        return await read_pipe(text, self._finder(principal))

    def _finder(self, principal: Principal) -> Callable[[str], Awaitable[Tool]]:
        return partial(self._caller.find, principal=principal)

    async def _require(self, kind: str, given: JsonObject) -> None:
        await self._caller.step_work(kind).require(given)

    # --- running

    async def run(
        self,
        flow: Flow | FlowDefinition | str,
        inputs: Mapping[str, Any] | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
        *,
        params: Mapping[str, Any] | None = None,
        observe: Observe | None = None,
        start: str | None = None,
        only: bool = False,
        reuse: str | None = None,
        id: str | None = None,
    ) -> Outcome:
        """Runs a flow. `start` begins at a node, with what the nodes before it left in the run `reuse`;
        `only` stops after it. `observe` is told of each node when it begins and when it has ended. `id` is
        the id that the run gets, for a caller that needs to know it before the run ends."""
        from spindle.flows.trace import observer

        assert self.runner is not None
        try:
            found = await self.find(flow, options.principal) if isinstance(flow, str) else flow
        except AuthorizationRequired:
            if not isinstance(flow, str) or start is not None:
                raise
            return await self._run_unread(flow, dict(inputs or {}), options, dict(params or {}), observe, id)
        made, kept = await self._prepared(found, inputs, options, params, start, only=only, reuse=reuse)

        work: Work = partial(self._execute, made)
        token = observer.set(observe)
        try:
            return await self.runner.start(KIND, name_of(made), kept, options, id=id, work=work)
        finally:
            observer.reset(token)

    async def submit(
        self,
        flow: Flow | FlowDefinition | str,
        inputs: Mapping[str, Any] | None,
        options: CallOptions,
        placing: Placing,
        params: Mapping[str, Any] | None = None,
    ) -> Run:
        """Submits a flow to a queue, where a worker runs it."""
        assert self.runner is not None
        name, kept = await self.to_submit(flow, inputs, options, params)
        return await self.runner.submissions.submit(KIND, name, kept, options, placing)

    async def to_submit(
        self,
        flow: Flow | FlowDefinition | str,
        inputs: Mapping[str, Any] | None,
        options: CallOptions,
        params: Mapping[str, Any] | None = None,
        start: str | None = None,
        reuse: str | None = None,
    ) -> tuple[str, JsonObject]:
        """Returns the name of a flow's run and what a worker is given. Raises what is wrong with the flow or
        its inputs, and PermissionDeniedError for a tool that the principal may not call."""
        found = await self.find(flow, options.principal) if isinstance(flow, str) else flow
        finder = partial(find_callable, self._caller)
        made, kept = await self._prepared(found, inputs, options, params, start, reuse=reuse, find=finder)
        if kept["definition"] is None:
            raise FlowError(
                f"the flow {made.name!r} has parts written in Python, which a worker would not know",
                hint="make these parts tools of the workspace, or run it here",
            )
        return name_of(made), kept

    @cached_property
    def schedules(self) -> Schedules:
        """The flows that are submitted at times."""
        from spindle.flows.schedules import Schedules

        assert self.runner is not None
        return Schedules(self._store, self.runner.submissions, self._sealer, self.to_submit)

    async def _prepared(
        self,
        found: Loaded | Flow | FlowDefinition,
        inputs: Mapping[str, Any] | None,
        options: CallOptions,
        params: Mapping[str, Any] | None,
        start: str | None = None,
        *,
        only: bool = False,
        reuse: str | None = None,
        find: Callable[[str, Principal], Awaitable[Tool]] | None = None,
    ) -> tuple[Flow, JsonObject]:
        """Returns the flow to run, checked, and what its run is given."""
        from spindle.flows.check.before import refuse_broken
        from spindle.flows.execution import starting_at

        made, document = self._made.of(found)
        given = dict(inputs or {})
        if start is None:
            self._check_inputs(made, given)
        else:
            starting_at(made, start, only=only)  # raises if that cannot be
        shared = given if reuse is None else {**await self.left(reuse, made, before=start), **given}
        if not only:
            finder = partial(find or self._caller.find, principal=options.principal)
            await refuse_broken(made, finder, shared, params, self._require)
        return made, {
            "flow": made.name,
            "definition": document,
            "inputs": given,
            "shared": shared,
            "params": dict(params or {}),
            "start": start,
            "only": only,
        }

    async def _run_unread(
        self,
        text: str,
        inputs: JsonObject,
        options: CallOptions,
        params: JsonObject,
        observe: Observe | None,
        id: str | None,
    ) -> Outcome:
        """Runs a line of tools that cannot be read before the user has given a consent: some of its tools are
        not known yet. The run pauses for it, and reads the line when it goes on."""
        from spindle.flows.trace import observer

        assert self.runner is not None
        kept: JsonObject = {
            "flow": text, "text": text, "definition": None, "inputs": inputs, "shared": inputs,
            "params": params, "start": None, "only": False,
        }  # fmt: skip
        token = observer.set(observe)
        try:
            return await self.runner.start(KIND, text[:MAX_NAME], kept, options, id=id)
        finally:
            observer.reset(token)

    async def work(self, given: JsonObject, host: CallHost, options: CallOptions) -> Result:
        """Executes a run, or a part of one, from its record."""
        from spindle.flows.build import build
        from spindle.flows.check.before import refuse_broken
        from spindle.flows.part_work import work_on_part
        from spindle.flows.text.document import from_record

        if "prepared" in given:
            return await work_on_part(given, host, options, self._pure)
        if "text" in given:

            async def read(_: Host) -> JsonObject | None:
                made, document = self._made.of(await self.find(given["text"], options.principal))
                self._check_inputs(made, given["inputs"])
                finder = self._finder(options.principal)
                await refuse_broken(made, finder, given["inputs"], given["params"], self._require)
                return document

            flow = build(from_record(await host.remember("flow", given["text"], read)))
        elif given["definition"] is not None:
            flow = build(from_record(given["definition"]))
        elif (flow := self._known.get(given["flow"])) is None:
            raise FlowError(
                f"the run belongs to the flow {given['flow']!r}, written in Python and not known here",
                hint="pass it to spindle.open(flows=[…]) in the program that resumes the run",
            )
        return await self._execute(flow, given, host, options)

    async def _execute(self, flow: Flow, given: JsonObject, host: CallHost, options: CallOptions) -> Result:
        import copy

        from spindle.flows.execution import execute

        flow = copy.copy(flow)
        flow.params = {**flow.params, **given["params"]}
        host.under(None, given.get("untrusted", ""))
        return await execute(
            flow, dict(given["shared"]), host, self._pure, root=self._root,
            use_cache=options.use_cache, start=given["start"], only=given["only"],
        )  # fmt: skip

    def _check_inputs(self, flow: Flow, given: JsonObject) -> None:
        from spindle.domain.tool import Tool, ToolSpec
        from spindle.flows.signature import input_schema

        spec = ToolSpec(flow.name or "flow", input_schema=input_schema(flow.inputs))
        self._validation.check_arguments(
            Tool(spec.remote_name, "flows", "flows", spec, spec.fingerprint), given
        )

    @cached_property
    def _validation(self) -> Validation:
        from spindle.calls.validate import Validation

        return Validation()

    @cached_property
    def _made(self) -> MadeFlows:
        from spindle.flows.made_flows import MadeFlows

        return MadeFlows(self._known)

    @cached_property
    def _pure(self) -> PureNodes:
        from spindle.flows.node_cache import PureNodes

        return PureNodes(self._cache, self._now, self._root)

    # --- afterwards

    async def runs(self, *, limit: int = 50, flow: str | None = None) -> list[Run]:
        """Returns runs of flows, the newest first."""
        return await self._store.runs(limit=limit, kind=KIND, name=flow)

    async def trace(self, run: str) -> tuple[Run, JsonObject, list[NodeEvent]]:
        """Returns a run, its inputs without secrets, and its nodes in the order in which they ended. Nodes of
        flows that it called as tools are left out: they may have the same ids."""
        from spindle.flows.shown_run import without_secrets_of

        found, given, events = await self.traced(run)
        return found, await without_secrets_of(found, given, self._known, self._caller), events

    async def traced(self, run: str) -> tuple[Run, JsonObject, list[NodeEvent]]:
        """Returns the same with all secrets, for what goes on from there."""
        from spindle.flows.trace import NodeEvent

        found = await self._store.run(run) if run else None
        if found is None:
            raise NotFoundError(f"there is no run {run!r}", remedy=Remedy("list_runs"))
        events: list[NodeEvent] = []
        given: JsonObject = {}
        history = await self._store.history(found.id)
        # The place of the run itself is the beginning of all others.
        places = (event.path.partition("#")[0] for event in history if event.kind == "note")
        own = f"{min(places, key=len, default='')}#" if found.kind == KIND else ""
        for event in history:
            if event.sealed is None:
                continue
            if event.kind == "note" and event.path.startswith(own):
                data = self._sealer.open(event.sealed, f"run:{found.id}:{event.path}")
                if "node" in data:  # others note other things
                    events.append(NodeEvent.from_dict(data))
            elif event.kind == "started":
                given = self._sealer.open(event.sealed, f"run:{found.id}:started")
        return found, given, events

    async def can_continue(self, run: str) -> bool:
        """True unless the run is of a flow written in Python that is not known here."""
        found, given, _ = await self.trace(run)
        return found.kind != KIND or given.get("definition") is not None or given["flow"] in self._known

    async def came_to(self, node: str, flow: Flow | FlowDefinition) -> str | None:
        """Returns the newest run of the flow that reached a node, to be repeated from there, or else the
        newest run."""
        made = named_flow(flow)
        before = {
            one.id
            for one in made.nodes()
            if any(other.id == node for _, targets in one.following() for other in targets)
        }
        found = await self.runs(limit=LOOKED_AT, flow=name_of(made))
        for run in found:
            _, _, events = await self.trace(run.id)
            if any(event.node == node for event in events) or (events and events[-1].node in before):
                return run.id
        return found[0].id if found else None

    async def left(self, run: str, flow: Flow | FlowDefinition, *, before: str | None = None) -> JsonObject:
        """Returns the shared store of a run at its end, or when it first reached a node."""
        from spindle.flows.replay import replay

        found, given, events = await self.traced(run)
        if found.kind != KIND:
            raise FlowError(f"run {found.id} is not a run of a flow")
        ended = itertools.takewhile(lambda event: event.node != before, events)
        branch = next((event.branch for event in events if event.node == before), None)
        shared = dict(given.get("shared") or {})
        return replay(ended, shared, named_flow(flow), branch, to_go_on=before is not None)
