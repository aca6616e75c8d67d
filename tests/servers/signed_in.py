"""A console that this process serves, and a browser with a session, without its scripts."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

import spindle
from servers.running import PATIENCE
from servers.serving import served
from spindle.app import Spindle
from spindle.cli.served_console import make_console
from spindle.domain.serve import ServeConfig
from spindle.serving.access import ServingAccess


class SignedIn(NamedTuple):
    """A browser with a session, without its scripts."""

    app: Spindle
    client: httpx2.AsyncClient
    mark: dict[str, str]


@contextlib.asynccontextmanager
async def signed_in(
    root: Path, config: dict[str, Any] | None = None, *, token: str | None = None
) -> AsyncIterator[SignedIn]:
    """Signs in to the console of the workspace in `root`: as its owner, or with a token."""
    access = ServingAccess.of(ServeConfig.model_validate({"port": 0, "console": True, **(config or {})}), {})
    async with spindle.open(root, visible=access.shows) as app:
        await app.sync()
        console = make_console(app, access, with_api=True)
        assert access.sessions is not None
        async with served(app, access=access, console=console) as url:
            origin = url.removesuffix("/mcp")
            async with httpx2.AsyncClient(base_url=origin, timeout=PATIENCE) as client:
                form = {"token": token} if token else {"code": await access.sessions.new_link()}
                entered = await client.post("/console/enter", data=form, headers={"origin": origin})
                assert entered.status_code == 303
                page = (await client.get("/console")).text
                found = re.search(r'name="csrf" content="(\w{32})"', page)
                assert found is not None
                yield SignedIn(app, client, {"x-spindle-csrf": found[1]})
