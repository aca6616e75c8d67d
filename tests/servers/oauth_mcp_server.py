"""A real MCP server, made with the SDK, that demands tokens of an authorisation server.

python oauth_mcp_server.py ISSUER [open]    prints {"url": ...} when it listens

Every tool needs the scope `read`; `write` also needs the scope of its name, and says so when it is missing.
With `open`, whoever shows no token is told of one tool, `whoami`, and may not call it.
"""

from __future__ import annotations

import base64
import json
import socket
import sys
from typing import Any

import httpx2
import mcp_types as t
import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server

issuer = sys.argv[1]
lists_openly = sys.argv[2:] == ["open"]
NOBODY = "nobody's token"
listening = socket.create_server(("127.0.0.1", 0))
base = f"http://127.0.0.1:{listening.getsockname()[1]}"
http = httpx2.AsyncClient()


class Verifier:
    """Asks the authorisation server about every token (RFC 7662)."""

    async def verify_token(self, token: str) -> AccessToken | None:
        if token == NOBODY:
            return AccessToken(token=token, client_id="nobody", scopes=["read"], resource=f"{base}/mcp")
        pair = base64.b64encode(b"mcp-server:secret-of-mcp-server").decode()
        answer = await http.post(
            f"{issuer}/token/introspection", data={"token": token}, headers={"authorization": f"Basic {pair}"}
        )
        found = answer.json()
        if not found.get("active"):
            return None
        return AccessToken(
            token=token,
            client_id=found["client_id"],
            scopes=found.get("scope", "").split(),
            expires_at=found.get("exp"),
            resource=found.get("aud"),
            subject=found.get("sub"),
        )


async def list_tools(ctx: Any, params: Any) -> t.ListToolsResult:
    schema = {"type": "object", "properties": {"by": {"type": "string"}}}
    shown = ctx.request.user.access_token.token
    names = ("whoami",) if shown == NOBODY else ("whoami", "write")
    hints = {"whoami": t.ToolAnnotations(read_only_hint=True)}
    tools = [t.Tool(name=name, input_schema=schema, annotations=hints.get(name)) for name in names]
    return t.ListToolsResult(tools=tools)


async def call_tool(ctx: Any, params: Any) -> t.CallToolResult:
    token = ctx.request.user.access_token
    said = {"subject": token.subject, "client": token.client_id, "scopes": token.scopes, "tool": params.name}
    text = json.dumps(said | {"by": (params.arguments or {}).get("by")})
    return t.CallToolResult(content=[t.TextContent(type="text", text=text)])


class WriteNeedsItsScope:
    """The tool's name is in a header, so that this can be told without reading the body."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope.get("headers", ())}
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if lists_openly and not token and headers.get("mcp-method") not in (None, "tools/call"):
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {NOBODY}".encode())]}
        if headers.get("mcp-name") == "write" and token:
            found = await Verifier().verify_token(token)
            if found is not None and "write" not in found.scopes:
                challenge = (
                    'Bearer error="insufficient_scope", scope="write",'
                    f' resource_metadata="{base}/.well-known/oauth-protected-resource/mcp"'
                )
                start = {"type": "http.response.start", "status": 403}
                await send(start | {"headers": [(b"www-authenticate", challenge.encode())]})
                await send({"type": "http.response.body", "body": b""})
                return
        await self.app(scope, receive, send)


server = Server("guarded", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
app = server.streamable_http_app(
    json_response=True,
    stateless_http=True,
    token_verifier=Verifier(),
    auth=AuthSettings(
        issuer_url=issuer,  # pyright: ignore
        resource_server_url=f"{base}/mcp",  # pyright: ignore
        required_scopes=["read"],
        validate_token_resource=True,
    ),
)
print(json.dumps({"url": f"{base}/mcp"}), flush=True)
uvicorn.Server(uvicorn.Config(WriteNeedsItsScope(app), log_level="error")).run(sockets=[listening])
