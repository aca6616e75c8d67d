"""Reads the settings files of other MCP clients, and turns their servers into sources.

Claude Desktop, Claude Code, Cursor and Windsurf have `mcpServers`, Claude Code also one for each
project, VS Code has `servers` and asks for `inputs`. Comments and trailing commas are allowed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spindle.cli.secrets import looks_secret
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ConfigurationError

_TRANSPORTS = {
    "stdio": None,
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "sse": "sse",
}
# A string, a comment, or a comma followed only by spaces and comments before a closing bracket.
_COMMENT = r"//[^\n]*|/\*.*?\*/"
_JSONC = re.compile(rf'("(?:\\.|[^"\\])*")|{_COMMENT}|,(?=(?:\s|{_COMMENT})*[}}\]])', re.DOTALL)
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


@dataclass(slots=True)
class ImportedServer:
    """A server under a valid name. Without a table it cannot be imported, and the notes say why."""

    name: str
    table: JsonObject | None
    notes: list[str] = field(default_factory=list[str])


def usual_places(folder: Path) -> list[Path]:
    """The files that may hold settings of other clients, on Linux and macOS."""
    home, config = Path.home(), _config_folder()
    return [
        folder / ".mcp.json",
        folder / ".cursor/mcp.json",
        place_of("vscode", folder),
        home / ".claude.json",
        place_of("claude", folder),
        place_of("cursor", folder),
        home / ".codeium/windsurf/mcp_config.json",
        config / "Code/User/mcp.json",
    ]


def place_of(client: str, folder: Path) -> Path:
    """The file that `spindle install` changes for a client and a workspace folder."""
    match client:
        case "claude":
            return _config_folder() / "Claude/claude_desktop_config.json"
        case "cursor":
            return Path.home() / ".cursor/mcp.json"
        case "vscode":
            return folder / ".vscode/mcp.json"
        case _:
            raise ValueError(client)


def _config_folder() -> Path:
    return Path.home() / ("Library/Application Support" if sys.platform == "darwin" else ".config")


def read_servers(file: Path, workspace: Path) -> list[ImportedServer]:
    """All servers in the file. Those of another project than the workspace get its folder as `cwd`."""
    data = _load(file)
    found = [_convert(name, entry, file, None) for name, entry in _entries(data)]
    projects = data.get("projects")
    for folder, project in (projects if is_object(projects) else {}).items():
        if is_object(project):
            cwd = None if Path(folder) == workspace else folder
            found += [_convert(name, entry, file, cwd) for name, entry in _entries(project)]
    if not found and not any(key in data for key in ("mcpServers", "servers", "mcp", "projects")):
        raise ConfigurationError(
            f"{file} has neither `mcpServers` nor `servers`", hint="name a settings file of an MCP client"
        )
    return found


def _load(file: Path) -> JsonObject:
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationError(f"cannot read {file}: {reason}") from None
    try:
        data = json.loads(without_comments(text))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{file} is not valid JSON: {error}") from None
    if not is_object(data):
        raise ConfigurationError(f"{file} must hold a JSON object")
    return data


def without_comments(text: str) -> str:
    """JSON text without comments and trailing commas."""
    return _JSONC.sub(lambda match: match[1] or "", text)


def _entries(data: JsonObject) -> Iterator[tuple[str, Any]]:
    inner = data.get("mcp")
    for table in (
        data.get("mcpServers"),
        data.get("servers"),
        inner.get("servers") if is_object(inner) else None,
    ):
        if is_object(table):
            yield from table.items()


def _convert(name: str, entry: Any, file: Path, cwd: str | None) -> ImportedServer:
    server = ImportedServer(_legal(name), None)
    if server.name != name:
        server.notes.append(f"was called {name!r}, which is not a valid name here")
    if not is_object(entry):
        server.notes.append("is not an object")
        return server
    transport = str(entry.get("type") or entry.get("transport") or "").lower()
    if transport and transport not in _TRANSPORTS:
        server.notes.append(f"its transport {transport!r} is not supported")
        return server
    url = entry.get("url") or entry.get("serverUrl") or entry.get("httpUrl")
    if not url and not entry.get("command"):
        server.notes.append("has neither `command` nor `url`")
        return server
    table: JsonObject = {}
    if url:
        table["url"] = url
        if _TRANSPORTS.get(transport):
            table["transport"] = _TRANSPORTS[transport]
    else:
        arguments = entry.get("args")
        table["command"] = [entry["command"], *(arguments if is_array(arguments) else ())]
        if entry.get("cwd") or cwd:
            table["cwd"] = entry.get("cwd") or cwd
    if entry.get("disabled") is True:
        table["enabled"] = False
    for key in ("env", "headers"):
        values = entry.get(key)
        if is_object(values) and values and (key == "env" or url):
            table[key] = {str(inner): _text(value) for inner, value in values.items()}
    if "envFile" in entry:
        server.notes.append(f"its envFile {entry['envFile']!r} is not read: put its variables under `env`")
    server.table = _translate(table, server.notes, file)
    _note_secrets(server)
    return server


def _legal(name: str) -> str:
    cleaned = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")
    if not cleaned or not cleaned[0].isalpha():
        cleaned = f"server-{cleaned}".rstrip("-")
    return "tools-server" if cleaned == "tools" else cleaned[:64]


def _text(value: Any) -> str:
    """A variable's value as text: some clients allow numbers and booleans."""
    return value if isinstance(value, str) else json.dumps(value)


def _translate(value: Any, notes: list[str], file: Path) -> Any:
    """The value with other clients' `${...}` written as ours."""
    if is_object(value):
        return {key: _translate(item, notes, file) for key, item in value.items()}
    if is_array(value):
        return [_translate(item, notes, file) for item in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _reference(match[1], notes, file), value)
    return value


def _reference(inner: str, notes: list[str], file: Path) -> str:
    kind, _, name = inner.partition(":")
    if kind == "input":
        variable = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
        notes.append(f"asks for {name!r}: set the environment variable {variable}")
        return f"${{{variable}}}"
    if kind == "env":
        return f"${{{name}}}"
    if inner in ("workspaceFolder", "workspaceRoot"):
        return str(
            file.resolve().parent.parent if file.parent.name.startswith(".") else file.resolve().parent
        )
    if inner == "userHome":
        return str(Path.home())
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(:-.*)?", inner):
        notes.append(f"${{{inner}}} is not known here and stays as it is")
    return f"${{{inner}}}"


def _note_secrets(server: ImportedServer) -> None:
    for key in ("env", "headers"):
        values = (server.table or {}).get(key)
        for name, value in (values if is_object(values) else {}).items():
            if looks_secret(name, value):
                server.notes.append(
                    f"{key}.{name} holds a secret in plain text; ${{{_variable(name)}}} is safer"
                )


def _variable(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).upper()
