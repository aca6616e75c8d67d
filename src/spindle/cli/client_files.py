"""One server more in the settings file of another MCP client; everything else in it stays."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spindle.cli.client_entries import ClientProgram, says_the_same
from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import ConfigurationError

MAX_SIZE = 32 * 1024 * 1024
_BOM = "\ufeff"
_FIRST_INDENT = re.compile(r"[{\[]\s*?\n([ \t]+)\S")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a file holds, and what it will."""

    file: Path
    before: bytes | None
    after: str
    status: str
    """`added`, `replaced`, or `there already`, in which case there is nothing to write."""


def plan(file: Path, client: ClientProgram, name: str, entry: JsonObject) -> Plan:
    """Raises ConfigurationError, with what to paste, for a file that cannot be edited without a loss."""
    before = _read(file)
    text = "" if before is None else _decoded(before, file)
    pasted = _pasted(client, name, entry)
    data = _parsed(text, file, pasted)
    servers = data.get(client.key, {})
    if not is_object(servers):
        raise ConfigurationError(
            f"{file}: `{client.key}` must be an object that holds the servers by their names", hint=pasted
        )
    status = "added"
    if name in servers:
        status = "there already" if says_the_same(servers[name], entry) else "replaced"
    after = _written({**data, client.key: {**servers, name: entry}}, text)
    return Plan(file, before, after, status)


def write(made: Plan) -> Path | None:
    """Carry it out. The file of the first time is kept beside it, and returned then."""
    from spindle.settings.edit import replace_file

    if _read(made.file) != made.before:
        raise ConfigurationError(f"{made.file} was changed meanwhile", hint="nothing was written; try again")
    try:
        made.file.parent.mkdir(parents=True, exist_ok=True)
        backup = None if made.before is None else _keep(made.file, made.before)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {error.filename or made.file}: {error.strerror}; nothing was changed"
        ) from None
    replace_file(made.file, made.after)
    return backup


def _keep(file: Path, content: bytes) -> Path | None:
    """As readable to others as the file itself. An older copy is the one from before Spindle: it stays."""
    backup = file.with_name(f"{file.name}.bak")
    mode = file.stat().st_mode & 0o777
    try:
        descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        return None
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
    return backup


def _read(file: Path) -> bytes | None:
    try:
        with file.open("rb") as handle:
            content = handle.read(MAX_SIZE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from None
    if len(content) > MAX_SIZE:
        raise ConfigurationError(f"{file} is larger than {MAX_SIZE >> 20} MiB, which no settings are")
    return content


def _decoded(content: bytes, file: Path) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{file} is not valid UTF-8: byte {error.start + 1}", hint="fix it first; nothing was changed"
        ) from None


def _parsed(text: str, file: Path, pasted: str) -> JsonObject:
    text = text.removeprefix(_BOM)
    if not text.strip():
        return {}
    try:
        data = _strict(text)
    except (ValueError, RecursionError) as error:
        if _is_json_with_comments(text):
            raise ConfigurationError(
                f"{file} has comments or trailing commas, which would be lost if it were written again",
                hint=pasted,
            ) from None
        raise ConfigurationError(f"{file} is not valid JSON: {_reason(error)}", hint=pasted) from None
    if not is_object(data):
        raise ConfigurationError(f"{file} must hold a JSON object", hint=pasted)
    return data


def _strict(text: str) -> Any:
    """Refuses all that would not be written again as it is read."""

    def without_twins(pairs: list[tuple[str, Any]]) -> JsonObject:
        found = dict(pairs)
        if len(found) != len(pairs):
            keys = [key for key, _ in pairs]
            twin = next(key for key in keys if keys.count(key) > 1)
            raise ValueError(f"the key {twin!r} is there twice")
        return found

    def finite(written: str) -> float:
        value = float(written)
        if not math.isfinite(value):
            raise ValueError(f"{written[:40]} is no number that JSON has")
        return value

    return json.loads(text, object_pairs_hook=without_twins, parse_constant=finite, parse_float=finite)


def _is_json_with_comments(text: str) -> bool:
    from spindle.cli.clients import without_comments

    try:
        json.loads(text)
    except (ValueError, RecursionError):
        pass
    else:
        return False
    try:
        return is_object(json.loads(without_comments(text)))
    except (ValueError, RecursionError):
        return False


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} in line {error.lineno}, column {error.colno}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _pasted(client: ClientProgram, name: str, entry: JsonObject) -> str:
    document = json.dumps(client.document(name, entry), indent=2, ensure_ascii=False)
    return f"nothing was changed; repair it, or add this by hand:\n{document}"


def _written(data: JsonObject, text: str) -> str:
    """In the manner of the text that was there: its indentation, its ends of lines."""
    match = _FIRST_INDENT.search(text)
    made = json.dumps(data, indent=match[1] if match else 2, ensure_ascii=False) + "\n"
    try:
        made.encode()
    except UnicodeEncodeError:
        # Halves of a character, which JSON can hold only when they are escaped.
        made = json.dumps(data, indent=match[1] if match else 2) + "\n"
    if "\r\n" in text:
        made = made.replace("\n", "\r\n")
    return (_BOM if text.startswith(_BOM) else "") + made
