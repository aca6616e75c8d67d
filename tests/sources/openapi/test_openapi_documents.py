"""Documents: real ones, bad ones, and what a document from elsewhere may not do."""

import itertools
import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from servers.echo_server import PUBLIC, Answer, EchoServer, OpenApi, a_document
from spindle.documents.fetch import parse
from spindle.domain.json_schema import resolve_pointer
from spindle.errors import ConfigurationError, ConnectionFailedError, NotFoundError, ServerError, SpindleError
from spindle.http import addresses
from spindle.schemas.compiled import schema_problem

NPM = Path(__file__).parents[3] / ".node" / "node_modules"
REAL = sorted(
    path
    for folder in ("@readme/oas-examples", "@figma/rest-api-spec", "@netlify/open-api")
    for path in (NPM / folder).rglob("*")
    if path.suffix in (".json", ".yaml", ".yml") and path.name != "package.json" and "test" not in path.parts
)
ONE = {"/a": {"get": {"operationId": "a", "responses": {}}}}


def has_body(operation: dict[str, Any], root: dict[str, Any]) -> bool:
    body = operation.get("requestBody", {})
    if "$ref" in body:
        body = resolve_pointer(root, body["$ref"])
    if body.get("content"):
        return True
    given = [resolve_pointer(root, entry["$ref"]) if "$ref" in entry else entry
             for entry in operation.get("parameters", [])]  # fmt: skip
    return "swagger" in root and any(entry["in"] in ("body", "formData") for entry in given)


@pytest.mark.npm
def test_there_are_many_real_documents() -> None:
    petstores = [path for path in REAL if "petstore" in path.name]
    assert len(petstores) >= 4
    assert len(REAL) - len(petstores) >= 20


@pytest.mark.npm
@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.parent.name}-{path.name}")
async def test_a_real_document_gives_usable_tools(path: Path, open_api: OpenApi) -> None:
    async with open_api(at=str(path)) as api:
        root = parse(path.as_uri(), path.read_bytes()).root
        items = [item for item in (root.get("paths") or {}).values() if "$ref" not in item]
        verbs = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
        operations = [item[verb] for item in items for verb in verbs & set(item)]
        assert len(api.tools) >= len(operations)
        bodies = [tool for tool in api.tools.values() if "body" in tool.spec.metadata]
        assert len(bodies) >= sum(has_body(operation, root) for operation in operations)
        for name, tool in api.tools.items():
            assert re.fullmatch("[A-Za-z0-9_-]{1,128}", name)
            for schema in (tool.input_schema, tool.output_schema or {}):
                assert schema_problem(schema) is None
                text = json.dumps(schema)
                for wanted in re.findall(r'"\$ref": "([^"]*)"', text):
                    assert wanted.startswith("#/$defs/")
                    assert wanted.removeprefix("#/$defs/") in schema["$defs"]


