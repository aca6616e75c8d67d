"""Flows in an open workspace. Light: what runs and reads them is imported when the first one is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.calls.options import DEFAULT_OPTIONS, CallOptions

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.calls.caller import Caller
    from spindle.calls.host import CallHost
    from spindle.domain.call import Result
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Run
    from spindle.domain.tool import Tool
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.flow import Flow
    from spindle.flows.library import Library
    from spindle.flows.runs import FlowRuns, FlowWork
    from spindle.flows.text.files import Loaded
    from spindle.flows.trace import NodeEvent, Observe
    from spindle.ports.store import CacheStore, RunStore
    from spindle.runs.outcomes import Outcome
    from spindle.runs.runner import Runner


class WorkspaceFlows:
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
        self._cache = cache
        self._store = store
        self._sealer = sealer
        self._caller = caller
        self._now = now

    @cached_property
    def library(self) -> Library:
        from spindle.flows.library import Library

        return Library(self._root)

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
        """Run a flow. `start` begins at a node, with what the nodes before it left in the run `reuse`;
        `only` stops after it. `observe` is told of each node when it begins and when it has ended. `id` is
        what the run is to be called, for whoever has to know before it ends."""
        from spindle.flows.text.files import Loaded

        chosen = await self.find(flow, options.principal) if isinstance(flow, str) else flow
        return await self._runs.run(
            chosen.definition if isinstance(chosen, Loaded) else chosen, inputs, options,
            params=params, observe=observe, start=start, only=only, reuse=reuse, id=id,
        )  # fmt: skip

    async def find(self, text: str, principal: Principal) -> Loaded | Flow:
        """What a user means by a word: a pipe of tools, a file, a saved flow, or one tool."""
        from spindle.flows.library import meant

        async def find_tool(name: str) -> Tool:
            return await self._caller.find(name, principal)

        return await meant(text, self.library, find_tool, self._known)

    def saved(self, text: str) -> Loaded | Flow | None:
        """The flow that a user means by a file or a name, if there is one."""
        from spindle.flows.library import saved

        return saved(text, self.library, self._known)

    async def left(self, run: str, flow: Flow | FlowDefinition, *, before: str | None = None) -> JsonObject:
        """What the shared store of a run held at its end, or when it first came to a node."""
        from spindle.flows.build import build
        from spindle.flows.definition import FlowDefinition

        made = build(flow) if isinstance(flow, FlowDefinition) else flow
        return await self._runs.left_by(run, made, before)

    async def came_to(self, node: str, flow: Flow | FlowDefinition) -> str | None:
        """The newest run of the flow that came to a node, to be made again from there; else the newest."""
        from spindle.flows.build import build
        from spindle.flows.definition import FlowDefinition

        return await self._runs.came_to(node, build(flow) if isinstance(flow, FlowDefinition) else flow)

    async def runs(self, *, limit: int = 50, flow: str | None = None) -> list[Run]:
        """Runs of flows, the newest first."""
        return await self._runs.runs(limit=limit, flow=flow)

    async def trace(self, run: str) -> tuple[Run, JsonObject, list[NodeEvent]]:
        """A run, what it was given, and its nodes in the order in which they ended."""
        return await self._runs.trace(run)

    async def work(self, given: JsonObject, host: CallHost, options: CallOptions) -> Result:
        return await self._work(given, host, options)

    @cached_property
    def _work(self) -> FlowWork:
        from spindle.flows.node_cache import PureNodes
        from spindle.flows.runs import FlowWork

        return FlowWork(PureNodes(self._cache, self._now), self._known)

    @cached_property
    def _runs(self) -> FlowRuns:
        from spindle.flows.runs import FlowRuns

        assert self.runner is not None
        return FlowRuns(self.runner, self._store, self._sealer, self._known)
