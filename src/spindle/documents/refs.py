"""Documents that refer to each other by `$ref`, and the resolution of references."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from spindle.domain.json_schema import JsonObject, is_array, is_object, pointer_steps, resolve_step
from spindle.errors import ConfigurationError, SpindleError

MAX_HOPS: Final = 32
"""References in a row. A person who follows that many has lost the thread."""


@dataclass(frozen=True, slots=True)
class Document:
    """One file or URL. `address` is what relative references in it start from."""

    address: str
    root: JsonObject = field(repr=False)


AsRead = Callable[[JsonObject], JsonObject]
"""Takes an object of a document, and returns it with the entries that it had when it was read."""


@dataclass(frozen=True, slots=True)
class Located:
    """A part of a document, and the document that its own references start from."""

    node: Any
    document: Document


@dataclass(slots=True)
class _Hops:
    """The references that were followed to find one thing. They are counted together: each may lead through
    others, and those through others again."""

    as_read: AsRead
    count: int = 0


class Documents:
    """A document and all that it refers to."""

    def __init__(self, main: Document, others: dict[str, Document], missing: dict[str, str]) -> None:
        self.main = main
        self._others = {main.address: main, **others}
        self._missing = missing
        """By address, why it could not be read: an error only for who needs it."""

    def follow(self, node: Any, document: Document) -> Located:
        """Returns what a `$ref` leads to, also through others; the node itself where it is none."""
        return self._follow(Located(node, document), _Hops(_as_it_is))

    def target(self, reference: str, document: Document, as_read: AsRead | None = None) -> Located:
        """Returns what one `$ref` points at. The way there may lead through other references: a channel that
        stands in another file has its messages there. `as_read` knows objects that were changed since."""
        return self._target(reference, document, _Hops(as_read or _as_it_is))

    def _follow(self, here: Located, hops: _Hops) -> Located:
        seen: list[tuple[str, str]] = []
        while is_object(here.node) and isinstance(reference := hops.as_read(here.node).get("$ref"), str):
            address = self.address(reference, here.document)
            if address in seen:
                way = " → ".join(f"#{pointer}" for _, pointer in [*seen[seen.index(address) :], address])
                raise broken(here.document, reference, f"goes in a circle: {way}")
            seen.append(address)
            here = self._target(reference, here.document, hops)
        return here

    def _target(self, reference: str, document: Document, hops: _Hops) -> Located:
        hops.count += 1
        if hops.count > MAX_HOPS:
            raise broken(document, reference, f"comes after {MAX_HOPS} others in a row")
        where, pointer = self.address(reference, document)
        other = self._others.get(where)
        if other is None:
            raise broken(document, reference, self._missing.get(where, "was not read"))
        found: Located | None = Located(other.root, other) if not pointer or pointer[0] == "/" else None
        for step in pointer_steps(pointer):
            found = self._inside(found, step, hops) if found is not None else None
        if found is None or found.node is None:
            raise broken(document, reference, "points at nothing")
        return found

    def _inside(self, here: Located, step: str, hops: _Hops) -> Located | None:
        """The part of this name; where there is none, that of what a reference in its place leads to."""
        node = hops.as_read(here.node) if is_object(here.node) else here.node
        if is_object(node) and step not in node and "$ref" in node:
            here = self._follow(here, hops)
            node = hops.as_read(here.node) if is_object(here.node) else here.node
        found = resolve_step(node, step)
        return None if found is None else Located(found, here.document)

    def address(self, reference: str, document: Document) -> tuple[str, str]:
        """Returns the address of the document that a reference leads to, and the pointer in it."""
        if reference.startswith("#"):
            return document.address, reference[1:]
        where, pointer = urldefrag(urljoin(document.address, reference))
        return where, pointer


def _as_it_is(node: JsonObject) -> JsonObject:
    return node


def references(root: Any) -> Iterator[str]:
    """Yields every reference to another document."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if is_object(node):
            reference = node.get("$ref")
            if isinstance(reference, str) and not reference.startswith("#"):
                yield reference
        inner = node.values() if is_object(node) else node
        waiting += [value for value in inner if is_object(value) or is_array(value)]


def entries(value: Any) -> JsonObject:
    """Returns an object's entries; none where the document has something else in its place."""
    return value if is_object(value) else {}


def broken(document: Document, reference: str, why: str) -> SpindleError:
    """Returns the error for a reference that leads nowhere."""
    return ConfigurationError(
        f"{shown(document.address)}: the reference {reference!r} {why}", hint="correct the document"
    )


def shown(address: str) -> str:
    """Returns the address of a document the way its user wrote it."""
    return unquote(address.removeprefix("file://")) if address.startswith("file://") else address
