from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from spindle import settings
from spindle.catalog.sources import SourceSet
from spindle.errors import ConfigurationError
from spindle.settings import Settings, places


def write(folder: Path, text: str) -> Path:
    file = folder / "spindle.toml"
    file.write_text(text)
    return file


def load(workspace: Path, **environ: str) -> Settings:
    return settings.load(workspace, environ)


def test_the_workspace_s_sources_are_merged_over_the_user_s_by_name(workspace: Path, home: Path) -> None:
    write(home, '[sources.a]\ncommand = "user-a"\ntimeout = 5\n[sources.b]\ncommand = "user-b"\n')
    write(workspace, '[sources.a]\ncommand = "own-a"\n[sources.c]\ncommand = "own-c"\n')
    found = load(workspace)
    assert found.sources == {
        "a": {"kind": "mcp", "command": "own-a"},
        "b": {"kind": "mcp", "command": "user-b"},
        "c": {"kind": "mcp", "command": "own-c"},
    }
    assert found.origin("a") == str(workspace / "spindle.toml")
    assert found.origin("b") == str(home / "spindle.toml")


# --- a source with a file of its own


def test_the_rest_of_a_source_may_be_in_a_file_of_its_own(workspace: Path, home: Path) -> None:
    (workspace / "sources").mkdir()
    own = workspace / "sources" / "git.toml"
    own.write_text('kind = "cli"\nprogram = "git"\ntimeout = 5\n[commands.log]\nargs = ["log"]\n')
    write(
        workspace,
        '[sources.git]\nfile = "sources/git.toml"\ntimeout = 7\n'
        "[sources.git.commands.log]\nread_only = true\n",
    )
    found = load(workspace)
    assert found.sources["git"] == {
        "kind": "cli", "program": "git", "timeout": 7,
        "commands": {"log": {"args": ["log"], "read_only": True}},
    }  # fmt: skip
    assert found.origin("git") == str(workspace / "spindle.toml")
    assert found.own_files == {"git": own}


def test_a_change_of_a_source_s_own_file_is_noticed(workspace: Path) -> None:
    own = workspace / "git.toml"
    own.write_text('kind = "cli"\n')
    write(workspace, '[sources.git]\nfile = "git.toml"\n')
    before = load(workspace)
    assert before.current_mark() == before.mark
    own.write_text('kind = "cli"\nprogram = "git"\n')
    assert before.current_mark() != before.mark
    assert before.reread({}).sources["git"]["program"] == "git"
    own.unlink()
    assert before.current_mark() != before.mark


def test_a_user_s_source_that_is_replaced_does_not_lend_its_file(workspace: Path, home: Path) -> None:
    (home / "git.toml").write_text('kind = "cli"\n')
    write(home, '[sources.git]\nfile = "git.toml"\n')
    assert load(workspace).own_files == {"git": home / "git.toml"}
    write(workspace, '[sources.git]\ncommand = "git"\n')
    assert load(workspace).sources["git"] == {"kind": "mcp", "command": "git"}
    assert load(workspace).own_files == {}


@pytest.mark.parametrize(
    ("value", "text", "message"),
    [
        ('"gone.toml"', None, "sources.git.file: there is no file {workspace}/gone.toml"),
        ("5", None, "sources.git.file: must be the path of a file"),
        ('"."', None, "sources.git.file: there is no file {workspace}"),
        ('"own.toml"', "kind = oops", "{workspace}/own.toml is not valid TOML"),
    ],
)
def test_a_file_of_its_own_that_cannot_be_read_is_named(
    workspace: Path, value: str, text: str | None, message: str
) -> None:
    if text is not None:
        (workspace / "own.toml").write_text(text)
    write(workspace, f"[sources.git]\nfile = {value}\n")
    with pytest.raises(ConfigurationError) as caught:
        load(workspace)
    assert message.format(workspace=workspace) in caught.value.message


