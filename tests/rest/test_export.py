"""The catalog as documents: valid, whole, and used by those for whom they are made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from servers.rest import RestWorkspace, Served, utcp_client
from servers.running import OpenSources
from spindle.domain.definitions import Definitions
from spindle.domain.json_schema import JsonObject, resolve_pointer
from spindle.domain.tool import Tool, ToolSpec
from spindle.rest import openapi, utcp
from spindle.rest.schemas import moved

URL = "http://127.0.0.1:8321"
CALLS: list[tuple[str, JsonObject]] = [
    ("echo", {"text": "é \u2028 \n", "count": -3, "tags": ["a", ""], "deep": {"n": None}, "flag": True}),
    ("echo", {"text": "", "tags": None}),
    ("grow", {"tree": {"name": "x", "below": [{"name": "y", "leaves": [{"size": 2}]}]}, "mark": None}),
    ("say", {"text": '{"not": "JSON"}'}),
    ("count", {"to": 2}),
    ("hello", {}),
]  # fmt: skip


def tool(name: str, input_schema: JsonObject, output: JsonObject | None = None, **more: Any) -> Tool:
    spec = ToolSpec(name, "", input_schema, output, **more)
    return Tool(f"s.{name}", "s", "made", spec, spec.fingerprint)


def assert_valid(document: JsonObject) -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    waiting: list[Any] = [document]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str) and reference.startswith("#"):
                assert resolve_pointer(document, reference) is not None, reference
            waiting += [value for key, value in node.items() if key != "examples"]
        elif isinstance(node, list):
            waiting += node


def body_of(document: JsonObject, name: str) -> JsonObject:
    return document["paths"][f"/tools/{name}"]["post"]["requestBody"]["content"]["application/json"]["schema"]


# --- OpenAPI


def test_shared_definitions_are_components_once_and_circles_stay_whole() -> None:
    shared = Definitions({
        "Node": {"properties": {"next": {"$ref": "#/$defs/Node"}, "leaf": {"$ref": "#/$defs/Leaf"}}},
        "Leaf": {"type": "string", "examples": [{"$ref": "#/$defs/Leaf"}]},
    })  # fmt: skip
    uses = {"type": "object", "properties": {"node": {"$ref": "#/$defs/Node"}}, "required": ["node"]}
    tools = [
        tool("a", uses, {"$ref": "#/$defs/Node"}, definitions=shared),
        tool("b", uses, definitions=Definitions(dict(shared.schemas))),
        tool("c", {**uses, "$defs": {"Node": {"type": "integer"}}}),
    ]
    document = openapi.document(tools, URL, wants_token=False)
    assert_valid(document)
    schemas = document["components"]["schemas"]
    assert {name for name in schemas if name.startswith("s.")} == {"s.Node", "s.Leaf", "s.Node_2"}
    assert body_of(document, "s.a") == body_of(document, "s.b")
    assert schemas["s.Node"]["properties"]["next"] == {"$ref": "#/components/schemas/s.Node"}
    assert schemas["s.Leaf"]["examples"] == [{"$ref": "#/$defs/Leaf"}]  # data, not a reference
    assert schemas["s.Node_2"] == {"type": "integer"}
    assert document["paths"]["/tools/s.a"]["post"]["requestBody"]["required"] is True


def test_a_schema_that_refers_to_a_part_of_itself_is_kept_in_one_piece() -> None:
    draft7 = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://example.com/x",
        "type": "object",
        "properties": {
            "$ref": {"type": "string"},
            "self": {"$ref": "#"},
            "like": {"$ref": "#/properties/$ref"},
            "old": {"$ref": "#/definitions/Old%20name"},
            "own": {"$id": "https://example.com/own", "$defs": {"A": {}}, "not": {"$ref": "#/$defs/A"}},
        },
        "definitions": {"Old name": {"type": "integer"}},
    }  # fmt: skip
    document = openapi.document([tool("t", draft7)], URL, wants_token=True)
    whole = document["components"]["schemas"]["s.t.input"]
    assert body_of(document, "s.t") == {"$ref": "#/components/schemas/s.t.input"}
    assert whole["properties"]["self"] == {"$ref": "#/components/schemas/s.t.input"}
    assert whole["properties"]["old"] == {"$ref": "#/components/schemas/s.t.input/definitions/Old%20name"}
    assert whole["properties"]["$ref"] == {"type": "string"}
    assert whole["properties"]["own"] == draft7["properties"]["own"]
    assert "$id" not in whole
    assert document["security"] == [{"token": []}]


def test_a_reference_that_leads_nowhere_leaves_the_document_valid() -> None:
    document = openapi.document(
        [tool("t", {"properties": {"a": {"$ref": "#/$defs/No"}}})], URL, wants_token=False
    )
    assert_valid(document)


def test_moving_keeps_values_that_only_look_like_references() -> None:
    schema = {
        "const": {"$ref": "#/a"},
        "enum": [{"$ref": "#"}],
        "default": {"$ref": "#"},
        "not": {"$ref": "#"},
    }
    assert moved(schema, "#/x") == {**schema, "not": {"$ref": "#/x"}}


def test_the_export_of_a_workspace_is_valid_and_can_be_narrowed(rest: RestWorkspace) -> None:
    whole = rest.json("export", "--openapi")
    assert_valid(whole)
    assert whole["servers"] == [{"url": URL}]
    assert body_of(whole, "grow")["properties"]["tree"] == {"$ref": "#/components/schemas/tools.Tree"}
    assert whole["paths"]["/tools/hello"]["post"]["tags"] == ["tools", "talk"]
    few = rest.json("export", "--openapi", "--tag", "talk", "--url", "https://tools.example/x/")
    assert list(few["paths"]) == ["/tools/hello"]
    assert few["servers"] == [{"url": "https://tools.example/x"}]


def test_a_file_can_be_written_and_settings_say_where_the_server_is(rest: RestWorkspace) -> None:
    rest.settings('[serve]\nurl = "https://tools.example"\nauth_token_env = "NOT_SET_HERE"\n')
    done = rest.spindle("export", "--utcp", "--out", "manual.json", "--filter", "say")
    assert (done.returncode, done.stdout) == (0, "")
    assert "1 tool written to manual.json" in done.stderr
    [written] = json.loads((rest.root / "manual.json").read_text())["tools"]
    assert written["tool_call_template"] == {
        "call_template_type": "http", "url": "https://tools.example/tools/say", "http_method": "POST",
        "content_type": "application/json", "body_field": "body",
        "auth": {
            "auth_type": "api_key", "api_key": "Bearer $TOKEN",
            "var_name": "Authorization", "location": "header",
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((), 2, "say which document: --openapi or --utcp"),
        (("--openapi", "--sse"), 2, "--sse goes with --utcp"),
        (("--utcp", "--url", "tools.example"), 2, "--url must be an address such as https://"),
        (("--utcp", "--source", "tolls"), 3, "did you mean 'tools'?"),
        (("--utcp", "--kind", "pyton"), 2, "did you mean python?"),
        (("--utcp", "--filter", "none"), 0, "no tool passes the filters"),
        (("--utcp", "--out", "no/such/folder"), 2, "No such file or directory"),
    ],
)
def test_a_mistake_is_one_clear_message(
    rest: RestWorkspace, words: tuple[str, ...], code: int, says: str
) -> None:
    done = rest.spindle("export", *words)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


async def test_our_own_importer_reads_the_document_and_gets_equal_results(
    rest: RestWorkspace, open_sources: OpenSources, tmp_path: Path
) -> None:
    rest.settings('[serve]\nauth_token_env = "REST_TOKEN"\n')
    with rest.serve(token="t0ken-of-ours", REST_TOKEN="t0ken-of-ours") as served:
        (tmp_path / "api.json").write_text(served.client.get("/openapi.json").text)
        auth = {"type": "bearer", "token": "t0ken-of-ours"}
        source = {"kind": "openapi", "document": "api.json", "auth": auth, "auth_hosts": [served.url]}
        async with open_sources({"far": source}) as app:
            [report] = await app.sync("far")
            assert (report.error, len(report.added)) == (None, 9)
            for name, arguments in CALLS:
                there = await app.call(f"far.{name}", arguments)
                here = rest.json("call", name, json.dumps(arguments), "--json")
                assert not there.is_error
                if here["structured"] is None:
                    assert there.text == "\n".join(block["text"] for block in here["content"])
                else:
                    assert there.structured == here["structured"]
            imported = await app.show("far.grow")
            assert imported.output_schema is not None
            assert imported.input_schema["required"] == ["tree"]


# --- UTCP

CLIENT = """
import asyncio, json, sys
from utcp.utcp_client import UtcpClient
from utcp_http.http_call_template import HttpCallTemplate
from utcp_http.sse_call_template import SseCallTemplate

