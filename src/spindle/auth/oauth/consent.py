"""Consent in two phases that share nothing but the store: one process makes a link for a user, and any
process turns the code into tokens when the user comes back."""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from spindle.auth.oauth.browser import new_code, page_of, require_proof
from spindle.auth.oauth.discovery import Provider, binding
from spindle.auth.oauth.http import OAuthProblem, words
from spindle.auth.oauth.token_endpoint import Grant, OAuthClient, ask_for_tokens
from spindle.auth.oauth.token_store import Stored, end_of, union
from spindle.domain.identity import Secret
from spindle.errors import (
    AuthError,
    ConfigurationError,
    InvalidArgumentsError,
    NotFoundError,
    PermissionDeniedError,
    ServerError,
    StoreError,
)

if TYPE_CHECKING:
    from spindle.auth.oauth.parts import OAuthParts
    from spindle.domain.source import OAuthAuth, SourceConfig

EXPIRES_AFTER = 600.0
SHARED_UNTIL = 120.0
"""A link is handed out again as long as this many seconds are left to follow it."""
REMEMBERED_FOR = 24 * 3600.0
"""The seconds for which an expired or used link is told apart from an unknown one."""

# What a provider says when the user may simply follow the link again.
_PASSING = frozenset({"server_error", "temporarily_unavailable"})


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """The link at which a user gives consent, and the scopes that are asked for."""

    source: str
    principal: str
    url: str = field(repr=False)
    provider: str
    scopes: tuple[str, ...]
    state: str = field(repr=False)
    redirect_uri: str
    expires_at: float
    code: str | None = field(default=None, repr=False)
    """The code that the page at the link asks for, where it is ours."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The outcome of a request for consent."""

    source: str
    principal: str
    provider: str
    scopes: tuple[str, ...] = ()
    denied: str | None = None
    """Why there is none: what the provider said, such as that the user said no."""


