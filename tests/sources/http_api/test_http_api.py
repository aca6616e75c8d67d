"""APIs by their address: descriptions that are found, and the tool that makes any request."""

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from servers.echo_server import Answer, EchoServer, a_document
from servers.running import OpenSources
from spindle import plugins
from spindle.domain.call import Block, Call, Result
from spindle.domain.identity import Credential
from spindle.domain.source import SourceConfig
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import (
    ConnectionFailedError,
    InvalidArgumentsError,
    NotFoundError,
    ServerError,
)
from spindle.ports.source import Session, Source
from spindle.sources.http_api.config import HttpConfig
from spindle.sources.http_api.places import PLACES
from spindle.sources.http_api.request_tool import target

NOTHING = Answer(b"no such page", 404, {"content-type": "text/plain"})
DOCUMENT = a_document({"/orders": {"get": {"operationId": "orders", "responses": {}}}})


def settings(url: str, **more: Any) -> dict[str, dict[str, Any]]:
    return {"shop": {"kind": "http", "url": url, "retry": {"attempts": 1}, **more}}


@pytest.fixture
def bare(echo: EchoServer) -> EchoServer:
    """A server that has no description of itself."""
    for place in PLACES:
        echo.answers[f"/{place}"] = echo.answers[f"/v1/{place}"] = NOTHING
    return echo


# --- looking for a description


@pytest.mark.parametrize(
    "place", ["/v1/openapi.json", "/openapi.yaml", "/v3/api-docs", "/.well-known/openapi"]
)
async def test_a_document_at_a_usual_place_gives_the_tools(
    place: str, bare: EchoServer, open_sources: OpenSources
) -> None:
    bare.answers[place] = Answer(json.dumps(DOCUMENT).encode())
    notes: list[str] = []
    async with open_sources(settings(f"{bare.url}/v1"), note=notes.append) as app:
        await app.call("shop.orders")
        assert bare.last.target == "/v1/orders"
        assert [tool.name for tool in await app.tools()] == ["shop.orders"]
    assert notes == [f"shop: its OpenAPI document is at {bare.url}{place}"]


@pytest.mark.parametrize(
    ("servers", "called"),
    [
        ([{"url": "https://production.example/api"}], "/v1/orders"),
        ([{"url": "https://production.example/api"}, {"url": "/api"}], "/api/orders"),
        ([{"url": "/api/"}], "/api/orders"),
    ],
)
async def test_calls_stay_at_the_host_that_was_named(
    servers: Any, called: str, bare: EchoServer, open_sources: OpenSources
) -> None:
    bare.answers["/v1/swagger.json"] = Answer(json.dumps({**DOCUMENT, "servers": servers}).encode())
    notes: list[str] = []
    async with open_sources(settings(f"{bare.url}/v1"), note=notes.append) as app:
        await app.call("shop.orders")
    assert bare.last.target == called
    moved = "shop: operations that the document has at https://production.example/api go to"
    assert notes[1:] == ([f"{moved} {bare.url}/v1"] if called == "/v1/orders" else [])


async def test_without_a_description_one_tool_makes_requests(
    bare: EchoServer, open_sources: OpenSources
) -> None:
    # A page for everything, as many sites have, is no description; nor is any other JSON.
    bare.answers["/openapi.json"] = Answer(b"<!doctype html><html>", headers={"content-type": "text/html"})
    bare.answers["/swagger.json"] = Answer(b'{"name": "something else"}')
    bare.answers["/utcp"] = Answer(b"who are you?", 401, {"content-type": "text/plain"})
    notes: list[str] = []
    async with open_sources(settings(f"{bare.url}/v1"), note=notes.append) as app:
        [report] = await app.sync()
        assert report.added == ["shop.request"]
        tool = await app.show("shop.request")
        assert (tool.hints.read_only, tool.hints.safe_to_repeat) == (False, False)
        result = await app.call("shop.request", path="/orders", method="POST", body={"a": 1})
        assert result.structured == {}
    assert notes == [
        f"shop: no OpenAPI document or UTCP manual at any of {2 * len(PLACES)} usual places, so that"
        " `request` is its one tool",
        f"shop: {bare.url}/utcp answered with HTTP status 401",
    ]
    assert bare.last.line == "POST /v1/orders HTTP/1.1"
    assert bare.last.body == b'{"a":1}'


