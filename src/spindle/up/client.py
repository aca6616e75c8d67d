"""The client's side of a warm command: finds the workspace's server, hands it the command with our standard
streams, passes signals on, and returns the exit code.

Imports as little as it can, and decides nothing that the server can decide: one that cannot do the command
exactly as we would says so before it begins.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from spindle.up.places import named_workspace, nearest_workspace, place_of, problem_with, runtime_folder
from spindle.version import __version__

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from spindle.up.messages import Message

COMMANDS = frozenset({"agent", "ask", "call", "run", "search", "sources", "tools"})
PATIENCE = 15.0
"""Seconds in which a server has to say that it takes the command. Nothing has begun by then."""
CANCELLED = 130
IN_DOUBT = 7
OF_SPINDLE = ("SPINDLE_TRAIL", "SPINDLE_STARTED")
"""Variables of programs that a workspace has started: they are parts of its calls, and end with them."""


class CommandLine:
    """A command line that a server may do, and the workspace that it is for."""

    def __init__(self, argv: Sequence[str], command: str, folder: str, root: str) -> None:
        self.argv = list(argv)
        self.command = command
        self.folder = folder
        self.root = root


def find(argv: Sequence[str]) -> CommandLine | None:
    """The command that a server may do; None if it is not one of those, or belongs to no workspace."""
    command = _command(argv)
    if command is None or "--help" in argv or "--trust" in argv:
        return None
    if None in (sys.stdin, sys.stdout, sys.stderr) or any(name in os.environ for name in OF_SPINDLE):
        return None
    try:
        folder = os.getcwd()
    except OSError:
        return None
    named = _named(argv) or os.environ.get("SPINDLE_WORKSPACE")
    root = named_workspace(named, folder) if named else nearest_workspace(folder)
    return CommandLine(argv, command, folder, root) if root is not None else None


def _command(argv: Sequence[str]) -> str | None:
    words = iter(argv)
    for word in words:
        if word in ("-w", "--workspace"):
            next(words, None)
        elif not word.startswith("-"):
            # `tools connect` is another name of `add`.
            return word if word in COMMANDS and next(words, None) != "connect" else None
    return None


def _named(argv: Sequence[str]) -> str | None:
    """The word of `-w`. The server reads the words as they are meant, and tells us if this is wrong."""
    for place, word in enumerate(argv):
        if word == "--":
            return None
        if word in ("-w", "--workspace"):
            return argv[place + 1] if place + 1 < len(argv) else None
        if word.startswith("--workspace="):
            return word.partition("=")[2]
        if word.startswith("-w"):
            return word[2:]
    return None


def connected(root: str, patience: float = PATIENCE) -> socket.socket | None:
    """A connection to the server of a workspace; None if there is none, or it is not certainly ours."""
    place = place_of(root, "sock")
    if not os.path.exists(place) or problem_with(runtime_folder()) is not None:
        return None
    import socket

    from spindle.up.messages import is_own

    link = socket.socket(socket.AF_UNIX)
    link.settimeout(patience)
    try:
        link.connect(place)
        if is_own(link):
            return link
    except OSError:
        pass  # it ended without a word, or is too busy
    link.close()
    return None


def request(found: CommandLine) -> Message:
    """The whole of what the server has to know of us."""
    from spindle.up.messages import PROTOCOL

    mask = os.umask(0o077)
    os.umask(mask)
    return {
        "protocol": PROTOCOL,
        "spindle": __version__,
        "python": [sys.prefix, sys.version],
        "argv": found.argv,
        "root": os.path.realpath(found.root),
        "folder": found.folder,
        "umask": mask,
        "environ": dict(os.environ),
        "encodings": [stream.encoding for stream in _streams()],
    }


def served(found: CommandLine, link: socket.socket) -> int | None:
    """Has the server do the command, and returns its exit code; None if we have to do it ourselves."""
    with link:
        try:
            return _Conversation(link, found).run()
        except KeyboardInterrupt:
            # On a terminal in a line of its own, because it has just shown ^C.
            _say("\nspindle: cancelled" if sys.stderr.isatty() else "spindle: cancelled")
            return CANCELLED


class _Conversation:
    def __init__(self, link: socket.socket, found: CommandLine) -> None:
        from spindle.up.messages import MessageLines

        self._link = link
        self._found = found
        self._incoming = MessageLines()
        self._arrived: list[Message] = []
        self._was_interrupted = False

    def run(self) -> int | None:
        try:
            self._send(request(self._found))
            said = self._next()
        except OSError:
            _say("note: `spindle up` does not answer, so this is done without it")
            return None
        except ValueError:
            said = None  # whatever it is, it has not begun
        if said is None or "ready" not in said:
            return self._do_it_alone(said)
        self._pass_signals_on()
        try:
            self._link.settimeout(None)
            self._go()
            said = self._next()
        except (OSError, ValueError):
            said = None
        if said is None:
            return self._in_doubt()
        return self._do_it_alone(said) if "exit" not in said else int(said["exit"])

    def _go(self) -> None:
        """Hands our streams over, with which the command begins."""
        import socket

        from spindle.up.messages import encoded

        socket.send_fds(self._link, [encoded({"go": True})], [stream.fileno() for stream in _streams()])

    def _send(self, message: Message) -> None:
        from spindle.up.messages import encoded

        self._link.sendall(encoded(message))

    def _next(self) -> Message | None:
        """The next message; None at the end of the connection."""
        while not self._arrived:
            data = self._link.recv(65536)
            if not data:
                return None
            self._arrived += self._incoming.add(data)
        return self._arrived.pop(0)

    def _do_it_alone(self, said: Message | None) -> None:
        note = said.get("note") if said else None
        if isinstance(note, str):
            _say(f"note: {note}")

    def _pass_signals_on(self) -> None:
        import signal

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._pass_on)

    def _pass_on(self, number: int, _frame: Any) -> None:
        if self._was_interrupted:
            raise KeyboardInterrupt  # the server does not end it, so we leave
        self._was_interrupted = True
        try:
            self._send({"signal": number})
        except OSError:
            raise KeyboardInterrupt from None

    def _in_doubt(self) -> int:
        message = "`spindle up` ended before the command did, so its outcome is unknown"
        hint = "see `spindle history` and `spindle runs` before you repeat it"
        _say(f"spindle: {message}\n  hint: {hint}")
        if "--json" in self._found.argv:
            import json

            described = {"category": "in_doubt", "message": message, "hint": hint}
            sys.stdout.write(json.dumps({"error": described}, indent=2) + "\n")
            sys.stdout.flush()
        return IN_DOUBT


def _streams() -> tuple[Any, Any, Any]:
    return sys.stdin, sys.stdout, sys.stderr


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
