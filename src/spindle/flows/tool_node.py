"""A tool as a node, and a question to a person as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spindle.calls.known_secrets import known_secrets, with_known
from spindle.calls.record import clean, marks_secrets, masked, secrets_in
from spindle.calls.reported import error_of
from spindle.domain.json_schema import JsonObject, is_object, parameters, types_of
from spindle.domain.text_values import Parse, as_text, value_of_text
from spindle.errors import FlowError, InputRequired, PermissionDeniedError
from spindle.flows.content_values import (
    CONTENT,
    as_argument,
    block_of,
    has_content,
    references_of,
    value_of_content,
    with_data,
)
from spindle.flows.definition import Approval, Batch, CacheRule, Join, NodeDefinition, Question, Retry
from spindle.flows.expressions.paths import MISSING
from spindle.flows.failures import REFUSED, NodeFailure
from spindle.flows.interface import is_wrapped, natural_key
from spindle.flows.node_done import NodeDone
from spindle.flows.program_words import as_word, find_tool, spread, tool_of
from spindle.flows.shared import SharedLookup
from spindle.flows.workspace_node import WorkspaceNode

if TYPE_CHECKING:
    from spindle.domain.call import CallRecord, Result
    from spindle.domain.json_schema import Parameter
    from spindle.domain.tool import Tool


class ToolNode(WorkspaceNode):
    """A tool by its name. Its arguments are its params, then those that `inputs` maps, then the shared
    keys of their names. Its output is left under its id and its natural keys, renamed by `outputs`."""

    can_spread = True
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
        join: Join | None = None,
        parse: Parse | None = None,
        fingerprint: str | None = None,
        approval: Approval | None = None,
        description: str = "",
    ) -> None:
        definition = NodeDefinition(
            id=id or natural_key(tool), tool=tool, description=description, params=dict(params or {}),
            inputs=dict(inputs or {}), outputs=dict(outputs or {}), retry=retry or Retry(), timeout=timeout,
            batch=batch, cache=cache, fail_when=fail_when, join=join, parse=parse, fingerprint=fingerprint,
            approval=approval,
        )  # fmt: skip
        super().__init__(definition)

    @classmethod
    def of_program(cls, *words: str | float, id: str | None = None, **others: Any) -> ToolNode:
        """Returns the node of a configured program, by its words: `ToolNode.of_program("git", "log",
        "--count=3")`. `others` are those of any tool's node, without `params`."""
        run = tuple(map(as_word, words))
        node = cls(tool_of(run), id=id or natural_key(run[1]), **others)
        node.definition = replace(node.definition, run=run)
        return node

    @property
    def tool(self) -> str:
        """The name of the tool, as it was given."""
        assert self.definition.tool is not None
        return self.definition.tool

    @property
    def _natural(self) -> str:
        return natural_key(self.tool)

    async def _meet(self) -> None:
        self._found = await find_tool(self.definition, self._host().find)
        self.report.tool = self._found.name

    def _given(self, shared: Mapping[str, Any], item: JsonObject | None) -> JsonObject:
        tool = self._found
        assert tool is not None
        lookup = SharedLookup(shared, item)
        own = spread(self.definition, tool).params
        arguments: JsonObject = {name: self._rendered(value, lookup, name) for name, value in own.items()}
        known = _parameters(tool)
        for parameter in known:
            name = parameter.name
            if name in arguments:
                continue
            if (found := self._argument(name, lookup)) is not MISSING:
                arguments[name] = found
            elif parameter.required:
                raise self._needs(name, tool.name)
        if marks_secrets(tool) and (secrets := known_secrets.get()) is not None:
            secrets.add(secrets_in(arguments, tool.input_schema))
        for parameter in known:
            value = arguments.get(parameter.name)
            if isinstance(value, (dict, list)) and tuple(parameter.types) == ("string",):
                block = block_of(value, self._host())
                text = as_text(value) if block is None else as_argument(block, parameter)
                arguments[parameter.name] = value if text is None else text
        return arguments

    def _shown(self, given: JsonObject) -> JsonObject:
        assert self._found is not None
        secrets = with_known(frozenset())
        return masked(given, self._found.input_schema, secrets, marked=marks_secrets(self._found))

    async def _work(self, given: JsonObject) -> NodeDone:
        tool = self._found
        assert tool is not None
        rule = self.cache
        host = self._host()
        if any(isinstance(value, dict) for value in given.values()):
            given = await with_data(given, _parameters(tool), host)
        result = await host.call(
            tool.name,
            given,
            timeout=self.definition.timeout,
            use_cache=self.use_cache and (self.visit == 1 or (rule is not None and rule.loops)),
            cache_ttl=rule.ttl if rule is not None else None,
            on_record=self._recorded,
        )
        self.report.cached |= result.cached
        if result.is_error:
            raise error_of(tool, result)
        wrote: JsonObject | None = None
        if has_content(result):
            result = await host.kept(result)
            if not is_object(result.structured) or CONTENT not in result.structured:
                wrote = {f"{self.id}.{CONTENT}": references_of(result)}
        try:
            value = seen_value(result, tool, self.definition.parse or host.parses(tool))
        except ValueError as error:
            raise FlowError(
                f"node {self.id!r}: {tool.name} should return JSON, and returned other text: {error}",
                hint='`parse: "auto"` takes a text that is not JSON as it is',
            ) from None
        return NodeDone(value, result.action, wrote)

    def _recorded(self, record: CallRecord) -> None:
        self.report.attempts += max(record.attempts, 1)


