"""The nodes for KNIME over a stand-in of its library: `knime_stand_in/README.md` says what that is."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from servers.http_server import HttpServer
from spindle.errors import SpindleError
from spindle.tables import Port, ToolRow
from spindle.testing import ModelServer, ToolCall, Turn
from tables.tool_rows import READ, REPORT

FOLDER = Path(__file__).parent.parent.parent / "integrations" / "knime"
STAND_IN = Path(__file__).parent / "knime_stand_in"
MODULES = ("extension", "tool_values", "tool_calls")


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the nodes, with the stand-in in place of KNIME's library."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(STAND_IN))
    monkeypatch.syspath_prepend(str(FOLDER / "src"))
    yield importlib.import_module("extension")
    for name in {*sys.modules} - before:
        if name in MODULES or name.split(".")[0] == "knime":
            del sys.modules[name]


@pytest.fixture
def knext(extension: Any) -> Any:
    return importlib.import_module("knime.extension")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def node(made: Any, **parameters: Any) -> Any:
    for name, value in parameters.items():
        assert hasattr(type(made), name), f"it has no parameter {name}"
        setattr(made, name, value)
    return made


def prompter(extension: Any, **parameters: Any) -> Any:
    given = {"message": "Go.", "model": "openai-chat:any", "key": "openai", **parameters}
    return node(extension.AgentPrompter(), **given)


def table_of(extension: Any, knext: Any, *rows: ToolRow) -> Any:
    """A column of tools as KNIME would hand it over."""
    column = extension.tool_values.tool_column(pa.chunked_array([extension_array(rows)]))
    return knext.Table.from_pyarrow(pa.table({"tool": column}), row_ids="generate")


def extension_array(rows: Any) -> pa.Array:
    from spindle.tables import tool_array

    return tool_array(list(rows))


# --- the value factory


def test_each_factory_of_the_plugin_is_registered(extension: Any) -> None:
    types = importlib.import_module("knime.api.types")
    (module,) = ET.parse(FOLDER / "plugin.xml").getroot().iter("Module")
    assert (FOLDER / module.attrib["modulePath"] / f"{module.attrib['moduleName']}.py").is_file()
    factories = [found.attrib for found in module.iter("PythonValueFactory")]
    assert [found["isDefaultPythonRepresentation"] for found in factories] == ["true", "false", "false"]
    for found in factories:
        logical = json.dumps({"value_factory_class": found["ValueFactory"]})
        types.register_python_value_factory(
            module.attrib["moduleName"], found["PythonClassName"], logical, "{}", "{}", found["ValueTypeName"]
        )
        made = types.get_converter(logical)
        assert isinstance(made, types.PythonValueFactory)
        row = REPORT if "Workflow" in found["PythonClassName"] else READ
        again = made.decode(made.encode(row))
        assert (again.kind, again.remote_name, again.file_store_keys) == (
            row.kind, row.remote_name, row.file_store_keys,
        )  # fmt: skip
        assert (made.encode(None), made.decode(None)) == (None, None)


def test_the_workflow_tool_of_today_is_read_and_written(extension: Any) -> None:
    properties = {"since": {"type": "string"}}
    port = {"0": "orders", "1": "", "2": "Table", "3": None}
    inner = {"0": "report", "1": "Counts.", "2": json.dumps(properties), "3": [port], "4": [], "5": -1}
    cell = {"0": "8e1f;03ab", "1": inner}
    factory = extension.tool_values.WorkflowToolValueFactory()
    row = factory.decode(cell)
    assert row.file_store_keys == ("8e1f", "03ab")
    assert row.parameters["properties"] == properties
    assert factory.encode(row) == cell


# --- MCP Tool Provider


@pytest.mark.parametrize("as_tools", [False, True])
async def test_the_provider_gives_what_it_announced(extension: Any, knext: Any, as_tools: bool) -> None:
    async with HttpServer() as server:
        provider = node(extension.McpToolProvider(), url=server.url, as_tools=as_tools)
        schema = provider.configure(knext.ConfigurationContext())
        assert server.seen == []
        made = await asyncio.to_thread(provider.execute, knext.ExecutionContext())
    table = made.to_pyarrow()
    assert table.column_names == ["<RowID>", *schema.column_names]
    if as_tools:
        (column,) = schema.columns
        assert json.loads(column.ktype.logical_type)["value_factory_class"].endswith(".ToolValueFactory")
        assert len(column.ktype.storage.inner) == 9
    assert "echo" in [row.remote_name for row in extension.tool_calls.rows_in(table)]


def test_a_node_that_lacks_something_is_not_configured(extension: Any, knext: Any) -> None:
    with pytest.raises(knext.InvalidParametersError):
        extension.McpToolProvider().configure(knext.ConfigurationContext())
    with pytest.raises(knext.InvalidParametersError):
        node(extension.AgentPrompter(), message="Go.", model="x:y").configure(
            knext.ConfigurationContext(), None, None, []
        )


# --- Agent Prompter


async def test_servers_and_workflows_of_one_column_are_called(
    extension: Any, knext: Any, model: ModelServer
) -> None:
    model.feed(
        Turn(calls=[ToolCall("say", {"text": "hi"}), ToolCall("forecast", {"orders": "sales", "months": 2})]),
        "Done.",
    )
    seen: list[Any] = []

    def execute(tool: Any, configuration: Any, inputs: Any, hints: Any) -> Any:
        seen.append((tool.name, tool._filestore_keys, configuration, [t.to_pyarrow() for t in inputs]))
        made = [knext.Table.from_pyarrow(pa.table({"n": [1]}), row_ids="generate")]
        return "It is done.", made, ["view:1"]

    workflow = ToolRow.workflow(
        "forecast", "", {"months": {"type": "integer"}}, input_ports=[Port("orders")],
        output_ports=[Port("ahead")], file_store_keys=["8e1f", "03ab"],
    )  # fmt: skip
    date = importlib.import_module("knime._arrow._types").LogicalTypeExtensionType(
        None, pa.int64(), '{"value_factory_class":"org.knime.core.data.v2.time.LocalDateValueFactory"}'
    )
    days = pa.ExtensionArray.from_storage(date, pa.array([20_000]))
    more = knext.Table.from_pyarrow(pa.table({"what": ["Tea"]}), row_ids="generate")
    sales = knext.Table.from_pyarrow(pa.table({"who": ["Wilhelmina"], "at": days}), row_ids="generate")
    context = knext.ExecutionContext({"openai": "k3y"}, execute_tool=execute)
    async with HttpServer() as server:
        say = ToolRow.remote("say", server_uri=server.url, remote_name="echo")
        far = ToolRow.remote("far", source={"kind": "mcp", "settings": {"command": ["x"]}})
        given = table_of(extension, knext, say, workflow, far)
        ready = prompter(extension, ids="more, sales", errors=True)
        (said, kept) = ready.configure(context, None, None, [None, None])
        outputs = await asyncio.to_thread(ready.execute, context, given, None, [more, sales])
        assert server.calls("echo") == 1
    messages, (made, nothing) = outputs[0].to_pyarrow(), [output.to_pyarrow() for output in outputs[1]]
    assert len(outputs) == len(extension.AgentPrompter.output_ports)
    assert kept == [None, None]
    assert messages.column_names == ["<RowID>", *said.column_names]
    assert messages["content"].to_pylist()[-1] == "Done."
    assert set(messages["error"].to_pylist()) == {None}
    assert made.drop_columns(["<RowID>"]).to_pylist() == [{"n": 1}]
    assert nothing.num_rows == 0
    ((name, keys, configuration, (table,)),) = seen
    assert (name, keys, configuration) == ("forecast", b"8e1f;03ab", {"months": 2})
    assert table.column_names == ["<RowID>", "who", "at"]
    told = model.requests[0].instructions
    assert "- sales: who (string), at (date)" in told
    assert "not available here, do not use them: far" in told
    sent = str([request.body for request in model.requests])
    assert not [word for word in ("<RowID>", "Wilhelmina", "k3y") if word in sent]
    assert ["far is left out" in warning for warning in context.warnings] == [True]
    assert context.progress
    assert all(fraction < 1 for fraction, _ in context.progress)


@pytest.mark.parametrize(
    ("factory", "word"),
    [
        ("time.LocalDateValueFactory", "date"),
        ("time.LocalTimeValueFactory", "time of day"),
        ("time.LocalDateTimeValueFactory", "date and time"),
        ("time.ZonedDateTimeValueFactory2", "date and time with a zone"),
        ("time.DurationValueFactory", "duration"),
        ("time.PeriodValueFactory", "duration in days"),
        ("value.DenseBitVectorValueFactory", "dense bit vector"),
    ],
)
def test_knimes_types_have_words_that_a_model_knows(extension: Any, factory: str, word: str) -> None:
    logical = json.dumps({"value_factory_class": f"org.knime.core.data.v2.{factory}"})
    kind = importlib.import_module("knime._arrow._types").LogicalTypeExtensionType(None, pa.int64(), logical)
    days = pa.ExtensionArray.from_storage(kind, pa.array([20_000]))
    table = extension.tool_calls.with_type_words(pa.table({"at": days}))
    assert table.schema.field("at").metadata[b"spindle.type"] == word.encode()
    assert table.schema.field("at").type == kind


async def test_a_canceled_node_stops(extension: Any, knext: Any, model: ModelServer) -> None:
    async with HttpServer() as server:
        given = table_of(extension, knext, ToolRow.remote("say", server_uri=server.url, remote_name="echo"))
        context = knext.ExecutionContext({"openai": "k3y"}, cancel_when=lambda: True)
        with pytest.raises(extension.tool_calls.CanceledError):
            await asyncio.to_thread(prompter(extension).execute, context, given, None, [])
    assert model.requests == []


async def test_a_conversation_goes_on_with_the_roles_of_knime(
    extension: Any, knext: Any, model: ModelServer
) -> None:
    model.feed("Hello.", "Still here.")
    context = knext.ExecutionContext({"openai": "k3y"})
    given = table_of(extension, knext, READ.__class__.remote("say", server_uri="http://127.0.0.1:9/mcp"))
    ready = prompter(extension, knime_roles=True, errors=True)
    first, *_ = await asyncio.to_thread(ready.execute, context, given, None, [])
    assert first.to_pyarrow()["role"].to_pylist() == ["human", "ai"]
    second, *_ = await asyncio.to_thread(ready.execute, context, given, first, [])
    assert second.to_pyarrow()["content"].to_pylist() == ["Go.", "Hello.", "Go.", "Still here."]


def messages_of(knext: Any, cells: list[Any]) -> Any:
    """A column of messages as KNIME's own nodes give it."""
    parts = pa.large_list(pa.struct([("0", pa.string()), ("1", pa.large_binary())]))
    calls = pa.large_list(pa.struct([(name, pa.string()) for name in "012"]))
    fields = [("0", pa.string()), ("1", parts), ("2", calls), ("3", pa.string()), ("4", pa.string())]
    logical = importlib.import_module("knime._arrow._types").LogicalTypeExtensionType(
        None,
        pa.struct(fields),
        '{"value_factory_class":"org.knime.ai.core.data.message.MessageValueFactory"}',
    )
    column = pa.ExtensionArray.from_storage(logical, pa.array(cells, pa.struct(fields)))
    return knext.Table.from_pyarrow(pa.table({"talk": column}), row_ids="generate")


