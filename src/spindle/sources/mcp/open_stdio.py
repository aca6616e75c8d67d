"""Opening a session with a server that runs as a process of ours."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.errors import ConnectionFailedError, SpindleError
from spindle.sources.mcp.process import ServerProcess
from spindle.sources.programs.environment import environment

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.ports.source import Note, Notice
    from spindle.sources.mcp.config import McpConfig
    from spindle.sources.mcp.session import McpSession


@contextlib.asynccontextmanager
async def open_stdio(
    name: str,
    config: McpConfig,
    root: Path,
    credential: Credential,
    on_change: Callable[[], None],
    note: Note,
    tell: Notice,
) -> AsyncGenerator[McpSession]:
    """Starts a server as a process and opens a session with it."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            session = await _start(
                stack, name, config, root, credential, on_change, tell, handshake_only=False
            )
        except _ProbeEndedServerError:
            # Some older servers end when asked anything before the handshake. They get it at once.
            await stack.aclose()
            session = await _start(
                stack, name, config, root, credential, on_change, tell, handshake_only=True
            )
            note(f'{name}: speaks only the older handshake; `protocol = "handshake"` saves a start')
        yield session


class _ProbeEndedServerError(Exception):
    """The server ended when it was asked in the modern way."""


async def _start(
    stack: contextlib.AsyncExitStack,
    name: str,
    config: McpConfig,
    root: Path,
    credential: Credential,
    on_change: Callable[[], None],
    tell: Notice,
    *,
    handshake_only: bool,
) -> McpSession:
    env = environment({**config.env, **dict(credential.env)})
    cwd = root / config.cwd if config.cwd else root
    command = (*config.command, *config.args)
    process = await ServerProcess.start(name, command, env, cwd, config.max_result_size)
    stack.push_async_callback(process.stop)
    from spindle.sources.mcp.dispatcher import LinkDispatcher
    from spindle.sources.mcp.session import open_session

    dispatcher = LinkDispatcher(process, config.max_result_size)
    place = f"{name} ({' '.join(config.command[:3])})"
    opening = open_session(name, config, place, dispatcher, on_change, tell, handshake_only=handshake_only)
    try:
        session = await stack.enter_async_context(opening)
    except SpindleError as error:
        if not process.lost:
            raise _with_noise(error, list(dispatcher.noise)) from None
        await process.exit()
        if not handshake_only and config.protocol == "auto" and (process.exit_code or 0) >= 0:
            raise _ProbeEndedServerError from None
        raise _ended_too_soon(name, process) from None
    except asyncio.CancelledError:
        # Time is up. What the server said so far may tell why.
        if not (said := [*dispatcher.noise] or [process.last_words()])[-1]:
            raise
        raise ConnectionFailedError(
            f"{name!r} was not ready within {config.connect_timeout:g} s; so far it only said:\n"
            + _indented("\n".join(said)),
            hint="check that its command starts an MCP server that speaks over stdin and stdout",
            sent=False,
        ) from None
    dispatcher.when_lost(lambda: session.lose(process.epitaph()))
    session.log = process.last_words
    return session


def _ended_too_soon(name: str, process: ServerProcess) -> SpindleError:
    words = process.last_words()
    said = f"; its last output:\n{_indented(words)}" if words else " without a word on stderr"
    return ConnectionFailedError(
        f"{name!r} {process.epitaph()} before it was ready{said}",
        hint="run its command by hand to see more",
        sent=False,
        details={"stderr": words} if words else None,
    )


def _with_noise(error: SpindleError, noise: list[str]) -> SpindleError:
    if noise and error.hint is None:
        error.hint = f"it writes text that is not JSON-RPC to stdout, such as {noise[-1]!r}"
    return error


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()[-12:])
