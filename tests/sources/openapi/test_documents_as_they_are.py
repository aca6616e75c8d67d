"""Documents as people write them: a mistake costs one operation, and what is odd is sent as it was meant."""

import json
from pathlib import Path
from typing import Any

import pytest

from servers.echo_server import Answer, EchoServer, OpenApi, a_document
from spindle.calls.validate import Validation
from spindle.domain.tool import Tool
from spindle.errors import ConfigurationError, InvalidArgumentsError

FINE = {"operationId": "fine", "responses": {}}


def fits(tool: Tool, arguments: dict[str, Any]) -> bool:
    try:
        Validation().check_arguments(tool, arguments)
    except InvalidArgumentsError:
        return False
    return True


def body(schema: Any, media_type: str = "application/json") -> dict[str, Any]:
    return {"required": True, "content": {media_type: {"schema": schema}}}


# --- `#` in a path


async def test_what_follows_a_hash_in_a_path_leaves_the_query_whole(
    open_api: OpenApi, echo: EchoServer
) -> None:
    """AWS tells the actions of one path apart so. Nothing behind a `#` is part of a request."""
    names = [{"name": name, "in": "query", "required": True, "schema": {}} for name in ("Action", "Version")]
    paths = {
        "/#Action=AddTags": {"get": {"operationId": "add", "parameters": names}},
        "/{Key}?x=1#uploadId": {"get": {"operationId": "key", "parameters": [
            {"name": "Key", "in": "path", "required": True, "schema": {}},
            {"name": "Gone", "in": "path", "required": True, "schema": {}}, *names]}},
        "/#env/{Lost}": {"get": {"operationId": "lost"}},
    }  # fmt: skip
    async with open_api(a_document(paths), base_url=f"{echo.url}/v1/?fixed=1#part") as api:
        await api.call("add", {"Action": "AddTags", "Version": "2"})
        assert echo.last.target == "/v1/?fixed=1&Action=AddTags&Version=2"
        await api.call("key", {"Key": "a#b", "Action": "x", "Version": "2"})
        assert echo.last.target == "/v1/a%23b?fixed=1&x=1&Action=x&Version=2"
        assert "its path has {Lost} behind a `#`" in api.left_out["lost"]
        assert "Gone" not in api.tools["key"].input_schema["properties"]
        assert "api.key: its path has no place for 'Gone', which is no argument" in api.notes


# --- names


def unnamed(*paths: str) -> dict[str, Any]:
    return a_document({path: {"get": {"responses": {}}} for path in paths})


async def test_paths_that_come_to_one_name_get_names_of_their_own(open_api: OpenApi) -> None:
    paths = ["/jobs", "/jobs/", "/x", "/{x}", "/{x}/", "/jobs!"]
    seen: set[frozenset[tuple[str, str]]] = set()
    for order in (*(paths[at:] + paths[:at] for at in range(len(paths))), paths[::-1]):
        async with open_api(unnamed(*order)) as api:
            seen.add(frozenset((name, tool.spec.metadata["path"]) for name, tool in api.tools.items()))
    assert len(seen) == 1
    by_path = {path: name for name, path in seen.pop()}
    assert len(by_path) == len(paths)
    assert (by_path["/jobs"], by_path["/x"]) == ("get_jobs", "get_x")
    # Their own method and path make the others, so that no neighbour changes them.
    for path in ("/jobs/", "/{x}"):
        plain = {"/jobs/": "/jobs", "/{x}": "/x"}[path]
        async with open_api(unnamed(path, plain)) as api:
            assert {tool.spec.metadata["path"]: name for name, tool in api.tools.items()} == {
                path: by_path[path],
                plain: by_path[plain],
            }


async def test_a_neighbour_that_is_less_plain_changes_no_name(open_api: OpenApi) -> None:
    async with open_api(unnamed("/jobs")) as api:
        assert list(api.tools) == ["get_jobs"]
    for less_plain in ("/jobs/", "/{jobs}", "/jobs//"):
        async with open_api(unnamed("/jobs", less_plain)) as api:
            assert api.tools["get_jobs"].spec.metadata["path"] == "/jobs"


async def test_an_operation_id_stays_whatever_the_paths_come_to(open_api: OpenApi) -> None:
    paths = {"/a": {"post": {"operationId": "get_jobs"}}, "/jobs": {"get": {}}, "/jobs/": {"get": {}}}
    async with open_api(a_document(paths)) as api:
        found = {tool.spec.metadata["path"]: name for name, tool in api.tools.items()}
    assert found["/a"] == "get_jobs"
    assert len(set(found.values())) == 3