async def test_looking_can_be_turned_off(bare: EchoServer, open_sources: OpenSources) -> None:
    async with open_sources(settings(bare.url, discover=False, methods=["get"])) as app:
        tool = await app.show("shop.request")
        assert bare.requests == []
        assert tool.hints.read_only
        assert list(tool.input_schema["properties"]) == ["path", "method", "query", "headers"]


async def test_a_broken_description_is_said_not_overlooked(
    bare: EchoServer, open_sources: OpenSources
) -> None:
    broken = a_document({"/a": {"get": {"parameters": [{"$ref": "#/nowhere"}]}}})
    bare.answers["/openapi.json"] = Answer(json.dumps(broken).encode())
    async with open_sources(settings(bare.url)) as app:
        [report] = await app.sync()
    assert report.complaints() == [
        f"the tool get_a is left out: {bare.url}/openapi.json: the reference '#/nowhere' points at nothing"
    ]


async def test_a_server_that_is_not_there_is_one_error(open_sources: OpenSources) -> None:
    async with open_sources(settings("http://127.0.0.1:1")) as app:
        [report] = await app.sync()
    assert report.error is not None
    assert (report.error["category"], report.error["hint"]) == (
        ConnectionFailedError.category, "check `url`, and that the API runs"
    )  # fmt: skip


async def test_the_credential_is_shown_while_looking_but_to_nobody_else(
    bare: EchoServer, open_sources: OpenSources
) -> None:
    elsewhere = bare.url.replace("127.0.0.1", "localhost")
    bare.answers["/openapi.json"] = Answer(b"", 302, {"location": f"{elsewhere}/there.json"})
    bare.answers["/there.json"] = Answer(json.dumps(DOCUMENT).encode())
    auth = {"type": "bearer", "token": "s3cret"}
    async with open_sources(settings(bare.url, auth=auth)) as app:
        await app.sync()
    first, there = bare.requests
    assert first.own_headers["authorization"] == "Bearer s3cret"
    assert (there.target, "authorization" in there.own_headers) == ("/there.json", False)


# --- UTCP, by another kind of source


class ManualConfig(SourceConfig):
    kind: str = "utcp"
    document: str


class ManualSource(Source, Session):
    """Stands for the kind `utcp`: what it is given and how long it is open."""

    opened: list[str]

    def __init__(self, name: str, config: ManualConfig, root: Path, note: Callable[[str], None]) -> None:
        self.config = config

    @staticmethod
    def config_model() -> type[SourceConfig]:
        return ManualConfig

    @contextlib.asynccontextmanager
    async def open(
        self, credential: Credential, on_change: Callable[[], None]
    ) -> AsyncIterator["ManualSource"]:
        self.opened.append(f"open {self.config.document} {self.config.timeout} {credential.headers}")
        yield self
        self.opened.append("closed")

    async def discover(self) -> list[ToolSpec]:
        return [ToolSpec("greet", metadata={"template": 1})]

    async def invoke(self, tool: Tool, call: Call) -> Result:
        return Result((Block("text", text=f"{tool.spec.metadata['template']} {call.arguments}"),))


@pytest.fixture
def manual_kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    module = ModuleType("manual_kind")
    ManualSource.opened = []
    module.__dict__["ManualSource"] = ManualSource
    monkeypatch.setitem(sys.modules, "manual_kind", module)
    monkeypatch.setattr(plugins, "BUILT_IN", {**plugins.BUILT_IN, "utcp": "manual_kind:ManualSource"})
    plugins.source_class.cache_clear()
    yield ManualSource.opened
    plugins.source_class.cache_clear()


async def test_a_utcp_manual_is_read_by_its_own_kind(
    bare: EchoServer, open_sources: OpenSources, manual_kind: list[str]
) -> None:
    bare.answers["/.well-known/utcp"] = Answer(b'{"utcp_version": "1.0.0", "tools": []}')
    notes: list[str] = []
    auth = {"type": "bearer", "token": "t"}
    async with open_sources(settings(bare.url, timeout=7, auth=auth), note=notes.append) as app:
        assert (await app.call("shop.greet")).text == "1 {}"
        await app.call("shop.greet")
        assert [tool.kind for tool in await app.tools()] == ["http"]
    assert notes == [f"shop: its UTCP manual is at {bare.url}/.well-known/utcp"]
    opened = f"open {bare.url}/.well-known/utcp 7.0 (('Authorization', 'Bearer t'),)"
    assert manual_kind == [opened, "closed"]


