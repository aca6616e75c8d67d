"""Tables of real servers' tools: what a row holds, what it never holds, and calling by the row alone."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from servers import warm
from servers.http_server import HttpServer
from servers.running import StdioServers, program
from servers.serving import serve_command
from spindle import Credential, bearer
from spindle.domain.source import BearerAuth
from spindle.errors import (
    AuthError,
    ConfigurationError,
    ConnectionFailedError,
    NotFoundError,
    PermissionDeniedError,
    SpindleError,
)
from spindle.sources.mcp.config import McpConfig
from spindle.tables import (
    Port,
    ToolColumnType,
    ToolKind,
    ToolRow,
    concat_tables,
    open_rows,
    read_table,
    tool_provider,
    tool_table,
    write_table,
)
from spindle.tables.rows import Hidden, credential_of, source_of

TOKEN = "t0ken-of-the-served"


def rows_of(table: Any) -> dict[str, ToolRow]:
    return {row.name: row for row in table["tool"].to_pylist()}


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[str]:
    """A real MCP server that demands a token."""
    folder = tmp_path / "served"
    (folder / "tools").mkdir(parents=True)
    (folder / "spindle.toml").write_text(f'[serve]\nauth_token = "{TOKEN}"\n')
    (folder / "tools" / "t.py").write_text(
        "from spindle import tool\n\n\n@tool(read_only=True)\ndef double(n: int) -> int:\n"
        f'    """Doubles. Written beside {TOKEN}, by mistake."""\n    return 2 * n\n'
    )
    async with serve_command(folder) as (url, _):
        yield url


async def provided(*given: Any, **options: Any) -> Any:
    """From a thread, so that servers of this process can answer."""
    return await asyncio.to_thread(tool_provider, *given, **options)


# --- real servers


@pytest.mark.npm
async def test_tables_of_real_servers_and_workflows_are_one_column_that_another_process_can_call(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "note.txt").write_text("zażółć")
    files = tool_provider({"command": [program("mcp-server-filesystem"), str(shared)]}, name="fs")
    everything = tool_provider({"command": [program("mcp-server-everything")]})
    flows = [
        ToolRow.workflow("count", output_ports=[Port("message")], message_output_port=0),
        ToolRow.workflow("plot"),
    ]
    joined = concat_tables([files, everything, tool_table(flows), tool_table([None])])
    assert joined.schema.field("tool").type == ToolColumnType()
    file = tmp_path / "tools.parquet"
    write_table(joined, file)

    found = {row.name: row for row in read_table(file)["tool"].to_pylist() if row is not None}
    assert {row.kind for row in found.values()} == {ToolKind.MCP, ToolKind.WORKFLOW}
    read = found["fs.read_text_file"]
    assert (read.remote_name, read.server_uri) == ("read_text_file", None)
    assert read.hints.read_only is True
    assert read.parameters["properties"]["head"]["description"]
    assert read.output_schema is not None
    assert "echo" in found

    script = """
import asyncio, json, sys
from spindle.tables import open_rows, read_table

async def main():
    rows = read_table(sys.argv[1])["tool"].to_pylist()
    named = {row.name: row for row in rows if row}
    remote = [row for row in rows if row and row.kind]
    async with open_rows(remote, trusted=True) as opened:
        read = await opened.call(named["fs.read_text_file"], {"path": sys.argv[2]})
        echo = await opened.call(named["echo"], {"message": "hi"})
    print(json.dumps([read.text, echo.text]))

