"""Turns the entries by which other programs describe MCP servers into sources.

The programs agree on most keys and differ in a few: `serverUrl` (Windsurf), `httpUrl` and `includeTools`
(Gemini CLI), `bearer_token_env_var` (Codex), `cmd`, `envs` and `uri` (Goose), `auth` (pflow), `transportType`
(mcp-proxy), `disabledTools` (mcpo), `connection` (Penguiflow). No two mean different things by one key.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spindle.cli.client_secrets import SecretVariables, variable_name
from spindle.domain.json_schema import JsonObject, is_array, is_object

_TRANSPORTS = {
    "stdio": None,
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "sse": "sse",
}
_VARIABLE = re.compile(r"\$\{([^}]{0,1000})\}")
# Gemini CLI and Goose also take variables without braces.
_BARE = re.compile(r"\$([A-Za-z_]\w*)")
_FLAGS = re.compile(r"\(\?[aimsux]+\)")
_OF_THE_PROGRAM = frozenset({"builtin", "platform", "frontend", "inline_python"})
_URL_KEYS = ("url", "serverUrl", "httpUrl", "uri")
_INCLUDE = ("includeTools", "enabled_tools", "available_tools")
_EXCLUDE = ("excludeTools", "disabledTools", "disabled_tools")
ENTRY_KEYS = frozenset({"command", "cmd", "connection", *_URL_KEYS})
"""The keys of which every entry has one."""


@dataclass(slots=True)
class ImportedServer:
    """A server of another program under a valid name. Without a table it cannot be a source, and the notes
    say why."""

    name: str
    file: Path
    table: JsonObject | None = None
    notes: list[str] = field(default_factory=list[str])
    left_out: str | None = None
    """Why it is not wanted here, if it is not."""
    project: str | None = None
    """The folder of another project that it belongs to."""


class ServerReader:
    """Reads the entries of one file. Secrets become variables, which all files share."""

    def __init__(self, file: Path, variables: SecretVariables) -> None:
        self._file = file
        self._variables = variables
        self._takes_bare = ".gemini" in file.parts or file.suffix in (".yaml", ".yml")

    def unread(self, name: str) -> ImportedServer:
        """Returns a server of which only the name is known."""
        return ImportedServer(legal_name(name), self._file)

    def read(self, name: str, entry: Any) -> ImportedServer:
        """Returns the server that an entry describes."""
        server = self.unread(name)
        if server.name != name:
            server.notes.append(f"was called {name!r}, which is not a valid name here")
        if not is_object(entry):
            server.notes.append("is not an object")
            return server
        server.left_out = _reason_to_leave_out(entry)
        if server.left_out is not None:
            return server
        table = _external_tool(entry, server.notes) if "connection" in entry else _table(entry, server.notes)
        if table is None:
            return server
        translated: JsonObject = self._translated(table, server.notes)
        server.notes += self._variables.hide(server.name, translated)
        server.table = translated
        return server

    def _translated(self, value: Any, notes: list[str]) -> Any:
        """The value with other programs' references to variables written as ours."""
        if is_object(value):
            return {key: self._translated(item, notes) for key, item in value.items()}
        if is_array(value):
            return [self._translated(item, notes) for item in value]
        if not isinstance(value, str):
            return value
        if self._takes_bare:
            value = _BARE.sub(r"${\1}", value)
        return _VARIABLE.sub(lambda match: self._reference(match[1], notes), value)

    def _reference(self, inner: str, notes: list[str]) -> str:
        kind, _, name = inner.partition(":")
        if kind == "input":
            variable = variable_name(name)
            notes.append(f"asks for {name!r}: set the environment variable {variable}")
            return f"${{{variable}}}"
        if kind == "env":
            return f"${{{name}}}"
        if inner in ("workspaceFolder", "workspaceRoot"):
            folder = self._file.resolve().parent
            return str(folder.parent if self._file.parent.name.startswith(".") else folder)
        if inner == "userHome":
            return str(Path.home())
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(:-.*)?", inner):
            notes.append(f"${{{inner}}} is not known here and stays as it is")
        return f"${{{inner}}}"


def legal_name(name: str) -> str:
    """The name as that of a source."""
    cleaned = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")
    if not cleaned or not cleaned[0].isalpha():
        cleaned = f"server-{cleaned}".rstrip("-")
    return "tools-server" if cleaned == "tools" else cleaned[:64]


def _reason_to_leave_out(entry: JsonObject) -> str | None:
    if entry.get("disabled") is True or entry.get("enabled") is False:
        return "is switched off there"
    if entry.get("type") in _OF_THE_PROGRAM:
        return f"is a part of that program itself ({entry['type']})"
    if entry.get("source") == "extension" or (entry.keys() == {"settings"}):
        return "is an extension of that program, which starts it in its own way"
    return None


