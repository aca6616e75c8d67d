"""What AsyncAPI documents become: names, descriptions, schemas; and what is wrong with some."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from event_documents import Workspace, document

from spindle.domain.event import Event
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import ConfigurationError, InvalidArgumentsError, SpindleError
from spindle.sources.events.answers import asked
from spindle.sources.events.links.port import Outgoing

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


async def tools_of(workspace: Workspace) -> dict[str, Any]:
    async with workspace.open() as app:
        await app.sync()
        return {item.name: await app.show(item.name) for item in await app.tools()}


async def test_no_folder_and_an_empty_one_are_fine(workspace: Workspace) -> None:
    assert await tools_of(workspace) == {}
    (workspace.root / "events").mkdir()
    assert await tools_of(workspace) == {}
    assert workspace.notes == []


async def test_settings_of_the_folder_may_come_before_the_folder(workspace: Workspace) -> None:
    workspace.settings(timeout=5)
    assert await tools_of(workspace) == {}


@pytest.mark.parametrize("ending", ["yaml", "yml", "json"])
async def test_an_operation_that_says_so_is_a_tool_under_its_plain_name(
    workspace: Workspace, ending: str
) -> None:
    content = document(payload=SCHEMA)
    content["operations"]["other"] = {"action": "send", "channel": {"$ref": "#/channels/c"}}
    workspace.write(f"events/a.{ending}", content)
    tools = await tools_of(workspace)
    assert sorted(tools) == ["emit", "wait"]
    assert tools["emit"].input_schema == SCHEMA
    assert tools["emit"].kind == "events"


NOT_SAID = "has no `enabled: true`"
NEITHER = "must say `enabled: true` or `false`"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (False, None),
        (None, None),
        ({"enabled": False}, None),
        ({}, NOT_SAID),
        ({"name": "emit_order", "description": "Places an order."}, NOT_SAID),
        ({"enabled": None}, NOT_SAID),
        ({"enabled": "yes"}, NEITHER),
        ({"enabled": 1}, NEITHER),
    ],
)
async def test_one_that_is_not_enabled_is_none(workspace: Workspace, given: Any, said: str | None) -> None:
    content = document()
    del content["operations"]["wait"]
    content["operations"]["emit"]["x-agent-tool"] = given
    workspace.write("events/a.json", content)
    assert await tools_of(workspace) == {}
    assert [said in note for note in workspace.notes] == [True] * (said is not None)


async def test_names_and_descriptions_come_from_the_extension_first(workspace: Workspace) -> None:
    content = document()
    reference = {"$ref": "#/channels/c"}
    content["operations"] = {
        "a": {
            "action": "send", "channel": reference, "summary": "no",
            "x-agent-tool": {"enabled": True, "name": "place order", "description": "Place it."},
        },
        "b": {"action": "send", "channel": reference, "summary": "In short.", "x-agent-tool": True},
        "c": {"action": "receive", "channel": reference, "x-agent-tool": True},
    }  # fmt: skip
    workspace.write("events/a.json", content)
    tools = await tools_of(workspace)
    assert sorted(tools) == ["b", "c", "place_order"]
    assert tools["place_order"].description == "Place it."
    assert tools["b"].description == "In short."
    assert "orders/placed" in tools["c"].description


async def test_without_an_id_the_address_is_the_name(workspace: Workspace) -> None:
    channels = {
        "user/{id}/signedup": {
            "subscribe": {"x-agent-tool": True, "message": {"payload": SCHEMA}},
            "publish": {"x-agent-tool": True, "message": {"payload": SCHEMA}},
        }
    }
    workspace.write("events/a.json", {"asyncapi": "2.6.0", "channels": channels})
    tools = await tools_of(workspace)
    # In 2.x others subscribe to what the application sends, and publish what it receives.
    assert sorted(tools) == ["user_id_signedup", "wait_for_user_id_signedup"]
    assert tools["user_id_signedup"].input_schema["required"] == ["id", "channel_id"]
    assert "timeout" in tools["wait_for_user_id_signedup"].input_schema["properties"]


async def test_references_of_every_spelling_are_followed(workspace: Workspace) -> None:
    payload = {
        "type": "object",
        "properties": {
            "slash": {"$ref": "#/components/schemas/a~1b"},
            "tilde": {"$ref": "#/components/schemas/c~0d"},
            "percent": {"$ref": "#/components/schemas/e%2Ff"},
            "file": {"$ref": "./parts/shared.yaml#/Money"},
            "tree": {"$ref": "#/components/schemas/Tree"},
        },
    }
    schemas = {
        "a/b": {"type": "integer"},
        "c~d": {"type": "boolean"},
        "e/f": {"type": "null"},
        "Tree": {"type": "object", "properties": {"below": {"$ref": "#/components/schemas/Tree"}}},
    }
    workspace.write("events/a.json", document(payload=payload, components={"schemas": schemas}))
    workspace.write("events/parts/shared.yaml", "Money: {type: number, minimum: 0}")
    async with workspace.open() as app:
        good = {"slash": 1, "tilde": True, "percent": None, "file": 2, "tree": {"below": {"below": {}}}}
        assert not (await app.call("emit", good)).is_error
        wrong = {"slash": "x", "tilde": 1, "percent": 1, "file": -1, "tree": {"below": {"below": 3}}}
        with pytest.raises(InvalidArgumentsError) as caught:
            await app.call("emit", wrong)
    assert {item["path"] for item in caught.value.details} == {
        "slash", "tilde", "percent", "file", "tree.below.below"
    }  # fmt: skip


async def test_several_messages_are_one_of_them_and_the_event_says_which(workspace: Workspace) -> None:
    content = document()
    content["channels"]["c"]["messages"] = {
        "Placed": {
            "payload": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
        },
        "Cancelled": {
            "name": "order.cancelled",
            "payload": {"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"]},
        },
    }
    workspace.write("events/a.json", content)
    async with workspace.open() as app:
        assert len((await app.show("emit")).input_schema["oneOf"]) == 2
        assert (await app.call("emit", id=1)).structured["type"] == "Placed"
        assert (await app.call("emit", why="late")).structured["type"] == "order.cancelled"
        with pytest.raises(InvalidArgumentsError):
            await app.call("emit", other=1)


async def test_an_operation_may_choose_from_the_messages_of_its_channel(workspace: Workspace) -> None:
    content = document()
    content["channels"]["c"]["messages"]["Other"] = {"payload": SCHEMA}
    content["operations"]["emit"]["messages"] = [{"$ref": "#/channels/c/messages/Other"}]
    workspace.write("events/a.json", content)
    assert (await tools_of(workspace))["emit"].input_schema == SCHEMA


@pytest.mark.parametrize("version", ["3.0.0", "2.6.0"])
async def test_pointers_lead_through_a_channel_that_stands_in_another_file(
    workspace: Workspace, version: str
) -> None:
    """As most documents of several files have it: the channel is a reference, and so are its messages."""
    message = {"payload": {"$ref": "#/schemas/Order"}}
    channel = {"address": "orders/placed", "messages": {"Placed": {"$ref": "#/messages/placed"}}}
    parts = {"channel": channel, "messages": {"placed": message}, "schemas": {"Order": SCHEMA}}
    workspace.write("parts/orders.json", parts)
    content = document()
    content["channels"]["c"] = {"$ref": "../parts/orders.json#/channel"}
    content["operations"]["emit"]["messages"] = [{"$ref": "#/channels/c/messages/Placed"}]
    if version == "2.6.0":
        parts["channel"] = {"subscribe": {"$ref": "#/operation"}, "shared": message}
        parts["operation"] = {"operationId": "emit", "x-agent-tool": True,
                              "message": {"$ref": "../events/a.json#/channels/c/shared"}}  # fmt: skip
        workspace.write("parts/orders.json", parts)
        content = {"asyncapi": version, "channels": {"c": {"$ref": "../parts/orders.json#/channel"}}}
    workspace.write("events/a.json", content)
    tools = await tools_of(workspace)
    assert workspace.notes == []
    assert tools["emit"].input_schema == SCHEMA


async def test_what_one_part_of_a_payload_refers_to_in_vain_leaves_the_others_checked(
    workspace: Workspace,
) -> None:
    payload = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "of": {"$ref": "#/components/schemas/No"}},
        "required": ["id"],
    }
    workspace.write("events/a.json", document(payload=payload))
    async with workspace.open() as app:
        assert not (await app.call("emit", id=1, of=["anything"])).is_error
        with pytest.raises(InvalidArgumentsError):
            await app.call("emit", id="x")
    assert len([line for line in workspace.notes if "schemas/No' points at nothing" in line]) == 1


async def test_a_reference_into_a_list_of_draft_7_survives_its_conversion(workspace: Workspace) -> None:
    pair = {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}
    payload = {
        "type": "object",
        "properties": {"pair": {"$ref": "#/components/schemas/Pair"}},
    }
    content = document(payload=payload, components={"schemas": {"Pair": pair}})
    first = {"type": "object", "properties": {"first": {"$ref": "#/components/schemas/Pair/items/0"}}}
    content["channels"]["d"] = {"address": "d", "messages": {"First": {"payload": first}}}
    content["operations"]["second"] = {
        "action": "send", "channel": {"$ref": "#/channels/d"}, "x-agent-tool": True,
    }  # fmt: skip
    workspace.write("events/a.json", content)
    async with workspace.open() as app:
        assert not (await app.call("second", first=1)).is_error
        with pytest.raises(InvalidArgumentsError):
            await app.call("second", first="x")
    assert workspace.notes == []


@pytest.mark.parametrize("payload", [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}])
async def test_a_payload_that_is_no_object_is_wrapped(workspace: Workspace, payload: Any) -> None:
    workspace.write("events/a.json", document(payload=payload))
    value = "text" if payload["type"] == "string" else [1, 2]
    async with workspace.open() as app:
        heard = app.events()
        await app.call("emit", payload=value)
        assert (await anext(heard)).data == value
        with pytest.raises(InvalidArgumentsError):
            await app.call("emit", payload=None)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"payload": {"$ref": "#/nowhere"}}, "points at nothing"),
        ({"payload": {"$ref": "missing.yaml#/X"}}, "cannot be read"),
        ({"payload": {"type": "strange"}}, "cannot be used"),
        ({"payload": ["a"]}, "cannot be used"),
        ({"payload": {"$ref": "#/components/schemas/Self"}}, "nothing but itself"),
        (
            {"payload": {"type": "record"}, "schemaFormat": "application/vnd.apache.avro;version=1.9.0"},
            "avro",
        ),
        ({"payload": {"schemaFormat": "application/vnd.apache.avro", "schema": {"type": "record"}}}, "avro"),
    ],
)
async def test_a_payload_that_cannot_be_used_lets_all_pass_with_a_note(
    workspace: Workspace, message: dict[str, Any], said: str
) -> None:
    circle = {"Self": {"allOf": [{"$ref": "#/components/schemas/Self"}]}}
    workspace.write("events/a.json", document(message=message, components={"schemas": circle}))
    tools = await tools_of(workspace)
    assert tools["emit"].input_schema == {"type": "object"}
    assert len([line for line in workspace.notes if said in line]) == 1, workspace.notes


async def test_the_dialect_of_draft_7_keeps_its_meaning(workspace: Workspace) -> None:
    payload = {
        "type": "object",
        "properties": {
            "pair": {
                "type": "array",
                "items": [{"type": "integer"}, {"type": "string"}],
                "additionalItems": False,
            }
        },
        "dependencies": {"a": ["b"]},
    }
    workspace.write("events/a.json", document(payload=payload))
    async with workspace.open() as app:
        assert not (await app.call("emit", pair=[1, "x"])).is_error
        for wrong in ({"pair": ["x"]}, {"pair": [1, "x", 2]}, {"a": 1}):
            with pytest.raises(InvalidArgumentsError):
                await app.call("emit", wrong)


async def test_parameters_of_the_channel_are_arguments(workspace: Workspace) -> None:
    content = document(address="orders/{region}/{kind}/{id}/{user}", payload=SCHEMA)
    content["channels"]["c"]["parameters"] = {
        "region": {"enum": ["eu", "us"], "default": "eu", "description": "Where."},
        "user": {"location": "$message.payload#/by/name"},
    }
    workspace.write("events/a.json", content)
    async with workspace.open() as app:
        schema = (await app.show("emit")).input_schema
        assert schema["properties"]["region"] == {
            "type": "string", "enum": ["eu", "us"], "default": "eu", "description": "Where."
        }  # fmt: skip
        # `id` is taken by the payload, and `user` is in it.
        assert schema["required"] == ["id", "kind", "channel_id"]
        heard = app.events()
        arguments = {"id": 7, "kind": "book", "channel_id": "x", "by": {"name": "ann"}}
        await app.call("emit", arguments)
        event = await anext(heard)
        assert event.channel == "orders/eu/book/x/ann"
        assert event.data == {"id": 7, "by": {"name": "ann"}}
        with pytest.raises(InvalidArgumentsError, match="'user' is missing"):
            await app.call("emit", {**arguments, "by": {}})


async def test_parameters_stand_beside_a_payload_that_cannot_take_them_in(workspace: Workspace) -> None:
    payload = {"type": "object", "allOf": [SCHEMA], "unevaluatedProperties": False}
    workspace.write("events/a.json", document(address="orders/{region}", payload=payload))
    async with workspace.open() as app:
        assert sorted((await app.show("emit")).input_schema["properties"]) == ["payload", "region"]
        heard = app.events()
        await app.call("emit", payload={"id": 1}, region="eu")
        assert (await anext(heard)).data == {"id": 1}


async def test_traits_are_merged(workspace: Workspace) -> None:
    content = document()
    content["operations"]["emit"]["traits"] = [{"summary": "From a trait.", "x-agent-tool": {"name": "no"}}]
    content["channels"]["c"]["messages"]["Placed"]["traits"] = [{"contentType": "application/x+json"}]
    workspace.write("events/a.json", content)
    async with workspace.open() as app:
        assert (await app.show("emit")).description == "From a trait."
        heard = app.events()
        await app.call("emit")
        assert (await anext(heard)).content_type == "application/x+json"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: 1\nb: }", "line 2"),
        ("{", "this is not JSON"),
        ("", "it holds no object"),
        ("<!DOCTYPE html><html>", "not an AsyncAPI document"),
        ("asyncapi: 1.2.0", "AsyncAPI 1.2.0 is not known"),
        ("asyncapy: 3.0.0", "`asyncapy` should be `asyncapi`"),
        ("channels: {}", "does not say which version"),
        ("a: &a [*a]\nasyncapi: 3.0.0", "refers to a value that contains it"),
    ],
)
async def test_a_broken_file_is_reported_and_the_others_work(
    workspace: Workspace, content: str, said: str
) -> None:
    broken = workspace.write("events/broken.yaml", content)
    workspace.write("events/whole.json", document())
    assert sorted(await tools_of(workspace)) == ["emit", "wait"]
    [line] = workspace.notes
    assert str(broken) in line
    assert said in line


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"action": "push"}, "must be send or receive"),
        ({"channel": {"$ref": "#/channels/none"}}, "points at nothing"),
        ({"channel": {"$ref": "#/channels/dynamic"}}, "has no address"),
        ({"channel": {"$ref": "other.yaml#/x"}}, "cannot be read"),
        ({"x-agent-tool": "yes"}, "must be true or an object"),
        ({"x-agent-tool": {"enabled": True, "name": 3}}, "name must be text"),
        ({"channel": {"$ref": "#/channels/jms"}}, "not known here: jms"),
        ({"channel": {"$ref": "#/channels/password"}}, "holds a password"),
    ],
)
async def test_a_mistake_in_one_operation_costs_that_one(
    workspace: Workspace, change: dict[str, Any], said: str
) -> None:
    content = document()
    content["servers"] = {
        "memory": {"host": "", "protocol": "memory"},
        "jms": {"host": "x", "protocol": "jms"},
        "password": {"host": "me:hunter2@x", "protocol": "nats"},
    }
    content["channels"]["c"]["servers"] = [{"$ref": "#/servers/memory"}]
    content["channels"]["dynamic"] = {"address": None}
    for name in ("jms", "password"):
        content["channels"][name] = {"address": "x", "servers": [{"$ref": f"#/servers/{name}"}]}
    content["operations"]["emit"] |= change
    workspace.write("events/a.json", content)
    assert sorted(await tools_of(workspace)) == ["wait"]
    [line] = workspace.notes
    assert "operations.emit" in line
    assert said in line
    assert "hunter2" not in line


async def test_a_reference_out_of_the_workspace_is_not_followed(workspace: Workspace) -> None:
    (workspace.root.parent / "secret.yaml").write_text("X: {const: hunter2}")
    workspace.write("events/a.json", document(payload={"$ref": "../../secret.yaml#/X"}))
    tools = await tools_of(workspace)
    assert tools["emit"].input_schema == {"type": "object"}
    assert any("is outside of" in line for line in workspace.notes)


async def test_a_document_that_is_too_large_is_refused(workspace: Workspace) -> None:
    workspace.settings(max_document_size="10kB")
    workspace.write("events/a.json", document(info={"title": "x" * 20_000}))
    workspace.write("events/b.json", document(operations={}))
    assert await tools_of(workspace) == {}
    assert "is too large" in workspace.notes[0]


async def test_a_huge_document_is_read_with_its_schemas_kept_once(workspace: Workspace) -> None:
    names = [f"S{number}" for number in range(2000)]
    schemas = {
        name: {"type": "object", "properties": {"next": {"$ref": f"#/components/schemas/{names[i - 1]}"}}}
        for i, name in enumerate(names)
    }
    content = document(components={"schemas": schemas})
    content["channels"]["c"]["messages"]["Placed"]["payload"] = {"$ref": "#/components/schemas/S0"}
    content["operations"] = {
        f"emit{number}": {"action": "send", "channel": {"$ref": "#/channels/c"}, "x-agent-tool": True}
        for number in range(50)
    }
    workspace.write("events/a.json", content)
    async with workspace.open() as app:
        await app.sync()
        assert len(await app.tools()) == 50
        assert not (await app.call("emit7", next={"next": {}})).is_error


async def test_an_edit_is_picked_up_without_a_restart(workspace: Workspace) -> None:
    path = workspace.write("events/a.json", document())
    async with workspace.open() as app:
        await app.call("emit", any=1)
        content = document(payload=SCHEMA)
        content["operations"]["renamed"] = content["operations"].pop("wait")
        path.write_text(json.dumps(content))
        os.utime(path, ns=(1, 1))
        with pytest.raises(InvalidArgumentsError):
            await app.call("emit", any=1)
        assert {item.name for item in await app.tools()} == {"emit", "renamed"}


async def test_two_tools_of_one_name_are_an_error_that_names_both_places(workspace: Workspace) -> None:
    workspace.write("events/a.json", document())
    workspace.write("events/b.json", document())
    async with workspace.open() as app:
        [report] = await app.sync()
    assert report.error is not None
    assert "a.json: operations.emit" in report.error["message"]
    assert "b.json: operations.emit" in report.error["message"]


async def test_a_source_may_be_one_file_with_a_name_of_its_own(workspace: Workspace) -> None:
    workspace.write("shop.yaml", json.dumps(document()))
    workspace.write("spindle.toml", '[sources.shop]\nkind = "events"\npath = "shop.yaml"\n')
    assert sorted(await tools_of(workspace)) == ["shop.emit", "shop.wait"]


async def test_a_file_that_is_not_there_is_an_error(workspace: Workspace) -> None:
    workspace.write("spindle.toml", '[sources.shop]\nkind = "events"\npath = "none.yaml"\n')
    async with workspace.open() as app:
        [report] = await app.sync()
    assert "there is no file" in str(report.error)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "give one of `path`"),
        ('path = "a"\nurl = "http://x"', "give one of `path`"),
        ('url = "ftp://x"', "must begin with http"),
        ('path = "a"\nlisten = "8787"', "a host and a port"),
        ('path = "a"\nenvelope = "none"', "envelope"),
    ],
)
async def test_settings_that_are_wrong_are_named(workspace: Workspace, settings: str, said: str) -> None:
    workspace.write("spindle.toml", f'[sources.shop]\nkind = "events"\n{settings}\n')
    async with workspace.open() as app:
        with pytest.raises(ConfigurationError) as caught:
            await app.sync()
    assert "sources.shop" in str(caught.value)
    assert said in str(caught.value)


async def test_a_server_that_is_not_there_is_suggested(workspace: Workspace) -> None:
    workspace.settings(server="mian")
    workspace.write("events/a.json", document(server={"host": "x", "protocol": "nats"}))
    assert await tools_of(workspace) == {}
    assert all("did you mean 'main'?" in line for line in workspace.notes)


async def test_variables_of_a_server_come_from_document_settings_and_environment(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = {
        "host": "${EVENTS_HOST}:{port}", "protocol": "nats", "variables": {"port": {"default": "1"}}
    }  # fmt: skip
    workspace.settings(retry={"attempts": 1})
    workspace.write("events/a.json", document(address="orders", server=server))
    async with workspace.open() as app:
        with pytest.raises(
            ConfigurationError, match="EVENTS_HOST is not set, but the address of server main"
        ):
            await app.call("emit")
        monkeypatch.setenv("EVENTS_HOST", "")
        with pytest.raises(ConfigurationError, match="EVENTS_HOST is empty, but the address of server main"):
            await app.call("emit")
        monkeypatch.setenv("EVENTS_HOST", "127.0.0.1")
        with pytest.raises(SpindleError, match=r"nats://127\.0\.0\.1:1\)"):
            await app.call("emit")


async def test_a_variable_without_a_value_says_where_to_put_it(workspace: Workspace) -> None:
    workspace.write("events/a.json", document(server={"host": "{region}.x", "protocol": "nats"}))
    async with workspace.open() as app:
        with pytest.raises(ConfigurationError) as caught:
            await app.call("emit")
    assert caught.value.hint == "set sources.events.servers.main.variables.region"


def test_an_id_is_written_where_it_is_looked_for() -> None:
    """In a pointer, `~1` stands for a slash in a name."""
    location = "$message.payload#/meta~1data/the%20id"
    metadata = {"reply": {"address": "answers"}, "messages": [{"correlation": location}]}
    tool = Tool("events.ask", "events", "events", ToolSpec("ask", metadata=metadata), "")
    question = asked(tool, Outgoing(Event(data={"meta/data": {"x": 1}}, id="7")), "unique")
    assert question.message.event.data == {"meta/data": {"x": 1, "the id": "7"}}
