"""The workspace as a registry: what it publishes to whom, and our own client reading it back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from starlette.applications import Starlette

import spindle
from servers.registry import RECORDED
from spindle.domain.registry import RegistryConfig
from spindle.domain.serve import ServeConfig
from spindle.http.client import HttpClient
from spindle.listening.server import listen
from spindle.registry.client import RegistryClient
from spindle.registry.entry import read_entry
from spindle.registry.publish import namespace, source_entry
from spindle.serving.access import ServingAccess
from spindle.serving.front import FrontLink, FrontPage, front_or_list
from spindle.serving.guard import Guard
from spindle.serving.published import PublishedRegistry, open_list
from spindle.serving.server import serve
from spindle.settings import Settings

TOKEN = "tok-3n-of-many-letters"
SOURCES: dict[str, Any] = {
    "airtable": {
        "command": ["npx", "-y", "airtable-mcp-server@1.7.2"],
        "env": {"AIRTABLE_API_KEY": "pat-secret", "LEVEL": "quiet-secret"},
    },
    "image": {
        "command": ["docker", "run", "-i", "--rm", "-e", "KEY", "ghcr.io/a/b:1.0"],
        "env": {"KEY": "pat-secret"},
    },
    "time": {"command": ["uvx", "mcp-server-time==1.0"]},
    "remote": {
        "url": "https://mcp.example.com/mcp",
        "headers": {"X-Api-Key": "pat-secret"},
        "auth": {"type": "bearer", "token": "pat-secret"},
        "description": "A remote server.",
    },
    # None of these is for others.
    "path": {"command": ["npx", "-y", "server-filesystem@1.0.0", "/home/secret"]},
    "unpinned": {"command": ["npx", "-y", "server-memory"]},
    "local": {"command": ["python", "/home/secret/server.py"]},
    "mount": {"command": ["docker", "run", "-v", "/home/secret:/x", "a/b:1.0"]},
    "inside": {"url": "http://127.0.0.1:9/mcp"},
    "lan": {"url": "https://10.0.0.5/mcp"},
    "query": {"url": "https://mcp.example.com/mcp?key=pat-secret"},
    "variable": {"url": "https://${HOST}/mcp"},
    "program": {"kind": "cli", "commands": {}},
}
PUBLISHED = ["airtable", "image", "remote", "time"]


@asynccontextmanager
async def serving(root: Path, mcp_path: str | None = "/mcp", **settings: Any) -> AsyncIterator[str]:
    import asyncio

    config = ServeConfig.model_validate(settings)
    access = ServingAccess.of(config, {"TOKEN": TOKEN})
    workspace = Settings(root, {"sources": SOURCES, "store": ":memory:"})
    async with spindle.open(settings=workspace, visible=access.shows) as app:
        published = PublishedRegistry(Starlette(), app, access, mcp_path=mcp_path)
        with listen("127.0.0.1", 0) as listening:
            work = serve(Guard(published, access, open_list), listening, lambda: access.config, lambda: None)
            running = asyncio.create_task(work)
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)


async def get(url: str, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=120) as client:
        return await client.get(url, headers=headers)


async def test_it_is_closed_unless_the_settings_open_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as url:
        assert (await get(f"{url}/v0.1/servers")).status_code == 404


async def test_only_what_others_can_use_is_published_and_no_value(tmp_path: Path) -> None:
    async with serving(tmp_path, registry=True) as url:
        answer = await get(f"{url}/v0.1/servers")
        assert "access-control-allow-origin" not in answer.headers
        assert "secret" not in answer.text.replace("isSecret", "")
        found = answer.json()
        assert [entry["server"]["name"] for entry in found["servers"]] == [
            *(f"local/{name}" for name in PUBLISHED[:-1]),
            "local/spindle",
            "local/time",
        ]
        own = found["servers"][-2]["server"]
        assert own["remotes"] == [{"type": "streamable-http", "url": f"{url}/mcp"}]
        assert found["metadata"] == {"count": 5}
        meta = found["servers"][0]["_meta"]["io.modelcontextprotocol.registry/official"]
        assert (meta["status"], meta["isLatest"]) == ("active", True)
        for entry in found["servers"]:
            assert read_entry(entry).kinds


async def test_our_own_client_reads_it_back(tmp_path: Path) -> None:
    async with serving(tmp_path, registry="open", auth_token=TOKEN) as url:
        http = HttpClient(10.0)
        try:
            client = RegistryClient("own", RegistryConfig(url=url), http)
            found = await client.search(["local"], 100)
            assert [entry.name for entry in found.entries] == [
                "local/airtable",
                "local/image",
                "local/remote",
                "local/spindle",
                "local/time",
            ]
            assert (found.unreadable, found.cursor) == (0, None)
            airtable = await client.server("local/airtable", "1.7.2")
            (package,) = airtable.packages
            assert (package.type, package.identifier, package.version) == (
                "npm",
                "airtable-mcp-server",
                "1.7.2",
            )
            assert [(about.name, about.secret) for about in package.environment] == [
                ("AIRTABLE_API_KEY", True),
                ("LEVEL", False),
            ]
            own = await client.server("local/spindle")
            assert [(header.name, header.secret) for header in own.remotes[0].headers] == [
                ("Authorization", True)
            ]
            assert len(await client.versions("local/remote")) == 1
            for page in (1, 2):
                several = await client.search(["local"], page)
                assert len(several.entries) == page
                assert several.cursor is not None
        finally:
            await http.aclose()


async def test_pages_follow_their_cursors_to_the_end(tmp_path: Path) -> None:
    async with serving(tmp_path, registry=True) as url:
        names: list[str] = []
        cursor = ""
        while True:
            page = (await get(f"{url}/v0.1/servers?limit=2&cursor={cursor}")).json()
            names += [entry["server"]["name"] for entry in page["servers"]]
            cursor = page["metadata"].get("nextCursor")
            if cursor is None:
                break
        assert names == sorted(set(names))
        assert len(names) == 5


STATUSES = {
    "?limit=0": 400,
    "?limit=101": 400,
    "?limit=x": 400,
    "?updated_since=soon": 400,
    "?search=time": 200,
    "?version=9.9.9": 200,
    "?cursor=zzz": 200,
    "?updated_since=2999-01-01T00:00:00Z": 200,
    "/local%2Ftime/versions/latest": 200,
    "/local%2Ftime/versions/1.0": 200,
    "/local%2Ftime/versions/2.0": 404,
    "/local%2Ftime/versions": 200,
    "/local%2Fpath/versions/latest": 404,
    "/local%2Ftime": 404,
    "/..%2F..": 404,
}


async def test_each_endpoint_has_its_status(tmp_path: Path) -> None:
    async with serving(tmp_path, registry=True) as url:
        for path, status in STATUSES.items():
            answer = await get(f"{url}/v0.1/servers{path}")
            assert (path, answer.status_code) == (path, status)
            if "?" in path and status == 200:
                assert len(answer.json()["servers"]) == (1 if "search" in path else 0)


async def test_with_a_token_only_those_who_show_it_see_it(tmp_path: Path) -> None:
    async with serving(tmp_path, registry=True, auth_token=TOKEN) as url:
        assert (await get(f"{url}/v0.1/servers")).status_code == 401
        assert (await get(f"{url}/v0.1/servers", authorization=f"Bearer {TOKEN}")).status_code == 200
        assert (await get(f"{url}/v0.1/servers", origin="vscode-file://vscode-app")).status_code == 403


async def test_open_means_for_every_page_and_without_a_token_but_for_the_list_only(tmp_path: Path) -> None:
    async with serving(tmp_path, registry="open", auth_token=TOKEN) as url:
        answer = await get(f"{url}/v0.1/servers", origin="vscode-file://vscode-app")
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["access-control-allow-methods"] == "GET, OPTIONS"
        async with httpx2.AsyncClient(timeout=120) as client:
            asked = await client.options(f"{url}/v0.1/servers", headers={"origin": "https://x.example"})
            assert (asked.status_code, asked.headers["access-control-allow-headers"]) == (
                204,
                "Authorization, Content-Type",
            )
            assert (await client.post(f"{url}/v0.1/servers")).status_code == 401
        assert (await get(f"{url}/mcp")).status_code == 401
        assert (await get(f"{url}/v0.1/serversX")).status_code == 401
        assert (await get(f"{url}/v0.1/servers", host="evil.example")).status_code == 421


async def test_a_group_that_may_not_use_a_source_does_not_see_it(tmp_path: Path) -> None:
    settings = {
        "registry": "open",
        "auth_token": TOKEN,
        "groups": {"guest": {"exposed_tools": ["remote.*"]}},
    }
    async with serving(tmp_path, mcp_path=None, **settings) as url:
        found = (await get(f"{url}/v0.1/servers")).json()["servers"]
        assert [entry["server"]["name"] for entry in found] == ["local/remote"]


async def test_the_front_page_says_what_is_there(tmp_path: Path) -> None:
    access = ServingAccess.of(ServeConfig(registry=True, auth_token=TOKEN), {})
    front = FrontPage(Starlette(), access, "About <it>.", [FrontLink("mcp", "/mcp", "the server")])
    transport = httpx2.ASGITransport(app=Guard(front, access, front_or_list))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        said = (await client.get("/")).json()
        assert said == {
            "name": "Spindle",
            "about": "About <it>.",
            "mcp": "/mcp",
            "registry": "/v0.1/servers",
            "wants_token": True,
        }
        page = await client.get("/", headers={"accept": "text/html"})
        assert "<p>About &lt;it&gt;.</p>" in page.text
        assert '<a href="mcp">/mcp</a>' in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert (await client.post("/")).status_code == 401
        assert (await client.get("/mcp")).status_code == 401


def test_the_namespace_is_the_name_of_the_host_turned_around() -> None:
    assert namespace("tools.example.com") == "com.example.tools"
    assert [namespace(host) for host in ("127.0.0.1", "localhost", "box", "::1", "")] == ["local"] * 5


def test_what_was_added_from_a_registry_can_be_published_again() -> None:
    for server in json.loads(RECORDED.read_text()):
        entry = read_entry({"server": server})
        for remote in entry.remotes:
            again = source_entry("com.example", "x", {"url": remote.url})
            assert again is not None
            assert again["remotes"][0]["url"] == remote.url
