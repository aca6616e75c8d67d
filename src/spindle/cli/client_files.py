"""The settings files of other MCP clients: read within bounds, and changed so that everything else in them
stays as it is."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spindle.cli.client_entries import ClientProgram, says_the_same
from spindle.cli.client_text import BOM, FORMS, TextForm, edited, read_object
from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import ConfigurationError
from spindle.owner_only import make_folder

MAX_SIZE = 32 * 1024 * 1024


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
    before = content_of(file)
    text = "" if before is None else decoded(before, file)
    form = FORMS[client.form]
    pasted = (
        f"nothing was changed; repair it, or add this by hand:\n{form.write(client.document(name, entry))}"
    )
    data = _parsed(form, text, file, pasted)
    servers: Any = {} if data.get(client.key) is None else data[client.key]
    if not is_object(servers):
        raise ConfigurationError(
            f"{file}: `{client.key}` must be an object that holds the servers by their names", hint=pasted
        )
    status = "added"
    if name in servers:
        status = "there already" if says_the_same(servers[name], entry) else "replaced"
    after = edited(form, text, client.key, name, entry)
    if after is None:
        raise ConfigurationError(f"{file} is written in a way that cannot be edited by program", hint=pasted)
    return Plan(file, before, after, status)


def write(made: Plan) -> Path | None:
    """Writes the change. The first time, the old file is kept beside it, and its path is returned."""
    from spindle.settings.edit import replace_file

    if content_of(made.file) != made.before:
        raise ConfigurationError(f"{made.file} was changed meanwhile", hint="nothing was written; try again")
    try:
        make_folder(made.file.parent)
        backup = None if made.before is None else _keep(made.file, made.before)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {error.filename or made.file}: {error.strerror}; nothing was changed"
        ) from None
    replace_file(made.file, made.after, private=True)
    return backup


def content_of(file: Path) -> bytes | None:
    """The bytes of a settings file, or None if it is not there. Raises ConfigurationError for what cannot be
    one."""
    try:
        # Opened first and looked at then: a pipe would be waited for.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from None
    try:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(kind):
            raise ConfigurationError(f"{file} is a folder", hint="name the settings file in it")
        if not stat.S_ISREG(kind):
            raise ConfigurationError(f"{file} is not a file")
        with os.fdopen(descriptor, "rb", closefd=False) as handle:
            content = handle.read(MAX_SIZE + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from None
    finally:
        os.close(descriptor)
    if len(content) > MAX_SIZE:
        raise ConfigurationError(f"{file} is larger than {MAX_SIZE >> 20} MiB, too large for a settings file")
    return content


def decoded(content: bytes, file: Path) -> str:
    """The text of a settings file."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            f"{file} is not valid UTF-8: byte {error.start + 1}, in line {line}",
            hint="save it as UTF-8 first; nothing was changed",
        ) from None


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


def _parsed(form: TextForm, text: str, file: Path, pasted: str) -> JsonObject:
    try:
        return read_object(form, text.removeprefix(BOM))
    except ValueError as error:
        raise ConfigurationError(f"{file} is not valid {form.title}: {error}", hint=pasted) from None
