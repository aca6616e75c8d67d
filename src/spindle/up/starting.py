"""The beginning of `spindle up`: one for each workspace, in the background, with a log of its own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.errors import ConfigurationError, ConnectionFailedError, from_description
from spindle.owner_only import make_folder
from spindle.up.client import connected
from spindle.up.messages import PROTOCOL, MessageLines, encoded, peer_of
from spindle.up.places import place_of, problem_with, runtime_folder

if TYPE_CHECKING:
    from spindle.settings import Settings

LOG = "up.log"
LONGEST_LOG = 1_000_000
"""Bytes after which a new log is begun at the next start; the one before it is kept."""
START_TIMEOUT = 60.0
LISTEN_TIMEOUT = 5.0
"""Seconds from the start of another server until it listens."""
STOP_TIMEOUT = 20.0
READY_VARIABLE = "_SPINDLE_UP_READY"
"""The descriptor that a server in the background says on that it is there."""


def log_of(settings: Settings) -> Path:
    """The log of a workspace's server."""
    return settings.state_folder / LOG


@contextlib.contextmanager
def listening(root: str) -> Generator[socket.socket | None]:
    """Listens for the commands of a workspace, as the only process that does; None if another one does."""
    folder = Path(runtime_folder())
    make_folder(folder)
    if (problem := problem_with(str(folder))) is not None:
        raise ConfigurationError(
            f"the socket of `spindle up` cannot be kept safe: {problem}",
            hint="set XDG_RUNTIME_DIR to a folder that only you can enter",
        )
    lock = os.open(place_of(root, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            # The system takes it back when the process ends, however that happens.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
            return
        place = place_of(root, "sock")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)  # of one that was killed
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(place)
            os.chmod(place, 0o600)  # the folder is closed to others already
            listener.listen(64)
            listener.setblocking(False)
            try:
                yield listener
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(place)
    finally:
        os.close(lock)


def ask(root: str, what: str) -> dict[str, Any] | None:
    """Returns what the server of a workspace says of itself; None if there is none. `stop` ends it. Raises
    ConnectionFailedError if it does not answer."""
    link = connected(root)
    if link is None:
        return None
    with link:
        incoming = MessageLines()
        try:
            link.sendall(encoded({"protocol": PROTOCOL, "ask": what}))
            while data := link.recv(65536):
                for message in incoming.add(data):
                    return message.get("status", {})
        except (OSError, ValueError) as error:
            pid, _ = peer_of(link)
            raise ConnectionFailedError(
                f"`spindle up` (pid {pid}) does not answer: {error}", hint=f"end it: kill -9 {pid}", sent=True
            ) from None
    return None


def stop(root: str) -> dict[str, Any] | None:
    """Ends the server of a workspace, and returns when it has ended; None if there was none."""
    said = ask(root, "stop")
    if said is None:
        return None
    lock = os.open(place_of(root, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + STOP_TIMEOUT
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return said
            time.sleep(0.02)
    finally:
        os.close(lock)
    raise ConnectionFailedError(
        f"`spindle up` (pid {said.get('pid')}) was asked to end, and still runs",
        hint=f"end it: kill -9 {said.get('pid')}",
        sent=True,
    )


def start(settings: Settings) -> dict[str, Any]:
    """Starts the server in the background, and returns what it says once it serves: `started` is False if
    one was there. Raises ConnectionFailedError if it does not come to that."""
    root, log = str(settings.root), log_of(settings)
    make_folder(log.parent)
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > LONGEST_LOG:
            log.replace(log.with_suffix(".log.1"))
    reading, writing = os.pipe()
    try:
        with open(log, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as output:
            subprocess.Popen(
                # Without the folder that we happen to be in: modules of a stranger could be there.
                [sys.executable, "-P", "-m", "spindle", "up", "--foreground", "-w", root],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=root, start_new_session=True,
                pass_fds=[writing], env=os.environ | {READY_VARIABLE: str(writing)},
            )  # fmt: skip
        os.close(writing)
        writing = -1
        said = _first_line(reading)
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
    if said is None:
        raise ConnectionFailedError(
            "`spindle up` could not start in the background", hint=f"its log says why: {log}", sent=False
        )
    if "error" in said:
        raise from_description(said["error"])
    return said


def reached(settings: Settings) -> socket.socket | None:
    """A connection to the server, which may be just about to listen; None if it has ended again."""
    until = time.monotonic() + LISTEN_TIMEOUT
    while time.monotonic() < until:
        # It may still open the workspace.
        link = connected(str(settings.root), START_TIMEOUT)
        if link is not None:
            return link
        time.sleep(0.02)
    return None


def _first_line(reading: int) -> dict[str, Any] | None:
    data, until = b"", time.monotonic() + START_TIMEOUT
    while not data.endswith(b"\n"):
        if not select.select([reading], [], [], max(until - time.monotonic(), 0))[0]:
            return None
        chunk = os.read(reading, 65536)
        if not chunk:
            return None
        data += chunk
    return json.loads(data)


def take_ready() -> Callable[[dict[str, Any]], None]:
    """Returns what tells whoever started this process in the background that it serves, or another one does.
    The variable is gone then: it is no part of the environment that commands are compared with."""
    descriptor = os.environ.pop(READY_VARIABLE, None)

    def say(said: dict[str, Any]) -> None:
        nonlocal descriptor
        if descriptor is not None:
            number, descriptor = int(descriptor), None
            with contextlib.suppress(OSError):  # it does not wait any longer
                os.write(number, json.dumps(said, default=str).encode() + b"\n")
            os.close(number)

    return say


def log_to(stream: Any) -> None:
    """Has the server's own lines written to a stream, with the time."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("spindle.up")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
