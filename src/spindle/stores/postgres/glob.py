"""Translates SQLite's globs into PostgreSQL's regular expressions."""

from __future__ import annotations

import re

_NEVER = "^(?!)"


def regular_expression(glob: str) -> str:
    """Translates a glob: `*` is any text, `?` one character, `[abc]`, `[a-z]` and `[^abc]` one of a set. A
    `[` that is never closed matches nothing."""
    made, at = "", 0
    while at < len(glob):
        character = glob[at]
        at += 1
        if character == "*":
            # Several in a row mean the same as one; a long row would be slow.
            made += "" if made.endswith(".*") else ".*"
        elif character == "?":
            made += "."
        elif character == "[":
            # A `]` in first place is one of the characters.
            found = re.match(r"(\^?)(\]?[^\]]*)\]", glob[at:], re.DOTALL)
            if found is None or not found[2]:
                return _NEVER
            made += f"[{found[1]}{_bracket(found[2])}]"
            at += found.end()
        else:
            made += _literal(character)
    return f"^(?:{made})$"


def _bracket(members: str) -> str:
    # Characters with a meaning inside brackets of a regular expression, but not of a glob.
    return "".join(f"\\{each}" if each in "\\[]^" else each for each in members)


def _literal(character: str) -> str:
    return character if character.isalnum() or ord(character) > 127 else f"\\{character}"
