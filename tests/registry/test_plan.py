"""Names, and the addresses that a registry may name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.registry import RECORDED
from spindle.errors import ConfigurationError, SpindleError
from spindle.registry.entry import ServerEntry, read_entry
from spindle.registry.inputs import Answers, questions
from spindle.registry.plan import check_url, plan_package, source_name
from spindle.registry.runners import RUNNERS


@pytest.mark.parametrize(
    ("server", "source"),
    [
        ("io.github.github/github-mcp-server", "github"),
        ("io.github.x/mcp-server-git", "git"),
        ("com.notion/mcp", "notion"),
        ("io.github.x/9lives", "mcp-9lives"),
        ("io.github.x/a.b_c", "a-b_c"),
        ("io.github.x/server", "x"),
    ],
)
def test_a_source_gets_a_short_name(server: str, source: str) -> None:
    assert source_name(ServerEntry(server, "1.0.0")) == source


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/mcp",
        "https://localhost/mcp",
        "https://10.0.0.1/",
        "https://[::1]/",
        "https://169.254.169.254/latest",
        "http://mcp.example.com/",
    ],
)
async def test_a_registry_outside_names_nothing_inside(url: str) -> None:
    with pytest.raises(ConfigurationError):
        await check_url(url, may_be_inside=False)


async def test_a_registry_inside_may_name_what_is_inside() -> None:
    await check_url("http://127.0.0.1:8000/mcp", may_be_inside=True)


def test_every_recorded_entry_can_be_read() -> None:
    kinds: set[str] = set()
    for server in json.loads(RECORDED.read_text()):
        kinds |= set(read_entry({"server": server}).kinds)
    assert kinds == {"npm", "pypi", "oci", "nuget", "mcpb", "remote"}


texts = st.text(max_size=30) | st.sampled_from(
    ["--call", "${HOME}", "{a}", "$", "-e", "a=b", "{secret:x.y}", "\x1b[2J"]
)
inputs = st.fixed_dictionaries(
    {"type": st.sampled_from(["named", "positional"])},
    optional={
        "name": texts,
        "value": texts,
        "default": texts,
        "variables": st.dictionaries(
            texts, st.fixed_dictionaries({}, optional={"value": texts, "default": texts})
        ),
    },
)
packages = st.fixed_dictionaries(
    {
        "registryType": st.sampled_from([*RUNNERS]),
        "identifier": st.just("pack") | texts,
        "version": st.just("1.0.0") | texts,
    },
    optional={
        "runtimeArguments": st.lists(inputs, max_size=3),
        "packageArguments": st.lists(inputs, max_size=3),
        "environmentVariables": st.lists(inputs, max_size=3),
        "registryBaseUrl": texts,
    },
)


@given(packages)
def test_no_entry_becomes_another_command_or_refers_to_our_settings(package: dict[str, object]) -> None:
    server = {"name": "io.x/y", "version": "1.0.0", "packages": [package]}
    try:
        entry = read_entry({"server": server})
        questions(entry.packages[0])
        table = plan_package(entry.packages[0], "x", Answers(), entry).table
    except SpindleError:
        return
    command = table["command"]
    assert command[0] in ("npx", "uvx", "docker", "podman", "dnx", "pipx")
    beginnings = {"npx": 2, "uvx": 1, "dnx": 2}
    at = beginnings.get(command[0])
    if at is not None:
        assert command[at] == f"{entry.packages[0].identifier}@{entry.packages[0].version}"
    for text in (*command, *table.get("env", {}).values(), table["description"]):
        assert "${" not in text
        assert text.isprintable()
