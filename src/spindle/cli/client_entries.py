"""The programs that use MCP servers: their settings files, and the entries by which they have this workspace
as a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from spindle.domain.json_schema import JsonObject, is_object

if TYPE_CHECKING:
    from spindle.domain.serve import ServeConfig

DEFAULT_NAME = "spindle"
# For addresses that mean all interfaces: the one by which this machine reaches itself.
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - looked for, not listened on
_COMMAND_KEYS = frozenset({"command", "args", "cmd"})
_URL_KEYS = frozenset({"url", "serverUrl", "httpUrl", "uri"})
# Goose wants one, in seconds; this is the value that it writes itself.
_GOOSE_TIMEOUT = 300


@dataclass(frozen=True, slots=True)
class ClientProgram:
    """A program that uses MCP servers, and the form of its settings."""

    title: str
    file: Callable[[Path], Path]
    """Returns its settings file, for the folder of a workspace."""
    next_step: str
    key: str = "mcpServers"
    """The key of the table that holds its servers."""
    form: Literal["json", "toml", "yaml"] = "json"
    says_type: bool = False
    """True if an entry names the transport as `type`."""
    url_key: str | None = "url"
    """The key of a server's URL. None if the program only takes programs that it starts."""
    reference: str | None = "${env:%s}"
    """A reference to a variable of the environment. None if the settings cannot hold one."""

    def over_stdio(self, command: Sequence[str], env: Mapping[str, str]) -> JsonObject:
        """The entry of a server that the client starts as a program."""
        if self.form == "yaml":
            return self._goose("stdio") | {"cmd": command[0], "args": list(command[1:]), "envs": dict(env)}
        entry: JsonObject = {"type": "stdio"} if self.says_type else {}
        entry |= {"command": command[0], "args": list(command[1:])}
        return entry | ({"env": dict(env)} if env else {})

    def over_http(self, url: str, token_variable: str | None) -> JsonObject:
        """The entry of a server at a URL. The client reads the token from its environment, not from the
        file."""
        assert self.url_key is not None
        entry: JsonObject = {"type": "http"} if self.says_type else {}
        if self.form == "yaml":
            entry = self._goose("streamable_http")
        entry[self.url_key] = url
        if token_variable is None:
            return entry
        if self.form == "toml":
            return entry | {"bearer_token_env_var": token_variable}
        assert self.reference is not None
        entry["headers"] = {"Authorization": f"Bearer {self.reference % token_variable}"}
        return entry | ({"env_keys": [token_variable]} if self.form == "yaml" else {})

    @staticmethod
    def _goose(kind: str) -> JsonObject:
        return {
            "enabled": True, "type": kind, "name": "", "description": "Tools of a Spindle workspace",
            "timeout": _GOOSE_TIMEOUT,
        }  # fmt: skip

    def named(self, name: str, entry: JsonObject) -> JsonObject:
        """The entry for a server of this name: some programs repeat the name in it."""
        return {**entry, "name": name} if "name" in entry else entry

    def document(self, name: str, entry: JsonObject) -> JsonObject:
        """A whole settings file with this one server."""
        return {self.key: {name: entry}}


def config_folder() -> Path:
    """The folder in which programs with windows keep their settings."""
    return Path.home() / ("Library/Application Support" if sys.platform == "darwin" else ".config")


def _at_home(path: str) -> Callable[[Path], Path]:
    return lambda _folder: Path.home() / path


def _in_project(path: str) -> Callable[[Path], Path]:
    return lambda folder: folder / path


def _codex_file(_folder: Path) -> Path:
    home = os.environ.get("CODEX_HOME")
    return (Path(home).expanduser() if home else Path.home() / ".codex") / "config.toml"


CLIENTS: Mapping[str, ClientProgram] = {
    "claude-desktop": ClientProgram(
        "Claude Desktop",
        lambda _folder: config_folder() / "Claude/claude_desktop_config.json",
        "quit Claude Desktop and start it again",
        url_key=None,
    ),
    "claude-code": ClientProgram(
        "Claude Code",
        _in_project(".mcp.json"),
        "start `claude` in this folder and approve the server; `/mcp` shows it",
        says_type=True,
        reference="${%s}",
    ),
    "cursor": ClientProgram(
        "Cursor",
        _at_home(".cursor/mcp.json"),
        "restart Cursor, or switch the server on under Settings, MCP",
    ),
    "vscode": ClientProgram(
        "VS Code",
        _in_project(".vscode/mcp.json"),
        "open the folder in VS Code and start the server by `MCP: List Servers`, or restart it",
        key="servers",
        says_type=True,
    ),
    "windsurf": ClientProgram(
        "Windsurf",
        _at_home(".codeium/windsurf/mcp_config.json"),
        "press the refresh button in Windsurf's list of MCP servers",
        url_key="serverUrl",
    ),
    "gemini": ClientProgram(
        "Gemini CLI",
        _at_home(".gemini/settings.json"),
        "start `gemini` again; `/mcp` shows the server",
        url_key="httpUrl",
        reference="${%s}",
    ),
    "codex": ClientProgram(
        "Codex",
        _codex_file,
        "start `codex` again; `/mcp` shows the server",
        key="mcp_servers",
        form="toml",
    ),
    "goose": ClientProgram(
        "Goose",
        _at_home(".config/goose/config.yaml"),
        "start a new session of Goose",
        key="extensions",
        form="yaml",
        url_key="uri",
        reference="${%s}",
    ),
    "zed": ClientProgram(
        "Zed",
        _at_home(".config/zed/settings.json"),
        "Zed starts the server by itself; its state is shown in the settings of the Agent Panel",
        key="context_servers",
        reference=None,
    ),
}
_OLD_NAMES = {"claude": "claude-desktop"}


class ClientChoice(click.Choice[str]):
    """The name of a client on the command line. A name that was used before is understood too."""

    name = "client"

    def __init__(self) -> None:
        super().__init__(tuple(CLIENTS))

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(_OLD_NAMES.get(value, value), param, ctx)


def says_the_same(there: object, wanted: JsonObject) -> bool:
    """True if an entry already has everything that is wanted. Keys that the user added do no harm."""
    if not is_object(there):
        return False
    others = _URL_KEYS if wanted.keys() & _COMMAND_KEYS else _COMMAND_KEYS
    if others & there.keys():
        return False
    for key, value in wanted.items():
        found = there.get(key)
        if is_object(value) and is_object(found):
            if any(found.get(inner) != text for inner, text in value.items()):
                return False
        elif found != value:
            return False
    return True


def url_of(config: ServeConfig) -> str:
    """The URL of `spindle serve --http` for clients."""
    if config.url is not None:
        return f"{config.url}/mcp"
    host = _ANY.get(config.host, config.host)
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{config.port}/mcp"


def token_variable(config: ServeConfig) -> str | None:
    """The variable that an entry refers to for the token, if clients must send one. Tokens of an
    authorisation server are not meant: clients get those by themselves."""
    if config.auth_token_env is not None:
        return config.auth_token_env
    if config.auth_token is not None:
        return "SPINDLE_SERVE__AUTH_TOKEN"
    for name, token in config.tokens.items():
        return token.token_env or f"SPINDLE_SERVE__TOKENS__{name.upper().replace('-', '_')}__TOKEN"
    return None
