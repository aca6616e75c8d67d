"""Turns an API's response into a result, or into the error that its status means."""

from __future__ import annotations

import base64
import codecs
import re
from typing import TYPE_CHECKING, Any

from spindle.domain.call import Block, Result
from spindle.domain.json_schema import JsonObject, from_json, is_object
from spindle.domain.trail import loop_path
from spindle.errors import LoopError, ServerError, SpindleError, from_meaning
from spindle.http.addresses import plain_url
from spindle.http.bodies import body_kind
from spindle.http.retry_after import retry_after
from spindle.meanings import GENERAL, Meaning, in_data, is_reported, of_status

if TYPE_CHECKING:
    from spindle.http.answer import HttpAnswer

MAX_ERROR_TEXT = 4000
_TEXTUAL = ("json", "text", "xml", "form")
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
"""Encodings of Python that are none of text in HTTP; the second takes the square of the length."""
_LINK = re.compile(r"<([^<>]*)>\s*((?:;\s*[\w*-]+\s*(?:=\s*(?:\"[^\"]*\"|[^\s;,\"]+))?\s*)*)")
_REL = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.IGNORECASE)


def is_file(answer: HttpAnswer) -> bool:
    """True if the response is neither data nor text."""
    media_type = answer.media_type
    return bool(media_type) and body_kind(media_type) not in _TEXTUAL


def to_result(answer: HttpAnswer, body: bytes, *, promised: bool) -> Result:
    """`promised`: the tool has an output schema, so that nothing is said as null."""
    notes = _notes(answer) or None
    media_type = answer.media_type
    if not body:
        blocks = (Block("text", text="", annotations=notes),) if notes else ()
        return Result(blocks, has_structured=promised)
    kind = body_kind(media_type) if media_type else ("json" if _looks_like_json(body) else "text")
    if kind == "json":
        try:
            data = from_json(body)
        except ValueError as error:
            raise ServerError(
                f"the answer says it is {media_type} and is not: {error}",
                status=answer.status,
                details=_text(answer, body[:MAX_ERROR_TEXT]),
            ) from None
        block = Block("text", text=_text(answer, body), mime_type=media_type or None, annotations=notes)
        return Result((block,), structured=data, has_structured=True)
    if kind in _TEXTUAL:
        return Result(
            (Block("text", text=_text(answer, body), mime_type=media_type or None, annotations=notes),)
        )
    return to_file(answer, len(body), data=base64.b64encode(body).decode())


def to_file(answer: HttpAnswer, size: int, *, data: str | None = None, path: str | None = None) -> Result:
    """The result for a response that is a file: its content, or the path where it is stored."""
    media_type = answer.media_type
    block_type = (
        "image"
        if media_type.startswith("image/")
        else "audio"
        if media_type.startswith("audio/")
        else "resource"
    )
    uri = plain_url(answer.url) if block_type == "resource" else None
    block = Block(
        block_type, data=data, mime_type=media_type, uri=uri, name=_filename(answer), path=path,
        size=size, annotations=_notes(answer) or None,
    )  # fmt: skip
    return Result((block,))


def to_error(name: str, answer: HttpAnswer, body: bytes) -> SpindleError:
    """The error for a failed response, with its body, which often says what to do."""
    text = _text(answer, body)[:MAX_ERROR_TEXT]
    details: JsonObject = {"body": text}
    said = ""
    try:
        data: Any = from_json(body) if body else None
    except ValueError:
        data = None
    if data is not None:
        details = {"body": data if len(body) <= MAX_ERROR_TEXT else text}
        said = _message_in(data)
        way = _loop_in(data) if answer.status == 508 else None
        if way is not None:
            return LoopError.along((name, *way))
    message = f"{name!r} answered with HTTP status {answer.status}" + (f": {said}" if said else "")
    challenge = answer.headers.get("www-authenticate")
    reported = is_reported(answer.status)
    return from_meaning(
        _meaning(answer, data), message, answered=reported, challenge=challenge, details=details
    )


def _meaning(answer: HttpAnswer, data: Any) -> Meaning:
    """The meaning of the status, or what the body and the headers tell of a refusal: several services refuse
    with 400 or 403 whoever asks too often."""
    wait = retry_after(answer.headers)
    meaning = of_status(answer.status, wait)
    if not 400 <= answer.status < 500:
        return meaning
    told = in_data(data)
    if told is not None and (
        told.category == "rate_limited" or (meaning.category == "client" and told.category not in GENERAL)
    ):
        wait = told.retry_after if wait is None else wait
        return Meaning(told.category, answer.status, wait, told.category == "rate_limited")
    if answer.status == 403 and answer.headers.get("x-ratelimit-remaining") == "0":
        return Meaning("rate_limited", answer.status, wait, retryable=True)
    return meaning


def _loop_in(data: Any) -> list[str] | None:
    """The sources on the way to a loop, if another workspace tells of one: 508 can mean other things."""
    details = data.get("details") if is_object(data) else None
    return loop_path(details.get("loop")) if is_object(details) else None


def _message_in(data: Any) -> str:
    """The sentence that most APIs put into an error, under one of a few names."""
    for _ in range(3):
        if not is_object(data):
            break
        inner = next(
            (
                data[key]
                for key in ("message", "detail", "error_description", "title", "error")
                if data.get(key)
            ),
            None,
        )
        data = inner
    return data[:300] if isinstance(data, str) else ""


def _notes(answer: HttpAnswer) -> JsonObject:
    """The links and the location in the headers, which lead to further data."""
    notes: JsonObject = {}
    links = links_in(answer.headers.get("link", ""))
    if links:
        notes["links"] = links
    if "location" in answer.headers:
        notes["location"] = answer.headers["location"]
    return notes


def links_in(header: str) -> dict[str, str]:
    """`<url>; rel="next"` by relation."""
    found: dict[str, str] = {}
    for match in _LINK.finditer(header[:16384]):
        relation = _REL.search(match[2])
        for name in ((relation[1] or relation[2] or "") if relation else "").split():
            found.setdefault(name, match[1])
    return found


def _text(answer: HttpAnswer, body: bytes) -> str:
    charset = answer.charset
    if charset is None or charset.lower() == "utf-8":
        return body.decode("utf-8", "replace")
    try:
        return body.decode("utf-8" if codecs.lookup(charset).name in _NO_CHARSETS else charset, "replace")
    except (LookupError, ValueError):
        return body.decode("utf-8", "replace")


def _filename(answer: HttpAnswer) -> str | None:
    match = re.search(r'filename="?([^";]+)"?', answer.headers.get("content-disposition", ""))
    return match[1] if match else None


def _looks_like_json(body: bytes) -> bool:
    try:
        from_json(body)
    except ValueError:
        return False
    return True
