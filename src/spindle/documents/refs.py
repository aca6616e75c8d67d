"""Documents that refer to each other by `$ref`, and the resolution of references."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from spindle.domain.json_schema import JsonObject, is_array, is_object, resolve_pointer
from spindle.errors import ConfigurationError, SpindleError

MAX_HOPS: Final = 32
"""References in a row. A person who follows that many has lost the thread."""


@dataclass(frozen=True, slots=True)
class Document:
    """One file or URL. `address` is what relative references in it start from."""

    address: str
    root: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class Located:
    """A part of a document, and the document that its own references start from."""

    node: Any
    document: Document


class Documents:
    """A document and all that it refers to."""

    def __init__(self, main: Document, others: dict[str, Document], missing: dict[str, str]) -> None:
        self.main = main
        self._others = {main.address: main, **others}
        self._missing = missing
        """By address, why it could not be read: an error only for who needs it."""

    def follow(self, node: Any, document: Document) -> Located:
        """Returns what a `$ref` leads to, also through others; the node itself where it is none."""
        seen: list[tuple[str, str]] = []
        while is_object(node) and isinstance(node.get("$ref"), str):
            reference = node["$ref"]
            address = self.address(reference, document)
            if address in seen:
                way = " → ".join(f"#{pointer}" for _, pointer in [*seen[seen.index(address) :], address])
                raise broken(document, reference, f"goes in a circle: {way}")
            if len(seen) == MAX_HOPS:
                raise broken(document, reference, f"comes after {MAX_HOPS} others in a row")
            seen.append(address)
            target = self.target(reference, document)
            node, document = target.node, target.document
        return Located(node, document)

    def target(self, reference: str, document: Document) -> Located:
        """Returns what one `$ref` points at."""
        where, pointer = self.address(reference, document)
        other = self._others.get(where)
        if other is None:
            raise broken(document, reference, self._missing.get(where, "was not read"))
        node = resolve_pointer(other.root, f"#{pointer}")
        if node is None:
            raise broken(document, reference, "points at nothing")
        return Located(node, other)

    def address(self, reference: str, document: Document) -> tuple[str, str]:
        """Returns the address of the document that a reference leads to, and the pointer in it."""
        if reference.startswith("#"):
            return document.address, reference[1:]
        where, pointer = urldefrag(urljoin(document.address, reference))
        return where, pointer


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
