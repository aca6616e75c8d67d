"""The interface of a node that is written by hand, read from its docstring. That has sections, as
`interface.py` shows them, or a list, as pflow's nodes have it:

    Interface:
    - Reads: shared["query"]: str - what to look for
    - Reads: shared["language"] - of the code (optional)
    - Writes: shared["found"]: list  # the places
    - Writes: shared["total"] (int): how many there are
    - Params: limit: int - how many at most (default: 10)
    - Actions: "default", "rate_limited" (wait a little)
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from spindle.domain.json_schema import JsonObject
from spindle.flows.interface import Interface, Key

_SECTION = re.compile(r"(?P<list>Interface)|(?P<section>Reads|Writes|Params|Actions)")
_KEY = re.compile(r"(?P<name>[\w.-]+)\s*(?:\((?P<kind>[^)]*)\))?\s*(?::\s*(?P<text>.*))?")
_TYPES = {
    "str": "string", "string": "string", "text": "string",
    "int": "integer", "integer": "integer",
    "float": "number", "number": "number",
    "bool": "boolean", "boolean": "boolean",
    "list": "array", "array": "array",
    "dict": "object", "object": "object",
    "none": "null", "null": "null",
}  # fmt: skip

_ITEM = re.compile(r"-\s*(Reads|Writes|Params|Actions)\s*:\s*(.*)")
_DASH = re.compile(r"(?:^|\s+)(?:#|--?|[\u2013\u2014])\s+|(?<=\)):\s+")  # between a key and its description
_LISTED = re.compile(
    r"""\s* (?: shared\[\s*(?P<quote>["'])(?P<shared>.+?)(?P=quote)\s*\] | ["']?(?P<bare>[\w.-]+)["']? )
        (?: \s*:\s* (?P<kind> \w+ (?:\[[^\]]*\])? (?:\s*\|\s* \w+ (?:\[[^\]]*\])?)* ) )?
        (?: \s* \((?P<marks>[^)]*)\) )?
        \s* (?: , | $ )""",
    re.VERBOSE,
)
_MARKS = re.compile(
    r"""\s*\((?P<marks>(?:optional|required|default)\b(?:[^)"]|"(?:[^"\\]|\\.)*")*)\)""", re.IGNORECASE
)
_DEFAULT = re.compile(r"\bdefault\b\s*[:=]?\s*(?P<value>.+)", re.IGNORECASE)


def of_docstring(
    name: str, docstring: str | None, *, pure: bool = False, unread: Callable[[str], object] | None = None
) -> Interface:
    """Returns the interface that a node's docstring describes. A node that names no keys may read any.
    `unread` is told the lines that make no sense."""
    text: list[str] = []
    sections: dict[str, list[str]] = {}
    current: list[str] | None = None
    in_list = False
    for line in inspect.cleandoc(docstring or "").splitlines():
        goes_on = not line.strip() or line.startswith((" ", "\t"))
        heading = _SECTION.fullmatch(line.rstrip().removesuffix(":")) if line.rstrip().endswith(":") else None
        if heading is not None:
            current = sections.setdefault(heading[0], [])
            in_list = heading["list"] is not None
        elif current is not None and (goes_on or (in_list and line.startswith("-"))):
            current.append(line)
        else:
            current = None
            text.append(line)
    found = _Found(unread)
    for section in ("Reads", "Writes", "Params", "Actions"):
        for entry in _entries(sections.get(section, [])):
            found.take_entry(section, entry)
    for section, entry in _items(sections.get("Interface", []), found.refuse):
        found.take_item(section, entry)
    return Interface(
        name=name,
        description="\n".join(text).strip(),
        reads=tuple(found.keys["Reads"]),
        writes=tuple(found.keys["Writes"]),
        params=tuple(found.keys["Params"]),
        actions={key.name: key.description for key in found.keys["Actions"]} or {"default": "it is done"},
        pure=pure,
    )


def _entries(lines: list[str]) -> Iterator[str]:
    """Yields the entries of a section; what is set in further goes on with the line before."""
    base = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    entry = ""
    for line in filter(str.strip, lines):
        if entry and len(line) - len(line.lstrip()) > base:
            entry += f" {line.strip()}"
            continue
        if entry:
            yield entry
        entry = line.strip()
    if entry:
        yield entry


def _items(lines: list[str], refuse: Callable[[str], object]) -> Iterator[tuple[str, str]]:
    """Yields section and text of each item of a list; lines that are set in go on with the item before."""
    section, text = "", ""
    for line in filter(str.strip, lines):
        item = _ITEM.fullmatch(line.strip())
        if item is None and section and not line.startswith("-"):
            text += f" {line.strip()}"
            continue
        if section:
            yield section, text
        section, text = (item[1], item[2]) if item is not None else ("", "")
        if item is None:
            refuse(line)
    if section:
        yield section, text


class _Found:
    def __init__(self, unread: Callable[[str], object] | None) -> None:
        self.keys: dict[str, list[Key]] = {name: [] for name in ("Reads", "Writes", "Params", "Actions")}
        self._unread = unread

    def refuse(self, line: str) -> None:
        if self._unread is not None:
            self._unread(line.strip())

    def take_entry(self, section: str, entry: str) -> None:
        """Takes an entry of a section: `name (type, optional): text` or `name (type = default): text`."""
        found = _KEY.fullmatch(entry)
        if found is None:
            self.refuse(entry)
            return
        kind, _, default = (found["kind"] or "").partition("=")
        marks = [word.strip() for word in kind.split(",")]
        self._take(section, found["name"], marks, default.strip(), found["text"] or "")

    def take_item(self, section: str, entry: str) -> None:
        """Takes an item of a list: one key with its description, or several with commas between them."""
        dash = _DASH.search(entry)
        head, text = (entry[: dash.start()], entry[dash.end() :]) if dash is not None else (entry, "")
        said = _MARKS.search(text)
        if said is not None:
            text = text[: said.start()] + text[said.end() :]
        position = 0
        while position < len(head):
            found = _LISTED.match(head, position)
            if found is None:
                self.refuse(f"- {section}: {entry}")
                return
            position = found.end()
            marks = found["marks"] or (said["marks"] if said is not None else "")
            name = found["shared"] or found["bare"]
            if section == "Actions":
                self._take(section, name, [], "", text or marks)
                continue
            default = _DEFAULT.search(marks)
            kinds = [kind.partition("[")[0].strip() for kind in (found["kind"] or "").split("|")]
            words = marks[: default.start()] if default is not None else marks
            own = default["value"].strip() if default is not None else ""
            self._take(section, name, [*kinds, *re.findall(r"\w+", words.lower())], own, text)

    def _take(self, section: str, name: str, words: list[str], default: str, text: str) -> None:
        schema: JsonObject = {}
        parts = [part.strip().lower() for word in words for part in word.split("|")]
        types = [_TYPES[part] for part in parts if part in _TYPES]
        if types:
            schema["type"] = types[0] if len(types) == 1 else types
        if default:
            schema["default"] = _literal(default)
        text = text.strip()
        if text:
            schema["description"] = text
        optional = "optional" in words or bool(default) or (section == "Params" and "required" not in words)
        self.keys[section].append(Key(name, schema, text, not optional))


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"True": True, "False": False, "None": None}.get(text, text.strip("'"))
