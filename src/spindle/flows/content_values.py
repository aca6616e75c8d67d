"""Images, audio, resources and files in a flow: values that say where the content is, not copies of it.

    {"type": "image", "mime_type": "image/png", "path": "…/files/0123….png", "size": 70}

A node whose tool returns nothing but content gives such a value, or a list of them. All that a tool returned,
texts too, is `${NODE.content}`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.call import Block, Result
from spindle.domain.json_schema import JsonObject, is_array, is_object

if TYPE_CHECKING:
    from spindle.domain.call import Host
    from spindle.domain.json_schema import Parameter

_FIELDS: Final = frozenset(field.name for field in fields(Block))
_TYPES: Final = frozenset({"image", "audio", "resource", "link"})
CONTENT: Final = "content"
"""Below the id of a node: all blocks that its tool returned."""
MAX_FOUND: Final = 1000
"""Contents in one value."""


def is_reference(value: Any) -> bool:
    """True if a value has the form of a reference to content."""
    if not is_object(value) or value.get("type") not in _TYPES or not value.keys() <= _FIELDS:
        return False
    return isinstance(value.get("path"), str) or isinstance(value.get("uri"), str)


def has_content(result: Result) -> bool:
    """True if a result has more than text."""
    return any(block.type != "text" for block in result.content)


def references_of(result: Result) -> list[JsonObject]:
    """Returns all blocks of a result as values. Its binary content is in files."""
    return [block.to_dict() for block in result.content]


def value_of_content(result: Result) -> Any:
    """Returns the value of a result that has neither text nor structured data."""
    found = references_of(result)
    return found[0] if len(found) == 1 else found


def block_of(value: Any, host: Host) -> Block | None:
    """Returns the content that a value refers to, or None. A path counts only if it is one of a file that was
    kept here: tools say what they like, and must not have other files read."""
    if not is_reference(value):
        return None
    path = value.get("path")
    return Block(**value) if path is None or (isinstance(path, str) and host.holds(path)) else None


def blocks_in(value: Any, host: Host) -> Iterator[Block]:
    """Yields all content that a value refers to, at any depth."""
    waiting, found = [value], 0
    while waiting and found < MAX_FOUND:
        value = waiting.pop(0)
        block = block_of(value, host)
        if block is not None:
            found += 1
            yield block
        elif is_object(value):
            waiting = [*value.values(), *waiting]
        elif is_array(value):
            waiting = [*value, *waiting]


def as_argument(block: Block, parameter: Parameter) -> str | None:
    """Returns what a parameter that takes a text is given for content: the path of its file, or its address.
    None if it wants the content itself, as base64."""
    return None if _wants_data(parameter) and block.path is not None else block.path or block.uri


async def with_data(arguments: JsonObject, wanted: Sequence[Parameter], host: Host) -> JsonObject:
    """Returns the arguments with the content itself where a parameter wants it."""
    found = dict(arguments)
    for parameter in wanted:
        block = block_of(arguments.get(parameter.name), host)
        if block is not None and block.path is not None and _wants_data(parameter):
            data = await asyncio.to_thread(Path(block.path).read_bytes)
            found[parameter.name] = base64.b64encode(data).decode()
    return found


def _wants_data(parameter: Parameter) -> bool:
    schema = parameter.schema
    return schema.get("contentEncoding") == "base64" or schema.get("format") in ("byte", "binary", "base64")


def with_blocks(result: Result, content: list[JsonObject], host: Host) -> Result:
    """Returns the result of a flow with all that its last node's tool returned, in order."""
    blocks = tuple(Block(**one) for one in content if one["type"] == "text" or block_of(one, host))
    return replace(result, content=blocks) if blocks else result


def with_content(result: Result, value: Any, host: Host) -> Result:
    """Returns the result of a flow with the content that its value refers to."""
    blocks = tuple(dict.fromkeys(blocks_in(value, host)))
    if not blocks:
        return result
    if value == [block.to_dict() for block in blocks] or value == blocks[0].to_dict():
        return Result(blocks)  # there is nothing else to say
    return replace(result, content=(*result.content, *blocks))
