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
        node(extension.AgentPrompter(), message="Go.", model="x:y").configure(knext.ConfigurationContext())


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
    sales = knext.Table.from_pyarrow(pa.table({"who": ["Wilhelmina"], "at": days}), row_ids="generate")
    context = knext.ExecutionContext({"openai": "k3y"}, execute_tool=execute)
    async with HttpServer() as server:
        say = ToolRow.remote("say", server_uri=server.url, remote_name="echo")
        far = ToolRow.remote("far", source={"kind": "mcp", "settings": {"command": ["x"]}})
        given = table_of(extension, knext, say, workflow, far)
        ready = prompter(extension, ids="more, sales", errors=True)
        schemas = ready.configure(context)
        outputs = await asyncio.to_thread(ready.execute, context, given, None, None, sales, None)
        assert server.calls("echo") == 1
    messages, made, nothing = (output.to_pyarrow() for output in outputs)
    assert len(schemas) == len(outputs) == len(extension.AgentPrompter.output_ports)
    assert messages.column_names == ["<RowID>", *schemas[0].column_names]
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


async def test_a_canceled_node_stops(extension: Any, knext: Any, model: ModelServer) -> None:
    async with HttpServer() as server:
        given = table_of(extension, knext, ToolRow.remote("say", server_uri=server.url, remote_name="echo"))
        context = knext.ExecutionContext({"openai": "k3y"}, cancel_when=lambda: True)
        with pytest.raises(extension.tool_calls.CanceledError):
            await asyncio.to_thread(prompter(extension).execute, context, given, None, None, None, None)
    assert model.requests == []


async def test_a_conversation_goes_on_with_the_roles_of_knime(
    extension: Any, knext: Any, model: ModelServer
) -> None:
    model.feed("Hello.", "Still here.")
    context = knext.ExecutionContext({"openai": "k3y"})
    given = table_of(extension, knext, READ.__class__.remote("say", server_uri="http://127.0.0.1:9/mcp"))
    ready = prompter(extension, knime_roles=True, errors=True)
    first, *_ = await asyncio.to_thread(ready.execute, context, given, None, None, None, None)
    assert first.to_pyarrow()["role"].to_pylist() == ["human", "ai"]
    second, *_ = await asyncio.to_thread(ready.execute, context, given, first, None, None, None)
    assert second.to_pyarrow()["content"].to_pylist() == ["Go.", "Hello.", "Go.", "Still here."]


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
