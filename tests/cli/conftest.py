"""A workspace of its own for every test, and two ways to run `spindle` in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from servers import warm
from spindle.cli.main import execute

MINI_SERVER = Path(__file__).parent / "mini_server.py"

ECHO = {
    "name": "echo",
    "description": "Give the arguments back. They are not changed.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to say."},
            "count": {"type": "integer", "default": 1},
            "tags": {"type": "array", "items": {"type": "string"}},
            "loud": {"type": "boolean"},
            "json": {"type": "string"},
        },
        "required": ["text"],
    },
    "annotations": {"readOnlyHint": True},
}


def plain_tool(name: str, description: str = "", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": description or f"The tool {name}.", "inputSchema": schema}


TOOLS = [ECHO, *(plain_tool(name) for name in ("fail", "picture", "data", "hang", "paint"))]


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


class Workspace:
    """The current folder, with what a test puts into it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.definitions = root / "server" / "tools.json"

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def serve(self, *tools: dict[str, Any]) -> list[str]:
        """The command of a server with these tools."""
        self.write("server/tools.json", json.dumps(tools or TOOLS))
        return [sys.executable, "-I", "-S", str(MINI_SERVER), str(self.definitions)]

    def add_server(self, *tools: dict[str, Any], name: str = "mini", **settings: Any) -> None:
        table = {"command": self.serve(*tools), "protocol": "handshake", **settings}
        lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        with (self.root / "spindle.toml").open("a") as file:
            file.write(f"[sources.{name}]\n" + "\n".join(lines) + "\n")

    @property
    def server_pids(self) -> list[int]:
        return [int(line) for line in (self.definitions.with_name("pids")).read_text().split()]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith("SPINDLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPINDLE_HOME", str(home / "spindle"))
    monkeypatch.setenv("HOME", str(home))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, empty."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def workspace(folder: Path) -> Workspace:
    """The current folder, with an empty spindle.toml."""
    (folder / "spindle.toml").touch()
    return Workspace(folder)


@pytest.fixture
def spindle(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process."""

    def run(*words: str) -> Done:
        capsys.readouterr()
        code = execute(words)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture
def program() -> Run:
    """Run a command line as a process."""

    def run(*words: str, stdin: str | None = None, **more: Any) -> Done:
        given = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        done = subprocess.run(
            [warm.SPINDLE, *words], capture_output=True, text=True,
            timeout=300, **given, **more,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    return run
