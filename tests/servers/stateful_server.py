"""An MCP server of the handshake era that keeps state for each session: a note, the roots it was told, the
level for its messages, what is subscribed to.

stateful_server.py           over stdio: a process is a session
stateful_server.py http      over Streamable HTTP; the first line that it says is its port
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from dataclasses import dataclass, field
from typing import Any

import mcp_types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import ServerMessageMetadata

ANY = {"type": "object"}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NOTE, COMMON = "session://note", "common://board"
TOOLS = ("remember", "recall", "learn_roots", "mutter", "ask", "touch", "die")


@dataclass
class State:
    name: str
    note: str = ""
    roots: list[str] = field(default_factory=list)
    level: str | None = None
    watched: set[str] = field(default_factory=set)
    unsaid: list[tuple[Any, str]] = field(default_factory=list)
    session: Any = None


states: dict[str, State] = {}


def state_of(ctx: Any) -> State:
    shown = ctx.request.headers.get("mcp-session-id") if ctx.request is not None else None
    name = shown or f"process {os.getpid()}"
    state = states.setdefault(name, State(name))
    state.session = ctx.session
    return state


def says(text: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text=text)])


async def changed(uri: str, states: list[State], below: str = "") -> None:
    for state in states:
        if uri in state.watched:
            await state.session.send_resource_updated(uri + below)


async def call_tool(ctx: Any, params: t.CallToolRequestParams) -> t.CallToolResult:
    state, given = state_of(ctx), params.arguments or {}
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    while state.unsaid:
        level, text = state.unsaid.pop(0)
        await ctx.session.send_log_message(level=level, data=text)
    match params.name:
        case "remember":
            state.note = given["text"]
            await changed(NOTE, [state])
        case "learn_roots":
            found = await ctx.session.send_request(t.ListRootsRequest(), t.ListRootsResult, metadata=related)
            state.roots = [str(root.uri) for root in found.roots]
        case "mutter":
            # Said during the session's next call, as by a server that works in the background.
            state.unsaid.append((given["level"], given["text"]))
        case "ask":
            form = t.ElicitRequestFormParams(message=given["message"], requested_schema=CITY)
            # Where `aside`, it does not say which call it is about, also over HTTP.
            said = await ctx.session.send_request(
                t.ElicitRequest(params=form), t.ElicitResult, metadata=None if given.get("aside") else related
            )
            return says(f"{given['message']} {(said.content or {}).get('city')}")
        case "touch":
            await changed(given["uri"], list(states.values()), given.get("below", ""))
        case "die":
            os._exit(3)
    return says(json.dumps({"session": state.name, "note": state.note, "roots": state.roots}))


async def list_tools(_ctx: Any, _params: Any) -> t.ListToolsResult:
    return t.ListToolsResult(tools=[t.Tool(name=name, input_schema=ANY) for name in TOOLS])


async def list_resources(ctx: Any, _params: Any) -> t.ListResourcesResult:
    uris = [COMMON, NOTE] if state_of(ctx).note else [COMMON]
    return t.ListResourcesResult(resources=[t.Resource(uri=uri, name=uri) for uri in uris])


async def list_templates(_ctx: Any, _params: Any) -> t.ListResourceTemplatesResult:
    template = t.ResourceTemplate(uri_template="session://{what}", name="mine")
    return t.ListResourceTemplatesResult(resource_templates=[template])


async def read(ctx: Any, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
    uri, state = str(params.uri), state_of(ctx)
    text = state.note if uri == NOTE else "for all"
    return t.ReadResourceResult(contents=[t.TextResourceContents(uri=uri, text=text)])


async def subscribe(ctx: Any, params: t.SubscribeRequestParams) -> t.EmptyResult:
    state_of(ctx).watched.add(str(params.uri))
    return t.EmptyResult()


async def unsubscribe(ctx: Any, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
    state_of(ctx).watched.discard(str(params.uri))
    return t.EmptyResult()


async def set_level(ctx: Any, params: t.SetLevelRequestParams) -> t.EmptyResult:
    state_of(ctx).level = params.level
    return t.EmptyResult()


async def roots_changed(ctx: Any, _params: Any) -> None:
    """Asks at once, as servers of files do: during no call of its client."""
    state = state_of(ctx)

    async def learn() -> None:
        found = await ctx.session.send_request(t.ListRootsRequest(), t.ListRootsResult)
        state.roots = [str(root.uri) for root in found.roots]

    learning.add(asyncio.create_task(learn()))


learning: set[asyncio.Task[None]] = set()
server: Server[Any] = Server(
    "stateful",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read,
    on_subscribe_resource=subscribe,
    on_unsubscribe_resource=unsubscribe,
    on_set_logging_level=set_level,
    on_roots_list_changed=roots_changed,
)


async def over_pipes() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def over_http() -> None:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        over_http()
    else:
        asyncio.run(over_pipes())
