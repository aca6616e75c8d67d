"""A greedy client beside others, and a disk that fills: the others hardly notice, nothing that was answered
is lost, and all goes on once there is space."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from hostile.conftest import Figures
from servers import warm
from servers.rest import RestWorkspace, Served
from servers.running import PATIENCE

GREEDY = Path(__file__).parent.parent / "servers" / "greedy_client.py"
OTHERS = 5
TIMES = 50
"""So many times the load of each of the others has the greedy one."""
WORK = 0.1
TOOLS = f"""
import asyncio
from spindle import tool
@tool
async def work(text: str) -> str:
    await asyncio.sleep({WORK})
    return text
"""
SETTINGS = """
[serve.tokens]
greedy = { token = "token-of-greedy" }
""" + "".join(f'other-{n} = {{ token = "token-of-other-{n}" }}\n' for n in range(OTHERS))
PLACES = """
[sources.tools]
max_concurrency = 20
"""


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "8m") -> Iterator[Path]:
    """A disk of its own at this folder."""
    folder.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no mount")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", str(folder)], capture_output=True
    )
    if made.returncode:
        pytest.skip(f"this user may not mount: {made.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Takes all space that is left on a disk."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1 << 8, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    return ballast


def served_on(disk: Path, rest: RestWorkspace, more: str = "") -> contextlib.AbstractContextManager[Served]:
    (rest.root / "tools" / "t.py").write_text(TOOLS)
    store = f'store = "{disk}/state.db"\n'
    rest.settings(store + SETTINGS + PLACES + more)
    return rest.serve(token="token-of-other-0")


def recorded(rest: RestWorkspace) -> set[str]:
    """The texts of all calls in the history."""
    found = rest.json("history", "--json", "--limit", "1000000", "--tool", "work")
    return {record["arguments"]["text"] for record in found if record["outcome"] == "ok"}


def test_nothing_that_was_answered_is_lost_on_a_full_disk(rest: RestWorkspace, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, served_on(disk, rest) as served:
        texts = (f"call {number}" for number in itertools.count())
        answered: set[str] = set()

        def call() -> httpx2.Response:
            text = next(texts)
            answer = served.client.post("/tools/work", json={"text": text})
            if answer.status_code == 200:
                answered.add(text)
            return answer

        assert call().status_code == 200
        ballast = fill(disk)
        deadline = time.monotonic() + PATIENCE
        refused = call()
        while refused.status_code == 200:
            # The log of the database may have some room of its own left.
            assert time.monotonic() < deadline
            refused = call()
        assert refused.status_code == 503
        said = refused.json()
        assert said["category"] == "store"
        assert "could not be recorded" in said["message"]
        assert "full" in said["message"]
        assert refused.headers["retry-after"] == "1"
        assert call().status_code == 503
        ballast.unlink()
        while call().status_code != 200:
            assert time.monotonic() < deadline
        for _ in range(5):
            assert call().status_code == 200
        code, said_by_server = served.stop()
        assert code == 0
        assert "no more calls are made until there is space for their records" in said_by_server
        assert "there is space again" in said_by_server
        assert answered <= recorded(rest)


# --- the long form

Call = Callable[[str], Awaitable[int]]


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


class Others:
    """Clients with a token each that call one after the other."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._texts = itertools.count()
        self.answered: set[str] = set()
        self.statuses: dict[int, int] = {}

    async def call_for(self, seconds: float) -> list[float]:
        """The time that each call took: at least one of each."""
        taken: list[float] = []
        end = time.monotonic() + seconds

        async def one(number: int) -> None:
            headers = {"authorization": f"Bearer token-of-other-{number}"}
            options = {"base_url": self._url, "headers": headers, "timeout": PATIENCE, "verify": False}
            async with httpx2.AsyncClient(**options) as http:
                while True:
                    text = f"call {next(self._texts)}"
                    began = time.perf_counter()
                    status = (await http.post("/tools/work", json={"text": text})).status_code
                    taken.append(time.perf_counter() - began)
                    self.statuses[status] = self.statuses.get(status, 0) + 1
                    if status == 200:
                        self.answered.add(text)
                    if time.monotonic() >= end:
                        return

        await asyncio.gather(*(one(number) for number in range(OTHERS)))
        return taken

    def told(self) -> dict[int, int]:
        """The answers of each status since this was last asked."""
        told, self.statuses = self.statuses, {}
        return told


@contextlib.contextmanager
def greedy(url: str) -> Iterator[subprocess.Popen[str]]:
    command = [warm.PYTHON, str(GREEDY), url, "token-of-greedy", str(TIMES)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.mark.soak
async def test_one_at_fifty_times_the_load_and_a_full_disk(
    rest: RestWorkspace, tmp_path: Path, seconds: float, figures: Figures
) -> None:
    full_for = min(20.0, seconds / 4)
    part = max(2.0, (seconds - full_for) / 4)
    with small_disk(tmp_path / "disk", "256m") as disk, served_on(disk, rest) as served:
        others = Others(served.url)
        await others.call_for(1)
        quiet = p99(await others.call_for(part))
        others.told()
        with greedy(served.url) as process:
            await others.call_for(0.5)
            beside = p99(await others.call_for(part))
            assert set(others.told()) == {200}
            figures(
                f"p99 of others: {quiet * 1000:.0f} ms quiet, {beside * 1000:.0f} ms beside the greedy one"
            )

            ballast = fill(disk)
            await others.call_for(full_for)
            while_full = others.told()
            ballast.unlink()
            free_at = time.monotonic()
            while 200 not in others.told():
                await others.call_for(0)
            recovered = time.monotonic() - free_at
            figures(f"a full disk for {full_for:.0f} s: answers {while_full}, back after {recovered:.1f} s")
            others.told()
            after = p99(await others.call_for(part))
            assert set(others.told()) == {200}
            ended, _ = await asyncio.to_thread(process.communicate, "")
        got = {int(status): count for status, count in json.loads(ended).items()}
        figures(f"answers of the greedy one: {got}; p99 of others after it all: {after * 1000:.0f} ms")
        served.stop()
        lost = others.answered - recorded(rest)
        figures(f"answered calls of others: {len(others.answered)}, lost records: {len(lost)}")
    assert not lost
    assert set(while_full) <= {200, 503}
    assert while_full.get(503)
    assert recovered < 5
    assert beside <= 2 * quiet
    assert after <= 2 * quiet


def test_the_disk_of_this_test_is_full_when_it_says_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        fill(disk)
        with pytest.raises(OSError) as full, (disk / "more").open("wb", buffering=0) as file:
            file.write(b"x" * 5000)
        assert full.value.errno == errno.ENOSPC
