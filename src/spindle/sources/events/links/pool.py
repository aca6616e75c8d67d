"""The links of one session: opened when first needed, kept, and replaced when broken."""

from __future__ import annotations

import asyncio
import contextlib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from spindle.errors import ConfigurationError
from spindle.http.origins import CredentialOrigins
from spindle.sources.events.bus import bus_of
from spindle.sources.events.links.port import EventLink
from spindle.sources.events.links.receiver import Receiver
from spindle.sources.events.links.target import Target
from spindle.sources.events.servers import MEMORY, Endpoint

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.sources.events.config import EventsConfig

# The modules by protocol, and the packages that extras install.
_LINKS: Final = {
    "http": ("webhook", "WebhookLink", ()),
    "websocket": ("websocket", "WebSocketLink", ()),
    "nats": ("nats", "NatsLink", ("faststream", "nats")),
    "redis": ("redis", "RedisLink", ("faststream", "redis")),
    "kafka": ("kafka", "KafkaLink", ("faststream", "confluent_kafka")),
    "rabbitmq": ("rabbitmq", "RabbitLink", ("faststream", "aio_pika")),
    "mqtt": ("mqtt", "MqttLink", ("faststream", "zmqtt")),
}


class LinkPool:
    """Opens and keeps one link per server."""

    def __init__(self, source: str, config: EventsConfig, root: Path, credential: Credential) -> None:
        self._source = source
        self._config = config
        self._bus = bus_of(root)
        self._credential = credential
        self._origins = CredentialOrigins(source, (config.url,), ())
        self._receiver = None
        if config.listen is not None:
            secrets = (config.secret,) if config.secret is not None else ()
            self._receiver = Receiver(config.listen, secrets, config.max_result_size, config.allowed_hosts)
        self._links: dict[Endpoint, EventLink] = {}
        self._opening: dict[Endpoint, asyncio.Lock] = {}

    async def get(self, endpoint: Endpoint, *, remote: bool = False) -> EventLink:
        """The link to a server, opened if needed."""
        if endpoint.protocol == MEMORY:
            from spindle.sources.events.links.memory import MemoryLink

            return MemoryLink(self._bus)
        async with self._opening.setdefault(endpoint, asyncio.Lock()):
            known = self._links.get(endpoint)
            if known is not None and known.broken:
                del self._links[endpoint]
                await known.close()
                known = None
            if known is None:
                known = self._links[endpoint] = await self._open(self._target(endpoint, remote=remote))
            return known

    async def close(self) -> None:
        links, self._links = self._links, {}
        async with contextlib.AsyncExitStack() as stack:  # each is left, also if this is cancelled meanwhile
            for link in links.values():
                stack.push_async_callback(link.close)

    def _target(self, endpoint: Endpoint, *, remote: bool) -> Target:
        config = self._config
        self._require_own(endpoint)
        return Target(
            source=self._source,
            endpoint=endpoint,
            credential=self._credential,
            publish_timeout=config.publish_timeout,
            connect_timeout=min(config.connect_timeout, config.publish_timeout),
            max_size=config.max_result_size,
            headers=config.headers,
            secret=config.secret,
            receiver=self._receiver,
            public_only=remote and not config.allow_private,
        )

    def _require_own(self, endpoint: Endpoint) -> None:
        """Raises ConfigurationError for a server that only a document from elsewhere names, where credentials
        would go to it."""
        config = self._config
        settings = config.servers.get(endpoint.name)
        is_named = config.url is None or (settings is not None and settings.url is not None)
        if is_named or not (config.headers or self._credential.key) or self._origins.admit(endpoint.url):
            return
        raise ConfigurationError(
            f"credentials would go to {endpoint.shown}, which only the document of {self._source!r} names",
            hint=f"if it may have them, set sources.{self._source}.servers.{endpoint.name}.url",
            sent=False,
        )

    async def _open(self, target: Target) -> EventLink:
        module, name, packages = _LINKS[target.endpoint.protocol]
        missing = [package for package in packages if find_spec(package) is None]
        if missing:
            protocol = target.endpoint.protocol
            raise ConfigurationError(
                f"{target.endpoint.shown} needs the extra {protocol!r}, which is not installed",
                hint=f"install it: pip install 'spindle-tools[{protocol}]'",
                sent=False,
            )
        kind = cast("type[Any]", getattr(import_module(f"spindle.sources.events.links.{module}"), name))
        link: EventLink = kind(target)
        await link.connect()
        return link
