from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from spindle import settings
from spindle.catalog.sources import SourceSet
from spindle.domain.source import RateLimit, SourceConfig
from spindle.errors import ConfigurationError
from spindle.plugins import config_models
from spindle.settings import Settings
from spindle.settings.expand import expand_address, expand_table, expand_text


def sources(tables: dict[str, dict[str, Any]], **environ: str) -> SourceSet:
    return SourceSet(Settings(Path("/nowhere"), {"sources": tables}), lambda note: None, environ)


def config(table: dict[str, Any], **environ: str) -> Any:
    return sources({"web": {"command": "run", **table}}, **environ).config("web")


def problems(tables: dict[str, dict[str, Any]], **environ: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        sources(tables, **environ).validate()
    return caught.value.details


def problem(table: dict[str, Any], **environ: str) -> str:
    [only] = problems({"web": {"command": "run", **table}}, **environ)
    return only.removeprefix("spindle.toml: ")


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"timeout": -1}, "sources.web.timeout: input should be greater than 0 (got -1)"),
        ({"timeout": "soon"}, "sources.web.timeout: should be a number"),
        (
            {"retry": {"attempts": 0}},
            "sources.web.retry.attempts: input should be greater than or equal to 1 (got 0)",
        ),
        ({"retry": 5}, "sources.web.retry: should be a table"),
        ({"timeuot": 5}, "sources.web.timeuot: not a setting of this source; did you mean `timeout`?"),
        (
            {"retry": {"atempts": 5}},
            "sources.web.retry.atempts: not a setting of this source; did you mean `attempts`?",
        ),
        (
            {"cache": {"ttl": 5, "tool": []}},
            "sources.web.cache.tool: not a setting of this source; did you mean `tools`?",
        ),
        ({"xyzzy": 5}, "sources.web.xyzzy: not a setting of this source"),
        ({"auth": {"type": "bearer"}}, "sources.web.auth.token: field required"),
        (
            {"auth": {"type": "bearer", "tokne": "x", "token": "y"}},
            "sources.web.auth.tokne: not a setting of this source; did you mean `token`?",
        ),
        (
            {"auth": {"type": "magic"}},
            "sources.web.auth: input tag 'magic' found using 'type' does not match",
        ),
        ({"include": "["}, "sources.web.include: '[' is not a regular expression"),
        ({"exclude": ["ok", "(x"]}, "sources.web.exclude: '(x' is not a regular expression"),
        ({"cache": {"ttl": 1, "tools": ["*"]}}, "sources.web.cache.tools: '*' is not a regular expression"),
        ({"rate_limit": "fast"}, "sources.web.rate_limit: 'fast' is not a rate such as '10/s'"),
        ({"rate_limit": "0/s"}, "sources.web.rate_limit: input should be greater than 0"),
        ({"max_result_size": "much"}, "sources.web.max_result_size: could not parse value and unit"),
        ({"args": ["a", 5]}, "sources.web.args[1]: should be text (got 5)"),
        ({"transport": "telnet"}, "sources.web.transport: input should be 'auto', 'stdio', 'http' or 'sse'"),
        ({"url": "https://x"}, "sources.web: give either `command`"),
        ({"kind": "mpc"}, "sources.web.kind: there is no kind 'mpc'; did you mean 'mcp'?"),
        (
            {"kind": "carrier-pigeon"},
            "sources.web.kind: there is no kind 'carrier-pigeon'; known are ",
        ),
    ],
)
def test_a_mistake_is_named_by_its_path(table: dict[str, Any], expected: str) -> None:
    assert problem(table).startswith(expected)


@pytest.mark.parametrize("name", ["1web", "we b", "", "we.b", "x" * 65, "wéb", "web\n"])
def test_a_source_s_name_is_checked(name: str) -> None:
    [only] = problems({name: {"command": "run"}})
    assert "a source's name begins with a letter" in only


def test_every_mistake_is_told_at_once() -> None:
    tables: dict[str, dict[str, Any]] = {
        "a": {"command": "x", "timeout": 0, "colour": 1},
        "b": {"kind": "nope"},
        "c": {"command": "fine"},
        "2": {"command": "x"},
    }
    found = problems(tables)
    assert len(found) == 4
    with pytest.raises(ConfigurationError, match="the configuration has 4 mistakes") as caught:
        sources(tables).validate()
    assert all(mistake in caught.value.message for mistake in found)


def test_a_mistake_names_the_file_it_is_in() -> None:
    settings = Settings(
        Path("/w"), {"sources": {"a": {"timeout": 0, "command": "x"}}}, {"a": "/home/spindle.toml"}
    )
    with pytest.raises(ConfigurationError, match=r"^/home/spindle\.toml: sources\.a\.timeout"):
        settings.validate(config_models({"mcp"}))


