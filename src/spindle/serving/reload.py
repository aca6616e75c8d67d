"""Settings that change while we serve: looked for before a request and now and then, without a watcher."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.catalog.diff import SyncReport
from spindle.errors import SpindleError, UntrustedError
from spindle.serving.exposure import doubts
from spindle.serving.held_back import HeldBack
from spindle.serving.instruction import instruction
from spindle.serving.widening import loosened

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.serve import ServeConfig
    from spindle.ports.source import Note
    from spindle.serving.access import ServingAccess
    from spindle.settings import Settings

logger = logging.getLogger("spindle")

EVERY = 1.0
"""Seconds between two looks at the files."""
_AT_START = ("host", "port", "unix", "unix_mode", "tls_certificate", "tls_key", "tls_client_ca", "access_log")


class Live:
    """Keeps an open workspace and its access control up to date with the settings. Settings with a mistake,
    and those that would open the server to clients without a token, are noted, and the old ones stay in
    force. `given` are settings from the command line, which override the file."""

    def __init__(
        self,
        app: Spindle,
        access: ServingAccess,
        given: Mapping[str, Any],
        note: Note,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._access = access
        self._given = dict(given)
        self._note = note
        self._now = now
        self._mark = app.settings.mark
        self._held_back = HeldBack(app.settings.state_folder)
        self._untrusted = ""
        """The mark of trust when changed settings were refused for want of it."""
        self._late: list[str] = []
        self._looked_at = now()
        self._looking = asyncio.Lock()
        access.on_request = self._look_if_due

    async def run(self) -> None:
        """Checks the settings regularly, because clients want to be told of changes."""
        while True:
            await asyncio.sleep(EVERY)
            await self.look()

    def close(self) -> None:
        """Takes back what was said about settings that are held back."""
        self._held_back.clear()

    def _look_if_due(self) -> Awaitable[None] | None:
        return self.look() if self._now() - self._looked_at >= EVERY else None

    async def look(self) -> None:
        """Take over what changed, at most once in `EVERY` seconds."""
        if self._now() - self._looked_at < EVERY:
            return
        async with self._looking:
            if self._now() - self._looked_at < EVERY:
                return
            self._looked_at = self._now()
            mark = self._app.settings.current_mark()
            trusted_since = self._untrusted not in ("", self._app.settings.trust_mark())
            if mark != self._mark or trusted_since:
                # Also when it fails: what is wrong is said once, until somebody changes it again.
                self._mark = mark
                await self._take_over()

    async def reload(self) -> None:
        """Takes over the settings now, also if nothing seems to have changed: a variable of a file may."""
        async with self._looking:
            self._looked_at = self._now()
            before, self._mark = self._mark, self._app.settings.current_mark()
            await self._take_over("were read again" if before == self._mark else "changed")

    async def _take_over(self, how: str = "changed") -> None:
        before, store = self._access.config, self._app.settings.store
        self._untrusted = ""
        try:
            await self._app.reload(self._adopt)
        except SpindleError as error:
            if isinstance(error, UntrustedError):
                self._untrusted = self._app.settings.trust_mark()
            said = error.hint_for("shell")
            hint = f" ({said})" if said else ""
            self._note(f"the settings {how}, but the old ones stay in force: {error.message}{hint}")
            self._held_back.say(f"{error.message}{hint}")
            return
        except Exception as error:
            logger.error("reading the settings again failed", exc_info=error)
            self._note(f"the settings {how}, but the old ones stay in force: {error!r}")
            return
        self._held_back.clear()
        self._note(f"the settings {how}, and are in force")
        now = self._access.config
        late = [*self._late, *(["store"] if self._app.settings.store != store else [])]
        if late:
            self._note(f"{' and '.join(late)} will be as changed after the next start")
        await self._access.end_revoked()
        if before != now:
            # Other tools may exist for those who listen, though the catalog is the same.
            self._app.catalog.tell(SyncReport(""))
            await warn(self._app, now, self._note)

    def _adopt(self, settings: Settings) -> None:
        wanted = settings.serve().model_copy(update=self._given)
        # Where we listen stays as it is, and who is let in depends on it.
        now = {name: getattr(self._access.config, name) for name in _AT_START}
        self._late = [f"serve.{name}" for name, value in now.items() if getattr(wanted, name) != value]
        instruction(wanted, settings.root)  # raises where it names a file that cannot be read
        further = [] if wanted.wants_token else loosened(self._app.settings.sources, settings.sources)
        self._access.adopt(wanted.model_copy(update=now), further)


async def warn(app: Spindle, config: ServeConfig, note: Note) -> None:
    """Notes unknown tools and groups in the lists."""
    names = [tool.name for tool in await app.tools()]
    for sentence in doubts(config, names, app.catalog.unsynced()):
        note(sentence)
