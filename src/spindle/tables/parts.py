"""The parts of a row: the kind of its tool, and the ports of a workflow with their columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from spindle.domain.json_schema import JsonObject, is_object, objects_in, to_json

MAX_PORT = 2**31 - 1


class ToolKind(IntEnum):
    """The kind of a tool's source. The numbers are stored in files, so a number never gets a new meaning."""

    WORKFLOW = 0
    MCP = 1
    OPENAPI = 2
    UTCP = 3
    HTTP = 4
    CLI = 5
    WEBSOCKET = 6
    PYTHON = 7
    EVENTS = 8
    MODS = 9
    AGENTS = 10
    OTHER = 127
    """A kind of source that a plugin provides; its name is in the row's source."""

    @classmethod
    def of_source(cls, kind: str) -> ToolKind:
        """The number for a kind of source. A flow is a workflow."""
        return cls.WORKFLOW if kind == "flows" else cls.of_word(kind) or cls.OTHER

    @classmethod
    def of_word(cls, word: str) -> ToolKind | None:
        """The kind of that name in JSON, or None."""
        return _WORDS.get(word)

    @property
    def word(self) -> str:
        """The name in JSON."""
        return self.name.lower()


_WORDS = {kind.word: kind for kind in ToolKind}


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a port expects or returns. `type` is written as in its workflow."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a workflow."""

    name: str
    description: str = ""
    type: str = "table"
    columns: tuple[Column, ...] = ()
    spec: str | None = None
    """Further data of the workflow's own software, unchanged."""

    def to_dict(self) -> JsonObject:
        """The port as JSON."""
        fields: JsonObject = {"name": self.name, "type": self.type}
        if self.description:
            fields["description"] = self.description
        if self.columns:
            fields["columns"] = [{"name": column.name, "type": column.type} for column in self.columns]
        if self.spec is not None:
            fields["spec"] = self.spec
        return fields

    @classmethod
    def from_dict(cls, data: JsonObject) -> Self:
        """Reads a port, also from the numbered members "0" to "3" (name, description, type, spec) of older
        layouts."""
        columns, spec = objects_in(data.get("columns")), data.get("spec", data.get("3"))
        return cls(
            name=str(data.get("name", data.get("0", ""))),
            description=str(data.get("description") or data.get("1") or ""),
            type=str(data.get("type") or data.get("2") or "table"),
            columns=tuple(Column(str(item.get("name", "")), str(item.get("type", ""))) for item in columns),
            spec=spec if spec is None or isinstance(spec, str) else to_json(spec).decode(),
        )

    def numbered(self) -> JsonObject:
        """The port as a cell has it. Its columns have no place there."""
        return {"0": self.name, "1": self.description, "2": self.type, "3": self.spec}

    # Its name in the specification of tools as cells.
    _to_arrow_dict = numbered


# Keywords of a schema for objects that have an object as their value: they tell a schema from a map whose
# values are objects too.
_OF_SCHEMAS = frozenset({
    "additionalProperties", "definitions", "dependentSchemas", "patternProperties", "propertyNames",
    "unevaluatedProperties",
})  # fmt: skip


def is_map_of_properties(parameters: JsonObject) -> bool:
    """True for the properties of a schema without the schema around them, which is how KNIME writes the
    parameters of a workflow."""
    if not parameters or not all(is_object(value) for value in parameters.values()):
        return False
    if any(name in _OF_SCHEMAS or name.startswith("$") for name in parameters):
        return False
    inner = parameters.get("properties")
    return inner is None or not all(is_object(value) for value in inner.values())