class Ask(WorkspaceNode):
    """Asks a person, and continues when they have answered, maybe in another process. The answer is its
    output. A refusal takes the edge `refused`."""

    def __init__(
        self,
        message: str,
        schema: JsonObject | None = None,
        *,
        id: str = "ask",
        batch: Batch | None = None,
        fail_when: str | None = None,
        outputs: Mapping[str, str] | None = None,
        approval: Approval | None = None,
        join: Join | None = None,
        description: str = "",
    ) -> None:
        super().__init__(
            NodeDefinition(
                id=id,
                approval=approval,
                ask=Question(message, schema),
                batch=batch,
                fail_when=fail_when,
                outputs=dict(outputs or {}),
                join=join,
                description=description,
            )
        )

    def _given(self, shared: Mapping[str, Any], item: JsonObject | None) -> str:
        question = self.definition.ask
        assert question is not None
        message = str(self._rendered(question.message, SharedLookup(shared, item), "ask.message"))
        return clean(message, with_known(frozenset()))

    def _shown(self, given: str) -> JsonObject:
        return {"message": given}

    async def _work(self, given: str) -> NodeDone:
        question = self.definition.ask
        assert question is not None
        schema = question.schema or {"type": "string"}
        reply = self._host().ask(InputRequired(given, details={"schema": schema}))
        if reply.refused is not None:
            raise PermissionDeniedError(reply.refused or "not answered")
        if (secrets := known_secrets.get()) is not None:
            secrets.add(secrets_in({"answer": reply.answer}, {"properties": {"answer": schema}}))
        return NodeDone(reply.answer)

    def exec_fallback(self, prep_res: Any, exc: Exception) -> Any:
        return NodeFailure(exc, REFUSED) if isinstance(exc, PermissionDeniedError) else (
            super().exec_fallback(prep_res, exc)
        )  # fmt: skip

    def _failed(self, shared: Any, failure: NodeFailure) -> str:
        if isinstance(failure.error, PermissionDeniedError) and failure.edge(self.edge_actions) is None:
            self.report.error = failure.told()
            raise FlowError(f"node {self.id!r} was not answered: {failure.error.message}")
        return super()._failed(shared, failure)


def seen_value(result: Result, tool: Tool, parse: Parse) -> Any:
    """Returns a result as later nodes see it. Raises ValueError if it must be JSON, and is not."""
    if not result.has_structured and not result.text and has_content(result):
        return value_of_content(result)
    value = plain_value(result, tool)
    is_meant = parse == "json" or not (result.has_structured or _declares_text(tool))
    return value_of_text(value, parse) if isinstance(value, str) and is_meant else value


def _declares_text(tool: Tool) -> bool:
    """True if the tool itself says that it returns text, so that nothing else is made of it."""
    schema = tool.output_schema
    return schema is not None and tuple(types_of(schema, schema)) == ("string",)


def _parameters(tool: Tool) -> tuple[Parameter, ...]:
    known: tuple[Parameter, ...] | None = tool.forms.get("parameters")
    if known is None:
        known = tool.forms["parameters"] = tuple(parameters(tool.input_schema))
    return known


def plain_value(result: Result, tool: Tool) -> Any:
    """Returns the value of a result for later nodes: the structured data, or else the text."""
    value = result.value
    if is_wrapped(tool.output_schema) and is_object(value) and "result" in value:
        return value["result"]
    return value
