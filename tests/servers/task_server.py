"""An MCP server without a library behind it, that answers calls with tasks: of 2026-07-28, or with
`handshake` as its argument those of 2025-11-25. What it is asked is written to a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ERA, LOG = sys.argv[1], Path(sys.argv[2])
QUESTION = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Who?",
        "requestedSchema": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
    },
}
ICON = {"src": "https://example.com/i.png"}
TOOLS = ("work", "ask", "fail", "never")


def tool(name: str) -> Any:
    required = {"execution": {"taskSupport": "required"}} if ERA == "handshake" else {}
    return {"name": name, "inputSchema": {"type": "object"}, **required}


class Task:
    def __init__(self, name: str) -> None:
        self.name = name
        self.asked_after = 0
        self.answer: str | None = None

    def state(self, task_id: str) -> Any:
        self.asked_after += 1
        found: dict[str, Any] = {
            "taskId": task_id, "status": "working", "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z", "statusMessage": f"step {self.asked_after}",
            **({"ttlMs": 60000, "pollIntervalMs": 10} if ERA == "modern" else {"ttl": 1, "pollInterval": 10}),
        }  # fmt: skip
        done = {
            "content": [{"type": "text", "text": f"{self.name} done {self.answer or ''}".strip()}],
            "_meta": {"k": 1},
        }
        if self.name == "ask" and self.answer is None:
            return found | {"status": "input_required", "inputRequests": {"who": QUESTION}}
        if self.name == "fail":
            return found | {"status": "failed", "error": {"code": -32050, "message": "no", "data": {"d": 1}}}
        if self.name != "never" and self.asked_after > 2:
            return found | {"status": "completed"} | ({"result": done} if ERA == "modern" else {})
        return found

    def result(self) -> Any:
        return {"content": [{"type": "text", "text": f"{self.name} done"}]}


def main() -> None:
    tasks: dict[str, Task] = {}
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        method, params = message["method"], message.get("params") or {}
        with LOG.open("a") as log:
            log.write(json.dumps({"method": method, "params": params}) + "\n")
        result: Any = {}
        task_id = params.get("taskId")
        if method == "initialize":
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}, "cancel": {}}},
                "serverInfo": {"name": "tasks", "version": "1"},
            }
        elif method == "server/discover":
            result = {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
            }
        elif method == "tools/list":
            result = {"tools": [tool(name) for name in TOOLS]}
        elif method == "tools/call":
            task_id = f"t{len(tasks)}"
            task = tasks[task_id] = Task(params["name"])
            state = {
                key: value
                for key, value in task.state(task_id).items()
                if key not in ("result", "error", "inputRequests")
            }
            result = {"resultType": "task", **state} if ERA == "modern" else {"task": state}
            if ERA == "handshake" and "task" not in params:
                error = {"code": -32601, "message": "only as a task"}
                print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
                continue
        elif method == "tasks/get":
            result = tasks[task_id].state(task_id)
        elif method == "tasks/update":
            tasks[task_id].answer = params["inputResponses"]["who"]["content"]["name"]
        elif method == "tasks/result":
            result = tasks[task_id].result()
        if ERA == "modern":
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


main()
