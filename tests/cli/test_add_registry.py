"""`spindle add io.github.owner/name`: every type of package, inputs, secrets, hashes, and hostile entries."""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import sqlite3
import stat
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.test_terminal import Terminal, plain
from servers.oauth import MODULES
from servers.registry import Registry, answer, running_registry
from servers.running import program
from servers.shell import MINI_SERVER
from spindle.registry import hashes

RUNNERS = ("npx", "uvx", "docker", "dnx")
SECRET = "pat-very-secret-123"


@pytest.fixture(scope="module")
def server() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


@pytest.fixture
def registry(server: Registry, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry that the workspace knows, on a machine that has programs to start every type of package.
    What they start is one small server, which writes down how it was started."""
    (folder / "spindle.toml").write_text(f'[registries.test]\nurl = "{server.url}"\n')
    programs, server_folder = folder.parent / "bin", folder.parent / "server"
    programs.mkdir()
    server_folder.mkdir()
    (server_folder / "tools.json").write_text(
        json.dumps([{"name": "echo", "description": "Echo.", "inputSchema": {"type": "object"}}])
    )
    python = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(MINI_SERVER))} {server_folder}/tools.json"
    for name in RUNNERS:
        write = f'printf "%s\\n" "{name}" "$@" > {server_folder}/argv; env > {server_folder}/env\n'
        (programs / name).write_text(f"#!/bin/sh\n{write}exec {python}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    entries = list(server.entries)
    yield server
    server.entries[:] = entries
    server.instead.clear()
    server.status.clear()
    server.seen.clear()


def source(name: str) -> dict[str, Any]:
    return tomllib.loads(Path("spindle.toml").read_text())["sources"][name]


def started(folder: Path) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment with which the server was started."""
    place = folder.parent / "server"
    lines = (line.partition("=") for line in (place / "env").read_text().splitlines())
    return (place / "argv").read_text().splitlines(), {name: value for name, _, value in lines}


def package(**fields: Any) -> dict[str, Any]:
    return {
        "registryType": "npm",
        "identifier": "pack",
        "version": "1.2.3",
        "transport": {"type": "stdio"},
        **fields,
    }


# --- every type


@pytest.mark.parametrize(
    ("server_name", "words", "name", "expected"),
    [
        ("io.github.domdomegg/time-mcp-nuget", [], "time-mcp-nuget", ["dnx", "--yes", "TimeMcpServer@1.0.8"]),
        ("io.github.domdomegg/time-mcp-pypi@1.0.6", [], "time-mcp-pypi", ["uvx", "time-mcp-pypi@1.0.6"]),
        (
            "io.github.domdomegg/airtable-mcp-server",
            ["--input", "AIRTABLE_API_KEY=${AIRTABLE}"],
            "airtable",
            ["npx", "-y", "airtable-mcp-server@1.7.2"],
        ),
        (
            "io.github.domdomegg/airtable-mcp-server",
            ["tables", "--as", "oci", "--input", "AIRTABLE_API_KEY=${AIRTABLE}"],
            "tables",
            [
                "docker",
                "run",
                "-i",
                "--rm",
                "-e",
                "AIRTABLE_API_KEY",
                "docker.io/domdomegg/airtable-mcp-server:1.7.2",
            ],
        ),
        (
            "io.github.mindstone/mcp-server-microsoft-sharepoint",
            ["--input", "MS_CLIENT_ID=me", "--input", "MS_CONFIG_DIR=/srv/ms"],
            "microsoft-sharepoint",
            ["npx", "-y", "@mindstone/mcp-server-microsoft-sharepoint@0.2.1"],
        ),
    ],
)
def test_a_recorded_package_is_pinned_and_started(
    registry, spindle, folder, monkeypatch, server_name, words, name, expected
):
    monkeypatch.setenv("AIRTABLE", SECRET)
    done = spindle("add", server_name, *words)
    assert done.code == 0, done.err
    assert source(name)["command"] == expected
    assert f"runs:  {shlex.join(expected)}" in done.err
    assert f"{name}: 1 tool, 1 added" in done.out
    argv, env = started(folder)
    assert argv == expected
    if name in ("airtable", "tables"):
        assert env["AIRTABLE_API_KEY"] == SECRET
        assert source(name)["env"] == {"AIRTABLE_API_KEY": "${AIRTABLE}"}
        assert SECRET not in done.out + done.err + Path("spindle.toml").read_text()
    if name == "microsoft-sharepoint":
        assert env["MS_CONFIG_DIR"] == "/srv/ms"
        assert env["MICROSOFT_REQUEST_TIMEOUT_MS"] == "60000"
        assert "MS_ACCOUNT_EMAIL" not in env


def test_a_container_gets_its_variables_by_name_and_its_ports_only_after_a_yes(registry, spindle, folder):
    words = ["add", "io.github.github/github-mcp-server", "--as", "oci"]
    done = spindle(*words)
    assert done.code == 2
    assert "opens your machine to a container: -p 127.0.0.1:8085:8085" in done.err
    done = spindle(*words, "--yes", "--input", "token=${HOME}")
    assert done.code == 0, done.err
    assert source("github")["command"] == [
        "docker",
        "run",
        "-i",
        "--rm",
        "-p",
        "127.0.0.1:8085:8085",
        "-e",
        "GITHUB_OAUTH_CALLBACK_PORT",
        "-e",
        "GITHUB_PERSONAL_ACCESS_TOKEN",
        "ghcr.io/github/github-mcp-server:1.12.2",
    ]
    assert started(folder)[1]["GITHUB_OAUTH_CALLBACK_PORT"] == "8085"


def test_a_remote_server_is_written_with_its_transport_and_variables(registry, spindle):
    done = spindle("add", "io.github.0xDanielLopez/phishunt", "--no-sync")
    assert done.code == 0, done.err
    assert source("phishunt")["url"] == "https://mcp.phishunt.io/"
    assert source("phishunt")["transport"] == "http"
    done = spindle("add", "com.microsoft/workiq-teamsserver", "--no-sync")
    assert done.code == 2
    assert "values are missing: tenant_id (Microsoft Entra tenant ID)" in done.err
    done = spindle(
        "add", "com.microsoft/workiq-teamsserver", "teams", "--no-sync", "--input", "tenant_id=t-1"
    )
    assert done.code == 0, done.err
    assert source("teams")["url"].endswith("/tenants/t-1/servers/mcp_TeamsServer")


def test_a_runner_that_is_not_here_is_said_with_how_to_get_it(registry, spindle, monkeypatch, folder):
    monkeypatch.setenv("PATH", "/nowhere")
    done = spindle("add", "io.github.domdomegg/time-mcp-nuget")
    assert done.code == 2
    assert "nuget: dnx is not on this machine: install the .NET SDK 10" in done.err
    done = spindle("add", "io.github.domdomegg/airtable-mcp-server", "--as", "npm")
    assert "npx is not on this machine: install Node.js" in done.err
    # One that can be used is chosen before one that cannot.
    done = spindle("add", "io.github.github/github-mcp-server", "--no-sync")
    assert (done.code, source("github")["url"]) == (0, "https://api.githubcopilot.com/mcp/")


def test_what_cannot_be_started_says_why(registry, spindle):
    registry.add("io.x/crate", packages=[package(registryType="cargo", identifier="unbrowser")])
    assert "cargo install unbrowser --version 1.2.3" in spindle("add", "io.x/crate").err
    registry.add(
        "io.x/port", packages=[package(transport={"type": "streamable-http", "url": "http://localhost:1"})]
    )
    assert "answers over HTTP on a port of its own" in spindle("add", "io.x/port").err
    registry.add("io.x/none")
    assert "has neither a package nor a remote server" in spindle("add", "io.x/none").err
    registry.add("io.x/new", packages=[package(registryType="conda")])
    assert "packages of type 'conda' are not known" in spindle("add", "io.x/new").err
    done = spindle("add", "io.x/crate", "--as", "npm")
    assert (done.code, "has no npm" in done.err, "it has cargo" in done.err) == (2, True, True)


# --- inputs and secrets


@pytest.fixture
def typed(registry):
    registry.add(
        "io.x/typed",
        packages=[
            package(
                environmentVariables=[
                    {"name": "API_KEY", "isRequired": True, "isSecret": True, "description": "From the page"},
                    {"name": "MODE", "choices": ["fast", "slow"], "isRequired": True},
                ],
                packageArguments=[
                    {"type": "named", "name": "--port", "format": "number", "default": "80"},
                    {"type": "named", "name": "--stdio"},
                    {"type": "named", "name": "--loud", "format": "boolean", "value": "true"},
                    {"type": "positional", "valueHint": "folder", "isRequired": True, "isRepeated": True},
                ],
            )
        ],
    )
    return registry


def test_a_person_at_a_terminal_is_asked_and_secrets_are_sealed(typed, spindle, folder):
    terminal = Terminal("add", "io.x/typed")
    terminal.read_until("API_KEY (not shown): ")
    terminal.write(f"{SECRET}\n")
    terminal.read_until("MODE: ")
    terminal.write("wild\n")
    terminal.read_until("it must be one of fast, slow")
    terminal.write("fast\n")
    terminal.read_until("folder: ")
    terminal.write("/srv/data\n")
    terminal.read_until("add it? [Y/n] ")
    terminal.write("\n")
    terminal.read_until("until you accept them? [Y/n] ")
    terminal.write("\n")
    seen = plain(terminal.read_all())
    assert terminal.process.returncode == 0, seen
    assert SECRET not in seen
    assert "typed is pinned: `spindle sync typed --accept-all` accepts changes" in seen
    assert source("typed")["pinned"] is True
    assert "with:  API_KEY=(sealed)" in seen
    assert source("typed")["env"] == {"API_KEY": "${secret:typed.API_KEY}", "MODE": "fast"}
    assert source("typed")["command"][3:] == ["--port", "80", "--stdio", "--loud", "/srv/data"]
    assert started(folder)[1]["API_KEY"] == SECRET
    for path in (file for file in folder.rglob("*") if file.is_file()):
        assert SECRET.encode() not in path.read_bytes(), path
    # It serves calls, and what it says of itself never shows the secret.
    assert spindle("call", "typed.echo").code == 0
    assert spindle("doctor").code == 0
    spindle("remove", "typed")
    with sqlite3.connect(folder / ".spindle/state.db") as db:
        assert db.execute("SELECT count(*) FROM secrets").fetchone() == (0,)


def test_a_person_can_say_no(typed, folder):
    terminal = Terminal(
        "add", "io.x/typed", "--input", "MODE=fast", "--input", "folder=x", "--input", "API_KEY=${K}"
    )
    terminal.read_until("add it? [Y/n] ")
    terminal.write("n\n")
    assert "nothing was added" in terminal.read_all()
    assert terminal.process.returncode == 130
    assert "typed" not in Path("spindle.toml").read_text()


def test_inputs_come_from_flags_where_there_is_no_terminal(typed, spindle, monkeypatch, folder):
    monkeypatch.setenv("TYPED_KEY", SECRET)
    inputs = ["API_KEY=${TYPED_KEY}", "MODE=slow", "folder=a", "folder=b", "port=81"]
    done = spindle("add", "io.x/typed", *(word for item in inputs for word in ("--input", item)), "--json")
    assert done.code == 0, done.err
    assert done.json["source"] == "typed"
    assert source("typed")["command"][3:] == ["--port", "81", "--stdio", "--loud", "a", "b"]
    assert started(folder)[1]["API_KEY"] == SECRET


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ([], "values are missing: API_KEY (From the page), MODE, folder"),
        (["API_KEY=clear"], "API_KEY is a secret, and others can read what stands on a command line"),
        (["MOD=fast"], "did you mean 'MODE'?"),
        (["MODE=wild"], "the input MODE must be one of fast, slow"),
        (["port=many"], "the input port must be a number"),
        (["MODE=fast", "MODE=slow"], "the input MODE was given more than once"),
        (["MODE"], "--input 'MODE' is not of the form KEY=VALUE"),
    ],
)
def test_a_wrong_input_is_one_clear_sentence(typed, spindle, inputs, said):
    done = spindle("add", "io.x/typed", *(word for item in inputs for word in ("--input", item)))
    assert done.code in (2, 4)
    assert said in done.err
    assert "typed" not in Path("spindle.toml").read_text()


