"""Whoever comes back from a provider: proof that it is the user who began.

A link can be sent to somebody else, whose account would then be used by whoever sent it. So an application
says who its user is; or our own page says who asked, wants the code that only they were shown, and knows the
browser again.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urljoin

from spindle.domain.identity import LOCAL
from spindle.errors import AuthError, NotFoundError, PermissionDeniedError

if TYPE_CHECKING:
    from spindle.auth.oauth.parts import OAuthParts
    from spindle.domain.identity import Secret

TRIES = 5
"""Wrong codes after which a link is no longer good."""
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels, so that no word comes about, and no letter that looks like a digit."""


@dataclass(frozen=True, slots=True)
class ConsentAsked:
    """A consent that waits for its user, as the page shows it."""

    principal: str
    source: str
    provider: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoundBrowser:
    """A browser in which the right code was typed: its mark, and the provider's address to go on to."""

    mark: str = field(repr=False)
    url: str = field(repr=False)


def new_code() -> str:
    """Returns a code that a person can read and type."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(8))
    return f"{letters[:4]}-{letters[4:]}"


def page_of(redirect_uri: str, key: str) -> str:
    """Returns the address of our page for a consent: beside the one that users come back to."""
    return f"{urljoin(redirect_uri, 'connect')}?{urlencode({'ticket': key})}"


def require_proof(mode: str, secret: Secret, found: dict[str, Any], browser: str | None) -> None:
    """Raises PermissionDeniedError where nothing shows that it is the user who began."""
    if mode == "anyone" or (mode == "user" and secret.principal == LOCAL.id):
        return
    if mode == "user":
        raise PermissionDeniedError(
            "this login was started by a user, and nothing shows that it is they who come back",
            hint="tell `callback_app` who comes back with `principal_of`, or see `consent` in [auth]",
            source=secret.source,
        )
    known = found.get("browser")
    if known is None or not browser or not hmac.compare_digest(known, _hashed(browser)):
        raise PermissionDeniedError(
            "this login was not started in this browser",
            hint="follow the link that you were given, and type its code",
            source=secret.source,
        )


class BrowserBinding:
    """Binds a consent to the browser of the user who began it."""

    def __init__(self, parts: OAuthParts) -> None:
        self._oauth = parts

    async def asked(self, ticket: str) -> ConsentAsked:
        """Returns what a ticket asks for. Raises NotFoundError where it is none, or no longer good."""
        _, found = await self._open(ticket)
        return ConsentAsked(found["principal"], found["source"], found["provider"], tuple(found["scopes"]))

    async def bind(self, ticket: str, code: str) -> BoundBrowser:
        """Returns the mark for a browser in which this code was typed. Raises PermissionDeniedError for a
        wrong one; after a few of them the link is no longer good."""
        async with self._oauth.leases.hold(f"oauth connect {ticket}"):
            secret, found = await self._open(ticket)
            if not hmac.compare_digest(_plain(code).encode(), _plain(found["code"]).encode()):
                found["tries"] = found.get("tries", 0) + 1
                if found["tries"] >= TRIES:
                    await self._oauth.store.delete_secret("pending", ticket)
                else:
                    await self._save(secret, found)
                raise PermissionDeniedError(
                    "this is not the code", hint="type the one that was shown with the link"
                )
            mark = secrets.token_urlsafe(32)
            found["browser"] = _hashed(mark)
            await self._save(secret, found)
            return BoundBrowser(mark, found["url"])

    async def _open(self, ticket: str) -> tuple[Secret, dict[str, Any]]:
        secret = await self._oauth.store.secret("pending", ticket)
        if secret is None or secret.used:
            raise NotFoundError("this link is not known, or was used before", hint="ask for a new one")
        found = self._oauth.sealer.open(secret.sealed, f"pending {ticket}")
        if found["expires_at"] <= self._oauth.now() or not found.get("code"):
            raise NotFoundError("this link has expired", hint="ask for a new one")
        return secret, found

    async def _save(self, secret: Secret, found: dict[str, Any]) -> None:
        sealed = self._oauth.sealer.seal(found, f"pending {secret.key}")
        changed = replace(secret, sealed=sealed, updated_at=self._oauth.now())
        if not await self._oauth.store.swap_secret(secret, changed):
            raise AuthError("this login was changed by another process", hint="try again")


def _plain(code: str) -> str:
    return "".join(letter for letter in code.upper() if letter.isalnum())


def _hashed(mark: str) -> str:
    return hashlib.sha256(mark.encode()).hexdigest()
