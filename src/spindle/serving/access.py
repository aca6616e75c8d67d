"""Who may come in: the token, the name by which the server is addressed, and the page that asks."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from spindle.domain.identity import LOCAL, Principal
from spindle.errors import ConfigurationError, suggest
from spindle.serving.problems import problem, respond

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from spindle.domain.json_schema import JsonObject
    from spindle.domain.serve import ServeConfig

PRINCIPAL = "spindle.principal"
"""The key under which a request's scope says on whose behalf it acts."""
CLIENT = Principal("client")
"""Who shows the server's one token."""
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="spindle"'}


def wanted_token(config: ServeConfig, environ: Mapping[str, str] | None = None) -> str | None:
    """The token that clients must show. A variable that is named and not set is an error: a server
    must never be open by accident."""
    if config.auth_token_env is None:
        return config.auth_token
    environ = os.environ if environ is None else environ
    token = environ.get(config.auth_token_env, "").strip()
    if not token:
        meant = suggest(config.auth_token_env, environ)
        raise ConfigurationError(
            f"serve.auth_token_env names the variable {config.auth_token_env}, which is not set",
            hint=f"did you mean {meant}?" if meant else f"export {config.auth_token_env}=…",
        )
    return token


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one server. `host` is where it listens."""

    host: str
    token: str | None = None
    names: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, config: ServeConfig, environ: Mapping[str, str] | None = None) -> Access:
        token = wanted_token(config, environ)
        names = {name.lower() for name in (config.host, *config.allowed_hosts)}
        if config.url is not None:
            names.add((urlsplit(config.url).hostname or "").lower())
        origins = frozenset(origin.rstrip("/").lower() for origin in config.allowed_origins)
        made = cls(config.host, token, frozenset(names), origins)
        made.require_for(config.host)
        return made

    def require_for(self, host: str) -> None:
        """Refuse to be open to others than this machine without a token. Also asked with the address
        that a name turned out to lead to."""
        if self.token is None and not is_loopback(host):
            raise ConfigurationError(
                f"{host} can be reached by others, and no token is wanted of them",
                hint="set serve.auth_token_env (and that variable), or listen on 127.0.0.1",
            )

    def refusal(self, headers: Headers) -> tuple[JsonObject, Mapping[str, str]] | None:
        """Why a request is not let in, if it is not."""
        host = headers.get("host", "")
        if not self._knows(host):
            # A page that makes its own name point at us would otherwise pass for one of ours.
            hint = "add the name to serve.allowed_hosts"
            return problem(421, "permission", f"this server is not called {host[:200]!r}", hint), {}
        origin = headers.get("origin")
        if origin is not None and not self._trusts(origin, host):
            message = f"pages of {origin[:200]!r} may not call this server"
            return problem(403, "permission", message, "add it to serve.allowed_origins"), {}
        if self.token is not None and not self._is_shown(headers, self.token):
            body = problem(401, "auth", "a valid bearer token is needed", "send Authorization: Bearer …")
            return body, _CHALLENGE
        return None

    @property
    def principal(self) -> Principal:
        return LOCAL if self.token is None else CLIENT

    def _knows(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        if not name:
            return False
        if name in self.names:
            return True
        if is_loopback(self.host):
            return is_loopback(name)
        # No name leads to an address that is written out but that address itself.
        return _is_address(name)

    def _trusts(self, origin: str, host: str) -> bool:
        own = {f"http://{host}".lower(), f"https://{host}".lower()}
        return origin.lower() in own | self.origins

    @staticmethod
    def _is_shown(headers: Headers, token: str) -> bool:
        given = headers.getlist("authorization")
        scheme, _, shown = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        # Digests have one length, so that the time of comparing tells nothing.
        same = hmac.compare_digest(_digest(shown.strip()), _digest(token))
        return same and scheme.lower() == "bearer"


class Guard:
    """Lets requests through to an app by the rules of `Access`, on every path and method."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refused = self._access.refusal(Headers(scope=scope))
            if refused is not None:
                await respond(*refused)(scope, receive, send)
                return
            scope[PRINCIPAL] = self._access.principal
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        await self._app(scope, receive, send)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
