"""The keywords of JSON Schema 2020-12: those that hold schemas, and the form of the others' values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spindle.domain.json_schema import is_array, is_object

NEWEST: Final = "https://json-schema.org/draft/2020-12/schema"

TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})

SINGLE: Final = frozenset({
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
"""Keywords that hold one schema."""

LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords that hold a list of schemas, with one at least."""

MAPS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords that hold schemas by name."""

REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})

ANNOTATIONS: Final = frozenset({
    "$comment", "$defs", "default", "definitions", "deprecated", "description", "examples", "readOnly",
    "title", "writeOnly",
})  # fmt: skip
"""Keywords that say nothing of whether a value fits."""

# What else says something different without the keyword, so that a value which did fit would not.
LEAN_ON: Final[Mapping[str, Sequence[str]]] = {
    "$ref": ("unevaluatedItems", "unevaluatedProperties"),
    "$dynamicRef": ("unevaluatedItems", "unevaluatedProperties"),
    "$recursiveRef": ("unevaluatedItems", "unevaluatedProperties"),
    "allOf": ("unevaluatedItems", "unevaluatedProperties"),
    "anyOf": ("unevaluatedItems", "unevaluatedProperties"),
    "oneOf": ("unevaluatedItems", "unevaluatedProperties"),
    "dependentSchemas": ("unevaluatedItems", "unevaluatedProperties"),
    "then": ("unevaluatedItems", "unevaluatedProperties"),
    "else": ("unevaluatedItems", "unevaluatedProperties"),
    "if": ("then", "else", "unevaluatedItems", "unevaluatedProperties"),
    "properties": ("additionalProperties", "unevaluatedProperties"),
    "patternProperties": ("additionalProperties", "unevaluatedProperties"),
    "additionalProperties": ("unevaluatedProperties",),
    "prefixItems": ("items", "unevaluatedItems"),
    "items": ("unevaluatedItems",),
    "contains": ("minContains", "maxContains", "unevaluatedItems"),
    "minContains": ("contains", "maxContains", "unevaluatedItems"),
}

_CHAR: Final = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})"
_PATH: Final = rf"(?:/(?:{_CHAR}|[:@])*)*"
_HOST: Final = rf"//(?:(?:{_CHAR}|:)*@)?{_CHAR}*(?::\d*)?{_PATH}"
# A reference as RFC 3986 has it, but for hosts in brackets.
_URI: Final = re.compile(
    rf"(?:(?:[A-Za-z][A-Za-z0-9+.-]*:)?{_HOST}|[A-Za-z][A-Za-z0-9+.-]*:(?!//)(?:{_CHAR}|[:@/])*"
    rf"|(?!//)(?:{_CHAR}|@)*{_PATH})(?:\?(?:{_CHAR}|[:@/?])*)?(?:#(?:{_CHAR}|[:@/?])*)?"
)
_ID: Final = re.compile(r"[^#]*#?")
_ANCHOR: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")


def is_text(value: Any) -> bool:
    """True for text."""
    return isinstance(value, str)


def is_uri(value: Any) -> bool:
    """True for the address of something, whole or in part."""
    return isinstance(value, str) and _URI.fullmatch(value) is not None


def is_schema(value: Any) -> bool:
    """True for an object, true and false, which alone can be schemas."""
    return is_object(value) or isinstance(value, bool)


def _is_id(value: Any) -> bool:
    return is_uri(value) and _ID.fullmatch(value) is not None


def _is_anchor(value: Any) -> bool:
    return isinstance(value, str) and _ANCHOR.fullmatch(value) is not None


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and (isinstance(value, int) or value.is_integer())


def _are_types(value: Any) -> bool:
    if isinstance(value, str):
        return value in TYPES
    if not is_array(value) or not value or not all(isinstance(item, str) for item in value):
        return False
    return TYPES.issuperset(value) and len(set(value)) == len(value)


def _are_names(value: Any) -> bool:
    return is_array(value) and all(map(is_text, value)) and len(set(value)) == len(value)


def _are_names_by_name(value: Any) -> bool:
    return is_object(value) and all(map(_are_names, value.values()))


def _are_choices(value: Any) -> bool:
    # An empty list is allowed, but no value would fit, and some APIs of models refuse it.
    return is_array(value) and bool(value)


def _is_vocabulary(value: Any) -> bool:
    return is_object(value) and all(map(is_uri, value)) and all(map(_is_flag, value.values()))


Form = tuple[Callable[[Any], bool], str]

_TEXT: Final[Form] = (is_text, "must be text")
_FLAG: Final[Form] = (_is_flag, "must be true or false")
_NUMBER: Final[Form] = (_is_number, "must be a number")
_COUNT: Final[Form] = (_is_count, "must be a whole number, 0 or more")

FORMS: Final[Mapping[str, Form]] = {
    **dict.fromkeys(
        ("$comment", "title", "description", "format", "contentEncoding", "contentMediaType"), _TEXT
    ),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly", "uniqueItems"), _FLAG),
    **dict.fromkeys(("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"), _NUMBER),
    **dict.fromkeys(
        ("maxLength", "minLength", "maxItems", "minItems", "maxContains", "minContains", "maxProperties",
         "minProperties"),
        _COUNT,
    ),
    "$id": (_is_id, "must be the address of a schema"),
    "$anchor": (_is_anchor, "must be a name"),
    "$dynamicAnchor": (_is_anchor, "must be a name"),
    "$vocabulary": (_is_vocabulary, "must be addresses with true or false"),
    "multipleOf": (_is_positive, "must be a number above 0"),
    "type": (_are_types, "must be types of JSON"),
    "required": (_are_names, "must be a list of different names"),
    "enum": (_are_choices, "must be a list of values"),
    "examples": (is_array, "must be a list"),
    "dependentRequired": (_are_names_by_name, "must be lists of names by name"),
}  # fmt: skip
"""The form of each other keyword, and what to say of a value that has another."""
