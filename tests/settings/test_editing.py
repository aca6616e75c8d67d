from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.examples import examples
from spindle.errors import ConfigurationError
from spindle.settings import edit
from spindle.settings.edit import add_source, remove_source

TABLE = {"command": ["npx", "server"], "env": {"KEY": "${KEY}"}}


@pytest.fixture
def file(workspace: Path) -> Path:
    return workspace / "spindle.toml"


LAYOUTS = {
    "headers": '# all\n\n[sources.a]   # first\ncommand = "x"\n\n# about b\n[sources.b]\ncommand = "y"\n',
    "dotted keys": '[sources]\na.command = "x"\nb.command = "y"\n',
    "dotted at the top": 'sources.a.command = "x"\nsources.b.command = "y"\n',
    "nested": '[sources.a]\ncommand = "x"\n[sources.a.env]\nK = "1"\n\n[sources.b]\n# the end\n',
    "quoted": '[sources."a"]\ncommand = "x"\n[ sources . \'b\' ]\ncommand = "y"\n',
    "spread": '[sources.a]\ncommand = "x"\n\n# the store\n[other]\nx = 1\n\n[sources.b]\ncommand = "y"\n',
    "inline": 'sources = { a = { command = "x" }, b = { command = "y" } }  # all\nother = 1\n',
    "windows": '# mine\r\n[sources.a]\r\ncommand = "x"\r\n\r\n[sources.b]\r\ncommand = "y"\r\n',
    "no newline at the end": '[sources.a]\ncommand = "x"\n[sources.b]\ncommand = "y"',
    "text like tables": '[sources.a]\ncommand = """\n[sources.z]\n"""\n[sources.b]\nargs = [\n["x"]\n]\n',
    "a list of tables": "[sources.a]\n[[sources.a.list]]\nx = 1\n[[sources.a.list]]\nx = 2\n[sources.b]\n",
}


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
def test_an_added_source_changes_nothing_else(file: Path, text: str) -> None:
    file.write_bytes(text.encode())
    before = tomllib.loads(text)
    add_source(file, "new", TABLE)
    after = file.read_bytes().decode()
    assert tomllib.loads(after) == {**before, "sources": {**before["sources"], "new": TABLE}}
    if not text.startswith("sources = {"):
        assert after.startswith(text)


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
def test_a_removed_source_changes_nothing_else(file: Path, text: str, name: str) -> None:
    file.write_bytes(text.encode())
    expected = tomllib.loads(text)
    del expected["sources"][name]
    assert remove_source(file, name)
    after = file.read_bytes().decode()
    assert tomllib.loads(after) == expected
    assert not remove_source(file, name)


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
def test_a_replaced_source_changes_nothing_else(file: Path, text: str) -> None:
    file.write_bytes(text.encode())
    before = tomllib.loads(text)
    add_source(file, "a", TABLE, replace=True)
    after = file.read_bytes().decode()
    assert tomllib.loads(after) == {**before, "sources": {**before["sources"], "a": TABLE}}


def test_comments_of_the_others_stay_when_one_is_removed_or_replaced(file: Path) -> None:
    file.write_text(LAYOUTS["spread"] + "\n# at the end\n")
    add_source(file, "a", {"command": "z"}, replace=True)
    assert file.read_text() == (
        '[sources.a]\ncommand = "z"\n\n# the store\n[other]\nx = 1\n\n'
        '[sources.b]\ncommand = "y"\n\n# at the end\n'
    )
    remove_source(file, "a")
    remove_source(file, "b")
    assert file.read_text() == "\n# the store\n[other]\nx = 1\n\n\n# at the end\n"


def test_a_file_without_sources_gets_them(file: Path) -> None:
    file.write_text('# settings\nstore = "x.db"\n')
    add_source(file, "new", {"url": "https://example.org", "timeout": 5, "cwd": None})
    assert file.read_text() == (
        '# settings\nstore = "x.db"\n\n[sources.new]\nurl = "https://example.org"\ntimeout = 5\n'
    )


def test_a_file_that_is_not_there_is_made(file: Path) -> None:
    add_source(file, "new", {"command": ("npx", "it's")})
    assert tomllib.loads(file.read_text()) == {"sources": {"new": {"command": ["npx", "it's"]}}}
    assert (file.parent / ".spindle" / ".gitignore").read_text() == "*\n"


COMMENTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=20).map(
    "# ".__add__
)
VALUES = st.integers(-5, 5).map(str) | st.sampled_from(
    ['"x"', "[1, 2]  # why", "{ a = 1 }", "true", "'''\n[a]\n'''"]
)
BODIES = st.lists(
    st.one_of(
        COMMENTS,
        st.just(""),
        st.builds("{} = {}".format, st.from_regex(r"[a-z]{8}", fullmatch=True), VALUES),
    ),
    max_size=5,
)