@pytest.mark.parametrize(
    "table",
    [
        {"auth": "hunter2"},
        {"auth": {"type": "bearer", "token": ["hunter2"]}},
        {"auth": {"type": "api_key", "name": "x", "value": "v", "in": "hunter2"}},
        {"headers": "hunter2"},
        {"timeout": "${SECRET}"},
    ],
)
def test_no_secret_is_repeated_in_a_message(table: dict[str, Any]) -> None:
    assert "hunter2" not in problem(table, SECRET="hunter2")


# --- values


@pytest.mark.parametrize(
    ("text", "calls", "seconds"),
    [
        ("10/s", 10, 1),
        ("100/minute", 100, 60),
        ("0.5 / h", 0.5, 3600),
        ("7/day", 7, 86400),
        ("3/second", 3, 1),
    ],
)
def test_a_rate_is_written_as_text(text: str, calls: float, seconds: float) -> None:
    assert config({"rate_limit": text}).rate_limit == RateLimit(calls=calls, seconds=seconds)
    assert config({"rate_limit": {"calls": calls, "seconds": seconds}}).rate_limit.calls == calls


@pytest.mark.parametrize(
    ("text", "size"), [("16MiB", 16 * 2**20), ("1kB", 1000), (500, 500), ("2 GiB", 2 * 2**30)]
)
def test_a_size_is_written_with_its_unit(text: Any, size: int) -> None:
    assert config({"max_result_size": text}).max_result_size == size


@pytest.mark.parametrize(
    ("include", "exclude", "admitted"),
    [
        ((), (), ["read", "read_all", "write"]),
        ("read", (), ["read"]),
        ("read.*", (), ["read", "read_all"]),
        (["read", "write"], (), ["read", "write"]),
        ((), "read", ["read_all", "write"]),
        ("read.*", ".*_all", ["read"]),
        ("rea", (), []),
    ],
)
def test_include_and_exclude_match_the_whole_name(include: Any, exclude: Any, admitted: list[str]) -> None:
    made = SourceConfig(kind="x", include=include, exclude=exclude)
    assert [name for name in ("read", "read_all", "write") if made.admits(name)] == admitted


# --- variables


def test_variables_are_replaced_in_every_nested_value() -> None:
    made = config(
        {
            "command": ["run", "--dir=${DIR}/x", "${DIR:-unused}"],
            "env": {"KEY": "${KEY}", "LEVEL": "${LEVEL:-info}", "EMPTY": "${NONE:-}"},
            "auth": {"type": "bearer", "token": "${KEY}${KEY}"},
            "description": "costs $5, not ${}",
        },
        DIR="/my dir",
        KEY="k",
    )
    assert made.command == ("run", "--dir=/my dir/x", "/my dir")
    assert made.env == {"KEY": "k", "LEVEL": "info", "EMPTY": ""}
    assert made.auth.token == "kk"
    assert made.description == "costs $5, not ${}"


def test_a_variable_never_becomes_several_words_of_a_command() -> None:
    assert config({"command": "run ${DIR}"}, DIR="/a b; rm -rf /").command == ("run", "/a b; rm -rf /")


def test_a_value_is_not_expanded_again() -> None:
    assert config({"description": "${X}"}, X="${Y}").description == "${Y}"


@pytest.mark.parametrize(
    ("table", "value"),
    [
        ({"timeout": "${T}"}, 7.5),
        ({"timeout": "${NONE:-7.5}"}, 7.5),
    ],
)
def test_variables_work_where_a_number_is_wanted(table: dict[str, Any], value: float) -> None:
    assert config(table, T="7.5").timeout == value


def test_variables_work_where_a_rate_or_a_nested_number_is_wanted() -> None:
    made = config({"rate_limit": "${R:-10/s}", "retry": {"attempts": "${N}"}}, N="2")
    assert made.rate_limit == RateLimit(calls=10)
    assert made.retry.attempts == 2


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"env": {"KEY": "${TOKEN}"}}, "env.KEY"),
        ({"command": ["run", "${TOKEN}"]}, "command[1]"),
        ({"auth": {"type": "api_key", "name": "k", "value": "x${TOKEN}", "in": "query"}}, "auth.value"),
        ({"timeout": "${TOKEN}"}, "timeout"),
    ],
)
def test_a_missing_variable_names_itself_the_source_and_the_key(table: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        config(table)
    assert f"the environment variable TOKEN is not set, but sources.web.{key} uses it" in caught.value.message


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"env": {"KEY": "${TOKEN}"}}, "env.KEY"),
        ({"command": ["run", "--token=${TOKEN}"]}, "command[1]"),
        ({"url": "https://h/x", "command": None, "headers": {"X-Key": "${TOKEN}"}}, "headers.X-Key"),
        ({"url": "https://${TOKEN}/mcp", "command": None}, "url"),
        ({"auth": {"type": "bearer", "token": "${TOKEN}"}}, "auth.token"),
        ({"auth": {"type": "basic", "username": "u", "password": "${TOKEN}"}}, "auth.password"),
        ({"timeout": "${TOKEN}"}, "timeout"),
    ],
)
def test_an_empty_variable_is_named_like_one_that_is_not_set(table: dict[str, Any], key: str) -> None:
    table = {name: value for name, value in ({"command": "run"} | table).items() if value is not None}
    both = sources({"web": table}, TOKEN="")
    with pytest.raises(ConfigurationError) as caught:
        both.config("web")
    assert f"the environment variable TOKEN is empty, but sources.web.{key} uses it" in caught.value.message
    told = f"{caught.value.message} {caught.value.hint}"
    assert "set it (export TOKEN=…), or allow it to be empty: ${TOKEN:-}" in told
    assert both.missing_variables("web") == [("TOKEN", key, True)]


