"""Manuals: where they are found, what they may be, what is left out of them and why."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import HTMLResponse, JSONResponse, Response
from utcp_service import OpenManual, Service, a_manual, a_tool

from servers.running import OpenSources
from spindle.errors import ConfigurationError, ConnectionFailedError, NotFoundError, PermissionDeniedError
from spindle.sources.utcp.config import UtcpConfig
from spindle.sources.utcp.schemas import plain

API = {
    "openapi": "3.1.0",
    "info": {"title": "t", "version": "1"},
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    "paths": {"/echo/{id}": {"get": {
        "operationId": "get", "security": [{"key": []}],
        "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
    }}},
}  # fmt: skip


def http(service: Service, path: str = "/echo/x") -> dict[str, Any]:
    return {"call_template_type": "http", "url": f"{service.url}{path}"}


async def test_a_manual_at_a_url_becomes_tools_of_the_catalog(
    open_sources: OpenSources, service: Service
) -> None:
    service.tools = [a_tool("weather/now", http(service), city="string")]
    async with open_sources({"shop": {"kind": "utcp", "document": f"{service.url}/utcp"}}) as app:
        await app.sync()
        tool = (await app.tools())[0]
        assert tool.name == "shop.weather_now"
        result = await app.call("shop.weather_now", city="Bern")
        found = await app.catalog.find("shop.weather_now")
    assert result.structured["query"] == [["city", "Bern"]]
    assert found.spec.remote_name == "weather/now"
    assert found.spec.place == f"{service.url}/utcp#/tools/0"
    assert found.spec.tags == ("test",)
    assert found.hints.read_only


async def test_a_yaml_manual_is_read(open_manual: OpenManual) -> None:
    text = """
utcp_version: 1.0.1
tools:
  - name: t
    tool_call_template: {call_template_type: text, content: hello}
