"""An MCP server without a library behind it: it answers with what a file says, byte for byte, and writes down
all that it is sent. Its arguments are the file with its answers and the one to write to."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def send(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    script = json.loads(Path(sys.argv[1]).read_text())
    with Path(sys.argv[2]).open("a") as heard:

        def receive() -> Any:
            line = sys.stdin.readline()
            if not line:
                sys.exit()
            heard.write(line)
            heard.flush()
            return json.loads(line)

        while True:
            message = receive()
            method, params = message.get("method"), message.get("params") or {}
            if "id" not in message or method is None:
                continue
            answer = script["answers"].get(f"{method} {params.get('name')}") or script["answers"].get(method)
            if answer is None:
                error = {"code": -32601, "message": "Method not found"}
                send({"jsonrpc": "2.0", "id": message["id"], "error": error})
                continue
            told: list[Any] = answer.get("first", [])
            for number, said in enumerate(told):
                if "progressToken" in (said.get("params") or {}):
                    said["params"]["progressToken"] = params["_meta"]["progressToken"]
                asks = said["method"].count("notifications/") == 0
                send({"jsonrpc": "2.0", **({"id": f"ask-{number}"} if asks else {}), **said})
                while asks and receive().get("id") != f"ask-{number}":
                    pass
            send({"jsonrpc": "2.0", "id": message["id"], **answer["then"]})


main()
