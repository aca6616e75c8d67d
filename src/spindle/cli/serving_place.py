"""The place at which `spindle serve` listens: an address, a Unix socket, or a socket of systemd."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

    from spindle.cli.context import CliContext
    from spindle.domain.serve import ServeConfig
    from spindle.listening.systemd import ServiceManager
    from spindle.listening.tls import ServerTls
    from spindle.serving.access import ServingAccess


@dataclass(slots=True)
class ServingPlace:
    """An open socket, and what belongs to it."""

    listening: socket.socket
    url: str
    manager: ServiceManager
    tls: ServerTls | None

    @property
    def context(self) -> ssl.SSLContext | None:
        """The TLS of connections; None for those without."""
        return self.tls.context if self.tls is not None else None


@contextlib.asynccontextmanager
async def serving_place(
    cli: CliContext, config: ServeConfig, access: ServingAccess
) -> AsyncGenerator[ServingPlace]:
    """Listens where the settings say, as long as this lasts, and reads a changed certificate."""
    from spindle.listening.server import address_of
    from spindle.listening.systemd import ServiceManager

    tls = _tls(cli, config)
    with contextlib.ExitStack() as opened:
        listening = _listen(opened, cli, config, access)
        url = address_of(listening, config.host, "https" if tls is not None else "http")
        place = ServingPlace(listening, url, ServiceManager(), tls)
        looking = asyncio.create_task(tls.run(cli.output.note)) if tls is not None else None
        try:
            yield place
        finally:
            if looking is not None:
                looking.cancel()


def _listen(
    opened: contextlib.ExitStack, cli: CliContext, config: ServeConfig, access: ServingAccess
) -> socket.socket:
    from spindle.listening.server import listen
    from spindle.listening.systemd import inherited_socket
    from spindle.listening.unix import listen_unix

    given = inherited_socket() if cli.worker is None else socket.socket(fileno=cli.worker[0])
    if given is None and config.unix is not None:
        mode = int(config.unix_mode, 8)
        if mode & 0o077:
            access.require_for(f"{config.unix} (mode {config.unix_mode})")
        return opened.enter_context(listen_unix(Path(config.unix), mode))
    listening = opened.enter_context(given or listen(config.host, config.port))
    if listening.family != socket.AF_UNIX:
        access.require_for(listening.getsockname()[0])
    return listening


def _tls(cli: CliContext, config: ServeConfig) -> ServerTls | None:
    if config.tls_certificate is None:
        if config.tls_key is not None or config.tls_client_ca is not None:
            from spindle.errors import ConfigurationError

            raise ConfigurationError(
                "there is a key or a CA for TLS, and no certificate", hint="set serve.tls_certificate"
            )
        return None
    from spindle.listening.tls import ServerTls, TlsFiles

    root = Path() if cli.once is not None else cli.settings().root
    files = (config.tls_certificate, config.tls_key, config.tls_client_ca)
    certificate, key, ca = (None if file is None else root / Path(file).expanduser() for file in files)
    assert certificate is not None
    return ServerTls(TlsFiles(certificate, key, ca))


@contextlib.contextmanager
def reloaded_by_signal(
    cli: CliContext, place: ServingPlace, reload: Callable[[], Awaitable[None]]
) -> Generator[None]:
    """Has SIGHUP read settings and certificate again, meanwhile. If a terminal was there and is gone, the
    signal says so, and ends the server as it does any program."""
    loop, had_terminal, task = asyncio.get_running_loop(), _has_terminal(), asyncio.current_task()
    assert task is not None
    running: set[asyncio.Task[None]] = set()

    async def read_again() -> None:
        place.manager.reloading()
        if place.tls is not None:
            place.tls.look(cli.output.note)
        await reload()
        place.manager.ready(f"serving on {place.url}")

    def heard() -> None:
        if had_terminal and not _has_terminal():
            cli.ended_by = signal.SIGHUP
            task.cancel()
            return
        reading = loop.create_task(read_again(), name="reading the settings again")
        running.add(reading)
        reading.add_done_callback(running.discard)

    try:
        loop.add_signal_handler(signal.SIGHUP, heard)
    except (ValueError, RuntimeError):  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
