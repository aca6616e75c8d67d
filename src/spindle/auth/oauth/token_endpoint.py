"""Requests to a token endpoint, and the ways in which a client proves there who it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote_plus

from spindle.auth.oauth.http import OAuthHttp, origin, refused
from spindle.domain.records import fields_of
from spindle.errors import SpindleError
from spindle.http.credentials import basic_header

MAX_TOKEN = 64 * 1024
_SECRETS = ("code", "code_verifier", "refresh_token", "client_secret", "device_code")
"""The parts of a form that no message shows."""
_OTHER_WAY = {"client_secret_basic": "client_secret_post", "client_secret_post": "client_secret_basic"}


_SHOWN_AS_BEARER = ("bearer", "user")
"""Types of tokens that are shown as bearer tokens. The second is Slack's for those of its users."""


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """The client that a provider knows us as."""

    id: str
    secret: str | None = field(default=None, repr=False)
    method: str = "none"
    """The way the secret is sent: client_secret_basic, client_secret_post, or none."""
    registered: str | None = None
    """The key of its registration in the store; None: from the settings, or a metadata document."""

    def to_dict(self) -> dict[str, str | None]:
        return fields_of(self)


@dataclass(frozen=True, slots=True)
class Grant:
    """The tokens that an endpoint gave."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_in: float | None = None
    scopes: tuple[str, ...] | None = None
    """None: those that were asked for."""
    method: str = "none"
    """The way in which the client sent its secret."""


async def ask_for_tokens(
    http: OAuthHttp,
    token_url: str,
    client: OAuthClient,
    form: Mapping[str, str | None],
    *,
    found_by: str | None,
    what: str,
) -> Grant:
    """Asks a token endpoint. Raises OAuthProblem when the provider refuses with a code, and a ServerError
    or ConnectionFailedError for everything that says nothing of the request."""

    async def ask(client: OAuthClient) -> Grant:
        given = {key: value for key, value in form.items() if value is not None}
        headers = authenticate(client, given)
        answer = await http.post_form(token_url, given, headers, found_by=found_by)
        found = answer.json() if answer.status == 200 else None
        grant = _grant(found) if found is not None else None
        if grant is None:
            secrets = frozenset({*(given.get(key, "") for key in _SECRETS), client.secret or ""})
            raise refused(answer, what, origin(token_url), secrets)
        return replace(grant, method=client.method)

    try:
        return await ask(client)
    except SpindleError as refusal:
        other = _OTHER_WAY.get(client.method)
        is_refusal = refusal.status in (200, 400, 401, 404)
        is_unknown = is_refusal and getattr(refusal, "code", "") in ("", "invalid_client")
        if other is None or not is_unknown or client.registered:
            raise
        # A client that somebody registered by hand may be known to show its secret in the other way.
        first = refusal
    try:
        return await ask(replace(client, method=other))
    except SpindleError as refusal:
        raise (refusal if getattr(refusal, "code", "") else first) from None


def authenticate(client: OAuthClient, form: dict[str, str]) -> dict[str, str]:
    """Adds to the form, or returns as headers, what proves who we are."""
    if client.secret and client.method == "client_secret_basic":
        return {"authorization": basic_header(quote_plus(client.id), quote_plus(client.secret))}
    form["client_id"] = client.id
    if client.secret and client.method == "client_secret_post":
        form["client_secret"] = client.secret
    return {}


def _grant(found: dict[str, Any]) -> Grant | None:
    token, kind = found.get("access_token"), found.get("token_type", "bearer")
    if not isinstance(token, str) or not token or len(token) > MAX_TOKEN or not token.isascii():
        return None
    if not token.isprintable() or not isinstance(kind, str) or kind.lower() not in _SHOWN_AS_BEARER:
        return None
    refresh, scope, lifetime = (found.get(key) for key in ("refresh_token", "scope", "expires_in"))
    try:
        seconds = float(lifetime) if isinstance(lifetime, (int, float, str)) else None
    except ValueError:
        seconds = None
    if seconds is not None and not 0 <= seconds < 1e10:
        seconds = None
    return Grant(
        token,
        refresh if isinstance(refresh, str) and 0 < len(refresh) <= MAX_TOKEN else None,
        seconds,
        _scopes(scope) if isinstance(scope, str) and scope.strip() else None,
    )


def _scopes(text: str) -> tuple[str, ...]:
    # GitHub and Slack separate them with commas, which the standard does not.
    return tuple(text.split() if " " in text else text.replace(",", " ").split())
