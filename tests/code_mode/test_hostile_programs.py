"""Programs that mean harm: to a server over HTTP, and to the programs of others."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mcp import Client

from servers.running import PATIENCE
from servers.serving import serve_command, text_of
from spindle.code_mode.limits import MOST_PRINTED, CodeLimits
from spindle.code_mode.sandbox import Sandbox

TOOLS = """
from spindle import tool

@tool
def seen(value: object = None) -> str:
    '''Say what came.'''
    return type(value).__name__
"""
SETTINGS = '[serve]\nmode = "code"\n[serve.code]\nseconds = 100\nmemory = 40\ncalls = 5\n'
LAUGHS = "x = 'ha'\nfor _ in range(60):\n    x = [x, x]\n"
"""A small value that is larger than the world when it is written out."""
DEEP = "x = []\nfor _ in range(10_000):\n    x = [x]\n"
FIRST = "import tools\nawait tools.seen(value=1)\n"
TOO_LARGE = (
    "has too large a value: over 4,000,000 characters or 500,000 parts\nIt had made 1 call:\n1. seen: ok"
)
HOSTILE = {
    FIRST + LAUGHS + "x": TOO_LARGE,
    FIRST + "['x' * 1_000_000] * 1_000_000": TOO_LARGE,
    FIRST + LAUGHS + "{'key': (x, {1, 2})}": TOO_LARGE,
    FIRST + LAUGHS + "class Own:\n    def __init__(self) -> None:\n        self.x = x\nOwn()": TOO_LARGE,
    LAUGHS + "import tools\nawait tools.seen(value=x)": "a value has more than 500,000 parts",
    "import tools\nawait tools.seen(value=['x' * 1_000_000] * 1_000)": "more than 20,000,000 characters",
    LAUGHS + "print(x)": "needed more than 40 MB",
    DEEP + "import tools\nawait tools.seen(value=x)": "a value is more than 64 levels deep",
    "import tools\nawait tools.seen(value=10 ** 5000)": "an integer of 16,610 bits is too large",
    "import tools\nawait tools.seen(value={(1, 2): 3})": "a key of type tuple is no key",
    "x = 1\nx" + ".real" * 10_000: "nothing was called",
    FIRST + "import asyncio\nawait asyncio.gather(*[tools.seen() for _ in range(9)])":
        "wanted to make more than 5 calls, and was stopped\nIt had made 5 calls:",
}  # fmt: skip
GOOD = {
    DEEP + "x": "…",
    "10 ** 5000": "an integer of 16,610 bits",
    "{(1, (2, 3)): 4}": '"[1, [2, 3]]":4',
    "class Own:\n    def __init__(self) -> None:\n        self.x = [1]\nOwn()": '{"x":[1]}',
    f"for _ in range(3):\n    print('x' * {MOST_PRINTED // 2 - 1})": "100,000 characters is left out",
}


async def test_whatever_a_program_makes_its_server_answers_in_bounds(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "tools.py").write_text(TOOLS)
    (tmp_path / "spindle.toml").write_text(SETTINGS)
    async with serve_command(tmp_path) as (url, _), Client(url) as client:
        for codes, is_error in ((HOSTILE, True), (GOOD, False)):
            for code, said in codes.items():
                async with asyncio.timeout(PATIENCE):
                    done = await client.call_tool("run_code", {"code": code})
                assert done.is_error == is_error, code
                assert said in text_of(done), code
                assert len(text_of(done)) < 120_000, code
                if is_error:
                    assert len(text_of(done)) < 6_000, code


ENDLESS = "while True:\n    pass"
FOREVER = CodeLimits(seconds=100_000)


def tried(sandbox: Sandbox, client: str, code: str = ENDLESS) -> asyncio.Task[object]:
    async def run() -> object:
        return (await sandbox.start(code, {}, FOREVER, client, 0.0, "")).value

    return asyncio.create_task(run())


async def test_endless_programs_of_one_client_keep_no_other_client_out() -> None:
    sandbox = Sandbox()
    try:
        endless = [tried(sandbox, "ann") for _ in range(20)]
        for _ in range(3):
            assert await asyncio.wait_for(tried(sandbox, "bob", "1 + 1"), PATIENCE) == 2
        assert not any(one.done() for one in endless)
        # Nobody waits for them now, and their workers are free.
        for one in endless:
            one.cancel()
        await asyncio.wait(endless)
        several = [tried(sandbox, "ann", "1 + 1") for _ in range(20)]
        assert await asyncio.wait_for(asyncio.gather(*several), PATIENCE) == [2] * 20
    finally:
        await sandbox.close()


CLOSED = """
import asyncio, os, sys
from pathlib import Path
from spindle.code_mode.limits import CodeLimits
from spindle.code_mode.sandbox import Sandbox

def children():
    for path in Path("/proc").glob("[0-9]*/stat"):
        words = path.read_text().rpartition(")")[2].split()
        if int(words[1]) == os.getpid():
            yield path.parent.name

async def main():
    sandbox = Sandbox()
    limits = CodeLimits(seconds=100_000)
    endless = asyncio.create_task(sandbox.start("while True:\\n    pass", {}, limits, "ann", 0.0, ""))
    while not any(use._process for use in sandbox._uses):
        await asyncio.sleep(0)
    print(*children(), flush=True)
    await sandbox.close()
    await asyncio.wait([endless])

asyncio.run(main())
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_a_closed_sandbox_leaves_no_worker_that_computes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLOSED], capture_output=True, text=True, timeout=PATIENCE, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
    workers = done.stdout.split()
    assert workers
    deadline = time.monotonic() + PATIENCE
    while any(map(_computes, workers)):  # a signal takes its time
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _computes(process: str) -> bool:
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return False
    return words[0] != "Z"