@examples(60)
@given(
    top=BODIES,
    tables=st.dictionaries(
        st.sampled_from(["sources.a", "sources.a.env", "sources.b-c", "other", "x.y"]), BODIES
    ),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_is_in_a_file_stays_as_it_is(
    file: Path, top: list[str], tables: dict[str, list[str]], newline: str
) -> None:
    lines = [*top]
    for header, body in tables.items():
        lines += [f"[{header}]", *body]
    text = newline.join(line.replace("\n", newline) for line in lines) + newline
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    file.write_bytes(text.encode())
    add_source(file, "new", TABLE)
    assert file.read_bytes().startswith(text.encode())
    assert tomllib.loads(file.read_bytes().decode())["sources"]["new"] == TABLE
    remove_source(file, "new")
    after = file.read_bytes().decode()
    assert after.startswith(text)
    assert tomllib.loads(after) == before
    for name in before.get("sources", {}):
        remove_source(file, name)
    rest = {key: value for key, value in before.items() if key != "sources"}
    assert {key: value for key, value in tomllib.loads(file.read_bytes().decode()).items() if value} == {
        key: value for key, value in rest.items() if value
    }


def test_a_source_that_is_there_is_not_overwritten_by_chance(file: Path) -> None:
    add_source(file, "a", TABLE)
    before = file.read_text()
    with pytest.raises(ConfigurationError, match="already has a source 'a'"):
        add_source(file, "a", {"command": "y"})
    assert file.read_text() == before


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_the_mode_of_the_file_is_kept(file: Path, mode: int) -> None:
    file.write_text("")
    file.chmod(mode)
    add_source(file, "a", TABLE)
    assert file.stat().st_mode & 0o777 == mode


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("# mine\n")
    file.symlink_to(real)
    add_source(file, "a", TABLE)
    assert file.is_symlink()
    assert real.read_text().startswith("# mine\n\n[sources.a]")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[sources", "not valid TOML"),
        (b"\xff", "cannot read"),
        (b"sources = 5", "`sources` must be a table"),
    ],
)
def test_a_file_that_cannot_be_understood_is_left_alone(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=message):
        add_source(file, "a", TABLE)
    with pytest.raises(ConfigurationError, match=message):
        remove_source(file, "a")
    assert file.read_bytes() == content


def test_a_layout_that_cannot_be_edited_is_left_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("sources = {}\n")
    monkeypatch.setattr(edit, "_set_in_place", lambda *given: "sources = { wrong = {} }")
    with pytest.raises(ConfigurationError, match="cannot be edited by program"):
        add_source(file, "a", TABLE)
    assert file.read_text() == "sources = {}\n"


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("# old\n")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigurationError, match=r"No space left.*nothing was changed"):
        add_source(file, "a", TABLE)
    assert file.read_text() == "# old\n"
    assert sorted(path.name for path in file.parent.iterdir()) == [".spindle", "spindle.toml"]


DIE = """
import os, signal, sys
from pathlib import Path
from spindle.settings.edit import add_source
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
add_source(Path(sys.argv[1]), "a", {"command": "x"})
"""


def test_a_crash_in_the_middle_leaves_the_old_file_and_no_lock(file: Path) -> None:
    file.write_text("# old\n")
    assert subprocess.run([sys.executable, "-c", DIE, str(file)]).returncode == -9
    assert file.read_text() == "# old\n"
    add_source(file, "b", TABLE)
    assert list(tomllib.loads(file.read_text())["sources"]) == ["b"]


def test_processes_that_add_at_once_lose_nothing(file: Path) -> None:
    program = str(Path(__file__).with_name("edit_process.py"))
    started = [
        subprocess.Popen(
            [sys.executable, program, str(file), name, "20"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name in ("x", "y")
    ]  # fmt: skip
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.communicate("go\n")
        assert process.returncode == 0
    expected = {f"{name}{number}" for name in ("x", "y") for number in range(20)}
    assert set(tomllib.loads(file.read_text())["sources"]) == expected


def test_a_file_that_somebody_else_keeps_locked_is_given_up(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit, "LOCK_TIMEOUT", 0.0)
    add_source(file, "a", TABLE)
    with (file.parent / ".spindle" / "edit.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match="another process is editing"):
            add_source(file, "b", TABLE)
    add_source(file, "b", TABLE)
    assert set(tomllib.loads(file.read_text())["sources"]) == {"a", "b"}


def test_a_folder_that_cannot_be_written_is_a_configuration_error(workspace: Path) -> None:
    (workspace / ".spindle").write_text("a file in the place of the folder")
    with pytest.raises(ConfigurationError, match="cannot write in"):
        add_source(workspace / "spindle.toml", "a", TABLE)


def test_values_of_every_kind_come_back(file: Path) -> None:
    table: dict[str, Any] = {
        "a": "quo\"te\n", "b": 1.5, "c": True, "d": [1, [2]],
        "e": {"f": {"g": "h"}, "i j": 1}, "k": [{"x": 1}],
    }  # fmt: skip
    add_source(file, "new", table)
    assert tomllib.loads(file.read_text())["sources"]["new"] == table