url, calls, variables = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
auth = {"auth_type": "api_key", "api_key": "Bearer $TOKEN", "var_name": "Authorization", "location": "header"}


async def main():
    client = await UtcpClient.create(config={"variables": variables})
    shown = {"auth": auth} if variables else {}
    found = {}
    for kind, template in (("http", HttpCallTemplate), ("sse", SseCallTemplate)):
        where = {"name": kind, "url": f"{url}/utcp?template={kind}", "call_template_type": kind, **shown}
        done = await client.register_manual(template.model_validate(where))
        assert done.success, done.errors
        found[kind] = {"tools": [tool.name for tool in done.manual.tools], "results": []}
        for name, arguments in calls:
            given = {"body": arguments} if arguments or kind == "sse" else {}
            found[kind]["results"].append(await client.call_tool(f"{kind}.{name}", given))
    where = {"name": "api", "url": f"{url}/openapi.json", **shown, **({"auth_tools": auth} if shown else {})}
    done = await client.register_manual(HttpCallTemplate.model_validate({**where, "http_method": "GET"}))
    assert done.success, done.errors
    found["openapi"] = [await client.call_tool(f"api.{name}", {"body": given}) for name, given in calls]
    try:
        await client.call_tool("http.fail", {"body": {"why": "no good"}})
    except Exception as error:
        found["status"] = error.status
    return found


