"""Puts the console of a server together, and makes links to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spindle.app import Spindle
    from spindle.console.app import Console
    from spindle.console.examination import Finding
    from spindle.serving.access import ServingAccess


def link_at(url: str, code: str) -> str:
    """The link to the console of a server. What follows the # is sent nowhere: the page there reads it."""
    return f"{url}/console/enter#{code}"


def make_console(
    app: Spindle, access: ServingAccess, *, alone: bool = False, with_api: bool = False
) -> Console:
    """Puts the console together, and has the server know sessions of browsers. `alone`: nobody comes in
    without one. `with_api`: browsers with a session are given the REST API too."""
    from spindle.console.app import Console
    from spindle.rest.app import make_api
    from spindle.serving.browser_sessions import BrowserSessions

    config = access.config
    secure = config.tls_certificate is not None or (config.url or "").startswith("https:")
    access.sessions = BrowserSessions(app, secure=secure, alone=alone)
    api = make_api(app, access) if with_api else None
    return Console(app, access, access.sessions, api, lambda: _examined(app))


async def _examined(app: Spindle) -> Sequence[Finding]:
    """Returns all that `spindle doctor` finds, in its words."""
    from spindle.cli.findings import DoctorFinding, examine
    from spindle.console.examination import Finding

    found: list[DoctorFinding] = []
    settings = app.settings
    await examine(lambda: settings.reread() if settings.files else settings, (), found.append, lambda _: None)
    return [Finding(item.level, item.subject, item.message, item.fix) for item in found]
