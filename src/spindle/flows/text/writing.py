"""Writes a definition as its document. Defaults are omitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spindle.domain.json_schema import JsonObject, is_object
from spindle.flows.definition import (
    DEFAULT_ACTION,
    AgentTask,
    Approval,
    Batch,
    CacheRule,
    Edge,
    FlowDefinition,
    FlowLoop,
    FlowOutput,
    Join,
    ModelPrompt,
    NodeDefinition,
    Question,
    Retry,
    Wait,
)
from spindle.flows.text.document import VERSION

_ONCE = Retry()


def to_document(definition: FlowDefinition) -> JsonObject:
    """Returns the document from which `from_document` makes the same definition."""
    return {"version": VERSION, **_flow(definition)}


def _flow(definition: FlowDefinition) -> JsonObject:
    mappings = {node.id: _mapping(node) for node in definition.nodes if node.inputs or node.outputs}
    fields: JsonObject = {
        "name": definition.name or None,
        "description": definition.description or None,
        "inputs": dict(definition.inputs) or None,
        "params": definition.params or None,
        "start": definition.start,
        "nodes": [_node(node) for node in definition.nodes],
        "edges": [_edge(edge) for edge in definition.edges] or None,
        "mappings": mappings or None,
        "outputs": _outputs(definition.outputs),
        "cache": _flow_cache(definition.cache),
        "on_unknown": definition.on_unknown if definition.on_unknown != "error" else None,
        "max_visits": definition.max_visits if definition.max_visits != 1000 else None,
    }
    return _given(fields)


def _node(node: NodeDefinition) -> JsonObject:
    fields: JsonObject = {
        "id": node.id,
        "tool": node.tool if node.run is None else None,
        "run": list(node.run) if node.run is not None else None,
        "ask": _question(node.ask) if node.ask is not None else None,
        "flow": _flow(node.flow) if node.flow is not None else None,
        "model": _prompt(node.model) if node.model is not None else None,
        "agent": _task(node.agent) if node.agent is not None else None,
        "wait": _wait(node.wait) if node.wait is not None else None,
        "transform": node.transform,
        "description": node.description or None,
        "params": node.params or None,
        "batch": _changed(node.batch, Batch(over=None), always=("over",)) if node.batch is not None else None,
        "loop": _loop(node.loop) if node.loop is not None else None,
        "retry": _changed(node.retry, Retry()) if node.retry != _ONCE else None,
        "timeout": node.timeout,
        "cache": _changed(node.cache, CacheRule()) if isinstance(node.cache, CacheRule) else node.cache,
        "fail_when": node.fail_when,
        "join": _join(node.join) if node.join is not None else None,
        "parse": node.parse,
        "fingerprint": node.fingerprint,
        "approval": _approval(node.approval) if node.approval is not None else None,
    }
    return _given(fields)


def _loop(loop: FlowLoop) -> JsonObject:
    return _given({"carry": loop.carry or None, "while": loop.repeat_while, "limit": loop.limit})


def _join(join: Join) -> Any:
    return join.wait if join.keep_errors is None else {"wait": join.wait, "keep_errors": join.keep_errors}


def _mapping(node: NodeDefinition) -> JsonObject:
    return _given({"inputs": dict(node.inputs) or None, "outputs": dict(node.outputs) or None})


def _question(question: Question) -> Any:
    if question.schema is None:
        return question.message
    return {"message": question.message, "schema": question.schema}


def _approval(approval: Approval) -> Any:
    fields: JsonObject = {"by": list(approval.by), "message": approval.message}
    return {key: value for key, value in fields.items() if value} or "required"


def _prompt(asked: ModelPrompt) -> Any:
    fields = _changed(asked, ModelPrompt(""), always=("prompt",))
    return asked.prompt if len(fields) == 1 else fields


def _task(task: AgentTask) -> JsonObject:
    fields = _changed(task, AgentTask("", ()), always=("task", "tools"))
    lists = {"tools": list(task.tools), "approve": list(task.approve or ())}
    return {key: lists.get(key, value) for key, value in fields.items()}


def _wait(wait: Wait) -> JsonObject:
    return {"for" if key == "span" else key: value for key, value in _changed(wait, Wait()).items()}


def _edge(edge: Edge) -> JsonObject:
    action = {"action": edge.action} if edge.action != DEFAULT_ACTION else {}
    when = {"when": edge.when} if edge.when is not None else {}
    return {"from": edge.source, **action, **when, "to": edge.target}


def _outputs(outputs: Mapping[str, FlowOutput] | None) -> JsonObject | None:
    if outputs is None:
        return None
    return {name: _output(output) for name, output in outputs.items()}


def _output(output: FlowOutput) -> Any:
    more: JsonObject = {**output.schema} if output.required else {**output.schema, "required": False}
    return {"value": output.value, **more} if more or is_object(output.value) else output.value


def _flow_cache(rule: CacheRule | None) -> Any:
    return (_changed(rule, CacheRule()) or True) if rule is not None else None


Part = Retry | Batch | CacheRule | ModelPrompt | AgentTask | Wait


def _changed(value: Part, default: Part, always: tuple[str, ...] = ()) -> JsonObject:
    return {
        name: getattr(value, name)
        for name in value.__slots__
        if name in always or getattr(value, name) != getattr(default, name)
    }


def _given(fields: JsonObject) -> JsonObject:
    return {key: value for key, value in fields.items() if value is not None}
