"""The server of `spindle up`: lets in clients of its own user, and has their commands done one beside the
other, in the workspace that it keeps open."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.errors import SpindleError, UntrustedError
from spindle.threads import in_thread
from spindle.up.commands import NotOursError, OwnOutput, WarmCommand, current
from spindle.up.environment import differing
from spindle.up.messages import PROTOCOL, Message, MessageLines, encoded, is_own
from spindle.up.workspace import ChangedTooMuchError
from spindle.version import __version__

if TYPE_CHECKING:
    from spindle.domain.up import UpConfig
    from spindle.up.workspace import WarmWorkspace

logger = logging.getLogger("spindle.up")

REQUEST_TIMEOUT = 10.0
"""Seconds in which a client has to say what it wants."""
END_TIMEOUT = 10.0
"""Seconds that running commands get to end when the server does."""
MAX_CLIENTS = 256
_RESTART = "`spindle down` and `spindle up` restart it"

Execute = Callable[["WarmCommand", "WarmWorkspace"], int]
"""Executes a command line in a thread and returns its exit code. Raises NotOursError, before it did anything,
if the client has to do it itself."""


class UpServer:
    """Serves the commands of one workspace until it is stopped, or nobody has wanted anything for long."""

    def __init__(
        self,
        workspace: WarmWorkspace,
        config: UpConfig,
        execute: Execute,
        environ: Mapping[str, str],
        output: OwnOutput,
        console: Callable[[], Awaitable[Message]] | None = None,
    ) -> None:
        """`environ` is the environment that it was started with, `output` the descriptors of the process.
        `console` makes a link to the console."""
        self._console = console
        self._uses = 0
        self._workspace = workspace
        self._config = config
        self._execute = execute
        self._environ = environ
        self._output = output
        self._shared: tuple[str, int] | None = None
        self._running: set[WarmCommand] = set()
        self._clients: set[asyncio.Task[None]] = set()
        """Those that are connected."""
        self._busy: set[asyncio.Task[None]] = set()
        """Those whose commands run."""
        self._served = 0
        self._began = time.time()
        self._stopped = asyncio.Event()
        self._why = "stopped"
        self._idle: asyncio.TimerHandle | None = None

    async def run(self, listening: socket.socket) -> None:
        """Serves what comes in until it ends. Its socket is removed first, so that nobody comes any more."""
        place = listening.getsockname()
        accepting = asyncio.create_task(self._accept(listening), name="accepting")
        self._begin_idling()
        stopping = asyncio.create_task(self._stopped.wait(), name="until stopped")
        try:
            await asyncio.wait({accepting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                accepting.result()  # raises what nobody foresaw
        finally:
            stopping.cancel()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
            accepting.cancel()
            await self._end_clients()
            logger.info("ended: %s, after %s commands", self._why, self._served)

    def stop(self, why: str) -> None:
        """Has it end."""
        self._why = why
        self._stopped.set()

    async def _end_clients(self) -> None:
        for command in self._running:
            command.signalled(signal.SIGTERM)
        if self._busy:
            await asyncio.wait(self._busy, timeout=END_TIMEOUT)
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def begin_use(self) -> None:
        """It is used in another way than by a command, until `end_use`."""
        self._uses += 1
        if self._idle is not None:
            self._idle.cancel()

    def end_use(self) -> None:
        """Ends what began with `begin_use`."""
        self._uses -= 1
        self._begin_idling()

    def _begin_idling(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        if self._running or self._uses:
            return
        loop = asyncio.get_running_loop()
        words = f"no command for {self._config.idle_timeout:g} s"
        self._idle = loop.call_later(self._config.idle_timeout, self.stop, words)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                link, _ = await loop.sock_accept(listening)
            except OSError as error:  # out of descriptors
                logger.warning("a client could not be let in: %s", error)
                await asyncio.sleep(0.1)
                continue
            if len(self._clients) >= MAX_CLIENTS or not _is_own(link):
                logger.warning("a client was refused")
                link.close()
                continue
            task = asyncio.create_task(self._serve(link), name="client")
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _serve(self, link: socket.socket) -> None:
        client = _Client(link)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                asked = await client.next()
            if asked is not None:
                await self._answer(client, asked)
        except TimeoutError:
            logger.warning("a client did not say what it wants")
        except (ValueError, OSError) as error:
            logger.warning("a client was not understood: %s", error)
        except Exception:
            logger.exception("a client could not be served")
        finally:
            client.close()

    async def _answer(self, client: _Client, asked: Message) -> None:
        if asked.get("protocol") != PROTOCOL:
            await client.send({"protocol": PROTOCOL, "alone": True, "note": _other("another version")})
        elif asked.get("ask") == "status":
            await client.send({"status": self.status()})
        elif asked.get("ask") == "stop":
            await client.send({"status": self.status()})
            self.stop("asked to")
        elif asked.get("ask") == "console" and self._console is not None:
            try:
                await client.send({"status": await self._console()})
            except SpindleError as error:
                await client.send({"status": {"error": error.to_dict("shell")}})
        else:
            await self._do(client, asked)

    def status(self) -> dict[str, Any]:
        """Describes it to a client that asks."""
        return {
            "pid": os.getpid(),
            "workspace": str(self._workspace.app.settings.root),
            "version": __version__,
            "since": self._began,
            "served": self._served,
            "running": len(self._running),
            "idle_timeout": self._config.idle_timeout,
            "ends_in": self._ends_in(),
        }

    def _ends_in(self) -> float | None:
        """Returns the seconds until it ends if nobody comes; None while a command runs."""
        if self._running or self._uses or self._idle is None:
            return None
        return max(self._idle.when() - asyncio.get_running_loop().time(), 0)

    # --- one command

    async def _do(self, client: _Client, asked: Message) -> None:
        command = WarmCommand(asked)
        try:
            refused = await self._refusal(asked, command)
            if refused is not None:
                await client.send({"alone": True} | ({"note": refused} if refused else {}))
                return
            self._running.add(command)
            if self._idle is not None:
                self._idle.cancel()
            try:
                await client.send({"ready": True})
                answer = await self._done(client, command)
            finally:
                self._running.discard(command)
                self._point_output()
                if not self._running:
                    self._begin_idling()
                    with contextlib.suppress(OSError):  # it may be gone
                        os.chdir(self._workspace.root)
        finally:
            command.close()
        if answer is not None:
            await client.send(answer)

    async def _refusal(self, asked: Message, command: WarmCommand) -> str | None:
        """Says why the client has to do it itself, with words or without; None if we do it."""
        if asked.get("spindle") != __version__:
            return _other(f"Spindle {__version__}")
        if asked.get("python") != [sys.prefix, sys.version]:
            return _other("another Python")
        if command.root != self._workspace.root:
            return ""
        if names := differing(self._environ, command.environ, self._config.ignore_env):
            listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            verb = "differs" if len(names) == 1 else "differ"
            return f"done without `spindle up`, in whose environment {listed} {verb}; {_RESTART}"
        try:
            await self._workspace.require_trust()
            await self._workspace.follow()
        except UntrustedError:
            self.stop("the workspace is no longer trusted")
            return ""
        except NotOursError:
            return ""
        except ChangedTooMuchError as error:
            self.stop(str(error))
            return ""
        return self._moved_to(command.folder, command.umask)

    def _moved_to(self, folder: str, umask: int) -> str | None:
        """Goes to the folder of a command. A process has one, which all commands that run at the same time
        share, and one mask for new files."""
        if self._running and self._shared != (folder, umask):
            where = self._shared[0] if self._shared else ""
            return f"done without `spindle up`, which is busy with a command in {where}"
        try:
            os.chdir(folder)
        except OSError:
            return ""
        os.umask(umask)
        self._shared = (folder, umask)
        return None

    def _point_output(self) -> None:
        self._output.follow([command for command in self._running if command.is_running])

    async def _done(self, client: _Client, command: WarmCommand) -> Message | None:
        """Does the command once its client says so. Returns the last word to it; None if it has gone."""
        async with asyncio.timeout(REQUEST_TIMEOUT):
            said = await client.next()
            while said is not None and "go" not in said:
                _heed(command, said)
                said = await client.next()
        if said is None:
            return None
        command.begin(client.take_descriptors())
        self._point_output()
        began = time.monotonic()
        listening = asyncio.create_task(_listen(client, command), name="client's signals")
        current.set(command)
        task: Any = asyncio.current_task()
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)
        try:
            code = await in_thread(lambda: self._execute(command, self._workspace), f"spindle {command.name}")
        except NotOursError:
            return {"alone": True}
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            self._served += 1
        logger.info("%s: exit code %s after %.2f s", command.name, code, time.monotonic() - began)
        return {"exit": code}


def _is_own(link: socket.socket) -> bool:
    try:
        return is_own(link)
    except OSError:
        return False  # it has already gone


async def _listen(client: _Client, command: WarmCommand) -> None:
    """Passes the client's signals on. When it has gone, nobody waits for the command."""
    with contextlib.suppress(OSError, ValueError):
        while (said := await client.next()) is not None:
            _heed(command, said)
    command.signalled(signal.SIGHUP)


