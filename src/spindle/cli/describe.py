"""Describes a tool as text, for `show` and for `call TOOL --help`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from spindle.domain.json_schema import Parameter, as_word, parameters

if TYPE_CHECKING:
    from spindle.cli.output import Output
    from spindle.domain.tool import Tool

LONGEST = 24
"""Characters of a type or a default that stand in their own column; longer ones are told in words."""

_HINTS = {
    "read_only": ("only reads", "may change things"),
    "idempotent": ("repeating it does no harm", "repeating it may do harm"),
    "destructive": ("may destroy", "destroys nothing"),
    "open_world": ("reaches the outside world", "stays inside its own world"),
}


def print_usage(output: Output, tool: Tool) -> None:
    """Prints how to call a tool."""
    found = parameters(tool.input_schema)
    required = "".join(f" --{item.name}={_value(item)}" for item in found if item.required)
    rest = " [--…]" if any(not item.required for item in found) else ""
    output.line(f"spindle call {tool.name}{required}{rest}")
    if tool.description:
        output.line()
        print_text(output, tool.description)
    output.line()
    print_parameters(output, found)


def print_text(output: Output, text: str) -> None:
    """Prints a text of several lines, set in a little; on a terminal its long lines are wrapped."""
    from spindle.cli.columns import wrapped

    for line in text.strip().splitlines():
        inner = line[: len(line) - len(line.lstrip())]
        parts = wrapped(line, output.width - 2 - len(inner)) if output.is_terminal else [line.strip()]
        for part in parts or [""]:
            output.line(f"  {inner}{part}".rstrip())


def print_parameters(output: Output, found: list[Parameter]) -> None:
    """Prints the parameters as a table."""
    if not found:
        output.line("It takes no parameters.")
        return
    rows = [(f"--{item.name}", _type(item), _need(item), _meaning(item)) for item in found]
    if output.is_terminal:
        output.table(("PARAMETER", "TYPE", "NEED", "MEANING"), rows, drop=("NEED",), wrap_last=True)
        return
    widths = [max(len(row[index]) for row in rows) for index in range(3)]
    for row in rows:
        cells = [row[index].ljust(widths[index]) for index in range(3)]
        output.line("  ".join([*cells, " ".join(row[3].split())]).rstrip())


def hints_in_words(tool: Tool) -> str:
    """The tool's hints as text."""
    said = tool.hints.to_dict()
    return ", ".join(_HINTS[name][0 if value else 1] for name, value in said.items())


def _value(item: Parameter) -> str:
    """Stands for the value: the choices as they are, or the type."""
    return item.label if item.choices and _fits(item.label) else item.type_name.upper()


def _type(item: Parameter) -> str:
    return item.label if _fits(item.label) else item.type_name


def _need(item: Parameter) -> str:
    if item.required:
        return "required"
    default = _default(item)
    return f"default {default}" if default and _fits(default) else "optional"


def _meaning(item: Parameter) -> str:
    """The description, with what is too long for its own column."""
    parts = [item.description]
    if item.choices and not _fits(item.label):
        parts.append(f"One of: {', '.join(map(as_word, item.choices))}")
    default = _default(item)
    if default and not _fits(default):
        parts.append(f"Default: {default}")
    return " ".join(part for part in parts if part)


def _default(item: Parameter) -> str | None:
    if item.required or "default" not in item.schema:
        return None
    return json.dumps(item.schema["default"], ensure_ascii=False)


def _fits(text: str) -> bool:
    return len(text) <= LONGEST
