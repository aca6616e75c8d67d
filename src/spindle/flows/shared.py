"""The shared store of a flow: where nodes leave what others read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping
from typing import Any

from spindle.domain.json_schema import is_object
from spindle.flows.templates import MISSING, Path, descend, written_path


class SharedLookup:
    """What a template's path finds: the longest key that is written like its beginning, then what that holds.
    `also` goes before."""

    def __init__(self, shared: Mapping[str, Any], also: Mapping[str, Any] | None = None) -> None:
        self._places = (also, shared) if also else (shared,)

    def __call__(self, path: Path) -> Any:
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
        """What could have been meant by a path that finds nothing: names as far as something was found."""
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
    """Leave a node's output under its own id, and under its natural keys: those of an object, one level of
    what it holds included, else `natural`. A natural key that is the id of another node is not written:
    nodes never lose each other's output."""
    keys: dict[str, Any] = value if is_object(value) else {natural: value}
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
    if not is_object(value) and natural != id:
        shared[f"{id}.{natural}"] = value