def _heed(command: WarmCommand, said: Message) -> None:
    number: Any = said.get("signal")
    if number in (int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGHUP)):
        command.signalled(number)


def _other(what: str) -> str:
    return f"done without `spindle up`, which runs {what}; {_RESTART}"


class _Client:
    """A connection, with the messages and the descriptors that came over it."""

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self._link = link
        self._incoming = MessageLines()
        self._arrived: list[Message] = []
        self._descriptors: list[int] = []

    async def next(self) -> Message | None:
        """The next message; None at the end."""
        loop = asyncio.get_running_loop()
        while not self._arrived:
            readable = loop.create_future()
            loop.add_reader(self._link, _settle, readable)
            try:
                await readable
            finally:
                loop.remove_reader(self._link)
            data = self._receive()
            if not data:
                return None
            self._arrived += self._incoming.add(data)
        return self._arrived.pop(0)

    def _receive(self) -> bytes:
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        data, descriptors, _, _ = socket.recv_fds(self._link, 65536, 8, flags)
        self._descriptors += descriptors
        if len(self._descriptors) > 3:
            raise ValueError("more than three descriptors")
        return data

    def take_descriptors(self) -> list[int]:
        """Hands the descriptors over."""
        taken, self._descriptors = self._descriptors, []
        return taken

    async def send(self, message: Message) -> None:
        """Sends a message. Raises TimeoutError if the client does not take it."""
        async with asyncio.timeout(REQUEST_TIMEOUT):
            await asyncio.get_running_loop().sock_sendall(self._link, encoded(message))

    def close(self) -> None:
        """Closes the connection, and what was sent over it."""
        self._link.close()
        for descriptor in self.take_descriptors():
            os.close(descriptor)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
