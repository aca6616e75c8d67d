"""Finds the authorisation server of a source, as the MCP authorisation specification says or as its settings
say.

The source names its authorisation server in its protected-resource metadata (RFC 9728), which its
challenge or a well-known place leads to. That server's metadata (RFC 8414, or OpenID Connect's) names
the endpoints, and must be about the very issuer that was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from spindle.auth.oauth.challenge import Challenge, bearer_challenge
from spindle.auth.oauth.http import OAuthHttp, origin
from spindle.domain.bounded import BoundedMap
from spindle.errors import AuthError, ConfigurationError, ServerError

if TYPE_CHECKING:
    from spindle.domain.source import SourceConfig

CACHED_FOR = 600.0
MAX_SCOPES = 100


@dataclass(frozen=True, slots=True)
class Provider:
    """An authorisation server, and the resource that it issues tokens for."""

    name: str
    """As users should read it."""
    token_url: str
    authorization_url: str | None = None
    issuer: str | None = None
    registration_url: str | None = None
    revocation_url: str | None = None
    device_url: str | None = None
    sends_issuer: bool = False
    """It promises to name itself when it sends a user back (RFC 9207)."""
    reads_client_documents: bool = False
    auth_methods: tuple[str, ...] = ()
    knows_offline_access: bool = False
    resource: str | None = None
    scopes: tuple[str, ...] = ()
    """Those that the source asks for."""
    found_by: str | None = None
    """The source whose metadata led here; None where only settings did."""


class Discovery:
    """Finds the providers of sources, and remembers them for a while."""

    def __init__(self, http: OAuthHttp, now: Callable[[], float]) -> None:
        self._http = http
        self._now = now
        self._known: BoundedMap[tuple[str, str], tuple[float, Provider]] = BoundedMap()
        self._locks: BoundedMap[tuple[str, str], asyncio.Lock] = BoundedMap()

    async def provider(self, source: str, config: SourceConfig) -> Provider:
        """Kept for a while; looked up once by all who ask at the same moment."""
        key = (source, binding(config))
        async with self._locks.setdefault(key, asyncio.Lock()):
            until, known = self._known.get(key, (0.0, None))
            if known is not None and self._now() < until:
                return known
            found = await self._find(source, config)
            self._known[key] = (self._now() + CACHED_FOR, found)
            return found

    async def challenge(self, url: str) -> Challenge | None:
        """The source's challenge to a request without a token."""
        answer = await self._http.get(url, found_by=None, follow=False)
        return bearer_challenge(answer.challenge) if answer.status in (401, 403) else None

    async def _find(self, source: str, config: SourceConfig) -> Provider:
        auth = cast(Any, config.auth)
        told = {
            "authorization_url": getattr(auth, "authorization_url", None),
            "token_url": auth.token_url,
            "revocation_url": getattr(auth, "revocation_url", None),
            "device_url": getattr(auth, "device_url", None),
        }
        url = source_url(config)
        is_complete = told["token_url"] and (auth.type == "client_credentials" or told["authorization_url"])
        if is_complete or auth.issuer:
            metadata = (
                await self._server_metadata(auth.issuer, None) if auth.issuer and not is_complete else {}
            )
            # Only MCP servers are known to expect the parameter; some providers refuse what they do not know.
            told_resource = auth.resource if auth.resource is not None or config.kind != "mcp" else url
            provider = _provider(source, metadata, told, auth.issuer, told_resource, (), None)
        elif url is None:
            raise ConfigurationError(
                f"sources.{source}.auth does not say where users give consent",
                hint="set `issuer`, or `authorization_url` and `token_url`",
                source=source,
            )
        else:
            provider = await self._ask(source, url, told, auth.resource)
        if getattr(auth, "provider", None):
            provider = _renamed(provider, auth.provider)
        return provider

    async def _ask(
        self, source: str, url: str, told: dict[str, str | None], resource: str | None
    ) -> Provider:
        challenge = await self.challenge(url) or Challenge()
        described = await self._resource_metadata(url, challenge.resource_metadata)
        if described is None:
            # Servers of the protocol's first version with authorisation are their own authorisation servers.
            issuer, found_resource, scopes = origin(url), url, challenge.scopes
            metadata = await self._server_metadata(issuer, url, is_guess=True)
            if not metadata:
                raise AuthError(
                    f"{source} does not say where its users give consent: no OAuth metadata was found at"
                    f" {origin(url)}",
                    hint=f"set `issuer`, or `authorization_url` and `token_url`, in sources.{source}.auth",
                    source=source,
                )
        else:
            servers = _texts(described.get("authorization_servers"))
            if not servers:
                raise AuthError(
                    f"the OAuth metadata of {source} names no authorisation server",
                    hint=f"set `issuer` in sources.{source}.auth",
                    source=source,
                )
            issuer, found_resource = servers[0], str(described["resource"])
            scopes = challenge.scopes or _texts(described.get("scopes_supported"))
            metadata = await self._server_metadata(issuer, url)
        if "S256" not in _texts(metadata.get("code_challenge_methods_supported")):
            raise AuthError(
                f"{origin(issuer)} does not say that it checks PKCE (S256), which safe consent needs",
                hint=f"if it does all the same, say so: set `issuer = {issuer!r}` in sources.{source}.auth",
                source=source,
            )
        chosen = found_resource if resource is None else resource
        return _provider(source, metadata, told, None, chosen, scopes, url)

    async def _resource_metadata(self, url: str, named: str | None) -> dict[str, Any] | None:
        parts = urlsplit(url)
        place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource"
        path = parts.path.rstrip("/")
        guesses = [place + path, place] if path else [place]
        for candidate in [named] if named else guesses:
            answer = await self._http.get(candidate, found_by=url)
            found = answer.json() if answer.status == 200 else None
            if found is not None and isinstance(found.get("resource"), str):
                if not covers(found["resource"], url):
                    raise AuthError(
                        f"the OAuth metadata at {origin(candidate)} is about {origin(found['resource'])},"
                        f" not about {origin(url)}",
                        hint="if that is right, set the source's `auth.resource` and `auth.issuer`",
                    )
                return found
            if named or answer.status >= 500:
                raise ServerError(
                    f"{origin(candidate)} gave no OAuth metadata: HTTP status {answer.status}",
                    retryable=answer.status >= 500,
                    sent=False,
                )
        return None

    async def _server_metadata(
        self, issuer: str, found_by: str | None, *, is_guess: bool = False
    ) -> dict[str, Any]:
        for candidate in metadata_places(issuer):
            answer = await self._http.get(candidate, found_by=found_by)
            found = answer.json() if answer.status == 200 else None
            if found is None:
                if answer.status >= 500:
                    raise ServerError(
                        f"{origin(issuer)} could not give its OAuth metadata: HTTP status {answer.status}",
                        retryable=True,
                        hint="try again",
                        sent=False,
                    )
                continue
            named = found.get("issuer")
            # A slash at the end is the one difference that innocent servers make.
            if not isinstance(named, str) or named.rstrip("/") != issuer.rstrip("/"):
                raise AuthError(
                    f"the OAuth metadata of {issuer[:200]} is about another issuer ({str(named)[:200]}),"
                    " which may be an attack",
                )
            for key in _ENDPOINTS:
                if found.get(key) is not None:
                    await self._http.check(str(found[key]), found_by=found_by)
            return found
        if is_guess:
            return {}
        raise AuthError(
            f"{origin(issuer)} has no OAuth metadata",
            hint="set `authorization_url` and `token_url` in the source's `auth`",
        )