def test_a_missing_secret_is_named(typed, spindle):
    Path("spindle.toml").write_text('[sources.x]\ncommand = ["x"]\nenv = { K = "${secret:x.KEY}" }\n')
    done = spindle("sync")
    assert done.code == 2
    assert "the secret x.KEY is not in the store of this workspace, but sources.x.env.K uses it" in done.err
    assert "the secret x.KEY is not in the store" in spindle("doctor").out


def test_a_secret_argument_is_refused(registry, spindle):
    registry.add(
        "io.x/argv",
        packages=[
            package(
                packageArguments=[{"type": "named", "name": "--key", "isSecret": True, "isRequired": True}]
            )
        ],
    )
    done = spindle("add", "io.x/argv", "--input", "key=${KEY}")
    assert done.code == 2
    assert "wants the secret key as an argument, where everybody on this machine can read it" in done.err


def test_two_sources_do_not_share_a_name(registry, spindle):
    assert spindle("add", "io.github.0xDanielLopez/phishunt", "--no-sync").code == 0
    done = spindle("add", "io.github.0xDanielLopez/phishunt", "--no-sync")
    assert (done.code, "already has a source 'phishunt'" in done.err) == (2, True)
    assert spindle("add", "io.github.0xDanielLopez/phishunt", "--no-sync", "--replace").code == 0


