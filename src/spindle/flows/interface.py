"""The interface of a node, in one form for every tool and every node written by hand.

    summarize: Make a text shorter.

    Reads:
        text (string): the text
        language (string, optional): of the summary
    Writes:
        summary (string): the shorter text
    Params:
        sentences (integer = 3): how many are left
    Actions:
        default: it is done
        too_short: there was nothing to leave out

`show --as-node` prints it like this, and the docstring of a node is written like this, or as a list
(`to_docstring`; `node_docstring.py` reads both).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, is_object, parameter_of, parameters
from spindle.domain.records import fields_of
from spindle.domain.tool import is_wrapped

if TYPE_CHECKING:
    from spindle.domain.tool import Tool

ERROR_ACTIONS: Mapping[str, str] = {
    "rate_limited": "the source asks to wait",
    "auth_failed": "the source refused the credential, or the principal may not do that",
    "resource_missing": "what was asked for does not exist",
    "timeout": "there was no answer in time",
    "in_doubt": "it was begun before a fault, may have been done, and was not repeated",
    "server_error": "the source failed or could not be reached",
    "error": "the tool reported an error, or any of the above without an edge of its own",
}


@dataclass(frozen=True, slots=True)
class Key:
    """A key that a node reads or writes, or a parameter of it."""

    name: str
    schema: JsonObject = field(default_factory=dict[str, Any])
    description: str = ""
    required: bool = True

    @property
    def has_default(self) -> bool:
        return "default" in self.schema

    @property
    def type(self) -> str:
        return parameter_of(self.name, self.schema, self.required, self.schema).label

    def to_dict(self) -> JsonObject:
        fields: JsonObject = {"name": self.name, "type": self.type, "description": self.description}
        fields["required"] = self.required
        if self.has_default:
            fields["default"] = self.schema["default"]
        return fields


@dataclass(frozen=True, slots=True)
class Interface:
    """The interface of a node. `reads` are shared keys (or arguments), `writes` the keys that it leaves."""

    name: str
    description: str = ""
    reads: tuple[Key, ...] = ()
    writes: tuple[Key, ...] = ()
    params: tuple[Key, ...] = ()
    actions: Mapping[str, str] = field(default_factory=lambda: {"default": "it is done"})
    pure: bool = False
    source: str | None = None
    version: str | None = None
    """The fingerprint of the tool."""

    def to_dict(self) -> JsonObject:
        return fields_of(self) | {
            "reads": [key.to_dict() for key in self.reads],
            "writes": [key.to_dict() for key in self.writes],
            "params": [key.to_dict() for key in self.params],
            "actions": dict(self.actions),
        }

    def to_text(self) -> str:
        headline = self.description.strip().split("\n", 1)[0]
        lines = [f"{self.name}: {headline}" if headline else self.name, ""]
        lines += _section("Reads", (_key_line(key) for key in self.reads))
        lines += _section("Writes", (_key_line(key) for key in self.writes))
        lines += _section("Params", (_key_line(key) for key in self.params))
        lines += _section("Actions", (f"{name}: {what}".rstrip(": ") for name, what in self.actions.items()))
        return "\n".join(lines).rstrip()

    def to_docstring(self) -> str:
        """Returns the interface as the docstring of a node, in the form of a list: `- Reads: shared["x"]`."""
        lines = [self.description.strip(), ""] if self.description.strip() else []
        own = {key.name for key in self.params}
        lines.append("Interface:")
        lines += [_item("Reads", f'shared["{key.name}"]', key) for key in self.reads if key.name not in own]
        lines += [_item("Writes", f'shared["{key.name}"]', key) for key in self.writes]
        lines += [_item("Params", key.name, key) for key in self.params]
        lines.append(f"- Actions: {', '.join(json.dumps(action) for action in self.actions)}")
        return "\n".join(lines)


def of_tool(tool: Tool) -> Interface:
    """Returns the interface of a tool. Every argument may be read from the shared store; those with a
    default are parameters too."""
    declared = tool.spec.metadata.get("node")
    stated: JsonObject = declared if is_object(declared) else {}
    keys = [
        Key(item.name, item.schema, item.description, item.required) for item in parameters(tool.input_schema)
    ]
    own_params = set(stated.get("params", ()))
    return Interface(
        name=tool.name,
        description=tool.description,
        reads=tuple(key for key in keys if key.name not in own_params),
        writes=natural_outputs(tool),
        params=tuple(key for key in keys if key.name in own_params or key.has_default),
        actions=actions_of(tool),
        pure=tool.pure,
        source=tool.source,
        version=tool.fingerprint,
    )


def actions_of(tool: Tool) -> dict[str, str]:
    """Returns the actions that a node of this tool may end with, and what each means."""
    declared = tool.spec.metadata.get("node")
    stated: JsonObject = declared if is_object(declared) else {}
    return {**(stated.get("actions") or {"default": "it is done"}), **ERROR_ACTIONS}


def natural_outputs(tool: Tool) -> tuple[Key, ...]:
    """Returns the properties that the output schema names, or else one key with the tool's name."""
    schema = tool.output_schema
    found = parameters(schema) if schema is not None and not is_wrapped(schema) else []
    if found:
        return tuple(Key(item.name, item.schema, item.description, item.required) for item in found)
    only: JsonObject = schema or {}
    if is_wrapped(schema):
        only = only["properties"]["result"]
    return (Key(natural_key(tool.name), only, str(only.get("description") or "")),)


def natural_key(tool: str) -> str:
    """Returns the key of an output that has no keys of its own: the last part of the tool's name."""
    return tool.rpartition(".")[2]


def _section(title: str, lines: Iterable[str]) -> list[str]:
    found = [f"    {line}" for line in lines]
    return [f"{title}:", *found] if found else []


def _key_line(key: Key) -> str:
    kind = key.type
    if key.has_default:
        kind += f" = {json.dumps(key.schema['default'])}"
    elif not key.required:
        kind += ", optional"
    return f"{key.name} ({kind}): {' '.join(key.description.split())}".rstrip(": ")


def _item(section: str, name: str, key: Key) -> str:
    """Returns a line of a list: `- Params: limit: integer - how many (default: 10)`."""
    text = " ".join(key.description.split())
    mark = f"default: {json.dumps(key.schema['default'])}" if key.has_default else "optional"
    about = " ".join(part for part in (text, f"({mark})" if not key.required else "") if part)
    kinds = key.schema.get("type") or ()
    kind = " | ".join([kinds] if isinstance(kinds, str) else kinds)
    return f"- {section}: {name}{f': {kind}' if kind else ''}{f' - {about}' if about else ''}"