@pytest.mark.npm
async def test_no_body_of_the_petstore_is_lost(open_api: OpenApi) -> None:
    for version, kind in (("2.0", "json"), ("3.0", "json"), ("3.0", "yaml"), ("3.1", "json")):
        path = NPM / f"@readme/oas-examples/{version}/{kind}/petstore.{kind}"
        async with open_api(at=str(path)) as api:
            with_body = [name for name, tool in api.tools.items() if "body" in tool.spec.metadata]
            assert len(api.tools) == 20
            assert {"addPet", "updatePet", "placeOrder", "createUser", "uploadFile"} <= set(with_body)
            assert api.tools["addPet"].input_schema["required"] == ["name", "photoUrls"]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"openapi": "4.0.0", "paths": {}}, "version '4.0.0' is not known"),
        ({"swagger": "1.2", "paths": {}}, "version '1.2' is not known"),
        ({"asyncapi": "3.0.0"}, "an AsyncAPI document"),
        ({"name": "package"}, "neither `openapi` nor `swagger`"),
        ({"openapi": "3.0.0"}, "has no `paths`"),
        ("<!DOCTYPE html>\n<html><form>Log in</form>", "an HTML page"),
        ("[1]", "holds no object"),
        ("{oops", "this is not JSON"),
        ("a: [1\nb: 2", "line 2: this is neither JSON nor YAML"),
        ("", "holds no object"),
    ],
)
async def test_a_bad_document_is_one_error_with_its_place(
    document: Any, problem: str, open_api: OpenApi
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        async with open_api(document):
            pass
    assert "api.json" in caught.value.message
    assert problem in caught.value.message


async def test_a_document_has_a_size_limit(open_api: OpenApi, echo: EchoServer) -> None:
    large = a_document(ONE, **{"x-much": "x" * 5000})
    with pytest.raises(ConfigurationError, match=r"api\.json is too large: over 2000 bytes"):
        async with open_api(large, max_document_size=2000):
            pass
    echo.answers["/api.json"] = Answer(json.dumps(large).encode())
    with pytest.raises(ConfigurationError, match="too large"):
        async with open_api(at=f"{echo.url}/api.json", max_document_size=2000):
            pass


@pytest.mark.parametrize("announced", [True, False])
async def test_a_document_of_100_mb_is_refused_before_it_is_read(
    announced: bool, open_api: OpenApi, echo: EchoServer
) -> None:
    piece = b" " * 65536
    start = json.dumps(a_document(ONE)).encode()[:-1]
    answer = Answer(pieces=itertools.chain([start], itertools.repeat(piece, 1600)))
    if announced:
        answer = Answer(start + b" " * 1000, headers={"content-length": "104857600"})
    echo.answers["/large.json"] = answer
    tracemalloc.start()
    try:
        with pytest.raises(
            ConfigurationError, match=r"/large\.json is too large: over 33554432 bytes"
        ) as caught:
            async with open_api(at=f"{echo.url}/large.json"):
                pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.hint == "raise `max_document_size` if that is meant"
    assert peak < 50_000_000


async def test_a_redirect_to_a_login_page_names_both(open_api: OpenApi, echo: EchoServer) -> None:
    echo.answers["/d.json"] = Answer(b"", 302, {"location": "/login"})
    echo.answers["/login"] = Answer(b"<!doctype html><form>", headers={"content-type": "text/html"})
    problem = f"{echo.url}/d.json redirects: {echo.url}/login is an HTML page"
    with pytest.raises(ConfigurationError, match=re.escape(problem)) as caught:
        async with open_api(at=f"{echo.url}/d.json"):
            pass
    assert "behind a login" in (caught.value.hint or "")


async def test_references_start_from_where_a_document_was_found(open_api: OpenApi, echo: EchoServer) -> None:
    document = a_document({"/a": {"get": {"operationId": "a", "parameters": [{"$ref": "p.json#/p"}]}}})
    echo.answers["/latest"] = Answer(b"", 302, {"location": "/v2/api.json"})
    echo.answers["/v2/api.json"] = Answer(json.dumps(document).encode())
    echo.answers["/v2/p.json"] = Answer(b'{"p": {"name": "q", "in": "query"}}')
    async with open_api(at=f"{echo.url}/latest") as api:
        assert list(api.tools["a"].input_schema["properties"]) == ["q"]


async def test_what_a_document_refers_to_counts_too(open_api: OpenApi, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps({"p": {"name": "q", "in": "query", "x": "x" * 5000}}))
    document = a_document({"/a": {"get": {"parameters": [{"$ref": "other.json#/p"}]}}})
    async with open_api(document, max_document_size=2000) as api:
        assert "other.json is too large" in api.left_out["get_a"]
        assert "raise `max_document_size`" in api.left_out["get_a"]


@pytest.mark.parametrize(
    ("answer", "kind", "problem"),
    [
        (Answer(b"no", status=404), NotFoundError, "HTTP status 404"),
        (Answer(b"no", status=401), SpindleError, "HTTP status 401"),
        (Answer(b"<html>Log in", headers={"content-type": "text/html"}), ConfigurationError, "an HTML page"),
        (Answer(b"{", break_off=True), ConnectionFailedError, "cannot get"),
        (Answer(b"", status=302, headers={"location": "/d"}), ServerError, "more than 5 times"),
        (Answer(b"", status=302, headers={"location": "ftp://x/"}), ServerError, "redirects to ftp:"),
    ],
)
async def test_a_document_that_cannot_be_had_says_so(
    answer: Answer, kind: type[SpindleError], problem: str, open_api: OpenApi, echo: EchoServer
) -> None:
    echo.answers["/d"] = answer
    with pytest.raises(kind, match=problem) as caught:
        async with open_api(at=f"{echo.url}/d"):
            pass
    assert f"{echo.url}/d" in caught.value.message


async def test_references_into_other_files_are_followed(open_api: OpenApi, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "pet.yaml").write_text(
        "get:\n  operationId: pet\n  parameters:\n    - $ref: 'common.yaml#/limit'\n"
        "  responses:\n    200:\n      content:\n        application/json:\n"
        "          schema: {$ref: 'common.yaml#/Pet'}\n"
    )
    (tmp_path / "parts" / "common.yaml").write_text(
        "limit: {name: limit, in: query, schema: {type: integer}}\n"
        "Pet: {type: object, properties: {born: {example: 2020-01-01}, parent: {$ref: '#/Pet'}}}\n"
    )
    async with open_api(a_document({"/pet": {"$ref": "parts/pet.yaml"}})) as api:
        tool = api.tools["pet"]
    assert tool.input_schema["properties"]["limit"] == {"type": "integer"}
    assert tool.output_schema is not None
    assert tool.output_schema["$defs"]["Pet"]["properties"] == {
        "born": {"examples": ["2020-01-01"]}, "parent": {"$ref": "#/$defs/Pet"}
    }  # fmt: skip


def test_yaml_keeps_as_text_what_json_would() -> None:
    root = parse("file:///a", b"on: 2020-01-01\nyes: no\nt: true\nn: 1.5\nz: null\ns: '2.0'").root
    assert root == {"on": "2020-01-01", "yes": "no", "t": True, "n": 1.5, "z": None, "s": "2.0"}


def test_yaml_names_are_text() -> None:
    assert parse("file:///a", b"200: a\n1.5: b\ntrue: c\nnull: d").root == {
        "200": "a", "1.5": "b", "true": "c", "null": "d"
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "\n".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in itertools.pairwise("abcdefghi")),
        "a: &a {b: *a}",
    ],
)
def test_yaml_that_unfolds_without_measure_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="alias"):
        parse("file:///a", text.encode())
    assert parse("file:///a", b"a: &a {x: 1}\nb: *a\nc: *a").root["c"] == {"x": 1}


