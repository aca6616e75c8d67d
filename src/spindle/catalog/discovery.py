"""Asks a source for its tools, on somebody's behalf."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spindle.catalog.loops import without_own
from spindle.errors import AuthError, CallTimeoutError, PermissionDeniedError, ServerError, SpindleError

if TYPE_CHECKING:
    from spindle.auth.credentials import Credentials
    from spindle.catalog.connections import Connections
    from spindle.catalog.sources import SourceSet
    from spindle.domain.identity import Credential, Principal
    from spindle.domain.tool import ToolSpec
    from spindle.ports.source import Note


class ToolDiscovery:
    """Asks sources for their tools, with a fresh credential where the first one is refused."""

    def __init__(self, connections: Connections, credentials: Credentials, note: Note) -> None:
        self._connections = connections
        self._credentials = credentials
        self._note = note

    async def of(self, name: str, principal: Principal, sources: SourceSet) -> list[ToolSpec]:
        """Returns the tools that a source has for the principal."""
        config = sources.config(name)
        credential = await self._credentials.for_call(name, config, principal)
        try:
            return await self._list(name, sources, credential)
        except (AuthError, PermissionDeniedError) as error:
            fresh = await self._credentials.after_refusal(name, config, principal, credential, error)
            if fresh is None:
                raise
        return await self._list(name, sources, fresh)

    async def _list(self, name: str, sources: SourceSet, credential: Credential) -> list[ToolSpec]:
        source, config = sources.get(name), sources.config(name)
        async with self._connections.session(name, source, config, credential, own=True) as session:
            try:
                async with asyncio.timeout(config.timeout):
                    specs = await session.discover()
                return without_own(name, specs, sources.workspace, self._note)
            except TimeoutError:
                raise CallTimeoutError(
                    f"{name!r} did not list its tools within {config.timeout:g} s",
                    hint=f"raise sources.{name}.timeout",
                ) from None
            except SpindleError:
                raise
            except Exception as error:
                # A source is somebody else's code: its mistake is its own failure, not that of all.
                raise ServerError(f"{name!r} could not list its tools: {error!r}") from error