async def test_one_operation_id_twice_on_paths_that_look_alike(open_api: OpenApi) -> None:
    paths = {path: {"get": {"operationId": "list"}} for path in ("/jobs", "/jobs/")}
    async with open_api(a_document(paths)) as api:
        assert len(api.tools) == 2


# --- references that lead nowhere


@pytest.mark.parametrize(
    ("operation", "more", "problem"),
    [
        ({"parameters": [{"$ref": "#/components/parameters/no"}]}, {}, "'#/components/parameters/no' points"),
        ({"requestBody": {"$ref": "#/components/requestBodies/no"}}, {}, "requestBodies/no' points at"),
        ({"parameters": [{"$ref": "other.json#/p"}]}, {}, "'other.json#/p' cannot be read: there is no file"),
        (
            {"parameters": [{"$ref": "#/components/parameters/a"}]},
            {"components": {"parameters": {"a": {"$ref": "#/components/parameters/a"}}}},
            "goes in a circle",
        ),
        (
            {"parameters": [{"name": "a b", "in": "header", "required": True, "schema": {}}]},
            {},
            "the header 'a b' cannot be sent",
        ),
    ],
)  # fmt: skip
async def test_an_operation_that_cannot_be_called_is_left_out_alone(
    operation: dict[str, Any], more: dict[str, Any], problem: str, open_api: OpenApi
) -> None:
    paths = {"/bad": {"get": {"operationId": "bad", **operation}}, "/fine": {"get": FINE}}
    async with open_api(a_document(paths, **more)) as api:
        assert list(api.tools) == ["fine"]
        assert problem in api.left_out["bad"]


async def test_a_path_that_is_nowhere_costs_that_path(open_api: OpenApi) -> None:
    paths = {"/bad": {"$ref": "#/components/pathItems/no"}, "/fine": {"get": FINE}}
    async with open_api(a_document(paths)) as api:
        assert list(api.tools) == ["fine"]
        assert "pathItems/no' points at nothing" in api.left_out["/bad"]


async def test_a_schema_that_is_nowhere_is_any_value_and_said_of_who_uses_it(open_api: OpenApi) -> None:
    order = {"type": "object", "required": ["id", "of"], "properties": {
        "id": {"type": "integer"}, "of": {"$ref": "#/components/schemas/Customer"}}}  # fmt: skip
    paths = {
        "/a": {"post": {"operationId": "a", "requestBody": body({"$ref": "#/components/schemas/Order"})}},
        "/b": {"post": {"operationId": "b", "requestBody": body({"$ref": "#/components/schemas/Order"})}},
        "/fine": {"get": FINE},
    }
    async with open_api(a_document(paths, components={"schemas": {"Order": order}})) as api:
        assert sorted(api.tools) == ["a", "b", "fine"]
        for name in ("a", "b"):
            assert fits(api.tools[name], {"id": 1, "of": [1]})
            assert not fits(api.tools[name], {"id": "x", "of": 1})
        said = [line for line in api.notes if "schemas/Customer' points at nothing" in line]
    assert [line.partition(":")[0] for line in said] == ["api.a", "api.b"]


async def test_an_answer_that_is_nowhere_can_still_be_asked_for(open_api: OpenApi, echo: EchoServer) -> None:
    operation = {"operationId": "a", "responses": {"200": {"$ref": "#/components/responses/no"}}}
    for document in (
        a_document({"/a": {"get": operation}}),
        {"swagger": "2.0", "paths": {"/a": {"get": operation}}},
    ):
        async with open_api(document, base_url=echo.url) as api:
            await api.call("a")
            assert any("responses/no' points at nothing, so that its result" in line for line in api.notes)


async def test_a_security_scheme_that_is_nowhere_is_said_of_who_wants_it(open_api: OpenApi) -> None:
    paths = {"/a": {"get": {"operationId": "a", "security": [{"key": []}]}}, "/fine": {"get": FINE}}
    schemes = {"securitySchemes": {"key": {"$ref": "#/components/securitySchemes/no"}}}
    async with open_api(a_document(paths, components=schemes), base_url="http://h") as api:
        assert sorted(api.tools) == ["a", "fine"]
        assert api.notes == ["api.a: the security scheme 'key' is not defined"]


