"""The file and line of every setting in force."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from spindle import settings
from spindle.settings.lines import lines_of
from spindle.settings.provenance import written_settings

TEXT = '''# a comment with = and [brackets]
store = "a#b"   # no comment inside

[serve]
port = 1
allowed_hosts = [
  "a = b",  # [x]
  "]",
]
instruction = """
[not.a.table]
key = "no"
"""
plain = \'\'\'
port = 2
\'\'\'

[sources."my.server"]
env = { A = "1", "B C" = "2" }
auth.type = "bearer"

[[triggers.list]]
name = "first"

[[triggers.list]]
name = "second"
'''


def test_each_key_has_its_line() -> None:
    tomllib.loads(TEXT)
    found = lines_of(TEXT)
    expected = {
        ("store",): 2, ("serve",): 4, ("serve", "port"): 5, ("serve", "allowed_hosts"): 6,
        ("serve", "instruction"): 10, ("serve", "plain"): 14, ("sources", "my.server"): 18,
        ("sources", "my.server", "env"): 19, ("sources", "my.server", "auth", "type"): 20,
        ("triggers", "list", "0"): 22, ("triggers", "list", "0", "name"): 23,
        ("triggers", "list", "1"): 25, ("triggers", "list", "1", "name"): 26,
    }  # fmt: skip
    assert found == expected


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "a = 1", "a = '''x'''\nb = 2", 'a = """q\\"""" \nb = 2', "a = '\"'\nb = 2",
     "a=[[1],[{x=1}]]\nb=2", 'a = """""" \nb = 1', "a = 1979-05-27T07:32:00Z\r\nb = 2"],
)  # fmt: skip
def test_no_key_is_missed_or_made_up(text: str) -> None:
    assert {path[0] for path in lines_of(text)} == set(tomllib.loads(text))


def test_settings_in_force_know_where_they_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, root = tmp_path / "mine", tmp_path / "work"
    home.mkdir()
    root.mkdir()
    monkeypatch.setenv("SPINDLE_HOME", str(home))
    (home / "spindle.toml").write_text(
        '[serve]\nport = 1\nhost = "127.0.0.1"\n[sources.both]\nurl = "http://a"\n'
    )
    (root / "more.toml").write_text('timeout = 5\nurl = "http://c"\n')
    (root / "spindle.toml").write_text(
        '[serve]\nport = 2\n\n[sources.both]\nurl = "http://b"\n\n[sources.own]\nfile = "more.toml"\n'
        'timeout = 7\n[sources.own.env]\nTOKEN = "${T}"\n'
    )
    loaded = settings.load(root, {"SPINDLE_SERVE__PAGE_SIZE": "9"}, trusted=True)
    found: dict[str, tuple[Any, Any, Any]] = {
        ".".join(item.path): (item.value, item.file and item.file.parent.name, item.line or item.variable)
        for item in written_settings(loaded)
    }
    assert found["serve.port"] == (2, "work", 2)
    assert found["serve.host"] == ("127.0.0.1", "mine", 3)
    assert found["serve.page_size"] == ("9", None, "SPINDLE_SERVE__PAGE_SIZE")
    assert found["sources.both.url"] == ("http://b", "work", 5)
    assert found["sources.own.timeout"] == (7, "work", 9)
    assert found["sources.own.url"] == ("http://c", "work", 2)
    assert found["sources.own.env.TOKEN"] == ("${T}", "work", 11)
    by_file = {".".join(item.path): item.file and item.file.name for item in written_settings(loaded)}
    assert by_file["sources.own.url"] == "more.toml"
