"""A flow inside a flow, as a node like any other: with inputs, repeated, limited, for each item, in a loop.

Its nodes see the shared store of the flow around it, and above that its inputs and the item of its batch.
They leave their keys in the store when it is done; those of a batch leave only the list of outputs.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spindle.calls.known_secrets import with_known
from spindle.calls.record import masked
from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import FlowError
from spindle.flows.expressions.errors import ExpressionError
from spindle.flows.expressions.parsing import parse
from spindle.flows.expressions.paths import MISSING
from spindle.flows.node_done import NodeDone
from spindle.flows.outputs import outputs_of
from spindle.flows.run_context import Notes, RunContext
from spindle.flows.shared import SharedLookup
from spindle.flows.signature import input_schema
from spindle.flows.wait_node import hooks_of
from spindle.flows.workspace_node import WorkspaceNode

if TYPE_CHECKING:
    from typing import Protocol

    from spindle.domain.call import Host
    from spindle.flows.definition import FlowLoop, NodeDefinition
    from spindle.flows.flow import Flow

    class InnerNotes(Notes, Protocol):
        """The notes of a flow inside another."""

        output: Any
        """The output of the last node."""
        prefix: str
        """The beginning of its nodes' names."""

    Within = Callable[[WorkspaceNode, Flow, Host, str], InnerNotes]


@dataclass(frozen=True, slots=True)
class _Given:
    inputs: JsonObject
    item: JsonObject
    index: int | None
    """The place of the item in its batch."""
    round: int = 1


class FlowNode(WorkspaceNode):
    """A flow as a node. `params` set its inputs, and parameters of its nodes; `inline` makes one."""

    def __init__(self, definition: NodeDefinition, inner: Flow) -> None:
        super().__init__(definition)
        self.inner = inner
        self.within: Within | None = None
        """Makes the notes of one attempt. Set for each visit by who runs the flow."""
        self._shared: Mapping[str, Any] = {}
        self._items = 0

    def _given(self, shared: Mapping[str, Any], item: JsonObject | None) -> _Given:
        self._shared = shared
        lookup = SharedLookup(shared, item)
        declared = self.inner.inputs
        inputs: JsonObject = {}
        for name, schema in declared.items():
            if self.definition.loop is not None and name in self.definition.loop.carry:
                continue
            if name in self.definition.params:
                inputs[name] = self._rendered(self.definition.params[name], lookup, name)
            elif (found := self._argument(name, lookup)) is not MISSING:
                inputs[name] = found
            elif is_object(schema) and "default" in schema:
                inputs[name] = schema["default"]
            elif not is_object(schema) or schema.get("required") is not False:
                raise self._needs(name, "the flow")
        if self.definition.loop is not None:
            inputs |= self._carried(self.definition.loop, lookup)
        for name in self.definition.inputs:
            if name not in declared:
                inputs[name] = self._mapped(name, lookup)
        index = self._items if item is not None else None
        self._items += 1
        return _Given(inputs, item or {}, index)

    def _carried(self, loop: FlowLoop, lookup: SharedLookup) -> JsonObject:
        return {
            name: self._rendered(value, lookup, f"loop.carry.{name}") for name, value in loop.carry.items()
        }

    def _shown(self, given: _Given) -> JsonObject:
        inputs = masked(given.inputs, input_schema(self.inner.inputs), with_known(frozenset()))
        return {**inputs, **given.item}

    async def _work(self, given: _Given) -> NodeDone:
        async def once(host: Host) -> JsonObject:
            done = await self._rounds(given, host)
            return {"value": done.value, "action": done.action, "wrote": done.wrote}

        key = [self.id, self.visit, self.cur_retry, given.index, given.inputs, given.item]
        return NodeDone(**await self._in_time(key, once))

    async def _rounds(self, given: _Given, host: Host) -> NodeDone:
        """Does the work of one attempt: once, or while the condition of the loop holds."""
        loop = self.definition.loop
        if loop is None:
            return await self._once(given, host)
        for number in range(1, loop.limit + 1):
            done = await self._once(replace(given, round=number), host)
            outputs: JsonObject = done.value if is_object(done.value) else {}
            if not self._goes_on(loop, outputs, given):
                return done
            next_round = {name: outputs[name] for name in loop.carry if name in outputs}
            given = replace(given, inputs={**given.inputs, **next_round})
        raise FlowError(
            f"node {self.id!r}: `{loop.repeat_while}` is still true after {loop.limit} rounds",
            hint="if the loop should run that long, raise its limit",
        )

    def _goes_on(self, loop: FlowLoop, outputs: JsonObject, given: _Given) -> bool:
        lookup = SharedLookup(self._shared, {**given.inputs, **given.item, **outputs})
        try:
            return bool(parse(loop.repeat_while).value(lookup))
        except ExpressionError as error:
            raise FlowError(f"node {self.id!r}: loop.while: {error}", hint=error.hint) from None

    async def _once(self, given: _Given, host: Host) -> NodeDone:
        assert self.within is not None
        attempt = f"~{self.cur_retry + 1}" if self.cur_retry else ""
        place = f"[{given.index}]" if given.index is not None else ""
        number = f"@{given.round}" if given.round > 1 else ""
        if given.index is not None:
            # Beside the others: their steps come in any order, and each belongs to its item.
            host = host.branch(f"item {self.id}:{self.visit}{place}{attempt}{number}")
        notes = self.within(self, self.inner, host, f"{place}{attempt}{number}")
        above: JsonObject = {**given.inputs, **given.item, **await hooks_of(self.inner, host, notes.prefix)}
        store: ChainMap[str, Any] = ChainMap(dict(above), self._shared)  # pyright: ignore[reportArgumentType]
        params = {**self.params, **self.inner.params, **self.definition.params}
        params = {name: value for name, value in params.items() if name not in self.inner.inputs}
        action = await self.inner.orchestrate(store, RunContext(notes=notes, host=host), params)
        if self.inner.outputs is None:
            value = notes.output
        else:
            value = outputs_of(self.inner.outputs, store, f"node {self.id!r}: ")
        if given.index is not None:
            return NodeDone(value)
        written = store.maps[0]
        wrote = {key: item for key, item in written.items() if key not in above or item is not above[key]}
        return NodeDone(value, action if isinstance(action, str) else None, wrote)
