"""Makes tables from sources: one row for each tool of a server."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from spindle.calls.record import MIN_SECRET
from spindle.domain.identity import Credential, Principal
from spindle.domain.json_schema import JsonObject, Parameter, parameters
from spindle.domain.source import SourceConfig
from spindle.errors import AuthError, ConfigurationError, from_description
from spindle.opening import open as open_workspace
from spindle.ports.store import ToolFilter
from spindle.settings import Settings
from spindle.settings.expand import expand_text, has_reference
from spindle.tables.arrow import tool_table
from spindle.tables.rows import GIVEN, Hidden, Note, address_of, credential_of, row_of_tool, source_of

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.tables.tool_row import ToolRow

Given = str | Mapping[str, Any] | Credential
"""A token or `${VARIABLE}`, an `auth` table as in spindle.toml, or a Credential."""

LEFT_OUT = b"spindle.left_out"
"""Beside the schema of a table that was made with `strict`: what is not in it, as JSON."""

logger = logging.getLogger("spindle")

SIMPLE = frozenset({"string", "integer", "number", "boolean"})

# The keywords that the schema of a simple value may have besides its type.
_KEPT = (
    "title", "description", "enum", "const", "default", "format", "pattern", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "examples",
)  # fmt: skip

_PLAIN_NAME = "server"
_TOKEN = re.compile(r"[\x21-\x7e]+")


def tool_provider(
    url_or_config: str | Mapping[str, Any] | SourceConfig,
    *,
    credential: Given | None = None,
    credential_name: str | None = None,
    name: str | None = None,
    strict: bool = False,
    note: Note = logger.warning,
) -> pa.Table:
    """Returns the tools of a source as a table, one row each, in the column `tool`.

    `url_or_config` is the URL of an MCP server, or the settings of any source, as in a table [sources.NAME]
    of spindle.toml. With a `name`, tools are called `name.tool`. `strict` keeps only parameters of simple
    types, and tools that need no others; `note` and the table's metadata say what was left out. A credential
    that cannot be used is an error: nothing is sent without it. Rows hold only the name of a given
    credential: `credential_name`, or else the source's name.
    """
    table = _settings(url_or_config)
    shown, settings = _with_credential(table, credential)
    source = name or _PLAIN_NAME
    if name is None:
        settings = {**settings, "prefix": False}
    opened = Settings(Path.cwd(), {"sources": {source: settings}, "store": ":memory:"}, is_workspace=False)

    async def own_credential(_source: str, _principal: Principal) -> Credential | None:
        return shown

    with open_workspace(settings=opened, credentials=own_credential, note=note) as spindle:
        given = {"type": GIVEN, "name": credential_name or source} if shown is not None else None
        rows = spindle.wait(lambda app: rows_from(app, source, note=note, given=given, shown=shown))
    return provide(rows, strict=strict, note=note)


def provide(rows: list[ToolRow], *, strict: bool = False, note: Note = logger.warning) -> pa.Table:
    """Returns the rows as a table; with `strict`, only those with simple types."""
    if not strict:
        return tool_table(rows)
    kept, left_out = simplified(rows)
    for sentence in left_out:
        note(sentence)
    table = tool_table(kept)
    return table.replace_schema_metadata({LEFT_OUT: json.dumps(left_out).encode()})


async def rows_from(
    app: Spindle,
    source: str,
    *,
    note: Note = logger.warning,
    given: dict[str, Any] | None = None,
    shown: Credential | None = None,
) -> list[ToolRow]:
    """Asks a source of an open workspace for its tools. `given` replaces the credential of its settings."""
    (report,) = await app.sync(source)
    table = app.catalog.sources.table(source)
    hidden = Hidden()
    where = source_of(source, table, app.catalog.sources.root, hidden)
    if report.error is not None:
        message = report.error["message"]
        if source == _PLAIN_NAME and (address := address_of(where)):
            message = f"{address}: {message}"
        raise from_description({**report.error, "message": message})
    credential = given or credential_of(source, table.get("auth"), hidden)
    for variable in dict.fromkeys(hidden.variables):
        note(f"{source}: a plain secret is not written to the table; calls need the variable {variable}")
    hidden.values |= app.catalog.sources.secrets(source) | (shown.secrets if shown is not None else set())
    secrets = {value for value in hidden.values if len(value) >= MIN_SECRET}
    tools = await app.catalog.whole_tools(ToolFilter(source=source))
    return [row_of_tool(tool, where, credential, secrets) for tool in tools]


def _settings(given: str | Mapping[str, Any] | SourceConfig) -> dict[str, Any]:
    if isinstance(given, SourceConfig):
        return given.model_dump(mode="json", by_alias=True, exclude_unset=True) | {"kind": given.kind}
    if isinstance(given, str):
        if not given.startswith(("http://", "https://", "${")):
            raise ConfigurationError(
                f"{given!r} is not the URL of a server",
                hint='give one that begins with http, or settings: {"command": ["program", "argument"]}',
            )
        return {"kind": "mcp", "url": given}
    return {"kind": "mcp", **given}


def _with_credential(table: dict[str, Any], given: Given | None) -> tuple[Credential | None, dict[str, Any]]:
    """The credential to use in place of the source's own settings, and those settings."""
    if given is None:
        return None, table
    if table.get("auth") is not None:
        raise ConfigurationError(
            "the settings have `auth`, and a credential is given too", hint="leave one of them out"
        )
    if isinstance(given, Credential):
        if not given.key:
            raise AuthError("the credential that was given is empty")
        _require_place(table, in_environment=bool(given.env))
        return given, table
    if isinstance(given, str):
        return _with_token(table, given)
    if not given:
        raise AuthError("the credential that was given is empty")
    _require_values(given)
    _require_place(table, in_environment="env" in given)
    return None, {**table, "auth": dict(given)}


