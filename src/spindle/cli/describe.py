"""Describes a tool as text, for `show` and for `call TOOL --help`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from spindle.domain.json_schema import Parameter, parameters

if TYPE_CHECKING:
    from spindle.cli.output import Output
    from spindle.domain.tool import Tool

_HINTS = {
    "read_only": ("only reads", "may change things"),
    "idempotent": ("repeating it does no harm", "repeating it may do harm"),
    "destructive": ("may destroy", "destroys nothing"),
    "open_world": ("reaches the outside world", "stays inside its own world"),
}


def print_usage(output: Output, tool: Tool) -> None:
    """Prints how to call a tool."""
    found = parameters(tool.input_schema)
    required = "".join(f" --{item.name}={item.label.upper()}" for item in found if item.required)
    rest = " [--…]" if any(not item.required for item in found) else ""
    output.line(f"spindle call {tool.name}{required}{rest}")
    if tool.description:
        output.line()
        for line in tool.description.strip().splitlines():
            output.line(f"  {line.rstrip()}".rstrip())
    output.line()
    print_parameters(output, found)


def print_parameters(output: Output, found: list[Parameter]) -> None:
    """Prints the parameters as a table."""
    if not found:
        output.line("It takes no parameters.")
        return
    rows = [(f"--{item.name}", item.label, _need(item), item.description) for item in found]
    if output.is_terminal:
        output.table(("PARAMETER", "TYPE", "NEED", "MEANING"), rows, wrap_last=True)
        return
    widths = [max(len(row[index]) for row in rows) for index in range(3)]
    for row in rows:
        cells = [row[index].ljust(widths[index]) for index in range(3)]
        output.line("  ".join([*cells, " ".join(row[3].split())]).rstrip())


def hints_in_words(tool: Tool) -> str:
    """The tool's hints as text."""
    said = tool.hints.to_dict()
    return ", ".join(_HINTS[name][0 if value else 1] for name, value in said.items())


def _need(item: Parameter) -> str:
    if item.required:
        return "required"
    if "default" in item.schema:
        text = json.dumps(item.schema["default"], ensure_ascii=False)
        return f"default {text if len(text) <= 24 else text[:23] + '…'}"
    return "optional"
