"""Users' access to sources: giving consent, getting tokens, looking at what there is, taking it back.

OAuth itself is loaded when a source wants it; most commands never get there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from spindle.auth.secrets import Secrets
from spindle.domain.identity import LOCAL, Principal, Secret, SecretKind
from spindle.errors import AuthorizationRequired, NotFoundError, SpindleError, StoreError
from spindle.ports.token_store import check_token_store

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.auth.keys import Keys
    from spindle.auth.oauth import AuthorizationRequest, Completed, DeviceLogin, Revoked, TokenInfo
    from spindle.auth.oauth.browser import BoundBrowser, BrowserBinding, ConsentAsked
    from spindle.auth.oauth.client_credentials import ClientTokens
    from spindle.auth.oauth.consent import Consent
    from spindle.auth.oauth.device import DeviceFlow
    from spindle.auth.oauth.parts import OAuthParts, OAuthStore
    from spindle.auth.oauth.tokens import UserTokens
    from spindle.domain.source import SourceConfig
    from spindle.ports.token_store import GrantStore, TokenStore
    from spindle.settings.auth import AuthSettings

DEFAULT_REDIRECT = "http://127.0.0.1:8719/callback"
"""Users come back to this address unless the settings name another: `spindle auth login` listens there."""
KINDS: tuple[SecretKind, ...] = ("token", "pending", "client", "value", "memory")


@dataclass(frozen=True, slots=True)
class Rotated:
    """The outcome of a change of keys."""

    sealed: int
    unreadable: int
    """Secrets that none of the keys opens: they stay as they are, and are of no use."""
    old_keys: int
    """The number of keys that are still kept besides the new one."""


@dataclass(frozen=True, slots=True)
class _OAuth:
    """The ways to a token, and the parts that they share."""

    parts: OAuthParts
    consent: Consent
    browsers: BrowserBinding
    device: DeviceFlow
    users: UserTokens
    own: ClientTokens


class SourceAccess:
    """Gets consent, keeps tokens and renews them; `Credentials` gets its tokens here, and an app shows it as
    `app.auth`. All state is in the store, so that any number of processes can share it."""

    def __init__(
        self,
        store: OAuthStore,
        sealer: Sealer,
        keys: Keys,
        settings: AuthSettings,
        config: Callable[[str], SourceConfig],
        now: Callable[[], float] = time.time,
        token_store: TokenStore | GrantStore | None = None,
    ) -> None:
        """`config` gives the settings of a source. `token_store` keeps users' tokens, if it is given."""
        self._store = store
        self._sealer = sealer
        self.keys = keys
        self._settings = settings
        self.redirect_uri = settings.redirect_uri or DEFAULT_REDIRECT
        self._config = config
        self._now = now
        if token_store is not None:
            check_token_store(token_store)
        self._token_store = token_store
        self.secrets = Secrets(store, sealer, now)
        """The secrets of the workspace."""

    @cached_property
    def _oauth(self) -> _OAuth:
        from spindle.auth.oauth.browser import BrowserBinding
        from spindle.auth.oauth.client_credentials import ClientTokens
        from spindle.auth.oauth.consent import Consent
        from spindle.auth.oauth.device import DeviceFlow
        from spindle.auth.oauth.parts import OAuthParts
        from spindle.auth.oauth.tokens import UserTokens

        parts = OAuthParts.of(self._store, self._sealer, self._settings, self._now, self._token_store)
        users = UserTokens(parts, self._ask_user)
        consent, browsers = Consent(parts), BrowserBinding(parts)
        return _OAuth(parts, consent, browsers, DeviceFlow(parts), users, ClientTokens(parts))

    # --- tokens

    async def token(self, source: str, config: SourceConfig, principal: Principal) -> str:
        """Returns a token that is valid now. Raises AuthorizationRequired if consent is missing."""
        if _is_for_all(config):
            return await self._oauth.own.token(source, config)
        return await self._oauth.users.token(source, config, principal)

    async def token_after(
        self, source: str, config: SourceConfig, principal: Principal, refused: str, error: SpindleError
    ) -> str | None:
        """Returns another token after the source refused this one; None when that would not help."""
        if _is_for_all(config):
            return await self._oauth.own.token(source, config, refused) if error.status == 401 else None
        return await self._oauth.users.token_after(source, config, principal, refused, error)

    async def _ask_user(
        self, source: str, config: SourceConfig, principal: Principal, scopes: Sequence[str]
    ) -> AuthorizationRequired:
        asked = await self._oauth.consent.begin(
            source, config, principal.id, scopes, self.redirect_uri, by_page=True
        )
        code = f"; your code for the page is {asked.code}" if asked.code else ""
        return AuthorizationRequired(
            f"{source} needs your consent at {asked.provider}{code}",
            source=source,
            expires_at=asked.expires_at,
            details={"url": asked.url, "provider": asked.provider, "scopes": list(asked.scopes)},
        )

    async def secret(self, name: str, principal: Principal) -> str:
        """Returns a secret of the workspace for this principal. Raises NotFoundError or
        PermissionDeniedError."""
        return await self.secrets.read(name, principal)

    # --- consent

    async def begin(
        self,
        source: str,
        principal: Principal = LOCAL,
        *,
        scopes: Sequence[str] = (),
        redirect_uri: str | None = None,
    ) -> AuthorizationRequest:
        """Returns a link at which the user gives consent. Asked for the same again, it is the same link."""
        return await self._oauth.consent.begin(
            source, self._config(source), principal.id, scopes, redirect_uri or self.redirect_uri,
            by_page=redirect_uri is None,
        )  # fmt: skip

    async def complete(
        self,
        code: str | None,
        state: str,
        iss: str | None = None,
        *,
        error: str | None = None,
        error_description: str | None = None,
        principal: Principal | None = None,
        browser: str | None = None,
    ) -> Completed:
        """Takes the parameters that the user came back with, to this process or any other. `principal` is
        who comes back, and must be the user who was asked; the owner's own consent needs none. With
        `consent = "browser"` in [auth], the mark of the `browser` shows it instead."""
        return await self._oauth.consent.complete(
            code, state, iss, error, error_description, principal.id if principal else None, browser
        )

    async def consent_asked(self, ticket: str) -> ConsentAsked:
        """Returns what the ticket of a link asks for, for the page that says so."""
        return await self._oauth.browsers.asked(ticket)

    async def bind_browser(self, ticket: str, code: str) -> BoundBrowser:
        """Returns the mark for a browser in which the code of a link was typed, and where it goes on."""
        return await self._oauth.browsers.bind(ticket, code)

    async def begin_device(
        self, source: str, principal: Principal = LOCAL, *, scopes: Sequence[str] = ()
    ) -> DeviceLogin:
        """Returns a code that the user enters on another device to give consent."""
        return await self._oauth.device.begin(
            source, self._config(source), principal.id, scopes, self.redirect_uri
        )

    async def wait_device(self, login: DeviceLogin) -> Completed:
        """Waits until the user has entered the code, or it has expired."""
        return await self._oauth.device.wait(login, asyncio.sleep)

    # --- looking after tokens

    async def list(self, source: str | None = None) -> list[TokenInfo]:
        """Lists who has given access to which sources. Never the tokens themselves."""
        return await self._oauth.parts.shelf.list(source)

    async def needs_login(self, source: str, principal: Principal = LOCAL) -> bool:
        """True if there is no token that could be shown, or refreshed, without the user."""
        from spindle.auth.oauth.discovery import binding

        stored = await self._oauth.parts.shelf.load(source, principal.id)
        if stored is None or not stored.fits(binding(self._config(source))):
            return True
        return stored.refresh_token is None and not stored.is_valid(self._now())

    async def wants_oauth(self, source: str) -> bool:
        """True if the server of a source asks for a token of a kind that OAuth gives."""
        from spindle.auth.oauth.discovery import source_url

        url = source_url(self._config(source))
        challenge = await self._oauth.parts.discovery.challenge(url) if url else None
        return challenge is not None and challenge.resource_metadata is not None

    async def revoke(self, source: str, principal: str = LOCAL.id) -> Revoked | None:
        """Ends a user's access, also to a source that is no longer configured: at the provider if it can be
        told, here in any case. Returns None if there was none."""
        from spindle.auth.oauth.revocation import Revoked, revoke_at_provider

        oauth = self._oauth
        await oauth.consent.cancel(source, principal)
        try:
            stored = await oauth.parts.shelf.load(source, principal)
        except StoreError as error:
            await oauth.parts.shelf.drop(source, principal)
            return Revoked(source, principal, at_provider=False, problem=error.message)
        if stored is None:
            return None
        async with oauth.parts.leases.hold(f"oauth refresh {stored.key}"):
            stored = await oauth.parts.shelf.load(source, principal) or stored
            try:
                client = await oauth.users.client(stored, self._oauth_config(source))
                return await revoke_at_provider(oauth.parts.http, stored, client)
            finally:
                await oauth.parts.shelf.drop(source, principal)

    def _oauth_config(self, source: str) -> SourceConfig | None:
        try:
            config = self._config(source)
        except NotFoundError:
            return None
        return config if getattr(config.auth, "type", None) == "oauth" else None

    async def rotate(self, *, drop_old: bool = False) -> Rotated:
        """Seals everything stored with a new key; where the keys come from the environment, with the first
        of them. Older keys are kept unless `drop_old`: what runs remember is sealed too."""
        if self.keys.is_ours_to_change:
            self.keys()  # made now, if there was none
            self.keys.add()
        self._sealer.reload()
        sealed = unreadable = 0
        for kind in KINDS:
            for secret in await self._store.secrets(kind):
                if await self._reseal(secret):
                    sealed += 1
                else:
                    unreadable += 1
        if drop_old and self.keys.is_ours_to_change:
            self.keys.keep_first()
            self._sealer.reload()
        return Rotated(sealed, unreadable, len(self.keys()) - 1)

    async def _reseal(self, secret: Secret) -> bool:
        found: Secret | None = secret
        while found is not None:
            try:
                fresh = replace(found, sealed=self._sealer.reseal(found.sealed))
            except StoreError:
                return False
            if await self._store.swap_secret(found, fresh):
                return True
            # It was changed meanwhile, by a refresh perhaps: what is there now is sealed in its place.
            found = await self._store.secret(found.kind, found.key)
        return True

    async def close(self) -> None:
        """Ends what still runs in the background, and closes the HTTP client."""
        if "_oauth" in self.__dict__:
            await self._oauth.parts.flights.close()
            await self._oauth.parts.http.close()


def _is_for_all(config: SourceConfig) -> bool:
    return getattr(config.auth, "type", None) == "client_credentials"
