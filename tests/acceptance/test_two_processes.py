"""Two shells at work in one workspace at the same time."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from servers import warm

SERVER = """
import json, sys

TOOL = {"name": "echo", "description": "Say it again", "inputSchema": {"type": "object", "properties": {}}}
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "echo", "version": "1"},
    },
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "again"}]},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = RESULTS.get(message["method"])
        answer = {"result": result} if result else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
EACH = 2


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_processes_that_add_sync_and_call_at_once_lose_nothing(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "spindle.toml").write_text("# ours to keep\n")
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    environment = {**os.environ, "SPINDLE_HOME": str(tmp_path / "home")}
    if kind == "postgres":
        environment["SPINDLE_STORE"] = request.getfixturevalue("postgres_url")
    spindle = f'"{warm.SPINDLE}"'
    add = f'{spindle} add "$0$number" -- "{sys.executable}" "{server}" && {spindle} call "$0$number.echo"'
    numbers = " ".join(map(str, range(EACH)))
    shells = [
        subprocess.Popen(
            ["bash", "-c", f"for number in {numbers}; do {add} || exit 1; done", letter],
            cwd=workspace,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for letter in "ab"
    ]
    for shell in shells:
        output, _ = shell.communicate(timeout=300)
        assert shell.returncode == 0, output

    expected = {f"{letter}{number}" for letter in "ab" for number in range(EACH)}
    text = (workspace / "spindle.toml").read_text()
    assert text.startswith("# ours to keep\n")
    assert set(tomllib.loads(text)["sources"]) == expected

    def told(*words: str) -> list[dict[str, str]]:
        done = subprocess.run(
            [warm.SPINDLE, *words, "--json"],
            cwd=workspace, env=environment, capture_output=True, text=True, check=True, timeout=300,
        )  # fmt: skip
        return json.loads(done.stdout)

    assert {tool["name"] for tool in told("tools")} == {f"{name}.echo" for name in expected}
    assert sorted(call["tool"] for call in told("history")) == sorted(f"{name}.echo" for name in expected)
    assert (workspace / ".spindle" / "state.db").exists() is (kind == "sqlite")
