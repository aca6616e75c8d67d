"""A workspace never becomes its own source: not directly, and not through other workspaces."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

import spindle
from servers import warm
from servers.rest import RestWorkspace
from servers.serving import ERAS, served
from spindle.app import Spindle
from spindle.cli.main import execute
from spindle.domain import trail
from spindle.domain.tool import ToolSpec
from spindle.errors import LoopError

EACH_ERA = pytest.mark.parametrize("era", list(ERAS))


def make(root: Path, sources: dict[str, Any]) -> Path:
    """A workspace with one tool of its own, called after it."""
    (root / "tools").mkdir(parents=True, exist_ok=True)
    (root / "tools" / "own.py").write_text(
        f'from spindle import tool\n\n\n@tool\ndef of_{root.name}() -> str:\n    """Its own."""\n'
        f'    return "{root.name}"\n'
    )
    lines = [f"[sources.{name}]\n{_toml(table)}" for name, table in sources.items()]
    (root / "spindle.toml").write_text("\n".join(lines))
    return root


def _toml(table: dict[str, Any]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())


def over_stdio(root: Path) -> dict[str, Any]:
    return {"command": [warm.SPINDLE, "-w", str(root), "serve", "--stdio", "--trust"]}


@contextlib.asynccontextmanager
async def opened(root: Path, notes: list[str] | None = None) -> AsyncIterator[Spindle]:
    async with spindle.open(root, note=(notes if notes is not None else []).append) as app:
        yield app


async def names(app: Spindle) -> list[str]:
    return [tool.name for tool in await app.tools()]


# --- over stdio


async def test_a_workspace_that_starts_itself_is_told_so_and_does_not_grow(tmp_path: Path) -> None:
    root = make(tmp_path / "a", {"me": over_stdio(tmp_path / "a")})
    for _ in range(2):
        async with opened(root) as app:
            report = {report.source: report for report in await app.sync()}["me"]
            assert await names(app) == ["of_a"]
        assert report.error is not None
        assert report.error["message"] == (
            "me leads in a circle, back to a workspace that the request came through"
        )
        assert report.error["details"] == {"loop": ["me"]}
        assert "remove one of the sources" in report.error["hint"]


async def test_two_that_start_each_other_have_each_others_own_tools_and_no_more(tmp_path: Path) -> None:
    roots = {"a": tmp_path / "a", "b": tmp_path / "b"}
    make(roots["a"], {"b": over_stdio(roots["b"])})
    make(roots["b"], {"a": over_stdio(roots["a"])})
    for name in ("a", "b", "a"):
        async with opened(roots[name]) as app:
            (report,) = [report for report in await app.sync() if report.source != "tools"]
            assert report.error is None
    found = {}
    for name, root in roots.items():
        async with opened(root) as app:
            found[name] = await names(app)
    assert found == {"a": ["b.of_b", "of_a"], "b": ["a.of_a", "of_b"]}


def test_doctor_names_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make(tmp_path / "a", {"me": over_stdio(tmp_path / "a")})
    assert execute(("-w", str(root), "doctor", "--json")) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    (problem,) = [finding for finding in findings if finding["level"] == "problem"]
    assert problem["subject"] == "me"
    assert problem["message"].startswith("me leads in a circle")
    assert "remove one of the sources" in problem["fix"]


# --- over HTTP


async def test_a_workspace_that_reaches_itself_is_refused(tmp_path: Path) -> None:
    async with opened(make(tmp_path / "a", {})) as serving, served(serving) as url:
        for protocol in ("auto", "handshake"):
            root = make(tmp_path / "a", {"me": {"url": url, "protocol": protocol}})
            async with opened(root) as app:
                (report,) = await app.sync("me")
                assert report.error is not None
                assert report.error["details"] == {"loop": ["me"]}


@EACH_ERA
async def test_tools_that_come_back_are_left_out_and_counted(tmp_path: Path, era: str) -> None:
    protocol = "handshake" if era == "handshake" else "auto"
    async with (
        opened(make(tmp_path / "a", {})) as a,
        served(a) as url_a,
        opened(make(tmp_path / "b", {"a": {"url": url_a, "protocol": protocol}})) as b,
        served(b) as url_b,
    ):
        await b.sync()
        assert await names(b) == ["a.of_a", "of_b"]
        notes: list[str] = []
        root = make(tmp_path / "a", {"b": {"url": url_b, "protocol": protocol}})
        async with opened(root, notes) as again:
            await again.sync()
            assert await names(again) == ["b.of_b", "of_a"]
            assert "b: 1 tool is left out, which this workspace itself serves to it" in notes
        # Whoever is no part of the circle gets everything.
        async with opened(make(tmp_path / "c", {"b": {"url": url_b}})) as c:
            await c.sync()
            assert await names(c) == ["b.a_of_a", "b.of_b", "of_c"]
            assert (await c.call("b.a_of_a")).text == "a"


async def test_a_call_around_three_corners_is_refused_and_its_path_named(tmp_path: Path) -> None:
    # In search mode a list does not show what can be called, so that only the call itself finds the loop.
    async with (
        opened(make(tmp_path / "a", {})) as a,
        served(a) as url_a,
        opened(make(tmp_path / "b", {"a": {"url": url_a}})) as b,
        served(b) as url_b,
        opened(make(tmp_path / "c", {"b": {"url": url_b}})) as c,
        served(c, mode="search") as url_c,
    ):
        await b.sync()
        await c.sync()
        async with opened(make(tmp_path / "a", {"c": {"url": url_c}})) as again:
            await again.sync()
            assert (await again.call("c.call_tool", name="b.of_b")).text == "b"
            with pytest.raises(LoopError, match="c → b → a leads in a circle") as caught:
                await again.call("c.call_tool", name="b.a_of_a")
            assert caught.value.path == ("c", "b", "a")
            # The same call of somebody else does no harm.
            async with Client(url_c) as other:
                done = await other.call_tool("call_tool", {"name": "b.a_of_a"})
            assert done.content[0].text == "a"


@pytest.mark.parametrize(
    "mark",
    ["", "x" * 16, "0" * 15, "0123456789abcdef " * 17, " ".join(["0" * 16] * 17), 5, None, ["0" * 16], {}],
)
async def test_a_mark_that_is_none_is_ignored(tmp_path: Path, mark: Any) -> None:
    async with opened(make(tmp_path / "a", {})) as app, served(app) as url, Client(url) as client:
        done = await client.call_tool("of_a", {}, meta={trail.META_KEY: mark})
    assert done.content[0].text == "a"


async def test_a_forged_mark_refuses_the_call_of_its_forger_alone(tmp_path: Path) -> None:
    async with opened(make(tmp_path / "a", {})) as app, served(app) as url:
        forged = {trail.META_KEY: app.catalog.sources.workspace}
        async with Client(url) as forger, Client(url) as other:
            with pytest.raises(MCPError, match="came through this workspace before"):
                await forger.call_tool("of_a", {}, meta=forged)
            assert (await other.call_tool("of_a", {})).content[0].text == "a"
            assert (await forger.call_tool("of_a", {})).content[0].text == "a"
            # Who shows no mark gets none.
            assert [tool.meta for tool in (await other.list_tools()).tools] == [None]


async def test_nobody_goes_through_more_workspaces_than_can_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = [f"{number:016x}" for number in range(trail.MAX_HOPS)]
    async with opened(make(tmp_path / "a", {})) as app:
        with trail.following(tuple(far[:-1])):
            assert (await app.call("of_a")).text == "a"
        with (
            trail.following(tuple(far)),
            pytest.raises(LoopError, match="more than 16 workspaces away"),
        ):
            await app.call("of_a")
    monkeypatch.setenv(trail.VARIABLE, " ".join(far))
    async with opened(tmp_path / "a") as app:
        with pytest.raises(LoopError, match="more than 16 workspaces away"):
            await app.call("of_a")


# --- over REST


async def test_the_rest_api_of_a_workspace_is_not_its_source(rest: RestWorkspace) -> None:
    with rest.serve() as running:
        document = {"kind": "openapi", "document": f"{running.url}/openapi.json"}
        manual = {"kind": "utcp", "document": f"{running.url}/utcp"}
        root = Path(running.root)
        async with opened(root) as home:
            own = home.catalog.sources.workspace
        refused = running.client.post("/tools/hello", json={}, headers={trail.HEADER: own})
        passed = running.client.post("/tools/hello", json={}, headers={trail.HEADER: "f" * 16})
        (root / "spindle.toml").write_text(
            f"[sources.me]\n{_toml(document)}\n[sources.too]\n{_toml(manual)}\n"
        )
        async with opened(root) as home:
            for report in await home.sync("me", "too"):
                assert report.error is not None
                assert report.error["details"] == {"loop": [report.source]}
        async with opened(make(root.parent / "b", {"a": document, "m": manual})) as b:
            assert [report.error for report in await b.sync("a", "m")] == [None, None]
            for tool, arguments in (("a.echo", {"text": "x"}), ("m.echo", {"body": {"text": "x"}})):
                assert (await b.call(tool, arguments)).structured["text"] == "x"
                with trail.following((own,)), pytest.raises(LoopError, match=f"{tool[0]} leads in a circle"):
                    await b.call(tool, arguments)
    assert refused.status_code == 508
    assert refused.json()["category"] == "configuration"
    assert passed.status_code == 200


# --- what others get to see


async def test_programs_get_the_trail_and_apis_of_others_do_not(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        paths = {"/x": {"get": {"operationId": "x", "responses": {"200": {"description": "ok"}}}}}
        api = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": url}]}
        root = make(tmp_path / "a", {"api": {"kind": "openapi", "document": "api.json"}})
        (root / "api.json").write_text(json.dumps({**api, "paths": paths}))
        with (root / "spindle.toml").open("a") as file:
            file.write('[sources.os]\nkind = "cli"\nprogram = "env"\n[sources.os.commands.env]\nargs = []\n')
        async with opened(root) as own:
            await own.sync()
            await own.call("api.x")
            said = (await own.call("os.env")).text
            workspace = own.catalog.sources.workspace
    assert f"{trail.VARIABLE}={workspace}\n" in f"{said}\n"
    assert trail.VARIABLE not in os.environ
    (request,) = seen
    assert request.startswith(b"GET /x ")
    assert trail.HEADER.encode() not in request.lower()


def test_where_a_tool_is_served_is_no_part_of_what_it_is() -> None:
    plain = ToolSpec("x", metadata={"a": 1})
    for way in ("0" * 16, "1" * 16):
        assert ToolSpec("x", metadata={"a": 1, trail.FIELD: way}).fingerprint == plain.fingerprint
    assert ToolSpec("x", metadata={trail.FIELD: "0" * 16}).fingerprint == ToolSpec("x").fingerprint
    assert ToolSpec("x", metadata={"a": 2}).fingerprint != plain.fingerprint


def test_a_workspace_has_one_id_and_every_copy_another(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = trail.workspace_id(tmp_path / "a")
    assert trail.read(found) == (found,)
    assert trail.workspace_id(tmp_path / "link") == found
    assert trail.workspace_id(tmp_path / "b") != found
