"""A program that waits for a person outlives the server that runs it: another process goes on with it. One in
which a server asks the client's model in the middle of a call does not, and is never begun again."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import CreateMessageResult, ElicitResult, TextContent

from servers import warm
from servers.replicas import FIXTURE, replicas
from servers.running import PATIENCE
from servers.serving import ERAS
from spindle.mcp_server.kept_answers import LOST

TOOLS = '''
from pathlib import Path

from spindle import Context, tool

DONE = Path(__file__).parent.parent / "done.txt"


@tool
def effect(name: str) -> str:
    """Note it."""
    with DONE.open("a") as file:
        file.write(name + "\\n")
    return name


@tool
def drop(name: str, context: Context) -> str:
    """Drop it."""
    if not context.approve(f"Drop {name}?"):
        return "kept"
    return effect(f"dropped {name}")
'''
CODE = """
import tools
first = [await tools.effect(name=n) for n in ("a", "b")]
mine = {"kept": len(first)}
second = await tools.drop(name="x")
last = await tools.effect(name="c")
[first, mine, second, last]
"""


def workspace(folder: Path, store: str | None) -> Path:
    (folder / "tools").mkdir()
    (folder / "tools" / "tools.py").write_text(TOOLS)
    lines = [f"store = {json.dumps(store)}"] if store else []
    lines += ["[serve]", 'mode = "code"', "shutdown_timeout = 2", ""]
    (folder / "spindle.toml").write_text("\n".join(lines))
    return folder


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
@pytest.mark.parametrize("era", list(ERAS))
@pytest.mark.parametrize("approved", [True, False], ids=["approved", "refused"])
async def test_after_kill_9_a_program_that_waits_for_approval_goes_on_in_another_server(
    tmp_path: Path, store: str, era: str, approved: bool, request: pytest.FixtureRequest
) -> None:
    place = request.getfixturevalue("postgres_url") if store == "postgres" else None
    asked: asyncio.Queue[str] = asyncio.Queue()
    may_answer = asyncio.Event()

    async def answer(context: Any, params: Any) -> ElicitResult:
        asked.put_nowait(params.message)
        await may_answer.wait()
        return ElicitResult(action="accept", content={"approved": approved})

    done = tmp_path / "done.txt"
    async with (
        asyncio.timeout(6 * PATIENCE),
        replicas(workspace(tmp_path, place), 2) as (proxy, processes),
        Client(proxy.url, mode=ERAS[era], elicitation_callback=answer) as client,
    ):
        call = asyncio.create_task(client.call_tool("run_code", {"code": CODE}))
        assert "Drop x?" in await asked.get()
        assert done.read_text().split("\n") == ["a", "b", ""]
        before = {process.pid for process in processes}
        for process in processes:  # one is always there, as clients give up soon where nobody answers
            await process.end(signal.SIGKILL)
            await process.start()
        assert before.isdisjoint(process.pid for process in processes)
        may_answer.set()
        result = await call
    said = "dropped x" if approved else "kept"
    assert result.structured_content == {"value": [["a", "b"], {"kept": 2}, said, "c"]}
    effects = ["a", "b", "dropped x", "c"] if approved else ["a", "b", "c"]
    assert done.read_text().split() == " ".join(effects).split(), "no call is made twice"


SAMPLING = """
import fixture
import tools
await tools.effect(name="a")
await tools.drop(name="x")
said = await fixture.test_sampling(prompt="Who?")
await tools.effect(name="b")
said
"""


class Person:
    """The person and the model of a client. The model answers once it may."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.may_answer = asyncio.Event()

    async def approve(self, context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"approved": True})

    async def sample(self, context: Any, params: Any) -> CreateMessageResult:
        self.asked.put_nowait(params.messages[0].content.text)
        await self.may_answer.wait()
        return CreateMessageResult(role="assistant", content=TextContent(text="ann"), model="m")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
@pytest.mark.parametrize("era", list(ERAS))
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "alive"])
async def test_a_program_in_which_a_server_asks_the_clients_model_ends_with_its_process(
    tmp_path: Path, store: str, era: str, killed: bool, request: pytest.FixtureRequest
) -> None:
    """The model is asked during the call, which is no pause: nobody knows what the server did before."""
    place = request.getfixturevalue("postgres_url") if store == "postgres" else None
    source = {"command": [warm.PYTHON, str(FIXTURE)], "answers": ["sampling"], "protocol": "handshake"}
    with (workspace(tmp_path, place) / "spindle.toml").open("a") as file:
        file.write("[sources.fixture]\n" + "".join(f"{key} = {json.dumps(source[key])}\n" for key in source))
    person, done = Person(), tmp_path / "done.txt"
    async with (
        asyncio.timeout(6 * PATIENCE),
        replicas(tmp_path, 2) as (proxy, processes),
        Client(
            proxy.url, mode=ERAS[era], elicitation_callback=person.approve, sampling_callback=person.sample
        ) as client,
    ):
        call = asyncio.create_task(client.call_tool("run_code", {"code": SAMPLING}))
        assert "Who?" in await person.asked.get()
        assert done.read_text() == "a\ndropped x\n"
        if killed:
            for process in processes:
                await process.end(signal.SIGKILL)
                await process.start()
        person.may_answer.set()
        if not killed:
            result = await call
            assert result.structured_content == {"value": "LLM response: ann"}
            assert done.read_text() == "a\ndropped x\nb\n"
            return
        with pytest.raises(MCPError) as lost:
            await call
    assert lost.value.message == LOST
    assert done.read_text() == "a\ndropped x\n", "the program is not begun again"
