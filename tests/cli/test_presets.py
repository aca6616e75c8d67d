"""The presets say what they need, name packages in the form their registries have, and start."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from servers.echo_server import Answer, EchoServer
from servers.running import REPOSITORY, OpenSources, missing, program
from spindle import Principal
from spindle import presets as module
from spindle.calls.record import looks_secret
from spindle.presets import presets

EXPECTED = {
    "time", "fetch", "git", "filesystem", "memory", "sequential-thinking", "everything", "playwright",
    "postgres", "brave-search", "github", "github-oauth", "slack", "google-drive", "linear", "notion",
    "sentry", "hugging-face", "context7", "deepwiki", "microsoft-learn",
}  # fmt: skip
# Servers that nobody looks after any more.
ARCHIVED = re.compile(
    r"server-(github|gitlab|google-maps|gdrive|postgres|puppeteer|redis|slack|sqlite|brave)"
)
PACKAGE = {"npm": r"@[a-z]+/[a-z-]+", "pypi": r"[a-z-]+"}
# Variables of programs that are no secrets, and so may have a value.
PLAIN = {"PGOPTIONS"}
INSTALLED = Path(__file__).parent.parent / "servers" / "npm" / "package.json"
# Settings of OAuth that are no secrets.
PLACES = {"provider", "authorization_url", "token_url", "revocation_url", "resource"}
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
    texts = [text for name, text in preset.env.items() if name not in PLAIN]
    auth = preset.auth or {}
    texts += [auth[key] for key in ("token", "client_id", "client_secret") if key in auth]
    assert all(re.fullmatch(r"\$\{[A-Z_]+\}", text) for text in texts)
    assert auth.keys() <= {"type", "token", "client_id", "client_secret", "scopes", *PLACES}
    command = [*preset.launched, *preset.args] if preset.url is None else []
    assert "$" not in " ".join(command)
    assert not any(looks_secret(word.lstrip("-"), {}) for word in command)
    assert preset.argument is None or not looks_secret((preset.argument.flag or "").lstrip("-"), {})


@ALL
def test_a_package_is_named_in_one_exact_version(preset):
    """Neither a range nor a tag, which whoever publishes can move."""
    if preset.url is None:
        [named] = [word for word in preset.launched if preset.package in word]
        assert re.fullmatch(r"(@[a-z]+/)?[a-z-]+@\d+\.\d+\.\d+", named)


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


@pytest.mark.parametrize(
    ("name", "link", "token_url"),
    [
        (
            "github-oauth",
            "https://github.com/login/oauth/authorize",
            "https://github.com/login/oauth/access_token",
        ),
        ("slack", "https://slack.com/oauth/v2_user/authorize", "https://slack.com/api/oauth.v2.user.access"),
        (
            "google-drive",
            "https://accounts.google.com/o/oauth2/v2/auth",
            "https://oauth2.googleapis.com/token",
        ),
    ],
)
async def test_a_preset_with_a_client_of_one_s_own_sends_each_user_to_the_right_place(
    open_sources: OpenSources, monkeypatch: pytest.MonkeyPatch, name: str, link: str, token_url: str
) -> None:
    """Its secret goes to the endpoint that the preset names, and no server is asked for another."""
    preset = presets()[name]
    for variable in preset.variables():
        monkeypatch.setenv(variable, f"value-of-{variable}")
    assert preset.auth is not None
    assert preset.auth["token_url"] == token_url
    async with open_sources({name: preset.table()}) as app:
        asked = await app.auth.begin(name, Principal("ann"))
        place, _, query = asked.url.partition("?")
        sent = dict(parse_qsl(query))
        assert place == link
        assert sent["client_id"].startswith("value-of-")
        assert sent["code_challenge_method"] == "S256"
        assert sent["scope"].split() == preset.auth["scopes"]
        assert "secret" not in asked.url.lower()
    assert (sent.get("access_type") == "offline") == (name == "google-drive")
    assert sent.get("resource") == {"slack": "https://mcp.slack.com", "github-oauth": preset.url}.get(name)


def test_every_preset_that_has_a_client_s_secret_names_who_takes_it():
    """Otherwise the secret would go to whomever the server names, which is refused."""
    for preset in presets().values():
        auth = preset.auth or {}
        if "client_secret" in auth:
            assert auth["authorization_url"].startswith("https://")
            assert auth["token_url"].startswith("https://")


def test_an_argument_is_the_value_of_its_option_and_options_are_passed_on(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name, **_more: f"/bin/{name}")
    time = presets()["time"]
    assert time.table(["UTC"])["command"][2:] == ["--local-timezone=UTC"]
    assert time.table(["--local-timezone=UTC"])["command"][2:] == ["--local-timezone=UTC"]
    assert presets()["fetch"].table(["--ignore-robots-txt"])["command"][2:] == ["--ignore-robots-txt"]
    assert presets()["postgres"].table()["command"][3:] == ["--transport", "stdio"]
    assert presets()["postgres"].table()["env"] == {
        "DSN": "${DATABASE_URL}",
        "PGOPTIONS": "-c default_transaction_read_only=on",
    }


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
def test_no_preset_from_npm_is_deprecated():
    """By what the registry said when they were installed for the tests."""
    lock = REPOSITORY / ".node" / "node_modules" / ".package-lock.json"
    if not lock.exists():
        missing("the servers of the tests are not installed: run `make node`")
    locked = json.loads(lock.read_text())["packages"]
    for preset in presets().values():
        if preset.registry == "npm":
            about = locked[f"node_modules/{preset.package}"]
            assert about["version"] == preset.version
            assert "deprecated" not in about


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
        refused = await app.call("db.execute_sql", sql="CREATE TABLE made_by_a_model (x int)")
        mistyped = await app.call("db.execute_sql", sql="SELCT 1")
        nowhere = await app.call("db.execute_sql", sql="SELECT * FROM nowhere")
    assert "42" in result.text
    assert refused.is_error
    assert [refused.category, mistyped.category, nowhere.category] == ["permission", "client", "client"]
    assert "read-only transaction" in refused.text


# --- the rules for their errors


def test_the_rules_belong_to_the_server_that_is_started(tmp_path):
    preset = presets()["git"]
    assert preset.is_started_by(["uvx", "mcp-server-git"])
    assert preset.is_started_by(["uvx", "mcp-server-git==1.0", "--repository=."])
    assert preset.is_started_by([sys.executable, "-m", "mcp_server_git"])
    assert preset.is_started_by(["/opt/bin/mcp-server-git"])
    assert not preset.is_started_by(["npx", "-y", "mcp-server-github"])
    files = presets()["filesystem"]
    assert files.is_started_by(["npx", "-y", "@modelcontextprotocol/server-filesystem@1.2.3", "."])
    assert files.is_started_by(["node", f"/w/node_modules/{files.package}/dist/index.js"])
    installed = tmp_path / "node_modules" / files.package / "index.js"
    installed.parent.mkdir(parents=True)
    installed.touch()
    (tmp_path / "program").symlink_to(installed)
    assert files.is_started_by([str(tmp_path / "program"), "."])
    assert files.is_started_by(["node", str(tmp_path / "program"), "."])
    assert not files.is_started_by(["npx", "@somebody/server-filesystem"])


@ALL
def test_the_rules_of_a_preset_are_found_for_its_settings_and_no_others(preset):
    table = preset.table(["x"] if preset.argument is not None else [])
    rules = module.error_rules(tuple(table.get("command", ())), table.get("url"))
    # Two presets may be one server, with credentials of another kind.
    same = [item for item in presets().values() if item is preset or (item.url and item.url == preset.url)]
    assert (rules is not None) == any(item.errors for item in same)
    assert rules is None or rules.category("an ordinary sentence", ()) is None
    assert module.error_rules(("npx", "-y", "another"), "https://elsewhere.test/mcp") is None


async def test_the_fetch_server_is_understood(
    open_sources: OpenSources, monkeypatch: pytest.MonkeyPatch, echo: EchoServer
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    categories = {401: "auth", 403: "permission", 404: "not_found", 422: "client", 429: "rate_limited",
                  500: "server", 504: "timeout"}  # fmt: skip
    echo.answers |= {f"/{status}": Answer(b"no", status) for status in categories}
    echo.answers["/robots.txt"] = Answer(b"", 404)
    table = presets()["fetch"].table(["--allow-private-ips"]) | {"retry": {"attempts": 1}}
    shut = presets()["fetch"].table()
    async with open_sources({"open": table, "shut": shut}) as app:
        found = {
            status: (await app.call("open.fetch", url=f"{echo.url}/{status}")).category
            for status in categories
        }
        refused = await app.call("shut.fetch", url=f"{echo.url}/200")
    assert found == categories
    assert refused.category == "permission"
