"""The common part of tools, questions, models and inline flows as nodes: batches, retries, conditions,
failures, and outputs in the shared store. Each kind says what it is given, and does its work once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from spindle.calls.known_secrets import with_known
from spindle.calls.record import clean
from spindle.domain.json_schema import JsonObject, is_array
from spindle.errors import (
    ApprovalRequired,
    CallTimeoutError,
    FlowError,
    PermissionDeniedError,
    SpindleError,
    StoreAwayError,
    ToolError,
    suggest,
)
from spindle.flows.batch_items import BatchItems
from spindle.flows.definition import FAILED, RESULTS, Batch, CacheRule, NodeDefinition
from spindle.flows.expressions.errors import ExpressionError, UnresolvedError
from spindle.flows.expressions.paths import MISSING, parse_path, written_path
from spindle.flows.failures import ERROR, REFUSED, NodeFailure, action_of, may_pass
from spindle.flows.node import Node
from spindle.flows.node_done import NodeDone
from spindle.flows.prepared_items import AT_A_TIME, KeptItems, PreparedItems
from spindle.flows.run_context import RunContext
from spindle.flows.secrets import note_derived
from spindle.flows.shared import SharedLookup, write_output
from spindle.flows.spread import over_workers
from spindle.flows.templates import render
from spindle.flows.visits import MAX_KEPT, Report
from spindle.runs.parts import spreading

if TYPE_CHECKING:
    from collections.abc import Collection

    from spindle.domain.call import Host
    from spindle.runs.parts import RunParts

_NO_WORKSPACE = "a tool node runs in a workspace: `await app.run_flow(flow, …)`"


class WorkspaceNode(Node):
    """A node that needs a workspace to run in. The workspace records its calls and questions."""

    remembers = False
    can_spread = False
    """True if what the work is given is all that another process needs to do it."""
    _approval_message = ""

    def __init__(self, definition: NodeDefinition) -> None:
        retry = definition.retry
        super().__init__(retry.attempts, retry.wait, backoff=retry.backoff, id=definition.id)
        self.definition = definition
        self.params = dict(definition.params)
        self.join = definition.join
        self.report = Report()
        # Set for each visit by who runs the flow.
        self.host: Host | None = None
        self.visit = 1
        self.place = definition.id
        self.ids: Collection[str] = ()
        self.cache: CacheRule | None = None
        self.use_cache = True

    @classmethod
    def of(cls, definition: NodeDefinition) -> Self:
        """Returns the node that the definition describes."""
        node = cls.__new__(cls)
        WorkspaceNode.__init__(node, definition)
        return node

    # --- what a kind of node says

    async def _meet(self) -> None:
        """Finds what the node needs before it can say what it is given."""

    def _given(self, shared: Mapping[str, Any], item: JsonObject | None) -> Any:
        """Returns what the work is given, for one item of a batch or without one."""
        raise NotImplementedError

    def _shown(self, given: Any) -> Any:
        """Returns what the history shows of it."""
        return given

    async def _work(self, given: Any) -> NodeDone:
        """Does the work once."""
        raise NotImplementedError

    @property
    def _natural(self) -> str:
        """The key of an output without keys of its own."""
        assert self.id is not None
        return self.id

    # --- one visit

    async def prep(self, shared: Any) -> Any:
        await self._meet()
        batch, approval = self.definition.batch, self.definition.approval
        if approval is not None and approval.message:
            message = self._rendered(approval.message, SharedLookup(shared), "approval.message")
            self._approval_message = str(message)
        if batch is None:
            given = self._given(shared, None)
            self.report.inputs = self._shown(given)
            return given
        items = self._rendered(batch.over, SharedLookup(shared), "batch.over")
        if not is_array(items):
            raise FlowError(
                f"node {self.id!r}: batch.over gives a value of type {type(items).__name__}, not a list",
                hint="name a list of the shared store, such as ${search.items}",
            )
        each = PreparedItems(items, lambda item: self._given(shared, {batch.item: item}))
        if self._parts() is not None:
            return await self._looked_at(each)
        prepared = list(each)
        self.report.inputs = [self._shown(given) for given in prepared]
        return prepared

    def _parts(self) -> RunParts | None:
        """Returns the parts of the run, if other processes do the items of this batch."""
        batch = self.definition.batch
        return spreading.get() if batch is not None and batch.spread and self.can_spread else None

    async def _looked_at(self, each: PreparedItems) -> PreparedItems:
        """Looks at what each item is given, without holding it: what is wrong with one is said before any is
        begun, and what is secret in them is known."""
        shown = KeptItems(MAX_KEPT)
        for first in range(0, len(each), AT_A_TIME):
            for given in each[first : first + AT_A_TIME]:
                shown.add(self._shown(given))
            await asyncio.sleep(0)
        self.report.inputs = shown.value
        return each

    async def exec(self, prep_res: Any) -> Any:
        done = await self._work(prep_res)
        if self.definition.fail_when is not None:
            self._refuse_failure(done.value)
        return done

    def _refuse_failure(self, value: Any) -> None:
        """Raises ToolError if the output is what `fail_when` describes."""
        from spindle.flows.expressions.parsing import parse

        text = self.definition.fail_when
        assert text is not None
        try:
            has_failed = parse(text).holds(value, SharedLookup({}))
        except ExpressionError as error:
            raise FlowError(f"node {self.id!r}: fail_when: {error}", hint=error.hint) from None
        if has_failed:
            raise ToolError(
                f"{self.report.tool or f'node {self.id!r}'} reported a failure: {text}",
                tool=self.report.tool,
                details={"structured": value},
            )

    def worth_another_try(self, exc: Exception) -> bool:
        return may_pass(exc)

    def exec_fallback(self, prep_res: Any, exc: Exception) -> Any:
        if not isinstance(exc, SpindleError) or exc.category == "cancelled":
            raise exc
        if isinstance(exc, StoreAwayError):  # no failure of the node: the run cannot go on
            raise exc
        return NodeFailure(exc, action_of(exc))

    async def _exec(self, prepared: Any, running: RunContext) -> Any:
        batch = self.definition.batch
        refused = self._refusal(prepared)
        if refused is not None:
            return refused
        if batch is None:
            return await self._attempts(prepared, running)
        self.report.batch = items = BatchItems(str(self.id), batch, self._all_shown(prepared))
        parts = self._parts()
        if parts is not None:
            return await over_workers(self, items, prepared, parts)
        return await items.run(self._attempts, prepared, running)

    def _all_shown(self, prepared: Any) -> Any:
        """Returns what the node is given as the history shows it, all of it however much it is."""
        return prepared.then(self._shown) if isinstance(prepared, PreparedItems) else self.report.inputs

    async def do_part(
        self, prepared: Sequence[Any], ended: Callable[[int], Awaitable[None]] | None = None
    ) -> BatchItems:
        """Does items of a batch that another process has prepared, and returns what became of them; `ended`
        is told of the end of each. Raises Interruption where one waits for a person."""
        assert self.definition.batch is not None
        await self._meet()
        shown = [self._shown(given) for given in prepared]
        items = BatchItems(str(self.id), self.definition.batch, shown)
        await items.run(self._attempts, prepared, RunContext(host=self._host()), ended)
        return items

    def _refusal(self, prepared: Any) -> NodeFailure | None:
        """Returns the failure of a node that a person did not approve. Raises ApprovalRequired until somebody
        has decided; one decision counts for all items of a batch and for all attempts."""
        approval = self.definition.approval
        if approval is None or (self.definition.batch is not None and not prepared):
            return None
        what = self.report.tool or f"node {self.id!r}"
        message = self._approval_message or f"node {self.id!r} runs only with approval"
        message = clean(message, with_known(frozenset()))
        shown = self._all_shown(prepared)
        details: JsonObject = {
            "node": self.id,
            "visit": self.visit,
            "inputs": list(shown) if isinstance(shown, PreparedItems) else shown,
            "approvers": list(approval.by),
        }
        reply = self._host().ask(ApprovalRequired(message, tool=what, details=details))
        if reply.refused is None:
            return None
        reason = f": {reply.refused}" if reply.refused else ""
        return NodeFailure(PermissionDeniedError(f"node {self.id!r} was not approved{reason}"), REFUSED)

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
        assert self.id is not None
        if isinstance(exec_res, NodeFailure):
            return self._failed(shared, exec_res)
        done: NodeDone = exec_res
        batch = self.definition.batch
        if batch is not None and batch.reduce is not None:
            try:
                done = replace(done, value=self._reduced(batch, done, shared))
            except FlowError as error:
                return self._failed(shared, NodeFailure(error, action_of(error)))
        self.report.output, self.report.wrote = done.value, done.wrote
        if done.wrote is not None:
            shared.update(done.wrote)
        write_output(shared, self.id, done.value, self._natural, self.definition.outputs, self.ids)
        if done.failed is not None:
            shared[f"{self.id}.{FAILED}"] = done.failed
        if self.report.usage is not None:
            shared[f"{self.id}.usage"] = self.report.usage
        return done.action

    def _reduced(self, batch: Batch, done: NodeDone, shared: Mapping[str, Any]) -> Any:
        """Returns the value that a batch makes of all results."""
        seen: JsonObject = {RESULTS: done.value, FAILED: done.failed or []}
        return self._rendered(batch.reduce, SharedLookup(shared, seen), "batch.reduce")

    def _failed(self, shared: Any, failure: NodeFailure) -> str:
        told = self.report.error = failure.told()
        action = failure.edge(self.edge_actions)
        if action is None:
            raise failure.error
        shared[self.id] = {"error": told}
        if ERROR not in self.ids:
            shared[ERROR] = told
        return action

    async def _in_time(self, key: Any, once: Callable[[Host], Awaitable[JsonObject]]) -> JsonObject:
        """Returns what `once` returns, if it does so within the node's time limit, else raises. Time in which
        the run waits for a person does not count."""
        limit, host = self.definition.timeout, self._host()
        if limit is None:
            return await once(host)

        async def limited(host: Host) -> JsonObject:
            try:
                async with asyncio.timeout(limit):
                    return {"done": await once(host)}
            except TimeoutError:
                return {"timed_out": True}

        # As one step of the run: what was given up in the middle is not begun again when the run goes on.
        found = await host.remember(f"{self.definition.kinds[0]} {self.id}", key, limited)
        if "timed_out" in found:
            raise CallTimeoutError(f"node {self.id!r} did not finish within {limit:g} s")
        return found["done"]

    # --- values

    def _host(self) -> Host:
        if self.host is None:
            raise FlowError(f"{self.id} cannot run here: {_NO_WORKSPACE}")
        return self.host

    def _rendered(self, value: Any, lookup: SharedLookup, what: str) -> Any:
        try:
            rendered = render(value, lookup)
            note_derived(value, rendered)
            return rendered
        except UnresolvedError as error:
            raise self._unresolved(error, lookup, what) from None
        except ExpressionError as error:
            raise FlowError(f"node {self.id!r}: {what}: {error}", hint=error.hint) from None

    def _unresolved(self, error: UnresolvedError, lookup: SharedLookup, what: str) -> FlowError:
        path = error.path
        meant = suggest(written_path(path), lookup.known(path))
        hint = f"did you mean ${{{meant}}}?" if meant else None
        if hint is None and str(path[0]).isupper() and len(path) == 1:
            hint = "flows do not read the environment: declare it as an input of the flow"
        return FlowError(
            f"node {self.id!r}: {what}: {error}",
            hint=hint or f"give it a default, ${{{error.written} ?? …}}, if it may be missing",
        )

    def _mapped(self, name: str, lookup: SharedLookup) -> Any:
        """Returns the value of an argument that `inputs` maps."""
        place = self.definition.inputs[name]
        try:
            found = lookup(parse_path(place))
        except ExpressionError as error:
            raise FlowError(f"node {self.id!r}: inputs.{name}: {error}") from None
        if found is MISSING:
            raise FlowError(
                f"node {self.id!r}: {name!r} is mapped from {place}, which has no value",
                hint="map it from a key that a node before it writes",
            )
        return found

    def _argument(self, name: str, lookup: SharedLookup) -> Any:
        """Returns the value of an argument that the node's params do not set: the flow's, the one that
        `inputs` maps, or the shared key of its name. MISSING if there is none."""
        if name in self.params:
            return self._rendered(self.params[name], lookup, name)
        if name in self.definition.inputs:
            return self._mapped(name, lookup)
        return lookup((name,))

    def _needs(self, name: str, who: str) -> FlowError:
        return FlowError(
            f"node {self.id!r}: {who} needs {name!r}, and nothing provides it",
            hint=f"set it in the node's params, map it, or give the flow an input {name!r}",
        )