def test_a_mistake_in_a_file_of_its_own_is_named_with_both_files(workspace: Path) -> None:
    (workspace / "own.toml").write_text('kind = "cli"\nfile = "more.toml"\nprogram = "git"\n')
    write(workspace, '[sources.git]\nfile = "own.toml"\n')
    with pytest.raises(ConfigurationError) as caught:
        SourceSet(load(workspace), lambda _sentence: None).validate()
    both = f"{workspace}/spindle.toml with {workspace}/own.toml"
    assert f"{both}: sources.git.file: not a setting of this source" in str(caught.value.details)


def test_a_setting_of_the_workspace_wins_over_the_user_s(workspace: Path, home: Path) -> None:
    write(home, 'store = "user.db"')
    assert load(workspace).store == str(workspace / "user.db")
    write(workspace, 'store = ":memory:"')
    assert load(workspace).store == ":memory:"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("postgresql://ann:${PW}@db/x", "postgresql://ann:a%40b%2Fc@db/x"),
        ("postgresql://${USER_NAME:-ann}:${PW}@${HOST:-[::1]}:5/x", "postgresql://ann:a%40b%2Fc@[::1]:5/x"),
        ("${URL}", "postgresql://ann:x%40@db/x"),
        ("postgresql://db/x?password=${URL:-y}", "postgresql://db/x?password=postgresql://ann:x%40@db/x"),
        (":memory:", ":memory:"),
        ("/srv/${NAME}.db", "/srv/shop.db"),
    ],
)
def test_variables_in_the_store_are_replaced(workspace: Path, written: str, expected: str) -> None:
    write(workspace, f'store = "{written}"')
    environ = {"PW": "a@b/c", "URL": "postgresql://ann:x%40@db/x", "NAME": "shop"}
    assert load(workspace).store == written
    assert load(workspace).store_address(environ) == expected


def test_a_store_that_a_variable_names_may_be_a_file_of_the_workspace(workspace: Path) -> None:
    write(workspace, 'store = "${NAME}.db"')
    assert load(workspace).store_address({"NAME": "shop"}) == str(workspace / "shop.db")
    assert load(workspace, SPINDLE_STORE="postgresql://db/x").store_address({}) == "postgresql://db/x"


def test_a_missing_variable_in_the_store_is_named(workspace: Path) -> None:
    write(workspace, 'store = "postgresql://ann:${PW}@db/x"')
    with pytest.raises(ConfigurationError, match="PW is not set, but store uses it") as caught:
        load(workspace).store_address({})
    assert "export PW=" in (caught.value.hint or "")


def test_without_files_there_is_nothing_but_defaults(workspace: Path) -> None:
    found = load(workspace)
    assert found.sources == {}
    assert found.store == str(workspace / ".spindle" / "state.db")


def test_outside_a_workspace_the_user_s_settings_stand_alone(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, '[sources.a]\ncommand = "x"\n')
    (tmp_path / "tools").mkdir()
    monkeypatch.chdir(tmp_path)
    found = settings.load(environ={})
    assert list(found.sources) == ["a"]
    assert found.store == str(home / "state" / "state.db")
    assert not found.is_workspace


