"""JSON with comments, as editors have it for their settings: read, and changed in one place."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from spindle.domain.json_schema import JsonObject

# A string, a comment, or a comma followed only by spaces and comments before a closing bracket.
# A comment gives nothing back once it is found: what looks like a bracket in it is none. One that is not
# closed goes to the end, or the rest would be searched again from each of its signs.
_COMMENT = r"//[^\n]*+|(?>/\*.*?(?:\*/|\Z))"
_JSONC = re.compile(rf'("(?:\\.|[^"\\])*")|{_COMMENT}|,(?=(?:\s|{_COMMENT})*[}}\]])', re.DOTALL)
_TOKEN = re.compile(rf'"(?:\\.|[^"\\])*"|{_COMMENT}|[{{}}\[\],:]|[^\s{{}}\[\],:"/]+', re.DOTALL)
_FIRST_INDENT = re.compile(r"[{\[]\s*?\n([ \t]+)\S")


def without_comments(text: str) -> str:
    """JSON text without comments and trailing commas. Everything else keeps its place."""
    return _JSONC.sub(lambda match: match[1] or re.sub(r"[^\r\n]", " ", match[0]), text)


def set_in_json(text: str, key: str, name: str, entry: JsonObject) -> str:
    """Returns the text with the entry set in the object under the key. Everything else stays as it was."""
    if not text.strip("\ufeff \t\r\n"):
        bom = text[:1] if text.startswith("\ufeff") else ""
        return bom + json.dumps({key: {name: entry}}, indent=2, ensure_ascii=False) + "\n"
    style = _Style.of(text)
    root = _scan(text, text.index("{"))
    held = root.members.get(key)
    if held is None:
        return _inserted(text, root, key, {name: entry}, style, depth=1)
    inner = _scan(text, held.start)
    there = inner.members.get(name)
    if there is None:
        return _inserted(text, inner, name, entry, style, depth=2)
    return text[: there.start] + style.written(entry, style.indent(text, there.key)) + text[there.end :]


@dataclass(slots=True)
class _JsonMember:
    """A key of an object, and where its value begins and ends."""

    key: int
    start: int
    end: int


@dataclass(slots=True)
class _JsonObject:
    """An object in the text: its members, and what lies before its closing bracket."""

    opened: int
    members: dict[str, _JsonMember] = field(default_factory=dict[str, _JsonMember])
    last: int = 0
    """The end of the last value."""
    has_comma: bool = False
    tail: int = 0
    """The end of the last thing, be it a comment."""
    closed: int = 0


@dataclass(frozen=True, slots=True)
class _Style:
    """The way in which a text is laid out."""

    unit: str
    newline: str

    @classmethod
    def of(cls, text: str) -> _Style:
        match = _FIRST_INDENT.search(text)
        return cls(match[1] if match else "  ", "\r\n" if "\r\n" in text else "\n")

    def indent(self, text: str, at: int) -> str | None:
        """The spaces before a place, if nothing else is in its line."""
        before = text[text.rfind("\n", 0, at) + 1 : at]
        return None if before.strip() else before

    def written(self, value: JsonObject, indent: str | None) -> str:
        made = json.dumps(value, indent=self.unit, ensure_ascii=False)
        return made.replace("\n", self.newline + (indent or ""))


def _scan(text: str, opened: int) -> _JsonObject:
    """Finds the members of the object that opens here. The text is known to be valid."""
    found = _JsonObject(opened, tail=opened + 1)
    depth, key, label, start = 0, None, 0, None
    for token in _TOKEN.finditer(text, opened):
        sign = token[0]
        if sign[:2] in ("//", "/*"):
            found.tail = token.end()
            continue
        if depth == 1 and sign in (",", "}") and key is not None and start is not None:
            found.members[key] = _JsonMember(label, start, found.last)
            key = start = None
        if sign in ("{", "["):
            depth += 1
        if depth == 1 and sign == "}":
            found.closed = token.start()
            return found
        if sign in ("}", "]"):
            depth -= 1
        if token.start() == opened:
            continue
        found.has_comma = depth == 1 and sign == ","
        found.tail = token.end()
        if found.has_comma:
            continue
        if key is None:
            key, label = json.loads(sign), token.start()
        elif start is None and sign != ":":
            start = token.start()
        found.last = token.end()
    raise ValueError("the object does not end")


def _inserted(text: str, where: _JsonObject, name: str, value: JsonObject, style: _Style, depth: int) -> str:
    """The text with a member behind the others, and behind the comments that follow them."""
    indent = None
    if where.members:
        indent = style.indent(text, next(reversed(where.members.values())).key)
    if indent is None:
        indent = style.unit * depth
    member = f"{json.dumps(name, ensure_ascii=False)}: {style.written(value, indent)}"
    comma_before = "," if where.members and not where.has_comma else ""
    comma_after = "," if where.members and where.has_comma else ""
    end = text[where.tail : where.closed]
    if "\n" not in end:
        end = style.newline + style.unit * (depth - 1)
    split = where.last if where.members else where.tail
    return "".join(
        [text[:split], comma_before, text[split : where.tail], style.newline, indent, member, comma_after,
         end, text[where.closed :]]
    )  # fmt: skip
