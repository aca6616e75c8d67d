"""The names that programs written for pocketflow use, so that their nodes run here unchanged.

In Spindle one `Node` is sync or async as its methods are, and one `Flow` runs both kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.flows.flow import Flow
from spindle.flows.node import BatchNode, Node

if TYPE_CHECKING:
    from spindle.flows.run_context import RunContext


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
    """An `AsyncNode` that works on all items of a list at once. `ParallelBatchNode` has a limit."""

    async def _exec(self, prepared: Iterable[Any] | None, running: RunContext) -> Any:
        async def one(beside: RunContext, item: Any) -> Any:
            return await self._attempts(item, beside)

        items = list(prepared or ())
        return await running.each(one, items, max(len(items), 1))


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
