"""The credentials that an operation asks for, as its document says."""

from __future__ import annotations

from typing import Any

from spindle.domain.json_schema import JsonObject, is_array, is_object


def requirements(security: Any, schemes: JsonObject, problems: list[str]) -> list[list[JsonObject]] | None:
    """The alternatives, each a list of schemes; None when the document does not say."""
    if not is_array(security):
        return None
    found: list[list[JsonObject]] = []
    for alternative in security:
        if not is_object(alternative):
            continue
        wanted: list[JsonObject] = []
        for name in alternative:
            scheme = schemes.get(name)
            if is_object(scheme):
                wanted.append(_plain(scheme))
            else:
                problems.append(f"the security scheme {name!r} is not defined")
        found.append(wanted)
    return found


def _plain(scheme: JsonObject) -> JsonObject:
    return {key: scheme[key] for key in ("type", "in", "name", "scheme") if key in scheme}
