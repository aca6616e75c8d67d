"""The content of results: large blocks are kept as files, and models get text and pictures."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.domain.call import INLINE_LIMIT, Block, Result
from spindle.domain.json_schema import is_object, to_json
from spindle.errors import ServerError, StoreError

if TYPE_CHECKING:
    from spindle.ports.file_store import FileStore
    from spindle.ports.source import Note

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_PICTURE = 5 * 1024 * 1024
"""Bytes. Providers refuse a whole request for one that is larger."""
NOTHING = "(the tool returned nothing)"


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text for a model."""

    text: str


@dataclass(frozen=True, slots=True)
class PicturePart:
    """A picture for a model."""

    mime_type: str
    data: str
    """As base64."""

    @property
    def url(self) -> str:
        return f"data:{self.mime_type};base64,{self.data}"

    @property
    def words(self) -> str:
        """The text that replaces the picture if only text is accepted."""
        return f"[a picture, {self.mime_type}, which cannot be shown here]"


Part = TextPart | PicturePart


async def parts_of(result: Result) -> list[Part]:
    """The content in order; the structured data where there is no other; never empty. Pictures that were
    too large to be carried along are read back from where they are kept."""
    parts: list[Part] = [await _part(block) for block in result.content]
    if not parts and result.has_structured:
        parts = [TextPart(_written(result.structured))]
    return parts or [TextPart(NOTHING)]


def text_of(parts: list[Part]) -> str:
    """All parts as one text."""
    return "\n".join(part.text if isinstance(part, TextPart) else part.words for part in parts)


async def _part(block: Block) -> Part:
    if block.mime_type in PICTURES and block.type in ("image", "resource"):
        data = block.data
        if data is None and block.path is not None and (block.size or 0) <= MAX_PICTURE:
            data = await asyncio.to_thread(_read, block.path)
        if data is not None and len(data) * 3 // 4 <= MAX_PICTURE:
            return PicturePart(block.mime_type, data)
    if block.type == "link":
        about = f" ({block.text})" if block.text else ""
        return TextPart(f"{block.name or 'link'}: {block.uri}{about}")
    if block.text is not None:
        return TextPart(block.text)
    return TextPart(f"[{_described(block)}]")


def _read(path: str) -> str | None:
    try:
        data = Path(path).read_bytes()
    except OSError:
        return None  # told in words, like all that cannot be shown
    return base64.b64encode(data).decode() if len(data) <= MAX_PICTURE else None


def _described(block: Block) -> str:
    size = block.size if block.size is not None else len(block.data or "") * 3 // 4
    facts = [block.type, block.name, block.mime_type, f"{size} bytes", block.uri, block.path]
    return ", ".join(fact for fact in facts if fact)


def _written(value: object) -> str:
    return value if isinstance(value, str) else to_json(value).decode()


def block_of(item: Any, source: str) -> Block:
    """The block that a piece of content is, in the protocol's JSON. Raises ServerError if it is none."""
    held = item.get("resource") if is_object(item) and item.get("type") == "resource" else item
    texts: list[Any] = [held.get(name) for name in _TEXTS] if is_object(held) else []
    if not is_object(item) or not texts or any(not isinstance(text, str | None) for text in texts):
        raise ServerError(f"{source!r} answered against the protocol: its content is not one", source=source)
    text, data, blob, mime_type, uri, name, description = texts
    kind = item.get("type")
    match kind:
        case "text" if text is not None:
            return Block("text", text=text)
        case "image" | "audio" if data is not None:
            return Block("image" if kind == "image" else "audio", data=data, mime_type=mime_type)
        case "resource_link" if uri is not None:
            return Block("link", uri=uri, name=name, text=description, mime_type=mime_type)
        case "resource" if text is not None or blob is not None:
            return Block("resource", uri=uri, text=text, data=blob, mime_type=mime_type)
        case _:
            raise ServerError(
                f"{source!r} answered against the protocol: content of type {kind!r}", source=source
            )


_TEXTS = ("text", "data", "blob", "mimeType", "uri", "name", "description")


def has_large(result: Result) -> bool:
    """True if `keep_large_content` would keep anything."""
    for block in result.content:  # noqa: SIM110 - a generator costs every call more
        if block.data is not None and _is_large(block, INLINE_LIMIT):
            return True
    return False


async def keep_large_content(
    result: Result, files: FileStore, note: Note, *, over: int = INLINE_LIMIT
) -> Result:
    """Returns the result with its blocks of over so many bytes kept as files."""
    large = [_is_large(block, over) for block in result.content]
    if not any(large):
        return result
    found = zip(result.content, large, strict=True)
    blocks = [await _keep(block, files, note) if is_large else block for block, is_large in found]
    return replace(result, content=tuple(blocks))


async def inlined(result: Result) -> Result:
    """Returns the result with the content of its files, for a reader who will not find them."""
    blocks = [
        block
        if block.path is None
        else replace(block, data=await asyncio.to_thread(_encoded, block.path), path=None)
        for block in result.content
    ]
    return replace(result, content=tuple(blocks))


def _encoded(path: str) -> str:
    return base64.b64encode(Path(path).read_bytes()).decode()


async def _keep(block: Block, files: FileStore, note: Note) -> Block:
    assert block.data is not None
    try:
        data = base64.b64decode("".join(block.data.split()), validate=True)
        path = await files.keep(data, block.mime_type)
    except (ValueError, StoreError) as error:
        # Too large to be handy is better than lost.
        note(f"a large {block.type} could not be kept as a file: {error}")
        return block
    return replace(block, data=None, path=path, size=len(data))


def _is_large(block: Block, over: int) -> bool:
    # Four characters of base64 are three bytes, the last of which may be padding.
    return block.data is not None and len(block.data) > (over + 2) // 3 * 4
