"""Text of others as a person may be shown it: what would move the cursor, turn the order of words around or
stay unseen is written as an escape."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_UNSEEN: Final = (
    # Soft hyphens, fillers and marks of direction; separators of lines; overrides, isolates and invisible
    # operators; variants of signs but those of emoji; marks of order, of notes, shorthand, music; tags.
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\ud800-\udfff"
)
_JOINERS: Final = "\u200c\u200d"
# Between letters that are not of ASCII a joiner is spelling, in Persian and Hindi or in a family of emoji.
_SPELLING: Final = rf"(?<=[^\x00-\x7f])[{_JOINERS}](?=[^\x00-\x7f{_JOINERS}])"
# Compiled when first used: most texts are plain, and to compile these takes a millisecond each.
_HIDDEN: Final = rf"(?!{_SPELLING})[{_CONTROLS}{_UNSEEN}]"
_HIDDEN_IN_JSON: Final = f"[\x7f-\x9f{_UNSEEN}]"


def visible(text: str) -> str:
    """Returns the text with everything that a terminal or a page would obey, or not show, as an escape such
    as `\\x1b` or `\\u202e`. Tabs and line breaks stay."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return re.sub(_HIDDEN, _escape, text.replace("\r\n", "\n"))


def visible_json(text: str) -> str:
    """Returns a JSON text of the same value, with what would not be shown as JSON's own escapes."""
    return text if text.isascii() and "\x7f" not in text else re.sub(_HIDDEN_IN_JSON, _json_escape, text)


def quoted(text: str) -> str:
    """Returns a text of somebody else whose further lines cannot be taken for Spindle's own."""
    return "\n  | ".join(text.splitlines())


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
