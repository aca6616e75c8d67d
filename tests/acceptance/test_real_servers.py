"""The servers that people run: the reference ones from npm and PyPI, and those on the MCP SDK."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers import warm
from servers.running import PATIENCE, OpenSources, Signal, StdioServers, next_change, program
from spindle import CallOptions, Finished, Paused, Principal
from spindle.app import Spindle
from spindle.domain.identity import Credential
from spindle.errors import InvalidArgumentsError, SpindleError
from spindle.http.credentials import bearer

SDK_SERVER = Path(__file__).parent.parent / "servers" / "sdk_server.py"


async def version_of(app: Spindle, source: str) -> str | None:
    """Which version of the protocol the source's session speaks."""
    config, made = app.catalog.sources.config(source), app.catalog.sources.get(source)
    async with app.catalog.connections.session(source, made, config, Credential()) as session:
        return session.protocol_version  # type: ignore[attr-defined]


@contextlib.contextmanager
def running(command: list[str], env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


# --- npm, 2024-11-05


@pytest.mark.npm
async def test_a_server_of_the_first_protocol_version_lists_and_answers(open_sources: OpenSources) -> None:
    # It starts without its database; asking it for data then fails in its own words.
    command = [program("mcp-server-postgres"), "postgresql://nobody@127.0.0.1:9/none"]
    async with open_sources({"pg": {"command": command}}) as app:
        (report,) = await app.sync()
        assert report.error is None
        assert report.added == ["pg.query"]
        assert await version_of(app, "pg") == "2024-11-05"
        with pytest.raises(SpindleError, match="ECONNREFUSED") as caught:
            await app.call("pg.query", sql="select 1")
        assert caught.value.source == "pg"


# --- npm, 2025-11-25


@pytest.fixture(scope="module")
def everything_urls() -> Iterator[dict[str, str]]:
    """server-everything over both HTTP transports."""
    with contextlib.ExitStack() as stack:
        urls: dict[str, str] = {}
        for mode, path in (("streamableHttp", "mcp"), ("sse", "sse")):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            command = [program("mcp-server-everything"), mode]
            process = stack.enter_context(running(command, {"PORT": str(port)}))
            assert process.stdout is not None
            for line in process.stdout:
                if str(port) in line:
                    break
            urls[mode] = f"http://127.0.0.1:{port}/{path}"
        yield urls


@pytest.fixture(params=["stdio", "streamableHttp", "sse"])
def everything(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "stdio":
        return {"command": [program("mcp-server-everything")]}
    return {"url": request.getfixturevalue("everything_urls")[request.param]}


@pytest.mark.npm
async def test_server_everything_is_used_in_every_way_it_offers(
    open_sources: OpenSources, everything: dict[str, Any]
) -> None:
    async with open_sources({"every": everything}) as app:
        (report,) = await app.sync()
        assert report.error is None
        assert report.tools >= 12
        assert await version_of(app, "every") == "2025-11-25"

        assert (await app.call("every.echo", message="hi")).text == "Echo: hi"
        assert "12" in (await app.call("every.get-sum", a=5, b=7)).text

        image = (await app.call("every.get-tiny-image")).content
        assert [block.type for block in image] == ["text", "image", "text"]
        assert (image[1].mime_type, bool(image[1].data)) == ("image/png", True)

        links = (await app.call("every.get-resource-links", count=3)).content
        assert [block.type for block in links] == ["text", "link", "link", "link"]
        assert all(link.uri and link.name for link in links[1:])

        held = (await app.call("every.get-resource-reference", resourceType="Text", resourceId=1)).content
        assert [block.type for block in held] == ["text", "resource", "text"]
        assert held[1].uri
        assert held[1].text

        weather = await app.call("every.get-structured-content", location="Chicago")
        assert set(weather.structured) == {"temperature", "conditions", "humidity"}
        assert json.loads(weather.text) == weather.structured

        noted = await app.call("every.get-annotated-message", messageType="error", includeImage=True)
        assert noted.content[0].annotations is not None
        assert noted.content[0].annotations["priority"] == 1.0

        progress = Signal()
        options = CallOptions(on_progress=progress)
        await app.call("every.trigger-long-running-operation", {"duration": 0.2, "steps": 2}, options)
        await progress.wait()
        assert progress.seen[-1][:2] == (2, 2)

        with pytest.raises(InvalidArgumentsError, match="location"):
            await app.call("every.get-structured-content", location="Atlantis")


@pytest.mark.npm
async def test_server_everything_asks_and_lets_read(
    open_sources: OpenSources, everything: dict[str, Any]
) -> None:
    page = {"url": "https://example.com/x", "message": "Go there", "errorPath": True}
    async with open_sources({"every": {**everything, "answers": ["elicitation", "sampling"]}}) as app:
        paused = await app.run("every.trigger-elicitation-request")
        assert isinstance(paused, Paused)
        done = await app.resume(paused.pauses[0].token, {"name": "Ann", "email": "ann@example.com"})
        assert isinstance(done, Finished)
        assert "- Name: Ann" in done.result.text
        outcome = await app.run("every.trigger-url-elicitation", page)
        visited: list[str] = []
        while isinstance(outcome, Paused):
            visited.append(outcome.pauses[0].details["url"])
            outcome = await app.resume(outcome.pauses[0].token)
        assert isinstance(outcome, Finished)
        assert "completed the URL elicitation" in outcome.result.text
        # It refuses every other call, and asks in those that it takes.
        first = "https://modelcontextprotocol.io"
        assert visited == [first, page["url"], first]
        refused = await app.call("every.trigger-sampling-request", prompt="hi")
        assert "there is no language model" in refused.text

        uris = [item.uri for item in await app.resources() if not item.is_template]
        assert (await app.read(uris[0])).text
        assert (await app.read("demo://resource/dynamic/blob/1")).content[0].data
        filled = await app.prompt("args-prompt", {"city": "Ulm"})
        assert "Ulm" in filled.text


@pytest.mark.npm
async def test_a_long_operation_of_a_real_server_is_cancelled_by_its_timeout(
    open_sources: OpenSources, everything: dict[str, Any]
) -> None:
    async with open_sources({"every": everything}) as app:
        await app.sync()
        with pytest.raises(Exception, match="did not answer within"):
            await app.call(
                "every.trigger-long-running-operation",
                {"duration": 3600, "steps": 2},
                CallOptions(timeout=0.1),
            )
        assert (await app.call("every.echo", message="next")).text == "Echo: next"


@pytest.mark.npm
async def test_the_filesystem_server_reads_writes_and_reports_its_errors(
    open_sources: OpenSources, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    async with open_sources({"fs": {"command": [program("mcp-server-filesystem"), str(shared)]}}) as app:
        await app.call("fs.write_file", path=str(shared / "note.txt"), content="zażółć")
        read = await app.call("fs.read_text_file", path=str(shared / "note.txt"))
        missing = await app.call("fs.read_text_file", path=str(shared / "nothing.txt"))
        outside = await app.call("fs.read_text_file", path="/etc/passwd")
        tool = await app.show("fs.read_text_file")
    assert (shared / "note.txt").read_text() == "zażółć"
    assert read.text == "zażółć"
    assert read.structured == {"content": "zażółć"}
    assert (missing.is_error, missing.category) == (True, "not_found")
    assert (outside.is_error, outside.category) == (True, "permission")
    assert tool.hints.read_only is True


@pytest.mark.npm
async def test_the_memory_server_keeps_what_it_is_told(open_sources: OpenSources, tmp_path: Path) -> None:
    source = {
        "command": [program("mcp-server-memory")],
        "env": {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")},
    }
    entity = {"name": "Spindle", "entityType": "program", "observations": ["takes any tool"]}
    async with open_sources({"memory": source}) as app:
        await app.call("memory.create_entities", entities=[entity])
        await app.catalog.connections.close_source("memory")
        graph = await app.call("memory.read_graph")
    assert graph.structured["entities"] == [entity]


# --- PyPI, 2026-07-28


async def test_the_time_server_speaks_the_newest_version(open_sources: OpenSources) -> None:
    source = {"command": [program("mcp-server-time")]}
    async with open_sources({"time": source}) as app:
        now = await app.call("time.get_current_time", timezone="Europe/Warsaw")
        wrong = await app.call("time.get_current_time", timezone="Europe/Atlantis")
        assert await version_of(app, "time") == "2026-07-28"
    assert now.structured["timezone"] == "Europe/Warsaw"
    assert (wrong.is_error, wrong.category) == (True, "client")


async def test_the_time_server_also_speaks_the_handshake(open_sources: OpenSources) -> None:
    source = {"command": [program("mcp-server-time")], "protocol": "handshake"}
    async with open_sources({"time": source}) as app:
        now = await app.call("time.get_current_time", timezone="Europe/Warsaw")
        assert await version_of(app, "time") == "2025-11-25"
    assert now.structured["timezone"] == "Europe/Warsaw"


async def test_the_git_server_works_on_a_repository(open_sources: OpenSources, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    (repository / "a.txt").write_text("a")
    source = {"command": [program("mcp-server-git"), "--repository", str(repository)]}
    async with open_sources({"git": source}) as app:
        status = await app.call("git.git_status", repo_path=str(repository))
        added = await app.call("git.git_add", repo_path=str(repository), files=["a.txt"])
        missing = await app.call("git.git_show", repo_path=str(repository), revision="nowhere")
        nothing = await app.call("git.git_add", repo_path=str(repository), files=["nothing.txt"])
        outside = await app.call("git.git_status", repo_path=str(tmp_path))
    assert "a.txt" in status.text
    assert not added.is_error
    assert [missing.category, nothing.category, outside.category] == ["not_found", "not_found", "permission"]
    staged = subprocess.run(
        ["git", "-C", str(repository), "diff", "--cached", "--name-only"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert staged.stdout == "a.txt\n"


# --- older versions


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_version_of_the_handshake_is_spoken(
    open_sources: OpenSources, stdio_server: StdioServers, version: str
) -> None:
    async with open_sources({"s": stdio_server(versions=[version])}) as app:
        assert (await app.call("s.echo", text="hi")).text == "hi"
        assert await version_of(app, "s") == version


# --- servers on the SDK


@pytest.fixture(
    scope="module",
    params=["streamable", "streamable json", "streamable stateless", "streamable json stateless", "sse"],
)
def sdk_server(request: pytest.FixtureRequest) -> Iterator[str]:
    arguments = request.param.split()
    with running([warm.PYTHON, str(SDK_SERVER), *arguments]) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield f"http://127.0.0.1:{port}/{'sse' if 'sse' in arguments else 'mcp'}"


@pytest.mark.parametrize("protocol", ["auto", "handshake"])
async def test_a_server_on_the_sdk_tells_two_principals_apart(
    open_sources: OpenSources, sdk_server: str, protocol: str
) -> None:
    async def own_token(source: str, principal: Principal) -> Credential:
        return bearer(f"token-of-{principal.id}")

    source = {"url": sdk_server, "protocol": protocol, "max_concurrency": 50}
    async with open_sources({"s": source}, credentials=own_token) as app:
        people = ["ann", "ben"] * 25
        results = await asyncio.gather(
            *(app.call("s.whoami", {}, CallOptions(principal=Principal(who))) for who in people)
        )
    assert [result.text for result in results] == [f"Bearer token-of-{who}" for who in people]


@pytest.mark.parametrize("protocol", ["auto", "handshake"])
async def test_a_server_on_the_sdk_gives_large_results(
    open_sources: OpenSources, sdk_server: str, protocol: str
) -> None:
    async with open_sources({"s": {"url": sdk_server, "protocol": protocol}}) as app:
        text = "x" * 2_000_000
        assert (await app.call("s.echo", text=text)).text == text


async def test_a_server_on_the_sdk_tells_of_its_changes(open_sources: OpenSources, sdk_server: str) -> None:
    async with open_sources({"s": {"url": sdk_server}}) as app:
        await app.sync()
        change = next_change(app)
        modern = await version_of(app, "s") == "2026-07-28"
        # Listening begins in the background: a first notice may come before it, a later one does not.
        known = len(await app.tools())
        async with asyncio.timeout(PATIENCE):
            for number in range(1000):
                await app.call("s.add_tool", name=f"new_{known}_{number}")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        report = await change()
                        break
        assert f"s.new_{known}_0" in report.added
        assert modern == ("/mcp" in sdk_server)
