"""What a model is told, and the JSON that it answers with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import JsonObject, for_models
from spindle.drafting.dialogue import UnusableError
from spindle.flows.interface import ERROR_ACTIONS, of_tool
from spindle.flows.text.document import schema

if TYPE_CHECKING:
    from spindle.domain.tool import Tool
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.problems import Problem

MOST_OF_A_TOOL: Final = 4000
"""Characters that are said of one tool."""
MOST_OF_ALL_TOOLS: Final = 120_000
MOST_PROBLEMS: Final = 20

IMPOSSIBLE: Final = "impossible"
"""The key of an answer that says why there is no flow, as the rules have it."""

_FILLING = (
    "Take the values for the inputs of a flow out of a request. Answer with one JSON object that has them by "
    "name, without a word before or behind it. Leave out what the request does not say: do not make up "
    "values, and do not repeat defaults."
)


def drafting(tools: Sequence[Tool]) -> str:
    rules = files("spindle.drafting").joinpath("rules.txt").read_text("utf-8")
    rules = rules.replace("<ACTIONS>", ", ".join(ERROR_ACTIONS))
    document = json.dumps(schema(), ensure_ascii=False, separators=(",", ":"))
    return f"{rules}\nThe JSON Schema of the document:\n{document}\n\nThe tools:\n\n{described(tools)}"


def described(tools: Iterable[Tool]) -> str:
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
    """Its interface, without the actions that all have; where inputs have an inside, that too."""
    interface = of_tool(tool)
    own = {name: what for name, what in interface.actions.items() if name not in ERROR_ACTIONS}
    text = replace(interface, actions={} if list(own) == ["default"] else own).to_text()
    if any(_has_an_inside(key.schema) for key in interface.reads + interface.params):
        inside = json.dumps(for_models(tool.input_schema), ensure_ascii=False, separators=(",", ":"))
        text = f"{text}\nThe schema of what it reads: {inside}"
    return text if len(text) <= MOST_OF_A_TOOL else text[:MOST_OF_A_TOOL] + " … (cut)"


def _has_an_inside(found: JsonObject) -> bool:
    return any(word in found for word in ("properties", "items", "$ref", "anyOf", "oneOf", "allOf", "enum"))


def filling() -> str:
    return _FILLING


def to_fill(words: str, flow: FlowDefinition, wanted: Mapping[str, Any]) -> str:
    about = f"{flow.name}: {flow.description}".strip(": ")
    inputs = json.dumps(dict(wanted), ensure_ascii=False)
    return f"The request: {words}\n\nThe flow: {about}\n\nIts inputs, with a JSON Schema each: {inputs}"


# --- what the model answers


_FENCED = re.compile(r"```[a-zA-Z]*\s*\n(.*?)\n?\s*```", re.DOTALL)


def json_in(text: str) -> str:
    """The JSON object of an answer, also where there is prose or a fence around it."""
    fenced = [found for found in _FENCED.findall(text) if found.lstrip().startswith("{")]
    text = max(fenced, key=len) if fenced else text
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0 or end < begin:
        raise UnusableError(
            "did not answer with JSON",
            "There is no JSON object in your answer. Answer with one, and nothing else.",
        )
    return text[begin : end + 1]


def told(problems: Sequence[Problem], more: str = "") -> str:
    """What is wrong, as people are told it."""
    lines = [_line(problem) for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        lines.append(f"… and {len(problems) - MOST_PROBLEMS} more")
    parts = ["The flow does not work:", *lines, "Answer with the whole document, put right."]
    return "\n".join(parts) + (f"\n\nTools that may be meant:\n\n{more}" if more else "")


def _line(problem: Problem) -> str:
    line = f"line {problem.line}: " if problem.line is not None else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"- {problem.severity}: {line}{problem.message}{hint}"
