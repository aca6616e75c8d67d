"""A tool as a value that stands alone: a cell of a table, with all that is needed to call it.

`Tool` is an entry of a catalog and needs that catalog's settings. A `ToolRow` is complete: its nine fields
are those of a column of tools (`spindle.tables`), and the two specs hold what the other seven have no place
for. It never holds a secret: `credential` says where to find one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import Any, Self

from spindle.domain.json_schema import EMPTY_OBJECT_SCHEMA, JsonObject, is_object, objects_in, to_json
from spindle.domain.tool import Hints

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


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One tool as a value. `input` and `output` are the specs, and the properties read their content."""

    kind: ToolKind
    name: str
    description: str = ""
    parameters: JsonObject = field(default_factory=lambda: dict(EMPTY_OBJECT_SCHEMA))
    """The whole JSON Schema of the arguments."""
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
        _validate(data)
        return cls(
            ToolKind(_WORDS[data["kind"]]),
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


# --- the published schema


def tool_row_schema() -> JsonObject:
    """The JSON Schema of `ToolRow.to_dict`. It is published as docs/reference/tool-row.schema.json."""
    text: JsonObject = {"type": "string"}
    schema = {"type": "object", "description": "A JSON Schema."}
    ports = {"type": "array", "items": {"$ref": "#/$defs/port"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ToolRow",
        "description": "A tool as a value that stands alone.",
        "type": "object",
        "properties": {
            "kind": {"enum": [kind.word for kind in ToolKind]},
            "name": {"type": "string", "minLength": 1},
            "description": text,
            "parameters": schema,
            "input": {
                "description": "What calling it takes. Further members are kept.",
                "type": ["object", "null"],
                "properties": {
                    "tool": {"type": "string", "description": "The server's name for it."},
                    "source": {"$ref": "#/$defs/source"},
                    "credential": {"$ref": "#/$defs/credential"},
                    "hints": {
                        "type": "object",
                        "properties": {name: {"type": "boolean"} for name in Hints.__dataclass_fields__},
                    },
                    "title": text,
                    "tags": {"type": "array", "items": text},
                    "pure": {"type": "boolean"},
                    "metadata": {"type": "object"},
                    "fingerprint": text,
                    "ports": ports,
                },
            },
            "output": {
                "description": "What it gives. Further members are kept.",
                "type": ["object", "null"],
                "properties": {"schema": schema, "ports": ports},
            },
            "message_output_port": {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_PORT},
            "file_store_keys": {"type": "array", "items": text},
            "server_uri": {"type": ["string", "null"]},
        },
        "required": ["kind", "name"],
        "additionalProperties": False,
        "$defs": {
            "source": {
                "description": "Where it comes from, without secrets.",
                "type": "object",
                "properties": {
                    "name": text,
                    "kind": text,
                    "root": {"type": "string", "description": "The folder to which paths are relative."},
                    "settings": {"type": "object", "description": "As in a table [sources.NAME]."},
                },
                "required": ["kind", "settings"],
            },
            "credential": {
                "description": "Where the secret is to be found, never the secret.",
                "type": "object",
                "properties": {"type": text},
                "required": ["type"],
            },
            "port": {
                "type": "object",
                "properties": {
                    "name": text,
                    "description": text,
                    "type": text,
                    "columns": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"name": text, "type": text},
                            "required": ["name", "type"],
                        },
                    },
                    "spec": text,
                },
                "required": ["name"],
            },
        },
    }


@cache
def _validator() -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for(tool_row_schema(), offline=True)


def _validate(data: Any) -> None:
    validator = _validator()
    if validator.is_valid(data):
        return
    found = next(iter(validator.iter_errors(data)))
    path = ".".join(str(step) for step in found.instance_path)
    raise ValueError(f"{path or 'the tool'}: {found.message}")