def test_the_nearest_workspace_at_or_above_is_found(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(workspace, "")
    inner = workspace / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert settings.load(environ={}).root == workspace


def test_a_workspace_may_be_named_by_its_file(workspace: Path) -> None:
    file = write(workspace, "")
    assert settings.load(file, {}).root == workspace
    with pytest.raises(ConfigurationError, match="there is no folder"):
        settings.load(workspace / "nowhere", {})
    other = workspace / "other.toml"
    other.write_text("")
    with pytest.raises(ConfigurationError, match="there is no folder"):
        settings.load(other, {})


@pytest.mark.parametrize("said", [None, "", " ", "/somewhere/else", "~/there", "there"])
def test_the_user_s_folders_are_the_system_s_unless_they_are_set(
    monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    monkeypatch.delenv("SPINDLE_HOME")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False) if said is None else monkeypatch.setenv(name, said)
    assert settings.user_folder() == platformdirs.user_config_path("spindle").expanduser()
    if said is not None:  # without, `conftest` has put another in its place
        assert places.data_folder() == platformdirs.user_data_path("spindle").expanduser()


def test_a_disabled_source_is_not_there(workspace: Path) -> None:
    write(workspace, '[sources.a]\ncommand = "x"\nenabled = false\n[sources.b]\ncommand = "x"\n')
    assert list(load(workspace).sources) == ["b"]
    assert list(
        load(workspace, SPINDLE_SOURCES__A__ENABLED="true", SPINDLE_SOURCES__B__ENABLED="False").sources
    ) == ["a"]


def test_the_tools_folder_is_a_source_with_plain_names(workspace: Path) -> None:
    (workspace / "tools").mkdir()
    assert load(workspace).sources == {"tools": {"kind": "python", "path": "tools", "prefix": False}}


def test_the_tools_folder_may_have_settings_of_its_own(workspace: Path) -> None:
    (workspace / "tools").mkdir()
    write(workspace, "[sources.tools]\ntimeout = 5\n")
    assert load(workspace).sources["tools"] == {
        "kind": "python", "path": "tools", "prefix": False, "timeout": 5,
    }  # fmt: skip


def test_each_folder_of_the_workspace_is_a_source_of_its_kind(workspace: Path) -> None:
    for folder in ("tools", "mods", "events"):
        (workspace / folder).mkdir()
    write(workspace, "[mods.notebook]\nlongest = 20")
    sources = load(workspace).sources
    assert {name: (table["kind"], table["path"]) for name, table in sources.items()} == {
        "tools": ("python", "tools"),
        "mods": ("mods", "mods"),
        "events": ("events", "events"),
    }
    assert sources["mods"]["mods"] == {"notebook": {"longest": 20}}


def test_mods_that_are_installed_need_no_folder(workspace: Path) -> None:
    write(workspace, "[mods.notebook]")
    assert load(workspace).sources == {"mods": {"kind": "mods", "prefix": False, "mods": {"notebook": {}}}}


def test_another_source_may_not_take_the_name_of_the_tools_folder(workspace: Path) -> None:
    (workspace / "tools").mkdir()
    write(workspace, '[sources.tools]\ncommand = "x"\n')
    with pytest.raises(ConfigurationError, match="the workspace's own folder"):
        _ = load(workspace).sources


# --- the environment


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("SPINDLE_SOURCES__A__TIMEOUT", "5", {"timeout": "5"}),
        ("SPINDLE_SOURCES__A__COMMAND", '["run", "it"]', {"command": ["run", "it"]}),
        ("SPINDLE_SOURCES__A__COMMAND", "run it", {"command": "run it"}),
        ("SPINDLE_SOURCES__A__RETRY", "{ attempts = 2 }", {"retry": {"attempts": 2}}),
        ("SPINDLE_SOURCES__A__RETRY__MAX_WAIT", "7", {"retry": {"wait": 1, "max_wait": "7"}}),
        ("SPINDLE_SOURCES__A__DESCRIPTION", '"quoted"', {"description": "quoted"}),
        ("SPINDLE_SOURCES__A__DESCRIPTION", "[not toml", {"description": "[not toml"}),
        ("SPINDLE_SOURCES__A__DESCRIPTION", '"a"\nstore = "b"', {"description": '"a"\nstore = "b"'}),
        ("SPINDLE_SOURCES__A__ENV__API_KEY", "12345", {"env": {"API_KEY": "12345", "Mixed": "x"}}),
        ("SPINDLE_SOURCES__A__ENV__MIXED", "y", {"env": {"Mixed": "y"}}),
    ],
)
def test_the_environment_overrides_any_setting(
    workspace: Path, variable: str, value: str, expected: dict[str, Any]
) -> None:
    write(workspace, '[sources.a]\ncommand = "old"\nretry.wait = 1\nenv.Mixed = "x"\n')
    table = settings.load(workspace, {variable: value}).sources["a"]
    assert {key: table[key] for key in expected} == expected


