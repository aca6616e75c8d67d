"""The cheapest MCP server there is, so that what is measured is the client. Standard library only.

`echo.py [TOOLS]` lists `echo`, `echo_structured` and, for catalogs, TOOLS further ones in pages. With TOOLS
it also has `sized`, whose result is as long as one asks for.
"""

from __future__ import annotations

import json
import sys

PAGE = 1000
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SIZED = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["count"],
}
VERBS = ["read", "write", "list", "search", "create", "delete", "update"]
NOUNS = ["issue", "file", "branch", "user", "message", "channel", "table", "row"]


def made_tool(number: int) -> dict:
    verb, noun = VERBS[number % len(VERBS)], NOUNS[number % len(NOUNS)]
    properties = {
        name: {"type": "string", "description": f"The {name} that the {noun} belongs to."}
        for name in ("owner", "place", "query", f"{noun}_id")
    }
    return {
        "name": f"{verb}_{noun}_{number:05}",
        "description": f"Use this to {verb} a {noun} in project {number}. Returns what was found or changed.",
        "inputSchema": {"type": "object", "properties": properties, "required": ["owner"]},
    }


TOOLS = [
    {"name": "echo", "description": "Give the text back.", "inputSchema": TEXT},
    {"name": "echo_structured", "description": "Give it back.", "inputSchema": TEXT, "outputSchema": TEXT},
    *(
        [{"name": "sized", "description": "Give so much text.", "inputSchema": SIZED}]
        if len(sys.argv) > 1
        else []
    ),
    *(made_tool(number) for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 0)),
]


def answer(method: str, params: dict) -> dict | None:
    if method == "tools/call":
        text = params["arguments"].get("text", "")
        if params["name"] == "sized":
            text = "x" * params["arguments"]["count"]
        result: dict = {"content": [{"type": "text", "text": text}]}
        if params["name"] == "echo_structured":
            result["structuredContent"] = {"text": text}
        return result
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1"},
        }
    if method == "tools/list":
        start = int(params.get("cursor") or 0)
        more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(TOOLS) else {}
        return {"tools": TOOLS[start : start + PAGE], **more}
    return {} if method == "ping" else None


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    reply = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}) + "\n")
    sys.stdout.flush()
