"""The shared store of a flow, where nodes leave values for others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping
from typing import Any

from spindle.domain.json_schema import is_object
from spindle.flows.content_values import is_reference
from spindle.flows.expressions.paths import MISSING, Path, descend, written_path
from spindle.flows.named_secrets import SECRETS, named_secret


class SharedLookup:
    """Finds the value of a template's path: the longest key that matches its beginning, then the rest
    inside its value. `also` is searched first."""

    def __init__(self, shared: Mapping[str, Any], also: Mapping[str, Any] | None = None) -> None:
        self._places = (also, shared) if also else (shared,)

    def __call__(self, path: Path) -> Any:
        if path[0] == SECRETS:
            return named_secret(path)
        for place in self._places:
            for length in range(len(path), 0, -1):
                steps = path[:length]
                key = str(steps[0]) if length == 1 else ".".join(map(str, steps))
                if key in place:
                    found = descend(place[key], path[length:])
                    if found is not MISSING:
                        return found
        return MISSING

    def known(self, path: Path) -> list[str]:
        """Returns names to suggest for a path that finds nothing, at the depth where the search failed."""
        for length in range(len(path) - 1, 0, -1):
            inside = self(path[:length])
            if is_object(inside):
                return [written_path((*path[:length], key)) for key in inside]
        return [key for place in self._places for key in place]


def write_output(
    shared: MutableMapping[str, Any],
    id: str,
    value: Any,
    natural: str,
    renamed: Mapping[str, str],
    ids: Collection[str],
) -> None:
    """Writes a node's output under its own id and under its natural keys: the keys of an object and one
    level below, or else `natural`. A natural key that is the id of another node is skipped, so that nodes
    never lose each other's output."""
    has_keys = is_object(value) and not is_reference(value)
    keys: dict[str, Any] = value if has_keys else {natural: value}
    for key, item in keys.items():
        name = renamed.get(key, key)
        if name not in ids:
            shared[name] = item
        if is_object(item):
            for inner, part in item.items():
                flat = renamed.get(f"{key}.{inner}", f"{name}.{inner}")
                if flat not in ids:
                    shared[flat] = part
    shared[id] = value
    if not has_keys and natural != id:
        shared[f"{id}.{natural}"] = value
