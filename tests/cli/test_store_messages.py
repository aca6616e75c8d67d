"""What the shell says when the store in PostgreSQL cannot be used: one message, no traceback, no password."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from servers.postgres import PASSWORD, free_port


def put(workspace, store: str) -> None:
    workspace.write("spindle.toml", f"store = '{store}'\n")


@pytest.mark.parametrize("words", [("tools",), ("history",), ("sync",), ("call", "x"), ("search", "x")])
def test_a_server_that_is_down_is_one_message(workspace, spindle, words):
    port = free_port()
    put(workspace, f"postgresql://ann:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/tools")
    done = spindle(*words)
    assert done.code == 11
    first, second = done.err.splitlines()
    assert first.startswith(
        f"spindle: cannot connect to postgresql://ann@127.0.0.1:{port}/tools?schema=spindle"
    )
    assert second == "  hint: start the server, or correct host and port in `store`"


@pytest.mark.parametrize(
    ("store", "code", "told", "hint"),
    [
        ("postgresql://ann:${NO_SUCH}@db/x", 2, "NO_SUCH is not set, but store uses it", "export NO_SUCH="),
        ("postgresql://ann:pw@x@db/x", 2, "a reserved character stands in", "%40"),
        ("postgres+psycopg://db/x", 2, "there is no such store", "did you mean postgres://?"),
        ("postgresql://db/x?shema=y", 2, "parameter `shema`", "did you mean `schema`?"),
    ],
)
def test_a_mistake_in_the_address_is_one_message(workspace, spindle, monkeypatch, store, code, told, hint):
    monkeypatch.delenv("NO_SUCH", raising=False)
    put(workspace, store)
    done = spindle("tools")
    assert done.code == code
    first, second = done.err.splitlines()
    assert told in first
    assert hint in second


def test_wrong_passwords_and_databases_are_told_without_the_password(program, workspace, postgres_server):
    for url, told in [
        (postgres_server.url(password=PASSWORD + "x"), "password authentication failed"),
        (postgres_server.url("no_such"), '"no_such" does not exist'),
    ]:
        put(workspace, url)
        done = program("tools", "--json")
        assert done.code == 11
        assert told in done.json["error"]["message"]
        assert "Traceback" not in done.err
        for text in (PASSWORD, quote(PASSWORD, safe="")):
            assert text not in done.out + done.err


def test_a_workspace_works_in_postgresql_as_in_a_file(workspace, spindle, postgres_url):
    put(workspace, postgres_url)
    workspace.write(
        "tools/t.py", "from spindle import tool\n@tool\ndef twice(n: int) -> int:\n    return 2 * n\n"
    )
    workspace.add_server()
    assert spindle("sync").code == 0
    assert "mini.echo" in spindle("tools").out
    assert spindle("call", "twice", "--n=21").out == "42\n"
    assert "mini.echo" in spindle("search", "give arguments").out
    assert [call["tool"] for call in spindle("history", "--json").json] == ["twice"]
    assert spindle("remove", "mini").code == 0
    assert "mini.echo" not in spindle("tools").out
    assert not (workspace.root / ".spindle" / "state.db").exists()


def test_code_that_blocks_uses_postgresql_too(workspace, postgres_url):
    import spindle

    put(workspace, postgres_url)

    def twice(n: int) -> int:
        return 2 * n

    with spindle.open(workspace.root, tools=[twice]) as app:
        assert app.call("twice", n=4).structured == 8
        assert [record.tool for record in app.history()] == ["twice"]
