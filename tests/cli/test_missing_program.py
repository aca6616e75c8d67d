"""A program that is not there is said so, with the ways to get it, and is added only if the user wants it."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli.test_terminal import Terminal, plain


def sources(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "spindle.toml").read_text()).get("sources", {})


class Registry:
    """The registries of PyPI and npm, with one package each."""

    def __init__(self, url: str) -> None:
        self.asked: list[str] = []
        self.environment = {"UV_DEFAULT_INDEX": f"{url}/simple", "npm_config_registry": f"{url}/npm/"}


@pytest.fixture
def registry() -> Iterator[Registry]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            known = self.path in ("/simple/my-time-server/", "/npm/my_npm_server")
            self.send_response(200 if known else 404)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Registry(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found
        server.shutdown()


@pytest.fixture
def launchers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with uvx and npx, and little else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("uvx", "npx"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("time", ["no-such-time-server", "--local-timezone", "UTC"]),
        ("memory", ["docker-not-here", "run", "memory"]),
        ("anything", ["no-such-program"]),
    ],
)
def test_without_a_terminal_nothing_is_written_and_the_ways_are_named(workspace, spindle, name, command):
    done = spindle("add", name, "--", *command)
    words = " ".join(command)
    assert done.code == 3
    assert done.err == (
        f"spindle: {command[0]!r} is not on PATH\n"
        f"  hint: if it is a package, let a launcher fetch it: `uvx {words}` (PyPI) or `npx -y {words}` "
        f"(npm), or install it: `pipx install {command[0]}`; --yes adds it as it is\n"
    )
    assert sources(workspace.root) == {}
    assert spindle("add", name, "--json", "--", *command).json["error"]["category"] == "not_found"


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["docker", "run", "x"], "install Docker"),
        (["npx", "-y", "x"], "it comes with Node.js"),
        (["./server.sh"], "install it, or correct its path"),
        (["/no/such/program"], "install it, or correct its path"),
        (["a b; rm -rf ~"], "install it, or correct its path"),
    ],
)
def test_the_hint_fits_the_program(workspace, spindle, monkeypatch, tmp_path, command, hint):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = spindle("add", "x", "--no-sync", "--", *command)
    assert done.code == 3
    assert f"  hint: {hint}" in done.err


def test_a_program_is_looked_for_where_it_will_be_started(workspace, spindle, tmp_path):
    script = workspace.write("server.sh", "#!/bin/sh\n")
    assert spindle("add", "a", "--no-sync", "--", "./server.sh").code == 3
    script.chmod(0o755)
    assert spindle("add", "a", "--no-sync", "--", "./server.sh").code == 0
    assert spindle("add", "b", "--no-sync", "--", "server.sh").code == 3
    words = ["--env", f"PATH={workspace.root}", "--", "server.sh"]
    assert spindle("add", "b", "--no-sync", *words).code == 0
    assert spindle("add", "c", "--no-sync", "--", "${SERVER}").code == 0


def test_a_program_beside_spindle_is_found_in_an_environment_that_is_not_activated(
    workspace, spindle, monkeypatch, tmp_path
):
    monkeypatch.setattr("sys.executable", str(workspace.root / "python"))
    workspace.write("my-server", "#!/bin/sh\n").chmod(0o755)
    done = spindle("add", "x", "--no-sync", "--", "my-server")
    assert done.code == 3
    assert f"  hint: it is installed as {workspace.root / 'my-server'}: give that path; --yes" in done.err


def test_at_a_terminal_the_registries_are_asked_and_the_user_chooses(workspace, registry, launchers):
    words = ["add", "time", "--no-sync", "--no-pin", "--", "my-time-server", "--zone", "a b"]
    terminal = Terminal(*words, **registry.environment)
    terminal.read_until("Enter for none) ")
    terminal.write("1\n")
    seen = plain(terminal.read_all())
    assert "spindle: 'my-time-server' is not on PATH" in seen
    assert "PyPI has a package of that name: uvx my-time-server --zone 'a b'" in seen
    assert "npm has" not in seen
    assert "  1  uvx my-time-server --zone 'a b'\n  2  my-time-server --zone 'a b'\n" in seen
    assert sources(workspace.root) == {"time": {"command": ["uvx", "my-time-server", "--zone", "a b"]}}
    assert sorted(registry.asked) == ["/npm/my-time-server", "/simple/my-time-server/"]


def test_at_a_terminal_the_command_may_be_added_as_typed_or_not_at_all(workspace, registry, launchers):
    for answer, found in (("2\n", {"x": {"command": ["My_npm_server"]}}), ("\n", {})):
        (workspace.root / "spindle.toml").write_text("")
        terminal = Terminal(
            "add", "x", "--no-sync", "--no-pin", "--", "My_npm_server", **registry.environment
        )
        terminal.read_until("Enter for none) ")
        terminal.write(answer)
        seen = terminal.read_all()
        assert "npm has a package of that name: npx -y My_npm_server" in seen
        assert sources(workspace.root) == found
    assert "nothing was added" in seen
    assert terminal.process.returncode == 3


def test_registries_that_cannot_be_reached_are_no_obstacle(workspace, launchers):
    nowhere = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "npm_config_registry": "http://127.0.0.1:9"}
    terminal = Terminal("add", "x", "--no-sync", "--no-pin", "--", "my-time-server", **nowhere)
    terminal.read_until("add it anyway? [y/N] ")
    terminal.write("y\n")
    assert "if it is a package" in terminal.read_all()
    assert sources(workspace.root) == {"x": {"command": ["my-time-server"]}}
