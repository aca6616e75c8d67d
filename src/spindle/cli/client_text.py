"""The texts of other programs' settings: read, and changed in one place so that the rest stays as it was."""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from spindle.cli.client_json import set_in_json, without_comments
from spindle.documents.json_text import loads
from spindle.documents.places import TextError
from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.toml_text import read_toml
from spindle.settings.edit import without_table

BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class TextForm:
    """A form in which settings are written."""

    title: str
    read: Callable[[str], Any]
    """Returns the value of a text; raises ValueError, with the place of a mistake."""
    edit: Callable[[str, str, str, JsonObject], str]
    """Returns the text with an entry set in one of its tables."""
    write: Callable[[JsonObject], str]


def form_of(name: str) -> TextForm:
    """The form of a file by its name: JSON, with comments or without, unless it says otherwise."""
    ending = name.rpartition(".")[2].lower()
    return FORMS.get({"yml": "yaml"}.get(ending, ending), FORMS["json"])


def edited(form: TextForm, text: str, key: str, name: str, entry: JsonObject) -> str | None:
    """Returns the text with the entry set, or None where that would change something else too."""
    before = read_object(form, text)
    tables = before.get(key)
    wanted = {**before, key: {**(tables if is_object(tables) else {}), name: entry}}
    with contextlib.suppress(ValueError, KeyError, TypeError):
        after = form.edit(text, key, name, entry)
        if form.read(after.removeprefix(BOM)) == wanted:
            return after
    return None


def read_object(form: TextForm, text: str) -> JsonObject:
    """Returns the settings in a text, which may be empty; raises ValueError."""
    text = text.removeprefix(BOM)
    found: Any = form.read(text) if text.strip() else {}
    if found is None:
        return {}
    if not is_object(found):
        raise ValueError("it must hold an object with names and values")
    return found


# --- JSON


def _read_json(text: str) -> Any:
    try:
        return loads(without_comments(text), unique=True)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} in line {error.lineno}, column {error.colno}") from None


def _write_json(document: JsonObject) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


# --- TOML


def _read_toml(text: str) -> Any:
    return read_toml(text)


def _edit_toml(text: str, key: str, name: str, entry: JsonObject) -> str:
    import tomlkit

    tables: Any = read_toml(text).get(key, {})
    newline = "\r\n" if "\r\n" in text else "\n"
    added = _write_toml({key: {name: entry}}).replace("\n", newline)
    if name in tables:
        made = without_table(text, [key, name], added)
    else:
        gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
        made = f"{text}{gap}{added}"
    # Whole lines change nothing above and below them, but not every table has lines of its own.
    with contextlib.suppress(tomllib.TOMLDecodeError):
        if read_toml(made)[key][name] == entry:
            return made
    document = tomlkit.parse(text)
    cast("dict[str, Any]", document.setdefault(key, tomlkit.table()))[name] = entry
    return tomlkit.dumps(document)


def _write_toml(document: JsonObject) -> str:
    import tomlkit

    return tomlkit.dumps(document).strip("\n") + "\n"


# --- YAML


def _read_yaml(text: str) -> Any:
    from spindle.documents.text import read

    try:
        return read(text, "yaml").value
    except TextError as error:
        where = f" in line {error.line}" if error.line else ""
        raise ValueError(f"{error.problem}{where}") from None


def _edit_yaml(text: str, key: str, name: str, entry: JsonObject) -> str:
    from spindle.documents.yaml_text import nodes

    newline = "\r\n" if "\r\n" in text else "\n"
    root = nodes(text)
    pairs: list[tuple[Any, Any]] = [] if root is None else root.value
    held: Any = next((value for label, value in pairs if label.value == key), None)
    if held is None or (not held.value and held.start_mark.index == held.end_mark.index):
        if held is not None:
            raise ValueError("the key has no value")
        start = text if not text.strip() or text.endswith("\n") else text + newline
        return start + _write_yaml({key: {name: entry}}).replace("\n", newline)
    if not held.value:
        # `{}`, or a word for nothing.
        block = newline + _indented({name: entry}, 2).replace("\n", newline).rstrip()
        return text[: held.start_mark.index].rstrip(" ") + block + text[held.end_mark.index :]
    if held.flow_style:
        raise ValueError("it is written in one line")
    column: int = held.value[0][0].start_mark.column
    entries: list[tuple[Any, Any]] = held.value
    there = next(((label, value) for label, value in entries if label.value == name), None)
    block = _indented({name: entry}, column).replace("\n", newline)
    lines = text.splitlines(keepends=True)
    if there is None:
        end = _last_line(held) + 1
        while end < len(lines) and re.match(rf" {{{column + 1},}}#", lines[end]):
            end += 1  # a comment of the last entry
        if end and not lines[end - 1].endswith("\n"):
            lines[end - 1] += newline
        return "".join([*lines[:end], block, *lines[end:]])
    first, last = there[0].start_mark.line, _last_line(there[1])
    return "".join([*lines[:first], block, *lines[last + 1 :]])


def _last_line(node: Any) -> int:
    """The line in which a node ends. Those of a block end where the next thing begins."""
    while node.value and not isinstance(node.value, str) and not node.flow_style:
        last: Any = node.value[-1]
        node = cast("tuple[Any, Any]", last)[1] if isinstance(last, tuple) else last
    mark: Any = node.end_mark
    return mark.line - 1 if mark.column == 0 and mark.line > node.start_mark.line else mark.line


def _indented(value: Mapping[str, Any], column: int) -> str:
    return re.sub(r"^(?=.)", " " * column, _write_yaml(dict(value)), flags=re.MULTILINE)


def _write_yaml(document: JsonObject) -> str:
    from spindle.documents.yaml_writing import write

    return write(document)


FORMS: Mapping[str, TextForm] = {
    "json": TextForm("JSON", _read_json, set_in_json, _write_json),
    "toml": TextForm("TOML", _read_toml, _edit_toml, _write_toml),
    "yaml": TextForm("YAML", _read_yaml, _edit_yaml, _write_yaml),
}
