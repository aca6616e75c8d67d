"""Our half of a connection with an MCP server, from JSON to JSON: agreeing on a version, and what every
request has to carry from then on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spindle.domain import apps, trail
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.mcp_protocol import headers, names
from spindle.mcp_protocol.errors import McpError, RequestId, as_request_id
from spindle.sources.mcp.outgoing import as_sent
from spindle.telemetry import tracing
from spindle.version import __version__

if TYPE_CHECKING:
    from spindle.mcp_protocol.headers import HeaderMap
    from spindle.sources.mcp.dispatcher import Coming, LinkDispatcher, SendOptions
    from spindle.sources.mcp.exchange import CallExchange
    from spindle.sources.mcp.peers import Peers
    from spindle.sources.mcp.subscription import ChangeSubscription

logger = logging.getLogger("spindle.mcp")

CLIENT_INFO: JsonObject = {"name": "spindle", "version": __version__}
ANSWERED: dict[str, JsonObject] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {"listChanged": True},
}
"""By what a server may ask its client for, how a client says that it answers it."""
DISCOVER_TIMEOUT = 10.0
_NEGOTIATING = frozenset({"initialize", "server/discover"})
_SWITCHES = {
    "tools": ("listChanged",),
    "prompts": ("listChanged",),
    "resources": ("listChanged", "subscribe"),
    "logging": (),
    "completions": (),
}
TASKS = "io.modelcontextprotocol/tasks"
EXTENSIONS: JsonObject = {TASKS: {}, apps.EXTENSION: {"mimeTypes": [apps.MIME_TYPE]}}
"""The extensions of the protocol that servers may use."""


class AgainstProtocolError(Exception):
    """A server's answer to the opening of a session is not as the protocol has it."""


