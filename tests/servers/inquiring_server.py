"""An MCP server of both eras that asks while a prompt is filled in, a resource is read or a value completed.
What it asks is the last part of the address, or the prompt's argument; it answers with what it was told.

inquiring_server.py           over stdio
inquiring_server.py http      over Streamable HTTP; the first line that it says is its port
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

import mcp_types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

sys.path.insert(0, str(Path(__file__).parent / "conformance"))
from fixture_server import ROOTS, TEXT, Asking, ask, form, sampling

PAGE = {"mode": "url", "message": "Sign there.", "url": "https://sign.example/1", "elicitationId": "1"}
KINDS: dict[str, dict[str, Any]] = {
    "person": {"city": form("Which city?", {"city": TEXT})},
    "model": {"title": sampling("A title?")},
    "folders": {"folders": ROOTS},
    "all": {"city": form("Which city?", {"city": TEXT}), "title": sampling("A title?")},
    "often": {f"title{number}": sampling(f"Title {number}?") for number in range(5)},
    "nothing": {},
}


async def answered(ctx: Any, params: Any, kind: str) -> str:
    """The answers to what this kind asks, as JSON."""
    declared = ctx.session.client_capabilities
    if kind == "declared":
        found = declared.model_dump(by_alias=True, exclude_none=True) if declared is not None else {}
        return json.dumps(sorted(found.keys() - {"extensions"}))
    if kind == "strict" and (declared is None or declared.elicitation is None):
        data = {"requiredCapabilities": {"elicitation": {}}}
        raise MCPError(t.MISSING_REQUIRED_CLIENT_CAPABILITY, "Somebody must be asked", data)
    if kind == "page":
        raise MCPError(t.URL_ELICITATION_REQUIRED, "Visit first", {"elicitations": [PAGE]})
    if kind not in KINDS:
        raise MCPError(t.INVALID_PARAMS, f"No such thing: {kind}")
    return json.dumps(await ask(ctx, params, KINDS[kind]), default=str)


async def list_resources(_ctx: Any, _params: Any) -> t.ListResourcesResult:
    return t.ListResourcesResult(resources=[])


async def list_templates(_ctx: Any, _params: Any) -> t.ListResourceTemplatesResult:
    return t.ListResourceTemplatesResult(
        resource_templates=[t.ResourceTemplate(uri_template="ask://{kind}", name="ask")]
    )


async def read(ctx: Any, params: t.ReadResourceRequestParams) -> Any:
    uri = str(params.uri)
    try:
        text = await answered(ctx, params, uri.removeprefix("ask://"))
    except Asking as asking:
        return asking.result
    return t.ReadResourceResult(contents=[t.TextResourceContents(uri=uri, text=text)])


async def list_prompts(_ctx: Any, _params: Any) -> t.ListPromptsResult:
    arguments = [t.PromptArgument(name="kind", required=True)]
    return t.ListPromptsResult(prompts=[t.Prompt(name="ask", arguments=arguments)])


async def get_prompt(ctx: Any, params: t.GetPromptRequestParams) -> Any:
    try:
        text = await answered(ctx, params, (params.arguments or {})["kind"])
    except Asking as asking:
        return asking.result
    return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=t.TextContent(text=text))])


async def complete(ctx: Any, params: t.CompleteRequestParams) -> t.CompleteResult:
    text = await answered(ctx, params, params.argument.value)
    return t.CompleteResult(completion=t.Completion(values=[text]))


async def list_tools(_ctx: Any, _params: Any) -> t.ListToolsResult:
    return t.ListToolsResult(tools=[t.Tool(name="ask", input_schema={"type": "object"})])


async def call_tool(ctx: Any, params: t.CallToolRequestParams) -> Any:
    try:
        text = await answered(ctx, params, (params.arguments or {})["kind"])
    except Asking as asking:
        return asking.result
    return t.CallToolResult(content=[t.TextContent(text=text)])


server: Server[Any] = Server(
    "asking",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
)


async def over_pipes() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def over_http() -> None:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        over_http()
    else:
        asyncio.run(over_pipes())
