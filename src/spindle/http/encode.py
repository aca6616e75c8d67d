"""Values on the wire: every parameter style and explode form of OpenAPI, and form bodies.

Each function takes plain JSON values. What the specification leaves open (nested objects in a style
that has no form for them) is written as JSON text, never as Python's idea of a value.
"""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote

from spindle.domain.json_schema import is_array, is_object, to_json

Style = Literal[
    "form", "simple", "label", "matrix", "spaceDelimited", "pipeDelimited", "tabDelimited", "deepObject"
]

# Reserved characters that `allowReserved` leaves as they are: those of RFC 3986 that can stand in a value.
# A `#` would end the query, a `&` the value, `+` is a space, and `[` and `]` have no place in a query.
RESERVED = ":/?@!$'()*,;="

DEFAULT_STYLE: dict[str, Style] = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
STYLES_OF: dict[str, tuple[Style, ...]] = {
    "path": ("simple", "label", "matrix"),
    # Tabs are Swagger 2's.
    "query": ("form", "spaceDelimited", "pipeDelimited", "tabDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
_SEPARATORS = {"spaceDelimited": "%20", "pipeDelimited": "%7C", "tabDelimited": "%09"}


def text(value: Any) -> str:
    """A primitive as text, and anything else as JSON."""
    if isinstance(value, str):
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return ""
    return to_json(value).decode()


def path_text(name: str, value: Any, style: Style, explode: bool) -> str:
    """The text that replaces `{name}` in a path, percent-encoded."""
    if style == "label":
        return "." + _joined(value, "." if explode else ",", explode, "=" if explode else ",")
    if style == "matrix":
        return _matrix(name, value, explode)
    return _joined(value, ",", explode, "=" if explode else ",")


def header_text(value: Any, explode: bool) -> str:
    """Style `simple` without percent-encoding: headers carry text as it is."""
    if is_array(value):
        return ",".join(text(item) for item in value)
    if is_object(value):
        joiner = "=" if explode else ","
        return ",".join(f"{key}{joiner}{text(item)}" for key, item in value.items())
    return text(value)


def query_pairs(
    name: str, value: Any, style: Style, explode: bool, *, allow_reserved: bool = False
) -> list[tuple[str, str]]:
    """Encoded `name=value` pairs of a query or a form cookie."""

    def pair(key: str, item: Any) -> tuple[str, str]:
        return quote(key, safe="[]"), escape(text(item), allow_reserved)

    if style == "deepObject" and (is_object(value) or is_array(value)):
        return [pair(key, item) for key, item in deep_pairs(name, value)]
    separator = _SEPARATORS.get(style, ",")
    if is_array(value):
        if explode:
            return [pair(name, item) for item in value]
        items = [escape(text(item), allow_reserved) for item in value]
        return [(quote(name, safe="[]"), separator.join(items))]
    if is_object(value):
        if explode and style == "form":
            return [pair(key, item) for key, item in value.items()]
        items = [escape(part, allow_reserved) for key, item in value.items() for part in (key, text(item))]
        return [(quote(name, safe="[]"), separator.join(items))]
    return [pair(name, value)]


def deep_pairs(name: str, value: Any) -> list[tuple[str, Any]]:
    """`name[key][inner]=value`, to any depth, the way form servers read nested values."""
    if is_object(value):
        return [pair for key, item in value.items() for pair in deep_pairs(f"{name}[{key}]", item)]
    if is_array(value):
        if any(is_object(item) or is_array(item) for item in value):
            numbered = enumerate(value)
            return [pair for index, item in numbered for pair in deep_pairs(f"{name}[{index}]", item)]
        return [(f"{name}[]", item) for item in value]
    return [(name, value)]


def escape(value: str, allow_reserved: bool = False) -> str:
    """The text percent-encoded, with or without the reserved characters."""
    return quote(value, safe=RESERVED if allow_reserved else "")


def _joined(value: Any, separator: str, explode: bool, joiner: str) -> str:
    if is_array(value):
        return separator.join(escape(text(item)) for item in value)
    if is_object(value):
        if explode:
            return separator.join(f"{escape(key)}{joiner}{escape(text(item))}" for key, item in value.items())
        return ",".join(escape(part) for key, item in value.items() for part in (key, text(item)))
    return escape(text(value))


def _matrix(name: str, value: Any, explode: bool) -> str:
    if is_array(value):
        if explode:
            return "".join(f";{name}={escape(text(item))}" for item in value)
        return f";{name}=" + ",".join(escape(text(item)) for item in value)
    if is_object(value):
        if explode:
            return "".join(f";{escape(key)}={escape(text(item))}" for key, item in value.items())
        parts = [escape(part) for key, item in value.items() for part in (key, text(item))]
        return f";{name}=" + ",".join(parts)
    return f";{name}={escape(text(value))}" if value not in ("", None) else f";{name}"
