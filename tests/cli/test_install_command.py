"""`spindle install` and `spindle serve --print-config`: the workspace as a server of another client."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters

from spindle.cli import install as installing
from spindle.cli.client_entries import CLIENTS as PROGRAMS
from spindle.cli.client_json import set_in_json
from spindle.cli.client_secrets import SecretVariables
from spindle.cli.client_text import FORMS, edited, read_object
from spindle.cli.clients import read_settings

PROGRAM = str(Path(sys.executable).with_name("spindle"))
CLIENTS = tuple(PROGRAMS)
SAMPLES = Path(__file__).parent / "client_samples"


def place_of(client: str, root: Path) -> Path:
    return PROGRAMS[client].file(root)


def file_of(client: str, root: Path) -> Path:
    file = place_of(client, root)
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def servers_in(client: str, text: str) -> dict[str, Any]:
    return read_object(FORMS[PROGRAMS[client].form], text)[PROGRAMS[client].key]


def stdio_words(root: Path) -> list[str]:
    return ["-w", str(root), "serve", "--stdio"]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- what is printed


GOOSE = {"enabled": True, "name": "spindle", "description": "Tools of a Spindle workspace", "timeout": 300}


def test_each_client_gets_its_own_form(workspace, spindle, monkeypatch):
    monkeypatch.delenv("SPINDLE_HOME")
    words = stdio_words(workspace.root)
    program: dict[str, Any] = {"command": PROGRAM, "args": words}
    wanted = {
        "claude-desktop": program,
        "claude-code": {"type": "stdio", **program},
        "cursor": program,
        "vscode": {"type": "stdio", **program},
        "windsurf": program,
        "gemini": program,
        "codex": program,
        "goose": {**GOOSE, "type": "stdio", "cmd": PROGRAM, "args": words, "envs": {}},
        "zed": program,
    }
    assert set(wanted) == set(CLIENTS)
    for client, entry in wanted.items():
        done = spindle("install", client, "--print")
        assert servers_in(client, done.out) == {"spindle": entry}
        assert f"paste this into {place_of(client, workspace.root)}" in done.err
        assert not place_of(client, workspace.root).exists()
        whole = spindle("install", client, "--print", "--json").json
        assert whole == {PROGRAMS[client].key: {"spindle": entry}}
        assert spindle("serve", "--print-config", client).out == done.out
    # The name that it had before.
    assert spindle("install", "claude", "--print").json == {"mcpServers": {"spindle": program}}


def test_each_client_reads_the_token_in_its_own_way(workspace, spindle):
    workspace.write("spindle.toml", '[serve]\nauth_token_env = "MY_TOKEN"\n')
    url = "http://127.0.0.1:8321/mcp"
    referred = {"headers": {"Authorization": "Bearer ${env:MY_TOKEN}"}}
    plain = {"headers": {"Authorization": "Bearer ${MY_TOKEN}"}}
    wanted = {
        "claude-code": {"type": "http", "url": url, **plain},
        "cursor": {"url": url, **referred},
        "vscode": {"type": "http", "url": url, **referred},
        "windsurf": {"serverUrl": url, **referred},
        "gemini": {"httpUrl": url, **plain},
        "codex": {"url": url, "bearer_token_env_var": "MY_TOKEN"},
        "goose": {**GOOSE, "type": "streamable_http", "uri": url, **plain, "env_keys": ["MY_TOKEN"]},
    }
    for client, entry in wanted.items():
        assert servers_in(client, spindle("install", client, "--http", "--print").out) == {"spindle": entry}
    refused = spindle("install", "zed", "--http")
    assert refused.code == 2
    assert "Zed cannot read the token from its environment" in refused.err
    workspace.write("spindle.toml", "")
    assert servers_in("zed", spindle("install", "zed", "--http", "--print").out) == {"spindle": {"url": url}}


def test_the_workspace_is_named_absolutely_from_wherever_it_was_meant(workspace, spindle, monkeypatch):
    inner = workspace.root / "deep" / "down"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    for words in ((), ("-w", "../..")):
        printed = spindle(*words, "serve", "--print-config", "cursor").json
        assert printed["mcpServers"]["spindle"]["args"] == stdio_words(workspace.root)


def test_without_the_program_beside_it_python_starts_the_module(workspace, spindle, monkeypatch):
    bare = workspace.root / "bin" / "python"
    monkeypatch.setattr(installing.sys, "executable", str(bare))
    entry = spindle("serve", "--print-config", "claude").json["mcpServers"]["spindle"]
    assert entry["command"] == str(bare)
    assert entry["args"] == ["-m", "spindle", *stdio_words(workspace.root)]


def test_a_folder_of_own_settings_elsewhere_is_passed_on(workspace, spindle, monkeypatch):
    monkeypatch.setenv("SPINDLE_HOME", "elsewhere")
    entry = spindle("serve", "--print-config", "claude").json["mcpServers"]["spindle"]
    assert entry["env"] == {"SPINDLE_HOME": str(workspace.root / "elsewhere")}


def test_over_http_the_address_is_that_of_the_settings(workspace, spindle):
    def url(*words: str) -> str:
        return spindle("serve", "--http", "--print-config", "cursor", *words).json["mcpServers"]["spindle"][
            "url"
        ]

    assert url() == "http://127.0.0.1:8321/mcp"
    assert url("--port", "9000", "--host", "::1") == "http://[::1]:9000/mcp"
    workspace.write("spindle.toml", '[serve]\nhost = "0.0.0.0"\nport = 8400\n')
    assert url() == "http://127.0.0.1:8400/mcp"
    workspace.write("spindle.toml", '[serve]\nurl = "https://tools.example/x/"\n')
    assert url() == "https://tools.example/x/mcp"


@pytest.mark.parametrize(
    ("serve", "variable"),
    [
        ('auth_token_env = "MY_TOKEN"', "MY_TOKEN"),
        ('auth_token = "s3cret-token"', "SPINDLE_SERVE__AUTH_TOKEN"),
        ('[serve.tokens.ada]\ntoken_env = "ADAS"', "ADAS"),
        ('[serve.tokens.ada-b]\ntoken = "s3cret-token"', "SPINDLE_SERVE__TOKENS__ADA_B__TOKEN"),
    ],
)
def test_a_token_is_referred_to_and_never_written(workspace, spindle, monkeypatch, serve, variable):
    monkeypatch.setenv("MY_TOKEN", "s3cret-token")
    workspace.write("spindle.toml", f"[serve]\n{serve}\n")
    for client in ("cursor", "vscode"):
        done = spindle("install", client, "--http")
        file = place_of(client, workspace.root)
        entry = servers_in(client, file.read_text())["spindle"]
        assert entry["headers"] == {"Authorization": f"Bearer ${{env:{variable}}}"}
        assert f"set {variable} to the token" in done.err
        assert "keep `spindle serve --http` running" in done.err
        assert "s3cret" not in file.read_text() + done.out + done.err


# --- what is written


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_that_is_not_there_is_made(workspace, spindle, client):
    done = spindle("install", client)
    file = place_of(client, workspace.root)
    assert done.code == 0
    assert done.out == f"added spindle in {file}\n"
    assert "next: " in done.err
    in_project = workspace.root in file.parents
    assert f"is {PROGRAMS[client].title} installed?" not in done.err or not in_project
    assert file.read_text() == spindle("install", client, "--print").out
    assert not file.with_name(f"{file.name}.bak").exists()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_of_its_own_keeps_all_that_others_wrote(workspace, spindle, client):
    """One real file for each program, and both directions."""
    program = PROGRAMS[client]
    sample = (SAMPLES / f"{client}.{program.form}").read_text()
    file = file_of(client, workspace.root)
    file.write_text(sample)
    form = FORMS[program.form]
    assert spindle("install", client, "--name", "mine").code == 0
    after = file.read_text()
    before, now = read_object(form, sample), read_object(form, after)
    entry = now[program.key].pop("mine")
    assert now == before
    # No line was lost or changed, but for a comma.
    left = [line.strip().rstrip(",") for line in after.splitlines()]
    for line in sample.splitlines():
        assert line.strip().rstrip(",") in left
    assert file.with_name(f"{file.name}.bak").read_text() == sample
    assert spindle("install", client, "--name", "mine").out == f"mine is in {file} already\n"
    assert file.read_text() == after

    if program.url_key is not None:
        # Replaced in its place, and back.
        assert spindle("install", client, "--name", "mine", "--yes", "--http").out.startswith("replaced mine")
        assert spindle("install", client, "--name", "mine", "--yes").out.startswith("replaced mine")
        assert file.read_text() == after
    assert read_object(form, file.read_text())[program.key]["mine"] == entry

    other = workspace.root / "other"
    other.mkdir()
    (other / "spindle.toml").touch()
    assert spindle("-w", str(other), "import", str(file)).code == 0
    source = tomllib.loads((other / "spindle.toml").read_text())["sources"]["mine"]
    assert source == {
        "command": [PROGRAM, *stdio_words(workspace.root)],
        "env": {"SPINDLE_HOME": os.environ["SPINDLE_HOME"]},
    }


def test_everything_else_in_the_file_stays(workspace, spindle):
    file = file_of("cursor", workspace.root)
    before = {
        "theme": "dåk",
        "half": "\ud800",
        "mcpServers": {"other": {"command": "x", "odd": [1, 2.5, None, 10**30]}},
        "z": {"a": True},
    }
    file.write_text(json.dumps(before, indent="\t"))
    file.chmod(0o600)
    original = file.read_bytes()
    done = spindle("install", "cursor", "--name", "mine", "--json")
    backup = file.with_name("mcp.json.bak")
    assert done.json["status"] == "added"
    assert done.json["backup"] == str(backup)
    after = json.loads(file.read_text())
    assert after["mcpServers"].pop("mine") == done.json["entry"]
    assert after == before
    assert list(after) == list(before)
    assert '\n\t"theme"' in file.read_text()
    assert backup.read_bytes() == original
    assert {stat.S_IMODE(path.stat().st_mode) for path in (file, backup)} == {0o600}

    again = spindle("install", "cursor", "--name", "second", "--json")
    assert again.json["backup"] is None
    assert backup.read_bytes() == original
    assert set(json.loads(file.read_text())["mcpServers"]) == {"other", "mine", "second"}
    assert len(list(file.parent.iterdir())) == 2


def test_marks_and_line_ends_of_other_systems_stay(workspace, spindle):
    file = file_of("claude-desktop", workspace.root)
    file.write_bytes(b'\xef\xbb\xbf{\r\n    "a": "\xc3\xa5"\r\n}\r\n')
    assert spindle("install", "claude").code == 0
    written = file.read_bytes()
    assert written.startswith(b'\xef\xbb\xbf{\r\n    "a": "\xc3\xa5",\r\n    "mcpServers"')
    assert written.count(b"\n") == written.count(b"\r\n")


def test_a_link_to_the_file_stays_a_link(workspace, spindle):
    file = file_of("cursor", workspace.root)
    real = workspace.write("dotfiles/cursor.json", "{}")
    file.symlink_to(real)
    assert spindle("install", "cursor").code == 0
    assert file.is_symlink()
    assert "spindle" in json.loads(real.read_text())["mcpServers"]


def test_an_empty_file_counts_as_none(workspace, spindle):
    file_of("vscode", workspace.root).write_text(" \n")
    assert spindle("install", "vscode").code == 0


def test_the_same_again_changes_nothing(workspace, spindle):
    spindle("install", "vscode")
    file = place_of("vscode", workspace.root)
    data = json.loads(file.read_text())
    data["servers"]["spindle"] |= {"dev": {"watch": "x"}}
    data["servers"]["spindle"]["env"]["MORE"] = "1"
    file.write_text(json.dumps(data))
    before = snapshot(workspace.root)
    done = spindle("install", "vscode")
    assert done.code == 0
    assert done.out == f"spindle is in {file} already\n"
    assert spindle("install", "vscode", "--json").json["status"] == "there already"
    assert snapshot(workspace.root) == before


@pytest.mark.parametrize("other", [{"command": "another"}, {"url": "https://x/mcp"}, "odd", None])
def test_another_entry_of_that_name_is_replaced_only_when_told(workspace, spindle, other):
    file = file_of("cursor", workspace.root)
    file.write_text(json.dumps({"mcpServers": {"spindle": other, "b": {"command": "y"}}}))
    before = snapshot(file.parent)
    refused = spindle("install", "cursor")
    assert refused.code == 2
    assert f"{file} already has another server 'spindle'" in refused.err
    assert "--yes replaces it, --name NAME adds one beside it" in refused.err
    assert snapshot(file.parent) == before
    done = spindle("install", "cursor", "--yes")
    assert done.out == f"replaced spindle in {file}\n"
    servers = json.loads(file.read_text())["mcpServers"]
    assert servers["spindle"]["command"] == PROGRAM
    assert servers["b"] == {"command": "y"}


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 130), ("\n", 130)])
def test_a_person_is_asked_before_it_is_replaced(workspace, answer, code):
    file = file_of("claude-desktop", workspace.root)
    file.write_text('{"mcpServers": {"spindle": {"command": "another", "env": {"KEY": "s3cret"}}}}')
    before = file.read_bytes()
    ours, theirs = pty.openpty()
    process = subprocess.Popen([PROGRAM, "install", "claude"], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = ""
    try:
        while "[y/N]" not in seen:
            seen += os.read(ours, 4096).decode()
        os.write(ours, answer.encode())
        while True:
            seen += os.read(ours, 4096).decode()
    except OSError:  # the other side is closed
        os.close(ours)
    assert process.wait(timeout=300) == code
    assert "replace it in Claude Desktop? [y/N]" in seen
    assert "s3cret" not in seen
    assert (file.read_bytes() == before) == (code != 0)


# --- what is refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"mcpServers": {\n "a": }', "is not valid JSON: Expecting value in line 2, column 7"),
        ('{"a": 1, "a": 2}', "is not valid JSON: the key 'a' appears twice"),
        ('{"a": NaN}', "is not valid JSON: NaN is not a number that JSON knows"),
        ('{"a": 1e999}', "is not valid JSON: the number 1e999 is too large"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", "it must hold an object"),
        ('{"mcpServers": []}', "`mcpServers` must be an object"),
    ],
)
def test_a_file_that_cannot_be_edited_is_left_alone(workspace, spindle, text, message):
    file = file_of("claude-desktop", workspace.root)
    file.write_text(text)
    before = snapshot(file.parent)
    done = spindle("install", "claude", "--yes")
    assert done.code == 2
    assert done.out == ""
    assert f"spindle: {file}" in done.err
    assert message in done.err
    assert "Traceback" not in done.err
    pasted = done.err.partition("add this by hand:\n")[2]
    assert json.loads(pasted) == spindle("serve", "--print-config", "claude").json
    assert snapshot(file.parent) == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "servers": {\n    "x": {}\n  }\n}'),
        ('{"servers": {}}', '{"servers": {\n    "x": {}\n  }}'),
        ('{\n  "servers": {\n  }\n}\n', '{\n  "servers": {\n    "x": {}\n  }\n}\n'),
        (
            '{\n\t// mine\n\t"servers": {\n\t\t"a": {} // a\n\t}\n}',
            '{\n\t// mine\n\t"servers": {\n\t\t"a": {}, // a\n\t\t"x": {}\n\t}\n}',
        ),
        (
            '{"servers": {"a": {"command": "x",},},}',
            '{"servers": {"a": {"command": "x",},\n    "x": {},\n  },}',
        ),
        ('{"a": "}{", "servers": {/* no */}}', '{"a": "}{", "servers": {/* no */\n    "x": {}\n  }}'),
        ('{"servers": {"x": 5, "y": 6}}', '{"servers": {"x": {}, "y": 6}}'),
    ],
)
def test_an_entry_is_put_into_the_text_and_nothing_else_moves(before, after):
    assert set_in_json(before, "servers", "x", {}) == after


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
BREAKS = ("\n", ' // "a": {, }\n', "\n/* ] } , */\n", "\r\n")


@given(
    st.dictionaries(st.sampled_from(["servers", "a", "{", "//"]), VALUES, max_size=4),
    st.dictionaries(st.sampled_from(["x", "y", '"', "}"]), VALUES, max_size=4),
    st.sampled_from([None, 1, "\t"]),
    st.sampled_from(BREAKS),
)
def test_any_json_with_comments_can_be_edited_without_loss(others, servers, indent, line_break):
    data = {**others, "servers": servers}
    # In a string a line break is an escape, so that these are all between the parts.
    text = json.dumps(data, indent=indent).replace("\n", line_break)
    after = edited(FORMS["json"], text, "servers", "x", {"command": "z", "args": ["//"]})
    assert after is not None
    assert read_object(FORMS["json"], after) == {
        **data,
        "servers": {**servers, "x": {"command": "z", "args": ["//"]}},
    }
    assert list(read_object(FORMS["json"], after)) == list(data)
    if "x" not in servers:
        assert after.count("// ") + after.count("/*") == text.count("// ") + text.count("/*")


def test_comments_of_vs_code_are_not_lost(workspace, spindle):
    text = '{\n  // mine\n  "servers": {"a": {"command": "x",},}, // theirs\n}\n'
    file = workspace.write(".vscode/mcp.json", text)
    assert spindle("install", "vscode").code == 0
    after = file.read_text()
    assert after.startswith('{\n  // mine\n  "servers": {"a": {"command": "x",},\n    "spindle": {')
    assert after.endswith("}, // theirs\n}\n")
    assert set(servers_in("vscode", after)) == {"a", "spindle"}


@pytest.mark.parametrize(
    ("text", "is_edited"),
    [
        ("extensions: {a: {type: builtin, name: a}}\n", False),
        ("extensions:\n", False),
        ("# nothing\n", True),
        ("a: 1", True),
        ("extensions: {}\nb: 2\n", True),
        ("extensions:\n- 1\n", False),
        ("extensions: &x\n  a: {type: builtin}\nother: *x\n", False),
    ],
)
def test_yaml_is_changed_without_loss_or_not_at_all(workspace, spindle, text, is_edited):
    file = file_of("goose", workspace.root)
    file.write_text(text)
    done = spindle("install", "goose")
    if not is_edited:
        assert done.code == 2
        assert file.read_text() == text
        assert "add this by hand:\nextensions:\n  spindle:\n" in done.err
        return
    assert done.code == 0
    found = read_object(FORMS["yaml"], file.read_text())
    assert found["extensions"].pop("spindle")["cmd"] == PROGRAM
    assert {**read_object(FORMS["yaml"], text), "extensions": {}} == found


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        ("mcp_servers = { a = {command = 'a'} } # all\n", "# all"),
        ("mcp_servers = { x = {command = 'a'} }\n", ""),
        ("mcp_servers.x.command = 'a'\n[b] # b\nc = 1\n", "[b] # b\nc = 1\n"),
        (
            "[mcp_servers.x]\ncommand = 'a'\n[mcp_servers.x.env]\nA = 'b'\n\n# d\n[d]\ne = 1\n",
            "\n# d\n[d]\ne = 1\n",
        ),
        ("a = 1\r\n[b]\r\nc = 2", "a = 1\r\n[b]\r\nc = 2\r\n\r\n[mcp_servers.x]\r\ncommand"),
    ],
)
def test_toml_of_every_form_is_edited_without_loss(before, kept):
    after = edited(FORMS["toml"], before, "mcp_servers", "x", {"command": "z"})
    assert after is not None
    assert kept in after
    was = tomllib.loads(before)
    servers = {**was.get("mcp_servers", {}), "x": {"command": "z"}}
    assert tomllib.loads(after) == {**was, "mcp_servers": servers}


def test_a_comment_stays_with_the_entry_above_it():
    before = "extensions:\n  a:\n    type: stdio\n    # of a\n\n# the end\n"
    after = edited(FORMS["yaml"], before, "extensions", "x", {"cmd": "z"})
    assert after == "extensions:\n  a:\n    type: stdio\n    # of a\n  x:\n    cmd: z\n\n# the end\n"


def test_bytes_that_are_no_text_are_refused(workspace, spindle):
    file = file_of("claude-desktop", workspace.root)
    file.write_bytes(b'{"a": "\xff"}')
    done = spindle("install", "claude")
    assert done.code == 2
    assert f"{file} is not valid UTF-8: byte 8" in done.err


def test_a_place_that_cannot_be_written_is_named(workspace, spindle):
    workspace.write(".vscode", "a file where a folder should be")
    done = spindle("install", "vscode")
    assert done.code == 2
    assert str(workspace.root / ".vscode/mcp.json") in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("install",), "missing argument"),
        (("install", "cursr"), "'cursr' is not one of 'claude-desktop', 'claude-code', 'cursor', 'vscode'"),
        (("install", "cursor", "--name", "a b"), "'a b' cannot be the name of a server"),
        (("install", "cursor", "--name", ""), "'' cannot be the name of a server"),
        (("install", "claude", "--http"), "Claude Desktop takes no addresses"),
        (("serve", "--print-config", "emacs"), "'emacs' is not one of"),
        (("serve", "--print-config", "claude", "--http"), "Claude Desktop takes no addresses"),
        (("serve", "--print-config", "cursor", "--rest"), "--print-config goes with --stdio or --http"),
        (("serve", "--print-config", "cursor", "--stdio", "--http"), "--print-config goes with"),
        (
            ("serve", "--print-config", "cursor", "--port", "1"),
            "--host, --port, --unix, --tls-cert, --access-log and --console go with --http",
        ),
        (("serve", "--print-config", "cursor", "--http", "--port", "0"), "there is no fixed address"),
    ],
)
def test_wrong_words_are_explained(workspace, spindle, words, message):
    done = spindle(*words)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert [path.name for path in workspace.root.iterdir()] == ["spindle.toml"]


def test_without_a_workspace_there_is_nothing_to_install(folder, spindle):
    done = spindle("install", "claude")
    assert done.code == 2
    assert "there is no workspace" in done.err


# --- that it works


@pytest.mark.parametrize("client", [name for name in CLIENTS if name not in ("claude-desktop", "zed")])
def test_an_address_with_a_token_comes_back_as_it_went(workspace, spindle, client):
    workspace.write("spindle.toml", '[serve]\nauth_token_env = "MY_TOKEN"\nport = 8400\n')
    assert spindle("install", client, "--http").code == 0
    other = workspace.write("other/spindle.toml", "").parent
    assert spindle("-w", str(other), "import", str(place_of(client, workspace.root))).code == 0
    source = tomllib.loads((other / "spindle.toml").read_text())["sources"]["spindle"]
    source.pop("transport", None)  # not every form says it
    assert source == {
        "url": "http://127.0.0.1:8400/mcp",
        "headers": {"Authorization": "Bearer ${MY_TOKEN}"},
    }


def test_an_address_that_was_installed_is_what_import_reads(workspace, spindle):
    workspace.write("spindle.toml", '[serve]\nauth_token_env = "MY_TOKEN"\n')
    spindle("install", "vscode", "--http")
    file = place_of("vscode", workspace.root)
    (server,) = read_settings(file, workspace.root, SecretVariables()).servers
    assert server.table == {
        "url": "http://127.0.0.1:8321/mcp",
        "transport": "http",
        "headers": {"Authorization": "Bearer ${MY_TOKEN}"},
    }
    assert server.notes == []


@pytest.mark.parametrize("client", ["cursor", "goose"])
async def test_the_printed_command_starts_a_server(workspace, program, client):
    workspace.write(
        "tools/greet.py",
        'from spindle import tool\n\n\n@tool\ndef greet(name: str) -> str:\n    """Greet."""\n'
        '    return f"Hello, {name}!"\n',
    )
    assert program("trust", "--yes").code == 0
    entry = servers_in(client, program("serve", "--print-config", client).out)["spindle"]
    # As a client that is no child of our shell: elsewhere, and with little in its environment.
    parameters = StdioServerParameters(
        command=entry.get("command") or entry["cmd"],
        args=entry["args"],
        env=entry.get("env") or entry.get("envs"),
        cwd="/",
    )
    async with Client(parameters) as session:
        assert [tool.name for tool in (await session.list_tools()).tools] == ["greet"]
        result = await session.call_tool("greet", {"name": "Ada"})
    assert result.content[0].text == "Hello, Ada!"
