"""A server on the MCP SDK's lowlevel `Server`, over HTTP. It says its port in its first line.

sdk_server.py streamable|sse [json] [stateless]
"""

from __future__ import annotations

import socket
import sys
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.sse import SseServerTransport
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

bus = InMemorySubscriptionBus()
ANY = {"type": "object"}
tools = [types.Tool(name=name, input_schema=ANY) for name in ("echo", "whoami", "add_tool", "work")]


async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=tools)


async def call_tool(context: Any, params: Any) -> types.CallToolResult:
    given = params.arguments or {}
    text = str(given.get("text", ""))
    match params.name:
        case "whoami":
            text = context.request.headers.get("authorization", "") if context.request else ""
        case "add_tool":
            tools.append(types.Tool(name=given["name"], input_schema=ANY))
            await bus.publish(ToolsListChanged())
            await context.session.send_tool_list_changed()
        case "work":
            await context.session.report_progress(1, 2, "half")
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


server: Server[Any] = Server(
    "sdk",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_subscriptions_listen=ListenHandler(bus),
)


def sse_app() -> Starlette:
    transport = SseServerTransport("/messages/")

    async def connect(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as streams:
            options = server.create_initialization_options(NotificationOptions(tools_changed=True))
            await server.run(*streams, options)
        return Response()

    return Starlette(routes=[Route("/sse", connect), Mount("/messages/", app=transport.handle_post_message)])


def main() -> None:
    kind, *flags = sys.argv[1:]
    app = (
        sse_app()
        if kind == "sse"
        else server.streamable_http_app(json_response="json" in flags, stateless_http="stateless" in flags)
    )
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


main()
