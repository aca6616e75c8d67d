"""Revokes access: at the provider if it supports that (RFC 7009), and here in any case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spindle.auth.oauth.http import OAuthHttp, origin, refused
from spindle.auth.oauth.token_endpoint import OAuthClient, authenticate
from spindle.domain.records import fields_of
from spindle.errors import SpindleError

if TYPE_CHECKING:
    from spindle.auth.oauth.token_store import Stored


@dataclass(frozen=True, slots=True)
class Revoked:
    """The outcome of revoking a user's access."""

    source: str
    principal: str
    at_provider: bool
    """True if the provider was told. Otherwise `problem` says why the tokens may stay valid there."""
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return fields_of(self)


async def revoke_at_provider(http: OAuthHttp, stored: Stored, client: OAuthClient | None) -> Revoked:
    """Revokes tokens at the provider, if it supports that."""

    def done(problem: str | None) -> Revoked:
        return Revoked(stored.source, stored.principal, problem is None, problem)

    if stored.revocation_url is None:
        return done(f"{stored.provider} does not support revocation")
    if client is None:
        return done("the client that it was given to is no longer configured")
    # The refresh token first: many providers end the whole grant with it.
    tokens = {"refresh_token": stored.refresh_token, "access_token": stored.access_token}
    for kind, token in tokens.items():
        if token is None:
            continue
        form = {"token": token, "token_type_hint": kind}
        headers = authenticate(client, form)
        try:
            answer = await http.post_form(stored.revocation_url, form, headers, found_by=stored.found_by)
        except SpindleError as error:
            return done(error.message)
        if answer.status != 200:
            secrets = frozenset({token, client.secret or ""})
            return done(refused(answer, "the revocation", origin(stored.revocation_url), secrets).message)
    return done(None)
