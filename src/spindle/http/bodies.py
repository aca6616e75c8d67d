"""Bodies on the wire: JSON, forms, multipart with files, text, binary and XML."""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

from spindle.domain.json_schema import JsonObject, is_array, is_object, to_json
from spindle.errors import InvalidArgumentsError
from spindle.http import xml
from spindle.http.encode import deep_pairs, query_pairs, text

_TEXTS = frozenset(
    {"application/yaml", "application/x-yaml", "application/graphql", "application/javascript",
     "application/x-ndjson", "application/jsonl", "application/sql"}
)  # fmt: skip
_JSON = re.compile(r"[\w.+-]+/(?:[\w.+-]+\+)?json", re.IGNORECASE)
_XML = re.compile(r"(?:application|text)/(?:[\w.+-]+\+)?xml", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body, and the media type that says how to read it."""

    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    content: bytes
    filename: str | None = None
    content_type: str | None = None


@functools.lru_cache(256)
def body_kind(media_type: str) -> str:
    """Returns how a body of this type is written: json, form, multipart, xml, text or binary."""
    plain = media_type.partition(";")[0].strip().lower()
    if _JSON.fullmatch(plain) or plain == "*/*":
        return "json"
    if plain == "application/x-www-form-urlencoded":
        return "form"
    if plain.startswith("multipart/"):
        return "multipart"
    if _XML.fullmatch(plain):
        return "xml"
    return "text" if plain.startswith("text/") or plain in _TEXTS else "binary"


def encode_body(how: JsonObject, arguments: JsonObject, claimed: set[str], schema: JsonObject) -> Body | None:
    """The body that these arguments make; None when none of them is for it. `claimed` are the
    arguments that went elsewhere."""
    value, given = _value(how, arguments, claimed)
    if not given:
        return None
    media_type = how["media_type"]
    match how["kind"]:
        case "json":
            return Body("application/json" if media_type == "*/*" else media_type, to_json(value))
        case "form":
            return Body(media_type, form(value, how.get("encoding", {})))
        case "multipart":
            boundary, content = multipart(value, how.get("encoding", {}))
            return Body(f"{media_type.partition(';')[0]}; boundary={boundary}", content)
        case "xml" if isinstance(value, str):
            # It is XML already, as text.
            return Body(media_type, value.encode())
        case "xml":
            return Body(media_type, xml.document(how["root"], value, _schema(how, schema), schema, how))
        case "text":
            return Body(media_type, text(value).encode())
        case _:
            part = _file("body", value, text_is_base64=True)
            # A type with a wildcard is the caller's to choose.
            own = part.content_type if "*" in media_type or part.content_type else media_type
            return Body(own or "application/octet-stream", part.content)


def _value(how: JsonObject, arguments: JsonObject, claimed: set[str]) -> tuple[Any, bool]:
    if "argument" in how:
        return arguments.get(how["argument"]), how["argument"] in arguments
    fields = how["fields"]
    value = {name: arguments[argument] for argument, name in fields.items() if argument in arguments}
    if how.get("additional"):
        known = claimed | set(fields)
        value |= {name: item for name, item in arguments.items() if name not in known}
    return value, bool(value) or bool(how.get("required"))


def _schema(how: JsonObject, schema: JsonObject) -> JsonObject:
    """The body's own schema, put together again from the tool's."""
    properties = schema.get("properties", {})
    if "argument" in how:
        return properties.get(how["argument"], {})
    return {"properties": {name: properties.get(argument, {}) for argument, name in how["fields"].items()}}


def form(value: Any, encoding: JsonObject) -> bytes:
    """`application/x-www-form-urlencoded`. Where the document does not say how, lists repeat their name
    and objects are written with brackets, to any depth."""
    if not is_object(value):
        return text(value).encode()
    pairs: list[str] = []
    for name, item in value.items():
        how = encoding.get(name, {})
        if how.get("contentType", "").partition(";")[0] == "application/json":
            pairs.append(_pair(name, to_json(item).decode()))
        elif "style" in how and how["style"] != "deepObject":
            explode = how.get("explode", how["style"] == "form")
            pairs += [f"{key}={part}" for key, part in query_pairs(name, item, how["style"], explode)]
        elif is_object(item) or "style" in how:
            pairs += [_pair(key, text(part)) for key, part in deep_pairs(name, item)]
        elif is_array(item):
            nested = any(is_object(part) or is_array(part) for part in item)
            found = deep_pairs(name, item) if nested else [(name, part) for part in item]
            pairs += [_pair(key, text(part)) for key, part in found]
        else:
            pairs.append(_pair(name, text(item)))
    return "&".join(pairs).encode()


def _pair(name: str, value: str) -> str:
    return f"{quote_plus(name, safe='[]')}={quote_plus(value)}"


def multipart(value: Any, encoding: JsonObject) -> tuple[str, bytes]:
    """The boundary and the content. The boundary follows from the content: a repeated request is the
    same, and no content can hold its own boundary."""
    parts: list[_Part] = []
    for name, item in value.items() if is_object(value) else [("body", value)]:
        declared = encoding.get(name, {}).get("contentType", "").partition(",")[0].strip()
        content_type = declared if declared and "*" not in declared else None
        items = item if is_array(item) and content_type != "application/json" else [item]
        parts += [_part(name, single, content_type) for single in items]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.content)
    boundary = f"spindle-{digest.hexdigest()[:32]}"
    lines: list[bytes] = []
    for part in parts:
        head = f'Content-Disposition: form-data; name="{_quoted(part.name)}"'
        if part.filename is not None:
            head += f'; filename="{_quoted(part.filename)}"'
        if part.content_type is not None:
            head += f"\r\nContent-Type: {part.content_type}"
        lines += [f"--{boundary}\r\n{head}\r\n\r\n".encode(), part.content, b"\r\n"]
    return boundary, b"".join([*lines, f"--{boundary}--\r\n".encode()])


def _part(name: str, value: Any, content_type: str | None) -> _Part:
    if is_object(value) and ("data" in value or "content" in value) and _UPLOAD.issuperset(value):
        part = _file(name, value)
        filename = part.filename or name
        return _Part(name, part.content, filename, part.content_type or content_type or _guess(filename))
    if is_object(value) or is_array(value):
        return _Part(name, to_json(value), None, content_type or "application/json")
    return _Part(name, text(value).encode(), None, content_type)


_UPLOAD = frozenset({"filename", "content", "data", "content_type"})


def _file(name: str, value: Any, *, text_is_base64: bool = False) -> _Part:
    given: JsonObject = value if is_object(value) else {"data" if text_is_base64 else "content": value}
    content_type = given.get("content_type")
    if isinstance(content_type, str) and not content_type.isprintable():
        raise InvalidArgumentsError(f"{name}.content_type holds a line break", sent=False)
    if "data" not in given:
        return _Part(name, text(given.get("content")).encode(), given.get("filename"), content_type)
    try:
        data = base64.b64decode(str(given["data"]), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgumentsError(
            f"{name} is not base64", hint="encode its bytes first", sent=False
        ) from None
    return _Part(name, data, given.get("filename"), content_type)


def _guess(filename: str) -> str:
    import mimetypes

    return mimetypes.guess_type(filename)[0] or "application/octet-stream"


def _quoted(text: str) -> str:
    """A name in a multipart header, quoted as browsers do."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
