"""The most of a schema that can be used: what nobody can read in it is dropped, and said.

A repair only ever loosens: a value that fits what the author meant fits what is left. So with a keyword goes
what would say something stricter without it, such as `additionalProperties: false` beside `properties` that
are a list, and a `oneOf` whose branches can no longer be told apart is read as `anyOf`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from spindle.domain.definitions import Definitions
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.domain.schema_cost import too_large
from spindle.schemas.addresses import Definition, users_of
from spindle.schemas.circles import circular_references
from spindle.schemas.compiled import is_newest
from spindle.schemas.drafts import DRAFT_4, DRAFT_2020, draft_of, in_newest
from spindle.schemas.patterns import Patterns
from spindle.schemas.walk import SchemaWalk, shown

MAX_FAULTS: Final = 20
"""Faults of one schema that are said."""
MAX_ROUNDS: Final = 10


@dataclass(frozen=True, slots=True)
class Usable:
    """A schema as it can be used, and what was dropped for that."""

    schema: JsonObject
    faults: tuple[str, ...] = ()


class Repairs:
    """Repairs the schemas of one source, in time that is proportional to them."""

    def __init__(self) -> None:
        self._patterns = Patterns()

    def of(
        self, schema: JsonObject, shared: Collection[str] = (), loose: Collection[Definition] = ()
    ) -> Usable:
        """Returns the schema as it can be used: the same object if that is all of it. `shared` has the names
        of definitions that it refers to and does not hold, `loose` those of them that accept more than
        before. A schema that is too large to be looked at stays as it is."""
        if too_large(schema):
            return Usable(schema)
        draft = draft_of(schema)
        faults: list[str] = []
        known = schema
        if draft is None:
            faults.append(f"$schema: no draft is known as {shown(schema['$schema'])}")
            known = _without_draft(schema)
            draft = DRAFT_2020
        # An older one stays in its own words as long as the newest draft has the same.
        if draft in (DRAFT_4, DRAFT_2020) or not is_newest(known):
            known = in_newest(known if draft == DRAFT_2020 else _without_draft(known), draft)
        return self._kept(known, faults, shared, loose)

    def opened(self, usable: Usable) -> Usable:
        """Returns a usable schema without references that go in a circle."""
        return self._kept(usable.schema, list(usable.faults), (), (), circular_references(usable.schema))

    def _kept(
        self,
        known: JsonObject,
        faults: list[str],
        shared: Collection[str],
        loose: Collection[Definition],
        cut: Collection[int] = (),
    ) -> Usable:
        places: set[Definition | None] = set()
        loosened = set(loose)
        for _ in range(MAX_ROUNDS):
            walk = SchemaWalk(known, shared, loosened, bool(places), self._patterns, cut)
            made = walk.made()
            faults += walk.faults
            places |= walk.places
            spread = users_of({place for place in places if place is not None}, made) | set(loose)
            if made is known and spread == loosened:
                return Usable(made, _few(faults))
            known, loosened = made, spread
        return Usable({}, (*_few(faults), "nothing of it can be kept"))

    def definitions(
        self, given: Definitions
    ) -> tuple[Definitions, dict[str, tuple[str, ...]], set[Definition]]:
        """Returns definitions that many schemas share as they can be used, the faults of each by its name,
        and those that accept more than before."""
        schemas: dict[str, JsonObject] = dict(given.schemas)
        faults: dict[str, tuple[str, ...]] = {}
        loose: set[Definition] = set()
        is_same = True
        for _ in range(MAX_ROUNDS):
            for name, schema in schemas.items():
                usable = self.of(schema, schemas, loose)
                if usable.schema is not schema:
                    is_same = False
                    schemas[name] = usable.schema
                    if usable.faults:
                        faults[name] = (*faults.get(name, ()), *usable.faults)[:MAX_FAULTS]
            spread = users_of({("$defs", name) for name in faults}, {"$defs": schemas})
            if spread == loose:
                break
            loose = spread
        return (given if is_same else Definitions(schemas)), faults, loose


def usable_input(usable: Usable) -> Usable:
    """Returns the schema of arguments, which are always an object, whatever it says."""
    kept, faults = dict(usable.schema), list(usable.faults)
    types: Any = kept.get("type", "object")
    if "object" not in (types if is_array(types) else [types]):
        del kept["type"]
        faults.append(f"type: arguments are an object, and it says {shown(types)}")
    for key, choices in (("enum", kept.get("enum")), ("const", [kept.get("const", {})])):
        if is_array(choices) and not any(map(is_object, choices)):
            del kept[key]
            faults.append(f"{key}: arguments are an object, and it has none")
    return usable if len(faults) == len(usable.faults) else Usable(kept, tuple(faults))


def read_schemas(arguments: Any, result: Any) -> tuple[JsonObject, JsonObject | None, tuple[str, ...]]:
    """Returns what a source gave as the schemas of a tool, and what of it is no schema. Where there is none,
    the arguments may be any object, and nothing is known of the result."""
    faults = [
        f"{side} schema: {shown(given)} is not a schema"
        for side, given in (("input", arguments), ("output", result))
        if not is_object(given) and given is not None and given is not True
    ]
    return (
        arguments if is_object(arguments) else {},
        result if is_object(result) else None,
        tuple(faults),
    )


def _without_draft(schema: JsonObject) -> JsonObject:
    return {key: value for key, value in schema.items() if key != "$schema"}


def _few(faults: list[str]) -> tuple[str, ...]:
    more = len(faults) - MAX_FAULTS
    return tuple(faults) if more <= 0 else (*faults[: MAX_FAULTS - 1], f"and {more + 1:,} more like these")
