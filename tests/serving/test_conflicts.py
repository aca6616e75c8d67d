"""Two tools of one name: nothing is served, and everybody says the same about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servers.rest import RestWorkspace
from servers.running import StdioServers

PYTHON = """
from spindle import tool
@tool
def echo() -> str:
    return "from Python"
"""
MOD = """
def echo() -> str:
    return "from a mod"
class {name}:
    def get_tools(self):
        return [echo]
"""
EVENTS = """
asyncapi: 3.0.0
info: {title: Orders, version: "1"}
channels:
  orders: {address: orders, messages: {order: {payload: {type: object}}}}
operations:
  echo: {action: send, channel: {$ref: "#/channels/orders"}, x-agent-tool: true}
"""
TWICE = {
    "tools/ twice": ("tools/one.py", "tools/two.py"),
    "tools/ and events/": ("tools/one.py", "events/orders.yaml"),
    "tools/ and mods/": ("tools/one.py", "mods/one.py"),
    "events/ twice": ("events/orders.yaml", "events/others.yaml"),
    "events/ and mods/": ("events/orders.yaml", "mods/one.py"),
    "mods/ twice": ("mods/one.py", "mods/two.py"),
    "tools/ and a configured source": ("tools/one.py", "sources.first"),
    "events/ and a configured source": ("events/orders.yaml", "sources.first"),
    "mods/ and a configured source": ("mods/one.py", "sources.first"),
    "two configured sources": ("sources.first", "sources.second"),
}


def write(root: Path, place: str, source: StdioServers) -> None:
    folder, _, name = place.partition("/")
    if not name:
        command = json.dumps(source()["command"])
        with (root / "spindle.toml").open("a") as file:
            file.write(f"[{place}]\ncommand = {command}\nprefix = false\ninclude = ['echo']\n")
        return
    (root / folder).mkdir(exist_ok=True)
    made = {"tools": PYTHON, "events": EVENTS, "mods": MOD.replace("{name}", Path(name).stem.title())}
    (root / place).write_text(made[folder])


def named(place: str) -> str:
    """How a message names it."""
    return place.removeprefix("sources.") if place.startswith("sources.") else Path(place).name


@pytest.fixture
def empty(rest: RestWorkspace) -> RestWorkspace:
    (rest.root / "tools" / "t.py").unlink()
    return rest


@pytest.mark.parametrize("which", list(TWICE))
def test_two_tools_of_one_name_stop_the_start_and_the_doctor_says_the_same(
    empty: RestWorkspace, stdio_server: StdioServers, which: str
) -> None:
    for place in TWICE[which]:
        write(empty.root, place, stdio_server)
    ways = (("--stdio",), ("--http", "--port", "0"), ("--rest", "--port", "0"))
    # One process each takes its time: all three ways where each is most used, one of them elsewhere.
    chosen = ways if which == "tools/ and events/" else ways[:1]
    for way in chosen:
        refused = empty.spindle("serve", *way)
        assert refused.returncode == 2, refused.stderr
        assert refused.stdout == ""
        assert "serving" not in refused.stderr
        assert "Traceback" not in refused.stderr
        assert "two tools are called 'echo'" in refused.stderr
        for place in TWICE[which]:
            assert named(place) in refused.stderr
    examined = empty.spindle("doctor", "--json")
    assert examined.returncode == 1
    found = [item for item in json.loads(examined.stdout)["findings"] if item["level"] == "problem"]
    assert len(found) == 1, found
    assert "two tools are called 'echo'" in found[0]["message"]
    for place in TWICE[which]:
        assert named(place) in found[0]["message"]
    assert found[0]["fix"]


def test_what_was_renamed_is_served(empty: RestWorkspace, stdio_server: StdioServers) -> None:
    for place in ("tools/one.py", "events/orders.yaml", "mods/one.py"):
        write(empty.root, place, stdio_server)
    assert empty.spindle("serve", "--stdio").returncode == 2
    for place, name in (("tools/one.py", "echo_one"), ("mods/one.py", "echo_two")):
        file = empty.root / place
        file.write_text(file.read_text().replace("echo", name))
    served = empty.spindle("serve", "--stdio")
    assert (served.returncode, served.stderr) == (0, "")
    assert empty.spindle("doctor").returncode == 0


def test_a_source_that_puts_its_name_first_conflicts_with_nobody(
    empty: RestWorkspace, stdio_server: StdioServers
) -> None:
    write(empty.root, "tools/one.py", stdio_server)
    command = json.dumps(stdio_server()["command"])
    empty.settings(f"[sources.first]\ncommand = {command}\ninclude = ['echo']\n")
    assert empty.spindle("serve", "--stdio").returncode == 0
    assert empty.spindle("doctor").returncode == 0


def test_a_source_that_fails_otherwise_stops_nobody(empty: RestWorkspace, stdio_server: StdioServers) -> None:
    empty.settings('[sources.gone]\ncommand = "/no/such/program"\nprefix = false\n')
    write(empty.root, "tools/one.py", stdio_server)
    served = empty.spindle("serve", "--stdio")
    assert served.returncode == 0
    assert served.stderr.count("'/no/such/program' was not found") == 1


def test_a_variable_that_is_missing_stops_the_start(empty: RestWorkspace) -> None:
    empty.settings('[sources.far]\nurl = "https://${FAR_HOST}/mcp"\n')
    for way in (("--stdio",), ("--http", "--port", "0"), ("--rest", "--port", "0")):
        refused = empty.spindle("serve", *way)
        assert refused.returncode == 2
        assert "FAR_HOST is not set, but sources.far.url uses it" in refused.stderr
    assert empty.spindle("serve", "--stdio", FAR_HOST="127.0.0.1:1").returncode == 0
