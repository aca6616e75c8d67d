"""Run by the interpreter of an environment that has fastmcp, which must not share one with Spindle:
fastmcp_client.py URL|FOLDER TOOL TEXT. Prints what it found as JSON."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main() -> None:
    target, spindle, tool, text = sys.argv[1:]
    if not target.startswith("http"):
        target = StdioTransport(spindle, ["-w", target, "serve", "--stdio", "--trust"], keep_alive=False)
    async with Client(target) as client:
        tools = await client.list_tools()
        result = await client.call_tool(tool, {"text": text})
        print(json.dumps({"tools": len(tools), "text": result.content[0].text}))


asyncio.run(main())
