"""Sessions of browsers: a link that opens one once, the cookie that stands for it, and the mark that every
change has to carry.

They are kept in the store, sealed, so that all processes of a server know them and a sign-out is one
everywhere. What a session stands for is looked at with every request: a token that was revoked, or that moved
to other groups, counts as it is now.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spindle.auth.details import DetailSealer
from spindle.domain.identity import Secret
from spindle.domain.json_schema import from_json, to_json
from spindle.errors import StoreError

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.listening.headers import RequestHeaders
    from spindle.ports.store import SecretStore

SESSION: Final = "spindle.browser_session"
"""The key under which a request's scope has the session by which it was let in."""
CSRF_HEADER: Final = b"x-spindle-csrf"
LINK_LASTS: Final = 600.0
SESSION_LASTS: Final = 12 * 3600.0
_READS: Final = ("GET", "HEAD", "OPTIONS")
_MAX_TEXT: Final = 200


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A person's use of the console in one browser."""

    text: str = field(repr=False)
    """The value of its cookie."""
    token: str | None = field(default=None, repr=False)
    """The token that was shown when it began. None: it began with a link, and is the owner's."""

    @property
    def is_owner(self) -> bool:
        """True if it is the owner's, who came by a link from the workspace's own shell."""
        return self.token is None

    @property
    def csrf(self) -> str:
        """The mark that changes carry. Only pages of the console know it."""
        return hashlib.sha256(f"csrf {self.text}".encode()).hexdigest()[:32]

    def allows(self, method: str, headers: RequestHeaders) -> bool:
        """True if a request only reads, or carries the mark."""
        return method in _READS or hmac.compare_digest(headers.get(CSRF_HEADER).encode(), self.csrf.encode())


class BrowserSessions:
    """Begins, knows and ends sessions."""

    def __init__(
        self,
        app: Spindle,
        *,
        secure: bool = False,
        alone: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`secure`: browsers reach the server over TLS. `alone`: nobody comes in without a session."""
        self._store: SecretStore = app.store
        self._sealer = DetailSealer(app.auth.keys)
        self._now = now
        self.secure = secure
        self.alone = alone
        # Cookies of one host are shared by all its ports, so that each workspace needs a name of its own.
        name = f"spindle-{app.catalog.sources.workspace[:12]}"
        self.cookie = f"__Host-{name}" if secure else name

    async def new_link(self) -> str:
        """Makes the secret part of a link that begins one session of the owner, within ten minutes."""
        return await self._keep("link", None, LINK_LASTS)

    async def follow(self, text: str) -> BrowserSession | None:
        """Begins the session of a link, once. None for a link that was used, has expired or is none."""
        if await self._kept("link", text) is None:
            return None
        if not await self._store.delete_secret("browser", _key("link", text)):
            return None  # somebody else was faster
        return await self.begin(None)

    async def begin(self, token: str | None) -> BrowserSession:
        """Begins a session for somebody who has shown a good token; None: for the owner."""
        await self._store.forget_secrets(self._now())
        return BrowserSession(await self._keep("session", token, SESSION_LASTS), token)

    async def end(self, session: BrowserSession) -> None:
        """Makes a session's cookie good for nothing."""
        await self._store.delete_secret("browser", _key("session", session.text))

    async def of(self, headers: RequestHeaders) -> BrowserSession | None:
        """Returns the session whose cookie a request shows."""
        text = self._shown(headers)
        kept = await self._kept("session", text) if text else None
        return BrowserSession(text, kept["token"]) if kept is not None else None

    def _shown(self, headers: RequestHeaders) -> str:
        found = ""
        for line in headers.all(b"cookie"):
            for part in line.split(";"):
                name, _, value = part.strip().partition("=")
                if name == self.cookie:
                    found = value
        return found if len(found) <= _MAX_TEXT else ""

    def set_cookie(self, session: BrowserSession | None) -> str:
        """The header that gives a browser a session's cookie; None takes it back."""
        value, lasts = (session.text, int(SESSION_LASTS)) if session is not None else ("", 0)
        ending = "; Secure" if self.secure else ""
        return f"{self.cookie}={value}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict{ending}"

    async def _keep(self, what: str, token: str | None, lasts: float) -> str:
        text = secrets.token_urlsafe(32)
        key, now = _key(what, text), self._now()
        sealed = self._sealer.seal(to_json({"token": token}), key)
        await self._store.save_secret(Secret("browser", key, sealed, expires_at=now + lasts, updated_at=now))
        return text

    async def _kept(self, what: str, text: str) -> dict[str, str | None] | None:
        key = _key(what, text)
        found = await self._store.secret("browser", key)
        if found is None or (found.expires_at is not None and found.expires_at <= self._now()):
            return None
        try:
            return from_json(self._sealer.open(found.sealed, key))
        except (StoreError, ValueError):
            return None  # sealed with a key that is gone: the person signs in again


def _key(what: str, text: str) -> str:
    """The place of what a text stands for. Whoever reads the store does not learn the text."""
    return f"{what} {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"