async def test_messages_of_knimes_own_type_are_read_and_written(
    extension: Any, knext: Any, model: ModelServer
) -> None:
    def said(kind: str, words: str, **more: Any) -> dict[str, Any]:
        parts = [{"0": "text", "1": words.encode()}]
        return {"0": kind, "1": parts, "2": None, "3": None, "4": None} | more

    before = [
        said("USER", "Say hi."),
        said("AI", "I do.", **{"2": [{"0": "c1", "1": "say", "2": '{"text":"hi"}'}]}),
        said("TOOL", "hi", **{"3": "c1", "4": "say"}),
        said("AI", "It said hi."),
    ]
    model.feed(Turn(calls=[ToolCall("say", {"text": "ho"})]), "Done.", "Still here.")
    context = knext.ExecutionContext({"openai": "k3y"}, output_ports=[1, 0])
    ready = prompter(extension, as_values=True, errors=True)
    schema, nothing = ready.configure(context, None, None, [])
    assert nothing == []
    async with HttpServer() as server:
        given = table_of(extension, knext, ToolRow.remote("say", server_uri=server.url, remote_name="echo"))
        history = messages_of(knext, before)
        first = await asyncio.to_thread(ready.execute, context, given, history, [])
        second = await asyncio.to_thread(ready.execute, context, given, first, [])
        assert server.calls("echo") == 1
    table = first.to_pyarrow()
    assert table.column_names == ["<RowID>", *schema.column_names] == ["<RowID>", "Conversation", "error"]
    announced = schema.columns[0].ktype
    assert json.loads(announced.logical_type) == json.loads(table["Conversation"].type._logical_type)
    assert len(announced.storage.inner) == table["Conversation"].type.storage_type.num_fields == 5
    cells = table["Conversation"].combine_chunks().storage.to_pylist()
    assert cells[:5] == [*before, said("USER", "Go.")]
    (call,) = cells[5]["2"]
    assert (call["1"], json.loads(call["2"])) == ("say", {"text": "ho"})
    assert (cells[6]["0"], cells[6]["3"], cells[6]["4"]) == ("TOOL", call["0"], "say")
    assert cells[7] == said("AI", "Done.")
    more = second.to_pyarrow()["Conversation"].combine_chunks().storage.to_pylist()
    assert more == [*cells, said("USER", "Go."), said("AI", "Still here.")]
    last = [message["role"] for message in model.requests[-1].body["messages"] if message["role"] != "system"]
    assert last == ["user", "assistant", "tool", "assistant"] * 2 + ["user"]