class Consent:
    """Makes the links for consent, and completes it when the user comes back."""

    def __init__(self, parts: OAuthParts) -> None:
        self._oauth = parts

    # --- the first phase

    async def begin(
        self,
        source: str,
        config: SourceConfig,
        principal: str,
        scopes: Sequence[str],
        redirect_uri: str,
        *,
        by_page: bool = False,
    ) -> AuthorizationRequest:
        """Returns a link. `by_page`: to our own page first, where the settings want that."""
        auth = oauth_settings(source, config)
        by_page = by_page and self._oauth.consent == "browser"
        key = ("begin", source, principal, tuple(scopes), redirect_uri, by_page, binding(config))

        async def work() -> AuthorizationRequest:
            provider = await self._oauth.discovery.provider(source, config)
            wanted = wanted_scopes(auth, provider, scopes)
            async with self._oauth.leases.hold(f"oauth begin {source}:{principal}"):
                same = (wanted, redirect_uri, by_page, binding(config))
                known = await self._pending(source, principal, same)
                return known or await self._begin(
                    source, config, principal, provider, wanted, redirect_uri, by_page
                )

        return await self._oauth.flights.share(key, work)

    async def _pending(
        self, source: str, principal: str, wanted: tuple[tuple[str, ...], str, bool, str]
    ) -> AuthorizationRequest | None:
        """A link to the same that was handed out before and can still be followed."""
        for secret in await self._oauth.store.secrets("pending", source=source):
            if secret.principal != principal or secret.used:
                continue
            try:
                found = self._oauth.sealer.open(secret.sealed, place(secret.key))
            except StoreError:
                continue  # its key is gone; a new link is as good
            by_page = found.get("code") is not None
            same = (tuple(found["scopes"]), found["redirect_uri"], by_page, found["binding"])
            if same == wanted and found["expires_at"] - self._oauth.now() >= SHARED_UNTIL:
                return _request(found)
        return None

    async def _begin(
        self,
        source: str,
        config: SourceConfig,
        principal: str,
        provider: Provider,
        scopes: tuple[str, ...],
        redirect_uri: str,
        by_page: bool,
    ) -> AuthorizationRequest:
        auth = oauth_settings(source, config)
        if provider.authorization_url is None:
            raise ConfigurationError(
                f"{provider.name} does not say where users give consent",
                hint=f"set `authorization_url` in sources.{source}.auth",
                source=source,
            )
        await self._oauth.http.check(provider.authorization_url, found_by=provider.found_by)
        client = await self._oauth.clients.client(source, auth, provider, redirect_uri)
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        found: dict[str, Any] = {
            "source": source,
            "principal": principal,
            "state": state,
            "verifier": verifier,
            "redirect_uri": redirect_uri,
            "issuer": provider.issuer,
            "sends_issuer": provider.sends_issuer,
            "token_url": provider.token_url,
            "revocation_url": provider.revocation_url,
            "provider": provider.name,
            "found_by": provider.found_by,
            "client": client.to_dict(),
            "resource": provider.resource,
            "scopes": list(scopes),
            "binding": binding(config),
            "expires_at": self._oauth.now() + EXPIRES_AFTER,
            "code": new_code() if by_page else None,
        }
        found["url"] = _authorization_url(provider, client, found)
        key = key_of(state)
        forget_at = found["expires_at"] + REMEMBERED_FOR
        sealed = self._oauth.sealer.seal(found, place(key))
        await self._oauth.store.forget_secrets(self._oauth.now())
        await self._oauth.store.save_secret(
            Secret("pending", key, sealed, source, principal, forget_at, updated_at=self._oauth.now())
        )
        return _request(found)

    # --- the second phase

    async def complete(
        self,
        code: str | None,
        state: str,
        iss: str | None,
        error: str | None,
        error_description: str | None,
        principal: str | None,
        browser: str | None = None,
    ) -> Completed:
        key = key_of(state)

        async def work() -> Completed:
            # One at a time, here and in other processes: a code is good for one exchange.
            async with self._oauth.leases.hold(f"oauth complete {key}"):
                secret, found = await self._claim(key, principal)
                if principal is None:
                    require_proof(self._oauth.consent, secret, found, browser)
                stranger = _wrong_issuer(found, iss)
                if stranger is not None:
                    await self._use_up(secret, found)
                    raise AuthError(
                        f"the answer came from {stranger}, not from {found['provider']}, which was asked",
                        hint="this may be an attack; start again only if you trust the link",
                        source=found["source"],
                    )
                if error is not None:
                    return await self._refused(secret, found, error, error_description)
                if not code:
                    raise InvalidArgumentsError(
                        f"{found['provider']} sent the user back with neither a code nor an error"
                    )
                return await self._exchange(secret, found, code)

        # Not shared: of two that bring the same state, one is told that it was used.
        return await self._oauth.flights.share(("complete", key, secrets.token_hex(4)), work)

    async def _claim(self, key: str, principal: str | None) -> tuple[Secret, dict[str, Any]]:
        secret = await self._oauth.store.secret("pending", key)
        if secret is None:
            raise NotFoundError(
                "this login is not known", hint="it was not started here, or long ago: start it again"
            )
        if principal is not None and principal != secret.principal:
            raise PermissionDeniedError(
                "this login was started by another user",
                hint="log in as that user, or start a login of your own",
                source=secret.source,
            )
        found = self._oauth.sealer.open(secret.sealed, place(key))
        if secret.used:
            raise AuthError(
                f"this login at {found['provider']} was completed before: a link works once",
                hint="if access is still missing, start it again",
                source=secret.source,
            )
        if found["expires_at"] <= self._oauth.now():
            raise AuthError(
                f"this login at {found['provider']} has expired: it was open for ten minutes",
                hint="start it again",
                source=secret.source,
            )
        return secret, found

    async def _refused(
        self, secret: Secret, found: dict[str, Any], error: str, description: str | None
    ) -> Completed:
        said = words(error, description, frozenset({found["state"], found["verifier"]}))
        if error in _PASSING:
            raise ServerError(
                f"{found['provider']} could not ask the user: {said}",
                retryable=True,
                hint="follow the same link again",
                source=found["source"],
            )
        await self._use_up(secret, found)
        return Completed(found["source"], found["principal"], found["provider"], denied=said)

    async def _exchange(self, secret: Secret, found: dict[str, Any], code: str) -> Completed:
        client = OAuthClient(**found["client"])
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": found["redirect_uri"],
            "code_verifier": found["verifier"],
            "resource": found["resource"],
        }
        try:
            grant = await ask_for_tokens(
                self._oauth.http,
                found["token_url"],
                client,
                form,
                found_by=found["found_by"],
                what="the login",
            )
        except OAuthProblem as problem:
            # It can never succeed: the code is gone, or was not for us.
            await self._use_up(secret, found)
            if problem.code == "invalid_client":
                await self._oauth.clients.forget(client)
            problem.hint = "start the login again"
            raise problem.about(source=found["source"]) from None
        stored = to_stored(found, client, grant, self._oauth.now())
        await self._oauth.shelf.save(stored)
        await self._use_up(secret, found)
        return Completed(stored.source, stored.principal, stored.provider, stored.scopes)

    async def _use_up(self, secret: Secret, found: dict[str, Any]) -> None:
        """Marks the link as used, and keeps no more of it than is needed to say so."""
        kept = {key: found[key] for key in ("source", "principal", "provider", "scopes", "expires_at")}
        used = replace(
            secret,
            sealed=self._oauth.sealer.seal(kept, place(secret.key)),
            used=True,
            updated_at=self._oauth.now(),
        )
        if not await self._oauth.store.swap_secret(secret, used):
            raise AuthError("this login was completed by another process", source=secret.source)

    async def cancel(self, source: str, principal: str) -> None:
        """Links that were handed out no longer work."""
        for secret in await self._oauth.store.secrets("pending", source=source):
            if secret.principal == principal and not secret.used:
                await self._oauth.store.delete_secret("pending", secret.key)


