"""The texts for a model, and the JSON of its answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import JsonObject
from spindle.drafting.dialogue import UnusableError
from spindle.flows.definition import SAID
from spindle.flows.expressions.functions import FUNCTIONS
from spindle.flows.interface import ERROR_ACTIONS, of_tool
from spindle.flows.text.document import schema
from spindle.schemas.models import model_schema

if TYPE_CHECKING:
    from spindle.domain.tool import Tool
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.problems import Problem

MOST_OF_A_TOOL: Final = 4000
"""The longest description of one tool, in characters."""
MOST_OF_ALL_TOOLS: Final = 120_000
MOST_PROBLEMS: Final = 20

IMPOSSIBLE: Final = "impossible"
"""The key of an answer that explains why there is no flow, as the rules say."""

OTHER: Final = "other_flow"
"""The only key of an answer that says why a saved flow is not what is asked for."""
_FILLING = (
    "Take the values for the inputs of a flow out of a request. Answer with one JSON object that has them by "
    "name, without any other text. Leave out what the request does not say: do not make up "
    "values, and do not repeat defaults. If the flow does not do exactly what the request asks for, because "
    "it does more, less, something else or what the request forbids, answer "
    f'{{"{OTHER}": "the reason"}} instead.'
)


def drafting(tools: Sequence[Tool]) -> str:
    """Returns the instructions for drafting a flow from these tools."""
    rules = files("spindle.drafting").joinpath("rules.txt").read_text("utf-8")
    known = {"ACTIONS": ", ".join(ERROR_ACTIONS), "FUNCTIONS": ", ".join(FUNCTIONS), **_node_keys()}
    for name, text in known.items():
        rules = rules.replace(f"<{name}>", text)
    document = json.dumps(schema(), ensure_ascii=False, separators=(",", ":"))
    return f"{rules}\nThe JSON Schema of the document:\n{document}\n\nThe tools:\n\n{described(tools)}"


def _node_keys() -> dict[str, str]:
    """Returns the keys of a node as the schema describes them: those of which it has one, and those that say
    how it is done. Keys without an example are not for a model that writes a flow."""
    keys: JsonObject = schema()["$defs"]["node"]["properties"]
    lines = {
        name: f"  - {json.dumps({name: key['examples'][0]}, ensure_ascii=False)}: {key['description']}"
        for name, key in keys.items()
        if "examples" in key
    }
    return {
        "KINDS": "\n".join(line for name, line in lines.items() if name in SAID),
        "KEYS": "\n".join(line for name, line in lines.items() if name not in SAID),
    }


def described(tools: Iterable[Tool]) -> str:
    """Returns the descriptions of tools, as far as they fit."""
    texts: list[str] = []
    room = MOST_OF_ALL_TOOLS
    for tool in tools:
        text = _described(tool)
        room -= len(text)
        if room < 0 and texts:
            break
        texts.append(text)
    return "\n\n".join(texts)


def _described(tool: Tool) -> str:
    """Returns a tool's interface without the actions that all tools have, and the schema of nested inputs."""
    interface = of_tool(tool)
    own = {name: what for name, what in interface.actions.items() if name not in ERROR_ACTIONS}
    text = replace(interface, actions={} if list(own) == ["default"] else own).to_text()
    if any(_has_an_inside(key.schema) for key in interface.reads + interface.params):
        inside = json.dumps(model_schema(tool), ensure_ascii=False, separators=(",", ":"))
        text = f"{text}\nThe schema of what it reads: {inside}"
    return text if len(text) <= MOST_OF_A_TOOL else text[:MOST_OF_A_TOOL] + " … (cut)"


def _has_an_inside(found: JsonObject) -> bool:
    return any(word in found for word in ("properties", "items", "$ref", "anyOf", "oneOf", "allOf", "enum"))


def filling() -> str:
    """Returns the instructions for finding the values of inputs in a request."""
    return _FILLING


def to_fill(words: str, flow: FlowDefinition, wanted: Mapping[str, Any]) -> str:
    """Returns the request for values of a flow's inputs."""
    about = f"{flow.name}: {flow.description}".strip(": ")
    does = ", then ".join(node.says for node in flow.nodes)
    about = f"{about}\nIt calls {does}"
    inputs = json.dumps(dict(wanted), ensure_ascii=False)
    return f"The request: {words}\n\nThe flow: {about}\n\nIts inputs, with a JSON Schema each: {inputs}"


# --- what the model answers


def json_in(text: str) -> str:
    """Returns the JSON object of an answer, without prose or a fence around it. Raises UnusableError."""
    # Between fences, the word behind the first of them being that of a language.
    inside = (part.partition("\n")[2].strip() for part in text.split("```")[1::2])
    fenced = [part for part in inside if part.startswith("{")]
    text = max(fenced, key=len) if fenced else text
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0 or end < begin:
        raise UnusableError(
            "did not answer with JSON",
            "There is no JSON object in your answer. Answer with one, and nothing else.",
        )
    return text[begin : end + 1]


def told(problems: Sequence[Problem], more: str = "") -> str:
    """Returns the problems of a flow as the model is told of them."""
    lines = [_line(problem) for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        lines.append(f"… and {len(problems) - MOST_PROBLEMS} more")
    parts = ["The flow does not work:", *lines, "Answer with the whole document, corrected."]
    return "\n".join(parts) + (f"\n\nTools that may be meant:\n\n{more}" if more else "")


def _line(problem: Problem) -> str:
    line = f"line {problem.line}: " if problem.line is not None else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"- {problem.severity}: {line}{problem.message}{hint}"
