"""Calls: results of every type, errors by status, redirects, limits."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from servers.brokers import free_port
from servers.echo_server import Answer, EchoServer, OpenApi, Sent, a_document
from servers.running import OpenSources
from spindle.calls.caller import CallOptions
from spindle.domain.identity import Credential, Principal
from spindle.errors import (
    AuthError,
    BreakerOpenError,
    ClientError,
    ConfigurationError,
    ConnectionFailedError,
    InvalidArgumentsError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    ResultTooLargeError,
    ServerError,
    SpindleError,
)
from spindle.http.credentials import bearer
from spindle.http.responses import links_in

JSON = {"application/json": {"schema": {"type": "object"}}}
DOCUMENT = a_document(
    {
        "/a": {"get": {"operationId": "a", "responses": {}}, "post": {"operationId": "p", "responses": {}}},
        "/may-be-empty": {
            "get": {"operationId": "e", "responses": {"200": {"content": JSON}, "204": {"description": ""}}}
        },
        "/item/{id}": {"get": {"operationId": "item", "responses": {}}},
    }
)


async def test_json_is_structured_and_text(open_api: OpenApi, echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(b'{"n": 12345678901234567890123}', 201, {"location": "/a/1"})
    async with open_api(DOCUMENT, base_url=echo.url) as api:
        result = await api.call("a")
    assert result.structured == {"n": 12345678901234567890123}
    assert result.text == '{"n": 12345678901234567890123}'
    assert result.content[0].annotations == {"location": "/a/1"}


async def test_links_are_kept(open_api: OpenApi, echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(b"[]", headers={"link": '</a?page=2>; rel="next", </a?page=9>; rel=last'})
    async with open_api(DOCUMENT, base_url=echo.url) as api:
        result = await api.call("a")
    assert result.content[0].annotations == {"links": {"next": "/a?page=2", "last": "/a?page=9"}}


@pytest.mark.parametrize(
    ("header", "links"),
    [
        ('<https://h/a;b,c>; rel="next prev"; title="x, y"', {"next": "https://h/a;b,c", "prev": "https://h/a;b,c"}),
        ("<a>; title=x", {}), ("nonsense", {}), ("", {}),
    ],
)  # fmt: skip
def test_a_link_header_is_read_or_left(header: str, links: dict[str, str]) -> None:
    assert links_in(header) == links


async def test_text_stays_text_and_binary_becomes_data(open_api: OpenApi, echo: EchoServer) -> None:
    async with open_api(DOCUMENT, base_url=echo.url) as api:
        echo.answers["/a"] = Answer(
            "é".encode("latin-1"), headers={"content-type": "text/csv; charset=latin-1"}
        )
        result = await api.call("a")
        assert (result.text, result.has_structured) == ("é", False)
        echo.answers["/a"] = Answer(b"<a/>", headers={"content-type": "application/xml"})
        assert (await api.call("a")).text == "<a/>"
        echo.answers["/a"] = Answer(b"\x89PNG", headers={"content-type": "image/png"})
        [block] = (await api.call("a")).content
        assert (block.type, block.mime_type, block.size) == ("image", "image/png", 4)
        assert base64.b64decode(block.data or "") == b"\x89PNG"
        echo.answers["/a"] = Answer(
            b"PK",
            headers={
                "content-type": "application/zip",
                "content-disposition": 'attachment; filename="a.zip"',
            },
        )
        [block] = (await api.call("a")).content
        assert (block.type, block.name, block.uri) == ("resource", "a.zip", f"{echo.url}/a")


async def test_an_empty_answer_is_null_where_data_was_promised(open_api: OpenApi, echo: EchoServer) -> None:
    echo.answers["/may-be-empty"] = Answer(b"", 204, {"content-length": "0"})
    async with open_api(DOCUMENT, base_url=echo.url) as api:
        result = await api.call("e")
        assert api.tools["e"].output_schema == {"anyOf": [{"type": "object"}, {"type": "null"}]}
    assert (result.structured, result.has_structured, result.content) == (None, True, ())


async def test_an_answer_that_is_not_the_json_it_says_is_the_servers_fault(
    open_api: OpenApi, echo: EchoServer
) -> None:
    echo.answers["/a"] = Answer(b"<oops>")
    async with open_api(DOCUMENT, base_url=echo.url) as api:
        with pytest.raises(ServerError, match="says it is application/json and is not"):
            await api.call("a")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ClientError), (401, AuthError), (403, PermissionDeniedError), (404, NotFoundError),
        (422, ClientError), (429, RateLimitedError), (500, ServerError), (503, RateLimitedError),
    ],
)  # fmt: skip
async def test_an_error_is_what_its_status_says_with_the_body_kept(
    status: int, kind: type[SpindleError], open_api: OpenApi, echo: EchoServer
) -> None:
    echo.answers["/a"] = Answer(b'{"error": {"message": "no such pet"}}', status, {"retry-after": "7"})
    async with open_api(DOCUMENT, base_url=echo.url) as api:
        with pytest.raises(kind, match=f"'api' answered with HTTP status {status}: no such pet") as caught:
            await api.call("a")
    assert caught.value.status == status
    assert caught.value.retry_after == 7
    assert caught.value.details == {"body": {"error": {"message": "no such pet"}}}


@pytest.mark.parametrize(
    ("status", "headers", "body", "category", "wait"),
    [
        (400, {}, {"__type": "x#ThrottlingException", "message": "x"}, "rate_limited", None),
        (
            403,
            {},
            {"error": {"code": 403, "errors": [{"reason": "userRateLimitExceeded"}]}},
            "rate_limited",
            None,
        ),
        (403, {"x-ratelimit-remaining": "0"}, {"message": "x"}, "rate_limited", None),
        (403, {"x-ratelimit-remaining": "7"}, {"message": "x"}, "permission", None),
        (403, {"x-ratelimit-remaining": "0", "retry-after": "9"}, {"message": "x"}, "rate_limited", 9),
        (429, {}, {"retry_after": 2.5}, "rate_limited", 2.5),
        (
            400,
            {},
            {"error": {"code": "resource_missing", "type": "invalid_request_error"}},
            "not_found",
            None,
        ),
        (400, {}, {"error": "invalid_request"}, "client", None),
        (404, {}, {"code": "forbidden"}, "not_found", None),
        (500, {}, {"code": "rate_limited"}, "server", None),
    ],
)
async def test_a_body_that_says_more_than_its_status_is_heard(
    open_api: OpenApi, echo: EchoServer, status: int, headers: dict[str, str], body: Any, category: str,
    wait: float | None,
) -> None:  # fmt: skip
    echo.answers["/a"] = Answer(json.dumps(body).encode(), status, headers)
    document = a_document({"/a": {"get": {"operationId": "a"}}})
    async with open_api(document, base_url=echo.url) as api:
        with pytest.raises(SpindleError) as caught:
            await api.call("a")
    assert (caught.value.category, caught.value.status, caught.value.retry_after) == (category, status, wait)


async def test_an_api_that_tells_of_its_own_mistakes_is_well_and_a_gateway_before_it_is_not(
    open_sources: OpenSources, echo: EchoServer, tmp_path: Path
) -> None:
    paths = {path: {"get": {"operationId": path[1:]}} for path in ("/broken", "/away", "/well")}
    (tmp_path / "api.json").write_text(json.dumps(a_document(paths)))
    echo.answers["/broken"], echo.answers["/away"] = Answer(b"{}", 500), Answer(b"{}", 502)
    table = {"kind": "openapi", "document": "api.json", "base_url": echo.url, "breaker": {"failures": 1}}
    rules = {"not_found": "^'s' answered with HTTP status 500"}
    async with open_sources({"s": {**table, "retry": {"attempts": 1}, "errors": rules}}) as app:
        with pytest.raises(NotFoundError):
            await app.call("s.broken")
        assert not (await app.call("s.well")).is_error
        with pytest.raises(ServerError):
            await app.call("s.away")
        with pytest.raises(BreakerOpenError):
            await app.call("s.well")


async def test_a_long_error_is_kept_in_part(open_api: OpenApi, echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(b"x" * 100_000, 500, {"content-type": "text/plain"})
    async with open_api(DOCUMENT, base_url=echo.url) as api:
        with pytest.raises(ServerError) as caught:
            await api.call("a")
    assert len(caught.value.details["body"]) == 4000


async def test_an_answer_over_the_limit_is_refused(open_api: OpenApi, echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(b"x" * 5000, headers={"content-type": "text/plain"})
    async with open_api(DOCUMENT, base_url=echo.url, max_result_size=1000) as api:
        with pytest.raises(ResultTooLargeError, match="larger than 1000 bytes"):
            await api.call("a")


async def test_what_never_left_is_told_from_what_broke_off(open_api: OpenApi, echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(b"{", break_off=True)
    async with open_api(DOCUMENT, base_url=echo.url) as api:
        with pytest.raises(ConnectionFailedError, match="lost 'api' while it answered") as caught:
            await api.call("a")
        assert caught.value.sent
    async with open_api(DOCUMENT, base_url="http://127.0.0.1:1") as api:
        with pytest.raises(ConnectionFailedError, match=r"cannot reach 'api' at 127\.0\.0\.1") as caught:
            await api.call("a")
        assert not caught.value.sent


async def test_one_connection_serves_calls_one_after_the_other(open_api: OpenApi, echo: EchoServer) -> None:
    async with open_api(DOCUMENT, base_url=echo.url) as api:
        for _ in range(5):
            await api.call("a")
    assert echo.connections == 1


async def test_users_share_a_session_and_are_each_seen_with_their_own_token(
    open_sources: OpenSources, echo: EchoServer, tmp_path: Path
) -> None:
    async def own_token(source: str, principal: Principal) -> Credential:
        return bearer(f"token-of-{principal.id}")

    (tmp_path / "api.json").write_text(json.dumps(DOCUMENT))
    source = {"kind": "openapi", "document": "api.json", "base_url": echo.url, "max_concurrency": 50}
    people = ["ann", "ben"] * 25
    # Asked by item, so that the server can tell who meant to ask.
    async with open_sources({"s": source}, credentials=own_token) as app:
        await app.call("s.a", {}, CallOptions(principal=Principal("ann")))
        await asyncio.gather(
            *(app.call("s.item", {"id": who}, CallOptions(principal=Principal(who))) for who in people)
        )
        assert len(app.catalog.connections._open) == 1
    asked = [(sent.target, sent.own_headers["authorization"]) for sent in echo.requests[1:]]
    assert sorted(asked) == sorted((f"/item/{who}", f"Bearer token-of-{who}") for who in people)


async def test_a_cookie_that_was_set_for_one_call_is_not_sent_with_another(
    open_api: OpenApi, echo: EchoServer
) -> None:
    """Users who share a session would act for each other."""
    echo.answers["/a"] = Answer(headers={"set-cookie": "session=of-one-user; Path=/"})
    async with open_api(DOCUMENT, base_url=echo.url) as api:
        await api.call("a")
        await api.call("a")
    assert "cookie" not in echo.last.own_headers


async def test_credentials_stay_with_their_origin_on_a_redirect(open_api: OpenApi, echo: EchoServer) -> None:
    elsewhere = echo.url.replace("127.0.0.1", "localhost")
    echo.answers["/a"] = Answer(b"", 307, {"location": "/here"})
    echo.answers["/here"] = Answer(b"", 307, {"location": f"{elsewhere}/there"})
    credential = Credential(headers=(("Authorization", "Bearer t"),), cookies=(("s", "1"),))
    async with open_api(DOCUMENT, credential, base_url=echo.url, headers={"X-Own": "v"}) as api:
        await api.call("a")
    first, here, there = echo.requests
    assert first.own_headers == here.own_headers
    assert here.own_headers == {"accept": "*/*", "x-own": "v", "authorization": "Bearer t", "cookie": "s=1"}
    assert (there.target, there.own_headers) == ("/there", {"accept": "*/*"})


async def test_redirects_end(open_api: OpenApi, echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(b"", 302, {"location": "/a"})
    async with open_api(DOCUMENT, base_url=echo.url) as api:
        with pytest.raises(ServerError, match="redirected more than 5 times"):
            await api.call("a")
        assert len(echo.requests) == 6
        echo.answers["/a"] = Answer(b"", 302, {"location": "file:///etc/passwd"})
        with pytest.raises(ServerError, match="redirects to file:"):
            await api.call("a")
        echo.answers["/a"] = Answer(b"", 303, {"location": "/b"})
        await api.call("p")
        assert echo.last.line == "GET /b HTTP/1.1"


@pytest.mark.parametrize("value", ["..", ".", ""])
async def test_an_argument_cannot_make_the_path_another_one(
    value: str, open_api: OpenApi, echo: EchoServer
) -> None:
    async with open_api(DOCUMENT, base_url=echo.url) as api:
        assert api.notes == ["api.item: {id} of its path is not described, and taken as text"]
        with pytest.raises(InvalidArgumentsError, match="part of a path"):
            await api.call("item", {"id": value})
        await api.call("item", {"id": "../a"})
    assert echo.last.target == "/item/..%2Fa"


async def test_an_argument_cannot_add_a_header(open_api: OpenApi, echo: EchoServer) -> None:
    document = a_document(
        {"/a": {"get": {"operationId": "a", "parameters": [{"name": "h", "in": "header"}]}}}
    )
    async with open_api(document, base_url=echo.url) as api:
        with pytest.raises(InvalidArgumentsError, match="line break"):
            await api.call("a", {"h": "x\r\nX-Evil: 1"})
    assert echo.requests == []


async def test_a_document_that_names_no_server_needs_a_base_url(open_api: OpenApi) -> None:
    async with open_api(DOCUMENT) as api:
        with pytest.raises(ConfigurationError, match="does not say where the API") as caught:
            await api.call("a")
    assert caught.value.hint == "set sources.api.base_url"


KEY = Credential(headers=(("", "s3cret"),))
TOKEN = Credential(headers=(("Authorization", "Bearer s3cret"),))
SCHEMES: dict[str, object] = {
    "oauth": {"type": "oauth2"},
    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
}


def guarded(**more: object) -> dict[str, object]:
    """A document whose operation `mine` wants a key, and whose operation `open` does not say."""
    operations = {
        "/open": {"get": {"operationId": "open"}},
        "/mine": {"get": {"operationId": "mine", "security": [{"key": []}]}},
    }
    return a_document(operations, components={"securitySchemes": SCHEMES}, **more)


def shown(request: Sent) -> dict[str, str]:
    names = ("authorization", "x-key", "x-api-key", "cookie")
    return {name: value for name, value in request.headers if name in names}


@pytest.mark.parametrize(("credential", "mine"), [(KEY, {"x-key": "s3cret"}), (TOKEN, None)])
async def test_an_operation_without_security_is_called_without_the_credential(
    credential: Credential, mine: dict[str, str] | None, open_api: OpenApi, echo: EchoServer
) -> None:
    async with open_api(guarded(), credential, base_url=echo.url) as api:
        await api.call("open")
        assert (shown(echo.last), echo.last.target) == ({}, "/open")
        await api.call("mine")
        # A token that the user named himself is shown to whom wants something else: they say what is wrong.
        assert shown(echo.last) == (mine or {"authorization": "Bearer s3cret"})


async def test_the_documents_own_security_is_that_of_operations_without_one(
    open_api: OpenApi, echo: EchoServer
) -> None:
    async with open_api(guarded(security=[{"key": []}]), KEY, base_url=echo.url) as api:
        await api.call("open")
    assert shown(echo.last) == {"x-key": "s3cret"}


async def test_a_scheme_that_no_operation_names_is_for_all(open_api: OpenApi, echo: EchoServer) -> None:
    document = {**DOCUMENT, "components": {"securitySchemes": SCHEMES}}
    async with open_api(document, KEY, base_url=echo.url) as api:
        await api.call("a")
    assert shown(echo.last) == {"x-key": "s3cret"}


async def test_a_key_without_a_name_is_the_usual_header_where_nothing_says_where_it_goes(
    open_api: OpenApi, echo: EchoServer
) -> None:
    auth = {"type": "api_key", "value": "s3cret"}
    async with open_api(DOCUMENT, KEY, base_url=echo.url, auth=auth) as api:
        await api.call("a")
        assert shown(echo.last) == {"x-api-key": "s3cret"}
        echo.answers["/a"] = Answer(b"", 401)
        with pytest.raises(AuthError) as caught:
            await api.call("a")
    assert caught.value.hint == (
        "the document does not say where the API key goes; give `auth` its `name` (and `in`)"
    )


async def test_a_key_is_not_sent_where_the_document_says_that_none_is_wanted(
    open_api: OpenApi, echo: EchoServer
) -> None:
    auth = {"type": "api_key", "value": "s3cret"}
    async with open_api({**DOCUMENT, "security": []}, KEY, base_url=echo.url, auth=auth) as api:
        assert api.notes[-1] == (
            "api: its document says that no operation wants a credential, so that `auth` is not sent;"
            " `headers` always are"
        )
        await api.call("a")
    assert shown(echo.last) == {}


@pytest.mark.parametrize(
    ("servers", "settings", "target"),
    [
        ([{"url": "v1"}], {}, "/deep/v1/a"),
        ([{"url": "/v2/"}], {}, "/v2/a"),
        (None, {}, "/a"),
        ([{"url": "/{v}", "variables": {"v": {"default": "d"}}}], {}, "/d/a"),
        (
            [{"url": "/{v}", "variables": {"v": {"default": "d"}}}],
            {"server_variables": {"v": "mine"}},
            "/mine/a",
        ),
        ([{"url": "/one"}, {"url": "/two/{v}"}], {"server_variables": {"v": "x"}}, "/two/x/a"),
        ([{"url": "/one"}, {"url": "/two"}], {}, "/one/a"),
        ([{"url": "/one"}, {"url": "/two"}], {"server": 1}, "/two/a"),
        ([{"url": "/one"}, {"url": "/two/"}], {"server": "/two"}, "/two/a"),
        ([{"url": "/one"}, {"url": "/two", "description": "Test"}], {"server": "Test"}, "/two/a"),
    ],
)
async def test_a_server_is_found_from_the_document(
    servers: object, settings: dict[str, object], target: str, open_api: OpenApi, echo: EchoServer
) -> None:
    document = {**DOCUMENT, **({"servers": servers} if servers else {})}
    echo.answers["/deep/api.json"] = Answer(json.dumps(document).encode())
    async with open_api(at=f"{echo.url}/deep/api.json", **settings) as api:
        await api.call("a")
    assert echo.last.target == target


async def test_a_call_goes_the_whole_guarded_path(open_sources: OpenSources, echo: EchoServer) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    secured = {"operationId": "s", "security": [{"k": []}], "responses": {"200": {"content": {
        "application/json": {"schema": schema}}}}}  # fmt: skip
    document = a_document(
        {"/s": {"get": secured}},
        components={"securitySchemes": {"k": {"type": "apiKey", "in": "query", "name": "key"}}},
    )
    echo.answers["/d"] = Answer(json.dumps(document).encode())
    echo.answers["/s"] = Answer(b'{"n": "not a number"}')
    settings = {
        "kind": "openapi",
        "document": f"{echo.url}/d",
        "auth": {"type": "api_key", "value": "s3cret"},
    }
    notes: list[str] = []
    async with open_sources({"api": settings}, note=notes.append) as app:
        result = await app.call("api.s")
        assert result.structured == {"n": "not a number"}
        await app.call("api.s")
        assert notes == [
            'what api.s returned does not fit its output schema: n: "not a number" is not of type "integer"'
        ]
        [record] = await app.history(limit=1)
        assert record.outcome == "ok"
        assert record.error is not None
        assert record.error["message"] == notes[0]
        assert echo.last.target == "/s?key=s3cret"
        with pytest.raises(InvalidArgumentsError):
            await app.call("api.s", {"nonsense": 1})
        echo.answers["/s"] = Answer(b'{"message": "key s3cret is bad"}', 401)
        with pytest.raises(AuthError) as caught:
            await app.call("api.s")
        assert "s3cret" not in str(caught.value.to_dict())
    async with open_sources({"api": {**settings, "check_results": True}}) as app:
        echo.answers["/s"] = Answer(b'{"n": "not a number"}')
        with pytest.raises(ServerError, match="does not fit its output schema"):
            await app.call("api.s")


async def test_each_server_of_a_document_is_left_alone_by_itself(
    open_sources: OpenSources, tmp_path: Path, echo: EchoServer
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    paths = {
        "/a": {"get": {"operationId": "a"}},
        "/b": {"get": {"operationId": "b", "servers": [{"url": nowhere}]}},
    }
    (tmp_path / "api.json").write_text(json.dumps(a_document(paths) | {"servers": [{"url": echo.url}]}))
    table = {"kind": "openapi", "document": "api.json", "breaker": {"failures": 1}, "retry": {"attempts": 1}}
    async with open_sources({"s": table}) as app:
        with pytest.raises(ConnectionFailedError, match="cannot reach"):
            await app.call("s.b")
        assert not (await app.call("s.a")).is_error
        with pytest.raises(BreakerOpenError, match=f"'s' at {nowhere.removeprefix('http://')} failed once"):
            await app.call("s.b")
