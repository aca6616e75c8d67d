"""An MCP server of the handshake era over stdio whose resource changes as soon as somebody watches it.

changing_server.py FILE: where the file is not there yet, the server makes it and dies right after the change.
"""

from __future__ import annotations

import json
import os
import sys

URI = "made://note"
HOSTILE = "made://hostile"
CONTENTS = {URI: "a note\n", HOSTILE: "before\x1b[2Jafter\x07\n"}


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(method: str, params: dict) -> dict | None:
    match method:
        case "initialize":
            capabilities = {"resources": {"subscribe": True}}
            info = {"name": "changing", "version": "1"}
            version = params["protocolVersion"]
            return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        case "resources/list":
            return {"resources": [{"uri": uri, "name": uri} for uri in CONTENTS]}
        case "resources/templates/list":
            return {"resourceTemplates": []}
        case "resources/read":
            uri = params["uri"]
            return {"contents": [{"uri": uri, "text": CONTENTS[uri]}]}
        case "resources/subscribe" | "resources/unsubscribe" | "ping":
            return {}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    if result is None:
        send(id=message["id"], error={"code": -32601, "message": "Method not found"})
        continue
    send(id=message["id"], result=result)
    if message["method"] == "resources/subscribe":
        send(method="notifications/resources/updated", params={"uri": message["params"]["uri"]})
        if not os.path.exists(sys.argv[1]):
            open(sys.argv[1], "w").close()
            sys.exit(3)
