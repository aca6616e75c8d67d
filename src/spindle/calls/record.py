"""What is written down about a call, with secrets masked."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, cast

from spindle.domain.json_schema import JsonObject, is_array, is_object, resolve

MASK = "•••"
MAX_TEXT = 4000
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)?$|secret|token$|api[_-]?key|auth(orization)?$|credential|private[_-]?key|cookie",
    re.IGNORECASE,
)


def masked(arguments: JsonObject, schema: JsonObject, secrets: Collection[str]) -> JsonObject:
    """Arguments fit to be stored: values that are secret by name, by schema or by being one of the
    source's own secrets are masked, and very long texts are cut."""
    return cast(JsonObject, _mask(arguments, schema, schema, secrets))


def _mask(value: Any, schema: Any, root: JsonObject, secrets: Collection[str]) -> Any:
    resolved = resolve(root, schema)
    if resolved.get("format") == "password" or resolved.get("writeOnly") is True:
        return MASK
    if is_object(value):
        properties = resolved.get("properties")
        known = properties if is_object(properties) else {}
        return {
            key: MASK
            if _SECRET_NAME.search(key) and isinstance(item, (str, bytes))
            else _mask(item, known.get(key), root, secrets)
            for key, item in value.items()
        }
    if is_array(value):
        return [_mask(item, resolved.get("items"), root, secrets) for item in value]
    if isinstance(value, str):
        return clean(value, secrets)[:MAX_TEXT]
    return value


def clean(text: str, secrets: Collection[str]) -> str:
    """The text with every known secret masked."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, MASK)
    return text


def clean_json(value: Any, secrets: Collection[str]) -> Any:
    """The same for every text inside a JSON value."""
    if isinstance(value, str):
        return clean(value, secrets)
    if is_object(value):
        return {key: clean_json(item, secrets) for key, item in value.items()}
    if is_array(value):
        return [clean_json(item, secrets) for item in value]
    return value