def test_an_empty_default_allows_a_variable_to_be_empty() -> None:
    table = {"env": {"A": "${TOKEN:-}", "B": "${NONE:-}", "C": "${TOKEN:-other}"}}
    assert config(table, TOKEN="").env == {"A": "", "B": "", "C": "other"}


def test_an_empty_variable_is_named_in_every_table_of_the_settings() -> None:
    with pytest.raises(ConfigurationError, match="TOKEN is empty, but store uses it"):
        expand_address("postgresql://u:${TOKEN}@h/d", {"TOKEN": ""}, "store")
    with pytest.raises(ConfigurationError, match=r"TOKEN is empty, but auth\.key uses it"):
        expand_table({"key": "${TOKEN}"}, {"TOKEN": ""}, "auth")
    with pytest.raises(ConfigurationError, match=r"the secret web\.k is empty, but x uses it"):
        expand_text("${secret:web.k}", {"secret:web.k": ""}, "x", "web")


def test_a_missing_variable_of_one_source_does_not_stop_another() -> None:
    both = sources({"a": {"command": "x", "env": {"K": "${NONE}"}}, "b": {"command": "y"}})
    assert both.config("b").kind == "mcp"
    assert both.missing_variables("a") == [("NONE", "env.K", False)]
    assert both.missing_variables("b") == []
    with pytest.raises(ConfigurationError) as caught:
        both.config("a")
    assert "export NONE" in (caught.value.hint or "")
    assert caught.value.source == "a"


def test_values_from_the_environment_and_of_telling_names_are_secret() -> None:
    table = {
        "command": ["run", "${TOKEN}", "${SHORT}"],
        "env": {"API_KEY": "literal-key", "LOG_LEVEL": "debug-level", "X": "${OTHER:-default}"},
        "headers": {"Authorization": "Bearer literal-token"},
    }
    found = sources({"web": table}, TOKEN="t0ken", SHORT="abc").secrets("web")
    assert found == {"t0ken", "literal-key", "Bearer literal-token"}
    assert sources({}).secrets("unknown") == set()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[auth]\nkey_fil = "x"', r"auth\.key_fil is not a setting.*did you mean `key_file`"),
        ("[auth]\nkey_file = 3", r"auth\.key_file must be text"),
        ('[auth]\nkey = "s3cr3t"', r'auth\.key must be "keyring" or "file"'),
        ('[auth]\nkey = "keyring"\nkey_file = "x"', "not both"),
        ('[auth]\nredirect_uri = "http://example.com/callback"', r"auth\.redirect_uri must be an https"),
        ('[auth]\nclient_metadata_url = "http://127.0.0.1/c"', r"auth\.client_metadata_url must be an https"),
        ('auth = "x"', "`auth` must be a table"),
    ],
)
def test_a_mistake_in_the_auth_table_names_its_key(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "spindle.toml").write_text(text)
    with pytest.raises(ConfigurationError) as error:
        settings.load(tmp_path, {})
    shown = f"{error.value.message} {error.value.hint}"
    assert re.search(message, shown), shown
    assert str(tmp_path / "spindle.toml") in shown
    assert "s3cr3t" not in shown


def test_the_auth_table_is_read_and_the_environment_overrides_it(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").write_text('[auth]\nkey_file = "keys/mine"\nclient_name = "Shop"\n')
    found = settings.load(tmp_path, {"SPINDLE_AUTH__REDIRECT_URI": "https://shop.example/back"}).auth
    assert found.key_file == tmp_path / "keys" / "mine"
    assert found.client_name == "Shop"
    assert found.redirect_uri == "https://shop.example/back"


def test_a_list_and_a_table_are_called_so() -> None:
    assert problem({"args": 5}) == "sources.web.args: should be a list (got 5)"
    assert problem({"env": []}).startswith("sources.web.env: should be a table")
