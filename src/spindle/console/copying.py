"""A call of a tool as text to be copied: for the shell, Python, curl and MCP clients."""

from __future__ import annotations

import json
import pprint
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, Parameter, parameters

if TYPE_CHECKING:
    from spindle.domain.tool import Tool

_SAMPLES: dict[str, Any] = {
    "string": "…", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}, "null": None,
}  # fmt: skip


NARROW = 40
"""Characters of a line of Python, beside its indentation."""
MAX_DEPTH = 3
"""Of objects inside of objects, which may go in circles."""


@dataclass(frozen=True, slots=True)
class Copied:
    """One form of a call."""

    label: str
    text: str


def sample_arguments(tool: Tool) -> dict[str, Any]:
    """Returns a value for each argument that must be given."""
    return _sample_object(tool.input_schema, 0)


def _sample_object(schema: JsonObject, depth: int) -> dict[str, Any]:
    return {item.name: _sample(item, depth) for item in parameters(schema) if item.required}


def _sample(item: Parameter, depth: int) -> Any:
    for key in ("default", "const"):
        if key in item.schema:
            return item.schema[key]
    examples = item.schema.get("examples")
    if isinstance(examples, list) and examples:
        return examples[0]  # pyright: ignore[reportUnknownVariableType] - any JSON value
    if "object" in item.types and "properties" in item.schema and depth < MAX_DEPTH:
        return _sample_object(item.schema, depth + 1)
    if item.choices:
        return [item.choices[0]] if "array" in item.types else item.choices[0]
    return next((_SAMPLES[kind] for kind in _SAMPLES if kind in item.types), "…")


def _python(name: str, arguments: dict[str, Any]) -> list[str]:
    """Returns the lines of a program, short enough to stand beside what else is on the page."""
    given = [
        f"    {key!r}: {pprint.pformat(value, width=NARROW, sort_dicts=False)},".replace("\n", "\n    ")
        for key, value in arguments.items()
    ]
    return [
        "import asyncio",
        "import spindle",
        "",
        *(["arguments = {", *given, "}"] if given else ["arguments = {}"]),
        "",
        "async def main():",
        "    async with spindle.open() as app:",
        "        result = await app.call(",
        f"            {name}, arguments",
        "        )",
        "        print(result.value)",
        "",
        "asyncio.run(main())",
    ]


def copied(tool: Tool, arguments: dict[str, Any], base_url: str, served_name: str) -> list[Copied]:
    """Returns a call with these arguments in every form. `served_name` is the name that MCP clients know."""
    body = json.dumps(arguments, ensure_ascii=False)
    words = ["spindle", "call", tool.name, *([body] if arguments else [])]
    name = json.dumps(tool.name, ensure_ascii=False)
    curl = [
        "curl -X POST",
        f"  {shlex.quote(f'{base_url}/tools/{tool.name}')}",
        '  -H "Authorization: Bearer $TOKEN"',
        '  -H "Content-Type: application/json"',
        f"  -d {shlex.quote(body)}",
    ]
    request = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": served_name, "arguments": arguments},
    }  # fmt: skip
    return [
        Copied("Shell", shlex.join(words)),
        Copied("Python", "\n".join(_python(name, arguments))),
        Copied("curl", " \\\n".join(curl)),
        Copied("MCP", json.dumps(request, ensure_ascii=False, indent=2)),
    ]