# --- where a document may lead


@pytest.mark.usefixtures("names")
async def test_a_document_from_elsewhere_may_not_name_a_server_here(
    open_api: OpenApi, echo: EchoServer
) -> None:
    document = a_document(ONE, servers=[{"url": echo.url}])
    echo.answers["/d"] = Answer(json.dumps(document).encode())
    place = f"{echo.public_url}/d"
    async with open_api(at=place) as api:
        with pytest.raises(ConfigurationError, match=r"127\.0\.0\.1, which is on this machine") as caught:
            await api.call("a")
        assert not caught.value.sent
    async with open_api(at=place, allow_private=True) as api:
        await api.call("a")
    async with open_api(at=place, base_url=echo.url) as api:
        await api.call("a")
    assert [request.target for request in echo.requests].count("/a") == 2


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("reference", ["http://localhost:1/x.json#/p", "file:///etc/hostname#/p"])
async def test_a_document_from_elsewhere_may_not_refer_to_what_is_here(
    reference: str, open_api: OpenApi, echo: EchoServer
) -> None:
    document = a_document({"/a": {"get": {"parameters": [{"$ref": reference}]}}})
    echo.answers["/d"] = Answer(json.dumps(document).encode())
    async with open_api(at=f"{echo.public_url}/d") as api:
        assert api.tools == {}
        assert re.search(r"private network|may not name a file", api.left_out["get_a"])


