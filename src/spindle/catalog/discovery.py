"""Asks a source for its tools, on somebody's behalf."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spindle.catalog.loops import without_own
from spindle.catalog.repeated import RepeatedSecrets
from spindle.domain.identity import NO_CREDENTIAL
from spindle.domain.visible import visible
from spindle.errors import (
    AuthError,
    CallTimeoutError,
    ClientError,
    ConnectionFailedError,
    PermissionDeniedError,
    ServerError,
    SpindleError,
)
from spindle.threads import in_turn, time_of_source

if TYPE_CHECKING:
    from spindle.auth.credentials import Credentials
    from spindle.catalog.connections import Connections
    from spindle.catalog.sources import SourceSet
    from spindle.domain.identity import Credential, Principal
    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import ToolSpec
    from spindle.ports.source import Note


MAX_INSTRUCTIONS = 4000
"""Characters that are kept of what a source says of the use of its tools. Every client reads them."""
MAX_SERVER = 120
"""Characters that are kept of a server's name and version."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """The tools that a source has."""

    specs: list[ToolSpec]
    openly: bool = False
    """True if nobody's consent was needed to list them, though calls take it."""
    instructions: str | None = None
    """The words of the source on how they are meant to be used: the beginning, if it says much."""
    server: str | None = None
    """The name and version of the program behind the source."""


class ToolDiscovery:
    """Asks sources for their tools, with a fresh credential where the first one is refused."""

    def __init__(self, connections: Connections, credentials: Credentials, note: Note) -> None:
        self._connections = connections
        self._credentials = credentials
        self._note = note

    async def of(
        self, name: str, principal: Principal, sources: SourceSet, *, openly: bool = True
    ) -> Discovered:
        """Returns the tools that a source has for the principal. A consent that calls take, and that the
        principal has not given, is done without if the source allows it, unless `openly` is False. Raises
        AuthorizationRequired if it does not."""
        config = sources.config(name)
        if openly and await self._credentials.lacks_consent(name, config, principal):
            try:
                listed = await self._list(name, sources, NO_CREDENTIAL)
            except SpindleError as error:
                if not _may_want_token(config, error):
                    raise
            else:
                # No tools at all is how some refuse: a consent may show that there are others.
                if listed.specs:
                    return replace(listed, openly=True)
        credential = await self._credentials.for_call(name, config, principal)
        try:
            return await self._list(name, sources, credential)
        except (AuthError, PermissionDeniedError) as error:
            fresh = await self._credentials.after_refusal(name, config, principal, credential, error)
            if fresh is None:
                raise
        return await self._list(name, sources, fresh)

    async def _list(self, name: str, sources: SourceSet, credential: Credential) -> Discovered:
        source, config = sources.get(name), sources.config(name)
        async with self._connections.session(name, source, config, credential, own=True) as session:
            try:
                if sources.local_signature(name) is not None:
                    sources.require_trust()  # code of the workspace is read again in an open session
                async with asyncio.timeout(config.timeout) as limit:
                    token = time_of_source.set(limit)
                    try:
                        specs = await session.discover()
                    finally:
                        time_of_source.reset(token)
                taken = without_own(name, specs, sources.workspace, self._note)
                secrets = RepeatedSecrets(credential.secrets | sources.named_secrets(name))
                said, server = _shortened(session.instructions), _shortened(session.server, MAX_SERVER)
                return Discovered(
                    await in_turn(secrets.without, taken) if secrets.are_known else taken,
                    instructions=said and secrets.hidden_in(said),
                    server=server and secrets.hidden_in(server),
                )
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


def _shortened(text: str | None, most: int = MAX_INSTRUCTIONS) -> str | None:
    if not isinstance(text, str) or not text.strip():
        return None
    shown = visible(text.strip())
    return shown if len(shown) <= most else f"{shown[:most]} …"


def _may_want_token(config: SourceConfig, error: SpindleError) -> bool:
    """True if a token may be all that was missing. A program that is not given the token in its environment
    has no status to say so with: it ends, or complains in its own way."""
    if isinstance(error, (AuthError, PermissionDeniedError)):
        return True
    in_environment = getattr(config.auth, "env", None) is not None
    return in_environment and isinstance(
        error, (CallTimeoutError, ClientError, ConnectionFailedError, ServerError)
    )
