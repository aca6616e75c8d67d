"""Writes the binary content of a result into a folder, for `spindle call --save DIR`.

A name may come from a server, so it is only a suggestion: nothing is written outside the folder, nothing
that is there is replaced, and no file is hidden.
"""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from spindle.errors import ConfigurationError, ServerError

if TYPE_CHECKING:
    from spindle.domain.call import Block, Result

LONGEST = 120
"""Bytes of a name that came from a server."""
LONGEST_ENDING = 16
TRIES = 10_000
_UNSAFE = re.compile(r"[^\w.,@+=() -]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
# What `mimetypes` calls otherwise than people do, or does not know on every machine.
_ENDINGS = {"image/jpeg": ".jpg", "image/webp": ".webp", "audio/wav": ".wav", "audio/mpeg": ".mp3"}


def save_content(result: Result, folder: Path, name: str) -> Result:
    """Returns the result with its images, audio and files in the folder, each block with the path of its
    file. `name` is for those that have none of their own."""
    if not any(_is_file(block) for block in result.content):
        return result
    try:
        folder.mkdir(parents=True, exist_ok=True)
        blocks = [_saved(block, folder, name) if _is_file(block) else block for block in result.content]
    except OSError as error:
        raise ConfigurationError(
            f"cannot write into {folder}: {error.strerror or error}", hint="name another folder with --save"
        ) from None
    return replace(result, content=tuple(blocks))


def _is_file(block: Block) -> bool:
    return block.data is not None or block.path is not None or (block.type == "resource" and bool(block.text))


def _saved(block: Block, folder: Path, name: str) -> Block:
    wanted = file_name(block, name)
    if block.path is not None:
        with Path(block.path).open("rb") as source, _new_file(folder, wanted) as file:
            shutil.copyfileobj(source, file)
    else:
        data = _bytes(block)
        with _new_file(folder, wanted) as file:
            file.write(data)
    path = Path(file.name)
    return replace(block, data=None, path=str(path), size=path.stat().st_size)


def _bytes(block: Block) -> bytes:
    if block.data is None:
        return (block.text or "").encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode("".join(block.data.split()), validate=True)
    except binascii.Error:
        raise ServerError(
            f"the source sent {block.type} data that is not base64, so it cannot be saved"
        ) from None


def file_name(block: Block, fallback: str) -> str:
    """A safe name for the content: its own, that of its URI, or the fallback, with an ending that fits."""
    own = block.name or unquote(urlsplit(block.uri or "").path)
    stem = _safe(re.split(r"[/\\]", own)[-1]) or _safe(fallback) or "result"
    ending = _ENDINGS.get(block.mime_type or "") or mimetypes.guess_extension(block.mime_type or "") or ""
    if not Path(stem).suffix:
        stem += ending or (".txt" if block.text is not None else ".bin")
    return stem


def _safe(text: str) -> str:
    cleaned = _UNSAFE.sub("_", text).strip(" .-")
    if len(cleaned.encode()) > LONGEST:
        suffix = Path(cleaned).suffix if len(Path(cleaned).suffix.encode()) <= LONGEST_ENDING else ""
        stem = cleaned.encode()[: LONGEST - len(suffix.encode())].decode("utf-8", "ignore")
        cleaned = stem.rstrip(" .") + suffix
    return f"_{cleaned}" if _RESERVED.fullmatch(cleaned) else cleaned


def _new_file(folder: Path, name: str) -> IO[bytes]:
    """Opens a file that was not there before: NAME, or NAME-2 and so on. A link is not followed."""
    for candidate in _candidates(name):
        try:
            return (folder / candidate).open("xb")
        except FileExistsError:
            continue
    raise ConfigurationError(
        f"{folder} has too many files called {name}", hint="name another folder with --save"
    )


def _candidates(name: str) -> Iterator[str]:
    path = Path(name)
    yield name
    for number in range(2, TRIES):
        yield f"{path.stem}-{number}{path.suffix}"
