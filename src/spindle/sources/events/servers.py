"""Chooses the server of an operation, and resolves its address."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError, did_you_mean
from spindle.settings.expand import expand_text, has_reference
from spindle.sources.events.config import EventsConfig
from spindle.sources.events.operations import EventServer

MEMORY: Final = "memory"
# Names of protocols in documents, and our names for them.
PROTOCOLS: Final = {
    "memory": MEMORY, "in-process": MEMORY, "inprocess": MEMORY,
    "http": "http", "https": "http", "ws": "websocket", "wss": "websocket",
    "nats": "nats", "redis": "redis", "rediss": "redis", "kafka": "kafka", "kafka-secure": "kafka",
    "amqp": "rabbitmq", "amqps": "rabbitmq", "mqtt": "mqtt", "mqtts": "mqtt", "secure-mqtt": "mqtt",
    "mqtt5": "mqtt",
}  # fmt: skip
_SECURE: Final = {"https", "wss", "rediss", "kafka-secure", "amqps", "mqtts", "secure-mqtt", "tls"}
_VARIABLE = re.compile(r"(?<!\$)\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server, ready to connect to. The URL may hold secrets; `shown` does not."""

    name: str
    protocol: str
    url: str
    secure: bool = False
    version: str | None = None

    @property
    def parts(self) -> SplitResult:
        return urlsplit(self.url)

    @property
    def shown(self) -> str:
        if self.protocol == MEMORY:
            return "this process"
        return f"{self.name} ({self.parts.scheme}://{self.parts.netloc.rpartition('@')[2]})"


def chosen(servers: list[EventServer], config: EventsConfig, source: str) -> EventServer:
    """The server to use: the one that the settings name, else the first with a known protocol."""
    if not servers:
        return EventServer(MEMORY, MEMORY, "")
    wanted = [server for server in servers if config.server in (None, server.name)]
    for server in wanted:
        overridden = config.servers.get(server.name)
        scheme = urlsplit(overridden.url).scheme if overridden and overridden.url else ""
        if PROTOCOLS.get(scheme) or PROTOCOLS.get(server.protocol):
            return server
    if not wanted:
        names = [server.name for server in servers]
        hint = did_you_mean(config.server or "", names, f"it has {', '.join(names)}")
        raise ConfigurationError(
            f"it has no server {config.server!r}, which sources.{source}.server names; {hint}"
        )
    spoken = ", ".join(sorted({server.protocol or "none" for server in wanted}))
    raise ConfigurationError(
        f"the protocol of its server is not known here: {spoken}; "
        f"set sources.{source}.servers.{wanted[0].name}.url to reach it by another"
    )


def to_metadata(server: EventServer) -> JsonObject:
    """The data that a call needs to find the server. Refuses a password, which would get into the store."""
    if _holds_password(server.url):
        raise ConfigurationError(
            f"the address of server {server.name} holds a password; "
            "write it as ${VARIABLE}, or set `auth` of the source"
        )
    found: JsonObject = {"name": server.name, "protocol": server.protocol, "url": server.url}
    if server.variables:
        found["variables"] = server.variables
    if server.version:
        found["version"] = server.version
    return found


def endpoint(
    server: Mapping[str, Any], config: EventsConfig, source: str, *, remote: bool, environ: Mapping[str, str]
) -> Endpoint:
    """The server's address with its variables filled in."""
    name = str(server["name"])
    settings = config.servers.get(name)
    url = settings.url if settings and settings.url else ""
    if not url:
        url = str(server["url"])
        variables = {**server.get("variables", {}), **(settings.variables if settings else {})}
        # A remote document must not send values of the environment around.
        if has_reference(url) and remote:
            raise ConfigurationError(
                f"the address of server {name} uses a variable of the environment, which a remote "
                "document may not do",
                hint=f"set sources.{source}.servers.{name}.url",
                sent=False,
            )
        url = _VARIABLE.sub(lambda match: _value(match[1], variables, name, source), url)
        url = expand_text(url, environ, f"the address of server {name}", source)
    scheme = urlsplit(url).scheme if "://" in url else ""
    protocol = PROTOCOLS.get(scheme) or PROTOCOLS.get(str(server["protocol"]), "")
    if not protocol:
        raise ConfigurationError(
            f"the address of server {name} has an unknown protocol: {scheme or url!r}",
            hint=f"correct it, or sources.{source}.servers.{name}.url; known are {', '.join(PROTOCOLS)}",
            sent=False,
        )
    return Endpoint(name, protocol, url, scheme in _SECURE, server.get("version"))


def process_environment() -> Mapping[str, str]:
    """The environment of this process."""
    return os.environ


def _holds_password(url: str) -> bool:
    user, at, _ = url.partition("://")[2].partition("/")[0].rpartition("@")
    password = user.partition(":")[2]
    return bool(at and password and not has_reference(password) and not _VARIABLE.search(password))


def _value(variable: str, variables: Mapping[str, str], server: str, source: str) -> str:
    if variable not in variables:
        raise ConfigurationError(
            f"the address of server {server} has a place for {variable!r}, and no value for it",
            hint=f"set sources.{source}.servers.{server}.variables.{variable}",
            sent=False,
        )
    return variables[variable]
