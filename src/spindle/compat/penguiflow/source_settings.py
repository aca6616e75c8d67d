"""Turns an ExternalToolConfig into the settings of a Spindle source."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from spindle.compat.penguiflow.config import AuthType, ExternalToolConfig, TransportType, UtcpMode
from spindle.compat.penguiflow.errors import ToolAuthError, ToolNodeError

CONNECT_TIMEOUT = 30.0
# Protocols of a UTCP manual's tools. Programs only where the configuration says that it is about programs.
_PROTOCOLS = ("http", "sse", "streamable_http", "text", "websocket")
_MANUAL_ENDINGS = (".json", ".yaml", ".yml", "/utcp", "/.well-known/utcp")
_INTERPRETERS = {".py": (sys.executable,), ".js": ("node",)}


def source_table(config: ExternalToolConfig) -> dict[str, Any]:
    """Returns the table that stands for this configuration in `[sources]`."""
    retry = config.retry_policy
    table: dict[str, Any] = {
        "description": config.description,
        "timeout": config.timeout_s,
        "connect_timeout": max(CONNECT_TIMEOUT, config.timeout_s),
        "max_concurrency": config.max_concurrency,
        "retry": {
            "attempts": retry.max_attempts,
            "wait": min(retry.wait_exponential_min_s, retry.wait_exponential_max_s),
            "max_wait": retry.wait_exponential_max_s,
            "statuses": retry.retry_on_status,
        },
        "env": dict(config.env),
        **_place(config),
    }
    if (auth := _credential(config)) is not None:
        table["auth"] = auth
    return table


def variable_of(config: ExternalToolConfig) -> str | None:
    """The variable in which a program gets its credential; None if requests carry it."""
    if not is_program(config):
        return None
    variable = config.auth_config.get("env")
    if not isinstance(variable, str) or not variable:
        raise ToolAuthError(
            f"{config.name} is a program, which receives no headers: name the variable in which it expects "
            'its credential, auth_config={"env": "…"}'
        )
    return variable


def is_program(config: ExternalToolConfig) -> bool:
    """True if the source is an MCP server that is started as a program."""
    return config.transport is TransportType.MCP and not _is_url(config.connection)


def _place(config: ExternalToolConfig) -> dict[str, Any]:
    """The kind of the source and its address or command."""
    where = config.connection.strip()
    match config.transport:
        case TransportType.MCP if _is_url(where):
            modes = {"auto": "auto", "sse": "sse", "streamable_http": "http"}
            return {"kind": "mcp", "url": where, "transport": modes[config.mcp_transport_mode.value]}
        case TransportType.MCP:
            return {"kind": "mcp", "command": _command(where)}
        case TransportType.CLI:
            if config.utcp_mode is UtcpMode.BASE_URL or not where.endswith(_MANUAL_ENDINGS):
                name = config.name
                raise ToolNodeError(
                    f"{where!r} does not say which tools {name} has: describe the program's commands in "
                    f"[sources.{name}] of spindle.toml (`spindle add {name} --cli PROGRAM` drafts them), "
                    "or give the UTCP manual that does"
                )
            return _manual(config, where, (*_PROTOCOLS, "cli"))
        case TransportType.HTTP | TransportType.UTCP:
            is_manual = where.endswith(_MANUAL_ENDINGS) or not _is_url(where)
            if config.utcp_mode is UtcpMode.BASE_URL or (config.utcp_mode is UtcpMode.AUTO and not is_manual):
                return {"kind": "http", "url": where}
            return _manual(config, where, _PROTOCOLS)


def _manual(config: ExternalToolConfig, document: str, protocols: tuple[str, ...]) -> dict[str, Any]:
    values = {**config.env, **config.auth_config}
    variables = {key: value for key, value in values.items() if isinstance(value, str)}
    allowed = protocols if _is_url(document) else (*protocols, "file")
    return {"kind": "utcp", "document": document, "variables": variables, "allowed_protocols": allowed}


def _command(connection: str) -> list[str]:
    """The words of a command. A script is run by its interpreter, as MCP clients do it."""
    try:
        words = shlex.split(connection)
    except ValueError as error:
        raise ToolNodeError(f"the command {connection!r} cannot be split into words: {error}") from None
    for ending, interpreter in _INTERPRETERS.items():
        if words[0].endswith(ending):
            return [*interpreter, *words]
    return words


def _credential(config: ExternalToolConfig) -> dict[str, str] | None:
    given = config.auth_config
    match config.auth_type:
        case AuthType.NONE:
            return None
        case AuthType.OAUTH2_USER:  # the token comes with the call, if there is a place for it
            variable_of(config)
            return None
        case AuthType.API_KEY:
            value = str(given["api_key"])
            auth = {"type": "api_key", "name": str(given.get("header", "X-API-Key")), "value": value}
        case AuthType.COOKIE:
            value = str(given["cookie_value"])
            auth = {"type": "api_key", "name": str(given["cookie_name"]), "value": value, "in": "cookie"}
        case AuthType.BEARER:
            value = str(given["token"])
            auth = {"type": "bearer", "token": value}
    variable = variable_of(config)
    return auth if variable is None else {"type": "bearer", "token": value, "env": variable}


def _is_url(text: str) -> bool:
    return text.strip().lower().startswith(("http://", "https://"))
