"""The tools that the conformance suite calls as tasks."""

from __future__ import annotations

import asyncio

from spindle import Context, ToolError, tool

CONFIRMED = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@tool
def greet(name: str) -> str:
    """Says hello."""
    return f"Hello, {name}!"


@tool(task="optional", idempotent=True)
async def slow_compute(seconds: float, label: str = "") -> str:
    """Takes a while."""
    await asyncio.sleep(seconds)
    return f"computed {label} in {seconds} s"


@tool(task="required", idempotent=True)
async def failing_job() -> str:
    """Fails after a while."""
    await asyncio.sleep(1)
    raise ToolError("the job failed")


@tool(task="optional", idempotent=True)
def confirm_delete(filename: str, ctx: Context) -> str:
    """Deletes a file once that is confirmed."""
    said = ctx.ask(f"Delete {filename}?", CONFIRMED)
    return f"{filename} was {'deleted' if said['confirm'] else 'kept'}"


@tool(task="optional", idempotent=True)
async def multi_input(ctx: Context) -> str:
    """Asks two questions at once."""

    async def ask(question: str) -> str:
        return ctx.ask(question, NAMED)["name"]

    found = await asyncio.gather(ask("Who is first?"), ask("Who is second?"), return_exceptions=True)
    for item in found:
        if isinstance(item, BaseException):
            raise item
    return " and ".join(str(item) for item in found)


@tool(idempotent=True)
async def test_tool_with_task(ctx: Context) -> str:
    """Asks for a name first, and takes a while then."""
    name = ctx.ask("What is your name?", NAMED)["name"]
    await asyncio.sleep(2)
    return f"Hello, {name}!"