def test_a_source_with_dashes_and_capitals_is_found(workspace: Path) -> None:
    write(workspace, '[sources.my-Server]\ncommand = "x"\n')
    assert load(workspace, SPINDLE_SOURCES__MY_SERVER__TIMEOUT="5").sources == {
        "my-Server": {"kind": "mcp", "command": "x", "timeout": "5"}
    }


def test_a_source_may_come_from_the_environment_alone(workspace: Path) -> None:
    found = load(workspace, SPINDLE_SOURCES__WEB__URL="https://example.org", SPINDLE_STORE="x.db")
    assert found.sources == {"web": {"kind": "mcp", "url": "https://example.org"}}
    assert found.store == str(workspace / "x.db")


def test_a_variable_inside_something_that_is_no_table_is_refused(workspace: Path) -> None:
    write(workspace, '[sources.a]\ncommand = "x"\n')
    with pytest.raises(ConfigurationError, match=r"SPINDLE_SOURCES__A__COMMAND__X.*'command'"):
        load(workspace, SPINDLE_SOURCES__A__COMMAND__X="1")


def test_a_variable_of_an_unknown_section_is_refused_by_name(workspace: Path) -> None:
    with pytest.raises(ConfigurationError, match="SPINDLE_SORCES__A__URL") as caught:
        load(workspace, SPINDLE_SORCES__A__URL="x")
    assert caught.value.hint == "did you mean `sources`?"


@pytest.mark.parametrize(
    "variable", ["SPINDLE_HOME", "SPINDLE_DEBUG", "SPINDLE_A____B", "SPINDLE___A", "OTHER__A__B"]
)
def test_other_variables_are_left_alone(workspace: Path, variable: str) -> None:
    assert settings.load(workspace, {variable: "x"}).raw == {"sources": {}}


# --- mistakes in the file as a whole


def test_a_syntax_error_names_the_file_and_the_line(workspace: Path) -> None:
    file = write(workspace, "[sources.a]\ncommand = oops\n")
    with pytest.raises(ConfigurationError) as caught:
        load(workspace)
    assert str(file) in caught.value.message
    assert "line 2" in caught.value.message
    assert caught.value.hint is not None


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[source.a]\n", "`source` is not a setting", "did you mean `sources`?"),
        ("colour = 1\n", "`colour` is not a setting", "known are: "),
        ("sources = 5\n", "`sources` must be a table", None),
        ("[sources]\na = 5\n", "sources.a must be a table", None),
        ("store = 5\n", "`store` must be text", None),
    ],
)
def test_a_mistake_at_the_top_is_named(workspace: Path, text: str, message: str, hint: str | None) -> None:
    write(workspace, text)
    with pytest.raises(ConfigurationError) as caught:
        load(workspace)
    assert message in caught.value.message
    assert str(workspace) in caught.value.message
    assert hint is None or (caught.value.hint or "").startswith(hint)


def test_a_file_that_cannot_be_read_is_a_configuration_error(workspace: Path) -> None:
    (workspace / "spindle.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="cannot read"):
        load(workspace)
    os.unlink(workspace / "spindle.toml")
    (workspace / "spindle.toml").mkdir()
    with pytest.raises(ConfigurationError, match="cannot read"):
        load(workspace)


# --- what is kept, and in which form


def test_the_form_of_details_is_read_and_a_mistake_named_at_once(workspace: Path, home: Path) -> None:
    assert (load(workspace).at_rest.history, load(workspace).at_rest.cache) == ("sealed", "sealed")
    write(workspace, '[at_rest]\nhistory = "off"\n')
    assert (load(workspace).at_rest.history, load(workspace).at_rest.cache) == ("off", "sealed")
    assert load(workspace, SPINDLE_AT_REST__CACHE="clear").at_rest.cache == "clear"
    for text, said in (
        ('[at_rest]\nhistory = "hidden"\n', 'at_rest.history must be "sealed", "clear" or "off"'),
        ('[at_rest]\nhistroy = "off"\n', "at_rest.histroy is not a setting"),
        ("at_rest = 5\n", "`at_rest` must be a table"),
    ):
        write(workspace, text)
        with pytest.raises(ConfigurationError, match=said):
            load(workspace)
