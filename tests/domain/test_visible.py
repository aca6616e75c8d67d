"""Texts of others, as a person may be shown them."""

import json

import pytest

from spindle.domain.html import cell_html, text_html
from spindle.domain.visible import quoted, visible, visible_json

HIDDEN = {
    "ANSI": ("\x1b[2J", r"\x1b[2J"), "OSC": ("\x1b]0;x\x07", r"\x1b]0;x\x07"), "return": ("a\rb", r"a\x0db"),
    "backspace": ("a\x08", r"a\x08"), "delete": ("\x7f", r"\x7f"), "C1": ("\x9b31m", r"\x9b31m"),
    "next line": ("\x85", r"\x85"),
    "override": ("\u202egpj", r"\u202egpj"), "isolate": ("\u2067", r"\u2067"),
    "mark": ("\u200f", r"\u200f"),
    "zero width": ("a\u200bb", r"a\u200bb"), "joiner": ("a\u200db", r"a\u200db"),
    "soft hyphen": ("a\u00adb", r"a\xadb"), "byte order": ("\ufeffa", r"\ufeffa"),
    "line separator": ("a\u2028b", r"a\u2028b"), "paragraph": ("a\u2029b", r"a\u2029b"),
    "tag": ("\U000e0041", r"\U000e0041"), "filler": ("\u3164", r"\u3164"), "variant": ("a\ufe00", r"a\ufe00"),
    "more variants": ("a\U000e0100", r"a\U000e0100"), "half": ("\ud800", r"\ud800"), "null": ("\0", r"\x00"),
    "chain of joiners": ("\u00e4\u200d\u200d\u00e4", "\u00e4\\u200d\u200d\u00e4"),
}  # fmt: skip


@pytest.mark.parametrize("kind", HIDDEN)
def test_what_a_terminal_obeys_or_does_not_show_is_an_escape(kind: str) -> None:
    text, shown = HIDDEN[kind]
    assert visible(text) == shown
    assert shown in text_html(text)
    assert shown in cell_html(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "plain", "two\nlines\tand a tab", "na\u00efve caf\u00e9", "\u65e5\u672c\u8a9e", "\u0639\u0631",
        "\u0645\u06cc\u200c\u062e\u0648", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f",
    ],
)  # fmt: skip
def test_what_people_write_stays(text: str) -> None:
    assert visible(text) == text


def test_line_ends_of_windows_are_line_ends() -> None:
    assert visible("one\r\ntwo\r\n") == "one\ntwo\n"


@pytest.mark.parametrize("kind", HIDDEN)
def test_json_holds_the_same_value_and_shows_all_of_it(kind: str) -> None:
    text = HIDDEN[kind][0]
    shown = visible_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(shown) == text
    assert visible(shown) == shown


def test_further_lines_of_others_are_marked() -> None:
    assert quoted("one\nspindle: two\u2028three") == "one\n  | spindle: two\n  | three"