def oauth_settings(source: str, config: SourceConfig) -> OAuthAuth:
    """The source's OAuth settings; raises ConfigurationError if users do not log in to it."""
    from spindle.domain.source import OAuthAuth

    if getattr(config.auth, "type", None) == "client_credentials":
        raise ConfigurationError(
            f"nobody needs to log in to {source}: Spindle gets its tokens with its own credentials",
            hint=f'for a login of each user set `type = "oauth"` in sources.{source}.auth',
            source=source,
        )
    if not isinstance(config.auth, OAuthAuth):
        raise ConfigurationError(
            f"users do not log in to {source}: its `auth` is not OAuth",
            hint=f'set `auth = {{ type = "oauth" }}` in [sources.{source}] if its server wants it',
            source=source,
        )
    return config.auth


def wanted_scopes(auth: OAuthAuth, provider: Provider, more: Sequence[str]) -> tuple[str, ...]:
    """The scopes of the settings, or else those that the source asks for, with the additional ones."""
    chosen = union(auth.scopes or provider.scopes, more)
    if chosen and not auth.scopes and provider.knows_offline_access:
        return union(chosen, ["offline_access"])  # without it there would be no refresh token
    return chosen


def to_stored(found: dict[str, Any], client: OAuthClient, grant: Grant, now: float) -> Stored:
    """The record of a user's new tokens."""
    return Stored(
        source=found["source"],
        principal=found["principal"],
        access_token=grant.access_token,
        refresh_token=grant.refresh_token,
        obtained_at=now,
        expires_at=end_of(grant, now),
        binding=found["binding"],
        client=client.to_dict(),
        token_url=found["token_url"],
        revocation_url=found["revocation_url"],
        issuer=found["issuer"],
        provider=found["provider"],
        scopes=tuple(found["scopes"]) if grant.scopes is None else grant.scopes,
        asked=tuple(found["scopes"]),
        resource=found["resource"],
        found_by=found["found_by"],
        consented_at=now,
    )


def key_of(state: str) -> str:
    """The key under which a pending consent is stored."""
    return hashlib.sha256(state.encode()).hexdigest()


def place(key: str) -> str:
    """The place in the store that a pending consent is encrypted for."""
    return f"pending {key}"


def _wrong_issuer(found: dict[str, Any], iss: str | None) -> str | None:
    """RFC 9207: who else answered; None when it is right."""
    if iss is None:
        return "somebody who does not say who it is" if found["sends_issuer"] else None
    if found["issuer"] is None:
        return None  # the settings name no issuer to compare with
    return None if iss == found["issuer"] else iss[:200]


def _authorization_url(provider: Provider, client: OAuthClient, found: dict[str, Any]) -> str:
    assert provider.authorization_url is not None
    parts = urlsplit(provider.authorization_url)
    challenge = urlsafe_b64encode(hashlib.sha256(found["verifier"].encode()).digest()).rstrip(b"=").decode()
    # What the settings put into the URL stays, such as `access_type=offline`.
    query = dict(parse_qsl(parts.query, keep_blank_values=True)) | {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": found["redirect_uri"],
        "state": found["state"],
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    if found["scopes"]:
        query["scope"] = " ".join(found["scopes"])
    if found["resource"]:
        query["resource"] = found["resource"]
    if "offline_access" in found["scopes"]:
        query.setdefault("prompt", "consent")  # OpenID Connect gives no refresh token without it
    return urlunsplit(parts._replace(query=urlencode(query), fragment=""))


def _request(found: dict[str, Any]) -> AuthorizationRequest:
    code = found.get("code")
    url = found["url"] if code is None else page_of(found["redirect_uri"], key_of(found["state"]))
    return AuthorizationRequest(
        found["source"], found["principal"], url, found["provider"], tuple(found["scopes"]),
        found["state"], found["redirect_uri"], found["expires_at"], code,
    )  # fmt: skip