async def test_schemas_that_are_defined_by_each_other_alone_are_opened(open_api: OpenApi) -> None:
    schemas = {
        "A": {"$ref": "#/components/schemas/B"},
        "B": {"allOf": [{"$ref": "#/components/schemas/A"}, {"required": ["x"]}]},
        "C": {"oneOf": [{"$ref": "#/components/schemas/C"}, {"type": "integer"}]},
    }
    wrapped = {"type": "array", "items": {"$ref": "#/components/schemas/A"}}
    paths = {
        "/a": {"post": {"operationId": "a", "requestBody": body(wrapped)}},
        "/c": {"post": {"operationId": "c", "requestBody": body({"$ref": "#/components/schemas/C"})}},
        "/fine": {"get": FINE},
    }
    async with open_api(a_document(paths, components={"schemas": schemas}), base_url="http://h") as api:
        assert sorted(api.tools) == ["a", "c", "fine"]
        assert fits(api.tools["a"], {"body": [{"x": 1}]})
        assert not fits(api.tools["a"], {"body": [{}]})
        assert fits(api.tools["c"], {"body": "anything"})
        assert [line for line in api.notes if "circle" in line] == [
            "api.a: the schema A goes in a circle: A → B → A, so that any value is taken",
            "api.c: the schema C goes in a circle: C → C, so that any value is taken",
        ]


# --- references into schemas


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"nullable": True, "oneOf": [{"type": "integer"}]}, "oneOf/0"),
        ({"nullable": True, "anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "anyOf/0"),
        ({"nullable": True, "properties": {"p": {"type": "integer"}}, "allOf": [{}]}, "properties/p"),
        ({"x-parts": {"one": {"type": "integer"}}, "type": "object"}, "x-parts/one"),
        ({"$ref": "#/components/schemas/Real", "x-more": 1}, "oneOf/0"),
        ({"$ref": "#/components/schemas/Real", "nullable": True}, "oneOf/0"),
        ({"allOf": [{"$ref": "#/components/schemas/Real"}]}, "allOf/0/oneOf/0"),
    ],
)
@pytest.mark.parametrize("first", ["whole", "part"])
async def test_a_reference_into_a_schema_survives_its_conversion(
    schema: dict[str, Any], pointer: str, first: str, open_api: OpenApi
) -> None:
    part = {"type": "object", "properties": {"v": {"$ref": f"#/components/schemas/A/{pointer}"}}}
    whole = {"type": "object", "properties": {"v": {"$ref": "#/components/schemas/A"}}}
    operations = {
        "/part": {"post": {"operationId": "part", "requestBody": body(part)}},
        "/whole": {"post": {"operationId": "whole", "requestBody": body(whole)}},
    }
    document = a_document(
        {f"/{first}": operations.pop(f"/{first}"), **operations},
        components={"schemas": {"A": schema, "Real": {"oneOf": [{"type": "integer"}]}}},
    )
    async with open_api({**document, "openapi": "3.0.3"}, base_url="http://h") as api:
        assert api.notes == []
        assert fits(api.tools["part"], {"v": 1})
        assert not fits(api.tools["part"], {"v": "x"})


async def test_a_property_is_read_only_by_a_word_beside_its_reference_or_behind_it(open_api: OpenApi) -> None:
    schemas = {
        "Id": {"type": "integer"},
        "Made": {"type": "string", "readOnly": True},
        "Again": {"$ref": "#/components/schemas/Made"},
        "Pet": {
            "type": "object",
            "required": ["id", "made", "again", "name"],
            "properties": {
                "id": {"$ref": "#/components/schemas/Id", "readOnly": True},
                "made": {"$ref": "#/components/schemas/Made"},
                "again": {"$ref": "#/components/schemas/Again"},
                "name": {"type": "string"},
            },
        },
    }
    pet = {"$ref": "#/components/schemas/Pet"}
    paths = {
        "/list": {"post": {"operationId": "list", "requestBody": body({"type": "array", "items": pet})}},
        "/one": {"post": {"operationId": "one", "requestBody": body(pet)}},
    }
    document = a_document(paths, components={"schemas": schemas})
    async with open_api({**document, "openapi": "3.0.3"}) as api:
        assert list(api.tools["one"].input_schema["properties"]) == ["name"]
        assert fits(api.tools["one"], {"name": "x"})
        assert fits(api.tools["list"], {"body": [{"name": "x"}]})
        assert not fits(api.tools["list"], {"body": [{"id": 1}]})
        shown = api.tools["list"].input_schema["$defs"]["Pet"]["properties"]["id"]
    assert shown == {"$ref": "#/$defs/Id", "readOnly": True}


# --- bodies and servers


async def test_a_text_of_xml_is_sent_as_it_is(open_api: OpenApi, echo: EchoServer) -> None:
    document = a_document({"/a": {"post": {
        "operationId": "a", "requestBody": body({"type": "string"}, "application/xml")}}})  # fmt: skip
    sent = '<?xml version="1.0"?><order id="7">é &amp; more</order>'
    async with open_api(document, base_url=echo.url) as api:
        await api.call("a", {"body": sent})
    assert echo.last.body == sent.encode()
    assert echo.last.own_headers["content-type"] == "application/xml"


