"""TOML from outside is read within bounds."""

from __future__ import annotations

import tomllib

import pytest

from spindle.domain.toml_text import MAX_DEPTH, MAX_SIZE, read_toml

DEEP = f"nested more than {MAX_DEPTH} levels deep"
LONG = f"a key of more than {MAX_DEPTH} parts"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = " + "[" * 100_000, DEEP),
        ("a = " + "[" * 900 + "]" * 900, DEEP),
        ("a = " + "{a = " * 50_000, DEEP),
        ("\n" + ".".join(["a"] * 100_000) + " = 1", rf"{LONG} \(at line 2\)"),
        ("[" + " . ".join(['"a"'] * 100_000) + "]", LONG),
        ("x = {" + ".".join(["a"] * 100_000) + " = 1}", LONG),
        (
            "\n".join(f"[{'.'.join(['a'] * 60)}.b{n}]" for n in range(2)) + "\nc = " + "[" * 60 + "]" * 60,
            DEEP,
        ),
        ("a = " + "9" * 100_000, "Exceeds the limit"),
        ("a" * (MAX_SIZE + 1), "longer than"),
        ("a = " + "'" * 100_001, "."),
        ("a" * 1_000_000, "."),
        ("a." * 60 + "\n" + '"' * 200_000, "."),
    ],
)
def test_a_hostile_text_is_refused(text: str, problem: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError, match=problem):
        read_toml(text)


def test_what_is_as_deep_as_allowed_is_read() -> None:
    assert read_toml("a = " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))
    assert read_toml('[a.b."c.d"]\nurl = "https://a.example/' + "a.b.c, " * 500 + '"')["a"]["b"]["c.d"]
