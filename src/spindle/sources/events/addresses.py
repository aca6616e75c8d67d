"""Channel addresses, such as `orders/{region}/created`, and the arguments that fill them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from spindle.domain.json_schema import to_json
from spindle.errors import InvalidArgumentsError

_PLACE = re.compile(r"\{([^{}]+)\}")
# By protocol, the characters that would change the depth of an address or make it a pattern.
_MEANING = {"nats": ".*> \t\r\n", "mqtt": "/+#", "rabbitmq": "*#", "redis": "*?[]"}
# By protocol, the wildcard for one value in a subscription.
_ANY = {"memory": "*", "http": "*", "nats": "*", "mqtt": "+"}


def places(address: str) -> list[str]:
    """The parameters of an address, without duplicates."""
    return list(dict.fromkeys(_PLACE.findall(address)))


def filled(address: str, values: Mapping[str, Any], protocol: str) -> str:
    """The address with its parameters replaced by the values, escaped as the protocol needs."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        given = values.get(name)
        text = given if isinstance(given, str) else to_json(given).decode()
        if given is None or not text:
            raise _refused(name, "is missing, and the address of the channel needs it")
        if any(ord(sign) < 32 for sign in text):
            raise _refused(name, "holds a control character")
        if protocol in ("http", "websocket"):
            escaped = quote(text, safe="")
            return escaped if escaped.strip(".") else escaped.replace(".", "%2E")
        special = next((sign for sign in _MEANING.get(protocol, "") if sign in text), None)
        if special is not None:
            raise _refused(name, f"holds {special!r}, which has a meaning of its own in an address")
        return text

    return _PLACE.sub(value, address)


def url_of(server: str, address: str) -> str:
    """The URL of a channel at a server, with the queries of both. What follows a `#` is no part of a
    request."""
    front, _, fixed = server.partition("#")[0].partition("?")
    path, _, own = address.partition("#")[0].partition("?")
    whole = f"{front.rstrip('/')}/{path.lstrip('/')}" if path.strip("/") else front
    query = "&".join(part for part in (fixed, own) if part)
    return f"{whole}?{query}" if query else whole


def covering(address: str, protocol: str) -> str | None:
    """An address that covers all values of its parameters; None if the protocol has no wildcard."""
    if not _PLACE.search(address):
        return address
    sign = _ANY.get(protocol)
    return _PLACE.sub(sign, address) if sign is not None else None


def _refused(parameter: str, problem: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(
        f"the channel's parameter {parameter!r} {problem}",
        details=[{"path": parameter, "problem": problem}],
        sent=False,
    )
