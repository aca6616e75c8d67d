"""An MCP server over stdio that remembers its calls, standard library only.

`count` says how often it was called in this process, and in which one. `hold` writes a line into the pipe
`held` of the folder that the first argument names, and is never answered; once it is cancelled, it writes
`cancelled` there. `big` gives as many characters as it is asked for, `echo` its words, `fail` an error, and
`wipe` needs approval.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1])
SIZE = {"size": {"type": "integer"}}
TEXT = {"text": {"type": "string", "description": "The words."}}
TOOLS = [
    {"name": "count", "description": "Count its calls.", "inputSchema": {"type": "object"}},
    {"name": "hold", "description": "Never answer.", "inputSchema": {"type": "object"}},
    {
        "name": "big",
        "description": "Give a long text.",
        "inputSchema": {"type": "object", "properties": SIZE, "required": ["size"]},
    },
    {
        "name": "echo",
        "description": "Give the words back.",
        "inputSchema": {"type": "object", "properties": TEXT, "required": ["text"]},
        "annotations": {"readOnlyHint": True},
    },
    {"name": "fail", "description": "Go wrong.", "inputSchema": {"type": "object"}},
    {
        "name": "wipe",
        "description": "Remove all.",
        "inputSchema": {"type": "object"},
        "annotations": {"destructiveHint": True},
    },
]
calls = 0


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            tell("cancelled")
        elif "id" in message:
            answer(message["id"], message["method"], message.get("params", {}))


def answer(number: object, method: str, params: dict) -> None:
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "stateful", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call" and params["name"] == "hold":
        tell("held")
        return
    elif method == "tools/call":
        result = call(params["name"], params.get("arguments", {}))
    else:
        say({"id": number, "error": {"code": -32601, "message": f"unknown method {method}"}})
        return
    say({"id": number, "result": result})


def call(name: str, arguments: dict) -> dict:
    global calls
    if name == "fail":
        return {"content": [{"type": "text", "text": "it went wrong"}], "isError": True}
    if name == "count":
        calls += 1
        return {"content": [{"type": "text", "text": f"{calls} {os.getpid()}"}]}
    if name == "big":
        return {"content": [{"type": "text", "text": "x" * arguments["size"]}]}
    return {"content": [{"type": "text", "text": arguments.get("text", "done")}]}


def tell(word: str) -> None:
    with (FOLDER / "held").open("w") as held:
        held.write(f"{word}\n")


def say(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