@pytest.mark.usefixtures("names")
async def test_a_redirect_from_elsewhere_may_not_lead_here(open_api: OpenApi, echo: EchoServer) -> None:
    for path in ("/d", "/a"):
        echo.answers[path] = Answer(b"", 302, {"location": f"{echo.url}/secret"})
    with pytest.raises(ConfigurationError, match="private network"):
        async with open_api(at=f"{echo.public_url}/d"):
            pass
    async with open_api(a_document(ONE), base_url=echo.public_url) as api:
        with pytest.raises(ConfigurationError, match="private network"):
            await api.call("a")
    assert "/secret" not in [request.target for request in echo.requests]


async def test_a_name_that_changes_its_address_does_not_lead_here(
    open_api: OpenApi, echo: EchoServer, names: dict[str, list[str]]
) -> None:
    """A hostile name server says one address to who checks, and another to who connects."""
    away, here = PUBLIC, "127.0.0.1"
    port = echo.url.rpartition(":")[2]
    names["rebind.test"] = [away, here]
    document = a_document(ONE, servers=[{"url": f"http://rebind.test:{port}"}])
    echo.answers["/d"] = Answer(json.dumps(document).encode())
    async with open_api(at=f"{echo.public_url}/d") as api:
        await api.call("a")
        assert [request.address for request in echo.requests] == [away, away]
        # The connection is kept, so that the name is not asked for again.
        await api.call("a")
        assert echo.last.address == away
        assert dict(echo.last.headers)["host"] == f"rebind.test:{port}"
    async with open_api(at=f"{echo.public_url}/d") as api:
        with pytest.raises(ConfigurationError, match=r"rebind\.test, which is on this machine"):
            await api.call("a")
    assert here not in [request.address for request in echo.requests]


async def test_a_document_is_from_where_it_came_not_from_where_its_name_led_before(
    open_api: OpenApi, echo: EchoServer, names: dict[str, list[str]]
) -> None:
    port = echo.url.rpartition(":")[2]
    names["rebind.test"] = ["127.0.0.1", PUBLIC]
    document = a_document({"/a": {"get": {"parameters": [{"$ref": "file:///etc/hostname#/p"}]}}})
    echo.answers["/d"] = Answer(json.dumps(document).encode())
    for problem in ("points at nothing|cannot be read", "may not name a file"):
        async with open_api(at=f"http://rebind.test:{port}/d") as api:
            assert re.search(problem, api.left_out["get_a"])


async def test_all_addresses_of_a_host_are_checked_and_the_next_is_tried(
    open_api: OpenApi, echo: EchoServer, names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = echo.url.rpartition(":")[2]
    document = a_document(ONE, servers=[{"url": f"http://many.test:{port}"}])
    echo.answers["/d"] = Answer(json.dumps(document).encode())
    found = ["127.0.0.3", PUBLIC]

    async def addresses_of(host: str) -> list[str]:
        return found if host == "many.test" else [host]

    monkeypatch.setattr(addresses, "addresses_of", addresses_of)
    monkeypatch.setattr(addresses, "is_inside", lambda address: address == "127.0.0.1")
    async with open_api(at=f"{echo.public_url}/d") as api:
        await api.call("a")
        assert echo.last.address == PUBLIC
    found.append("127.0.0.1")
    async with open_api(at=f"{echo.public_url}/d") as api:
        with pytest.raises(ConfigurationError, match="private network"):
            await api.call("a")
        found.clear()
        with pytest.raises(ConnectionFailedError, match=r"there is no host many\.test") as caught:
            await api.call("a")
        assert not caught.value.sent


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("http://127.0.0.1/", True), ("http://[::1]/", True), ("http://10.1.2.3/", True),
        ("http://169.254.169.254/", True), ("http://0.0.0.0/", True), ("http://[::ffff:127.0.0.1]/", True),
        ("http://93.184.216.34/", False), ("http://nowhere.invalid/", False),
    ],
)  # fmt: skip
async def test_private_addresses_are_known(url: str, private: bool) -> None:
    assert await addresses.leads_inside(url) is private


async def test_a_utcp_manual_is_recognised(open_api: OpenApi) -> None:
    with pytest.raises(ConfigurationError, match="neither `openapi` nor `swagger`") as caught:
        async with open_api({"utcp_version": "1.0.1", "tools": []}):
            pass
    assert caught.value.hint == 'it is a UTCP manual: set kind = "utcp"'
