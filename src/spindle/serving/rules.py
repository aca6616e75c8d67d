"""The rules of access that are in force at one time, and what they refuse."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spindle.errors import ConfigurationError, SpindleError
from spindle.http.addresses import is_loopback
from spindle.listening.addressing import Addressing, network
from spindle.serving.problems import problem, respond
from spindle.serving.resource import METADATA

if TYPE_CHECKING:
    from starlette.types import Scope

    from spindle.auth.clients import KnownClients
    from spindle.calls.rates import RateLimiter
    from spindle.calls.stored_rates import StoredRate
    from spindle.domain.serve import ServeConfig
    from spindle.listening.headers import RequestHeaders
    from spindle.listening.response import Response
    from spindle.serving.exposure import Exposed

MAX_HOSTS, MAX_HOST = 100, 300
"""Names that are remembered, and characters of each."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that the settings say about it, at one time."""

    config: ServeConfig
    clients: KnownClients
    addressing: Addressing
    exposed: Exposed
    rates: RateLimiter | None
    stored: StoredRate | None
    """The same rate, counted for all processes."""
    requests: int
    """Those of one client at a time. Like the next one also in `config`, where every look takes long."""
    body_size: int
    """Bytes of a body that are taken."""
    hosts: set[str] = field(default_factory=set[str])
    """Names of this server that clients have used: few, and the same in nearly every request."""

    def knows(self, host: str) -> bool:
        """True if a Host header names this server."""
        known = self.addressing.knows(host)
        if known and len(host) <= MAX_HOST and len(self.hosts) < MAX_HOSTS:
            self.hosts.add(host)
        return known

    async def taken(self, client: str) -> float | None:
        """Counts a request of a client. Returns the seconds that it has to wait, or None."""
        if self.rates is None:
            return None
        if self.stored is not None:
            with contextlib.suppress(SpindleError):  # then each process counts for itself
                return await self.stored.take(client)
        return self.rates.take(client)


async def is_of(rules: Rules, shown: str | None, client: str) -> bool:
    """True if by these rules a token is good, and this client's."""
    try:
        return (await rules.clients.identify(shown)).id == client
    except SpindleError:
        return False


def refuse_open(clients: KnownClients, host: str) -> None:
    """Raises ConfigurationError where others than this machine would need no token."""
    if not clients.wants_token and not is_loopback(host):
        raise ConfigurationError(
            f"{host} can be reached by others, and no token is required",
            hint="make one with `spindle token create NAME`, set serve.auth_token_env (and that variable), or"
            " listen on 127.0.0.1",
        )


def address_of(scope: Scope) -> str:
    """Names the sender of a request by its address, for rates."""
    client = scope.get("client")
    return f"address {network(str(client[0])) if client else ''}"


def misled(rules: Rules, headers: RequestHeaders, *, any_origin: bool = False) -> Response | None:
    """The response to a request for another server, or of a page that may not call."""
    hosts = headers.all(b"host")
    host = hosts[0] if hosts else ""
    # Two names in one request: we and a proxy before us might each believe another.
    if len(hosts) != 1 or not (host in rules.hosts or rules.knows(host)):
        hint = "add the name to serve.allowed_hosts"
        return respond(problem(421, "permission", f"this server is not called {host[:200]!r}", hint))
    for origin in () if any_origin else headers.all(b"origin"):
        if not rules.addressing.trusts(origin, host):
            message = f"pages of {origin[:200]!r} may not call this server"
            return respond(problem(403, "permission", message, "add it to serve.allowed_origins"))
    return None


def not_from_the_page() -> Response:
    """The response to a change that a browser sends with its cookie, and that no page of the console made."""
    hint = "reload the page; programs show a token instead"
    return respond(problem(403, "permission", "this change does not come from a page of the console", hint))


def too_large(rules: Rules, headers: RequestHeaders) -> Response | None:
    """The response to a request that announces too large a body. The bytes really sent are counted by the
    reader."""
    limit, announced = rules.config.max_body_size, headers.get(b"content-length", "0")
    if not announced.isdecimal() or int(announced[:20]) <= limit:
        return None
    hint = "send less, or raise serve.max_body_size"
    return respond(problem(413, "invalid_arguments", f"the body is larger than {limit} bytes", hint))


async def too_often(rules: Rules, client: str) -> Response | None:
    """The response to a request over the rate of its client, which is counted by this."""
    wait = await rules.taken(client)
    if wait is None:
        return None
    limit = rules.config.rate_limit
    assert limit is not None
    message = f"more than {limit.calls:g} requests in {limit.seconds:g} s"
    body = problem(429, "rate_limited", message, "wait, or ask for a higher serve.rate_limit")
    return respond({**body, "retryable": True, "retry_after": round(wait, 3)})


def asks_for_metadata(scope: Scope) -> bool:
    """True if a request is for what tells clients where tokens come from."""
    path: str = scope["path"]
    return scope["method"] in ("GET", "HEAD") and (path == METADATA or path.startswith(f"{METADATA}/"))
