"""One agent against the scripted model, in a process of its own: does tasks each time it is told to.

`agent_worker.py CONTENDER URL`, then lines `TASKS` on stdin, each answered by one line of JSON. A task is two
turns: the model asks for a call, and answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable

TURNS = 2
Task = Callable[[], Awaitable[None]]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


@contextlib.asynccontextmanager
async def requests_alone(url: str) -> AsyncIterator[Task]:
    """What no agent can do without: the two requests, by OpenAI's own client."""
    from openai import AsyncOpenAI

    function = {"name": "add", "description": "Add two numbers.", "parameters": SCHEMA}
    tools = [{"type": "function", "function": function}]
    async with AsyncOpenAI(base_url=url, api_key="any") as client:

        async def task() -> None:
            messages: list[object] = [{"role": "user", "content": "What is 1 + 2?"}]
            first = await client.chat.completions.create(model="any", messages=messages, tools=tools)  # type: ignore[arg-type]
            (call,) = first.choices[0].message.tool_calls or ()
            result = str(add(**json.loads(call.function.arguments)))  # type: ignore[union-attr]
            messages += [
                first.choices[0].message,
                {"role": "tool", "tool_call_id": call.id, "content": result},
            ]
            last = await client.chat.completions.create(model="any", messages=messages, tools=tools)  # type: ignore[arg-type]
            assert last.choices[0].message.content == "It is 3."

        yield task


@contextlib.asynccontextmanager
async def pydantic_ai(url: str) -> AsyncIterator[Task]:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel("any", provider=OpenAIProvider(base_url=url, api_key="any")), tools=[add])
    async with agent:

        async def task() -> None:
            assert (await agent.run("What is 1 + 2?")).output == "It is 3."

        yield task


@contextlib.asynccontextmanager
async def langgraph(url: str) -> AsyncIterator[Task]:
    import warnings

    from langchain_openai import ChatOpenAI

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has moved to a package that brings more
        from langgraph.prebuilt import create_react_agent

        agent = create_react_agent(ChatOpenAI(model="any", base_url=url, api_key="any"), [add])  # type: ignore[arg-type]

    async def task() -> None:
        done = await agent.ainvoke({"messages": [("user", "What is 1 + 2?")]})
        assert done["messages"][-1].content == "It is 3."

    yield task


@contextlib.asynccontextmanager
async def spindle(url: str) -> AsyncIterator[Task]:
    """With everything: guarded calls, and a journal on disk that survives kill -9. The model is named, as in
    settings and commands, so it is asked by Spindle's own HTTP client."""
    import spindle

    os.environ.update(OPENAI_BASE_URL=url, OPENAI_API_KEY="any")
    with tempfile.TemporaryDirectory() as folder:
        async with spindle.open(folder, tools=[add]) as app:
            agent = spindle.Agent(app, "openai-chat:any")

            async def task() -> None:
                done = await agent.run("What is 1 + 2?")
                assert isinstance(done, spindle.AgentResult)
                assert done.output == "It is 3."

            yield task


CONTENDERS = {
    "requests": requests_alone, "pydantic-ai": pydantic_ai, "langgraph": langgraph, "spindle": spindle
}  # fmt: skip


async def main(contender: str, url: str) -> None:
    loop = asyncio.get_running_loop()
    async with CONTENDERS[contender](url) as task:
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            latencies: list[float] = []
            cpu = time.process_time()
            for _ in range(int(line)):
                began = time.perf_counter()
                await task()
                latencies.append(time.perf_counter() - began)
            cpu = time.process_time() - cpu
            turns = len(latencies) * TURNS
            report = {"cpu_ms": cpu / turns * 1e3, "latency_ms": statistics.median(latencies) / TURNS * 1e3}
            print(json.dumps(report), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
