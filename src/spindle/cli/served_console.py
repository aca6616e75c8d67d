"""Puts the console of a server together, and makes links to it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

from spindle.errors import SpindleError

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
    """Returns all that `spindle doctor` finds. In a process of its own: it opens the store as well, and a
    file of SQLite that one process opens twice and closes once is no longer locked."""
    from spindle.console.examination import Finding

    settings = app.settings
    command = [sys.executable, "-m", "spindle", "doctor", "--json"]
    command += ["--trust"] if settings.is_given else []
    command += ["-w", str(settings.root)] if settings.is_workspace else []
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=settings.root,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    try:
        found = json.loads(said)["findings"]
    except (ValueError, KeyError, TypeError):
        raise SpindleError(
            "the examination came to nothing", hint="`spindle doctor` at the shell says why"
        ) from None
    return [Finding(item["level"], item["subject"], item["message"], item["fix"]) for item in found]