def test_a_deprecated_server_is_noted_and_a_deleted_one_refused(registry, spindle):
    registry.status["io.github.0xDanielLopez/phishunt"] = "deprecated"
    done = spindle("add", "io.github.0xDanielLopez/phishunt", "--no-sync")
    assert (done.code, "phishunt@0.1.0 is deprecated" in done.err) == (0, True)
    registry.status["io.github.0xDanielLopez/phishunt"] = "deleted"
    assert "was deleted" in spindle("add", "io.github.0xDanielLopez/phishunt", "two", "--no-sync").err


# --- hostile entries


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"identifier": "--call=evil"}, "is not the name of a package"),
        ({"identifier": "pack;rm -rf"}, "is not the name of a package"),
        ({"version": "--call"}, "is not one exact version"),
        ({"version": "^1.0.0"}, "is not one exact version"),
        ({"version": "latest"}, "is not one exact version"),
        ({"version": None}, "does not say which version of pack"),
        (
            {"registryBaseUrl": "https://npm.evil.example"},
            "is not published at registry.npmjs.org but at npm.evil",
        ),
        (
            {"runtimeArguments": [{"type": "named", "name": "--call", "value": "evil"}]},
            "could make it run something",
        ),
        (
            {"runtimeArguments": [{"type": "positional", "value": "--package=evil"}]},
            "could make it run something",
        ),
        ({"environmentVariables": [{"name": "npm_config_registry", "value": "x"}]}, "decides what npx runs"),
        ({"environmentVariables": [{"name": "NODE_OPTIONS", "value": "-r x"}]}, "decides what npx runs"),
        (
            {"environmentVariables": [{"name": "A=B", "value": "x"}]},
            "is not the name of an environment variable",
        ),
        ({"environmentVariables": [{"name": "A", "value": "${HOME}"}]}, "refers to the user's settings"),
        (
            {"environmentVariables": [{"name": "A", "default": "${secret:other.KEY}"}]},
            "refers to the user's settings",
        ),
        (
            {
                "environmentVariables": [
                    {"name": "A", "value": "{d}{secret:o.K}", "variables": {"d": {"value": "$"}}}
                ]
            },
            "refers to the user's settings",
        ),
        ({"packageArguments": [{"type": "positional", "value": "a\x1b[2Jb"}]}, "has control characters"),
        ({"packageArguments": [{"type": "named", "name": "--a b"}]}, "is not the name of an option"),
        (
            {
                "registryType": "oci",
                "identifier": "evil/image:1.0",
                "runtimeArguments": [{"type": "named", "name": "--privileged"}],
            },
            "the option --privileged, which is not accepted",
        ),
        (
            {
                "registryType": "oci",
                "identifier": "evil/image:1.0",
                "runtimeArguments": [{"type": "positional", "value": "--privileged"}],
            },
            "the word '--privileged', which is not accepted",
        ),
        (
            {
                "registryType": "oci",
                "identifier": "evil/image:1.0",
                "runtimeArguments": [{"type": "named", "name": "-e", "value": "DOCKER_HOST=tcp://evil"}],
            },
            "DOCKER_HOST, which decides what docker runs",
        ),
        ({"registryType": "oci", "identifier": "evil/image:latest", "version": None}, "has no exact version"),
        (
            {
                "registryType": "pypi",
                "runtimeArguments": [{"type": "named", "name": "--from", "value": "git+https://evil"}],
            },
            "could make it run something",
        ),
        (
            {"registryType": "mcpb", "identifier": "http://169.254.169.254/x.mcpb", "fileSha256": "0" * 63},
            "is not a SHA-256",
        ),
        ({"registryType": "mcpb", "identifier": "https://x.example/x.mcpb"}, "has no `fileSha256`"),
    ],
)
def test_an_entry_cannot_make_us_run_anything_else(registry, spindle, fields, said):
    registry.add(
        "io.x/evil", packages=[{key: value for key, value in package(**fields).items() if value is not None}]
    )
    done = spindle("add", "io.x/evil", "--yes")
    assert done.code in (2, 9), done.err
    assert said in done.err
    assert "\x1b" not in done.err
    assert "sources" not in Path("spindle.toml").read_text()


