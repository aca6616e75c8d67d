"""Fresh workspaces whose source lists its tools only to users who gave their consent, with a provider in the
test's own event loop: what other tests show with a real one, here without Node.js."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import spindle
from cli.test_templates import serve_mcp
from servers.agent_processes import MODEL, started
from servers.odd_provider import OddProvider
from servers.running import PATIENCE
from servers.serving import serve_command, text_of
from spindle import AuthorizationRequired, CallOptions, Finished, Paused, Principal
from spindle.adapters.openai import tools as openai_tools
from spindle.domain.identity import LOCAL
from spindle.testing import ModelServer, ToolCall, Turn

ANN, BEN = Principal("ann"), Principal("ben")


@pytest.fixture
async def provider() -> AsyncIterator[OddProvider]:
    async with OddProvider().running() as odd:
        odd.metadata = {"registration_endpoint": f"{odd.base}/register"}
        odd.serve_mcp = serve_mcp
        yield odd


@pytest.fixture
def root(tmp_path: Path, provider: OddProvider, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPINDLE_HOME", str(tmp_path / "home"))
    lines = ["[auth]", 'redirect_uri = "http://127.0.0.1/callback"', "[sources.work]"]
    lines += [f'url = "{provider.url}"', "trust_hints = true", "approve = []", 'auth = { type = "oauth" }']
    lines += ["[serve.tokens]", 'ann = { token = "of-ann" }', 'ben = { token = "of-ben" }']
    (tmp_path / "spindle.toml").write_text("\n".join(lines) + "\n")
    return tmp_path


async def agree(app: spindle.Spindle, url: str, principal: Principal) -> None:
    async with httpx2.AsyncClient() as http:
        back = dict(parse_qsl(urlsplit((await http.get(url)).headers["location"]).query))
    await app.auth.complete(back["code"], back["state"], principal=principal)


async def test_an_agent_pauses_once_and_goes_on_where_the_consent_is_completed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ModelServer(Turn(calls=[ToolCall("work_whoami", {})]), "now I know") as model:
        for name, value in model.environment().items():
            monkeypatch.setenv(name, value)
        async with started(root, "run", "who am I?") as process:
            (pause,) = await process.says("paused")
            await process.kill()
        assert (pause["kind"], pause["source"]) == ("consent", "work")
        async with spindle.open(root) as app:
            await agree(app, pause["details"]["url"], LOCAL)
            (outcome,) = await app.runner.resume_consent("work", LOCAL)
            assert "work_whoami" in model.requests[0].tool_names
            (waiting,) = await app.pauses()
            assert waiting.kind == "approval", "of the call itself, as of any server that is not trusted"
            assert isinstance(outcome, Paused)
            done = await app.resume(waiting.token, True)
    assert isinstance(done, Finished)
    # The tool has seen the token; the model is not shown it.
    assert "shown •••" in model.requests[1].tool_answers[0].text


@contextlib.asynccontextmanager
async def client_of(url: str, token: str) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def names(client: Client) -> list[str]:
    return [item.name for item in (await client.list_tools()).tools]


async def test_each_client_of_a_server_connects_for_its_own_user(root: Path) -> None:
    async with (
        serve_command(root) as (url, _),
        client_of(url, "of-ann") as ann,
        client_of(url, "of-ben") as ben,
    ):
        for client in (ann, ben):
            assert await names(client) == ["connect_work"]
        asked = text_of(await ann.call_tool("connect_work", {}))
        link = re.findall(r"call the tool again: (\S+)", asked)[0]
        async with spindle.open(root) as app, client_listening(ann) as changes:
            with pytest.raises(spindle.PermissionDeniedError):
                await agree(app, link, BEN)
            await agree(app, link, ANN)
            await anext(changes)
        assert await names(ann) == ["work_whoami"]
        assert await names(ben) == ["connect_work"]
        assert text_of(await ann.call_tool("work_whoami", {})) == "shown odd-access-1"


@contextlib.asynccontextmanager
async def client_listening(client: Client) -> AsyncIterator[AsyncIterator[object]]:
    async with client.listen(tools_list_changed=True) as changes:
        yield aiter(changes)


async def test_calls_and_what_offers_tools_to_models_ask_for_it_where_they_name_the_source(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with spindle.open(root) as app, ModelServer() as model:
        for name, value in model.environment().items():
            monkeypatch.setenv(name, value)
        options = CallOptions(ANN)
        with pytest.raises(AuthorizationRequired) as called:
            await app.call("work.whoami", {}, options)
        with pytest.raises(AuthorizationRequired) as offered:
            await openai_tools(app, source="work", options=options)
        with pytest.raises(AuthorizationRequired) as named:
            await openai_tools(app, "work.*", options=options)
        assert (await openai_tools(app, options=options)).chat == []
        with pytest.raises(AuthorizationRequired) as drafted:
            await app.draft_flow("say who I am", model=MODEL, principal=ANN)
        assert {asked.value.url for asked in (called, offered, named, drafted)} == {called.value.url}
        await agree(app, called.value.url, ANN)
        assert len((await openai_tools(app, options=options)).chat) == 1
        paused = await app.connect("work", BEN)
        assert isinstance(paused, Paused)
        done = await app.connect("work", ANN)
        assert isinstance(done, Finished)
        assert done.result.structured == {"source": "work", "tools": ["work.whoami"]}
