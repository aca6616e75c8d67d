"""The entries by which other MCP clients have this workspace as a server in their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spindle.domain.json_schema import JsonObject, is_object

if TYPE_CHECKING:
    from spindle.domain.serve import ServeConfig

DEFAULT_NAME = "spindle"
# For addresses that mean all interfaces: the one by which this machine reaches itself.
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - looked for, not listened on
_COMMAND_KEYS, _URL_KEYS = frozenset({"command", "args"}), frozenset({"url", "serverUrl", "httpUrl"})


@dataclass(frozen=True, slots=True)
class ClientProgram:
    """A program that uses MCP servers, and the form of its settings."""

    title: str
    key: str
    """The key of the table that holds its servers."""
    says_type: bool
    """True if an entry names the transport as `type`."""
    takes_url: bool
    """True if an entry may be a URL. Other clients drop entries without a `command`."""
    next_step: str

    def over_stdio(self, command: Sequence[str], env: Mapping[str, str]) -> JsonObject:
        """The entry of a server that the client starts as a program."""
        entry: JsonObject = {"type": "stdio"} if self.says_type else {}
        entry |= {"command": command[0], "args": list(command[1:])}
        return entry | ({"env": dict(env)} if env else {})

    def over_http(self, url: str, token_variable: str | None) -> JsonObject:
        """The entry of a server at a URL. The client reads the token from its environment, not from the
        file."""
        entry: JsonObject = {"type": "http"} if self.says_type else {}
        entry["url"] = url
        if token_variable is not None:
            entry["headers"] = {"Authorization": f"Bearer ${{env:{token_variable}}}"}
        return entry

    def document(self, name: str, entry: JsonObject) -> JsonObject:
        """A whole settings file with this one server."""
        return {self.key: {name: entry}}


CLIENTS: Mapping[str, ClientProgram] = {
    "claude": ClientProgram(
        "Claude Desktop", "mcpServers", says_type=False, takes_url=False,
        next_step="quit Claude Desktop and start it again",
    ),
    "cursor": ClientProgram(
        "Cursor", "mcpServers", says_type=False, takes_url=True,
        next_step="restart Cursor, or switch the server on under Settings, MCP",
    ),
    "vscode": ClientProgram(
        "VS Code", "servers", says_type=True, takes_url=True,
        next_step="open the folder in VS Code and start the server by `MCP: List Servers`, or restart it",
    ),
}  # fmt: skip


def says_the_same(there: object, wanted: JsonObject) -> bool:
    """True if an entry already has everything that is wanted. Keys that the user added do no harm."""
    if not is_object(there):
        return False
    others = _URL_KEYS if "command" in wanted else _COMMAND_KEYS
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
