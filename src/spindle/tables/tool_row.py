"""A tool as a value that stands alone: a cell of a table, with all that is needed to call it.

`Tool` is an entry of a catalog and needs that catalog's settings. A `ToolRow` is complete: its nine fields
are those of a column of tools (`spindle.tables`), and the two specs hold what the other seven have no place
for. It never holds a secret: `credential` says where to find one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from spindle.domain.json_schema import EMPTY_OBJECT_SCHEMA, JsonObject, is_object, objects_in
from spindle.domain.tool import Hints
from spindle.tables.keys import bytes_of_keys
from spindle.tables.parts import MAX_PORT, Column, Port, ToolKind, is_map_of_properties
from spindle.tables.row_schema import tool_row_schema, validate

__all__ = ["MAX_PORT", "NO_PORT", "Column", "Port", "ToolKind", "ToolRow", "tool_row_schema"]

NO_PORT = -1
"""The number of the message output port if there is none, in cells."""

PROPERTIES_ONLY = "properties_only"
"""Of the input spec: the cell has the properties of the parameters, without the schema around them."""


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One tool as a value. `input` and `output` are the specs, and the properties read their content."""

    kind: ToolKind
    name: str
    description: str = ""
    parameters: JsonObject = field(default_factory=lambda: dict(EMPTY_OBJECT_SCHEMA))
    """The whole JSON Schema of the arguments. A workflow may be given its properties alone."""
    input: JsonObject | None = None
    output: JsonObject | None = None
    message_output_port: int | None = None
    """The number, from 0, of the output port whose table is the workflow's answer as text."""
    file_store_keys: tuple[str, ...] = ()
    """The keys under which the software that runs the workflow stores it."""
    server_uri: str | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a tool needs a name")
        port = self.message_output_port
        if port is not None and not 0 <= port <= MAX_PORT:
            raise ValueError(
                f"the message output port is {port}: a number from 0, or None where there is none"
            )
        if self.kind is ToolKind.WORKFLOW and is_map_of_properties(self.parameters):
            whole = {"type": "object", "properties": self.parameters}
            object.__setattr__(self, "parameters", whole)
            object.__setattr__(self, "input", {**(self.input or {}), PROPERTIES_ONLY: True})

    @classmethod
    def workflow(
        cls,
        name: str,
        description: str = "",
        parameters: JsonObject | None = None,
        *,
        input_ports: Sequence[Port] = (),
        output_ports: Sequence[Port] = (),
        message_output_port: int | None = None,
        file_store_keys: Sequence[str] = (),
        source: JsonObject | None = None,
    ) -> Self:
        """Makes the row of a workflow with its ports."""
        given = _spec(source=source, ports=[port.to_dict() for port in input_ports])
        return cls(
            ToolKind.WORKFLOW,
            name,
            description,
            dict(EMPTY_OBJECT_SCHEMA) if parameters is None else parameters,
            given,
            _spec(ports=[port.to_dict() for port in output_ports]),
            message_output_port,
            tuple(file_store_keys),
        )

    @classmethod
    def remote(
        cls,
        name: str,
        description: str = "",
        parameters: JsonObject | None = None,
        *,
        kind: ToolKind = ToolKind.MCP,
        server_uri: str | None = None,
        remote_name: str | None = None,
        output_schema: JsonObject | None = None,
        hints: Hints | None = None,
        source: JsonObject | None = None,
        credential: JsonObject | None = None,
        **more: Any,
    ) -> Self:
        """Makes the row of a tool that a server or program provides. `more` goes into the input spec as it
        is."""
        shown = hints.to_dict() if hints is not None else None
        given = _spec(tool=remote_name, source=source, credential=credential, hints=shown, **more)
        return cls(
            kind,
            name,
            description,
            dict(EMPTY_OBJECT_SCHEMA) if parameters is None else parameters,
            given,
            None if output_schema is None else {"schema": output_schema},
            server_uri=server_uri,
        )

    # --- what the specs hold

    @property
    def remote_name(self) -> str:
        """The server's own name for the tool, sent back unchanged."""
        return str(self._given("tool") or self.name)

    @property
    def source(self) -> JsonObject | None:
        """The source of the tool: `name`, `kind`, `root` (a folder) and `settings`, as in spindle.toml."""
        found = self._given("source")
        return found if is_object(found) else None

    @property
    def credential(self) -> JsonObject | None:
        """The credential for the server, by reference: an `auth` table with `${VARIABLES}`, or `{"type":
        "given", "name": …}` for one that the caller must supply."""
        found = self._given("credential")
        return found if is_object(found) else None

    @property
    def hints(self) -> Hints:
        found = self._given("hints")
        known = Hints.__dataclass_fields__
        return (
            Hints(**{key: value for key, value in found.items() if key in known})
            if is_object(found)
            else Hints()
        )

    @property
    def output_schema(self) -> JsonObject | None:
        found = (self.output or {}).get("schema")
        return found if is_object(found) else None

    @property
    def input_ports(self) -> tuple[Port, ...]:
        return _ports(self.input)

    @property
    def output_ports(self) -> tuple[Port, ...]:
        return _ports(self.output)

    # --- the same by the names of the specification of tools as cells

    @property
    def tool_type(self) -> ToolKind:
        return self.kind

    @property
    def parameter_schema(self) -> JsonObject:
        return self.parameters

    @property
    def tool_name(self) -> str:
        return self.remote_name

    @property
    def message_output_port_index(self) -> int:
        return NO_PORT if self.message_output_port is None else self.message_output_port

    @property
    def _filestore_keys(self) -> bytes | None:
        return bytes_of_keys(self.file_store_keys)

    # ---

    def _given(self, key: str) -> Any:
        return None if self.input is None else self.input.get(key)

    # --- JSON

    def to_dict(self) -> JsonObject:
        """The row as JSON."""
        return {
            "kind": self.kind.word,
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "input": self.input,
            "output": self.output,
            "message_output_port": self.message_output_port,
            "file_store_keys": list(self.file_store_keys),
            "server_uri": self.server_uri,
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Restores the row that `to_dict` returned. Raises ValueError, which names the wrong field."""
        validate(data)
        return cls(
            ToolKind[data["kind"].upper()],
            data["name"],
            data.get("description", ""),
            data.get("parameters", EMPTY_OBJECT_SCHEMA),
            data.get("input"),
            data.get("output"),
            data.get("message_output_port"),
            tuple(data.get("file_store_keys", ())),
            data.get("server_uri"),
        )


def _spec(**members: Any) -> JsonObject | None:
    """The members that have a value, or None if none has."""
    return {key: value for key, value in members.items() if value not in (None, [], {})} or None


def _ports(spec: JsonObject | None) -> tuple[Port, ...]:
    return tuple(Port.from_dict(item) for item in objects_in((spec or {}).get("ports")))
