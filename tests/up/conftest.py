"""Workspaces with a `spindle up` of their own, and commands in them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from servers import warm
from servers.running import PATIENCE
from servers.shell import Done

SERVER = Path(__file__).parent / "stateful_server.py"
REAL = (sys.executable, "-m", "spindle")
"""The program as a process of its own, for what those that are forked do not take over."""
TOOLS = '''
import os
import subprocess
from spindle import tool

@tool
def where() -> str:
    """The folder that it runs in."""
    print("printed by the tool")
    subprocess.run(["echo", "printed by a child"])
    return os.getcwd()

@tool
def variable(name: str) -> str:
    """The value of a variable."""
    return os.environ.get(name, "nothing")

@tool
def broken() -> str:
    """Goes wrong."""
    raise RuntimeError("as it should")
'''


class Shell:
    """A workspace, and the environment of a shell in it."""

    def __init__(self, root: Path, environ: dict[str, str]) -> None:
        self.root = root
        self.environ = environ
        self.held = root / "held"
        root.mkdir(parents=True)
        os.mkfifo(self.held)
        (root / "tools").mkdir()
        (root / "tools" / "own.py").write_text(TOOLS)
        self.write_settings()

    def write_settings(self, more: str = "") -> None:
        command = json.dumps([sys.executable, "-I", "-S", str(SERVER), str(self.root)])
        source = f'[sources.s]\ncommand = {command}\nprotocol = "handshake"\ntimeout = 600\n'
        (self.root / "spindle.toml").write_text(f"{source}{more}")

    def popen(
        self, *words: str, program: Sequence[str] = (warm.SPINDLE,), **more: Any
    ) -> subprocess.Popen[str]:
        given: dict[str, Any] = {"cwd": self.root, "env": self.environ, "text": True}
        streams = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE) | {"stdin": subprocess.DEVNULL}
        return subprocess.Popen([*program, *words], **given | streams | more)

    def __call__(self, *words: str, stdin: str | None = None, **more: Any) -> Done:
        given = {"stdin": subprocess.PIPE} if stdin is not None else {}
        with self.popen(*words, **given | more) as process:
            out, err = process.communicate(stdin, timeout=300)
        return Done(process.returncode, out, err)

    def with_(self, **variables: str) -> dict[str, str]:
        return self.environ | variables

    @property
    def cold(self) -> dict[str, str]:
        """The environment of a shell in which no `spindle up` is found."""
        folder = Path(self.environ["XDG_RUNTIME_DIR"]) / "none"
        folder.mkdir(exist_ok=True)
        return self.with_(XDG_RUNTIME_DIR=str(folder))

    @property
    def log(self) -> str:
        return (self.root / ".spindle" / "up.log").read_text()

    def next_told(self) -> str:
        """The next word of the server about a call that it holds."""
        with self.held.open() as held:
            return held.read().strip()  # to its end, or the next reader would find this writer

    @contextlib.contextmanager
    def up(self, **more: Any) -> Iterator[Up]:
        process = self.popen("up", "--foreground", stdout=subprocess.DEVNULL, **more)
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if " up: pid " in line:
                break
        else:
            raise AssertionError(f"it did not start: {lines}")
        with process:
            try:
                yield Up(process, int(line.split("pid ")[1].split(",")[0]))
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                process.communicate(timeout=300)


class Up:
    """A running `spindle up`."""

    def __init__(self, process: subprocess.Popen[str], pid: int) -> None:
        self.process = process
        self.pid = pid

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def lines_until(self, text: str) -> list[str]:
        """The lines of its log up to one that has the text."""
        assert self.process.stderr is not None
        lines: list[str] = []
        for line in self.process.stderr:
            lines.append(line)
            if text in line:
                return lines
        raise AssertionError(f"{text!r} was never logged, but: {lines}")


MakeShell = Callable[..., Shell]


@pytest.fixture
def make_shell(tmp_path: Path) -> Iterator[MakeShell]:
    """Makes workspaces of one user."""
    # A socket's path has to be short.
    runtime = Path(tempfile.mkdtemp(prefix="up-"))
    home = tmp_path / "home"
    home.mkdir()
    keep = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPINDLE_", "PYTEST_")) or name in ("SPINDLE_TRUST", "SPINDLE_KEY")
    }
    environ = keep | {
        "HOME": str(home), "SPINDLE_HOME": str(home / "spindle"), "XDG_RUNTIME_DIR": str(runtime),
    }  # fmt: skip
    made: list[Shell] = []

    def make(name: str = "here") -> Shell:
        made.append(Shell(tmp_path / name, environ))
        assert made[-1]("sync", env=made[-1].cold).code == 0
        return made[-1]

    yield make
    for shell in made:  # those that a test started in the background
        shell("down", stdin="")
    shutil.rmtree(runtime)


@pytest.fixture
def shell(make_shell: MakeShell) -> Shell:
    return make_shell()