def _table(entry: JsonObject, notes: list[str]) -> JsonObject | None:
    transport = str(entry.get("type") or entry.get("transport") or entry.get("transportType") or "").lower()
    if transport and transport not in _TRANSPORTS:
        notes.append(f"its transport {transport[:40]!r} is not supported")
        return None
    url = next((entry[key] for key in _URL_KEYS if entry.get(key)), None)
    command = _command(entry)
    if not url and not command:
        notes.append("has neither `command` nor `url`")
        return None
    table: JsonObject = {}
    if url:
        table["url"] = url
        found = _TRANSPORTS.get(transport) or ("http" if entry.get("httpUrl") else None)
        if found:
            table["transport"] = found
    else:
        table["command"] = command
        if entry.get("cwd"):
            table["cwd"] = entry["cwd"]
        if env := _environment(entry):
            table["env"] = env
    if url and (headers := _headers(entry)):
        table["headers"] = headers
    if url and (auth := _auth(entry)):
        table["auth"] = auth
    for key, names in (("include", _INCLUDE), ("exclude", _EXCLUDE)):
        tools = next((entry[name] for name in names if is_array(entry.get(name)) and entry[name]), None)
        if tools:
            # Ours are patterns.
            table[key] = [re.escape(str(tool)) for tool in tools]
    for key, name in (("timeout", "tool_timeout_sec"), ("connect_timeout", "startup_timeout_sec")):
        if isinstance(entry.get(name), (int, float)):
            table[key] = entry[name]
    if "envFile" in entry:
        notes.append(f"its envFile {entry['envFile']!r} is not read: put its variables under `env`")
    if entry.get("headerToEnv"):
        notes.append("its headerToEnv has no counterpart here: `auth` gives each user a credential")
    return table


def _command(entry: JsonObject) -> list[Any]:
    command, arguments = entry.get("command") or entry.get("cmd"), entry.get("args")
    if is_object(command):
        # Zed wrote it so before.
        arguments, command = command.get("args"), command.get("path")
    if not command:
        return []
    words = [*command] if is_array(command) else [command]
    return [*words, *(arguments if is_array(arguments) else ())]


def _environment(entry: JsonObject) -> dict[str, str]:
    held = entry.get("command")
    sources = [entry.get("env"), entry.get("envs"), held.get("env") if is_object(held) else None]
    found: dict[str, str] = {}
    for values in sources:
        found |= _texts(values)
    for key in ("env_keys", "env_vars"):
        names = entry.get(key)
        found |= {
            name: f"${{{name}}}" for name in (names if is_array(names) else ()) if isinstance(name, str)
        }
    return found


def _headers(entry: JsonObject) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in ("headers", "http_headers"):
        found |= _texts(entry.get(key))
    named = entry.get("env_http_headers")
    found |= {str(name): f"${{{variable}}}" for name, variable in (named if is_object(named) else {}).items()}
    if isinstance(entry.get("bearer_token_env_var"), str):
        found["Authorization"] = f"Bearer ${{{entry['bearer_token_env_var']}}}"
    return found


def _auth(entry: JsonObject) -> JsonObject | None:
    given = entry.get("auth")
    if is_object(given):
        match given.get("type"):
            case "bearer":
                return {"type": "bearer", "token": _text(given.get("token", ""))}
            case "api_key":
                name = _text(given.get("header", "X-API-Key"))
                return {"type": "api_key", "name": name, "value": _text(given.get("key", ""))}
            case "basic":
                return {key: _text(given.get(key, "")) for key in ("type", "username", "password")}
            case _:
                pass
    return {"type": "oauth"} if is_object(entry.get("oauth")) else None


def _external_tool(entry: JsonObject, notes: list[str]) -> JsonObject | None:
    """The source that a Penguiflow `ExternalToolConfig` describes."""
    connection, transport = str(entry["connection"]), str(entry.get("transport", "mcp")).lower()
    is_url = connection.startswith(("http://", "https://"))
    if transport == "mcp":
        table: JsonObject = {"url": connection} if is_url else {"command": _split(connection)}
    elif transport == "utcp" or (transport == "http" and entry.get("utcp_mode") == "manual_url"):
        table = {"kind": "utcp", "document": connection}
    elif transport == "http":
        table = {"kind": "http", "url": connection}
    else:
        notes.append(
            f"its transport {transport[:40]!r} is not supported: `spindle add --cli` describes programs"
        )
        return None
    if env := _environment(entry):
        table["env"] = env
    given: Mapping[str, Any] = entry["auth_config"] if is_object(entry.get("auth_config")) else {}
    match entry.get("auth_type"):
        case "bearer":
            table["auth"] = {"type": "bearer", "token": _text(given.get("token", ""))}
        case "api_key":
            name = _text(given.get("header", "X-API-Key"))
            table["auth"] = {"type": "api_key", "name": name, "value": _text(given.get("api_key", ""))}
        case "oauth2_user":
            table["auth"] = {"type": "oauth"}
        case _:
            pass
    for key, name in (("timeout", "timeout_s"), ("max_concurrency", "max_concurrency")):
        if isinstance(entry.get(name), (int, float)):
            table[key] = entry[name]
    if is_array(entry.get("tool_filter")) and entry["tool_filter"]:
        table["include"] = [_whole(str(pattern)) for pattern in entry["tool_filter"]]
    if "auth" in table and "command" in table and table["auth"]["type"] != "oauth":
        notes.append("its auth is for programs that are started: give the secret under `env` instead")
        del table["auth"]
    return table


def _whole(pattern: str) -> str:
    """A pattern for whole names, as `include` has them, from one for their beginnings."""
    if pattern.endswith(".*") and "|" not in pattern:
        return pattern
    flags = _FLAGS.match(pattern)
    begin = flags[0] if flags else ""
    return f"{begin}(?:{pattern.removeprefix(begin)}).*"


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return [command]


def _texts(values: Any) -> dict[str, str]:
    if not is_object(values):
        return {}
    return {str(name): _text(value) for name, value in values.items() if value is not None}


def _text(value: Any) -> str:
    """A value as text: some programs allow numbers and booleans."""
    return value if isinstance(value, str) else json.dumps(value)
