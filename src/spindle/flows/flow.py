"""A flow runs one node after the other, each chosen by the action of the one before. It is a node itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from spindle.errors import FlowError, did_you_mean
from spindle.flows.branches import EndlessError, named, run_branches
from spindle.flows.definition import DEFAULT_ACTION, CacheRule, OnUnknown
from spindle.flows.meeting import Meeting, TangledError, Ways
from spindle.flows.node import BaseNode, Fork
from spindle.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spindle.flows.run_context import RunContext

N = TypeVar("N", bound=BaseNode)


class Flow(BaseNode):
    """Nodes joined by actions.

    `on_unknown`: the effect of an action for which a node with edges has none: "error", or "end" as if the
    flow were done. `max_visits` limits the visits of one node in a run, so that an endless loop is stopped.

    `name`, `inputs` and `outputs` make it a tool: `inputs` are JSON Schemas by name, `outputs` templates.
    `cache` allows results of pure nodes to be reused.
    """

    def __init__(
        self,
        start: BaseNode | None = None,
        *,
        on_unknown: OnUnknown = "error",
        max_visits: int = 1000,
        name: str = "",
        description: str = "",
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        cache: CacheRule | None = None,
        id: str | None = None,
    ) -> None:
        super().__init__()
        if max_visits < 1:
            raise ValueError("max_visits must be at least 1")
        self.start_node = start
        self.on_unknown: OnUnknown = on_unknown
        self.max_visits = max_visits
        self.name = name
        self.description = description
        self.inputs = dict(inputs or {})
        self.outputs = dict(outputs) if outputs is not None else None
        self.cache = cache
        if id is not None:
            self.id = id

    def start(self, node: N) -> N:
        self.start_node = node
        return node

    def nodes(self) -> Iterator[BaseNode]:
        """Yields all nodes that can be reached from the start, nearest first, but none of inner flows."""
        waiting = [self.start_node] if self.start_node is not None else []
        seen = {id(node) for node in waiting}
        for node in waiting:
            yield node
            for successor in node.successors.values():
                if isinstance(successor, Fork):
                    new = [target for target in successor.targets if id(target) not in seen]
                    seen.update(map(id, new))
                    waiting += dict.fromkeys(new)
                elif id(successor) not in seen:
                    seen.add(id(successor))
                    waiting.append(successor)

    def forks(self) -> Iterator[Fork]:
        """Yields all places where branches begin, but none of inner flows."""
        for node in self.nodes():
            for successor in node.successors.values():
                if isinstance(successor, Fork):
                    yield successor

    def mentions(self, word: str) -> bool:
        """True if its data, or that of a node or flow in it, holds this word, perhaps in an expression."""
        data = [getattr(node, "definition", None) for node in self.nodes()]
        conditions = [node.edge_conditions for node in self.nodes()]
        return word in repr((self.params, self.outputs, data, conditions)) or any(
            node.mentions(word) for node in self.nodes() if isinstance(node, Flow)
        )

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
        """Returns the last action, which is the action of the flow."""
        return exec_res

    async def _run(self, shared: Any, running: RunContext) -> Any:
        prepared = await running.settled(self.prep(shared))
        action = await self.orchestrate(shared, running, self.params)
        return await running.settled(self.post(shared, prepared, action))

    async def orchestrate(self, shared: Any, running: RunContext, params: dict[str, Any]) -> Any:
        """Runs the nodes from the start on, and returns the last action."""
        return (await self._follow(self.start_node, shared, running, params, {}))[0]

    async def _follow(
        self,
        node: BaseNode | None,
        shared: Any,
        running: RunContext,
        params: dict[str, Any],
        visits: dict[int, int],
        *,
        in_branch: bool = False,
    ) -> tuple[Any, BaseNode | None]:
        """Runs nodes until the flow ends or, in a branch, up to a join. Returns the last action, and the
        join."""
        action = None
        while node is not None:
            if isinstance(node, Fork):
                node = await self._fork(node, shared, running, params, visits)
                action = None
                continue
            visit = visits[id(node)] = visits.get(id(node), 0) + 1
            if visit > self.max_visits:
                raise EndlessError(
                    f"{self._named(node)} was visited {self.max_visits} times",
                    hint="if the loop should run that long, raise the flow's max_visits",
                )
            # A copy: what a visit sets on its node is gone with it, and no other run sees it.
            visited = node.__copy__()
            visited.params = self._params_of(node, params)
            if running.notes is None:
                action = await visited._run(shared, running)  # pyright: ignore[reportPrivateUsage] - a node's own
                action = visited.edge_taken(action, shared)
            else:
                name = visited.id or type(visited).__name__
                visit_of = running.notes.visit(visited, shared, running)
                action = await tracing.work_named("node", name, visit_of)
            node = self._successor(node, action)
            if in_branch and node is not None and node.join is not None:
                return action, node
        return action, None

    async def _fork(
        self, fork: Fork, shared: Any, running: RunContext, params: dict[str, Any], visits: dict[int, int]
    ) -> BaseNode | None:
        async def follow(node: BaseNode, shared: Any, running: RunContext) -> BaseNode | None:
            return (await self._follow(node, shared, running, params, visits, in_branch=True))[1]

        return await run_branches(fork, meeting_of(fork), shared, running, follow, visits)

    def _params_of(self, node: BaseNode, params: dict[str, Any]) -> dict[str, Any]:
        return {**params, **node.params} if node.params else params

    def _successor(self, node: BaseNode, action: Any) -> BaseNode | None:
        successors = node.successors
        if not successors:
            return None
        if action is None:
            action = DEFAULT_ACTION
        elif not isinstance(action, str):
            raise FlowError(
                f"`post` of {self._named(node)} returned a {type(action).__name__}, which is not an action",
                hint="return the name of an edge, or nothing; put results into the shared store",
            )
        found = successors.get(action or DEFAULT_ACTION)
        conditions = [
            way for way, (of, _) in node.edge_conditions.items() if of == (action or DEFAULT_ACTION)
        ]
        if found is None and conditions and self.on_unknown == "error":
            raise FlowError(
                f"{self._named(node)}: none of its conditions holds: {', '.join(conditions)}",
                hint='add an edge with `when: else`, or let the flow end: on_unknown="end"',
            )
        if found is None and action not in (DEFAULT_ACTION, "") and self.on_unknown == "error":
            known = ", ".join(repr(name) for name in successors)
            raise FlowError(
                f"{self._named(node)} chose {action!r}, but has no edge for it, only for {known}",
                hint=did_you_mean(action, successors, 'add an edge, or let the flow end: on_unknown="end"'),
            )
        return found

    def _named(self, node: BaseNode) -> str:
        return f"node {node.id!r}" if node.id else f"a {type(node).__name__} node"


def meeting_of(fork: Fork) -> Meeting[BaseNode]:
    """Returns where the branches of a fork meet. Raises FlowError if that is not one place."""
    ways = Ways[BaseNode](
        lambda node: [targets for _, targets in node.following()],
        lambda node: node.join is not None,
        lambda node: repr(named(node)),
    )
    try:
        found = ways.meeting(fork.source, fork.targets)
    except TangledError as error:
        raise FlowError(str(error), hint=error.hint) from None
    join = found.join
    if join is not None and join.join is not None and join.join.needed(len(fork.targets)) > len(fork.targets):
        raise FlowError(
            f"{named(join)!r} waits for {join.join.wait} branches, but {named(fork.source)!r} begins only "
            f"{len(fork.targets)}",
            hint="wait for fewer",
        )
    return found
