"""The nodes for KNIME: what they do, without KNIME; the node itself where KNIME's library is there."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
import yaml

from servers.http_server import HttpServer
from spindle.errors import AuthError
from spindle.tables import ToolType, tool_provider
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
    assert table["tool"].type == ToolType(pa.int32())
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
    assert {"pip": ["spindle[table]"]} in environment["dependencies"]


def test_the_node_only_hands_over() -> None:
    tree = ast.parse((FOLDER / "src" / "extension.py").read_text())
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert "tools.provide" in called
    assert {name for name in called if name.startswith("tools.")} == {"tools.provide"}
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
    assert load("extension").McpToolProvider().strict is False
