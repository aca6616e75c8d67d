"""The presets say what they need, name packages in the form their registries have, and start."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from servers.running import REPOSITORY, OpenSources, missing, program
from spindle import presets as module
from spindle.presets import presets

EXPECTED = {
    "time", "fetch", "git", "filesystem", "memory", "sequential-thinking", "everything", "playwright",
    "postgres", "brave-search", "github", "slack", "google-drive", "linear", "notion", "sentry",
    "hugging-face", "context7", "deepwiki", "microsoft-learn",
}  # fmt: skip
# Servers that nobody looks after any more.
ARCHIVED = re.compile(
    r"server-(github|gitlab|google-maps|gdrive|postgres|puppeteer|redis|slack|sqlite|brave)"
)
PACKAGE = {"npm": r"@[a-z]+/[a-z-]+", "pypi": r"[a-z-]+"}
INSTALLED = Path(__file__).parent.parent / "servers" / "npm" / "package.json"
ALL = pytest.mark.parametrize("preset", presets().values(), ids=lambda preset: preset.name)


def test_all_are_there():
    assert set(presets()) == EXPECTED


@ALL
def test_a_preset_is_whole(preset):
    assert preset.description
    assert not ARCHIVED.search(preset.package or "")
    if preset.url is None:
        assert re.fullmatch(PACKAGE[preset.registry], preset.package)
        assert re.fullmatch(r"\d+\.\d+\.\d+", preset.version)
        assert preset.launched[-1] == f"{preset.package}@{preset.version}"
        assert preset.auth is None
    else:
        assert preset.url.startswith("https://")
        assert (preset.package, preset.env, preset.args, preset.argument) == (None, {}, (), None)
    if preset.argument is not None:
        assert preset.argument.help


@ALL
def test_secrets_come_from_the_environment_and_are_never_arguments(preset):
    texts = [*preset.env.values(), *(preset.auth or {}).values()]
    assert all(re.fullmatch(r"\$\{[A-Z_]+\}|oauth|bearer", text) for text in texts if isinstance(text, str))
    assert "$" not in " ".join(preset.args)


@ALL
def test_a_preset_becomes_valid_settings(workspace, spindle, preset):
    words = ["--arg", "something"] if preset.argument else []
    done = spindle("add", preset.name, "--no-sync", "--yes", *words)
    assert done.code == 0, done.err
    assert spindle("sources", "--json").json[0]["name"] == preset.name
    settings = (workspace.root / "spindle.toml").read_text()
    assert (preset.url or "something" if preset.argument else preset.description) in settings


def test_the_presets_are_listed(spindle, folder):
    rows = dict(line.split("\t")[:2] for line in spindle("add", "--presets").out.splitlines())
    assert rows.keys() == EXPECTED
    assert rows["github"] == "GITHUB_PERSONAL_ACCESS_TOKEN"
    assert rows["filesystem"] == "--arg FOLDER"
    assert rows["linear"] == "a login"
    assert rows["memory"] == "-"
    assert {item["name"] for item in spindle("add", "--presets", "--json").json} == EXPECTED


@ALL
def test_the_help_of_a_preset_says_what_it_takes(spindle, folder, preset):
    done = spindle("add", preset.name, "--help")
    assert done.code == 0
    assert f"  {preset.description}." in done.out
    assert (preset.url or f"{preset.package}@{preset.version}") in done.out
    assert all(name in done.out for name in preset.variables())
    assert not preset.variables() or preset.setup in done.out
    if preset.argument is not None:
        assert f"--arg {preset.argument.name}: {preset.argument.help}." in done.out
        assert f"\n  spindle add {preset.name} --arg {preset.argument.name}\n" in done.out


def test_an_argument_is_the_value_of_its_option_and_options_are_passed_on(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name, **_more: f"/bin/{name}")
    time = presets()["time"]
    assert time.table(["UTC"])["command"][2:] == ["--local-timezone=UTC"]
    assert time.table(["--local-timezone=UTC"])["command"][2:] == ["--local-timezone=UTC"]
    assert presets()["fetch"].table(["--ignore-robots-txt"])["command"][2:] == ["--ignore-robots-txt"]
    assert presets()["postgres"].table()["command"][3:] == ["--transport", "stdio"]
    assert presets()["postgres"].table()["env"] == {"DSN": "${DATABASE_URL}"}


def test_a_python_server_is_run_by_uv_where_there_is_uv(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    assert presets()["time"].table()["command"] == ["uvx", f"mcp-server-time@{presets()['time'].version}"]
    assert presets()["time"].advice() is None


def test_a_python_server_is_run_by_this_python_where_there_is_no_uv(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None if name == "uvx" else name)
    assert presets()["time"].table()["command"] == [sys.executable, "-m", "mcp_server_time"]


def test_what_is_missing_is_said_with_where_to_get_it_and_nothing_is_written(workspace, spindle, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _name, **_more: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    done = spindle("add", "fetch", "--no-sync")
    assert done.code == 3
    assert done.err == (
        "spindle: 'uvx' is not on PATH\n  hint: it comes with uv (https://docs.astral.sh/uv); or install the "
        "server: pip install mcp-server-fetch; --yes adds it as it is\n"
    )
    assert "Node.js" in spindle("add", "memory", "--no-sync").err
    assert (workspace.root / "spindle.toml").read_text() == ""


def test_the_file_holds_no_secret():
    text = module.FILE.read_text()
    assert not re.search(r"ghp_|xoxb-|sk-", text)


# --- they start


@pytest.mark.parametrize("name", [item.name for item in presets().values() if item.registry == "pypi"])
async def test_a_preset_from_pypi_starts_and_has_tools(
    open_sources: OpenSources, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    preset = presets()[name]
    assert preset.package is not None
    assert version(preset.package) == preset.version
    async with open_sources({name: preset.table()}) as app:
        (report,) = await app.sync()
    assert report.error is None
    assert report.tools >= 1


def test_the_presets_from_npm_are_those_that_the_tests_start():
    wanted = json.loads(INSTALLED.read_text())["dependencies"]
    found = {item.package: item.version for item in presets().values() if item.registry == "npm"}
    assert found.items() <= wanted.items()


@pytest.mark.npm
@pytest.mark.parametrize(
    ("name", "executable"),
    [
        ("filesystem", "mcp-server-filesystem"),
        ("memory", "mcp-server-memory"),
        ("sequential-thinking", "mcp-server-sequential-thinking"),
        ("everything", "mcp-server-everything"),
        ("playwright", "playwright-mcp"),
        ("brave-search", "brave-search-mcp-server"),
    ],
)
async def test_a_preset_from_npm_starts_and_has_tools(
    open_sources: OpenSources, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, executable: str
) -> None:
    preset = presets()[name]
    for variable in preset.variables():
        monkeypatch.setenv(variable, "none")
    table: dict[str, Any] = preset.table([str(tmp_path)] if preset.argument else [])
    table["command"][:3] = [program(executable)]
    async with open_sources({"it": table}) as app:
        (report,) = await app.sync()
    assert report.error is None
    assert report.tools >= 1


@pytest.mark.npm
async def test_the_preset_for_databases_reads_a_real_one(
    open_sources: OpenSources, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    node = REPOSITORY / ".node" / "node24" / "node_modules" / "node" / "bin" / "node"
    if not node.exists():
        missing("a newer Node.js is not installed: run `make node`")
    monkeypatch.setenv("DATABASE_URL", postgres_url.partition("?")[0] + "?sslmode=disable")
    table: dict[str, Any] = presets()["postgres"].table()
    table["command"][:3] = [str(node), program("dbhub")]
    async with open_sources({"db": table}) as app:
        await app.sync()
        result = await app.call("db.execute_sql", sql="SELECT 6 * 7 AS answer")
    assert "42" in result.text