"""
    async with open_manual(text) as opened:
        assert (await opened.call("t")).text == "hello"


@pytest.mark.parametrize("place", ["/utcp", "/.well-known/utcp", "/utcp.json"])
async def test_a_manual_is_found_below_a_base_url(
    place: str, open_manual: OpenManual, service: Service
) -> None:
    service.pages["/api" + place] = JSONResponse(a_manual(a_tool("t", http(service))))
    async with open_manual(at=f"{service.url}/api/", utcp_mode="base_url") as opened:
        assert list(opened.tools) == ["t"]


async def test_a_base_url_without_a_manual_is_an_error_that_says_where_it_looked(
    open_manual: OpenManual, service: Service
) -> None:
    with pytest.raises(
        NotFoundError, match=r"no UTCP manual below .*/api \(/utcp: 404; /\.well-known/utcp: 404"
    ):
        async with open_manual(at=f"{service.url}/api", utcp_mode="base_url"):
            pass
    with pytest.raises(ConfigurationError, match="must be a URL"):
        async with open_manual(a_manual(), utcp_mode="base_url"):
            pass


@pytest.mark.parametrize("place", ["/api/utcp", "/api/.well-known/utcp.json", "/.well-known/utcp"])
@pytest.mark.parametrize("here", ["nothing", "a page", "some JSON", "a refusal"])
async def test_without_a_mode_a_manual_is_found_at_the_usual_places_too(
    place: str, here: str, open_manual: OpenManual, service: Service
) -> None:
    pages = {
        "a page": HTMLResponse("<html><title>Our API</title></html>"),
        "some JSON": JSONResponse({"status": "ok"}),
        "a refusal": JSONResponse({}, 405),
    }
    if here in pages:
        service.pages["/api"] = pages[here]
    service.pages[place] = JSONResponse(a_manual(a_tool("t", http(service))))
    async with open_manual(at=f"{service.url}/api") as opened:
        assert list(opened.tools) == ["t"]


async def test_without_a_mode_a_manual_at_the_address_itself_is_the_one(
    open_manual: OpenManual, service: Service
) -> None:
    service.pages["/api"] = JSONResponse(a_manual(a_tool("here", http(service))))
    service.pages["/api/utcp"] = JSONResponse(a_manual(a_tool("elsewhere", http(service))))
    async with open_manual(at=f"{service.url}/api") as opened:
        assert list(opened.tools) == ["here"]
    assert [entry["path"] for entry in service.seen] == ["/api"]


async def test_only_the_address_itself_will_do_with_manual_url(
    open_manual: OpenManual, service: Service
) -> None:
    service.pages["/api/utcp"] = JSONResponse(a_manual(a_tool("t", http(service))))
    with pytest.raises(NotFoundError, match="/api answered with HTTP status 404"):
        async with open_manual(at=f"{service.url}/api", utcp_mode="manual_url"):
            pass
    assert [entry["path"] for entry in service.seen] == ["/api"]


async def test_where_there_is_no_manual_at_all_the_address_is_what_the_error_is_about(
    open_manual: OpenManual, service: Service
) -> None:
    with pytest.raises(NotFoundError, match="/api answered with HTTP status 404") as caught:
        async with open_manual(at=f"{service.url}/api"):
            pass
    assert "nor is there a manual below it, at /utcp, /.well-known/utcp" in str(caught.value.hint)
    service.pages["/api"] = JSONResponse({"status": "ok"})
    with pytest.raises(ConfigurationError, match=r"it has no `tools` \(it holds status\)"):
        async with open_manual(at=f"{service.url}/api"):
            pass


async def test_an_openapi_document_is_taken_too_unless_only_a_manual_will_do(
    open_manual: OpenManual, service: Service
) -> None:
    service.pages["/api.json"] = JSONResponse({**API, "servers": [{"url": service.url}]})
    place = f"{service.url}/api.json"
    auth = {"auth": {"type": "api_key", "value": "k"}}
    async with open_manual(at=place, **auth) as opened:
        assert (await opened.call("get", id=7)).structured["path"] == "/echo/7"
    for mode in ("manual_url", "manual"):
        with pytest.raises(ConfigurationError, match="is an OpenAPI document, and utcp_mode = 'manual_url'"):
            async with open_manual(at=place, utcp_mode=mode):
                pass


async def test_a_call_template_in_a_file_leads_to_its_manual(
    open_manual: OpenManual, service: Service
) -> None:
    service.tools = [a_tool("t", http(service))]
    auth = {"auth_type": "api_key", "api_key": "$KEY", "var_name": "X-Key"}
    template = {"name": "weather", **http(service, "/utcp"), "auth": auth}
    async with open_manual(template, auth_hosts=[service.url], variables={"weather_KEY": "k-1"}) as opened:
        assert list(opened.tools) == ["t"]
    assert service.seen[0]["headers"] == {"x-key": "k-1"}


async def test_auth_tools_are_shown_by_the_operations_that_want_them(
    open_manual: OpenManual, service: Service
) -> None:
    auth = {"auth_type": "api_key", "api_key": "literal-key", "var_name": "X-Key"}
    template = {
        "call_template_type": "text", "content": json.dumps(API), "base_url": service.url, "auth_tools": auth,
    }  # fmt: skip
    async with open_manual(template, auth_hosts=[service.url]) as opened:
        assert "literal-key" not in repr(opened.tools["get"].spec)
        sent = (await opened.call("get", id=1)).structured
    assert sent["headers"] == {"x-key": "literal-key"}


async def test_the_settings_of_a_utcp_client_give_several_manuals(
    open_manual: OpenManual, service: Service
) -> None:
    service.tools = [a_tool("t", {**http(service), "headers": {"X-K": "$K"}})]
    settings = {
        "manual_call_templates": [
            {"name": "one", **http(service, "/utcp")},
            {"name": "gone", **http(service, "/nowhere")},
            {"name": "two", "call_template_type": "text", "content": json.dumps(a_manual(*service.tools))},
        ]
    }
    async with open_manual(
        settings, auth_hosts=[service.url], variables={"one_K": "1", "two_K": "2"}
    ) as opened:
        assert list(opened.tools) == ["one.t", "two.t"]
        assert (await opened.call("one.t")).structured["headers"] == {"x-k": "1"}
        assert (await opened.call("two.t")).structured["headers"] == {"x-k": "2"}
    assert "manual_call_templates/1 was left out" in opened.notes[0]


async def test_a_call_template_from_a_url_is_not_followed(open_manual: OpenManual, service: Service) -> None:
    service.pages["/t.json"] = JSONResponse(http(service, "/utcp"))
    with pytest.raises(ConfigurationError, match="is a call template, and one from a URL is not followed"):
        async with open_manual(at=f"{service.url}/t.json"):
            pass


# --- texts and files


async def test_texts_are_given_and_files_are_read(open_manual: OpenManual, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("from the file")
    outside = tmp_path.parent / "outside.txt"
    manual = a_manual(
        a_tool("text", {"call_template_type": "text", "content": "costs $5, see $ref or $nothing"}),
        a_tool("old", {"call_template_type": "text", "file_path": "a.txt"}),
        a_tool("file", {"call_template_type": "file", "file_path": "a.txt"}),
        a_tool("outside", {"call_template_type": "file", "file_path": str(outside)}),
        a_tool("none", {"call_template_type": "text"}),
    )
    async with open_manual(manual) as opened:
        assert (await opened.call("text")).text == "costs $5, see $ref or $nothing"
        assert (await opened.call("old")).text == "from the file"
        assert (await opened.call("file")).text == "from the file"
        with pytest.raises(PermissionDeniedError, match="neither beside its manual nor in the workspace"):
            await opened.call("outside")
        assert opened.notes == [
            "shop.none was left out: tool_call_template.give either `content` or `file_path`"
        ]


async def test_a_manual_from_a_url_neither_reads_files_nor_runs_programs(
    open_manual: OpenManual, service: Service
) -> None:
    service.tools = [
        a_tool("file", {"call_template_type": "file", "file_path": "/etc/passwd"}),
        a_tool("old", {"call_template_type": "text", "file_path": "/etc/passwd"}),
        a_tool("run", {"call_template_type": "cli", "commands": [{"command": "id"}]}),
        a_tool("socket", {"call_template_type": "websocket", "url": "wss://example.com"}),
    ]
    async with open_manual(at=f"{service.url}/utcp") as opened:
        assert not opened.tools
        assert len(opened.notes) == 4
    async with open_manual(at=f"{service.url}/utcp", allowed_protocols=["cli", "file", "text"]) as opened:
        assert list(opened.tools) == ["run"]
        assert sum("may not name a file here" in note for note in opened.notes) == 2


async def test_a_manual_from_a_url_may_not_ask_for_our_environment(
    open_manual: OpenManual, service: Service
) -> None:
    commands = [{"command": "env"}]
    service.tools = [
        a_tool(
            "t", {"call_template_type": "cli", "commands": commands, "inherit_env_vars": ["PATH", "AWS_KEY"]}
        )
    ]
    async with open_manual(at=f"{service.url}/utcp", allowed_protocols=["cli"]) as opened:
        assert not opened.tools
    assert "may not read AWS_KEY from your environment" in opened.notes[0]


# --- what is wrong with them


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ({"call_template_type": "mcp", "config": {}}, "'mcp' are not supported; add the server as a source"),
        ({"call_template_type": "htp", "url": "x"}, "'htp' are not supported; is 'http' meant?"),
        ({"call_template_type": "gnmi"}, "'gnmi' are not supported"),
        ({}, "has no `call_template_type`"),
        ({"call_template_type": "http"}, "tool_call_template.url: Field required"),
        ({"call_template_type": "http", "url": "ftp://x"}, "tool_call_template.url: must begin with http"),
        ({"call_template_type": "http", "url": "https://x", "http_method": "FETCH"}, "_template.http_method"),
        ({"call_template_type": "http", "url": "https://x", "auth": {"auth_type": "x"}}, "_template.auth"),
        ({"call_template_type": "cli", "commands": []}, "tool_call_template.commands"),
    ],
)  # fmt: skip
async def test_a_tool_that_cannot_be_called_is_left_out_and_the_rest_stays(
    template: dict[str, Any], why: str, open_manual: OpenManual
) -> None:
    good = a_tool("good", {"call_template_type": "text", "content": "x"})
    every = ["http", "text", "cli"]
    async with open_manual(a_manual(a_tool("bad", template), good), allowed_protocols=every) as opened:
        assert list(opened.tools) == ["good"]
    assert opened.notes[0].startswith("shop.bad was left out: ")
    assert why in opened.notes[0]


@pytest.mark.parametrize(
    "broken", [7, {"name": "x"}, {"name": "", "tool_call_template": {}}, None, {"name": ["a"]}]
)
async def test_a_broken_tool_is_named_by_its_place(broken: Any, open_manual: OpenManual) -> None:
    good = a_tool("good", {"call_template_type": "text", "content": "x"})
    async with open_manual(a_manual(good, broken)) as opened:
        assert list(opened.tools) == ["good"]
    assert "manual.json#/tools/1" in opened.notes[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"utcp_version": "2.0", "tools": []}', r"utcp_version is '2\.0', but only 1\.x is supported"),
        ('{"version": "0.1", "tools": [{"name": "t", "tool_provider": {}}]}', r"is a manual of UTCP 0\.x"),
        ('{"utcp_version": "1.0", "tools": {}}', "its `tools` is not a list"),
        ('{"hello": 1}', r"it has no `tools` \(it holds hello\)"),
        ("{}", "it is empty"),
        ("[1]", "is not a UTCP manual: it holds no object"),
        ('{"a": ', "this is not JSON"),
        ("<html>", "is an HTML page, not a UTCP manual"),
        ('{"call_template_type": "mcp", "config": {}}', "does not match any of the expected tags"),
    ],
)  # fmt: skip
async def test_a_document_that_is_none_is_a_clear_error(text: str, why: str, open_manual: OpenManual) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        async with open_manual(text):
            pass
    assert "manual.json" in caught.value.message


async def test_a_document_that_cannot_be_had_is_a_clear_error(
    open_manual: OpenManual, service: Service
) -> None:
    service.pages["/locked"] = Response(status_code=401)
    service.pages["/big"] = Response(b" " * 5000)
    with pytest.raises(ConfigurationError, match=r"there is no file .*nowhere\.json"):
        async with open_manual(at="nowhere.json"):
            pass
    for place, kind, why in [
        ("/locked", Exception, "401"), ("/nowhere", NotFoundError, "404"),
        ("/big", ConfigurationError, "larger than 4000 bytes"),
    ]:  # fmt: skip
        with pytest.raises(kind, match=why):
            async with open_manual(at=service.url + place, max_document_size=4000):
                pass
    with pytest.raises(ConnectionFailedError):
        async with open_manual(at="http://127.0.0.1:1/utcp"):
            pass
    with pytest.raises(ConfigurationError, match="where others can listen"):
        async with open_manual(at="http://example.com/utcp"):
            pass


def test_settings_are_checked() -> None:
    for settings, why in [
        ({"document": " "}, "give a URL or a file"),
        ({"document": "ftp://x"}, "http://"),
        ({"document": "a", "allowed_protocols": ["htp"]}, "did you mean 'http'"),
        ({"document": "a", "base_url": "x"}, "http://"),
    ]:
        with pytest.raises(ValueError, match=why):
            UtcpConfig.model_validate(settings)


# --- schemas


def test_what_utcp_writes_as_null_is_left_out() -> None:
    dumped = {
        "$schema": None, "type": "object", "required": None, "const": None, "default": None,
        "properties": {"a": {"type": "string", "enum": None, "const": None, "items": None, "default": None}},
        "additionalProperties": {"type": "array", "items": {"type": None, "const": None}},
    }  # fmt: skip
    assert plain(dumped) == {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "additionalProperties": {"type": "array", "items": {}},
    }
    meant = {"properties": {"a": {"const": None}, "b": {"enum": [None], "default": None}}}
    assert plain(meant) == meant