async def test_the_tools_of_a_real_manual_can_be_called(bare: EchoServer, open_sources: OpenSources) -> None:
    template = {"call_template_type": "http", "url": f"{bare.url}/say", "http_method": "GET"}
    inputs = {"type": "object", "properties": {"text": {"type": "string"}}}
    tool = {"name": "say", "inputs": inputs, "tool_call_template": template}
    bare.answers["/utcp"] = Answer(json.dumps({"utcp_version": "1.0.0", "tools": [tool]}).encode())
    bare.answers["/say"] = Answer(b'{"said": true}')
    async with open_sources(settings(bare.url), note=lambda _: None) as app:
        assert (await app.call("shop.say", text="a b")).structured == {"said": True}
    assert bare.last.target == "/say?text=a%20b"


# --- staying below the base


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("", "http://h/api"),
        ("/", "http://h/api/"),
        ("a/b", "http://h/api/a/b"),
        ("/a b/ř", "http://h/api/a%20b/%C5%99"),
        ("/group%2Fproject/x", "http://h/api/group%2Fproject/x"),
        ("/a?b=c d&e=%20", "http://h/api/a?b=c%20d&e=%20"),
        ("/50%", "http://h/api/50%25"),
        ("/a:b@c", "http://h/api/a:b@c"),
        ("/...", "http://h/api/..."),
    ],
)
def test_a_path_is_below_the_base(path: str, url: str) -> None:
    assert target("http://h/api", path, []) == url


@pytest.mark.parametrize(
    "path",
    [
        "..", "../x", "/../x", "/a/../../x", "/a/..", "/./x", "//evil.example/x", "///x", "/\\evil.example",
        "\\\\evil.example", "http://evil.example/", "HTTPS:evil.example", "javascript:x", "/%2e%2e/x",
        "/%2E./x", "/..%2fx", "/a%2f..%2f..%2fx", "/%252e%252e/x", "/%25252e%25252e%2fx", "/..;a=b/x",
        "/..%5cx", "/a\\..\\..\\x", "/ ../x", "/..%20/x", "/%2e%2e%3b/x", "/x#y", "/x\r\nHost: evil", "/x\0",
        "/%25252525252e",
    ],
)  # fmt: skip
def test_a_path_that_would_leave_it_is_refused(path: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="path"):
        target("http://h/api", path, [])


@given(st.text(st.sampled_from("./\\%2eE5cCfF;:@?#ax\t "), max_size=24))
def test_no_path_leaves_the_base_however_it_is_undone(path: str) -> None:
    from posixpath import normpath
    from urllib.parse import unquote, urlsplit

    try:
        found = urlsplit(target("http://h/api/v1", path, []))
    except InvalidArgumentsError:
        return
    assert (found.scheme, found.netloc) == ("http", "h")
    plain = found.path
    for _ in range(6):
        assert f"{normpath(plain.replace(chr(92), '/'))}/".startswith("/api/v1/")
        plain = unquote(plain)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"headers": {"Authorization": "x"}}, "the header Authorization cannot be given"),
        ({"headers": {"cOOkie": "x"}}, "the header cOOkie cannot be given"),
        ({"headers": {"Host": "x"}}, "the header Host cannot be given"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "cannot be given"),
        ({"headers": {"Content-Length": "0"}}, "cannot be given"),
        ({"headers": {"X-Key": "mine"}}, "the header X-Key cannot be given"),
        ({"headers": {"x-fixed": "mine"}}, "the header x-fixed cannot be given"),
        ({"headers": {"a b": "x"}}, "not the name of a header"),
        ({"headers": {"X-A": "x\r\nX-B: y"}}, "line break"),
        ({"query": {"key": "mine"}}, "query.key is the source's credential"),
        ({"body": 1, "form": {}}, "give body or form, not both"),
        ({"method": "DELETE"}, "method"),
    ],
)
async def test_what_a_call_may_not_say_is_refused_before_anything_is_sent(
    arguments: dict[str, Any], problem: str, bare: EchoServer, open_sources: OpenSources
) -> None:
    async def credentials(*_: Any) -> Credential:
        return Credential(headers=(("X-Key", "k"),), query=(("key", "k"),))

    given = settings(bare.url, discover=False, methods=["GET", "POST"], headers={"X-Fixed": "f"})
    async with open_sources(given, credentials=credentials) as app:
        with pytest.raises(InvalidArgumentsError, match=problem):
            await app.call("shop.request", {"path": "/x", **arguments})
        assert bare.requests == []
        await app.call("shop.request", {"path": "/x", "query": {"a": [1, True, "ř"], "b": None}})
    assert bare.last.target == "/x?a=1&a=true&a=%C5%99&b=&key=k"
    assert bare.last.own_headers == {"accept": "*/*", "x-fixed": "f", "x-key": "k"}