def test_an_argument_after_the_package_stays_an_argument(registry, spindle, folder):
    arguments = [{"type": "positional", "value": "--call"}, {"type": "positional", "value": "$(id)"}]
    registry.add("io.x/args", packages=[package(packageArguments=arguments)])
    assert spindle("add", "io.x/args").code == 0
    assert started(folder)[0] == ["npx", "-y", "pack@1.2.3", "--call", "$(id)"]


def test_extras_of_the_very_package_are_accepted(registry, spindle):
    fields = {
        "registryType": "pypi",
        "runtimeArguments": [{"type": "named", "name": "--from", "value": "pack[mcp]==1.2.3"}],
    }
    registry.add(
        "io.x/extras", packages=[package(packageArguments=[{"type": "positional", "value": "run"}], **fields)]
    )
    assert spindle("add", "io.x/extras").code == 0
    assert source("extras")["command"] == ["uvx", "--from", "pack[mcp]==1.2.3", "run"]


@pytest.mark.parametrize(
    "url", ["ftp://x", "https://a@b.example/", "http://mcp.example.com/", "javascript:1", "https://"]
)
def test_a_remote_server_must_have_an_address_that_can_be_trusted(registry, spindle, url):
    registry.add("io.x/remote", remotes=[{"type": "sse", "url": url}])
    assert spindle("add", "io.x/remote", "--no-sync").code == 2


