"""A server on the MCP SDK over stdio that asks before it acts. What it did is in the file that it is given.

asking_server.py FILE
"""

from __future__ import annotations

import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

ANY = {"type": "object"}
FORM = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def note(line: str) -> None:
    with open(sys.argv[1], "a", encoding="utf-8") as file:
        file.write(line + "\n")


async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    names = ("weather", "pay", "travel", "think")
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=ANY) for name in names])


def form(message: str) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=FORM))


def says(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def call_tool(context: Any, params: Any) -> Any:
    given, state = params.input_responses or {}, params.request_state
    note(f"{params.name} {state} {sorted(given)}")
    match params.name:
        case "weather":
            if not given:
                return types.InputRequiredResult(input_requests={"where": form("Where?")}, request_state="w1")
            if given["where"].action != "accept":
                return says("no weather then")
            return says(f"sunny in {given['where'].content['city']}, state {state}")
        case "pay":
            if not given:
                link = types.ElicitRequestURLParams(message="Pay there.", url="https://pay.example/1")
                return types.InputRequiredResult(
                    input_requests={"pay": types.ElicitRequest(params=link)}, request_state="p1"
                )
            return says(f"paid, {given['pay'].action}")
        case "travel":
            if state is None:
                requests = {"from": form("From?"), "to": form("To?")}
                return types.InputRequiredResult(input_requests=requests, request_state="t1")
            if state == "t1":
                start = given["from"].content["city"]
                return types.InputRequiredResult(
                    input_requests={"via": form("Via?")}, request_state=f"t2 {start}"
                )
            return says(f"{state} via {given['via'].content['city']}")
        case _:
            return says("thought") if state else types.InputRequiredResult(request_state="again")


server: Server[Any] = Server("asking", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())


anyio.run(main)