class McpClient:
    """Agrees with a server on a version, sends requests as that version has them, and takes what the server
    asks and tells. `on_notice` gets the method of each notification that is for the workspace."""

    def __init__(
        self,
        dispatcher: LinkDispatcher,
        peers: Peers,
        answers: Sequence[str],
        on_notice: Callable[[str, JsonObject], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._peers = peers
        self._on_notice = on_notice
        self._able: JsonObject = {name: ANSWERED[name] for name in ANSWERED if name in answers}
        self._able["extensions"] = EXTENSIONS
        self.version: str | None = None
        """The version that was agreed on."""
        self.is_modern = False
        self.capabilities: JsonObject = {}
        """The features that the server declares."""
        self.instructions: str | None = None
        """The server's own words on how its tools are meant to be used."""
        self.server: str | None = None
        """The name and version that the server gives itself."""
        self.repeated: dict[str, HeaderMap] = {}
        """By tool, the arguments that a call repeats as headers."""
        self.subscriptions: dict[RequestId, ChangeSubscription] = {}

    @property
    def spoken(self) -> str:
        """The version that was agreed on; before that, the one that is assumed."""
        return self.version or names.LATEST_HANDSHAKE

    # --- agreeing

    async def initialize(self) -> None:
        """Agrees on a version of the handshake era. Raises AgainstProtocolError if the server's answer makes
        no sense."""
        asked = {
            "protocolVersion": names.LATEST_HANDSHAKE,
            "capabilities": self._able,
            "clientInfo": CLIENT_INFO,
        }
        answer = await self.request("initialize", asked)
        version, who = answer.get("protocolVersion"), answer.get("serverInfo")
        if not isinstance(version, str):
            raise AgainstProtocolError("protocolVersion: it is no text")
        if not is_object(who) or not all(isinstance(who.get(name), str) for name in ("name", "version")):
            raise AgainstProtocolError("serverInfo: it has no name and version")
        about = _about(answer)
        self.server = _named(who)
        if version not in names.HANDSHAKE_VERSIONS:
            raise AgainstProtocolError(f"it wants to speak version {version[:40]!r}")
        self._adopt(version, about, is_modern=False)
        said = {headers.VERSION: version}
        await self._dispatcher.notify("notifications/initialized", None, {"headers": said})

    async def discover(self) -> None:
        """Agrees on a version of the modern era. Raises McpError if the server refuses, and
        AgainstProtocolError if its answer makes no sense."""
        try:
            answer = await self._probe(names.LATEST_MODERN)
        except McpError as error:
            version = _newest(error.data.get("supported")) if is_object(error.data) else None
            if error.code != names.UNSUPPORTED_PROTOCOL_VERSION or version is None:
                raise
            answer = await self._probe(version)
        offered = answer.get("supportedVersions")
        about = _about(answer)
        version = _newest(offered)
        if version is None:
            raise AgainstProtocolError("supportedVersions: there is none that Spindle speaks")
        meta = answer.get("_meta")
        self.server = _named(
            answer.get("serverInfo") or (meta.get(names.SERVER_INFO) if is_object(meta) else None)
        )
        self._adopt(version, about, is_modern=True)

    async def _probe(self, version: str) -> JsonObject:
        said = {headers.VERSION: version, headers.METHOD: "server/discover"}
        options: SendOptions = {"timeout": DISCOVER_TIMEOUT, "cancel_on_abandon": False, "headers": said}
        params = {"_meta": self._envelope(version)}
        return await self._dispatcher.send_raw_request("server/discover", params, options)

    def _adopt(self, version: str, about: tuple[JsonObject, str | None], *, is_modern: bool) -> None:
        self.version, self.is_modern = version, is_modern
        self.capabilities, self.instructions = about

    def _envelope(self, version: str) -> JsonObject:
        return {
            names.PROTOCOL_VERSION: version,
            names.CLIENT_INFO: CLIENT_INFO,
            names.CLIENT_CAPABILITIES: self._able,
        }

    def offers(self, feature: str, switch: str | None = None) -> bool:
        """True if the server declares a feature; with a switch, if that is on."""
        declared = self.capabilities.get(feature)
        return declared is not None and (switch is None or declared.get(switch) is True)

    # --- sending

    def begin_call(self, params: JsonObject, exchange: CallExchange) -> Coming | None:
        """Sends a call of a tool in one step, where it has to carry nothing but this and takes no waiting.
        None: it was not sent, and is a `request` like others."""
        if tracing.active is not None:
            return None
        if self.is_modern:
            if self.repeated.get(params["name"]):
                return None
            options: SendOptions = {}
            self._stamp("tools/call", params, options)
            return self._dispatcher.begin_call(
                as_sent(params, exchange), options.get("headers", {}), exchange
            )
        way = trail.current()
        if way:
            params["_meta"] = {trail.META_KEY: trail.written(way)}
        return self._dispatcher.begin_call(params, {}, exchange)

    async def request(
        self, method: str, params: Mapping[str, Any], options: SendOptions | None = None
    ) -> JsonObject:
        """The result of a request, as it came."""
        sent = dict(params)
        options = {} if options is None else options
        self._stamp(method, sent, options)
        return await self._dispatcher.send_raw_request(method, sent, options)

    async def notify(self, method: str) -> None:
        """Tells the server something, in a session of the handshake era."""
        await self._dispatcher.notify(method, None, {"headers": {headers.VERSION: self.spoken}})

    def _stamp(self, method: str, params: JsonObject, options: SendOptions) -> None:
        """Adds what the version that was agreed on wants every request to carry."""
        if method in _NEGOTIATING:
            options["cancel_on_abandon"] = False
        if self.version is None:
            return
        said = options["headers"] = {headers.VERSION: self.version}
        if not self.is_modern:
            return
        params["_meta"] = {**(params.get("_meta") or {}), **self._envelope(self.version)}
        said[headers.METHOD] = method
        name = params.get(headers.NAMED_BY[method]) if method in headers.NAMED_BY else None
        if isinstance(name, str):
            said[headers.NAME] = headers.encoded(name)
            if method == "tools/call" and (repeated := self.repeated.get(name)):
                said |= headers.argument_headers(repeated, params.get("arguments") or {})

    # --- what the server asks and tells

    async def asked(self, method: str, params: JsonObject | None) -> JsonObject:
        """The answer to a request of the server. Raises McpError for one that is not answered."""
        if method == "ping":
            return {}
        return await self._peers.answer(method, self.spoken, params, self._able)

    def told(self, method: str, params: JsonObject) -> None:
        """Takes note of a notification. Does not wait for anybody."""
        if method == "notifications/message":
            self._peers.log(params)
        elif method != names.RESOURCE_UPDATED or isinstance(params.get("uri"), str):
            self._on_notice(method, params)

    def told_subscriber(self, method: str, params: JsonObject) -> bool:
        """Takes a notification that belongs to a subscription; False if it belongs to none."""
        if not self.subscriptions:
            return False
        if method == "notifications/cancelled":
            subscription = self._subscription(params.get("requestId"))
            if subscription is not None:
                subscription.lose()
            return subscription is not None
        meta = params.get("_meta")
        subscription = self._subscription(meta.get(names.SUBSCRIPTION_ID)) if is_object(meta) else None
        return subscription is not None and subscription.told(method, params)

    def _subscription(self, request_id: Any) -> ChangeSubscription | None:
        key = as_request_id(request_id)
        return self.subscriptions.get(key) if key is not None else None


def _about(answer: JsonObject) -> tuple[JsonObject, str | None]:
    """The features that a server declares, in their form, and its instructions."""
    declared = answer.get("capabilities")
    if not is_object(declared):
        raise AgainstProtocolError("capabilities: they are no object")
    for feature, switches in _SWITCHES.items():
        value = declared.get(feature)
        if value is not None and not is_object(value):
            raise AgainstProtocolError(f"capabilities.{feature}: it is no object")
        for switch in switches:
            if value is not None and not isinstance(value.get(switch), (bool, type(None))):
                raise AgainstProtocolError(f"capabilities.{feature}.{switch}: it is neither true nor false")
    instructions = answer.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise AgainstProtocolError("instructions: they are no text")
    return declared, instructions


def _named(who: Any) -> str | None:
    """The name and version of a server, from what it says of itself."""
    if not is_object(who):
        return None
    return " ".join(str(who[key]) for key in ("name", "version") if who.get(key)) or None


def _newest(offered: Any) -> str | None:
    found = [version for version in names.MODERN_VERSIONS if is_array(offered) and version in offered]
    return found[-1] if found else None