_ENDPOINTS = (
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
    "device_authorization_endpoint",
)


def _provider(
    source: str,
    metadata: dict[str, Any],
    told: dict[str, str | None],
    issuer: str | None,
    resource: str | None,
    scopes: tuple[str, ...],
    found_by: str | None,
) -> Provider:
    def endpoint(setting: str, key: str) -> str | None:
        found = told.get(setting) or metadata.get(key)
        return found if isinstance(found, str) else None

    token_url = endpoint("token_url", "token_endpoint")
    named = metadata.get("issuer") or issuer
    if token_url is None:
        raise AuthError(
            f"the OAuth metadata for {source} names no token endpoint",
            hint=f"set `token_url` in sources.{source}.auth",
            source=source,
        )
    return Provider(
        name=urlsplit(named or endpoint("authorization_url", "") or token_url).netloc,
        token_url=token_url,
        authorization_url=endpoint("authorization_url", "authorization_endpoint"),
        issuer=named,
        registration_url=endpoint("", "registration_endpoint"),
        revocation_url=endpoint("revocation_url", "revocation_endpoint"),
        device_url=endpoint("device_url", "device_authorization_endpoint"),
        sends_issuer=metadata.get("authorization_response_iss_parameter_supported") is True,
        reads_client_documents=metadata.get("client_id_metadata_document_supported") is True,
        auth_methods=_texts(metadata.get("token_endpoint_auth_methods_supported")),
        knows_offline_access="offline_access" in _texts(metadata.get("scopes_supported")),
        resource=resource or None,
        scopes=scopes,
        found_by=found_by,
    )


def _renamed(provider: Provider, name: str) -> Provider:
    from dataclasses import replace

    return replace(provider, name=name)


def metadata_places(issuer: str) -> list[str]:
    """The URLs at which an issuer may publish its metadata."""
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    places = [
        f"{base}/.well-known/oauth-authorization-server{path}",
        f"{base}/.well-known/openid-configuration{path}",
    ]
    return [*places, f"{base}{path}/.well-known/openid-configuration"] if path else places


def source_url(config: SourceConfig) -> str | None:
    """The URL of the source; None if it is not on the network."""
    for key in ("url", "base_url", "document"):
        found = getattr(config, key, None)
        if isinstance(found, str) and found.startswith(("http://", "https://")):
            return found.partition("#")[0]
    return None


def binding(config: SourceConfig) -> str:
    """A mark of everything that says whom tokens come from and whom they are for. A token is shown only
    under the settings it was obtained with: another server under the same name does not get it."""
    import hashlib

    from spindle.domain.json_schema import canonical

    auth = config.auth
    keys = ("type", "issuer", "authorization_url", "token_url", "client_id", "resource", "audience")
    parts = [source_url(config), *(getattr(auth, key, None) for key in keys)]
    return hashlib.sha256(canonical(parts)).hexdigest()[:32]


def covers(resource: str, url: str) -> bool:
    """True if metadata about `resource` applies to `url`: to the same URL, or one below it."""
    one, other = urlsplit(resource), urlsplit(url)
    if (one.scheme.lower(), one.netloc.lower()) != (other.scheme.lower(), other.netloc.lower()):
        return False
    return (other.path.rstrip("/") + "/").startswith(one.path.rstrip("/") + "/")


def _texts(value: Any) -> tuple[str, ...]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return tuple(item for item in items[:MAX_SCOPES] if isinstance(item, str))
