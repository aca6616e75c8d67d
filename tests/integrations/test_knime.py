"""What the nodes for KNIME do, without KNIME. The nodes themselves are in test_knime_nodes."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
import yaml

from servers.http_server import HttpServer
from spindle.errors import AuthError, SpindleError, TableError
from spindle.tables import ToolRow, tool_provider
from spindle.testing import Gate, ModelServer, ToolCall, Turn
from tables.tool_rows import READ, REPORT, SEARCH

FOLDER = Path(__file__).parent.parent.parent / "integrations" / "knime"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"knime_{name}", FOLDER / "src" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tools = load("tool_calls")


def no_password(name: str) -> str:
    raise KeyError(name)


async def provided(*given: Any, **options: Any) -> pa.Table:
    settings = {"password_of": no_password, "note": pytest.fail, **options}
    return await asyncio.to_thread(tools.provide, *given, **settings)


async def test_the_tools_of_a_server_have_a_column_for_each_field() -> None:
    async with HttpServer() as server:
        table = tools.as_columns((await provided(server.url, prefix="far"))["tool"].to_pylist())
        assert table.schema.types == list(tools.COLUMNS.values())
        assert "far.echo" in table["name"].to_pylist()
        assert set(table["server_uri"].to_pylist()) == {server.url}
        whole = (await asyncio.to_thread(tool_provider, server.url, name="far"))["tool"].to_pylist()
    assert tools.rows_of(table) == whole


async def test_the_password_of_the_chosen_credentials_is_the_token_and_stays_out_of_the_table() -> None:
    async with HttpServer() as server:
        options = {"credential_name": "vault", "password_of": {"vault": "t0ken-of-knime"}.__getitem__}
        table = await provided(server.url, **options)
        assert {seen.headers.get("authorization") for seen in server.seen} == {"Bearer t0ken-of-knime"}
    (row, *_) = table["tool"].to_pylist()
    assert row.credential == {"type": "given", "name": "vault"}
    assert "t0ken" not in str(table["tool"].combine_chunks().storage.to_pylist())


@pytest.mark.parametrize("password_of", [no_password, lambda _: "", lambda _: None, lambda _: " "])
async def test_chosen_credentials_that_cannot_be_used_fail_before_anything_is_sent(password_of: Any) -> None:
    async with HttpServer() as server:
        with pytest.raises(AuthError):
            await provided(server.url, credential_name="vault", password_of=password_of)
        assert server.seen == []


async def test_what_strict_leaves_out_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    async with HttpServer() as server:
        listing = {"type": "object", "properties": {"many": {"type": "array"}}}
        server.tools = [{"name": name, "inputSchema": listing} for name in ("one", "two")]
        table = await provided(server.url, strict=True, note=warnings.append)
    assert table.num_rows == 2
    assert len(warnings) == 1
    assert warnings[0].splitlines() == [
        "one: without its optional many (array)",
        "two: without its optional many (array)",
    ]


def test_plain_columns_lose_nothing() -> None:
    table = tools.as_columns([READ, None, REPORT, SEARCH])
    assert table.num_rows == 4
    assert tools.rows_of(table) == [READ, REPORT, SEARCH]
    assert tools.rows_of(table.slice(2, 1).append_column("more", pa.array([1]))) == [REPORT]


# --- the prompter


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPENAI_API_KEY", "of-the-environment")
        yield server


async def prompted(*given: Any, **options: Any) -> pa.Table:
    settings = {"model": "openai-chat:any", "key_name": "openai", "note": pytest.fail, **options}
    said, _made = await asyncio.to_thread(tools.prompt, *given, **settings)
    return said


@pytest.mark.parametrize("as_tools", [False, True])
async def test_a_model_works_with_what_the_provider_gave(model: ModelServer, as_tools: bool) -> None:
    passwords = {"openai": "k3y", "vault": "t0ken-of-knime"}
    model.feed(Turn(calls=[ToolCall("far_echo", {"text": "hi"})]), "It said hi.", "Yes.")
    async with HttpServer() as server:
        options: dict[str, Any] = {"password_of": passwords.__getitem__}
        table = await provided(server.url, prefix="far", credential_name="vault", **options)
        if not as_tools:
            table = tools.as_columns(table["tool"].to_pylist())
        data = pa.table({"who": ["Wilhelmina"]})
        said = await prompted(table, "Say hi.", data={"people": data}, **options)
        more = await prompted(table, "Sure?", history=said, **options)
        assert server.calls("echo") == 1
        assert {seen.headers.get("authorization") for seen in server.seen} == {"Bearer t0ken-of-knime"}
    assert said["role"].to_pylist() == ["user", "assistant", "tool", "assistant"]
    assert more["content"].to_pylist()[-3:] == ["It said hi.", "Sure?", "Yes."]
    sent = str([request.body for request in model.requests])
    assert "- people: who (string)" in model.requests[0].instructions
    assert not [secret for secret in ("Wilhelmina", "t0ken", "k3y") if secret in sent]


@pytest.mark.parametrize("missing", ["openai", "vault"])
@pytest.mark.parametrize("password", [None, "", " "])
async def test_without_its_credentials_neither_model_nor_server_is_asked(
    model: ModelServer, missing: str, password: str | None
) -> None:
    passwords = {"openai": "k3y", "vault": "t0ken"} | {missing: password}
    async with HttpServer() as server:
        row = ToolRow.remote("echo", server_uri=server.url, credential={"type": "given", "name": "vault"})
        with pytest.raises(SpindleError):
            await prompted(tools.as_columns([row]), "Go.", password_of=passwords.__getitem__)
        with pytest.raises(AuthError, match="cannot be read"):
            await prompted(tools.as_columns([row]), "Go.", password_of=no_password)
        assert (server.seen, model.requests) == ([], [])


async def test_a_table_without_tools_is_told(model: ModelServer) -> None:
    with pytest.raises(TableError, match="no column of the table holds tools") as caught:
        await prompted(pa.table({"name": ["a"]}), "Go.", password_of=lambda _: "k3y")
    assert "these are missing: kind, description" in (caught.value.hint or "")


def test_the_extension_describes_itself_as_knime_asks() -> None:
    described = yaml.safe_load((FOLDER / "knime.yml").read_text())
    wanted = {
        "name",
        "author",
        "vendor",
        "group_id",
        "version",
        "license_file",
        "env_yml_path",
        "extension_module",
    }
    assert wanted <= set(described)
    assert (FOLDER / described["license_file"]).read_text() == (FOLDER.parent.parent / "LICENSE").read_text()
    assert (FOLDER / f"{described['extension_module']}.py").is_file()
    environment = yaml.safe_load((FOLDER / described["env_yml_path"]).read_text())
    (named,) = environment["dependencies"][-1]["pip"]
    folder, _, extras = named.partition("[")
    package = tomllib.loads((FOLDER / folder / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(extras.rstrip("]").split(",")) <= set(package["optional-dependencies"])


def test_the_node_only_hands_over() -> None:
    tree = ast.parse((FOLDER / "src" / "extension.py").read_text())
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert {name for name in called if name.startswith("tool_calls.")} == {
        "tool_calls.provide",
        "tool_calls.prompt",
        "tool_calls.as_columns",
        "tool_calls.named",
        "tool_calls.newest",
        "tool_calls.without_row_ids",
    }
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if (name := ast.unparse(call.func)).startswith("tool_calls."):
            taken = inspect.signature(getattr(tools, name.removeprefix("tool_calls.")))
            taken.bind(*call.args, **{str(word.arg): word.value for word in call.keywords})
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While | ast.Try)]
    icons = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and str(node.value).endswith(".png")
    }
    assert all((FOLDER / icon).is_file() for icon in icons)


# --- tables of KNIME


def test_row_ids_are_of_knime_and_no_data() -> None:
    table = pa.table({"<RowID>": ["Row0"], "n": [1]})
    assert tools.without_row_ids(table).column_names == ["n"]
    assert tools.without_row_ids(table.select(["n"])).column_names == ["n"]


def test_a_row_of_plain_columns_that_is_no_tool_is_told() -> None:
    table = tools.as_columns([READ])
    broken = table.set_column(0, "kind", pa.array(["nonsense"]))
    with pytest.raises(TableError, match="row 0 is no tool: kind: "):
        tools.rows_in(broken)
    broken = table.set_column(3, "parameters", pa.array(["{"]))
    with pytest.raises(TableError, match="row 0 is no tool"):
        tools.rows_in(broken)


@pytest.mark.parametrize("key_name", ["openai", "missing"])
async def test_what_goes_wrong_can_be_a_column(model: ModelServer, key_name: str) -> None:
    row = ToolRow.workflow("forecast")
    said = await prompted(
        tools.as_columns([row]),
        "Go.",
        password_of={"openai": "k3y"}.__getitem__,
        key_name=key_name,
        errors=True,
    )
    (message,) = said.to_pylist()
    assert (message["role"], message["content"]) == ("user", "Go.")
    expected = "workflow of other software" if key_name == "openai" else "cannot be read"
    assert expected in message["error"]
    assert model.requests == []


@pytest.mark.parametrize(
    ("history", "told"),
    [
        (pa.table({"said": ["x"]}), "the history has no column 'content', and none of KNIME's type"),
        (pa.table({"role": ["robot"], "content": ["x"]}), "the role 'robot', which is not known"),
    ],
)
async def test_a_history_that_cannot_be_read_is_told(
    model: ModelServer, history: pa.Table, told: str
) -> None:
    rows = tools.as_columns([ToolRow.remote("say", server_uri="http://127.0.0.1:9/mcp")])
    options: dict[str, Any] = {"history": history, "password_of": lambda _: "k3y"}
    with pytest.raises(TableError, match=told):
        await prompted(rows, "Go.", **options)
    (message,) = (await prompted(rows, "Go.", errors=True, **options)).to_pylist()
    assert told in message["error"]
    assert (message["content"], model.requests) == ("Go.", [])


async def test_at_the_limit_there_is_an_answer(model: ModelServer) -> None:
    model.feed(
        Turn(calls=[ToolCall("say", {"text": "1"})]),
        Turn(calls=[ToolCall("say", {"text": "2"})]),
        "As far as I got.",
    )
    notes: list[str] = []
    async with HttpServer() as server:
        row = ToolRow.remote("say", server_uri=server.url, remote_name="echo")
        said = await prompted(
            tools.as_columns([row]), "Go.", steps=2, password_of=lambda _: "k3y", note=notes.append
        )
        assert server.calls("echo") == 2
    assert said["content"].to_pylist()[-1] == "As far as I got."
    assert said["role"].to_pylist()[-2:] == ["user", "assistant"]
    assert model.requests[2].tool_names == []
    assert "the limit of steps was reached" in notes[0]


async def test_a_canceled_node_asks_nothing_more(model: ModelServer) -> None:
    async with HttpServer() as server:
        rows = tools.as_columns([ToolRow.remote("say", server_uri=server.url, remote_name="echo")])
        options: dict[str, Any] = {"password_of": lambda _: "k3y"}
        with pytest.raises(tools.CanceledError):
            await prompted(rows, "Go.", is_canceled=lambda: True, **options)
        with pytest.raises(tools.CanceledError):
            await provided(server.url, is_canceled=lambda: True)
        assert (model.requests, server.seen) == ([], [])
        held = Gate()
        model.feed(Turn(calls=[ToolCall("say", {"text": "once"})]), Turn("never heard", after=held))
        with pytest.raises(tools.CanceledError):
            await prompted(rows, "Go.", is_canceled=lambda: server.calls("echo") >= 1, **options)
        held.open()
    assert len(model.requests) <= 2
