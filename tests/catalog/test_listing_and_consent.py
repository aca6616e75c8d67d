"""Sources whose calls take a user's consent: listed without one where they allow it, else with one, and one
user's apart from another's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.oauth import OAuthProvider, agree
from servers.running import StdioServers
from spindle import AuthorizationRequired, CallOptions, Finished, Paused, Principal
from spindle.settings import Settings

ANN, BEN = Principal("ann"), Principal("ben")
LOGIN = {
    "type": "oauth",
    "client_id": "spindle",
    "authorization_url": "https://login.example/authorize",
    "token_url": "https://login.example/token",
}
OPENAPI = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "https://shop.example"}],
    "paths": {"/orders": {"get": {"operationId": "orders", "responses": {"200": {"description": "all"}}}}},
}
MANUAL = {
    "utcp_version": "1.0.1",
    "manual_version": "1",
    "tools": [
        {
            "name": "orders",
            "description": "All orders.",
            "inputs": {"type": "object", "properties": {}},
            "outputs": {},
            "tool_call_template": {"call_template_type": "http", "url": "https://shop.example/orders"},
        }
    ],
}
COMMANDS = {"orders": {"description": "All orders."}}


def described(root: Path, kind: str) -> dict[str, Any]:
    """A source of this kind whose tools are described in the workspace."""
    (root / "shop.json").write_text(json.dumps(OPENAPI if kind == "openapi" else MANUAL))
    if kind == "cli":
        auth = {**LOGIN, "env": "TOKEN"}
        return {"kind": "cli", "program": [sys.executable, "-V"], "commands": COMMANDS, "auth": auth}
    return {"kind": kind, "document": "shop.json", "auth": LOGIN}


def settings(root: Path, sources: dict[str, Any]) -> Settings:
    return Settings(root, {"sources": sources, "auth": {"redirect_uri": "http://127.0.0.1/callback"}})


def guarded(url: str, **more: Any) -> dict[str, Any]:
    return {"url": url, "auth": {"type": "oauth", "provider": "Work"}, **more}


@pytest.mark.parametrize("kind", ["openapi", "utcp", "cli"])
async def test_what_is_described_is_listed_without_a_consent_which_calls_then_ask_for(
    tmp_path: Path, kind: str
) -> None:
    async with spindle.open(settings=settings(tmp_path, {"shop": described(tmp_path, kind)})) as app:
        (report,) = await app.sync("shop")
        assert (report.error, len(report.added)) == (None, 1)
        assert await app.catalog.consents.waiting(ANN) == []
        with pytest.raises(AuthorizationRequired) as asked:
            await app.call(report.added[0], {}, CallOptions(ANN))
        assert asked.value.url.startswith("https://login.example/authorize?")


async def test_a_server_that_lists_openly_is_listed_so_and_again_with_a_consent(
    tmp_path: Path, open_lists_url: str
) -> None:
    async with spindle.open(settings=settings(tmp_path, {"work": guarded(open_lists_url)})) as app:
        (report,) = await app.sync("work")
        assert report.added == ["work.whoami"]
        paused = await app.run("work.whoami", {}, CallOptions(ANN))
        assert isinstance(paused, Paused)
        await agree(app, paused.pauses[0].details["url"], ANN)
        assert (await app.show("work.whoami")).name == "work.whoami"
        # With a consent there is more, which one who has none is told of too, but may not call.
        assert await app.connect("work", ANN)
        assert [tool.name for tool in await app.tools()] == ["work.whoami", "work.write"]
        (report,) = await app.sync("work", principal=BEN)
        assert report.error is not None, "what a consent has shown is not given up"
        assert [tool.name for tool in await app.tools()] == ["work.whoami", "work.write"]
        done = await app.resume(paused.pauses[0].token)
        assert isinstance(done, Finished)
        assert json.loads(done.result.text)["subject"] == "ann"


async def test_a_missing_consent_of_one_user_keeps_nobody_else_away(tmp_path: Path, guarded_url: str) -> None:
    async with spindle.open(settings=settings(tmp_path, {"work": guarded(guarded_url)})) as app:
        (report,) = await app.sync("work")
        assert report.error is not None
        assert report.error["category"] == "consent"
        asked = await app.auth.begin("work", ANN)
        await agree(app, asked.url, ANN)
        assert await app.catalog.consents.waiting(ANN) == []
        assert await app.catalog.consents.waiting(BEN) == ["work"]
        await app.catalog.make_ready(["work"], BEN, may_interrupt=False)
        assert app.catalog.unsynced() == ["work"]
        await app.catalog.make_ready(["work"], ANN, may_interrupt=False)
        assert app.catalog.unsynced() == []
        with pytest.raises(AuthorizationRequired):
            await app.call("work.whoami", {}, CallOptions(BEN))


async def test_what_others_read_of_a_missing_consent_has_neither_link_nor_code(
    tmp_path: Path, guarded_url: str
) -> None:
    auth = {"consent": "browser", "redirect_uri": "http://127.0.0.1/callback"}
    raw = {"sources": {"work": guarded(guarded_url)}, "auth": auth}
    notes: list[str] = []
    async with spindle.open(settings=Settings(tmp_path, raw), note=notes.append) as app:
        with pytest.raises(AuthorizationRequired, match="your code for the page is") as asked:
            await app.call("work.whoami", {}, CallOptions(ANN))
        code = asked.value.message.rpartition(" ")[2]
        (report,) = await app.sync("work", principal=ANN)
        await app.catalog.make_ready(["work"], BEN, may_interrupt=False)
        state = (await app.catalog.states())["work"]
    told = [*notes, json.dumps(report.to_dict()), str(state.error)]
    assert "work needs your consent at Work" in told[-1]
    assert not [text for text in told if code in text or "ticket" in text]


PROGRAM = """
import os, sys
if "TOKEN" not in os.environ:
    sys.exit("TOKEN is missing")
"""


async def test_a_program_that_wants_its_token_to_begin_with_asks_for_a_consent(
    tmp_path: Path, guarded_url: str, oauth_provider: OAuthProvider, stdio_server: StdioServers
) -> None:
    auth = {"type": "oauth", "env": "TOKEN", "resource": guarded_url, "issuer": oauth_provider.issuer}
    auth |= {"scopes": ["read"], "provider": "Work"}
    (tmp_path / "strict.py").write_text(PROGRAM)
    strict = {"command": [sys.executable, str(tmp_path / "strict.py")], "auth": auth}
    lenient = {**stdio_server(), "auth": auth}
    async with spindle.open(settings=settings(tmp_path, {"strict": strict, "lenient": lenient})) as app:
        reports = {report.source: report for report in await app.sync()}
        assert reports["lenient"].error is None
        assert "lenient.env" in reports["lenient"].added
        assert reports["strict"].error is not None
        assert reports["strict"].error["category"] == "consent"
        with pytest.raises(AuthorizationRequired):
            await app.call("lenient.env", {"name": "TOKEN"}, CallOptions(ANN))


async def test_a_server_that_is_down_is_not_taken_for_one_that_waits(tmp_path: Path) -> None:
    source = {"url": "http://127.0.0.1:9/mcp", "auth": LOGIN}
    async with spindle.open(settings=settings(tmp_path, {"work": source})) as app:
        (report,) = await app.sync("work")
        assert report.error is not None
        assert report.error["category"] == "connection"
