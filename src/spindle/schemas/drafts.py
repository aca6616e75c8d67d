"""Older drafts of JSON Schema, in the words of 2020-12, which is what clients and models read."""

from __future__ import annotations

import re
from typing import Any, Final

from spindle.domain.json_schema import JsonObject, canonical, is_array, is_object
from spindle.schemas.keywords import ANNOTATIONS, LISTS, MAPS, SINGLE

DRAFT_4: Final = 4
DRAFT_7: Final = 7
DRAFT_2019: Final = 2019
DRAFT_2020: Final = 2020

_NAMED: Final = re.compile(r"https?://json-schema\.org/(?:draft-0?(\d)|draft/(\d{4}-\d\d))/schema#?")
_KNOWN: Final = {"4": DRAFT_4, "6": 6, "7": DRAFT_7, "2019-09": DRAFT_2019, "2020-12": DRAFT_2020}
_BOUNDS: Final = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
_PLACE: Final = re.compile(r"/items/(\d+)(?=/|$)")
_OLD_WORDS: Final = (
    b'"items":[',
    b'"exclusiveMinimum":',
    b'"exclusiveMaximum":',
    b'"dependencies":',
    b'"$id":"#',
)
_MAY_BE_OLD: Final = frozenset({
    "items", "exclusiveMinimum", "exclusiveMaximum", "dependencies", "id", "$id", "$ref", "$recursiveRef",
    "$recursiveAnchor",
})  # fmt: skip


def draft_of(schema: JsonObject) -> int | None:
    """Returns the draft that a schema says it is written in, the newest where it does not say; None where it
    names one that nobody knows."""
    if "$schema" not in schema:
        return DRAFT_2020
    named: Any = schema["$schema"]
    match = _NAMED.fullmatch(named) if isinstance(named, str) else None
    return _KNOWN.get(match[1] or match[2]) if match else None


def in_newest(schema: JsonObject, draft: int) -> JsonObject:
    """Returns a schema of a draft, with all schemas in it, in the words of 2020-12; the same object if it has
    no others. References to what has another place now lead there."""
    text = canonical(schema)
    if draft == DRAFT_2020 and not any(word in text for word in _OLD_WORDS):
        return schema
    return _Translation(draft).of(schema)


class _Translation:
    def __init__(self, draft: int) -> None:
        self._draft = draft

    def of(self, schema: Any) -> Any:
        if not is_object(schema):
            return schema
        node = _translated(schema, self._draft)
        changes: JsonObject = {}
        for key, value in node.items():
            if key in SINGLE:
                made = self.of(value)
            elif key in LISTS and is_array(value):
                made = self._each(value)
            elif key in MAPS and is_object(value):
                parts = self._each(value.values())
                made = dict(zip(value, parts, strict=True)) if is_array(parts) else value
            elif key == "$ref" and isinstance(value, str):
                made = _PLACE.sub(r"/prefixItems/\1", value)
            else:
                continue
            if made is not value:
                changes[key] = made
        return {**node, **changes} if changes else node

    def _each(self, parts: Any) -> Any:
        made = [self.of(part) for part in parts]
        return parts if all(new is old for new, old in zip(made, parts, strict=True)) else made


def _translated(schema: JsonObject, draft: int) -> JsonObject:
    """One schema, but not those in it."""
    if _MAY_BE_OLD.isdisjoint(schema):
        return schema
    made = dict(schema)
    count = 0
    if is_array(schema.get("items")) and "prefixItems" not in schema:
        count += 1
        places = made.pop("items")
        if places:
            made["prefixItems"] = places
        if "additionalItems" in made:
            made["items"] = made.pop("additionalItems")
    for bound, exclusive in _BOUNDS:
        flag = schema.get(exclusive)
        if isinstance(flag, bool):
            count += 1
            del made[exclusive]
            if flag and bound in made:
                made[exclusive] = made.pop(bound)
    if is_object(schema.get("dependencies")):
        count += 1
        _split_dependencies(made)
    key = "id" if draft == DRAFT_4 else "$id"
    address = schema.get(key)
    if isinstance(address, str) and (draft == DRAFT_4 or address.startswith("#")):
        count += 1
        del made[key]
        made["$anchor" if address.startswith("#") else "$id"] = address.removeprefix("#")
    if draft == DRAFT_2019 and ("$recursiveRef" in schema or "$recursiveAnchor" in schema):
        count += 1
        made.pop("$recursiveAnchor", None)
        if "$recursiveRef" in made:
            made.setdefault("$ref", made.pop("$recursiveRef"))
    if draft <= DRAFT_7 and isinstance(schema.get("$ref"), str):
        # Up to draft 7 nothing beside a reference has a say.
        alone = {key: value for key, value in made.items() if key == "$ref" or key in ANNOTATIONS}
        count += len(alone) != len(made)
        made = alone
    return made if count else schema


def _split_dependencies(made: JsonObject) -> None:
    needs: JsonObject = made.pop("dependencies")
    names = {name: item for name, item in needs.items() if is_array(item)}
    schemas = {name: item for name, item in needs.items() if not is_array(item)}
    for keyword, found in (("dependentRequired", names), ("dependentSchemas", schemas)):
        known = made.get(keyword)
        if found:
            made[keyword] = {**found, **(known if is_object(known) else {})}
