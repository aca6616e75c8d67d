"""An MCP server over stdio that counts how many calls it has at once. The first calls end when as many have
come as `TOGETHER` says: so that many must be made at the same time."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import mcp.types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

RECORD, TOGETHER = Path(sys.argv[1]), int(sys.argv[2])
running = most = 0
reached = asyncio.Event()


async def list_tools(_ctx: object, _params: object) -> t.ListToolsResult:
    schema = {"type": "object", "properties": {"number": {"type": "integer"}}}
    return t.ListToolsResult(tools=[t.Tool(name="count", input_schema=schema)])


async def call_tool(_ctx: object, params: t.CallToolRequestParams) -> t.CallToolResult:
    global running, most
    running += 1
    most = max(most, running)
    if running >= TOGETHER:
        reached.set()
    await reached.wait()
    # Nothing waits for this: one call too many has the time to be seen.
    await asyncio.sleep(0.05)
    RECORD.write_text(json.dumps({"most": most}))
    running -= 1
    number = (params.arguments or {}).get("number")
    return t.CallToolResult(content=[t.TextContent(type="text", text=str(number))])


async def main() -> None:
    server = Server("counting", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


asyncio.run(main())
