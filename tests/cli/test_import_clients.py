"""`spindle import`: servers of other programs."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from servers import warm
from spindle.cli.client_entries import CLIENTS
from spindle.cli.client_secrets import SecretVariables
from spindle.cli.clients import read_settings

SAMPLES = Path(__file__).parent / "client_samples"


def sources(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "spindle.toml").read_text()).get("sources", {})


FILESYSTEM = "@modelcontextprotocol/server-filesystem"
GITHUB = "@modelcontextprotocol/server-github"
# By file: the sources that come of it, and by name those that do not come, with why.
TAKEN: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "claude-desktop.json": (
        {
            "files": {"command": ["npx", "-y", FILESYSTEM, "/data"]},
            "github": {
                "command": [
                    "docker",
                    "run",
                    "-i",
                    "--rm",
                    "-e",
                    "GITHUB_PERSONAL_ACCESS_TOKEN=${GITHUB_PERSONAL_ACCESS_TOKEN}",
                    "ghcr.io/github/github-mcp-server",
                ],
                "env": {"LOG": "info"},
            },
        },
        {},
    ),
    "claude-code.json": (
        {
            "docs": {
                "url": "https://docs.example.com/mcp",
                "transport": "http",
                "headers": {"Authorization": "Bearer ${DOCS_TOKEN:-none}"},
            },
            "db": {
                "command": ["${HOME}/bin/db-server", "--read-only"],
                "env": {"DB_PASSWORD": "${DB_PASSWORD}"},
            },
        },
        {},
    ),
    "cursor.json": (
        {
            "web": {"url": "https://web.example.com/mcp", "headers": {"X-Api-Key": "${WEB_X_API_KEY}"}},
            "time": {"command": ["uvx", "mcp-server-time"]},
        },
        {},
    ),
    "vscode.json": (
        {
            "local": {"command": ["node", "HERE/server.js"], "env": {"API_KEY": "${API_KEY}"}},
            "remote": {"url": "https://old.example.com/sse", "transport": "sse"},
        },
        {},
    ),
    "windsurf.json": (
        {
            "search": {
                "url": "https://search.example.com/mcp",
                "headers": {"Authorization": "Bearer ${SEARCH_TOKEN}"},
                "exclude": [r"delete\.all"],
            }
        },
        {"off": "is switched off there"},
    ),
    ".gemini/settings.json": (
        {
            "python": {
                "command": ["python", "-m", "my_server", "--port", "8080"],
                "cwd": "./servers",
                "env": {"DATABASE_URL": "${DB_URL}", "API_KEY": "${EXTERNAL_KEY}"},
                "include": ["read", "list"],
            },
            "http": {
                "url": "http://localhost:3000/mcp",
                "transport": "http",
                "headers": {"X-Team": "blue"},
            },
            "sse": {"url": "http://localhost:3001/sse"},
        },
        {"never": "is switched off there"},
    ),
    "codex.toml": (
        {
            "context": {
                "command": ["npx", "-y", "@upstash/context7-mcp"],
                "env": {"MODE": "fast"},
                "include": ["resolve", "get"],
                "timeout": 45,
                "connect_timeout": 20,
            },
            "figma": {
                "url": "https://mcp.figma.com/mcp",
                "headers": {
                    "X-Region": "eu",
                    "X-Team": "${FIGMA_TEAM}",
                    "Authorization": "Bearer ${FIGMA_TOKEN}",
                },
            },
        },
        {"old": "is switched off there"},
    ),
    "goose.yaml": (
        {
            "fetch": {"command": ["uvx", "mcp-server-fetch"], "env": {"FETCH_TOKEN": "${FETCH_TOKEN}"}},
            "remote": {
                "url": "https://remote.example.com/mcp",
                "transport": "http",
                "headers": {"Authorization": "Bearer ${REMOTE_TOKEN}"},
            },
        },
        {"developer": "is a part of that program itself (builtin)"},
    ),
    "zed.json": (
        {
            "local": {"command": ["uv", "run", "main.py"]},
            "older": {"command": ["node", "a.js"], "env": {"A": "1"}},
            "remote": {"url": "https://zed.example.com/mcp"},
        },
        {"postgres": "is an extension of that program, which starts it in its own way"},
    ),
    "pflow.json": (
        {
            "github": {"command": ["npx", "-y", GITHUB], "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}},
            "composio": {
                "url": "https://api.composio.dev/mcp",
                "transport": "http",
                "auth": {"type": "bearer", "token": "${COMPOSIO_API_KEY}"},
            },
            "keyed": {
                "url": "https://keyed.example.com/mcp",
                "transport": "http",
                "auth": {"type": "api_key", "name": "X-Custom-Key", "value": "${KEYED_VALUE}"},
            },
        },
        {},
    ),
    "pflow-first.json": (
        {
            "github": {
                "command": ["npx", "@modelcontextprotocol/github"],
                "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"},
            },
            "filesystem": {"command": ["npx", FILESYSTEM, "/path"]},
        },
        {},
    ),
    "penguiflow.json": (
        {
            "github": {
                "command": ["npx", "-y", GITHUB],
                "auth": {"type": "oauth"},
                "include": ["create_.*", "(?:list).*", "(?i)(?:get|read).*"],
            },
            "weather": {
                "kind": "utcp",
                "document": "https://api.weather.example.com/.well-known/utcp.json",
                "timeout": 10,
            },
            "stripe": {
                "kind": "http",
                "url": "https://api.stripe.example.com/v1",
                "auth": {"type": "bearer", "token": "${STRIPE_SECRET_KEY}"},
                "max_concurrency": 4,
            },
        },
        {"shell": "its transport 'cli' is not supported: `spindle add --cli` describes programs"},
    ),
    "langchain.json": (
        {
            "math": {"command": ["python", "/path/to/math_server.py"]},
            "weather": {"url": "http://localhost:8000/mcp", "transport": "http"},
        },
        {"live": "its transport 'websocket' is not supported"},
    ),
    "mcpo.json": (
        {
            "memory": {"command": ["npx", "-y", "@modelcontextprotocol/server-memory"], "cwd": "/tmp"},
            "time": {
                "command": ["uvx", "mcp-server-time", "--local-timezone=America/New_York"],
                "exclude": ["convert_time"],
            },
            "mcp_sse": {
                "url": "http://127.0.0.1:8001/sse",
                "transport": "sse",
                "headers": {"Authorization": "Bearer ${MCP_SSE_TOKEN}", "X-Custom-Header": "value"},
            },
            "asks": {"url": "http://127.0.0.1:8002/mcp", "transport": "http", "auth": {"type": "oauth"}},
        },
        {},
    ),
    "mcp-proxy.json": (
        {
            "fetch": {"command": ["uvx", "mcp-server-fetch"]},
            "github": {
                "command": ["npx", "-y", GITHUB],
                "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_PERSONAL_ACCESS_TOKEN}"},
            },
        },
        {"none": "is switched off there"},
    ),
}
# All that stands in the samples and must stand nowhere else.
SECRETS = (
    "ghp_abcdefghij0123456789", "hunter2hunter2", "k-123456", "plain-key-1", "token-1", "secret-1234",
    "secret-token",
)  # fmt: skip


@pytest.mark.parametrize("sample", list(TAKEN))
def test_the_servers_of_every_program_become_sources(workspace, spindle, sample):
    file = workspace.root / sample
    file.parent.mkdir(exist_ok=True)
    shutil.copy(SAMPLES / sample.replace(".gemini/settings", "gemini"), file)
    wanted, refused = TAKEN[sample]
    done = spindle("import", str(file), "--json")
    assert done.code == 0, done.err
    here = json.loads(json.dumps(wanted).replace("HERE", str(workspace.root)))
    assert sources(workspace.root) == here
    said = {item["name"]: item for item in done.json["servers"]}
    assert set(said) == {*wanted, *refused}
    for name, why in refused.items():
        assert said[name]["status"] in ("left out", "skipped")
        assert said[name]["notes"] == [why]
        assert f"note: {name}: {why}\n" in done.err
    written = (workspace.root / "spindle.toml").read_text() + done.out + done.err
    assert [secret for secret in SECRETS if secret in written] == []
    again = spindle("import", str(file), "--json").json["servers"]
    assert {item["status"] for item in again} <= {"there already", "left out", "skipped"}


def test_every_secret_has_a_variable_of_its_own_and_is_told(workspace, spindle):
    entry = {
        "command": "npx",
        "args": [
            "-y", "mcp-remote", "https://u:pw-12345@x.example/mcp?api_key=abc123&v=1",
            "--header", "Authorization: Bearer tok-1", "--api-key", "abc", "--keyboard=us", "--token=t-2",
            "sk-abcdefgh12345678",
        ],
        "env": {"API_KEY": "one", "PORT": 8080, "PATH_LIKE": "/bin"},
    }  # fmt: skip
    other = {"command": "run", "env": {"API_KEY": "two"}}
    same = {"command": "run", "env": {"API_KEY": "one"}}
    file = workspace.write("m.json", json.dumps({"mcpServers": {"one": entry, "other": other, "same": same}}))
    done = spindle("import", str(file))
    assert sources(workspace.root) == {
        "one": {
            "command": [
                "npx", "-y", "mcp-remote",
                "https://u:${ONE_PASSWORD}@x.example/mcp?api_key=${ONE_API_KEY}&v=1",
                "--header", "Authorization: Bearer ${ONE_TOKEN}", "--api-key", "${ONE_API_KEY_2}",
                "--keyboard=us", "--token=${ONE_TOKEN_2}", "${ONE_TOKEN_3}",
            ],
            "env": {"API_KEY": "${API_KEY}", "PORT": "8080", "PATH_LIKE": "/bin"},
        },
        "other": {"command": ["run"], "env": {"API_KEY": "${OTHER_API_KEY}"}},
        "same": {"command": ["run"], "env": {"API_KEY": "${API_KEY}"}},
    }  # fmt: skip
    told = "env.API_KEY is a secret and was not copied: set the environment variable"
    assert f"note: other: {told} OTHER_API_KEY\n" in done.err


def test_only_this_project_and_the_users_own_are_taken_from_claude_code(workspace, spindle, tmp_path):
    data = {
        "numStartups": 7,
        "mcpServers": {"web": {"type": "http", "url": "https://x/mcp"}},
        "projects": {
            str(workspace.root): {"mcpServers": {"here": {"type": "stdio", "command": "a"}}},
            "/elsewhere": {
                "mcpServers": {"there": {"command": "b"}, "old": {"type": "sse", "url": "https://y"}}
            },
            "/empty": {},
            "/odd": {"mcpServers": []},
        },
    }
    file = tmp_path / "home" / ".claude.json"
    file.write_text(json.dumps(data))
    done = spindle("import")
    assert done.code == 0
    assert sources(workspace.root) == {
        "web": {"url": "https://x/mcp", "transport": "http"},
        "here": {"command": ["a"]},
    }
    assert done.out == f"web\tadded\t{file}\nhere\tadded\t{file}\n"
    assert (
        f"note: left out of {file}, because they belong to another project, /elsewhere: there, old\n"
        in done.err
    )
    told = {item["name"]: item["status"] for item in spindle("import", "--json").json["servers"]}
    assert told == {"web": "there already", "here": "there already", "there": "left out", "old": "left out"}


@pytest.mark.parametrize("place", ["home", "project"])
def test_what_claude_code_has_switched_off_is_left_out(workspace, spindle, tmp_path, place):
    workspace.write(".mcp.json", '{"mcpServers": {"on": {"command": "a"}, "off": {"command": "b"}}}')
    off = {"disabledMcpjsonServers": ["off"]}
    if place == "home":
        settings = {"projects": {str(workspace.root): off, "/other": {"disabledMcpjsonServers": ["on"]}}}
        (tmp_path / "home" / ".claude.json").write_text(json.dumps(settings))
    else:
        workspace.write(".claude/settings.local.json", json.dumps(off))
    done = spindle("import")
    assert done.code == 0
    assert list(sources(workspace.root)) == ["on"]
    assert "note: off: is switched off there\n" in done.err


def test_the_network_of_openagents_is_taken_over(workspace, spindle):
    home = workspace.root / "demo"
    (home / "tools").mkdir(parents=True)
    (home / "events").mkdir()
    (home / "instructions.md").write_text("Search first.")
    file = shutil.copy(SAMPLES / "network.yaml", home / "network.yaml")
    done = spindle("import", str(file))
    assert done.code == 0, done.err
    written = tomllib.loads((workspace.root / "spindle.toml").read_text())
    assert written["sources"] == {
        "demo-tools": {"kind": "python", "path": "demo/tools", "prefix": False},
        "demo-events": {"kind": "events", "path": "demo/events", "prefix": False},
    }
    assert written["serve"] == {
        "default_agent_group": "guest",
        "auth_token_env": "MCP_AUTH_TOKEN",
        "instruction": str(home / "instructions.md"),
        "exposed_tools": ["search_web", "delegate_task"],
        "excluded_tools": ["admin_reset"],
    }
    assert "secret-token" not in (workspace.root / "spindle.toml").read_text() + done.err
    assert "set the environment variable MCP_AUTH_TOKEN" in done.err
    again = spindle("import", str(file))
    assert again.code == 0
    assert "already has [serve]; this was not taken over: default_agent_group = 'guest'" in again.err
    beside = spindle("-w", str(home), "import", str(file), "--json").json
    assert [(item["name"], item["status"]) for item in beside["servers"]] == [
        ("tools", "left out"),
        ("events", "left out"),
    ]


def test_a_network_may_have_only_folders_or_only_mods(workspace, spindle):
    file = workspace.write("demo/network.yaml", "network:\n  name: demo\n  mods:\n    - name: a\n")
    (file.parent / "tools").mkdir()
    done = spindle("import", str(file))
    assert list(sources(workspace.root)) == ["demo-tools"]
    assert "note: its mods are not taken over" in done.err
    bare = workspace.write("bare/network.yaml", "network: {name: bare}\n")
    done = spindle("import", str(bare))
    assert done.code == 2
    assert f"{bare} has no `external_access`, and no folder tools/ or events/ is beside it" in done.err


@pytest.mark.parametrize(
    ("access", "message"),
    [
        ("[]", "`external_access` must be an object"),
        ("{auth_token: 5}", "external_access.auth_token must be text"),
        ("{exposed_tools: all}", "external_access.exposed_tools must be a list of names"),
    ],
)
def test_a_network_of_the_wrong_shape_says_so(workspace, spindle, access, message):
    file = workspace.write("network.yaml", f"external_access: {access}\n")
    done = spindle("import", str(file))
    assert (done.code, done.out) == (2, "")
    assert f"{file}: {message}" in done.err


def test_the_usual_places_are_looked_at(workspace, spindle, tmp_path):
    home = tmp_path / "home"
    config = home / ("Library/Application Support" if sys.platform == "darwin" else ".config")
    places = [
        workspace.root / ".mcp.json",
        workspace.root / ".cursor/mcp.json",
        workspace.root / ".gemini/settings.json",
        home / ".claude.json",
        home / ".cursor/mcp.json",
        home / ".codeium/windsurf/mcp_config.json",
        home / ".gemini/settings.json",
        home / ".pflow/mcp-servers.json",
        config / "Claude/claude_desktop_config.json",
    ]
    for number, place in enumerate(places):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({"mcpServers": {f"s{number}": {"command": "run"}}}))
    for name, sample in (
        ("vscode", "vscode.json"),
        ("codex", "codex.toml"),
        ("goose", "goose.yaml"),
        ("zed", "zed.json"),
    ):
        file = CLIENTS[name].file(workspace.root)
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLES / sample, file)
    assert spindle("import").code == 0
    found = sources(workspace.root)
    assert {f"s{number}" for number in range(len(places))} < set(found)
    assert {"local", "context", "fetch", "older"} < set(found)


def test_a_file_that_was_only_looked_for_does_not_keep_back_the_others(workspace, spindle, tmp_path):
    (tmp_path / "home" / ".claude.json").write_text('{"mcpServers": {\n  oops')
    (tmp_path / "home" / ".gemini").mkdir()
    (tmp_path / "home" / ".gemini" / "settings.json").write_text('{"theme": "dark"}')
    workspace.write(".mcp.json", '{"mcpServers": {"good": {"command": "run"}}}')
    done = spindle("import")
    assert done.code == 2
    assert list(sources(workspace.root)) == ["good"]
    assert f"note: not read: {tmp_path / 'home' / '.claude.json'} is not valid JSON: " in done.err
    assert "in line 2, column 3" in done.err
    assert ".gemini" not in done.err


def test_nothing_found_is_said(workspace, spindle):
    done = spindle("import")
    assert done.code == 0
    assert done.err == "note: no settings of other programs with MCP servers were found; name a FILE\n"


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
        "good": {"command": "run", "envFile": ".env"},
        "odd": {"command": "run", "env": {"A": "${command:z}"}},
    }
    done = spindle("import", str(workspace.write("m.json", json.dumps({"mcpServers": servers}))))
    assert done.code == 0
    assert list(sources(workspace.root)) == ["good", "odd"]
    for note in (
        "note: ws: its transport 'ws' is not supported",
        "note: empty: has neither `command` nor `url`",
        "note: text: is not an object",
        "sources.bad.url: must begin with http:// or https://",
        "note: good: its envFile '.env' is not read: put its variables under `env`",
        "note: odd: ${command:z} is not known here and stays as it is",
    ):
        assert note in done.err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", b"{", "is not valid JSON: Expecting property name"),
        ("x.json", b'{"mcpServers": {\n // c\n "a": }}', "in line 3, column 7"),
        ("x.json", b"[" * 100_000, "is not valid JSON: it is nested too deeply"),
        ("x.json", b"{" + b"/* " * 300_000, "is not valid JSON: Expecting property name"),
        ("x.json", b'"text"', "must hold an object with the servers"),
        ("x.json", b"{}", "holds no servers: none of `mcpServers`, `servers`"),
        ("x.json", b'{"mcpServers": []}', "`mcpServers` must hold the servers by their names"),
        ("x.json", b'{"mcpServers": {"a": "\xff"}}', "is not valid UTF-8: byte 23, in line 1"),
        ("x.toml", b"[mcp_servers\n", "is not valid TOML: "),
        ("x.toml", b"mcp_servers = 5\n", "`mcp_servers` must hold the servers by their names"),
        ("x.yaml", b"extensions: [\n", "is not valid YAML: "),
        ("x.yaml", b"a: 1\na: 2\n", "in line 2"),
        ("x.yaml", b"- 1\n- 2\n", "holds no servers"),
    ],
)
def test_a_file_that_is_none_of_these_is_a_mistake(workspace, spindle, name, content, message):
    file = workspace.root / name
    file.write_bytes(content)
    workspace.write("good.json", '{"mcpServers": {"good": {"command": "run"}}}')
    done = spindle("import", "good.json", str(file))
    assert (done.code, done.out) == (2, "")
    assert f"spindle: {file}" in done.err
    assert message in done.err
    assert "Traceback" not in done.err
    # Everything is read before anything is written.
    assert sources(workspace.root) == {}


def test_what_is_no_file_is_a_mistake(workspace, spindle, monkeypatch):
    done = spindle("import", "nothing.json")
    assert (done.code, done.err) == (2, "spindle: cannot read nothing.json: No such file or directory\n")
    done = spindle("import", ".")
    assert done.code == 2
    assert "spindle: . is a folder" in done.err
    assert "hint: name the settings file in it" in done.err
    done = spindle("import", "/dev/zero")
    assert (done.code, done.err) == (2, "spindle: /dev/zero is not a file\n")
    monkeypatch.setattr("spindle.cli.client_files.MAX_SIZE", 1024 * 1024)
    workspace.write("huge.json", "[" + " " * 1024 * 1024)
    done = spindle("import", "huge.json")
    assert done.code == 2
    assert "huge.json is larger than 1 MiB" in done.err


@pytest.mark.parametrize(
    ("name", "legal"), [("a b", "a-b"), ("9", "server-9"), ("!", "server"), ("tools", "tools-server")]
)
def test_names_are_made_legal(tmp_path, name, legal):
    file = tmp_path / "m.json"
    file.write_text(json.dumps({"mcpServers": {name: {"command": "x"}}}))
    (server,) = read_settings(file, tmp_path, SecretVariables()).servers
    assert server.name == legal


# --- never itself


def test_install_import_and_sync_leave_the_workspace_as_it_was(workspace, spindle):
    workspace.write(
        "tools/own.py",
        'from spindle import tool\n\n\n@tool\ndef own() -> str:\n    """Own."""\n    return "x"\n',
    )
    for client in CLIENTS:
        assert spindle("install", client).code == 0
    for _ in range(2):
        done = spindle("import")
        assert done.code == 0
        assert "note: spindle: is this workspace itself, which cannot be its own source\n" in done.err
        assert spindle("sync").code == 0
        assert spindle("tools", "--json").json[0]["name"] == "own"
        assert len(spindle("tools", "--json").json) == 1
    assert sources(workspace.root) == {}


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "spindle", "args": ["serve", "--stdio"]},
        {"command": "/x/bin/spindle", "args": ["-w", "HERE", "serve", "--stdio"]},
        {"command": "python3", "args": ["-m", "spindle", "--workspace=HERE", "serve", "--stdio"]},
        {"command": "uvx", "args": ["--from", "spindle-tools", "spindle", "-wHERE", "serve", "--stdio"]},
        {"command": "spindle", "args": ["-w", "HERE/spindle.toml", "serve", "--stdio"]},
        {
            "command": "spindle",
            "args": ["serve", "--stdio"],
            "env": {"SPINDLE_WORKSPACE": "HERE"},
            "cwd": "/",
        },
        {"command": "spindle", "args": ["-w", ".", "serve", "--stdio"], "cwd": "HERE/deep/.."},
        {"url": "http://127.0.0.1:8321/mcp"},
        {"type": "http", "url": "http://localhost:8321/mcp/"},
    ],
)
def test_an_entry_for_this_workspace_is_recognised(workspace, spindle, entry):
    (workspace.root / "deep").mkdir()
    here = json.dumps({"mcpServers": {"me": entry}}).replace("HERE", str(workspace.root))
    done = spindle("import", str(workspace.write("m.json", here)), "--json")
    (server,) = done.json["servers"]
    assert server["status"] == "left out"
    assert "this workspace itself" in server["notes"][0]


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "spindle", "args": ["-w", "/elsewhere", "serve", "--stdio"]},
        {"command": "spindle", "args": ["serve", "--stdio"], "cwd": "/"},
        {"command": "spindle-other", "args": ["serve"]},
        {"command": "spindle", "args": ["tools"]},
        {"url": "http://127.0.0.1:8322/mcp"},
        {"url": "http://other.example:8321/mcp"},
    ],
)
def test_another_workspace_is_a_source_like_any(workspace, spindle, entry):
    done = spindle(
        "import", str(workspace.write("m.json", json.dumps({"mcpServers": {"a": entry}}))), "--json"
    )
    assert done.json["servers"][0]["status"] == "added"


def test_what_is_not_recognised_is_found_when_it_runs(workspace, spindle):
    shell = f"exec {warm.SPINDLE} -w {workspace.root} serve --stdio --trust"
    entry = {"command": "sh", "args": ["-c", shell]}
    file = workspace.write("m.json", json.dumps({"mcpServers": {"me": entry}}))
    done = spindle("import", str(file), "--sync")
    assert done.code == 2
    assert "me leads in a circle, back to a workspace that the request came through" in done.out + done.err
    assert spindle("tools", "--json").json == []
