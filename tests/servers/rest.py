"""A workspace with tools of every kind of result, and `spindle serve --rest` as a real process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from servers import warm
from servers.running import PATIENCE

TOOLS = '''
import asyncio
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from spindle import Block, Context, Result, tool

HERE = Path(__file__).parent


class Leaf(BaseModel):
    size: float
    kind: Literal["oak", "elm"] = "oak"


class Tree(BaseModel):
    name: str
    leaves: list[Leaf] = []
    below: list["Tree"] = []


@tool
def grow(tree: Tree, by: int = 1, mark: bool | None = None) -> Tree:
    """Grow a tree."""
    return tree.model_copy(update={"leaves": [*tree.leaves, *[Leaf(size=0.5)] * by]})


@tool
def echo(text: str, count: int = 1, tags: list[str] | None = None, deep: dict[str, object] | None = None,
         flag: bool = False, nothing: None = None):
    """Give everything back."""
    return {"text": text, "count": count, "tags": tags, "deep": deep, "flag": flag, "nothing": nothing}


@tool(read_only=True, tags=["talk"])
def hello(name: str = "you") -> None:
    """Say hello."""


@tool
def say(text: str):
    """Say it as text."""
    return Result((Block("text", text=text),))


@tool
def picture():
    """Draw."""
    return Result((Block("text", text="a dot"), Block("image", data="iVBORw0K", mime_type="image/png")))


@tool
def large():
    """Much."""
    import base64
    return Result((Block("resource", data=base64.b64encode(b"x" * 200_000).decode(), mime_type="x/y"),))


@tool
async def count(to: int, ctx: Context) -> int:
    """Count with progress."""
    for number in range(to):
        ctx.progress(number + 1, to, f"at {number + 1}")
        await asyncio.sleep(0)
    return to


@tool
def fail(why: str) -> int:
    """Always fails."""
    raise ValueError(why)


@tool
async def wait_for(name: str) -> str:
    """Wait until a file is there."""
    (HERE / f"{name}.begun").touch()
    try:
        while not (HERE / name).exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        (HERE / f"{name}.cancelled").touch()
        raise
    return "it came"
'''


@dataclass
class Served:
    url: str
    process: subprocess.Popen[str]
    root: Path
    client: httpx2.Client

    def call(self, tool: str, /, *, accept: str | None = None, **arguments: Any) -> httpx2.Response:
        headers = {"accept": accept} if accept else {}
        return self.client.post(f"/tools/{tool}", json=arguments, headers=headers)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """End the server and return its exit code and what it wrote."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, err


class RestWorkspace:
    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "tools").mkdir(parents=True)
        (root / "tools" / "t.py").write_text(TOOLS)
        (root / "spindle.toml").touch()
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("SPINDLE_")},
            "SPINDLE_HOME": str(root / "home"),
            "SPINDLE_TRUST": "1",
        }

    def settings(self, text: str) -> None:
        (self.root / "spindle.toml").write_text(text)

    def spindle(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [warm.SPINDLE, *words], cwd=self.root, env={**self.env, **env},
            capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def json(self, *words: str) -> Any:
        done = self.spindle(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def serve(self, *words: str, token: str | None = None, **env: str) -> Iterator[Served]:
        process = subprocess.Popen(
            [warm.SPINDLE, "serve", "--rest", "--port", "0", *words],
            cwd=self.root, env={**self.env, **env}, stderr=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            while "serving" not in line:
                assert line, "the server ended"
                line = process.stderr.readline()
            url = re.search(r"http://[^\s\"]+", line)
            assert url is not None, line
            headers = {"authorization": f"Bearer {token}"} if token else {}
            with httpx2.Client(base_url=url[0], headers=headers, timeout=PATIENCE) as client:
                yield Served(url[0], process, self.root, client)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE)
            assert process.stderr is not None
            process.stderr.close()


def utcp_client(script: str, *words: str, cwd: Path) -> Any:
    """Run a script in a process of its own, with the utcp packages, and return the JSON it prints.
    In our process its import would change how everybody logs."""
    done = subprocess.run(
        [warm.PYTHON, "-c", script, *words], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE * 2
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
