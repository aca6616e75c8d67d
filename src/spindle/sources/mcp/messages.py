"""Lines of a server: read as messages, or searched for the request that a broken one answers."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from spindle.domain.json_schema import MAX_DEPTH, JsonObject, is_array, shallow, to_json
from spindle.giving_way import give_way
from spindle.sources.mcp.link import EDGE
from spindle.threads import without_collector

_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_ID = rb'"id"\s*:\s*("?)(\d+)\1'
_ID_AT_START = re.compile(rb"^\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID + rb"\s*[,}]")
_ID_AT_END = re.compile(rb"[,{]\s*" + _ID + rb"\s*(?:,\s*" + _VERSION + rb"\s*)?\}\s*$")
_NO_ANSWER = re.compile(
    rb"^\s*\{\s*(?:" + _VERSION + rb'\s*,\s*)?(?:"id"\s*:\s*(?:"[^"]*"|\d+)\s*,\s*)?"method"\s*:'
)


MAX_CONTAINERS = 1_000_000
"""Lists and objects in one message. Each takes 60 bytes of memory for two in the message, and reading holds
up the event loop: a million takes a tenth of a second."""
LARGE = 1024 * 1024
AT_ONCE = 256 * 1024
"""Bytes of a message that are read in a turn of the event loop: in a millisecond or two."""
PIECE = 64 * 1024


def as_line(message: JsonObject) -> bytes:
    """Returns a message as a line."""
    try:
        return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # for numbers and texts that only the slower way writes
        return to_json(message) + b"\n"


def read_message(line: bytes) -> dict[str, Any] | None:
    """Returns the JSON object in a line; None if there is none, or one of too many parts."""
    if not line.startswith(b"{") and not line.lstrip().startswith(b"{"):
        return None  # servers print text by mistake, some of them a lot
    is_large = len(line) > LARGE
    if is_large and has_too_many(line):
        return None
    try:
        message: Any = without_collector(orjson.loads, line) if is_large else orjson.loads(line)
    except orjson.JSONDecodeError:
        message = _read_leniently(line)
    if message.__class__ is not dict:
        return None
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:  # as nearly always
        return message
    result = message.get("result")
    if result.__class__ is dict and is_array(result.get("tools")):
        return message  # one definition that is too deep costs that tool alone, when the list is read
    try:
        return shallow(message, line)
    except ValueError:
        return None


def has_too_many(data: bytes) -> bool:
    """True if JSON text has more than `MAX_CONTAINERS` lists and objects, and the same signs in its texts."""
    found = 0
    for start in range(0, len(data), PIECE):
        give_way()
        found += data.count(b"{", start, start + PIECE) + data.count(b"[", start, start + PIECE)
        if found > MAX_CONTAINERS:
            return True
    return False


def answered_by(head: bytes, tail: bytes) -> int | None:
    """Returns the id of the request that a message answers, as far as its two ends show it."""
    match = _ID_AT_START.search(head[:EDGE]) or _ID_AT_END.search(tail[-EDGE:])
    # Python reads no number of more digits than this, and we send none.
    return int(match[2]) if match and len(match[2]) < 20 else None


def is_no_answer(head: bytes) -> bool:
    """True if a message that begins so is a request or a notification."""
    return _NO_ANSWER.search(head) is not None


def _read_leniently(line: bytes) -> Any:
    """JSON with text that was cut in the middle of a character, as some servers send it; else None."""
    if rb"\u" not in line or len(line) > LARGE:
        return None
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False)
        return orjson.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        return None
