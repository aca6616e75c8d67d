"""A workspace in the current folder, and what a command line ended with."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MINI_SERVER = Path(__file__).parent.parent / "cli" / "mini_server.py"

ECHO = {
    "name": "echo",
    "description": "Give the arguments back. They are not changed.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to say."},
            "count": {"type": "integer", "default": 1},
            "tags": {"type": "array", "items": {"type": "string"}},
            "loud": {"type": "boolean"},
            "json": {"type": "string"},
        },
        "required": ["text"],
    },
    "annotations": {"readOnlyHint": True},
}


def plain_tool(name: str, description: str = "", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": description or f"The tool {name}.", "inputSchema": schema}


TOOLS = [ECHO, *(plain_tool(name) for name in ("fail", "picture", "data", "hang", "paint"))]


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


class Workspace:
    """The current folder, with what a test puts into it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.definitions = root / "server" / "tools.json"

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def serve(self, *tools: dict[str, Any]) -> list[str]:
        """The command of a server with these tools."""
        self.write("server/tools.json", json.dumps(tools or TOOLS))
        return [sys.executable, "-I", "-S", str(MINI_SERVER), str(self.definitions)]

    def add_server(self, *tools: dict[str, Any], name: str = "mini", **settings: Any) -> None:
        table = {"command": self.serve(*tools), "protocol": "handshake", **settings}
        lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        with (self.root / "spindle.toml").open("a") as file:
            file.write(f"[sources.{name}]\n" + "\n".join(lines) + "\n")

    @property
    def server_pids(self) -> list[int]:
        return [int(line) for line in (self.definitions.with_name("pids")).read_text().split()]
