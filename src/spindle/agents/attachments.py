"""Files that go with a task: pictures, audio, documents and texts."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic_ai.messages import UserContent

MOST = 20 * 1024 * 1024
"""Bytes of all files of a task. They are kept with its run."""
TEXTS = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")
UNKNOWN = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that goes with a task, from memory."""

    data: bytes
    mime_type: str
    name: str = ""


File = str | Path | Attachment
"""The path of a file, or its content."""


def read_files(files: Sequence[File]) -> list[JsonObject]:
    """Returns files as JSON. Raises ConfigurationError if one cannot be read, or its type is not known."""
    found: list[JsonObject] = []
    left = MOST
    for file in files:
        made = file if isinstance(file, Attachment) else _read(Path(file), left)
        left -= len(made.data)
        if left < 0:
            raise ConfigurationError(f"the files of a task may have {MOST} bytes together, and have more")
        if made.mime_type == UNKNOWN:
            raise ConfigurationError(
                f"it is not known what kind of file {made.name!r} is",
                hint="give an Attachment with its `mime_type`",
            )
        data = base64.b64encode(made.data).decode()
        found.append({"name": made.name, "mime_type": made.mime_type, "data": data})
    return found


def _read(path: Path, left: int) -> Attachment:
    try:
        if path.stat().st_size > left:
            raise ConfigurationError(f"the files of a task may have {MOST} bytes together, and have more")
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"the file {str(path)!r} cannot be read: {error.strerror}") from None
    guessed = mimetypes.guess_type(path.name)[0]
    if guessed is None:
        try:
            data.decode()
        except UnicodeDecodeError:
            guessed = UNKNOWN
    return Attachment(data, guessed or "text/plain", path.name)


def content_of(text: str, files: Sequence[JsonObject]) -> str | list[UserContent]:
    """Returns a task and its files as a model is told: texts as text, all else as it is."""
    if not files:
        return text
    from pydantic_ai.messages import BinaryContent

    content: list[UserContent] = [text] if text else []
    for file in files:
        data = base64.b64decode(file["data"])
        if str(file["mime_type"]).startswith(TEXTS):
            content.append(f"The file {file['name'] or 'without a name'}:\n{data.decode(errors='replace')}")
        else:
            content.append(BinaryContent(data, media_type=file["mime_type"]))
    return content