# --- hashes and bundles


def bundle(manifest: dict[str, Any] | bytes | None = None, **files: str) -> bytes:
    made = io.BytesIO()
    usual = {
        "manifest_version": "0.3", "name": "mini", "version": "1.0.0",
        "server": {
            "type": "python", "entry_point": "server/main.py",
            "mcp_config": {
                "command": sys.executable,
                "args": [
                    *("-I", "-S", "${__dirname}/server/main.py", "${__dirname}/tools.json"),
                    "${user_config.level}",
                ],
                "env": {"MINI_KEY": "${user_config.key}", "UNSET": "${user_config.other}"},
            },
        },
        "user_config": {
            "key": {"type": "string", "title": "The key", "required": True, "sensitive": True},
            "level": {"type": "number", "default": 3},
            "other": {"type": "string"},
        },
    }  # fmt: skip
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        if manifest != b"":
            archive.writestr(
                "manifest.json", manifest if isinstance(manifest, bytes) else json.dumps(manifest or usual)
            )
        archive.writestr("server/main.py", MINI_SERVER.read_text())
        archive.writestr("tools.json", '[{"name": "echo", "inputSchema": {"type": "object"}}]')
        for name, text in files.items():
            archive.writestr(name, text)
    return made.getvalue()


def publish(registry: Registry, data: bytes, sha256: str | None = None) -> None:
    registry.instead["/files/mini.mcpb"] = answer(data)
    digest = sha256 or hashlib.sha256(data).hexdigest()
    registry.add(
        "io.x/mini",
        packages=[
            {"registryType": "mcpb", "identifier": f"{registry.url}/files/mini.mcpb", "fileSha256": digest}
        ],
    )


