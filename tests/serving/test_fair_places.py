"""Clients whose calls take long, beside others whose do not: at a server in a process of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2

from servers.rest import RestWorkspace
from servers.running import PATIENCE

HOLDING = '''
import asyncio
import itertools
from pathlib import Path

from spindle import tool

HERE = Path(__file__).parent
number = itertools.count()


@tool
async def wait_for_the_gate() -> str:
    """Take until there is a file."""
    (HERE / f"running-{next(number)}").touch()
    while not (HERE / "gate").exists():
        await asyncio.sleep(0.02)
    return "done"


@tool
def word(text: str) -> str:
    """Give it back."""
    return text
'''


async def test_forty_hanging_calls_of_one_client_keep_no_other_waiting(rest: RestWorkspace) -> None:
    (rest.root / "tools" / "holding.py").write_text(HOLDING)
    tokens = {name: rest.spindle("token", "create", name).stdout.strip() for name in ("ann", "bob")}

    def running() -> int:
        return len([*Path(rest.root / "tools").glob("running-*")])

    with rest.serve() as served:
        async with (
            asyncio.timeout(2 * PATIENCE),
            httpx2.AsyncClient(
                base_url=served.url, timeout=PATIENCE, limits=httpx2.Limits(max_connections=100)
            ) as http,
        ):

            async def call(who: str, tool: str, **arguments: str) -> str:
                headers = {"authorization": f"Bearer {tokens[who]}"}
                answer = await http.post(f"/tools/{tool}", json=arguments, headers=headers)
                return answer.text

            hanging = [asyncio.create_task(call("ann", "wait_for_the_gate")) for _ in range(40)]
            while running() < 8:  # of ten places she takes no more
                await asyncio.sleep(0.02)
            for number in range(10):
                assert await call("bob", "word", text=str(number)) == str(number)
            assert running() == 8
            assert not any(task.done() for task in hanging)
            (rest.root / "tools" / "gate").touch()
            assert {*await asyncio.gather(*hanging)} == {"done"}
