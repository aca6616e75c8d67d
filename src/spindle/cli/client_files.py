"""Adds a server to the settings file of another MCP client, and leaves everything else in it as it is."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from spindle.cli.client_entries import ClientProgram, says_the_same
from spindle.documents.json_text import loads
from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import ConfigurationError

MAX_SIZE = 32 * 1024 * 1024
_BOM = "\ufeff"
_FIRST_INDENT = re.compile(r"[{\[]\s*?\n([ \t]+)\S")


@dataclass(frozen=True, slots=True)
class Plan:
    """The content of a settings file before and after the change."""

    file: Path
    before: bytes | None
    after: str
    status: str
    """`added`, `replaced`, or `there already` if there is nothing to write."""


def plan(file: Path, client: ClientProgram, name: str, entry: JsonObject) -> Plan:
    """Plans the change. Raises ConfigurationError, with the text to paste, for a file that cannot be
    edited without loss."""
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
    """Writes the change. The first time, the old file is kept beside it, and its path is returned."""
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
    """Keeps a copy with the same permissions. An existing copy is from before Spindle, and stays."""
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
        raise ConfigurationError(f"{file} is larger than {MAX_SIZE >> 20} MiB, too large for a settings file")
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
        # All that would not be written back as it was read is refused.
        data = loads(text, unique=True)
    except ValueError as error:
        if _is_json_with_comments(text):
            raise ConfigurationError(
                f"{file} has comments or trailing commas, which would be lost if it were written again",
                hint=pasted,
            ) from None
        raise ConfigurationError(f"{file} is not valid JSON: {_reason(error)}", hint=pasted) from None
    if not is_object(data):
        raise ConfigurationError(f"{file} must hold a JSON object", hint=pasted)
    return data


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
    return str(error)


def _pasted(client: ClientProgram, name: str, entry: JsonObject) -> str:
    document = json.dumps(client.document(name, entry), indent=2, ensure_ascii=False)
    return f"nothing was changed; repair it, or add this by hand:\n{document}"


def _written(data: JsonObject, text: str) -> str:
    """The JSON text with the indentation and line endings of the old one."""
    match = _FIRST_INDENT.search(text)
    made = json.dumps(data, indent=match[1] if match else 2, ensure_ascii=False) + "\n"
    try:
        made.encode()
    except UnicodeEncodeError:
        # Lone surrogates, which JSON can hold only as escapes.
        made = json.dumps(data, indent=match[1] if match else 2) + "\n"
    if "\r\n" in text:
        made = made.replace("\n", "\r\n")
    return (_BOM if text.startswith(_BOM) else "") + made
