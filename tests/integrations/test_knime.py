"""The nodes for KNIME: what they do, without KNIME; the node itself where KNIME's library is there."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
import yaml

from servers.http_server import HttpServer
from spindle.errors import AuthError, SpindleError, TableError
from spindle.tables import ToolColumnType, ToolRow, tool_provider
from spindle.testing import ModelServer, ToolCall, Turn
from tables.tool_rows import READ, REPORT, SEARCH

FOLDER = Path(__file__).parent.parent.parent / "integrations" / "knime"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"knime_{name}", FOLDER / "src" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tools = load("tools")


def no_password(name: str) -> str:
    raise KeyError(name)


async def provided(*given: Any, **options: Any) -> pa.Table:
    settings = {"password_of": no_password, "note": pytest.fail, **options}
    return await asyncio.to_thread(tools.provide, *given, **settings)


async def test_the_tools_of_a_server_have_a_column_for_each_field() -> None:
    async with HttpServer() as server:
        table = await provided(server.url, prefix="far")
        assert table.schema.types == list(tools.COLUMNS.values())
        assert "far.echo" in table["name"].to_pylist()
        assert set(table["server_uri"].to_pylist()) == {server.url}
        whole = (await asyncio.to_thread(tool_provider, server.url, name="far"))["tool"].to_pylist()
    assert tools.rows_of(table) == whole


async def test_the_column_of_tools_has_no_bytes_in_its_struct() -> None:
    async with HttpServer() as server:
        table = await provided(server.url, as_tools=True)
    assert table["tool"].type == ToolColumnType(pa.int32())
    assert table["tool"].to_pylist()[0].remote_name


async def test_the_password_of_the_chosen_credentials_is_the_token_and_stays_out_of_the_table() -> None:
    async with HttpServer() as server:
        options = {"credential_name": "vault", "password_of": {"vault": "t0ken-of-knime"}.__getitem__}
        table = await provided(server.url, **options)
        assert {seen.headers.get("authorization") for seen in server.seen} == {"Bearer t0ken-of-knime"}
    (row, *_) = tools.rows_of(table)
    assert row.credential == {"type": "given", "name": "vault"}
    assert "t0ken" not in str(table.to_pydict())


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
    return await asyncio.to_thread(tools.prompt, *given, **settings)


@pytest.mark.parametrize("as_tools", [False, True])
async def test_a_model_works_with_what_the_provider_gave(model: ModelServer, as_tools: bool) -> None:
    passwords = {"openai": "k3y", "vault": "t0ken-of-knime"}
    model.feed(Turn(calls=[ToolCall("far_echo", {"text": "hi"})]), "It said hi.", "Yes.")
    async with HttpServer() as server:
        options: dict[str, Any] = {"password_of": passwords.__getitem__}
        table = await provided(
            server.url, prefix="far", credential_name="vault", as_tools=as_tools, **options
        )
        data = pa.table({"who": ["Wilhelmina"]})
        said = await prompted(table, "Say hi.", data=data, data_id="people", **options)
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
    assert {"pip": ["spindle-tools[agent,table]"]} in environment["dependencies"]


def test_the_node_only_hands_over() -> None:
    tree = ast.parse((FOLDER / "src" / "extension.py").read_text())
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert {name for name in called if name.startswith("tools.")} == {"tools.provide", "tools.prompt"}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if (name := ast.unparse(call.func)).startswith("tools."):
            taken = inspect.signature(getattr(tools, name.removeprefix("tools.")))
            taken.bind(*call.args, **{str(word.arg): word.value for word in call.keywords})
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While | ast.Try)]
    icons = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and str(node.value).endswith(".png")
    }
    assert all((FOLDER / icon).is_file() for icon in icons)


def test_the_node_runs_where_knime_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("knime.extension", reason="knime.extension is part of KNIME and not on PyPI")
    monkeypatch.setitem(sys.modules, "tools", tools)
    extension = load("extension")
    assert extension.McpToolProvider().strict is False
    assert extension.AgentPrompter().trusted is False
