"""The REST API of a workspace whose source lists its tools only to users who gave their consent."""

from __future__ import annotations

import os
from pathlib import Path

import httpx2
import pytest

import spindle
from servers.oauth import agree
from servers.rest import RestWorkspace
from servers.running import PATIENCE
from spindle import Principal

ANN, BEN = Principal("ann"), Principal("ben")


@pytest.fixture
def guarded(tmp_path: Path, guarded_url: str) -> RestWorkspace:
    rest = RestWorkspace(tmp_path / "guarded")
    (rest.root / "tools" / "t.py").unlink()
    rest.settings(
        '[auth]\nredirect_uri = "http://127.0.0.1/callback"\n'
        f'[sources.work]\nurl = "{guarded_url}"\nauth = {{ type = "oauth", provider = "Work" }}\n'
        '[serve.tokens]\nann = { token = "token-of-ann" }\nben = { token = "token-of-ben" }\n'
    )
    return rest


def paths(url: str, user: str, query: str = "") -> list[str]:
    headers = {"authorization": f"Bearer token-of-{user}"}
    found = httpx2.get(f"{url}/openapi.json{query}", headers=headers, timeout=PATIENCE).json()
    return sorted(found["paths"])


def called(url: str, user: str, tool: str) -> httpx2.Response:
    headers = {"authorization": f"Bearer token-of-{user}"}
    return httpx2.post(f"{url}/tools/{tool}", headers=headers, json={}, timeout=PATIENCE)


async def test_a_user_who_reads_the_list_learns_of_it_connects_and_sees_the_tools(
    guarded: RestWorkspace,
) -> None:
    with guarded.serve(SPINDLE_KEY=os.environ["SPINDLE_KEY"]) as running:
        url = running.url
        assert paths(url, "ann") == paths(url, "ann", "?source=work") == ["/tools/connect_work"]
        answer = called(url, "ann", "connect_work")
        body = answer.json()
        assert (answer.status_code, body["category"], body["source"]) == (409, "consent", "work")
        assert body["details"]["provider"] == "Work"
        for _ in range(3):
            assert called(url, "ann", "connect_work").json()["details"] == body["details"]
        async with spindle.open(guarded.root) as app:
            assert len(await app.pauses()) == 1
            await agree(app, body["details"]["url"], ANN)
        assert paths(url, "ann") == ["/tools/work.whoami", "/tools/work.write"]
        assert paths(url, "ben") == ["/tools/connect_work"]
        connected = called(url, "ann", "connect_work")
        assert connected.json() == {"source": "work", "tools": ["work.whoami", "work.write"]}
        assert called(url, "ann", "work.whoami").json()["subject"] == "ann"
        # A tool that Ben knows of from elsewhere asks for Ben's own consent.
        refused = called(url, "ben", "work.whoami")
        assert (refused.status_code, refused.json()["category"]) == (409, "consent")
        assert refused.json()["details"]["url"] != body["details"]["url"]


async def test_the_manual_of_utcp_has_it_too(guarded: RestWorkspace) -> None:
    with guarded.serve(token="token-of-ann") as running:
        (tool,) = running.client.get("/utcp").json()["tools"]
        assert tool["name"] == "connect_work"
        events = running.client.post("/tools/connect_work", json={}, headers={"accept": "text/event-stream"})
        assert (events.status_code, events.json()["category"]) == (409, "consent")
