"""Reads the settings files of other programs: the servers in them, and those that do not belong here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spindle.cli.client_entries import CLIENTS, config_folder
from spindle.cli.client_files import content_of, decoded
from spindle.cli.client_secrets import SecretVariables
from spindle.cli.client_servers import ENTRY_KEYS, ImportedServer, ServerReader
from spindle.cli.client_text import BOM, FORMS, form_of
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ConfigurationError

PROJECT_FILE = ".mcp.json"
"""The file of a project's servers that Claude Code reads."""
TABLES = ("mcpServers", "servers", "context_servers", "mcp_servers")
"""The keys under which programs hold their servers. Goose, whose file is YAML, has `extensions`."""


@dataclass(slots=True)
class ClientSettings:
    """Everything in a file that can be used here."""

    servers: list[ImportedServer] = field(default_factory=list[ImportedServer])
    serve: JsonObject = field(default_factory=dict[str, Any])
    """Settings of `[serve]`."""
    notes: list[str] = field(default_factory=list[str])


def usual_places(folder: Path) -> list[Path]:
    """The files that may hold servers: those of the project first, then the user's own."""
    places = [
        folder / PROJECT_FILE,
        folder / ".cursor/mcp.json",
        folder / ".vscode/mcp.json",
        folder / ".gemini/settings.json",
        folder / ".codex/config.toml",
        folder / ".zed/settings.json",
        Path.home() / ".claude.json",
        *(client.file(folder) for client in CLIENTS.values()),
        config_folder() / "Code/User/mcp.json",
        Path.home() / ".pflow/mcp-servers.json",
    ]
    return list(dict.fromkeys(places))


def read_settings(file: Path, workspace: Path, variables: SecretVariables) -> ClientSettings:
    """Returns the servers in the file, with those that are left out. Raises ConfigurationError for a file
    that cannot be read or holds none."""
    keys = (*TABLES, "extensions") if form_of(file.name) is FORMS["yaml"] else TABLES
    data = _load(file, keys)
    if is_object(data) and ("external_access" in data or file.stem == "network"):
        from spindle.cli.openagents_network import read_network

        found = ClientSettings()
        found.servers, found.serve, found.notes = read_network(data, file, workspace, variables)
        return found
    reader = ServerReader(file, variables)
    found = ClientSettings([reader.read(name, entry) for name, entry in _entries(data, keys)])
    if is_object(data):
        _leave_out_excluded(data, found.servers)
    if file.name == PROJECT_FILE and os.path.realpath(file.parent) == os.path.realpath(workspace):
        _leave_out_disabled(workspace, found.servers)
    if is_object(data):
        found.servers += _of_projects(data, workspace, reader)
    if not found.servers and not _may_hold_servers(data, keys):
        raise ConfigurationError(
            f"{file} holds no servers: none of {', '.join(f'`{key}`' for key in keys)} is in it",
            hint="name a settings file of an MCP client",
        )
    return found


def _load(file: Path, keys: Sequence[str]) -> Any:
    content = content_of(file)
    if content is None:
        raise ConfigurationError(f"cannot read {file}: No such file or directory")
    text, form = decoded(content, file).removeprefix(BOM), form_of(file.name)
    try:
        data = form.read(text)
    except ValueError as error:
        raise ConfigurationError(f"{file} is not valid {form.title}: {error}") from None
    if not is_object(data) and not is_array(data):
        raise ConfigurationError(f"{file} must hold an object with the servers by their names")
    for key in keys:
        table = data.get(key) if is_object(data) else None
        if table is not None and not is_object(table):
            raise ConfigurationError(f"{file}: `{key}` must hold the servers by their names")
    return data


def _entries(data: Any, keys: Sequence[str]) -> Iterator[tuple[str, Any]]:
    if is_array(data):
        # Penguiflow has a list of tools that say their names themselves.
        yield from ((str(item.get("name", "")), item) for item in data if is_object(item))
        return
    inner = data.get("mcp")
    tables = [data.get(key) for key in keys] + [inner.get("servers") if is_object(inner) else None]
    for table in tables:
        if is_object(table):
            yield from table.items()
    if _is_bare(data):
        yield from data.items()


def _is_bare(data: JsonObject) -> bool:
    """True for a dictionary of servers and nothing else, as LangChain and Penguiflow take it."""
    return bool(data) and all(is_object(entry) and entry.keys() & ENTRY_KEYS for entry in data.values())


def _may_hold_servers(data: Any, keys: Sequence[str]) -> bool:
    return is_object(data) and any(key in data for key in (*keys, "mcp", "projects"))


def _of_projects(data: JsonObject, workspace: Path, reader: ServerReader) -> Iterator[ImportedServer]:
    """Claude Code has servers for single projects. Only those of this one are wanted."""
    projects = data.get("projects")
    for folder, project in (projects if is_object(projects) else {}).items():
        servers = project.get("mcpServers") if is_object(project) else None
        is_here = os.path.realpath(folder) == os.path.realpath(workspace)
        for name, entry in (servers if is_object(servers) else {}).items():
            if is_here:
                yield reader.read(name, entry)
            else:
                other = reader.unread(name)
                other.left_out, other.project = f"belongs to another project, {folder}", folder
                yield other


def _leave_out_disabled(workspace: Path, servers: list[ImportedServer]) -> None:
    """Claude Code keeps elsewhere which servers of a project's file its user has switched off."""
    off: set[str] = set()
    home = Path.home() / ".claude.json"
    for file in (home, workspace / ".claude/settings.json", workspace / ".claude/settings.local.json"):
        try:
            settings = _load(file, ())
        except ConfigurationError:
            continue  # not there; or broken, which is said where it is read for its servers
        if file == home:
            projects = settings.get("projects") if is_object(settings) else None
            settings = projects.get(str(workspace)) if is_object(projects) else None
        for key in ("disabledMcpjsonServers", "disabledMcpServers"):
            names = settings.get(key) if is_object(settings) else None
            off |= {str(name) for name in (names if is_array(names) else ())}
    for server in servers:
        if server.name in off and server.left_out is None:
            server.left_out = "is switched off there"


def _leave_out_excluded(data: JsonObject, servers: list[ImportedServer]) -> None:
    """Gemini CLI has lists of servers that it uses, and that it does not."""
    rules = data.get("mcp")
    allowed, excluded = (rules.get(key) if is_object(rules) else None for key in ("allowed", "excluded"))
    for server in servers:
        is_out = (is_array(excluded) and server.name in excluded) or (
            is_array(allowed) and bool(allowed) and server.name not in allowed
        )
        if is_out and server.left_out is None:
            server.left_out = "is switched off there"
