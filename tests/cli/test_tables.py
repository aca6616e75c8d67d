"""Tables on terminals of any width: keys and names are whole, or not there."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from spindle.cli.columns import lay_out, shortened, wrapped

HISTORY = ("KEY", "STARTED", "TOOK", "OUTCOME", "TOOL", "ERROR")
DROPPED = ("TOOK", "STARTED", "ERROR", "OUTCOME")
KEY = "0123abcd"
TOOL = "filesystem.read_multiple_files"
ERROR = "the server did not answer within thirty seconds and was given up"
ROWS = [(KEY, "just now", "0.02 s", "ok", TOOL, ""), (KEY, "2 h ago", "30.00 s", "timeout", "fs.a", ERROR)]


@pytest.mark.parametrize("room", range(10, 160))
def test_keys_and_names_are_never_cut(room):
    lines = lay_out(HISTORY, ROWS, room, drop=DROPPED)
    words = " ".join(lines).split()
    assert words.count(KEY) == 2
    shown = lines[0].split()
    assert words.count(TOOL) == ("TOOL" in shown)
    assert words.count("fs.a") == ("TOOL" in shown)
    assert words.count("timeout") == ("OUTCOME" in shown)


@pytest.mark.parametrize(
    ("room", "headings"),
    [
        (120, "KEY STARTED TOOK OUTCOME TOOL ERROR"),
        (85, "KEY STARTED OUTCOME TOOL ERROR"),
        (78, "KEY OUTCOME TOOL ERROR"),
        (60, "KEY OUTCOME TOOL"),
        (44, "KEY OUTCOME TOOL"),
        (20, "KEY TOOL"),
        (12, "KEY"),
    ],
)
def test_a_narrow_terminal_gets_fewer_columns(room, headings):
    assert " ".join(lay_out(HISTORY, ROWS, room, drop=DROPPED)[0].split()) == headings


@pytest.mark.parametrize("room", [60, 80, 140])
def test_lines_fit_where_no_name_is_longer_than_the_terminal(room):
    assert all(cell_len(line) <= room for line in lay_out(HISTORY, ROWS, room, drop=DROPPED))


def test_a_name_that_is_longer_than_most_stands_on_its_own_line():
    long = "a" * 70
    lines = lay_out(("TOOL", "KIND", "WHAT"), [("b", "mcp", "One"), (long, "mcp", "Two")], 120)
    assert lines == ["TOOL  KIND  WHAT", "b     mcp   One", long, "      mcp   Two"]


def test_a_name_that_does_not_fit_beside_others_stands_below_them():
    heading = "KEY       OUTCOME  TOOL  ERROR"
    wide = lay_out(HISTORY, ROWS, 50, drop=DROPPED)
    assert wide == [heading, f"{KEY}  ok       {TOOL}", f"{KEY}  timeout  fs.a  the server did not …"]
    narrow = lay_out(HISTORY, ROWS, 45, drop=DROPPED)
    assert narrow == [heading, f"{KEY}  ok", f"  {TOOL}", f"{KEY}  timeout  fs.a  the server did not …"]


def test_text_ends_between_two_words():
    assert shortened("one two three", 13) == "one two three"
    assert shortened("one two three", 11) == "one two …"
    assert shortened("one two three", 9) == "one two …"
    assert shortened("x" * 30, 10) == "x" * 8 + " …"


def test_a_long_word_in_the_last_column_is_not_cut():
    url = "https://example.com/" + "x" * 80
    lines = lay_out(("TOKEN", "WHAT IS WANTED"), [("t1", url)], 60)
    assert lines[1:] == ["t1", f"  {url}"]


def test_wide_characters_are_counted_as_two():
    lines = lay_out(("NAME", "WHAT"), [("日本語", "x"), ("ab", "y")], 80)
    assert [cell_len(line.partition(word)[0]) for line, word in zip(lines[1:], "xy", strict=True)] == [8, 8]
    assert wrapped("日本 語日 本語", 9) == ["日本 語日", "本語"]


def test_a_table_without_text_in_a_column_shows_the_others():
    assert lay_out(("A", "B", "C"), [("1", "", "x")], 80)[1] == "1     x"


def test_a_last_column_without_any_text_is_left_out():
    assert lay_out(("KEY", "ERROR"), [("1", ""), ("2", "")], 80) == ["KEY", "1", "2"]
