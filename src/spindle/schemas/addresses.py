"""The places in a schema that references lead to: pointers, anchors, and parts with an `$id` of their own."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Final
from urllib.parse import quote, urldefrag, urljoin

from spindle.domain.json_schema import (
    JsonObject,
    canonical,
    is_array,
    is_object,
    pointer_steps,
    resolve_pointer,
)
from spindle.schemas.keywords import LISTS, MAPS, NEWEST, SINGLE, is_schema, is_uri

Definition = tuple[str, str]
"""The place of a definition: `$defs` or `definitions`, and its name."""

_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_REFERENCE: Final = re.compile(rb'"\$(?:r|dynamicR|recursiveR)ef":"(#/(?:\$defs|definitions)/[^"]+)"')
_SAFE: Final = "#/?:@!$&'()*+,;=-._~%"


def definition_of(reference: str) -> Definition | None:
    """Returns the definition that a reference leads to or into; None for all other places."""
    steps = pointer_steps(reference) if reference.startswith("#/") else []
    return (steps[0], steps[1]) if len(steps) > 1 and steps[0] in ("$defs", "definitions") else None


def references(schema: Any, without: Collection[str] = ()) -> list[Definition]:
    """Returns the definitions that a schema refers to, each once, but not in the keywords `without`."""
    counted = {key: schema[key] for key in schema if key not in without} if without else schema
    found = _REFERENCE.findall(canonical(counted))
    used = (definition_of(reference.decode("utf-8", "replace")) for reference in dict.fromkeys(found))
    return list(dict.fromkeys(definition for definition in used if definition is not None))


def users_of(wanted: set[Definition], schema: JsonObject) -> set[Definition]:
    """Returns these definitions of a schema, with all of its definitions that refer to one of them, or to one
    that does."""
    if not wanted:
        return wanted
    users: dict[Definition, list[Definition]] = {}
    for keyword in ("$defs", "definitions"):
        held = schema.get(keyword)
        for name, part in held.items() if is_object(held) else ():
            for used in references(part):
                users.setdefault(used, []).append((keyword, name))
    found, waiting = set(wanted), list(wanted)
    while waiting:
        for user in users.get(waiting.pop(), ()):
            if user not in found:
                found.add(user)
                waiting.append(user)
    return found


def parts_of(schema: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yields the schemas directly in a schema, each with the pointer to it."""
    for key, value in schema.items():
        if key in SINGLE and key != "additionalItems":  # which the newest draft does not know
            yield f"/{key}", value
        elif key in LISTS and is_array(value):
            yield from ((f"/{key}/{number}", part) for number, part in enumerate(value))
        elif key in MAPS and is_object(value):
            yield from ((f"/{key}/{_step(name)}", part) for name, part in value.items())


def _step(name: str) -> str:
    return quote(name.replace("~", "~0").replace("/", "~1"), safe="!$&'()*+,;=:@-._~")


class SchemaResource:
    """A schema with an address of its own, or the whole."""

    __slots__ = ("address", "anchors", "root")

    def __init__(self, root: JsonObject, address: str) -> None:
        self.root = root
        self.address = address
        self.anchors: dict[str, str] = {}
        """By name, the pointers to anchors."""


class Addresses:
    """Finds the targets of references in one schema. Nothing is fetched."""

    def __init__(self, root: JsonObject) -> None:
        self._whole = SchemaResource(root, _address_of(root) or "")
        self._resources = {id(root): self._whole}
        text = canonical(root)
        if b'"$id"' in text or b'nchor"' in text:
            self._collect(root, self._whole)
        self._by_address = {found.address: found for found in self._resources.values()}

    def _collect(self, root: JsonObject, whole: SchemaResource) -> None:
        waiting: list[tuple[JsonObject, SchemaResource, str]] = [(root, whole, "")]
        while waiting:
            node, owner, pointer = waiting.pop()
            address = _address_of(node)
            if address is not None and node is not root:
                owner, pointer = SchemaResource(node, urljoin(owner.address, address)), ""
                self._resources[id(node)] = owner
            for key in _ANCHORS:
                if isinstance(node.get(key), str):
                    owner.anchors.setdefault(node[key], pointer)
            waiting += [(part, owner, pointer + at) for at, part in parts_of(node) if is_object(part)]

    @property
    def are_one(self) -> bool:
        """True if no part has an address of its own, so that dynamic references are like all others."""
        return len(self._resources) == 1

    def owner(self, node: JsonObject, above: SchemaResource | None) -> SchemaResource:
        """Returns the resource that references in a schema are read in; `above` is that of the schema around
        it."""
        return self._resources.get(id(node)) or above or self._whole

    def find(self, reference: str, owner: SchemaResource) -> tuple[str, Any]:
        """Returns the reference as it is best written, and its target; raises LookupError, which says why
        there is none."""
        written = reference if is_uri(reference) else quote(reference, safe=_SAFE)
        if not is_uri(written):
            raise LookupError("it is not the address of a schema")
        address, fragment = urldefrag(written)
        resource: SchemaResource | None = owner
        if address:
            address = urljoin(owner.address, address)
            resource = self._by_address.get(address)
            if resource is None and address == NEWEST and not fragment:
                return written, True
            if resource is None:
                raise LookupError("it leads out of the schema, and nothing is fetched")
            if resource is owner:
                written = f"#{fragment}"
        if not fragment:
            return written, resource.root
        if fragment.startswith("/"):
            target = resolve_pointer(resource.root, f"#{fragment}")
            if not is_schema(target):
                raise LookupError("it leads nowhere" if target is None else "it leads to no schema")
            return written, target
        if fragment not in resource.anchors:
            raise LookupError("it leads nowhere")
        # By its place, which others can follow who take the schema for a part of theirs.
        return (f"#{resource.anchors[fragment]}" if resource is owner else written), True


def is_place_of_schema(reference: str) -> bool:
    """True for a reference to the whole, an anchor, or a place where schemas stand in schemas."""
    steps = pointer_steps(reference)
    while steps:
        if steps[0] in SINGLE:
            steps = steps[1:]
        elif (steps[0] in LISTS or steps[0] in MAPS) and len(steps) > 1:
            steps = steps[2:]
        else:
            return False
    return True


def _address_of(schema: JsonObject) -> str | None:
    address = schema.get("$id")
    return urldefrag(address).url if isinstance(address, str) and is_uri(address) else None
