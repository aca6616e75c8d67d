"""A node: a piece of work in three parts, joined to others by actions.

class Greet(Node):
    def prep(self, shared):
        return shared["name"]                # what the work needs

    def exec(self, name):
        return f"Hello, {name}"              # the work; it alone is repeated, and sees no shared state

    def post(self, shared, name, greeting):
        shared["greeting"] = greeting        # what becomes of it
        return "known" if name else None     # the action: which edge to take; None is "default"

ask >> greet                                 # on "default"
greet - "known" >> farewell                  # on an action
greet.when("len(name) > 9") >> shorten       # by a condition over the shared store; the first that holds
greet.when("else") >> farewell
greet >> (mail, log) >> done                 # at the same time; `done` says with `join` which it waits for
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from spindle.flows.definition import DEFAULT_ACTION, way_of
from spindle.flows.run_context import RunContext

if TYPE_CHECKING:
    from spindle.flows.definition import Join
    from spindle.flows.run_context import Notes

B = TypeVar("B", bound="BaseNode")

_attempt: ContextVar[int] = ContextVar("spindle_flow_attempt", default=0)


class BaseNode:
    """The part that nodes and flows share: edges, parameters, the three steps of the work, done once, and two
    ways to be run alone."""

    id: str | None = None
    remembers = True
    """True: a run that continues after a pause takes the result of `exec` from its record."""
    in_doubt: Literal["ask", "repeat", "fail"] = "ask"
    """The decision about an `exec` that a fault hit, and that may have been done: to ask a person, to do it
    again, or to fail. One that is `flow_safe` is done again."""
    join: Join | None = None
    """The branches that it waits for, where several lead to it at the same time."""

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}
        self.successors: dict[str, BaseNode] = {}
        """By action; where there are conditions, by action and condition (`Edge.way`)."""
        self.edge_conditions: dict[str, tuple[str, str]] = {}
        """The action and the condition of those that have one, in order."""

    # --- the graph

    def next(self, node: B, action: str = DEFAULT_ACTION, when: str | None = None) -> B:
        way = way_of(action, when)
        if way in self.successors:
            warnings.warn(f"the edge for {way!r} of {self!r} is replaced", stacklevel=3)
        self.successors[way] = node
        if when is not None:
            self.edge_conditions[way] = (action, when)
        return node

    def when(self, condition: str) -> _Action:
        """Returns the edge that is taken when a condition over the shared store holds: `node.when("n > 3") >>
        other`. The first counts; `else` is for all that is left."""
        return _Action(self, DEFAULT_ACTION, condition)

    @property
    def edge_actions(self) -> set[str]:
        """The actions for which there are edges."""
        return {
            self.edge_conditions[way][0] if way in self.edge_conditions else way for way in self.successors
        }

    def edge_taken(self, action: Any, shared: Any) -> Any:
        """Returns the edge to take: the action, or where it has conditions, the first that holds."""
        if not self.edge_conditions:
            return action
        from spindle.flows.conditions import holds

        wanted = action or DEFAULT_ACTION
        whose = f"node {self.id!r}" if self.id else repr(self)
        for way, (of, when) in self.edge_conditions.items():
            if of == wanted and holds(when, shared, whose):
                return way
        return action

    def fork(self, nodes: Sequence[BaseNode], action: str = DEFAULT_ACTION, when: str | None = None) -> None:
        """Lets several nodes follow at the same time."""
        if len(nodes) > 1:
            self.next(Fork(self, way_of(action, when), nodes), action, when)
        else:
            for node in nodes:
                self.next(node, action, when)

    def following(self) -> Iterator[tuple[str, Sequence[BaseNode]]]:
        """Yields, by action, the nodes that follow: one, or those of several branches."""
        for action, node in self.successors.items():
            yield action, node.targets if isinstance(node, Fork) else (node,)

    @overload
    def __rshift__(self, node: B) -> B: ...

    @overload
    def __rshift__(self, node: tuple[BaseNode, ...]) -> tuple[BaseNode, ...]: ...

    def __rshift__(self, node: BaseNode | tuple[BaseNode, ...]) -> BaseNode | tuple[BaseNode, ...]:
        return _Action(self, DEFAULT_ACTION) >> node

    def __rrshift__(self, nodes: tuple[BaseNode, ...]) -> Self:
        for node in nodes:
            node.next(self)
        return self

    def __sub__(self, action: str) -> _Action:
        if not isinstance(action, str):  # pyright: ignore[reportUnnecessaryIsInstance] - written by hand
            raise TypeError(f"an action is a text, not {action!r}")
        return _Action(self, action)

    def set_params(self, params: dict[str, Any]) -> None:
        self.params = params

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{f' {self.id}' if self.id else ''}>"

    def __copy__(self) -> Self:
        # As the default, but without its detour over pickling: a node is copied at each visit.
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    # --- what a subclass writes; each may be `async`

    def prep(self, shared: Any) -> Any:
        return None

    def exec(self, prep_res: Any) -> Any:
        return None

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
        return None

    # --- running

    def run(self, shared: Any) -> Any:
        """Runs in this thread and returns the action. For a program without an event loop."""
        running = RunContext(blocking=True)
        work = self._alone(shared, running)
        try:
            work.send(None)
        except StopIteration as ended:
            return ended.value
        finally:
            work.close()
            running.close()
        raise AssertionError("a blocking run does not wait for anybody")

    async def run_async(self, shared: Any, notes: Notes | None = None, host: Any = None) -> Any:
        """Runs from async code and returns the action. A sync `exec` runs in a thread."""
        return await self._alone(shared, RunContext(notes=notes, host=host))

    async def _alone(self, shared: Any, running: RunContext) -> Any:
        if self.successors:
            warnings.warn(f"{self!r} runs alone: its successors run in a Flow", stacklevel=3)
        return await self._run(shared, running)

    async def _run(self, shared: Any, running: RunContext) -> Any:
        prepared = self.prep(shared)
        if hasattr(prepared, "__await__"):
            prepared = await running.waits_for(prepared)
        if running.notes is None or not self.remembers:
            result = await self._exec(prepared, running)
        else:
            result = await running.notes.remember(self, prepared, lambda: self._exec(prepared, running))
        action = self.post(shared, prepared, result)
        return await running.waits_for(action) if hasattr(action, "__await__") else action

    async def _exec(self, prepared: Any, running: RunContext) -> Any:
        return await running.call(self.exec, prepared)


class _Action:
    """`node - "action"`, waiting for `>> successor`."""

    def __init__(self, node: BaseNode, action: str, when: str | None = None) -> None:
        self._node = node
        self._action = action
        self._when = when

    def when(self, condition: str) -> _Action:
        """Returns the edge for the action and a condition."""
        return _Action(self._node, self._action, condition)

    @overload
    def __rshift__(self, node: B) -> B: ...

    @overload
    def __rshift__(self, node: tuple[BaseNode, ...]) -> tuple[BaseNode, ...]: ...

    def __rshift__(self, node: BaseNode | tuple[BaseNode, ...]) -> BaseNode | tuple[BaseNode, ...]:
        if isinstance(node, tuple):
            self._node.fork(node, self._action, self._when)
            return node
        return self._node.next(node, self._action, self._when)


class Fork(BaseNode):
    """Several nodes that follow one at the same time. It stands in the place of a single successor, and
    `branches.py` runs them."""

    def __init__(self, source: BaseNode, action: str, targets: Sequence[BaseNode]) -> None:
        super().__init__()
        self.source = source
        self.action = action
        self.targets = tuple(targets)


class Node(BaseNode):
    """A piece of work. `max_retries` is the number of attempts in all; each wait is `backoff` times the
    one before."""

    def __init__(
        self, max_retries: int = 1, wait: float = 0, *, backoff: float = 1, id: str | None = None
    ) -> None:
        if max_retries < 1:
            raise ValueError("max_retries counts all attempts, so it is at least 1")
        super().__init__()
        self.max_retries = max_retries
        self.wait = wait
        self.backoff = backoff
        if id is not None:
            self.id = id

    @property
    def cur_retry(self) -> int:
        """The attempt that `exec` is in, from 0. It belongs to the run, so parallel runs have their own."""
        return _attempt.get()

    def exec_fallback(self, prep_res: Any, exc: Exception) -> Any:
        """Returns the result to use after the last attempt failed. Raises by default."""
        raise exc

    def worth_another_try(self, exc: Exception) -> bool:
        return True

    async def _exec(self, prepared: Any, running: RunContext) -> Any:
        return await self._attempts(prepared, running)

    async def _attempts(self, given: Any, running: RunContext) -> Any:
        wait = self.wait
        for attempt in range(self.max_retries):
            token = _attempt.set(attempt)
            try:
                return await running.call(self.exec, given)
            except Exception as error:  # noqa: BLE001 - whatever a user's code raises
                if attempt == self.max_retries - 1 or not self.worth_another_try(error):
                    return await running.call(self.exec_fallback, given, error)
            finally:
                _attempt.reset(token)
            if wait > 0:
                await running.sleep(wait)
            wait *= self.backoff
        raise AssertionError("the last attempt returns or raises")


class BatchNode(Node):
    """`prep` gives items, `exec` works on one of them, `post` gets the list of results."""

    async def _exec(self, prepared: Iterable[Any] | None, running: RunContext) -> Any:
        return [await self._attempts(item, running) for item in (prepared or ())]


class ParallelBatchNode(BatchNode):
    """A BatchNode that works on up to `max_concurrency` items at a time; results stay in order."""

    def __init__(
        self,
        max_retries: int = 1,
        wait: float = 0,
        *,
        backoff: float = 1,
        max_concurrency: int = 10,
        id: str | None = None,
    ) -> None:
        super().__init__(max_retries, wait, backoff=backoff, id=id)
        self.max_concurrency = max_concurrency

    async def _exec(self, prepared: Iterable[Any] | None, running: RunContext) -> Any:
        async def one(beside: RunContext, item: Any) -> Any:
            return await self._attempts(item, beside)

        return await running.each(one, prepared or (), self.max_concurrency)