print(json.dumps(asyncio.run(main())))
"""


@pytest.mark.parametrize("token", [None, "t0ken-of-ours"])
def test_the_utcp_client_reads_the_manual_and_gets_equal_results(
    rest: RestWorkspace, tmp_path: Path, token: str | None
) -> None:
    if token:
        rest.settings(f'[serve]\nauth_token = "{token}"\n')
    variables = {f"{manual}_TOKEN": token for manual in ("http", "sse", "api")} if token else {}
    with rest.serve(token=token) as served:
        found = utcp_client(CLIENT, served.url, json.dumps(CALLS), json.dumps(variables), cwd=tmp_path)
    names = ["count", "echo", "fail", "grow", "hello", "large", "picture", "say", "wait_for"]
    assert found["http"]["tools"] == [f"http.{name}" for name in names]
    assert found["status"] == 422
    assert found["openapi"] == found["http"]["results"]
    for (name, arguments), plain, events in zip(
        CALLS, found["http"]["results"], found["sse"]["results"], strict=True
    ):
        here = rest.json("call", name, json.dumps(arguments), "--json")
        text = "\n".join(block["text"] for block in here["content"])
        assert plain == (text if here["structured"] is None else here["structured"]), name
        assert events[-1] == here, name
    counted = next(
        items for (name, _), items in zip(CALLS, found["sse"]["results"], strict=True) if name == "count"
    )
    assert [step["progress"] for step in counted[:-1]] == [1, 2]


def test_a_manual_holds_what_the_utcp_model_can_read(tmp_path: Path) -> None:
    odd = {"properties": {"any": True, "none": False, "list": {"items": True}}, "additionalProperties": False}
    made = utcp.manual([tool("t", odd, odd)], URL, wants_token=False)
    script = (
        "import json, sys\nfrom utcp.data.utcp_manual import UtcpManualSerializer\n"
        "read = UtcpManualSerializer().validate_dict(json.loads(sys.argv[1]))\n"
        "print(json.dumps([tool.name for tool in read.tools]))"
    )
    assert utcp_client(script, json.dumps(made), cwd=tmp_path) == ["s.t"]
    body = made["tools"][0]["inputs"]["properties"]["body"]
    assert body["properties"] == {"any": {}, "none": {"not": {}}, "list": {"items": {}}}


def test_served_documents_name_the_address_by_which_they_were_asked_for(served: Served) -> None:
    port = served.url.rpartition(":")[2]
    asked = served.client.get("/openapi.json", headers={"host": f"localhost:{port}"})
    assert asked.json()["servers"] == [{"url": f"http://localhost:{port}"}]
    assert_valid(asked.json())
    few = served.client.get("/utcp", params={"filter": "gro*"}).json()
    assert [item["name"] for item in few["tools"]] == ["grow"]