@pytest.mark.parametrize("url", ["/v1", "wss://h/v1", "https://<tenant>.example.com", "http://[bad/"])
async def test_operations_that_have_no_address_are_said_to_have_none(
    url: str, open_api: OpenApi, echo: EchoServer
) -> None:
    document = a_document({"/a": {"get": FINE}}, servers=[{"url": url}])
    note = (
        "api: its operations cannot be called yet: the document does not say where the API is; set `base_url`"
    )
    async with open_api(document) as api:
        assert note in api.notes
        with pytest.raises(ConfigurationError, match="does not say where the API of"):
            await api.call("fine")
    async with open_api(document, base_url=echo.url) as api:
        assert note not in api.notes
    if url != "/v1":
        echo.answers["/d.json"] = Answer(json.dumps(document).encode())
        async with open_api(at=f"{echo.url}/d.json") as api:
            assert note in api.notes


@pytest.mark.parametrize(
    ("media_type", "schema", "sent"),
    [
        ("application/jwt", {"type": "string"}, b"aGk="),
        ("application/jose", {"type": "string", "format": "base64"}, b"aGk="),
        ("application/vnd.x", {"type": "string", "format": "binary"}, b"hi"),
        ("application/octet-stream", {"type": "string"}, b"hi"),
        ("image/png", {"type": "string"}, b"hi"),
    ],
)
async def test_a_body_that_is_called_a_text_is_sent_as_it_is_whatever_its_type(
    media_type: str, schema: dict[str, Any], sent: bytes, open_api: OpenApi, echo: EchoServer
) -> None:
    operation = {"operationId": "a", "requestBody": body(schema, media_type)}
    async with open_api(a_document({"/a": {"post": operation}}), base_url=echo.url) as api:
        await api.call("a", {"body": "aGk="})
    assert (echo.last.body, echo.last.own_headers["content-type"]) == (sent, media_type)


async def test_headers_that_frame_a_request_are_no_arguments(open_api: OpenApi, echo: EchoServer) -> None:
    """Azure's metrics want `Content-Length`: one that a caller gives is wrong, and breaks the connection."""
    parameters = [
        {"name": name, "in": "header", "required": True, "schema": {"type": "string"}}
        for name in ("Content-Length", "Host", "Connection", "X-Own")
    ]
    operation = {"operationId": "a", "parameters": parameters, "requestBody": body({"type": "array"})}
    async with open_api(a_document({"/a": {"post": operation}}), base_url=echo.url) as api:
        assert list(api.tools["a"].input_schema["properties"]) == ["X-Own", "body"]
        await api.call("a", {"X-Own": "x", "body": [1, 2], "Content-Length": "99", "Host": "elsewhere"})
    assert echo.last.body == b"[1,2]"
    assert dict(echo.last.headers)["host"] == echo.url.removeprefix("http://")


# --- large documents


async def test_one_setting_raises_the_limits_of_a_large_document(open_api: OpenApi, tmp_path: Path) -> None:
    """Its bytes and its parts: 40 MiB, and two and a half million values."""
    document = a_document({"/a": {"get": FINE}}, **{"x-much": []})
    much = ",".join(["0"] * 2_500_000)
    text = json.dumps(document).replace("[]", f"[{much}]")
    (tmp_path / "many.json").write_text(text)
    with pytest.raises(ConfigurationError, match="more than 2000000 lists, objects and values") as caught:
        async with open_api(at="many.json"):
            pass
    assert caught.value.hint == "raise `max_document_size` if that is meant"
    (tmp_path / "large.json").write_text(text + " " * (40 * 1024 * 1024))
    with pytest.raises(ConfigurationError, match="over 33554432 bytes") as caught:
        async with open_api(at="large.json"):
            pass
    assert caught.value.hint == "raise `max_document_size` if that is meant"
    async with open_api(at="large.json", max_document_size="64MiB") as api:
        assert list(api.tools) == ["fine"]


async def test_a_body_of_swagger_2_refers_to_what_stands_beside_it(open_api: OpenApi, tmp_path: Path) -> None:
    order = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
    body_of = {"name": "order", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Order"}}
    (tmp_path / "parts.json").write_text(json.dumps({"body": body_of, "definitions": {"Order": order}}))
    operation = {"operationId": "a", "parameters": [{"$ref": "parts.json#/body"}]}
    async with open_api({"swagger": "2.0", "paths": {"/a": {"post": operation}}}) as api:
        assert fits(api.tools["a"], {"id": 1})
        assert not fits(api.tools["a"], {"id": "x"})
