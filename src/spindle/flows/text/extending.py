"""Adds a node to a flow's text and leaves everything else as somebody wrote it, comments too."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from spindle.documents import text as document_text
from spindle.documents.text import Format
from spindle.domain.json_schema import JsonObject
from spindle.errors import FlowError, InvalidArgumentsError
from spindle.flows.definition import DEFAULT_ACTION, FlowDefinition
from spindle.flows.text.files import read

_NOT_IN_ID: Final = re.compile(r"[^\w-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Extended:
    """A flow's text with one node more."""

    text: str
    id: str
    after: str
    nodes: tuple[str, ...]
    """The nodes that were there before."""

    def to_dict(self) -> JsonObject:
        """Returns it as JSON."""
        return {"text": self.text, "node": self.id, "after": self.after, "nodes": list(self.nodes)}


def extended(text: str, format: Format, tool: str, params: JsonObject, after: str | None = None) -> Extended:
    """Returns the text with a node that calls a tool, reached from the node `after`; None: from the last
    that leads nowhere. Raises BrokenFlowError for a text that is no flow, FlowError for one that is written
    in a way that cannot be added to."""
    before = read(text, format).definition
    nodes = tuple(node.id for node in before.nodes)
    if after is not None and after not in nodes:
        raise InvalidArgumentsError(f"the flow has no node {after!r}", hint=f"it has {', '.join(nodes)}")
    after = after if after is not None else _last(before)
    id = _free_id(tool, nodes)
    node = {"id": id, "tool": tool, **({"params": params} if params else {})}
    edge = {"from": after, "to": id}
    made = _in_json(text, node, edge) if format == "json" else _in_yaml(text, node, edge)
    # What stands between the lines of YAML is not known here: the result is read again before it counts.
    now = read(made, format).definition
    if now.nodes[:-1] != before.nodes or now.nodes[-1].id != id or now.edges[:-1] != before.edges:
        raise _unusual("nodes")
    return Extended(made, id, after, nodes)


def _last(flow: FlowDefinition) -> str:
    lead_on = {edge.source for edge in flow.edges if edge.action == DEFAULT_ACTION}
    ends = [node.id for node in flow.nodes if node.id not in lead_on]
    # Those that only something unusual leads to, such as an error, are not where a flow goes on.
    reached = {edge.target for edge in flow.edges if edge.action == DEFAULT_ACTION} | {flow.start_id}
    usual = [id for id in ends if id in reached]
    return (usual or ends or [flow.nodes[-1].id])[-1]


def _free_id(tool: str, taken: tuple[str, ...]) -> str:
    base = _NOT_IN_ID.sub("_", tool.rpartition(".")[2]) or "node"
    names = (base if number == 1 else f"{base}_{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def _in_json(text: str, node: JsonObject, edge: JsonObject) -> str:
    document: dict[str, Any] = dict(document_text.read(text, "json").value)
    for key, item in (("nodes", node), ("edges", edge)):
        items: list[Any] = document.get(key) or []
        document[key] = [*items, item]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _in_yaml(text: str, node: JsonObject, edge: JsonObject) -> str:
    lines = text.splitlines()
    _append(lines, "nodes", node)
    _append(lines, "edges", edge)
    return "\n".join(lines) + "\n"


def _append(lines: list[str], key: str, item: JsonObject) -> None:
    """Adds an item to the list of a key at the left margin, below its last line."""
    from spindle.documents import yaml_writing

    begins = [at for at, line in enumerate(lines) if re.match(rf"{key}\s*:", line)]
    if not begins and key != "nodes":
        end = _end(lines, next(at for at, line in enumerate(lines) if re.match(r"nodes\s*:", line)))
        lines.insert(end, f"{key}:")
        begins = [end]
    if len(begins) != 1 or not re.fullmatch(r"\w+\s*:\s*(#.*)?", lines[begins[0]]):
        raise _unusual(key)
    end = _end(lines, begins[0])
    dash = next((line for line in lines[begins[0] + 1 : end] if line.lstrip().startswith("-")), "-")
    indent = dash[: len(dash) - len(dash.lstrip())]
    lines[end:end] = [f"{indent}{line}" if line else "" for line in yaml_writing.write([item]).splitlines()]


def _end(lines: list[str], begin: int) -> int:
    """The line after the last one that belongs to the key of a line; comments before the next key are its."""
    end = last = begin + 1
    for at in range(begin + 1, len(lines)):
        if re.match(r"[^\s#-]|---|-\S", lines[at]):
            break
        end = at + 1
    for at in range(begin + 1, end):
        if lines[at].strip() and not lines[at].startswith("#"):
            last = at + 1
    return last


def _unusual(key: str) -> FlowError:
    return FlowError(
        f"the {key} of this flow are not written as lines with dashes, so nothing can be added to them here",
        hint="edit its text",
    )
