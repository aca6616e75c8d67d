"""Nodes that need a workspace: a tool, and a question to a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from spindle.calls.record import masked
from spindle.calls.reported import error_of
from spindle.domain.json_schema import JsonObject, is_array, is_object, parameters
from spindle.errors import FlowError, InputRequired, SpindleError, ToolError, suggest
from spindle.flows.definition import Batch, CacheRule, NodeDefinition, Question, Retry
from spindle.flows.failures import ERROR, NodeFailure, action_of, may_pass
from spindle.flows.interface import is_wrapped, natural_key
from spindle.flows.node import Node
from spindle.flows.shared import SharedLookup, write_output
from spindle.flows.templates import (
    MISSING,
    TemplateError,
    UnresolvedError,
    parse_path,
    render,
    written_path,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from spindle.domain.call import CallRecord, Host, Result
    from spindle.domain.tool import Tool
    from spindle.flows.run_context import RunContext

_NO_WORKSPACE = "a tool node runs in a workspace: `await app.run_flow(flow, …)`"


@dataclass(slots=True)
class Report:
    """Facts about one visit of a node, besides the action it chose."""

    tool: str | None = None
    inputs: Any = None
    output: Any = None
    attempts: int = 0
    """Calls made in this visit; none if the run had made the call before."""
    cached: bool = False
    error: JsonObject | None = None


class WorkspaceNode(Node):
    """A node that needs a workspace to run in. The workspace records its calls and questions."""

    remembers = False

    def __init__(self, definition: NodeDefinition) -> None:
        retry = definition.retry
        super().__init__(retry.attempts, retry.wait, backoff=retry.backoff, id=definition.id)
        self.definition = definition
        self.params = dict(definition.params)
        self.report = Report()
        # Set for each visit by who runs the flow.
        self.host: Host | None = None
        self.visit = 1
        self.ids: Collection[str] = ()
        self.cache: CacheRule | None = None
        self.use_cache = True

    @classmethod
    def of(cls, definition: NodeDefinition) -> Self:
        """Returns the node that the definition describes."""
        node = cls.__new__(cls)
        WorkspaceNode.__init__(node, definition)
        return node

    def _host(self) -> Host:
        if self.host is None:
            raise FlowError(f"{self.id} cannot run here: {_NO_WORKSPACE}")
        return self.host

    def _rendered(self, value: Any, lookup: SharedLookup, what: str) -> Any:
        try:
            return render(value, lookup)
        except UnresolvedError as error:
            raise self._unresolved(error, lookup, what) from None
        except TemplateError as error:
            raise FlowError(f"node {self.id!r}: {what}: {error}") from None

    def _unresolved(self, error: UnresolvedError, lookup: SharedLookup, what: str) -> FlowError:
        path = error.reference.path
        meant = suggest(written_path(path), lookup.known(path))
        hint = f"did you mean ${{{meant}}}?" if meant else None
        if hint is None and str(path[0]).isupper() and len(path) == 1:
            hint = "flows do not read the environment: declare it as an input of the flow"
        return FlowError(
            f"node {self.id!r}: {what}: {error}",
            hint=hint or f"give it a default, ${{{error.reference.text} ?? …}}, if it may be missing",
        )


class ToolNode(WorkspaceNode):
    """A tool by its name. Its arguments are its params, then those that `inputs` maps, then the shared
    keys of their names. Its output is left under its id and its natural keys, renamed by `outputs`."""

    _found: Tool | None = None
    """The tool of this visit."""

    def __init__(
        self,
        tool: str,
        *,
        id: str | None = None,
        params: Mapping[str, Any] | None = None,
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        batch: Batch | None = None,
        cache: CacheRule | bool | None = None,
        fail_when: str | None = None,
        fingerprint: str | None = None,
        description: str = "",
    ) -> None:
        definition = NodeDefinition(
            id=id or natural_key(tool), tool=tool, description=description, params=dict(params or {}),
            inputs=dict(inputs or {}), outputs=dict(outputs or {}), retry=retry or Retry(), timeout=timeout,
            batch=batch, cache=cache, fail_when=fail_when, fingerprint=fingerprint,
        )  # fmt: skip
        super().__init__(definition)

    @property
    def tool(self) -> str:
        """The name of the tool, as it was given."""
        assert self.definition.tool is not None
        return self.definition.tool

    async def prep(self, shared: Any) -> Any:
        tool = self._found = await self._host().find(self.tool)
        self.report.tool = tool.name
        batch = self.definition.batch
        if batch is None:
            arguments = self._arguments(tool, shared, None)
            self.report.inputs = masked(arguments, tool.input_schema, ())
            return arguments
        items = self._rendered(batch.over, SharedLookup(shared), "batch.over")
        if not is_array(items):
            raise FlowError(
                f"node {self.id!r}: batch.over gives a value of type {type(items).__name__}, not a list",
                hint="name a list of the shared store, such as ${search.items}",
            )
        each = [self._arguments(tool, shared, {batch.item: item}) for item in items]
        self.report.inputs = [masked(arguments, tool.input_schema, ()) for arguments in each]
        return each

    def _arguments(self, tool: Tool, shared: Mapping[str, Any], item: JsonObject | None) -> JsonObject:
        lookup = SharedLookup(shared, item)
        own = self.definition.params
        arguments: JsonObject = {name: self._rendered(value, lookup, name) for name, value in own.items()}
        for parameter in parameters(tool.input_schema):
            name = parameter.name
            if name in arguments:
                continue
            if name in self.params:  # the flow's
                arguments[name] = self._rendered(self.params[name], lookup, name)
            elif name in self.definition.inputs:
                arguments[name] = self._mapped(name, lookup)
            elif (found := lookup((name,))) is not MISSING:
                arguments[name] = found
            elif parameter.required:
                raise FlowError(
                    f"node {self.id!r}: {tool.name} needs {name!r}, and nothing provides it",
                    hint=f"set it in the node's params, map it, or give the flow an input {name!r}",
                )
        return arguments

    def _mapped(self, name: str, lookup: SharedLookup) -> Any:
        place = self.definition.inputs[name]
        try:
            found = lookup(parse_path(place))
        except TemplateError as error:
            raise FlowError(f"node {self.id!r}: inputs.{name}: {error}") from None
        if found is MISSING:
            raise FlowError(
                f"node {self.id!r}: {name!r} is mapped from {place}, which has no value",
                hint="map it from a key that a node before it writes",
            )
        return found

    async def exec(self, prep_res: JsonObject) -> Any:
        tool = self._found
        assert tool is not None
        rule = self.cache
        result = await self._host().call(
            tool.name,
            prep_res,
            timeout=self.definition.timeout,
            use_cache=self.use_cache and (self.visit == 1 or (rule is not None and rule.loops)),
            cache_ttl=rule.ttl if rule is not None else None,
            on_record=self._recorded,
        )
        self.report.cached |= result.cached
        if result.is_error:
            raise error_of(tool, result)
        value = plain_value(result, tool)
        if self.definition.fail_when is not None:
            self._check(tool, value)
        return (value, result.action)

    def _recorded(self, record: CallRecord) -> None:
        self.report.attempts += max(record.attempts, 1)

    def _check(self, tool: Tool, value: Any) -> None:
        from spindle.flows.expression import ExpressionError, parse

        text = self.definition.fail_when
        assert text is not None
        try:
            has_failed = parse(text).holds(value)
        except ExpressionError as error:
            raise FlowError(f"node {self.id!r}: fail_when: {error}", hint=error.hint) from None
        if has_failed:
            raise ToolError(
                f"{tool.name} reported a failure: {text}",
                source=tool.source,
                tool=tool.name,
                details={"structured": value},
            )

    def worth_another_try(self, exc: Exception) -> bool:
        return may_pass(exc)

    def exec_fallback(self, prep_res: Any, exc: Exception) -> Any:
        if isinstance(exc, SpindleError) and exc.category != "cancelled":
            return NodeFailure(exc, action_of(exc))
        raise exc

    async def _exec(self, prepared: Any, running: RunContext) -> Any:
        batch = self.definition.batch
        if batch is None:
            return await self._attempts(prepared, running)
        has_failed = False

        async def one(beside: RunContext, arguments: JsonObject) -> Any:
            nonlocal has_failed
            if has_failed and not batch.keep_errors:
                return MISSING  # not begun
            outcome = await self._attempts(arguments, beside)
            has_failed |= isinstance(outcome, NodeFailure)
            return outcome

        outcomes = await running.each(one, prepared, batch.concurrency)
        return self._gathered(outcomes, batch)

    def _gathered(self, outcomes: list[Any], batch: Batch) -> Any:
        # With arguments as they are recorded: what is secret in them does not belong into errors.
        failed: list[JsonObject] = [
            {"index": index, "arguments": self.report.inputs[index], "error": outcome.told()}
            for index, outcome in enumerate(outcomes)
            if isinstance(outcome, NodeFailure)
        ]
        if not failed or batch.keep_errors:
            values: list[Any] = [
                None if isinstance(outcome, NodeFailure) else outcome[0] for outcome in outcomes
            ]
            return (values, None, failed)
        first = next(outcome for outcome in outcomes if isinstance(outcome, NodeFailure))
        begun = sum(outcome is not MISSING for outcome in outcomes)
        named = "; ".join(f"item {item['index']}: {item['error']['message']}" for item in failed[:5])
        more = f"; and {len(failed) - 5} more" if len(failed) > 5 else ""
        error = FlowError(
            f"node {self.id!r}: {len(failed)} of {len(outcomes)} items failed ({begun} were begun): "
            f"{named}{more}",
            hint="set batch.keep_errors to continue with the others",
            details={"failed": failed},
        )
        return NodeFailure(error, first.action)

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
        assert self.id is not None
        if isinstance(exec_res, NodeFailure):
            return self._failed(shared, exec_res)
        value, action, *rest = exec_res
        self.report.output = value
        natural = natural_key(self.tool)
        write_output(shared, self.id, value, natural, self.definition.outputs, self.ids)
        for failed in rest:
            shared[f"{self.id}.failed"] = failed
        return action

    def _failed(self, shared: Any, failure: NodeFailure) -> str:
        told = self.report.error = failure.told()
        action = failure.edge(self.successors)
        if action is None:
            raise failure.error
        shared[self.id] = {"error": told}
        if ERROR not in self.ids:
            shared[ERROR] = told
        return action


class Ask(WorkspaceNode):
    """Asks a person, and continues when they have answered, maybe in another process. The answer is its
    output. A refusal takes the edge `refused`."""

    def __init__(self, message: str, schema: JsonObject | None = None, *, id: str = "ask") -> None:
        super().__init__(NodeDefinition(id=id, ask=Question(message, schema)))

    def prep(self, shared: Any) -> Any:
        question = self.definition.ask
        assert question is not None
        message = self._rendered(question.message, SharedLookup(shared), "ask.message")
        self.report.inputs = {"message": str(message)}
        return str(message)

    async def exec(self, prep_res: str) -> Any:
        question = self.definition.ask
        assert question is not None
        schema = question.schema or {"type": "string"}
        return self._host().ask(InputRequired(prep_res, details={"schema": schema}))

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
        assert self.id is not None
        if exec_res.refused is not None:
            self.report.error = {"category": "permission", "message": exec_res.refused or "not answered"}
            if "refused" not in self.successors:
                raise FlowError(f"node {self.id!r} was not answered: {exec_res.refused or 'refused'}")
            shared[self.id] = {"error": self.report.error}
            return "refused"
        self.report.output = exec_res.answer
        write_output(shared, self.id, exec_res.answer, self.id, self.definition.outputs, self.ids)
        return None


def plain_value(result: Result, tool: Tool) -> Any:
    """Returns the value of a result for later nodes: the structured data, or else the text."""
    value = result.value
    if is_wrapped(tool.output_schema) and is_object(value) and "result" in value:
        return value["result"]
    return value


def node_of(definition: NodeDefinition) -> WorkspaceNode:
    """Returns the node of a definition of a tool or a question."""
    return ToolNode.of(definition) if definition.ask is None else Ask.of(definition)
