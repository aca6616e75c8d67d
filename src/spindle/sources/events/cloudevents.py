"""Converts events to messages and back: CloudEvents 1.0 as one JSON document (structured) or with
attributes in headers (binary), and plain messages without attributes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

from spindle.domain.event import Event
from spindle.domain.json_schema import JsonObject, from_json, is_object, to_json
from spindle.errors import InvalidArgumentsError

Envelope = Literal["structured", "binary", "plain"]
STRUCTURED_TYPE: Final = "application/cloudevents+json"
_KNOWN = ("id", "source", "type", "specversion", "subject", "time", "datacontenttype")
_PREFIXES = ("ce-", "ce_", "cloudevents:", "cloudevents_")


def is_json(content_type: str | None) -> bool:
    """True if the content type is JSON, or missing."""
    kind = (content_type or "application/json").partition(";")[0].strip().lower()
    return kind.endswith(("/json", "+json"))


def encoded(event: Event, envelope: Envelope, *, prefix: str, escaped: bool) -> tuple[dict[str, str], bytes]:
    """The headers, including `content-type`, and the body. `prefix` is put before the names of attributes
    in headers; with `escaped`, header values are escaped to ASCII."""
    if envelope == "structured":
        body: JsonObject = {**event.attributes(), "data": event.data}
        if event.data is None:
            del body["data"]
        return {"content-type": STRUCTURED_TYPE}, to_json(body)
    headers = {"content-type": event.content_type or "application/json"}
    if envelope == "binary":
        for name, value in event.attributes().items():
            if name != "datacontenttype":
                headers[prefix + name] = quote(value, safe=_PRINTABLE) if escaped else value
    return headers, _data_bytes(event)


_PRINTABLE = "".join(chr(code) for code in range(33, 127) if chr(code) not in '"%')


def _data_bytes(event: Event) -> bytes:
    if event.data is None:
        return b""
    if is_json(event.content_type):
        return to_json(event.data)
    if isinstance(event.data, str):
        return event.data.encode()
    raise InvalidArgumentsError(
        f"a payload of {event.content_type} must be text, to be sent without an envelope",
        hint='set envelope = "structured", or correct the contentType of the message',
        sent=False,
    )


def decoded(body: bytes, headers: Mapping[str, str], channel: str, *, bare: bool = False) -> Event:
    """The event in a message. With `bare`, attributes have no prefix (MQTT)."""
    lowered = {name.lower(): value for name, value in headers.items()}
    content_type = lowered.get("content-type") or None
    document = _json_or_none(body, content_type)
    if is_object(document) and _is_event(document):
        return _from_document(document, channel)
    attributes = _from_headers(lowered, bare=bare)
    data = _data(body, content_type)
    if "specversion" in attributes:
        return _event(attributes, data, channel, content_type)
    return Event(data=data, id="", time=None, content_type=content_type, channel=channel)


def _is_event(document: JsonObject) -> bool:
    return all(isinstance(document.get(name), str) for name in ("specversion", "id", "source", "type"))


def _from_document(document: JsonObject, channel: str) -> Event:
    data = document.get("data")
    if "data_base64" in document:
        data = document["data_base64"]
    attributes = {
        name: value if isinstance(value, str) else to_json(value).decode()
        for name, value in document.items()
        if name not in ("data", "data_base64") and value is not None
    }
    return _event(attributes, data, channel, attributes.get("datacontenttype"))


def _from_headers(headers: Mapping[str, str], *, bare: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers.items():
        for prefix in _PREFIXES:
            if name.startswith(prefix):
                found[name[len(prefix) :]] = unquote(value)
    if bare and "specversion" in headers:
        found = {name: value for name, value in headers.items() if name != "content-type"}
    return found


def _event(attributes: Mapping[str, str], data: Any, channel: str, content_type: str | None) -> Event:
    return Event(
        type=attributes.get("type", ""),
        source=attributes.get("source", ""),
        id=attributes.get("id", ""),
        time=attributes.get("time"),
        subject=attributes.get("subject"),
        data=data,
        content_type=content_type,
        extensions={name: value for name, value in attributes.items() if name not in _KNOWN},
        channel=channel,
    )


def _json_or_none(body: bytes, content_type: str | None) -> Any:
    if content_type is not None and not is_json(content_type):
        return None
    try:
        return from_json(body)
    except ValueError:
        return None


def _data(body: bytes, content_type: str | None) -> Any:
    """The body as JSON if it is JSON, otherwise as text or base64."""
    if not body:
        return None
    if content_type is None or is_json(content_type):
        try:
            return from_json(body)
        except ValueError:
            pass
    try:
        return body.decode()
    except UnicodeDecodeError:
        return base64.b64encode(body).decode()
