"""pocketflow's names: a program written for it runs here with only its import changed, in a workspace too.

    from spindle.compat.pocketflow import Flow, Node

Where the two differ, these names do as pocketflow does: an action without an edge ends the flow with a
warning, a loop may go on for ever, a flow's params replace those of its nodes, and `max_retries=0` means that
`exec` is not called. In `spindle.flows` one `Node` is sync or async as its methods are, one `Flow` runs both.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.flows import flow as own_flow
from spindle.flows import node as own_node
from spindle.flows.definition import DEFAULT_ACTION
from spindle.flows.node import BaseNode
from spindle.flows.node_cache import flow_safe

if TYPE_CHECKING:
    from spindle.flows.run_context import RunContext

__all__ = [
    "AsyncBatchFlow",
    "AsyncBatchNode",
    "AsyncFlow",
    "AsyncNode",
    "AsyncParallelBatchFlow",
    "AsyncParallelBatchNode",
    "BaseNode",
    "BatchFlow",
    "BatchNode",
    "Flow",
    "Node",
    "flow_safe",
]


class Node(own_node.Node):
    """A piece of work that is tried `max_retries` times in all."""

    def __init__(self, max_retries: int = 1, wait: float = 0) -> None:
        super().__init__(wait=wait)
        self.max_retries = max_retries
        self._cur_retry = 0

    @property
    def cur_retry(self) -> int:
        """The last attempt that was begun, from 0. It can still be read in `post`."""
        return self._cur_retry

    @cur_retry.setter
    def cur_retry(self, attempt: int) -> None:
        self._cur_retry = attempt

    async def _attempts(self, given: Any, running: RunContext) -> Any:
        for attempt in range(self.max_retries):
            self.cur_retry = attempt
            try:
                return await self._once(self.exec, running, given)
            except Exception as error:  # noqa: BLE001 - whatever a user's code raises
                if attempt == self.max_retries - 1:
                    return await self._once(self.exec_fallback, running, given, error)
            if self.wait > 0:
                await running.sleep(self.wait)
        return None

    @staticmethod
    async def _once(method: Callable[..., Any], running: RunContext, *given: Any) -> Any:
        # In the thread of the program, as its connections and the like may need; only a workspace, which has
        # other work to do meanwhile, gives it a thread of its own.
        if running.notes is None:
            return await running.settled(method(*given))
        return await running.call(method, *given)


class BatchNode(Node, own_node.BatchNode):
    """`prep` gives items, `exec` works on one of them, `post` gets the list of results."""


class AsyncNode(Node):
    """A node with the methods `prep_async`, `exec_async`, `post_async`, `exec_fallback_async`."""

    async def prep_async(self, shared: Any) -> Any:
        return None

    async def exec_async(self, prep_res: Any) -> Any:
        return None

    async def exec_fallback_async(self, prep_res: Any, exc: Exception) -> Any:
        raise exc

    async def post_async(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
        return None

    async def prep(self, shared: Any) -> Any:
        return await self.prep_async(shared)

    async def exec(self, prep_res: Any) -> Any:
        return await self.exec_async(prep_res)

    async def exec_fallback(self, prep_res: Any, exc: Exception) -> Any:
        return await self.exec_fallback_async(prep_res, exc)

    async def post(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
        return await self.post_async(shared, prep_res, exec_res)


class AsyncBatchNode(AsyncNode, BatchNode):
    """An `AsyncNode` that works on the items of a list, one after the other."""


class AsyncParallelBatchNode(AsyncNode, BatchNode):
    """An `AsyncNode` that works on all items of a list at once."""

    async def _exec(self, prepared: Iterable[Any] | None, running: RunContext) -> Any:
        async def one(beside: RunContext, item: Any) -> Any:
            return await self._attempts(item, beside)

        items = list(prepared or ())
        return await running.each(one, items, max(len(items), 1))


class Flow(own_flow.Flow):
    """Nodes joined by actions. Takes the options of Spindle's flows as well, such as a `name`."""

    def __init__(self, start: BaseNode | None = None, **options: Any) -> None:
        theirs: dict[str, Any] = {"on_unknown": "end", "max_visits": sys.maxsize}
        super().__init__(start, **{**theirs, **options})

    def get_next_node(self, curr: BaseNode, action: Any) -> BaseNode | None:
        found = curr.successors.get(action or DEFAULT_ACTION)
        if found is None and curr.successors and action not in (None, "", DEFAULT_ACTION):
            known = ", ".join(map(repr, curr.successors))
            warnings.warn(
                f"the flow ends: {curr!r} has no edge for {action!r}, only for {known}", stacklevel=2
            )
        return found

    def _successor(self, node: BaseNode, action: Any) -> BaseNode | None:
        return self.get_next_node(node, action)

    def _params_of(self, node: BaseNode, params: dict[str, Any]) -> dict[str, Any]:
        return params

    async def orchestrate(self, shared: Any, running: RunContext, params: dict[str, Any]) -> Any:
        return await super().orchestrate(shared, running, dict(params))  # its nodes may change them


class BatchFlow(Flow):
    """A flow that runs once for each of the params that `prep` returns, one after the other."""

    async def _run(self, shared: Any, running: RunContext) -> Any:
        prepared: list[Mapping[str, Any]] = list(await running.settled(self.prep(shared)) or ())
        await self._runs(shared, running, prepared)
        return await running.settled(self.post(shared, prepared, None))

    async def _runs(self, shared: Any, running: RunContext, prepared: list[Mapping[str, Any]]) -> None:
        for params in prepared:
            await self.orchestrate(shared, running, {**self.params, **params})


class AsyncFlow(Flow):
    """A flow with the methods `prep_async` and `post_async`."""

    async def prep_async(self, shared: Any) -> Any:
        return None

    async def post_async(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
        return exec_res

    async def prep(self, shared: Any) -> Any:
        return await self.prep_async(shared)

    async def post(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
        return await self.post_async(shared, prep_res, exec_res)


class AsyncBatchFlow(AsyncFlow, BatchFlow):
    """An `AsyncFlow` that runs once for each of the params that `prep_async` returns."""


class AsyncParallelBatchFlow(AsyncBatchFlow):
    """An `AsyncBatchFlow` whose runs happen at the same time."""

    async def _runs(self, shared: Any, running: RunContext, prepared: list[Mapping[str, Any]]) -> None:
        async def one(beside: RunContext, params: Mapping[str, Any]) -> Any:
            return await self.orchestrate(shared, beside, {**self.params, **params})

        await running.each(one, prepared, max(len(prepared), 1))
