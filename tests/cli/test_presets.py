"""The presets say what they need, and name packages in the form their registries have."""

from __future__ import annotations

import json
import re
import sys

import pytest

from spindle.cli import presets as module
from spindle.cli.presets import presets

EXPECTED = {
    "github", "filesystem", "memory", "everything", "sequential-thinking", "postgres", "slack",
    "brave-search", "time", "git", "fetch",
}  # fmt: skip
PACKAGE = {"npm": r"@modelcontextprotocol/server-[a-z-]+", "pypi": r"mcp-server-[a-z]+"}


def test_all_are_there():
    assert set(presets()) == EXPECTED


@pytest.mark.parametrize("preset", presets().values(), ids=lambda preset: preset.name)
def test_a_preset_is_whole(preset):
    assert preset.description
    assert re.fullmatch(PACKAGE[preset.registry], preset.package)
    assert preset.command[-1] == preset.package
    assert preset.command[0] == {"npm": "npx", "pypi": "uvx"}[preset.registry]
    assert (preset.module is None) == (preset.registry == "npm")
    assert all(value == f"${{{key}}}" for key, value in preset.env.items())
    if preset.argument is not None:
        assert preset.argument.help


@pytest.mark.parametrize("preset", presets().values(), ids=lambda preset: preset.name)
def test_a_preset_becomes_valid_settings(workspace, spindle, preset):
    words = ["--", "something"] if preset.argument else []
    assert spindle("add", preset.name, "--no-sync", *words).code == 0
    assert spindle("sources", "--json").json[0]["name"] == preset.name


def test_the_presets_are_listed(spindle, folder):
    lines = spindle("add", "--presets").out.splitlines()
    assert lines[0].split("\t")[:2] == ["github", "GITHUB_PERSONAL_ACCESS_TOKEN"]
    assert {line.split("\t")[0] for line in lines} == EXPECTED
    assert {item["name"] for item in spindle("add", "--presets", "--json").json} == EXPECTED


def test_an_argument_with_a_default_need_not_be_given():
    assert presets()["postgres"].table([])["command"][-1] == "${DATABASE_URL}"
    assert presets()["postgres"].table(["postgresql://x"])["command"][-1] == "postgresql://x"


def test_a_python_server_is_run_by_uv_where_there_is_uv(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    assert presets()["time"].table([])["command"] == ["uvx", "mcp-server-time"]
    assert presets()["time"].advice() is None


def test_a_python_server_is_run_by_this_python_where_there_is_no_uv(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None if name == "uvx" else name)
    assert presets()["time"].table([])["command"] == [sys.executable, "-m", "mcp_server_time"]


def test_what_is_missing_is_said_with_where_to_get_it(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert presets()["fetch"].table([])["command"] == ["uvx", "mcp-server-fetch"]
    assert "pip install mcp-server-fetch" in (presets()["fetch"].advice() or "")
    assert "Node.js" in (presets()["memory"].advice() or "")


def test_the_file_holds_no_secret():
    text = module.FILE.read_text()
    assert not re.search(r"ghp_|xoxb-|sk-", text)
    assert json.dumps(text)
