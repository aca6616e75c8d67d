"""Globs, as SQLite reads them, for PostgreSQL, which has regular expressions."""

from __future__ import annotations

import re

_NEVER = "^(?!)"


def regular_expression(glob: str) -> str:
    """`*` is any text, `?` one character, `[abc]`, `[a-z]` and `[^abc]` one of some. A `[` that is never
    closed matches nothing."""
    made, at = "", 0
    while at < len(glob):
        character = glob[at]
        at += 1
        if character == "*":
            # Several in a row are one; a long row of them would be slow.
            made += "" if made.endswith(".*") else ".*"
        elif character == "?":
            made += "."
        elif character == "[":
            # A `]` that stands first is one of the characters.
            found = re.match(r"(\^?)(\]?[^\]]*)\]", glob[at:], re.DOTALL)
            if found is None or not found[2]:
                return _NEVER
            made += f"[{found[1]}{_bracket(found[2])}]"
            at += found.end()
        else:
            made += _literal(character)
    return f"^(?:{made})$"


def _bracket(members: str) -> str:
    # What means something inside brackets in a regular expression but nothing in a glob.
    return "".join(f"\\{each}" if each in "\\[]^" else each for each in members)


def _literal(character: str) -> str:
    return character if character.isalnum() or ord(character) > 127 else f"\\{character}"
