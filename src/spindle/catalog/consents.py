"""The consents that sources want of each user, as far as listing their tools is concerned.

A source that lists its tools to everybody is listed without a consent, which its calls then ask for. One that
does not is listed for a user who gave theirs; until then it waits for that user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.auth.credentials import is_per_user
from spindle.errors import AuthError, SpindleError
from spindle.remedies import Remedy

if TYPE_CHECKING:
    from spindle.auth.credentials import Credentials
    from spindle.catalog.marks import SourceMarks
    from spindle.catalog.sources import SourceSet
    from spindle.domain.identity import Principal
    from spindle.errors import AuthorizationRequired


class Consents:
    """Says which sources wait for whose consent. `sources` gives those in force at the moment."""

    def __init__(
        self, sources: Callable[[], SourceSet], marks: SourceMarks, credentials: Credentials
    ) -> None:
        self._sources = sources
        self._marks = marks
        self._credentials = credentials

    def asked_for(self) -> list[str]:
        """Returns the sources that want a consent of each user."""
        sources = self._sources()
        return [name for name in sources.names if sources.asks_users(name)]

    async def waiting(self, principal: Principal) -> list[str]:
        """Returns the sources that list their tools only with a consent, which this principal has not given.
        Somebody else may have given theirs."""
        shut = [name for name in self.asked_for() if not self._is_open(name)]
        return [name for name in shut if await self.lacks(name, principal)]

    async def lacks(self, name: str, principal: Principal) -> bool:
        """True if the principal has not given a consent that calls of this source take."""
        try:
            return await self._credentials.lacks_consent(name, self._sources().config(name), principal)
        except SpindleError:
            return False  # settings or a token that cannot be read are no news here: who uses them is told

    async def require(self, name: str, principal: Principal) -> None:
        """Raises the request for a consent that is missing."""
        config = self._sources().config(name)
        if is_per_user(config):
            await self._credentials.for_call(name, config, principal)

    async def is_stale(self, name: str, signature: str, principal: Principal, *, may_interrupt: bool) -> bool:
        """True if a source should be asked for its tools on behalf of this principal. One that failed is not
        asked again until its settings change, and one that wants a consent not before that is given, unless
        the principal may be interrupted for it."""
        marks = self._marks
        if marks.has_failed(name, signature):
            return False
        if marks.is_open(name, signature):
            # A consent may show more than is shown to everybody.
            return not await self.lacks(name, principal)
        if marks.is_listed(name, signature):
            return False
        wants_consent = marks.wants_consent(name, signature) and not may_interrupt
        return not (wants_consent and await self.lacks(name, principal))

    def _is_open(self, name: str) -> bool:
        return self._marks.is_open(name, self._sources().signature(name))


def missing(name: str, asked: AuthorizationRequired) -> AuthError:
    """Returns the error of a source that waits for somebody's consent. Others may read it, so it has neither
    the link nor the code, which are for one user."""
    provider = asked.details.get("provider")
    place = f" at {provider}" if provider else ""
    return AuthError(f"{name} needs your consent{place}", remedy=Remedy("login", name), source=name)