asyncio.run(main())
"""
    done = subprocess.run(
        [warm.PYTHON, "-W", "error", "-c", script, str(file), str(shared / "note.txt")],
        capture_output=True, text=True, timeout=300, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["zażółć", "Echo: hi"]


@pytest.mark.npm
def test_strict_keeps_simple_types_and_says_what_it_left_out() -> None:
    notes: list[str] = []
    settings = {"command": [program("mcp-server-filesystem"), "/tmp"]}
    table = tool_provider(settings, strict=True, note=notes.append)
    kept = rows_of(table)
    assert "edit_file is left out: it needs edits (object[])" in notes
    assert "search_files: without its optional excludePatterns (string[])" in notes
    assert "edit_file" not in kept
    assert set(kept["search_files"].parameters["properties"]) == {"path", "pattern"}
    assert kept["read_text_file"].parameters["properties"]["head"]["type"] == "number"
    assert json.loads(table.schema.metadata[b"spindle.left_out"]) == notes
    for row in kept.values():
        types = {schema["type"] for schema in row.parameters["properties"].values()}
        assert types <= {"string", "integer", "number", "boolean"}
    whole = rows_of(tool_provider(settings))
    assert "edits" in whole["edit_file"].parameters["properties"]


def test_a_provider_works_where_a_loop_is_running(stdio_server: StdioServers) -> None:
    async def main() -> Any:
        return tool_provider(stdio_server("loop"), name="s")

    assert "s.echo" in rows_of(asyncio.run(main()))


def test_other_kinds_of_source_give_rows_of_their_kind(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from spindle import tool\n\n\n@tool\ndef double(n: int) -> int:\n    return 2 * n\n"
    )
    row = rows_of(tool_provider({"kind": "python", "path": str(tmp_path)}))["double"]
    assert row.kind is ToolKind.PYTHON
    assert row.source is not None
    assert row.source["settings"]["path"] == str(tmp_path)


# --- credentials


async def test_a_token_lets_in_and_is_not_in_the_table(guarded: str) -> None:
    table = await provided(guarded, credential=TOKEN, name="far")
    row = rows_of(table)["far.double"]
    assert row.server_uri == guarded
    assert row.credential == {"type": "given", "name": "far"}
    assert "•••" in row.description
    assert TOKEN not in str(table.to_pydict())
    async with open_rows([row], credentials={"far": bearer(TOKEN)}) as opened:
        assert (await opened.call(row, {"n": 4})).text == "8"


async def test_a_given_credential_may_have_a_name_of_its_own(guarded: str) -> None:
    row = rows_of(await provided(guarded, credential=bearer(TOKEN), credential_name="vault"))["double"]
    assert row.credential == {"type": "given", "name": "vault"}


async def test_a_variable_is_kept_as_a_reference(guarded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_TOKEN", TOKEN)
    table = await provided(guarded, credential="${FAR_TOKEN}")
    row = rows_of(table)["double"]
    assert row.credential == {"type": "bearer", "token": "${FAR_TOKEN}"}
    assert TOKEN not in str(table.to_pydict())
    with pytest.raises(PermissionDeniedError, match="shows variables of yours"):
        async with open_rows([row]):
            pass
    async with open_rows([row], trusted=True) as opened:
        assert (await opened.call(row, {"n": 4})).text == "8"
        with pytest.raises(SpindleError, match="do not fit"):
            await opened.call(row, {"n": "four"})


@pytest.mark.parametrize(
    ("credential", "says"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("two\nlines", "characters that no token has"),
        ("${UNSET_TOKEN}", "UNSET_TOKEN is not set"),
        ("${EMPTY_TOKEN}", "EMPTY_TOKEN is empty, but credential.token uses it"),
        ("${EMPTY_TOKEN:-}", "is empty: its token"),
        ({}, "is empty"),
        ({"type": "bearer", "token": "${EMPTY_TOKEN}"}, "EMPTY_TOKEN is empty"),
        ({"type": "bearer", "token": "${UNSET_TOKEN:-}"}, "is empty: its token"),
        ({"type": "bearer"}, "token: field required"),
        ({"type": "bearer", "token": "x", "env": "X"}, "sees no variables"),
        (Credential(), "is empty"),
        (Credential(env=(("A", "b"),)), "sees no variables"),
    ],
)
async def test_a_credential_that_cannot_be_used_is_an_error_before_anything_is_sent(
    credential: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMPTY_TOKEN", "")
    async with HttpServer() as server:
        with pytest.raises((AuthError, ConfigurationError)) as caught:
            await provided(server.url, credential=credential)
        assert says in caught.value.message
        assert server.seen == []


@pytest.mark.parametrize(
    ("settings", "credential", "says"),
    [
        ({"command": ["x"]}, "t0ken", "takes its credential in a variable"),
        ({"command": ["x"]}, bearer("t0ken"), "takes its credential in a variable"),
        ({"kind": "python", "path": "."}, "t0ken", "'python' takes no credential"),
        (
            {"url": "http://x", "auth": {"type": "bearer", "token": "a"}},
            "t0ken",
            "have `auth`, and a credential is given too",
        ),
    ],
)
def test_a_credential_for_which_there_is_no_place_is_an_error(
    settings: Any, credential: Any, says: str
) -> None:
    with pytest.raises((AuthError, ConfigurationError)) as caught:
        tool_provider(settings, credential=credential)
    assert says in caught.value.message
    assert "t0ken" not in str(caught.value.to_dict())


async def test_a_refused_token_is_an_error(guarded: str) -> None:
    with pytest.raises(AuthError):
        await provided(guarded, credential="wrong")
    with pytest.raises(AuthError):
        await provided(guarded)


async def test_a_program_gets_its_token_in_a_variable(
    stdio_server: StdioServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "t0ken-for-it")
    auth = {"type": "bearer", "token": "${MY_TOKEN}", "env": "SERVER_TOKEN"}
    row = rows_of(await provided(stdio_server(), credential=auth))["echo"]
    assert row.credential == auth


# --- what is given


@pytest.mark.parametrize("given", ["files.example.com", "mcp-server-time", ""])
def test_a_text_that_is_no_url_is_an_error(given: str) -> None:
    with pytest.raises(ConfigurationError, match="is not the URL of a server") as caught:
        tool_provider(given)
    assert "command" in (caught.value.hint or "")


def test_settings_with_a_mistake_are_told_by_their_key() -> None:
    with pytest.raises(
        ConfigurationError, match=r"server\.ulr: not a setting of this source; did you mean `url`"
    ):
        tool_provider({"ulr": "http://x"})


def test_a_server_that_is_not_there_is_a_connection_error() -> None:
    with pytest.raises(ConnectionFailedError):
        tool_provider("http://127.0.0.1:9/mcp")


async def test_a_typed_config_is_taken_too(guarded: str) -> None:
    config = McpConfig(url=guarded, auth=BearerAuth(type="bearer", token=TOKEN))
    row = rows_of(await provided(config, name="far"))["far.double"]
    assert row.credential == {"type": "given", "name": "far"}
    assert TOKEN not in str(row)


# --- secrets in settings


def test_no_value_in_clear_that_may_be_a_secret_is_handed_on() -> None:
    table = {
        "kind": "mcp",
        "command": [
            "server", "--token", "s3cret-1", "--api-key=s3cret-2", "--port", "80",
            "postgresql://joe:s3cret-3@db/x", "--db=postgresql://joe:s3cret-4@db/x",
            "--secret", "${KNOWN:-s3cret-5}",
        ],
        "env": {"LEVEL": "s3cret-6", "OTHER": "${OTHER}", "WITH": "${WITH:-s3cret-7}"},
        "headers": {"X-Thing": "s3cret-8"},
        "nested": {"password": "s3cret-9", "list": [{"auth_token": "s3cret-10"}]},
        "url": "https://joe:s3cret-11@example.com/mcp?apikey=s3cret-12&mode=all",
        "auth": {"type": "basic", "username": "joe", "password": "s3cret-13"},
        "timeout": 5,
        "errors": {"auth": "401", "rate_limited": ["429"]},
    }  # fmt: skip
    hidden = Hidden()
    source = source_of("mine", table, Path("/root"), hidden)
    credential = credential_of("mine", table["auth"], hidden)
    assert "s3cret" not in json.dumps([source, credential])
    assert credential == {"type": "given", "name": "mine"}
    settings = source["settings"]
    assert settings["command"] == [
        "server", "--token", "${TOKEN}", "--api-key=${API_KEY}", "--port", "80",
        "postgresql://joe:${COMMAND_PASSWORD}@db/x", "--db=postgresql://joe:${DB_PASSWORD}@db/x",
        "--secret", "${KNOWN}",
    ]  # fmt: skip
    assert settings["env"] == {"LEVEL": "${LEVEL}", "OTHER": "${OTHER}", "WITH": "${WITH}"}
    assert settings["headers"] == {"X-Thing": "${X_THING}"}
    assert settings["url"] == "https://joe:${URL_PASSWORD}@example.com/mcp?apikey=${APIKEY}&mode=all"
    assert settings["timeout"] == 5
    assert settings["errors"] == {"auth": "401", "rate_limited": ["429"]}, "rules, and no secrets"
    assert {f"s3cret-{number}" for number in (1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13)} == hidden.values


def test_an_auth_table_with_references_is_handed_on_without_defaults() -> None:
    auth = {"type": "basic", "username": "joe", "password": "${PW:-s3cret}"}
    assert credential_of("mine", auth, Hidden()) == {**auth, "password": "${PW}"}
    assert credential_of("mine", None, Hidden()) is None


# --- rows that cannot be called


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"kind": "mcp", "settings": {"command": ["rm", "-rf"]}}, r"starts \['rm', '-rf'\]"),
        ({"kind": "python", "settings": {"path": "/x"}}, "more of this machine than the network"),
        ({"kind": "mcp", "settings": {"url": "http://x", "headers": {"A": "${B}"}}}, "shows variables"),
        ({"kind": "openapi", "settings": {"document": "/etc/passwd"}}, "reads a file"),
        (
            {"kind": "utcp", "settings": {"document": "http://x", "protocols": ["cli"]}},
            "more of this machine",
        ),
    ],
)
async def test_a_row_of_a_stranger_does_nothing_but_talk_to_its_server(source: Any, says: str) -> None:
    row = ToolRow.remote("a", source=source)
    with pytest.raises(PermissionDeniedError, match=says) as caught:
        async with open_rows([row]):
            pass
    assert caught.value.hint == "pass trusted=True if you know who made it"


async def test_a_row_that_wants_a_credential_is_never_called_without_it() -> None:
    row = ToolRow.remote(
        "a", server_uri="http://127.0.0.1:9/mcp", credential={"type": "given", "name": "far"}
    )
    for credentials in ({}, {"far": Credential()}, {"near": bearer("x")}):
        with pytest.raises(AuthError, match="wants the credential 'far'"):
            async with open_rows([row], credentials=credentials):
                pass


async def test_a_row_that_says_too_little_is_told() -> None:
    with pytest.raises(ConfigurationError, match="is a workflow of other software"):
        async with open_rows([ToolRow.workflow("a")]):
            pass
    with pytest.raises(ConfigurationError, match="does not say where it comes from"):
        async with open_rows([ToolRow(ToolKind.OPENAPI, "a")]):
            pass


async def test_a_row_whose_tool_is_gone_or_changed_is_told(stdio_server: StdioServers) -> None:
    table = await provided(stdio_server("gone"))
    row = rows_of(table)["echo"]
    assert row.input is not None
    gone = ToolRow(row.kind, row.name, input={**row.input, "tool": "ech"})
    changed = ToolRow(row.kind, row.name, input={**row.input, "fingerprint": "0" * 64})
    notes: list[str] = []
    async with open_rows([row, None, gone, changed], trusted=True, note=notes.append) as opened:
        with pytest.raises(NotFoundError, match="has no tool 'ech'") as caught:
            await opened.call(gone)
        assert caught.value.hint == "it has 'echo'"
        assert (await opened.call(changed, {"text": "hi"})).text == "hi"
        with pytest.raises(NotFoundError, match="not among the rows"):
            await opened.call(ToolRow.remote("other", server_uri="http://x"))
    assert notes == ["echo: its definition changed since the table was made"]
    # Once for the table, and once for all calls: the rows came from one source.
    assert len(stdio_server.starts("gone")) == 2


async def test_a_row_with_an_address_alone_is_called_there() -> None:
    async with HttpServer() as server:
        row = ToolRow.remote("say", server_uri=server.url, remote_name="echo")
        async with open_rows([row]) as opened:
            assert (await opened.call(row, {"text": "hi"})).text
        assert server.calls("echo") == 1