def test_a_bundle_is_checked_unpacked_and_started(registry, spindle, monkeypatch, folder):
    monkeypatch.setenv("MINI_KEY_HERE", SECRET)
    publish(registry, bundle())
    done = spindle("add", "io.x/mini", "--input", "key=${MINI_KEY_HERE}")
    assert done.code == 0, done.err
    assert "mini: 1 tool" in done.out
    written = source("mini")
    place = Path(written["command"][3])
    assert (place.is_absolute(), place.is_file()) == (False, True)
    assert written["command"][-1] == "3"
    assert written["env"] == {"MINI_KEY": "${MINI_KEY_HERE}"}
    assert spindle("call", "mini.echo").code == 0
    assert [path.name for path in (folder / ".spindle/bundles").iterdir()] == [place.parts[2]]
    # Another user of the same bundle takes it from there; one who fails does not take it away.
    registry.instead["/files/mini.mcpb"] = answer(b"", 500)
    assert "values are missing: key (The key)" in spindle("add", "io.x/mini", "two").err
    assert spindle("add", "io.x/mini", "two", "--input", "key=${MINI_KEY_HERE}").code == 0


def test_a_bundle_with_another_hash_is_neither_unpacked_nor_run(registry, spindle, folder):
    publish(registry, bundle(), "f" * 64)
    done = spindle("add", "io.x/mini", "--input", "key=${K}")
    assert done.code == 9
    assert "is not the file that the entry describes: its SHA-256 is" in done.err
    assert list((folder / ".spindle/bundles").iterdir()) == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"no zip", "is not a zip that can be unpacked"),
        (bundle(b""), "the bundle has no manifest.json"),
        (bundle(b"{"), "manifest.json cannot be read"),
        (bundle(b"[]"), "does not say how it is started"),
        (bundle(b'{"server": {"mcp_config": {"command": "-x"}}}'), "names no program"),
        (
            bundle(b'{"server": {"mcp_config": {"command": "sh", "args": ["${secret:a.B}"]}}}'),
            "which it does not declare",
        ),
        (
            bundle(b'{"server": {"mcp_config": {"command": "x", "env": {"LD_PRELOAD": "y"}}}}'),
            "which it may not",
        ),
        (
            bundle(
                b'{"server": {"mcp_config": {"command": "sh", "args": ["${user_config.d}{secret:a.B}"]}},'
                b' "user_config": {"d": {"default": "$"}}}'
            ),
            "refers to the user's settings",
        ),
        (
            bundle(b'{"server": {"mcp_config": {"command": "x"}}, "compatibility": {"platforms": ["beos"]}}'),
            "the bundle is for beos",
        ),
        (bundle(**{"../out": "x"}), "a file outside of itself"),
        (bundle(**{"/etc/out": "x"}), "a file outside of itself"),
    ],
)
def test_a_hostile_bundle_leaves_nothing(registry, spindle, folder, data, said):
    publish(registry, data)
    done = spindle("add", "io.x/mini")
    assert done.code in (2, 9), done.err
    assert said in done.err
    assert list((folder / ".spindle/bundles").iterdir()) == []
    assert not (folder.parent / "out").exists()
    assert "sources" not in Path("spindle.toml").read_text()


