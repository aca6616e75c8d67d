"""From operations to tools: names, schemas, hints, and what cannot be represented."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.echo_server import EchoServer, OpenApi, a_document
from spindle.calls.validate import Validation
from spindle.documents.refs import Document, Documents
from spindle.domain.tool import Tool
from spindle.errors import ConfigurationError, InvalidArgumentsError, SpindleError
from spindle.sources.openapi.operations import import_tools
from spindle.sources.openapi.servers import ServerChoice


def with_body(schema: Any, media_type: str = "application/json", **body: Any) -> dict[str, Any]:
    operation = {"operationId": "do", "requestBody": {"content": {media_type: {"schema": schema}}, **body}}
    return a_document({"/do": {"post": operation}})


def fits(tool: Tool, arguments: dict[str, Any]) -> bool:
    try:
        Validation().check_arguments(tool, arguments)
    except InvalidArgumentsError:
        return False
    return True


async def test_names_are_legal_unique_and_stable(open_api: OpenApi) -> None:
    def operation(name: str | None) -> dict[str, Any]:
        return {"operationId": name, "responses": {}} if name else {"responses": {}}

    long = "x" * 150
    paths = {
        "/pets/{id}": {"get": operation(None), "put": operation("meta/root")},
        "/a": {"get": operation("same"), "post": operation("same")},
        "/b": {"get": operation("same"), "post": operation(long)},
        "/c": {"get": operation("ünïcode name"), "post": operation("///")},
    }
    async with open_api(a_document(paths)) as api:
        names = set(api.tools)
    async with open_api(a_document(dict(reversed(paths.items())))) as api:
        assert set(api.tools) == names
    assert {"get_pets_id", "meta_root", "same_get_a", "same_post_a", "same_get_b", "n_code_name"} <= names
    assert "post_c" in names
    assert all(len(name) <= 100 for name in names)


async def test_hints_come_from_the_method(open_api: OpenApi) -> None:
    verbs = ("get", "head", "put", "delete", "post", "patch")
    paths = {"/a": {verb: {"operationId": verb, "responses": {}} for verb in verbs}}
    async with open_api(a_document(paths)) as api:
        hints = {name: tool.hints for name, tool in api.tools.items()}
    assert {name for name, hint in hints.items() if hint.read_only} == {"get", "head"}
    assert {name for name, hint in hints.items() if hint.safe_to_repeat} == {"get", "head", "put", "delete"}
    assert {name for name, hint in hints.items() if hint.destructive} == {"delete"}


async def test_a_required_body_wants_its_required_properties(open_api: OpenApi) -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {}}}
    async with open_api(with_body(schema, required=True)) as api:
        tool = api.tools["do"]
    assert not fits(tool, {})
    assert not fits(tool, {"b": 1})
    assert fits(tool, {"a": "x"})
    assert not fits(tool, {"a": "x", "typo": 1})


async def test_an_optional_body_wants_them_once_there_is_one(open_api: OpenApi) -> None:
    schema = {"type": "object", "required": ["a", "b"], "properties": {"a": {}, "b": {}, "c": {}}}
    async with open_api(with_body(schema)) as api:
        tool = api.tools["do"]
    assert fits(tool, {})
    assert not fits(tool, {"c": 1})
    assert not fits(tool, {"a": 1})
    assert fits(tool, {"a": 1, "b": 2})


async def test_what_stands_beside_a_reference_counts_since_3_1(open_api: OpenApi) -> None:
    named = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    schema = {
        "$ref": "#/components/schemas/Named",
        "description": "One with an age.",
        "properties": {"age": {"type": "integer"}},
        "required": ["age"],
    }
    document = with_body(schema, required=True) | {"components": {"schemas": {"Named": named}}}
    async with open_api(document) as api:
        tool = api.tools["do"]
    assert sorted(tool.input_schema["properties"]) == ["age", "name"]
    assert fits(tool, {"name": "x", "age": 1})
    assert not fits(tool, {"name": "x"})


async def test_what_only_answers_have_is_not_asked_for(open_api: OpenApi) -> None:
    pet = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {"id": {"type": "integer", "readOnly": True}, "name": {"type": "string"}},
    }
    async with open_api(with_body(pet, required=True)) as api:
        assert list(api.tools["do"].input_schema["properties"]) == ["name"]
        assert fits(api.tools["do"], {"name": "x"})
    async with open_api(with_body({"type": "array", "items": pet}, required=True)) as api:
        assert fits(api.tools["do"], {"body": [{"name": "x"}]})


async def test_clashing_names_say_where_they_go(open_api: OpenApi) -> None:
    parameters = [{"name": "id", "in": place, "schema": {}} for place in ("query", "path")]
    parameters[0]["description"] = "The other id."
    paths = {"/a/{id}": {"get": {"operationId": "a", "parameters": parameters}}}
    async with open_api(a_document(paths)) as api:
        properties = api.tools["a"].input_schema["properties"]
    assert properties["id_query"]["description"] == "The other id. (Sent as the query parameter `id`.)"
    assert "description" not in properties["id"]


@pytest.mark.parametrize(
    ("given", "good", "bad"),
    [
        ({"type": "string", "nullable": True}, [None, "x"], [1]),
        ({"type": "string", "nullable": True, "enum": ["a"]}, [None, "a"], ["b"]),
        ({"$ref": "#/components/schemas/N", "nullable": True}, [None, 1], ["x"]),
        ({"allOf": [{"$ref": "#/components/schemas/N"}], "nullable": True}, [None, 1], ["x"]),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, [2], [1]),
        ({"type": "integer", "maximum": 5, "exclusiveMaximum": False}, [5], [6]),
        ({"type": "integer", "example": 3, "x-more": 1, "externalDocs": {}}, [3], ["x"]),
        ({"type": "string", "pattern": "^(?:{[0-9]{4}}|a)$"}, ["anything"], [1]),
    ],
)
async def test_schemas_of_3_0_mean_what_they_meant(
    given: Any, good: list[Any], bad: list[Any], open_api: OpenApi
) -> None:
    document = with_body({"type": "object", "properties": {"v": given}})
    document |= {"openapi": "3.0.3", "components": {"schemas": {"N": {"type": "integer"}}}}
    async with open_api(document) as api:
        tool = api.tools["do"]
    assert all(fits(tool, {"v": value}) for value in good)
    assert not any(fits(tool, {"v": value}) for value in bad)


async def test_what_cannot_be_represented_is_noted_by_operation(open_api: OpenApi) -> None:
    operation = {
        "operationId": "do",
        "parameters": [
            {"name": "m", "in": "moon"},
            {"name": "s", "in": "query", "style": "matrix", "schema": {}},
            {"in": "query"},
        ],
        "callbacks": {"on": {}},
        "security": [{"unknown": []}],
        "servers": [{"url": "https://{region}.h/"}],
    }
    async with open_api(a_document({"/a/{x}": {"get": operation}})) as api:
        assert sorted(api.notes) == [
            "api.do: 's': style 'matrix' is not known in query, 'form' is used",
            "api.do: a parameter in query has no name",
            "api.do: its callbacks cannot be received",
            "api.do: the parameter 'm' in 'moon' cannot be sent",
            "api.do: the security scheme 'unknown' is not defined",
            "api.do: the server's variable 'region' has no value; give it in `server_variables`",
            "api.do: {x} of its path is not described, and taken as text",
        ]


async def test_what_is_left_out_is_noted_after_what_is_wrong(open_api: OpenApi) -> None:
    schema = {"schema": {"type": "object", "properties": {"a": {}}}}
    operation = {
        "operationId": "do",
        "parameters": [
            {"name": name, "in": "header"} for name in ("Accept", "Content-Type", "AUTHORIZATION")
        ],
        "requestBody": {"content": dict.fromkeys(("text/xml", "text/plain", "application/json"), schema)},
    }
    document = a_document(
        {"/a": {"post": operation, "additionalOperations": {"COPY": {}}}, "/b/{x}": {"get": {}}, "c": {}},
        webhooks={"new": {}},
        servers=[{"url": "https://one.example"}, {"url": "https://two.example"}],
    )
    async with open_api(document) as api:
        assert api.notes == [
            "api: webhooks: they cannot be received",
            "api: /a: its additionalOperations cannot be called",
            "api: the path 'c' is left out: it does not begin with /",
            "api.get_b_x: {x} of its path is not described, and taken as text",
            "api: of its servers https://one.example is used; set `server` for another: https://two.example",
            "api.do: the header Accept is no argument: it follows from its responses",
            "api.do: the header Content-Type is no argument: it follows from its body",
            "api.do: the header AUTHORIZATION is no argument: it follows from `auth`",
            "api.do: its body is sent as application/json; it could also be text/xml, text/plain",
        ]
        assert list(api.tools["do"].input_schema["properties"]) == ["a"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"server": 2}, r"has no server 2"),
        ({"server": "Tset"}, r"has no server 'Tset'"),
        ({"server_variables": {"regoin": "eu"}}, r"no server that is used has a variable 'regoin'"),
    ],
)
async def test_a_server_that_is_not_there_is_an_error_with_those_that_are(
    settings: dict[str, Any], problem: str, open_api: OpenApi
) -> None:
    regions = {"region": {"default": "us", "enum": ["us", "eu"]}}
    servers = [
        {"url": "https://{region}.h", "variables": regions},
        {"url": "https://t.h", "description": "Test"},
    ]
    document = a_document({"/a": {"get": {"operationId": "a"}}}, servers=servers)
    with pytest.raises(ConfigurationError, match=problem) as caught:
        async with open_api(document, **settings):
            pass
    assert "api.json" in caught.value.message
    hint = caught.value.hint or ""
    assert "0: https://{region}.h; 1: https://t.h (Test)" in hint or hint == "did you mean 'region'?"
    async with open_api(document, base_url="http://h", **settings) as api:
        assert list(api.tools) == ["a"]


async def test_servers_of_an_operation_go_before_the_documents(open_api: OpenApi) -> None:
    servers = [{"url": "https://one.h"}, {"url": "https://two.h", "description": "Two"}]
    paths = {
        "/a": {"get": {"operationId": "a"}},
        "/b": {"get": {"operationId": "b", "servers": [{"url": "https://own.h"}]}},
        "/c": {
            "get": {"operationId": "c"},
            "servers": [{"url": "https://x.h"}, {"url": "https://y.h/", "description": "Two"}],
        },
    }
    async with open_api(a_document(paths, servers=servers), server="Two") as api:
        found = {name: tool.spec.metadata["server"] for name, tool in api.tools.items()}
        assert api.notes == []
    assert found == {"a": "https://two.h", "b": "https://own.h", "c": "https://y.h/"}


async def test_a_value_that_a_server_does_not_list_is_noted(open_api: OpenApi) -> None:
    servers = [{"url": "https://{r}.h", "variables": {"r": {"default": "us", "enum": ["us", "eu"]}}}]
    document = a_document({"/a": {"get": {"operationId": "a"}}}, servers=servers)
    async with open_api(document, server_variables={"r": "mars"}) as api:
        assert api.tools["a"].spec.metadata["server"] == "https://mars.h"
        assert api.notes == ["api.a: the server's variable 'r' should not be 'mars', it says"]


async def test_a_schema_that_stands_for_others_takes_their_properties(open_api: OpenApi) -> None:
    """Flattened, a dog's bark would be refused as an argument that nobody knows."""
    reference = {"$ref": "#/components/schemas/Pet"}
    dog = {"allOf": [reference, {"type": "object", "properties": {"bark": {"type": "string"}}}]}
    pet = {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"type": "string"}},
        "discriminator": {"propertyName": "kind", "mapping": {"dog": "#/components/schemas/Dog"}},
    }
    document = with_body(reference, required=True)
    document["components"] = {"schemas": {"Pet": pet, "Dog": dog}}
    document["paths"]["/dog"] = {"post": {"operationId": "dog", "requestBody": {
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Dog"}}}}}}  # fmt: skip
    async with open_api(document, base_url="http://h") as api:
        tool = api.tools["do"]
        assert fits(tool, {"body": {"kind": "dog", "bark": "loud"}})
        shown = tool.input_schema["$defs"]["Pet"]["discriminator"]
        assert shown == {"propertyName": "kind", "mapping": {"dog": "Dog"}}
        assert set(api.tools["dog"].input_schema["properties"]) == {"kind", "bark"}
        assert api.notes == [
            "api: 1 schema with a discriminator but no list of choices: it is shown, and not checked"
        ]


async def test_an_example_that_is_a_reference_is_left_out(open_api: OpenApi) -> None:
    """GitHub's document has one. It is no part of the schema, and dangles once it is in a tool."""
    reference = {"$ref": "#/components/examples/e"}
    properties = {"a": {"example": reference}, "b": {"examples": [1, reference]}}
    document = with_body({"type": "object", "properties": properties})
    document["components"] = {"examples": {"e": {"value": 1}}}
    async with open_api(document) as api:
        assert api.tools["do"].input_schema["properties"] == {"a": {}, "b": {"examples": [1]}}


async def test_tools_share_their_definitions_and_stand_alone_when_shown(open_api: OpenApi) -> None:
    node = {"type": "object", "properties": {"children": {"type": "array", "items": {
        "$ref": "#/components/schemas/Node"}}}}  # fmt: skip
    body = {"content": {"application/json": {"schema": {"properties": {"n": {
        "$ref": "#/components/schemas/Node"}}}}}}  # fmt: skip
    paths = {f"/{name}": {"post": {"operationId": name, "requestBody": body}} for name in "ab"}
    async with open_api(a_document(paths, components={"schemas": {"Node": node, "Unused": {}}})) as api:
        a, b = api.tools["a"], api.tools["b"]
    assert a.spec.definitions is b.spec.definitions
    assert list(a.to_dict()["input_schema"]["$defs"]) == ["Node"]
    assert fits(a, {"n": {"children": [{"children": []}]}})
    assert not fits(a, {"n": {"children": [{"children": 1}]}})


SWAGGER = {
    "swagger": "2.0",
    "info": {"title": "t", "version": "1"},
    "basePath": "/v1",
    "consumes": ["application/json"],
    "parameters": {"Pet": {"name": "pet", "in": "body", "required": True,
                           "schema": {"$ref": "#/definitions/Pet"}}},
    "responses": {"Ok": {"description": "", "schema": {"$ref": "#/definitions/Pet"}}},
    "definitions": {"Pet": {"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "x-nullable": True}, "parent": {"$ref": "#/definitions/Pet"}}}},
    "securityDefinitions": {"b": {"type": "basic"}},
    "security": [{"b": []}],
    "paths": {
        "/pets": {
            "post": {"operationId": "add", "parameters": [{"$ref": "#/parameters/Pet"}],
                     "responses": {"200": {"$ref": "#/responses/Ok"}}},
            "get": {"operationId": "find", "parameters": [
                {"name": f, "in": "query", "type": "array", "items": {}, "collectionFormat": f}
                for f in ("csv", "ssv", "tsv", "pipes", "multi")], "responses": {}},
        },
        "/form": {"post": {"operationId": "form", "consumes": ["application/x-www-form-urlencoded"],
                           "parameters": [{"name": "a", "in": "formData", "type": "string", "required": True},
                                          {"name": "b", "in": "formData", "type": "array",
                                           "items": {"type": "string"}}], "responses": {}}},
        "/upload": {"post": {"operationId": "upload",
                             "parameters": [{"name": "f", "in": "formData", "type": "file"}]}},
    },
}  # fmt: skip


async def test_swagger_2_is_sent_as_it_says(open_api: OpenApi, echo: EchoServer) -> None:
    async with open_api(SWAGGER, base_url=f"{echo.url}/v1") as api:
        assert fits(api.tools["add"], {"name": None, "parent": {"name": "x"}})
        assert not fits(api.tools["add"], {"parent": {"name": 1}, "name": "x"})
        assert api.tools["add"].output_schema is not None
        await api.call("add", {"name": "x"})
        assert (echo.last.target, echo.last.body) == ("/v1/pets", b'{"name":"x"}')
        await api.call("find", {name: ["a", "b"] for name in ("csv", "ssv", "tsv", "pipes", "multi")})
        assert echo.last.target == "/v1/pets?csv=a,b&ssv=a%20b&tsv=a%09b&pipes=a%7Cb&multi=a&multi=b"
        await api.call("form", {"a": "x", "b": ["1", "2"]})
        assert echo.last.body == b"a=x&b=1,2"
        await api.call("upload", {"f": {"filename": "a.txt", "content": "hi"}})
        assert b'name="f"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nhi\r\n' in echo.last.body


@pytest.mark.parametrize(
    ("more", "server"),
    [
        ({"host": "h.example", "schemes": ["http", "https"]}, "https://h.example/v1"),
        ({"host": "h.example", "schemes": ["http"]}, "http://h.example/v1"),
        ({}, None),
    ],
)
async def test_swagger_2_says_where_its_server_is(more: Any, server: str | None, open_api: OpenApi) -> None:
    async with open_api({**SWAGGER, **more}) as api:
        assert api.tools["add"].spec.metadata.get("server") == server


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


JUNK: list[Any] = [
    None,
    1,
    "x",
    True,
    [],
    {},
    ["x"],
    [{}],
    {"a": 1},
    {"$ref": "#"},
    {"$ref": 1},
    {"$ref": "#/x"},
]


@given(st.sampled_from(places(SWAGGER)[1:]), st.sampled_from(JUNK))
def test_a_document_with_junk_anywhere_gives_tools_or_a_clear_error(
    place: tuple[Any, ...], junk: Any
) -> None:
    document = copy.deepcopy(SWAGGER)
    node: Any = document
    for step in place[:-1]:
        node = node[step]
    node[place[-1]] = junk
    documents = Documents(Document("file:///api.json", document), {}, {})
    try:
        specs = import_tools(documents, ServerChoice(), remote=False, note=lambda _: None)
    except SpindleError as error:
        said = error.message
    else:
        assert all(spec.fingerprint and spec.whole_definition() for spec in specs)
        said = "/api.json"
    assert "/api.json" in said
