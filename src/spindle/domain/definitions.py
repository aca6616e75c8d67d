"""Schemas that many tools of one source refer to, kept once.

A tool's schema says `{"$ref": "#/$defs/Customer"}` and leaves `Customer` here. It is made whole with
just what it reaches when somebody looks at it: copying that into every tool of a large API would take
hundreds of megabytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from spindle.domain.json_schema import JsonObject, canonical
from spindle.domain.schema_cost import SchemaCosts

# In JSON text. The names are the source's to choose, from these characters only.
_REFERENCE = re.compile(rb'"\$ref":"#/\$defs/([A-Za-z0-9_.-]+)"')


def references_in(text: bytes) -> list[str]:
    """Returns the definitions that a schema, written as `canonical` writes it, refers to; each once,
    sorted."""
    return sorted({name.decode() for name in _REFERENCE.findall(text)})


class Definitions:
    """Named schemas. They may refer to each other, also in circles."""

    def __init__(self, schemas: Mapping[str, JsonObject]) -> None:
        self.schemas = schemas
        self._texts: dict[str, bytes] = {}
        self._references: dict[str, list[str]] = {}
        self._digests: dict[str, bytes] = {}

    def completed(self, schema: JsonObject) -> JsonObject:
        """Returns the schema with all the definitions it reaches, so that it stands by itself."""
        reached = self.reached_from(references_in(canonical(schema)))
        if not reached:
            return schema
        return {**schema, "$defs": {**schema.get("$defs", {}), **reached}}

    def reached_from(self, names: Iterable[str]) -> dict[str, JsonObject]:
        """Returns the definitions that these names reach, themselves included."""
        reached: dict[str, JsonObject] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in reached and name in self.schemas:
                reached[name] = self.schemas[name]
                waiting += self._references_of(name)
        return dict(sorted(reached.items()))

    @cached_property
    def costs(self) -> SchemaCosts:
        """The work that schemas make which refer to these."""
        return SchemaCosts(self.schemas)

    def digest_of(self, names: Iterable[str]) -> bytes:
        """Returns a mark that changes when anything does that these definitions reach."""
        known = [name for name in names if name in self.schemas]
        for name in known:
            if name not in self._digests:
                self._digest_circles_from(name)
        return b"".join(self._digests[name] for name in known)

    @cached_property
    def key(self) -> str:
        """A mark of the whole set."""
        parts = (name.encode() + b":" + self._text(name) for name in sorted(self.schemas))
        return hashlib.sha256(b"\n".join(parts)).hexdigest()[:32]

    def _text(self, name: str) -> bytes:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = canonical(self.schemas[name])
        return text

    def _references_of(self, name: str) -> list[str]:
        found = self._references.get(name)
        if found is None:
            found = self._references[name] = [
                other for other in references_in(self._text(name)) if other in self.schemas
            ]
        return found

    def _digest_circles_from(self, start: str) -> None:
        """Digest what `start` reaches, circle by circle (Tarjan's strongly connected components),
        so that each definition is looked at once however many refer to it."""
        order: dict[str, int] = {}
        low: dict[str, int] = {}
        open_: list[str] = []
        path = [(start, iter(self._references_of(start)))]
        order[start] = low[start] = 0
        open_.append(start)
        while path:
            name, others = path[-1]
            other = next(others, None)
            if other is None:
                path.pop()
                if path:
                    above = path[-1][0]
                    low[above] = min(low[above], low[name])
                if low[name] == order[name]:
                    at = open_.index(name)
                    self._digest_circle(open_[at:])
                    del open_[at:]
            elif other not in order and other not in self._digests:
                order[other] = low[other] = len(order)
                open_.append(other)
                path.append((other, iter(self._references_of(other))))
            elif other not in self._digests:
                low[name] = min(low[name], order[other])

    def _digest_circle(self, members: list[str]) -> None:
        whole = hashlib.sha256()
        for name in sorted(members):
            whole.update(name.encode() + b":" + self._text(name) + b"\n")
        outside = {other for name in members for other in self._references_of(name)}.difference(members)
        for name in sorted(outside):
            whole.update(self._digests[name])
        for name in members:
            self._digests[name] = hashlib.sha256(whole.digest() + name.encode()).digest()