def test_a_bundle_has_no_links(registry, spindle, folder):
    made = io.BytesIO(bundle())
    with zipfile.ZipFile(made, "a") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    publish(registry, made.getvalue())
    done = spindle("add", "io.x/mini", "--input", "key=${K}")
    assert "the bundle has a link: 'link'" in done.err
    assert list((folder / ".spindle/bundles").iterdir()) == []


@pytest.mark.parametrize("kind", ["npm", "nuget", "pypi"])
@pytest.mark.parametrize("right", [True, False])
def test_a_hash_of_any_package_is_checked_before_it_is_added(registry, spindle, monkeypatch, kind, right):
    data = b"the package"
    digest = hashlib.sha256(data if right else b"another").hexdigest()
    monkeypatch.setitem(hashes.PLACES, kind, registry.url)
    registry.instead["/pack/-/pack-1.2.3.tgz"] = answer(data)
    registry.instead["/v3-flatcontainer/pack/1.2.3/pack.1.2.3.nupkg"] = answer(data)
    published = [{"digests": {"sha256": hashlib.sha256(data).hexdigest()}}]
    registry.instead["/pypi/pack/1.2.3/json"] = answer({"urls": published})
    registry.add("io.x/hashed", packages=[package(registryType=kind, fileSha256=digest)])
    done = spindle("add", "io.x/hashed")
    assert done.code == (0 if right else 9), done.err
    assert ("hashed" in Path("spindle.toml").read_text()) is right


def test_a_hash_that_cannot_be_checked_is_refused(registry, spindle):
    registry.add(
        "io.x/image", packages=[package(registryType="oci", identifier="a/b:1.0", fileSha256="0" * 64)]
    )
    assert "which cannot be checked" in spindle("add", "io.x/image").err
    exact = f"a/b@sha256:{'0' * 64}"
    registry.add("io.x/digest", packages=[package(registryType="oci", identifier=exact, fileSha256="0" * 64)])
    assert spindle("add", "io.x/digest").code == 0
    assert source("digest")["command"][-1] == exact


def test_no_registry_is_asked_for_other_words(registry, spindle, workspace):
    workspace.write("specs/shop.json", "{}")
    for words in (["nothing-here"], ["specs/shop.json"], ["x", "--as", "npm"], ["x", "--", "io.x/y"]):
        assert spindle("add", *words).code in (2, 3)
    assert registry.seen == []
    done = spindle("add", "x", "https://example.com", "--input", "a=b")
    assert (done.code, "--input goes with a server of the MCP registry" in done.err) == (2, True)


def test_a_bundle_whose_program_is_not_here_says_so(registry, spindle, folder):
    publish(registry, bundle({"server": {"mcp_config": {"command": "node-not-here"}}}))
    done = spindle("add", "io.x/mini")
    assert (done.code, "is started by 'node-not-here', which is not on this machine" in done.err) == (2, True)
    assert list((folder / ".spindle/bundles").iterdir()) == []


# --- the real npx


@pytest.mark.npm
def test_npx_starts_the_very_package_and_takes_no_option_from_its_arguments(server, folder, spindle):
    program("npx")
    server.instead.clear()
    (folder / "spindle.toml").write_text(f'[registries.test]\nurl = "{server.url}"\n')
    (folder / "package.json").write_text("{}")
    (folder / "node_modules").symlink_to(MODULES)
    name = "@modelcontextprotocol/server-filesystem"
    version = json.loads((MODULES / name / "package.json").read_text())["version"]
    wanted = [{"type": "positional", "valueHint": "folder", "isRequired": True}]
    evil = [{"type": "positional", "value": word} for word in ("--call", "touch owned")]
    server.add("io.x/files", packages=[package(identifier=name, version=version, packageArguments=wanted)])
    server.add("io.x/evil-files", packages=[package(identifier=name, version=version, packageArguments=evil)])
    done = spindle("add", "io.x/files", "--input", f"folder={folder}")
    assert done.code == 0, done.err
    assert "files.list_directory" in spindle("tools").out
    done = spindle("add", "io.x/evil-files")
    assert done.code != 0
    assert "--call, skipping" in done.err
    assert not (folder / "owned").exists()