@pytest.mark.parametrize(
    ("arguments", "content_type", "content"),
    [
        ({"body": None}, "application/json", b"null"),
        (
            {"form": {"a": [1, 2], "b": {"c": "d e"}}},
            "application/x-www-form-urlencoded",
            b"a=1&a=2&b[c]=d+e",
        ),
        ({"text": "ř"}, "text/plain; charset=utf-8", "ř".encode()),
        ({"text": "a,b", "headers": {"Content-Type": "text/csv"}}, "text/csv", b"a,b"),
    ],
)
async def test_a_body_is_sent_as_what_it_is(
    arguments: dict[str, Any], content_type: str, content: bytes, bare: EchoServer, open_sources: OpenSources
) -> None:
    async with open_sources(settings(bare.url, discover=False)) as app:
        await app.call("shop.request", {"path": "/x", "method": "PUT", **arguments})
    assert (bare.last.own_headers["content-type"], bare.last.body) == (content_type, content)


async def test_results_and_errors_are_those_of_any_api(bare: EchoServer, open_sources: OpenSources) -> None:
    bare.answers["/next"] = Answer(b"[1]", headers={"link": '</next?page=2>; rel="next"'})
    bare.answers["/gone"] = Answer(b'{"message": "it is gone"}', 404)
    async with open_sources(settings(bare.url, discover=False)) as app:
        result = await app.call("shop.request", path="/next")
        assert (result.structured, result.content[0].annotations) == (
            [1],
            {"links": {"next": "/next?page=2"}},
        )
        with pytest.raises(NotFoundError, match="it is gone"):
            await app.call("shop.request", path="/gone")


@pytest.mark.parametrize("location", ["/v1", "/v2/x", "/v1/../x", "http://localhost:1/v1/x", "//other/v1"])
async def test_a_redirect_does_not_lead_out_either(
    location: str, bare: EchoServer, open_sources: OpenSources
) -> None:
    bare.answers["/v1/x"] = Answer(b"", 302, {"location": location})
    async with open_sources(settings(f"{bare.url}/v1/", discover=False)) as app:
        if location == "/v1":
            await app.call("shop.request", path="/x")
            assert bare.last.target == "/v1"
        else:
            with pytest.raises(ServerError, match="out of its base URL"):
                await app.call("shop.request", path="/x")
            assert len(bare.requests) == 1


async def test_a_key_without_a_name_is_the_usual_header_when_there_is_no_document(
    bare: EchoServer, open_sources: OpenSources
) -> None:
    auth = {"type": "api_key", "value": "k"}
    async with open_sources(settings(bare.url, discover=False, auth=auth)) as app:
        await app.sync()
        await app.call("shop.request", path="/x")
        assert dict(bare.last.headers)["x-api-key"] == "k"
        with pytest.raises(InvalidArgumentsError, match="X-Api-Key"):
            await app.call("shop.request", path="/x", headers={"X-Api-Key": "another"})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"url": "ftp://h"}, "must begin with http"),
        ({"url": "http://"}, "and a host"),
        ({"url": "http://u:p@h"}, "give them in `auth`"),
        ({"url": "http://h/?a=b"}, "without `\\?`"),
        ({"url": "http://h", "methods": []}, "at least 1"),
        ({"url": "http://h", "methods": ["TRACE"]}, "GET"),
    ],
)
def test_settings_are_checked(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        HttpConfig.model_validate(given)
