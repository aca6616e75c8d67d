"""Keys by which a source knows a repeated call again: where they are sent, and what they allow."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.charging import ChargingServer, charging_server
from servers.http_server import HttpServer
from spindle import Context, tool
from spindle.errors import ConfigurationError, ServerError

KEY = 'idempotency_key = { header = "Idempotency-Key", tools = ["charge"] }\n'


@pytest.fixture
async def server() -> AsyncIterator[ChargingServer]:
    async with charging_server() as made:
        yield made


def keys(server: ChargingServer) -> list[str | None]:
    return [asked.headers.get("idempotency-key") for asked in server.asked]


async def test_every_call_of_the_named_tools_has_a_key_of_its_own_in_a_header(
    tmp_path: Path, server: ChargingServer
) -> None:
    server.write(tmp_path, KEY)
    async with spindle.open(tmp_path) as app:
        await app.sync()
        for name in ("api.charge", "api.charge", "api.limit"):
            await app.call(name, amount=1)
    first, second, other = keys(server)
    assert first
    assert second
    assert first != second
    assert other is None


async def test_a_call_with_a_key_is_tried_again_with_the_same_one(
    tmp_path: Path, server: ChargingServer
) -> None:
    """Without it a failed POST is not repeated: it may have been done."""
    server.write(tmp_path, "retry = { wait = 0.0 }\n")
    async with spindle.open(tmp_path) as app:
        await app.sync()
        server.statuses = [500]
        with pytest.raises(ServerError):
            await app.call("api.charge", amount=1)
        assert server.count() == 1
    server.write(tmp_path, KEY + "retry = { wait = 0.0 }\n")
    async with spindle.open(tmp_path) as app:
        server.statuses = [500, 500]
        await app.call("api.charge", amount=1)
        assert server.count() == 4
        assert len(set(keys(server)[1:])) == 1


async def test_in_a_run_the_key_is_the_id_of_the_step(tmp_path: Path, server: ChargingServer) -> None:
    ids: list[str] = []

    @tool
    async def pay(context: Context) -> None:
        ids.append(context.step_id)
        await context.call("api.charge", amount=1)
        await context.call("api.charge", amount=1)

    server.write(tmp_path, KEY)
    async with spindle.open(tmp_path, tools=[pay]) as app:
        await app.sync()
        await app.run("pay")
    assert len({*keys(server), *ids}) == 3


async def test_a_parameter_takes_the_key_unless_the_caller_gave_one(
    tmp_path: Path, server: ChargingServer
) -> None:
    server.write(tmp_path, 'idempotency_key = { parameter = "request_id" }\n')
    async with spindle.open(tmp_path) as app:
        await app.sync()
        await app.call("api.charge", amount=1)
        await app.call("api.charge", amount=1, request_id="mine")
        await app.call("api.balance")
    made, given, none = (asked.body.get("request_id") for asked in server.asked)
    assert made
    assert (given, none) == ("mine", None)


async def test_an_http_source_and_a_manual_send_it_too(tmp_path: Path, server: ChargingServer) -> None:
    base = f"http://127.0.0.1:{server.port}"
    template = {"call_template_type": "http", "url": f"{base}/charge", "http_method": "POST"}
    manual = {
        "utcp_version": "1.0.1",
        "tools": [
            {
                "name": "charge",
                "description": "",
                "inputs": {"type": "object"},
                "tool_call_template": template,
            }
        ],
    }
    (tmp_path / "manual.json").write_text(json.dumps(manual))
    key = 'idempotency_key = { header = "X-Key" }\n'
    (tmp_path / "spindle.toml").write_text(
        f'[sources.web]\nkind = "http"\nurl = "{base}"\ndiscover = false\n{key}'
        f'[sources.manual]\nkind = "utcp"\ndocument = "manual.json"\nallow_private = true\n{key}'
    )
    async with spindle.open(tmp_path) as app:
        await app.sync()
        await app.call("web.request", method="POST", path="/charge")
        await app.call("manual.charge")
    assert all(asked.headers.get("x-key") for asked in server.asked)
    assert server.count() == 2


async def test_an_mcp_server_finds_it_in_the_meta_of_the_request(tmp_path: Path) -> None:
    async with HttpServer() as server:
        (tmp_path / "spindle.toml").write_text(
            f'[sources.shop]\nurl = "{server.url}"\nidempotency_key = {{ meta = "example.com/key" }}\n'
        )
        async with spindle.open(tmp_path) as app:
            await app.sync()
            await app.call("shop.echo", text="hello")
        sent = [seen.message["params"] for seen in server.seen if seen.tool is not None]
        assert len(sent) == 1
        assert sent[0]["_meta"]["example.com/key"]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ('command = "x"\nidempotency_key = { header = "K" }', "has no header; use `meta` or `parameter`"),
        (
            'kind = "openapi"\ndocument = "d"\nidempotency_key = { meta = "K" }',
            "has no meta; use `header` or",
        ),
        ('command = "x"\nidempotency_key = { meta = "K", parameter = "k" }', "give one of"),
        ('command = "x"\nidempotency_key = {}', "give one of"),
        ('command = "x"\nidempotency_key = { meta = "K", tools = ["("] }', "not a regular expression"),
        ('command = "x"\nin_doubt = "maybe"', 'must be "ask", "repeat" or "fail"'),
        ('command = "x"\nin_doubt = { "(" = "ask" }', "not a regular expression"),
        ('command = "x"\nin_doubt = { "x" = "maybe" }', "in_doubt"),
    ],
)
async def test_settings_that_cannot_be_are_refused(tmp_path: Path, settings: str, why: str) -> None:
    (tmp_path / "spindle.toml").write_text(f"[sources.x]\n{settings}\n")
    with pytest.raises(ConfigurationError) as caught:
        async with spindle.open(tmp_path) as app:
            await app.sync()
    assert why in caught.value.message


def spec(**hints: Any) -> Any:
    from spindle.domain.tool import Hints, ToolSpec

    metadata = hints.pop("metadata", {})
    return ToolSpec("t", hints=Hints(**hints), metadata=metadata)


@pytest.mark.parametrize(
    ("kind", "settings", "tool_spec", "repeatable"),
    [
        ("mcp", {"command": "x"}, spec(read_only=True), False),
        ("mcp", {"command": "x"}, spec(idempotent=True), False),
        ("mcp", {"command": "x", "pinned": True}, spec(read_only=True), True),
        ("mcp", {"command": "x", "trust_hints": True}, spec(idempotent=True), True),
        ("mcp", {"command": "x", "trust_hints": True}, spec(), False),
        ("openapi", {"document": "d"}, spec(read_only=True, idempotent=True), True),
        ("openapi", {"document": "d"}, spec(read_only=False), False),
        ("python", {"path": "p"}, spec(), False),
        ("python", {"path": "p"}, spec(idempotent=True), True),
        ("events", {"path": "e"}, spec(metadata={"action": "receive"}), True),
        ("events", {"path": "e"}, spec(metadata={"action": "send"}), False),
        ("flows", {}, spec(), True),
    ],
)
def test_only_what_is_known_to_do_no_harm_is_repeated(
    kind: str, settings: dict[str, Any], tool_spec: Any, repeatable: bool
) -> None:
    from spindle import plugins

    found = plugins.source_class(kind)
    assert found is not None
    config = found.config_model()(kind=kind, **settings)
    assert config.is_repeatable(tool_spec) is repeatable
