"""`spindle import`: servers of other clients."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest

from spindle.cli.clients import read_servers


def sources(folder: Path) -> dict:
    return tomllib.loads((folder / "spindle.toml").read_text()).get("sources", {})


def test_claude_desktop(workspace, spindle):
    file = workspace.write(
        "claude_desktop_config.json",
        json.dumps(
            {
                "globalShortcut": "",
                "mcpServers": {
                    "fs": {"command": "npx", "args": ["-y", "pkg", "/data"], "env": {"A": "b", "PORT": 8080}},
                    "my server!": {"command": "run", "disabled": True},
                },
            }
        ),
    )
    done = spindle("import", str(file))
    assert done.code == 0
    assert sources(workspace.root) == {
        "fs": {"command": ["npx", "-y", "pkg", "/data"], "env": {"A": "b", "PORT": "8080"}},
        "my-server": {"command": ["run"], "enabled": False},
    }
    assert done.out == f"fs\tadded\t{file}\nmy-server\tadded\t{file}\n"
    assert "note: my-server: was called 'my server!', which is not a valid name here" in done.err


def test_claude_code_with_projects(workspace, spindle):
    data = {
        "mcpServers": {
            "web": {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer abc"}}
        },
        "projects": {
            str(workspace.root): {"mcpServers": {"here": {"type": "stdio", "command": "a"}}},
            "/elsewhere": {
                "mcpServers": {"there": {"command": "b"}, "old": {"type": "sse", "url": "https://y"}}
            },
            "/empty": {},
        },
    }
    done = spindle("import", str(workspace.write("claude.json", json.dumps(data))))
    assert sources(workspace.root) == {
        "web": {"url": "https://x/mcp", "transport": "http", "headers": {"Authorization": "Bearer abc"}},
        "here": {"command": ["a"]},
        "there": {"command": ["b"], "cwd": "/elsewhere"},
        "old": {"url": "https://y", "transport": "sse"},
    }
    assert (
        "note: web: headers.Authorization holds a secret in plain text; ${AUTHORIZATION} is safer" in done.err
    )


def test_vs_code_with_comments_and_inputs(workspace, spindle):
    workspace.write(
        ".vscode/mcp.json",
        """{
        // What is asked for
        "inputs": [{"id": "api-key", "type": "promptString", "password": true,},],
        /* and the // servers */
        "servers": {
            "a": {
                "command": "run", "args": ["--root", "${workspaceFolder}/x", "http://no/*comment*/", "a,]",],
                "env": {"KEY": "${input:api-key}", "DIR": "${env:HOME}", "B": "${B:-c}", "Z": "${command:z}"},
                "envFile": "${workspaceFolder}/.env", // trailing
            },
        },
        }""",
    )
    done = spindle("import")
    assert done.code == 0, done.err
    assert sources(workspace.root)["a"] == {
        "command": ["run", "--root", f"{workspace.root}/x", "http://no/*comment*/", "a,]"],
        "env": {"KEY": "${API_KEY}", "DIR": "${HOME}", "B": "${B:-c}", "Z": "${command:z}"},
    }
    assert "note: a: asks for 'api-key': set the environment variable API_KEY" in done.err
    assert "note: a: its envFile" in done.err
    assert "note: a: ${command:z} is not known here and stays as it is" in done.err


def test_the_usual_places_are_looked_at(workspace, spindle, tmp_path):
    home = tmp_path / "home"
    config = home / ("Library/Application Support" if sys.platform == "darwin" else ".config")
    for number, place in enumerate(
        [
            workspace.root / ".mcp.json",
            workspace.root / ".cursor/mcp.json",
            home / ".claude.json",
            home / ".cursor/mcp.json",
            config / "Claude/claude_desktop_config.json",
        ]
    ):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({"mcpServers": {f"s{number}": {"command": "run"}}}))
    assert spindle("import").code == 0
    assert sorted(sources(workspace.root)) == ["s0", "s1", "s2", "s3", "s4"]


def test_nothing_found_is_said(workspace, spindle):
    done = spindle("import")
    assert done.code == 0
    assert done.err == ("note: no settings of Claude, Cursor, Windsurf or VS Code were found; name a FILE\n")


def test_names_that_are_taken_are_skipped_unless_told_otherwise(workspace, spindle):
    workspace.write("spindle.toml", "[sources.a]\ncommand = ['mine']\n[sources.b]\ncommand = ['same']\n")
    file = workspace.write("m.json", '{"mcpServers": {"a": {"command": "theirs"}, "b": {"command": "same"}}}')
    done = spindle("import", str(file))
    assert done.out == f"a\tskipped\t{file}\nb\tthere already\t{file}\n"
    assert done.err == "note: a: there is a source 'a' already; --replace replaces it\n"
    assert spindle("import", str(file), "--replace").out.startswith("a\treplaced\t")
    assert sources(workspace.root)["a"] == {"command": ["theirs"]}


def test_a_dry_run_writes_nothing(folder, spindle):
    file = folder / "m.json"
    file.write_text('{"mcpServers": {"a": {"command": "run"}}}')
    done = spindle("import", "--dry-run", str(file))
    assert done.out == f"a\tadded\t{file}\n"
    assert done.err == f"nothing was written: this would add 1 to {folder / 'spindle.toml'}\n"
    assert not (folder / "spindle.toml").exists()
    assert spindle("import", "--dry-run", "--json", str(file)).json["servers"] == [
        {"name": "a", "from": str(file), "status": "added", "notes": []}
    ]


def test_imported_sources_can_be_synced_at_once(workspace, spindle):
    command, *arguments = workspace.serve()
    file = workspace.write(
        "m.json", json.dumps({"mcpServers": {"mini": {"command": command, "args": arguments}}})
    )
    done = spindle("import", str(file), "--sync")
    assert done.code == 0
    assert "mini: 6 tools, 6 added" in done.out


def test_what_cannot_be_taken_over_is_said_and_skipped(workspace, spindle):
    servers = {
        "ws": {"type": "ws", "url": "ws://x"},
        "empty": {},
        "text": "no",
        "bad": {"url": "ftp://x"},
        "good": {"command": "run"},
    }
    done = spindle("import", str(workspace.write("m.json", json.dumps({"mcpServers": servers}))))
    assert done.code == 0
    assert list(sources(workspace.root)) == ["good"]
    for note in (
        "note: ws: its transport 'ws' is not supported",
        "note: empty: has neither `command` nor `url`",
        "note: text: is not an object",
        "sources.bad.url: must begin with http:// or https://",
    ):
        assert note in done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON: "),
        ("[]", "must hold a JSON object"),
        ("{}", "has neither `mcpServers` nor `servers`"),
    ],
)
def test_a_file_that_is_none_of_these_is_a_mistake(workspace, spindle, text, message):
    file = workspace.write("x.json", text)
    done = spindle("import", str(file))
    assert done.code == 2
    assert f"spindle: {file} {message}" in done.err


def test_a_file_that_is_not_there_is_a_mistake(workspace, spindle):
    done = spindle("import", "nothing.json")
    assert (done.code, done.err) == (2, "spindle: cannot read nothing.json: No such file or directory\n")


@pytest.mark.parametrize(
    ("name", "legal"), [("a b", "a-b"), ("9", "server-9"), ("!", "server"), ("tools", "tools-server")]
)
def test_names_are_made_legal(tmp_path, name, legal):
    file = tmp_path / "m.json"
    file.write_text(json.dumps({"mcpServers": {name: {"command": "x"}}}))
    assert read_servers(file, tmp_path)[0].name == legal