@pytest.mark.parametrize("ports", [0, 1, 4])
async def test_there_are_as_many_tables_as_ports_were_added(
    extension: Any, knext: Any, model: ModelServer, ports: int
) -> None:
    calls = [
        ToolCall("forecast", {"orders": name}) for name in ("first", "data_2", "third", "data_4", "data_5")
    ]
    model.feed(*[Turn(calls=[call]) for call in calls], "Done.")

    def execute(tool: Any, configuration: Any, inputs: Any, hints: Any) -> Any:
        (table,) = inputs
        made = pa.table({"was": table.to_pyarrow()["n"]})
        return "", [knext.Table.from_pyarrow(made, row_ids="generate")], []

    row = ToolRow.workflow("forecast", input_ports=[Port("orders")], output_ports=[Port("ahead")])
    given = table_of(extension, knext, row)
    data = [knext.Table.from_pyarrow(pa.table({"n": [n]}), row_ids="generate") for n in range(5)]
    context = knext.ExecutionContext({"openai": "k3y"}, execute_tool=execute, output_ports=[1, ports])
    ready = prompter(extension, ids="first, , third")
    _schema, announced = ready.configure(context, None, None, [None] * 5)
    outputs = await asyncio.to_thread(ready.execute, context, given, None, data)
    told = model.requests[0].instructions
    for name in ("first", "data_2", "third", "data_4", "data_5"):
        assert f"- {name}: n (int" in told
    assert len(announced) == ports
    if ports:
        _messages, made = outputs
        found = [table.to_pyarrow()["was"].to_pylist() for table in made]
        assert found == [[n] for n in range(5)][-ports:]
    else:
        assert outputs.to_pyarrow().num_rows == 12


async def test_two_tables_of_one_id_are_refused(extension: Any, knext: Any, model: ModelServer) -> None:
    data = [knext.Table.from_pyarrow(pa.table({"n": [n]}), row_ids="generate") for n in range(2)]
    given = table_of(extension, knext, READ)
    ready = prompter(extension, ids="data_2")
    with pytest.raises(SpindleError, match="two tables have the id 'data_2'"):
        ready.execute(knext.ExecutionContext({"openai": "k3y"}), given, None, data)
    assert model.requests == []


def test_the_stand_in_refuses_what_knime_refuses(extension: Any, knext: Any) -> None:
    from spindle.tables import tool_table

    with pytest.raises(TypeError, match="is not supported in KNIME Python"):
        knext.Table.from_pyarrow(tool_table([READ]))
    narrow = pa.table({"tool": extension_array([READ]).storage})
    with pytest.raises(TypeError, match="int8"):
        knext.Table.from_pyarrow(narrow).to_pyarrow()
    types = importlib.import_module("knime.api.types")
    with pytest.raises(TypeError, match=r"must be of type knime\.api\.types\.PythonValueFactory"):
        types.register_python_value_factory("spindle.tables", "ToolValueFactory", "{}", "{}", "{}", "x")
