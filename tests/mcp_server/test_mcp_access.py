"""Who is let in to the MCP server, as whom they act, and what exists for them: the program as it runs, and
real clients. The rules themselves are tested in tests/serving."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from mcp_server.test_http_serving import JSON, initialize, modern
from servers import warm
from servers.issuing import AUDIENCE, ISSUER, publishing, signed
from servers.running import PATIENCE
from servers.serving import ERAS, by_command_line, serve_command, text_of

EACH_ERA = pytest.mark.parametrize("era", list(ERAS))
TOOLS = """
from spindle import Context, tool

@tool
def who(context: Context) -> str:
    '''Say who calls.'''
    return f"{context.principal.id} {sorted(context.principal.groups)}"

@tool
def wipe() -> str:
    '''Say nothing.'''
    return "wiped"

@tool
def read_it() -> str:
    '''Say something.'''
    return "read"
"""
TOKENS = """
[serve]
auth_token_env = "ONE_TOKEN"
excluded_tools = ["wip?"]
[serve.tokens]
ann = { token = "token-of-ann", user = "ann@example.com", groups = ["readers"] }
bob = { token = "token-of-bob" }
[serve.groups.readers]
exposed_tools = ["who", "read_*"]
[serve.groups.guest]
exposed_tools = ["who"]
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPINDLE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ONE_TOKEN", "token-of-all")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "t.py").write_text(TOOLS)
    (tmp_path / "spindle.toml").touch()
    return tmp_path


@contextlib.asynccontextmanager
async def connected(url: str, era: str, token: str) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http), mode=ERAS[era]) as client,
    ):
        yield client


async def names(client: Client) -> list[str]:
    return sorted(item.name for item in (await client.list_tools()).tools)


async def refused(client: Client, tool: str) -> bool:
    """Whether a tool is as if it were not there."""
    try:
        await client.session.call_tool(tool, {})
    except MCPError as error:
        return "Unknown tool" in str(error)
    return False


@EACH_ERA
async def test_each_token_is_somebody_and_sees_what_its_groups_do(workspace: Path, era: str) -> None:
    (workspace / "spindle.toml").write_text(TOKENS)
    expected = {
        "token-of-ann": (["read_it", "who"], "ann@example.com ['readers']"),
        "token-of-bob": (["who"], "bob ['guest']"),
        "token-of-all": (["who"], "client ['guest']"),
    }
    async with serve_command(workspace) as (url, _):
        for token, (seen, said) in expected.items():
            async with connected(url, era, token) as client:
                assert await names(client) == seen
                assert text_of(await client.call_tool("who", {})) == said
                assert await refused(client, "wipe")
                assert await refused(client, "read_it") == ("read_it" not in seen)


@EACH_ERA
async def test_what_is_hidden_is_not_found_by_search_either(workspace: Path, era: str) -> None:
    (workspace / "spindle.toml").write_text(TOKENS.replace("[serve]", '[serve]\nmode = "search"', 1))
    async with serve_command(workspace) as (url, _), connected(url, era, "token-of-ann") as client:
        assert await names(client) == ["call_tool", "describe_tool", "search_tools"]
        found = await client.call_tool("search_tools", {"query": "say something or nothing wipe"})
        assert found.structured_content is not None
        assert {item["name"] for item in found.structured_content["tools"]} == {"read_it", "who"}
        for tool in ("describe_tool", "call_tool"):
            hidden = await client.call_tool(tool, {"name": "wipe"})
            assert hidden.is_error
            assert "there is no tool 'wipe'" in text_of(hidden)
            assert not (await client.call_tool(tool, {"name": "read_it"})).is_error


async def test_without_a_right_token_every_path_and_method_answers_401(workspace: Path) -> None:
    (workspace / "spindle.toml").write_text(TOKENS)
    body, headers = modern("tools/call", "who", arguments={})
    async with serve_command(workspace) as (url, process), httpx2.AsyncClient(timeout=PATIENCE) as http:
        for shown in (
            None,
            "Bearer",
            "Bearer wrong",
            "Bearer token-of-al",
            "Basic token-of-all",
            "token-of-all",
        ):
            shows = {} if shown is None else {"authorization": shown}
            for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
                for path in ("/mcp", "/mcp/", "/", "/other", "/.well-known/oauth-protected-resource"):
                    address = url.replace("/mcp", path)
                    answer = await http.request(method, address, headers={**headers, **shows})
                    if path == "/" and method in ("GET", "HEAD"):
                        # It says what this server is, and nothing of the catalog.
                        assert answer.status_code == 200
                        assert "who" not in answer.text
                        continue
                    assert answer.status_code == 401, (shown, method, path)
                    assert answer.headers["www-authenticate"].startswith("Bearer ")
                    assert "token-of" not in answer.text
            assert (await http.post(url, json=initialize(), headers={**JSON, **shows})).status_code == 401
        right = {**headers, "authorization": "bearer token-of-all"}
        answer = await http.post(url, json=body, headers=right)
        assert answer.json()["result"]["content"][0]["text"] == "client ['guest']"
        assert process.returncode is None


async def test_one_who_shows_another_token_gets_another_s_session_not(workspace: Path) -> None:
    (workspace / "spindle.toml").write_text(TOKENS)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with serve_command(workspace) as (url, _), httpx2.AsyncClient(timeout=PATIENCE) as http:
        ann = {**JSON, "authorization": "Bearer token-of-ann"}
        opened = await http.post(url, json=initialize(), headers=ann)
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        assert (await http.post(url, json=ping, headers={**ann, **session})).status_code == 200
        bob = {**ann, **session, "authorization": "Bearer token-of-bob"}
        assert (await http.post(url, json=ping, headers=bob)).status_code == 404


