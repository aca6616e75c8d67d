"""The run of an agent on a page: its conversation, with calls folded in, and forked from a step."""

from __future__ import annotations

import asyncio
import time

import pytest
from pydantic_ai.models import Model

from servers.running import PATIENCE
from spindle import Agent, AgentResult, Principal
from spindle.console.screen import Look
from spindle.console.screens.runs import compare, run
from spindle.domain.serve import ServeConfig
from spindle.errors import ClientError, InvalidArgumentsError, NotFoundError
from spindle.serving.access import ServingAccess
from spindle.serving.run_control import RunControl
from spindle.testing import ModelServer, ToolCall, Turn, workspace

OWNER = Principal("local", admin=True)


def add(a: int, b: int) -> int:
    return a + b


async def test_a_conversation_is_shown_and_forked(server: ModelServer, model: Model) -> None:
    server.feed(Turn("I add", [ToolCall("add", {"a": 1, "b": 1})]), "two", "another way")
    async with workspace([add]) as app:
        done = await Agent(app, model).run("count")
        assert isinstance(done, AgentResult)
        access = ServingAccess.of(ServeConfig())
        look = Look(app, access, OWNER, time.time(), {}, {"id": done.run_id}, is_owner=True)
        view = await run(look)
        assert [(said.who, said.text) for said in view.talk] == [
            ("task", "count"), ("model", "I add"), ("call", "2"), ("model", "two"),
        ]  # fmt: skip
        assert (view.talk[2].tool, view.talk[2].outcome, view.steps) == ("add", "ok", 2)
        assert [line.tool for line in view.calls] == ["add"]
        control = RunControl(app)
        new = await control.again(done.run_id, {"step": 1, "message": "stop there"}, OWNER)
        async with asyncio.timeout(PATIENCE):
            while (outcome := await app.store.run(new["run"])) is None or outcome.status == "running":
                await asyncio.sleep(0.01)
        assert outcome.status == "done"
        assert server.requests[2].prompt == "stop there"
        with pytest.raises(InvalidArgumentsError):
            await control.again(done.run_id, {"step": "1"}, OWNER)
        with pytest.raises(ClientError, match="belongs to"):
            await control.again(done.run_id, {"message": "and?"}, Principal("root", admin=True))
        with pytest.raises(NotFoundError):
            await control.again(done.run_id, {"message": "and?"}, Principal("eve"))
        both = Look(app, access, OWNER, time.time(), {"with": new["run"]}, {"id": done.run_id})
        with pytest.raises(NotFoundError, match="not compared"):
            await compare(both)