def _with_token(table: dict[str, Any], token: str) -> tuple[Credential | None, dict[str, Any]]:
    from spindle.http.credentials import bearer

    _require_place(table, in_environment=False)
    if has_reference(token):
        auth = {"type": "bearer", "token": token}
        _require_values(auth)
        return None, {**table, "auth": auth}
    if not _TOKEN.fullmatch(token):
        what = "is empty" if not token.strip() else "holds characters that no token has"
        raise AuthError(f"the credential that was given {what}")
    return bearer(token), table


def _require_values(auth: Mapping[str, Any]) -> None:
    """Refuses a variable with an empty value, which would be sent as an empty token."""
    import os

    for key, value in auth.items():
        if isinstance(value, str) and not expand_text(value, os.environ, f"credential.{key}", None).strip():
            raise AuthError(f"the credential that was given is empty: its {key} is {value!r}")


_TAKE_CREDENTIALS = frozenset({"mcp", "openapi", "http", "utcp", "websocket"})


def _require_place(table: Mapping[str, Any], *, in_environment: bool) -> None:
    """Refuses a credential for a source that has no place for one and would be asked without it."""
    kind = cast(str, table["kind"])
    starts_program = "command" in table
    if starts_program and not in_environment:
        raise AuthError(
            "a server that is started as a program takes its credential in a variable",
            hint='credential={"type": "bearer", "token": "${MY_TOKEN}", "env": "VARIABLE_OF_THE_PROGRAM"}',
        )
    if not starts_program and in_environment:
        raise AuthError("a server that is reached by its URL sees no variables", hint="leave `env` out")
    if kind not in _TAKE_CREDENTIALS:
        raise AuthError(f"a source of kind {kind!r} takes no credential", hint="leave it out")


def simplified(rows: Sequence[ToolRow]) -> tuple[list[ToolRow], list[str]]:
    """Returns the tools for which plain values are enough, without their other parameters, and sentences that
    say what was left out."""
    kept: list[ToolRow] = []
    left_out: list[str] = []
    for row in rows:
        found = parameters(row.parameters)
        simple = {item.name: schema for item in found if (schema := _simple(item)) is not None}
        dropped = [item for item in found if item.name not in simple]
        needed = [item for item in dropped if item.required]
        if needed:
            left_out.append(f"{row.name} is left out: it needs {_listed(needed)}")
            continue
        if dropped:
            left_out.append(f"{row.name}: without its optional {_listed(dropped)}")
        required = [item.name for item in found if item.required]
        plain: JsonObject = {"type": "object", "properties": simple}
        kept.append(replace(row, parameters=plain | ({"required": required} if required else {})))
    return kept, left_out


def _simple(item: Parameter) -> JsonObject | None:
    types = item.types - {"null"}
    if len(types) != 1 or not types <= SIMPLE:
        return None
    return {"type": next(iter(types)), **{key: item.schema[key] for key in _KEPT if key in item.schema}}


def _listed(items: Sequence[Parameter]) -> str:
    return ", ".join(f"{item.name} ({item.label})" for item in items)