@EACH_ERA
async def test_a_token_of_an_issuer_is_taken_and_its_groups_count(workspace: Path, era: str) -> None:
    with publishing() as keys:
        (workspace / "spindle.toml").write_text(
            f'[serve]\njwt = {{ issuer = "{ISSUER}", audience = "{AUDIENCE}", jwks_url = "{keys.url}" }}\n'
            '[serve.groups.readers]\nexposed_tools = ["read_it", "who"]\n'
            "[serve.groups.guest]\nexposed_tools = []\n"
        )
        async with serve_command(workspace) as (url, _):
            async with connected(url, era, signed(groups=["readers"])) as client:
                assert await names(client) == ["read_it", "who"]
                assert text_of(await client.call_tool("who", {})) == "ann ['readers']"
            async with connected(url, era, signed(sub="eve")) as client:
                assert await names(client) == []
                assert await refused(client, "who")
            async with httpx2.AsyncClient(timeout=PATIENCE) as http:
                for wrong in (
                    signed(aud="https://other.example"),
                    signed(exp=1_700_000_000),
                    signed("rsa-2"),
                ):
                    headers = {**JSON, "authorization": f"Bearer {wrong}"}
                    answer = await http.post(url, json=initialize(), headers=headers)
                    assert answer.status_code == 401
                    place = url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
                    assert f'resource_metadata="{place}"' in answer.headers["www-authenticate"]
                metadata = (await http.get(place)).json()
                assert metadata["resource"] == url
                assert metadata["authorization_servers"] == [ISSUER]


async def test_who_asks_too_often_waits_and_others_do_not(workspace: Path) -> None:
    (workspace / "spindle.toml").write_text(TOKENS.replace("[serve]", '[serve]\nrate_limit = "3/hour"', 1))
    body, headers = modern("tools/call", "who", arguments={})
    async with serve_command(workspace) as (url, _), httpx2.AsyncClient(timeout=PATIENCE) as http:

        async def asked(token: str) -> int:
            shows = {**headers, "authorization": f"Bearer {token}"}
            return (await http.post(url, json=body, headers=shows)).status_code

        assert [await asked("token-of-ann") for _ in range(4)] == [200, 200, 200, 429]
        assert await asked("token-of-bob") == 200


@EACH_ERA
async def test_all_tools_hidden_is_an_empty_list_and_unknown_names_are_noted(
    workspace: Path, era: str
) -> None:
    (workspace / "spindle.toml").write_text('[serve]\nexposed_tools = ["whoo"]\nexcluded_tools = ["x*"]\n')
    async with by_command_line(workspace, era) as client:
        assert await names(client) == []
        assert await refused(client, "who")
    said = started(workspace, "--stdio").stderr
    assert "serve.exposed_tools names 'whoo', which is not a tool; did you mean 'who'?" in said


def started(workspace: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A server whose input has ended."""
    return subprocess.run(
        [warm.SPINDLE, "-w", str(workspace), "serve", *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip


@pytest.mark.parametrize("how", [("--stdio",), ("--http", "--port", "0")])
def test_a_variable_that_holds_no_token_stops_the_start(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, how: tuple[str, ...]
) -> None:
    (workspace / "spindle.toml").write_text(TOKENS)
    for value in ("", "  ", None):
        if value is None:
            monkeypatch.delenv("ONE_TOKEN")
        else:
            monkeypatch.setenv("ONE_TOKEN", value)
        done = started(workspace, *how)
        assert done.returncode == 2
        problem = "not set" if value is None else "not set to anything"
        assert f"serve.auth_token_env names the variable ONE_TOKEN, which is {problem}\n" in done.stderr
        assert "Traceback" not in done.stderr


async def test_over_a_pipe_nobody_shows_a_token_and_the_owner_sees_what_the_default_group_does(
    workspace: Path,
) -> None:
    (workspace / "spindle.toml").write_text(
        TOKENS + '[serve.groups.me]\nexposed_tools = ["read_it", "who"]\n'
    )
    async with by_command_line(workspace, "modern") as client:
        assert await names(client) == ["who"]
    text = (workspace / "spindle.toml").read_text()
    (workspace / "spindle.toml").write_text(text.replace("[serve]", '[serve]\ndefault_agent_group = "me"', 1))
    async with by_command_line(workspace, "modern") as client:
        assert await names(client) == ["read_it", "who"]
        assert text_of(await client.call_tool("who", {})) == "local ['me']"


async def test_unless_told_otherwise_it_listens_on_this_machine_only(workspace: Path) -> None:
    async with serve_command(workspace) as (url, process):
        port = httpx2.URL(url).port
        listening = _listening(warm.pid_of(process.pid))
        assert url == f"http://127.0.0.1:{port}/mcp"
        assert listening == {("0100007F", port)}
    async with serve_command(workspace, "--host", "127.0.0.2") as (url, process):
        assert _listening(warm.pid_of(process.pid)) == {("0200007F", httpx2.URL(url).port)}


def _listening(pid: int) -> set[tuple[str, int]]:
    """Where a process listens, as the kernel writes it."""
    sockets = {link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    found: set[tuple[str, int]] = set()
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields: Any = row.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                address, _, port = fields[1].partition(":")
                found.add((address, int(port, 16)))
    return found
