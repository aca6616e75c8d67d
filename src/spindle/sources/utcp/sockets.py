"""Calls of websocket templates, over connections that are kept.

UTCP's messages carry no id, so that calls over one connection take turns, and one that ends before its reply
came takes the connection with it: see `sources/websocket/session.py`, which does all that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from spindle.domain.call import Call, Result
from spindle.domain.json_schema import JsonObject, from_json, to_json
from spindle.errors import InvalidArgumentsError
from spindle.http.request import check_headers
from spindle.sources.parameters import ParameterConfig, as_text
from spindle.sources.websocket.config import Request, WebSocketConfig
from spindle.sources.websocket.session import WebSocketSession

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.tool import Tool
    from spindle.ports.source import Note
    from spindle.sources.utcp.config import UtcpConfig
    from spindle.sources.utcp.templates import WebSocketTemplate

MAX_KEPT = 16
PINGS = 30.0
_PLACE = re.compile(r"UTCP_ARG_([A-Za-z0-9_.-]{1,200}?)_UTCP_(?:ARG|END)")
_MISSING: Final = object()


@dataclass(slots=True)
class _Socket:
    session: WebSocketSession
    users: int = 0


class Sockets:
    """Makes the calls of WebSocket templates over connections that are kept."""

    def __init__(self, name: str, config: UtcpConfig, note: Note) -> None:
        self._name = name
        self._config = config
        self._note = note
        self._kept: dict[tuple[Any, ...], _Socket] = {}

    async def close(self) -> None:
        while self._kept:
            await self._end(self._kept.popitem()[1])

    async def call(
        self,
        template: WebSocketTemplate,
        tool: Tool,
        call: Call,
        credential: Credential,
        *,
        public_only: bool,
        heard_from: Callable[[str | None], None] = lambda _: None,
    ) -> Result:
        """Sends the message of a call; `heard_from` is told the address that answered. Raises InsideError
        where that may be a public one only."""
        url = template.url
        arguments = dict(call.arguments)
        headers = dict(template.headers)
        own = {name: as_text(arguments.pop(name)) for name in template.header_fields if name in arguments}
        headers |= own
        check_headers(headers)
        message = message_of(template.message, arguments)
        key = (
            url,
            template.protocol,
            template.keep_alive,
            tuple(sorted(headers.items())),
            credential.key,
            public_only,
        )
        socket, ended = self._take(key, template, headers, credential, public_only)
        try:
            for other in ended:
                await self._end(other)
            request = Call(call.tool, {"message": message}, call.principal, key=call.key)
            result = await socket.session.invoke(_named(tool), request)
            heard_from(socket.session.peer)
        finally:
            socket.users -= 1
            # Headers of a call's own belong to nobody else.
            if (own or not socket.session.usable) and not socket.users:
                if self._kept.get(key) is socket:
                    del self._kept[key]
                await self._end(socket)
        return _result(template, result)

    def _take(
        self,
        key: tuple[Any, ...],
        template: WebSocketTemplate,
        headers: dict[str, str],
        credential: Credential,
        public_only: bool,
    ) -> tuple[_Socket, list[_Socket]]:
        """The connection for these settings, and those that nobody needs any more. Nothing is awaited, so
        that two calls cannot both make one."""
        ended: list[_Socket] = []
        socket = self._kept.pop(key, None)
        if socket is not None and not socket.session.usable:
            ended += [] if socket.users else [socket]
            socket = None
        if socket is None:
            socket = self._made(template, headers, credential, public_only)
        socket.users += 1
        self._kept[key] = socket  # the last is the one that was used last
        for other in [other for other, kept in self._kept.items() if not kept.users]:
            if len(self._kept) > MAX_KEPT:
                ended.append(self._kept.pop(other))
        return socket, ended

    def _made(
        self, template: WebSocketTemplate, headers: dict[str, str], credential: Credential, public_only: bool
    ) -> _Socket:
        config = WebSocketConfig(
            url=template.url,
            headers=headers,
            subprotocols=(template.protocol,) if template.protocol else (),
            format="text",
            keep_alive=PINGS if template.keep_alive else 0,
            requests={_REQUEST: Request(message="{message}", parameters={"message": ParameterConfig()})},
            max_result_size=self._config.max_result_size,
            connect_timeout=self._config.connect_timeout,
        )
        session = WebSocketSession(self._name, config, credential, self._note, public_only=public_only)
        return _Socket(session)

    async def _end(self, socket: _Socket) -> None:
        await socket.session.__aexit__(None, None, None)


_REQUEST = "call"


def _named(tool: Tool) -> Tool:
    """The tool under the name of the one request that a socket's settings describe."""
    from dataclasses import replace

    return replace(tool, spec=replace(tool.spec, remote_name=_REQUEST))


def _result(template: WebSocketTemplate, result: Result) -> Result:
    if template.response_format != "json":
        return result
    text = result.text
    try:
        value = from_json(text.encode())
    except ValueError:
        # As UTCP has it: what is not JSON is text after all.
        return result
    return Result.of_value(value, text)


# --- messages


def message_of(template: Any, arguments: JsonObject) -> str:
    """The message to send: the template filled in, or without one the arguments as JSON."""
    if template is None:
        return to_json(arguments).decode()
    if isinstance(template, str):
        return (
            _filled_json(template, arguments)
            if template.lstrip()[:1] in ("{", "[")
            else _filled(template, arguments)
        )
    return to_json(_filled_value(template, arguments)).decode()


def _filled_value(template: Any, arguments: JsonObject) -> Any:
    """A value that is one placeholder keeps the argument's type, and is left out with it."""
    if isinstance(template, str):
        match = _PLACE.fullmatch(template)
        return arguments.get(match[1], _MISSING) if match else _filled(template, arguments)
    if isinstance(template, dict):
        pairs = ((key, _filled_value(item, arguments)) for key, item in cast(JsonObject, template).items())
        return {key: item for key, item in pairs if item is not _MISSING}
    if isinstance(template, list):
        items = (_filled_value(item, arguments) for item in cast("list[Any]", template))
        return [item for item in items if item is not _MISSING]
    return template


def _filled(template: str, arguments: JsonObject) -> str:
    return _PLACE.sub(lambda match: as_text(_required(match[1], arguments)), template)


def _filled_json(template: str, arguments: JsonObject) -> str:
    """JSON written as text: between quotes a value is part of that text, elsewhere it is JSON itself."""
    done: list[str] = []
    is_quoted, at = False, 0
    while at < len(template):
        place = _PLACE.match(template, at)
        if place is not None:
            value = _required(place[1], arguments)
            done.append(json.dumps(as_text(value))[1:-1] if is_quoted else json.dumps(value))
            at = place.end()
            continue
        char = template[at]
        if char == "\\" and is_quoted:
            done.append(template[at : at + 2])
            at += 2
            continue
        if char == '"':
            is_quoted = not is_quoted
        done.append(char)
        at += 1
    return "".join(done)


def _required(name: str, arguments: JsonObject) -> Any:
    if name not in arguments:
        raise InvalidArgumentsError(
            f"{name} is missing: the message needs it",
            details=[{"path": name, "problem": "is required"}],
            sent=False,
        )
    return arguments[name]
