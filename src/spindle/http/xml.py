"""XML bodies, as the `xml` keyword of the schemas says: names, attributes, wrapped lists, namespaces."""

from __future__ import annotations

import re
from typing import Any

from spindle.domain.json_schema import JsonObject, is_array, is_object, resolve
from spindle.errors import InvalidArgumentsError
from spindle.http.encode import text

_ILLEGAL = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}
_IN_ATTRIBUTES = '"\r\n\t'
_NAME = re.compile(r"[A-Za-z_][\w.-]*")


def document(name: str, value: Any, schema: JsonObject, whole: JsonObject, xml: JsonObject) -> bytes:
    """One XML document. `whole` is the schema that references start from."""
    body = _element(name, value, schema, whole, xml)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode()


def _element(name: str, value: Any, schema: Any, whole: JsonObject, xml: JsonObject) -> str:
    schema = resolve(whole, schema)
    tag, attributes = _tag(name, xml)
    if is_object(value):
        properties = _properties(schema, whole)
        inner: list[str] = []
        for key, item in value.items():
            described = resolve(whole, properties.get(key, {}))
            own = described.get("xml")
            own = own if is_object(own) else {}
            if own.get("attribute") is True:
                attribute, more = _tag(str(own.get("name", key)), own)
                attributes += f'{more} {attribute}="{_escape(text(item), _IN_ATTRIBUTES)}"'
            else:
                inner.append(_property(key, item, described, whole, own))
        return f"<{tag}{attributes}>{''.join(inner)}</{tag}>"
    if is_array(value):
        items = schema.get("items", {})
        named = resolve(whole, items).get("xml")
        item_xml = named if is_object(named) else {}
        inner = [_element(str(item_xml.get("name", "item")), item, items, whole, item_xml) for item in value]
        return f"<{tag}{attributes}>{''.join(inner)}</{tag}>"
    return f"<{tag}{attributes}>{_escape(text(value), chr(13))}</{tag}>"


def _property(key: str, value: Any, schema: JsonObject, whole: JsonObject, xml: JsonObject) -> str:
    name = str(xml.get("name", key))
    if not is_array(value):
        return _element(name, value, schema, whole, xml)
    items = schema.get("items", {})
    named = resolve(whole, items).get("xml")
    item_xml = named if is_object(named) else {}
    wrapped = xml.get("wrapped") is True
    # Without a wrapper, the list's own name has no element to stand on.
    item_name = str(item_xml.get("name", name if wrapped else key))
    inner = "".join(_element(item_name, item, items, whole, item_xml) for item in value)
    if not wrapped:
        return inner
    tag, attributes = _tag(name, xml)
    return f"<{tag}{attributes}>{inner}</{tag}>"


def _properties(schema: JsonObject, whole: JsonObject) -> JsonObject:
    found: JsonObject = {}
    parts = schema.get("allOf")
    for part in [schema, *parts] if is_array(parts) else [schema]:
        properties = resolve(whole, part).get("properties")
        found |= properties if is_object(properties) else {}
    return found


def _tag(name: str, xml: JsonObject) -> tuple[str, str]:
    prefix, namespace = xml.get("prefix"), xml.get("namespace")
    if not _NAME.fullmatch(name):
        raise InvalidArgumentsError(f"{name!r} cannot be the name of an XML element", sent=False)
    declared = ""
    if isinstance(namespace, str):
        declared = f' xmlns{f":{prefix}" if prefix else ""}="{_escape(namespace, _IN_ATTRIBUTES)}"'
    return (f"{prefix}:{name}" if prefix else name), declared


def _escape(value: str, more: str) -> str:
    if _ILLEGAL.search(value):
        raise InvalidArgumentsError("a text holds a control character, which XML cannot carry", sent=False)
    return "".join(_ESCAPES[char] if char in "&<>" or char in more else char for char in value)
