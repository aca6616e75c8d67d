"""An MCP server over stdio that writes down each call it gets, standard library only.

`step` gives its `n` back. The folder named by the first argument holds `calls`, a line for each. Where it
has a file `hold`, the call whose `n` is written there is told through the pipe `held`, and not answered.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1])

STEP = {
    "name": "step",
    "description": "One step.",
    "inputSchema": {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "before": {}},
        "required": ["n"],
    },
    "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer(message["id"], message["method"], message.get("params", {}))


def answer(number: object, method: str, params: dict) -> None:
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "counting", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": [STEP]}
    elif method == "tools/call":
        n = params["arguments"]["n"]
        with (FOLDER / "calls").open("a") as calls:
            calls.write(f"{n}\n")
        hold = FOLDER / "hold"
        if hold.exists() and int(hold.read_text()) == n:
            with (FOLDER / "held").open("w") as held:
                held.write(f"{n}\n")
            return
        text = json.dumps({"n": n})
        result = {"content": [{"type": "text", "text": text}], "structuredContent": {"n": n}}
    else:
        say({"id": number, "error": {"code": -32601, "message": f"unknown method {method}"}})
        return
    say({"id": number, "result": result})


def say(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
