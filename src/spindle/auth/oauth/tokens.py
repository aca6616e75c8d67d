"""Tokens that are valid now: refreshed ahead of their end and after a refusal, once for all who wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from spindle.auth.oauth.challenge import Challenge, bearer_challenge
from spindle.auth.oauth.clients import configured_client
from spindle.auth.oauth.consent import oauth_settings
from spindle.auth.oauth.discovery import Provider, binding
from spindle.auth.oauth.http import OAuthProblem
from spindle.auth.oauth.token_endpoint import OAuthClient, ask_for_tokens
from spindle.auth.oauth.token_store import Stored, union
from spindle.errors import AuthError, ConnectionFailedError, ServerError, SpindleError

if TYPE_CHECKING:
    from spindle.auth.oauth.parts import OAuthParts
    from spindle.domain.identity import Principal
    from spindle.domain.source import SourceConfig
    from spindle.errors import AuthorizationRequired

RECENT = 300.0
"""A token refused within this many seconds after consent was given: asking again would not help."""

AskUser = Callable[..., Awaitable["AuthorizationRequired"]]
"""Makes the interruption that asks a user for consent: (source, config, principal, scopes)."""


class UserTokens:
    """Returns valid tokens of users, and refreshes them when needed."""

    def __init__(self, parts: OAuthParts, ask_user: AskUser) -> None:
        self._oauth = parts
        self._ask_user = ask_user

    async def token(self, source: str, config: SourceConfig, principal: Principal) -> str:
        stored = await self._usable(source, config, principal)
        if stored is not None and not stored.is_fresh(self._oauth.now()):
            stored = await self._refreshed(stored, config)
        if stored is None:
            raise await self._ask_user(source, config, principal, ())
        missing = [scope for scope in oauth_settings(source, config).scopes if scope not in stored.asked]
        if missing and stored.binding is not None:
            raise await self._ask_user(source, config, principal, union(stored.asked, missing))
        return stored.access_token

    async def token_after(
        self, source: str, config: SourceConfig, principal: Principal, refused: str, error: SpindleError
    ) -> str | None:
        stored = await self._usable(source, config, principal)
        if stored is None:
            raise await self._ask_user(source, config, principal, ())
        if stored.access_token != refused:
            return stored.access_token  # another call, or process, has replaced it meanwhile
        challenge = bearer_challenge(error.challenge) or Challenge()
        more = await self._step_up(source, config, challenge, error.status)
        if any(scope not in union(stored.asked, stored.scopes) for scope in more):
            raise await self._ask_user(source, config, principal, union(stored.asked, more))
        if error.status == 403:
            return None  # all that could be asked for was granted; it is not a matter of tokens
        if stored.refresh_token and not stored.renewed_after_refusal:
            renewed = await self._refreshed(stored, config, after_refusal=True)
            if renewed is not None:
                return renewed.access_token
        elif self._oauth.now() - stored.consented_at < RECENT:
            raise AuthError(
                f"{source} refuses the token that {stored.provider} has just given",
                hint=f"check `resource` and `scopes` in sources.{source}.auth; `spindle auth revoke {source}`"
                " starts over",
                source=source,
                status=error.status,
            )
        else:
            await self._oauth.shelf.delete(stored)
        raise await self._ask_user(source, config, principal, stored.asked)

    async def _step_up(
        self, source: str, config: SourceConfig, challenge: Challenge, status: int | None
    ) -> tuple[str, ...]:
        """The scopes that a refusal asks for."""
        if challenge.scopes:
            return challenge.scopes
        if status == 403 and challenge.error == "insufficient_scope":
            # It does not say which; all that it knows of are a superset.
            return (await self._oauth.discovery.provider(source, config)).scopes
        return ()

    async def _usable(self, source: str, config: SourceConfig, principal: Principal) -> Stored | None:
        stored = await self._oauth.shelf.load(source, principal.id)
        return _renewable(stored, config) if stored is not None and stored.fits(binding(config)) else None

    # --- refreshing

    async def _refreshed(
        self, stored: Stored, config: SourceConfig, *, after_refusal: bool = False
    ) -> Stored | None:
        """The token to use in place of this one; None: only the user can help."""
        if stored.refresh_token is None:
            return stored if stored.is_valid(self._oauth.now()) and not after_refusal else None
        try:
            return await self._oauth.flights.share(
                ("refresh", stored.key), lambda: self._refresh(stored, config, after_refusal)
            )
        except (ServerError, ConnectionFailedError):
            if stored.is_valid(self._oauth.now()) and not after_refusal:
                return stored  # refreshing ahead of time failed; there is time to try again
            raise

    async def _refresh(self, old: Stored, config: SourceConfig, after_refusal: bool) -> Stored | None:
        async with self._oauth.leases.hold(f"oauth refresh {old.key}"):
            stored = await self._oauth.shelf.load(old.source, old.principal)
            if stored is None or stored.binding != old.binding:
                return None
            stored = _renewable(stored, config)
            if stored.access_token != old.access_token and stored.is_fresh(self._oauth.now()):
                return stored  # another process did it while we waited for the lease
            if stored.refresh_token is None:
                return None
            client = await self.client(stored, config)
            if client is None:
                await self._oauth.shelf.delete(stored)
                return None
            form = {
                "grant_type": "refresh_token",
                "refresh_token": stored.refresh_token,
                "resource": stored.resource,
            }
            try:
                grant = await ask_for_tokens(
                    self._oauth.http, stored.token_url, client, form,
                    found_by=stored.found_by, what="to refresh a token",
                )  # fmt: skip
            except OAuthProblem as problem:
                latest = await self._oauth.shelf.load(old.source, old.principal)
                has_changed = latest is not None and latest.access_token != stored.access_token
                if latest is not None and has_changed and latest.fits(binding(config)):
                    return latest  # a process that shares the tokens with us, and no lease, was faster
                return await self._gone(stored, client, problem)
            renewed = stored.renewed(grant, self._oauth.now(), after_refusal=after_refusal)
            renewed = replace(renewed, binding=binding(config))
            await self._oauth.shelf.save(renewed)
            return renewed

    async def _gone(self, stored: Stored, client: OAuthClient, problem: OAuthProblem) -> None:
        """A refusal for good. What a user's new consent can mend is forgotten, the rest is an error."""
        mendable = problem.code == "invalid_grant" or (
            problem.code in ("invalid_client", "unauthorized_client") and client.registered is not None
        )
        if not mendable:
            problem.hint = f"check `client_id` and `client_secret` in sources.{stored.source}.auth"
            raise problem.about(source=stored.source)
        if problem.code != "invalid_grant":
            await self._oauth.clients.forget(client)
        await self._oauth.shelf.delete(stored)

    async def client(self, stored: Stored, config: SourceConfig | None) -> OAuthClient | None:
        """The client that the token was given to; None when it is no longer known, or never was."""
        if not stored.client:
            return None
        known = stored.to_client()
        if known.registered is not None:
            found = await self._oauth.clients.recall(known.registered)
            return found if found is not None and found.id == known.id else None
        auth = oauth_settings(stored.source, config) if config is not None else None
        if auth is not None and auth.client_id == known.id:
            methods = (known.method,) if known.method != "none" else ()
            return configured_client(
                stored.source, auth, Provider("", stored.token_url, auth_methods=methods)
            )
        return known if known.method == "none" else None


def _renewable(stored: Stored, config: SourceConfig) -> Stored:
    """Tokens that the program itself got can be renewed where the settings say how: what a server says of its
    provider is no reason to send a refresh token there."""
    if stored.binding is not None:
        return stored
    auth = oauth_settings(stored.source, config)
    if auth.token_url is None or auth.client_id is None:
        return replace(stored, refresh_token=None)
    method = "client_secret_basic" if auth.client_secret else "none"
    client = OAuthClient(auth.client_id, None, method).to_dict()
    return replace(stored, token_url=auth.token_url, client=client, resource=auth.resource)
