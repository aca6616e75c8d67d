"""One way through a schema and all schemas in it, dropping what cannot be used."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from spindle.domain.json_schema import JsonObject, is_array, is_object, to_json
from spindle.domain.visible import visible
from spindle.giving_way import give_way
from spindle.schemas.addresses import Addresses, Definition, SchemaResource, definition_of, is_place_of_schema
from spindle.schemas.keywords import ANNOTATIONS, FORMS, LEAN_ON, LISTS, MAPS, REFERENCES, SINGLE
from spindle.schemas.patterns import Patterns

_SHOWN: Final = 60
_LONGEST_PATH: Final = 200
_TELL_PARTS: Final = frozenset({
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "contains", *REFERENCES
})  # fmt: skip
"""Keywords on which others depend also if only a part of them is loosened."""
_SAYS_NOTHING: Final = ANNOTATIONS | {"format", "contentEncoding", "contentMediaType", "$vocabulary"}
_MAY_BE_NULL: Final = frozenset({"const", "default"})
_GONE: Final = object()


class SchemaWalk:
    """Walks through one schema, of the newest draft or in words that it has too. What stays as it is stays
    the same object."""

    def __init__(
        self,
        root: JsonObject,
        shared: Collection[str],
        loose: Collection[Definition],
        is_loose: bool,
        patterns: Patterns,
        cut: Collection[int] = (),
    ) -> None:
        """`shared` has the names of definitions that it does not hold, `loose` the definitions that accept
        more than before; `is_loose`: so does something else in it. `cut` has the ids of schemas whose
        references go in a circle."""
        self._root = root
        self._shared = shared
        self._loose = loose
        self._is_loose = is_loose
        self._patterns = patterns
        self._cut = cut
        self._addresses: Addresses | None = None
        self._targets: dict[tuple[str, int], str | LookupError] = {}
        self._path: list[str] = []
        self._loosened = 0
        self.faults: list[str] = []
        self.places: set[Definition | None] = set()
        """The definitions that hold the faults; None for one elsewhere."""

    def made(self) -> JsonObject:
        """Returns what is left of the schema."""
        return self._schema(self._root, None)

    # --- one schema

    def _schema(self, node: JsonObject, owner: SchemaResource | None) -> JsonObject:
        give_way()
        if "$id" in node:
            owner = self._owner(node, owner)
        changes: JsonObject = {}
        weaker: list[str] = []
        for key, value in node.items():
            form = FORMS.get(key)
            before = self._loosened
            if value is None and key not in _MAY_BE_NULL:
                changes[key] = _GONE  # written by programs that leave nothing out
            elif form is not None:
                if not form[0](value):
                    why = f"{form[1]}, not {shown(value)}"
                    changes[key] = self._fault(
                        key, why, _mended(key, value), loosens=key not in _SAYS_NOTHING
                    )
            elif key in SINGLE:
                made = self._part(key, value, owner)
                if made is not value:
                    changes[key] = made
            elif key in LISTS:
                self._list(key, value, owner, changes)
            elif key in MAPS or (key == "dependencies" and is_object(value)):
                if self._map(key, value, owner, changes):
                    weaker.append(key)
            elif key == "pattern":
                problem = self._patterns.problem(value) if isinstance(value, str) else "is not text"
                if problem is not None:
                    changes[key] = self._fault(key, f"{shown(value)} {problem}")
            elif key in REFERENCES:
                self._reference(key, node, owner, changes)
            elif key == "dependencies":
                changes[key] = self._fault(
                    key, f"must be lists of names or schemas by name, not {shown(value)}"
                )
            elif key == "$schema" and node is not self._root:
                changes[key] = _GONE  # it is read in the draft of the whole
            if self._loosened > before and (changes.get(key) is _GONE or key in _TELL_PARTS):
                weaker.append(key)
        for key in weaker:
            self._loosen_beside(key, node, changes)
        if not changes:
            return node
        made = {key: changes.get(key, value) for key, value in node.items()} | changes
        return {key: value for key, value in made.items() if value is not _GONE}

    def _part(self, key: str, value: Any, owner: SchemaResource | None) -> Any:
        if is_object(value):
            self._path.append(key)
            made = self._schema(value, owner)
            self._path.pop()
            return made
        return value if isinstance(value, bool) else self._fault(key, f"{shown(value)} is not a schema")

    def _list(self, key: str, value: Any, owner: SchemaResource | None, changes: JsonObject) -> None:
        if not is_array(value) or not value:
            changes[key] = self._fault(key, f"must be a list of schemas, not {shown(value)}")
            return
        self._path.append(key)
        made = [self._part(str(number), part, owner) for number, part in enumerate(value)]
        self._path.pop()
        if any(new is not old for new, old in zip(made, value, strict=True)):
            changes[key] = [{} if part is _GONE else part for part in made]

    def _map(self, key: str, value: Any, owner: SchemaResource | None, changes: JsonObject) -> bool:
        """True if a name is lost, which its neighbours may forbid."""
        if not is_object(value):
            changes[key] = self._fault(key, f"must be schemas by name, not {shown(value)}")
            return False
        made: JsonObject = {}
        is_same, is_lost = True, False
        self._path.append(key)
        for name, part in value.items():
            problem = self._patterns.problem(name) if key == "patternProperties" else None
            if problem is not None:
                self._fault(name, problem)
                is_lost = True
            elif key == "dependencies" and is_array(part):
                made[name] = part
            else:
                new = self._part(name, part, owner)
                made[name] = {} if new is _GONE else new
                is_same = is_same and new is part
        self._path.pop()
        if is_lost or not is_same:
            changes[key] = made
        return is_lost

    # --- references

    def _owner(self, node: JsonObject, above: SchemaResource | None) -> SchemaResource:
        if self._addresses is None:
            self._addresses = Addresses(self._root)
        return self._addresses.owner(node, above)

    def _reference(
        self, key: str, node: JsonObject, owner: SchemaResource | None, changes: JsonObject
    ) -> None:
        value: Any = node[key]
        if not isinstance(value, str):
            changes[key] = self._fault(key, f"{shown(value)} is not the address of a schema")
            return
        if id(node) in self._cut:
            changes[key] = self._fault(key, f"{shown(value)} leads back to itself and nothing else")
            return
        definition: Definition | None
        if owner is None and value.startswith("#/$defs/") and value[8:] in self._shared:
            definition = ("$defs", value[8:])
        else:
            definition = definition_of(value)
            owner = self._owner(self._root, None) if owner is None else owner
            known = self._targets.get((value, id(owner)))
            if known is None:
                known = self._targets[value, id(owner)] = self._found(value, owner)
            if isinstance(known, LookupError):
                changes[key] = self._fault(key, f"{shown(value)}: {known}")
                return
            if key == "$ref" and known != value:
                changes[key] = known
            elif key == "$dynamicRef" and "$ref" not in node and self._addresses and self._addresses.are_one:
                changes |= {key: _GONE, "$ref": known}
        if self._is_loose if definition is None else definition in self._loose:
            self._loosened += 1

    def _found(self, reference: str, owner: SchemaResource) -> str | LookupError:
        assert self._addresses is not None
        try:
            written, target = self._addresses.find(reference, owner)
        except LookupError as error:
            return error
        if is_object(target) and not is_place_of_schema(written):
            # Nobody has looked at it as a schema, and it may be none.
            self._targets[reference, id(owner)] = written
            probe = SchemaWalk(self._root, self._shared, (), False, self._patterns)
            probe._addresses, probe._targets = self._addresses, self._targets
            if probe._schema(target, owner) is not target:
                return LookupError("what it leads to is not a schema as it should be")
        return written

    # --- what goes with what

    def _loosen_beside(self, key: str, node: JsonObject, changes: JsonObject) -> None:
        """Drops what would be stricter now that a keyword, or a part of it, is gone."""
        if changes.get(key) is not _GONE:
            if key == "oneOf":
                branches = changes.get(key, node[key])
                changes[key] = self._fault(key, "its branches cannot be told apart: read as anyOf")
                if "anyOf" not in node:
                    changes["anyOf"] = branches
            elif key in ("not", "if"):
                changes[key] = self._fault(key, "a part of it is dropped")
        for other in LEAN_ON.get(key, ()):
            if other in node and changes.get(other) is not _GONE:
                changes[other] = self._fault(other, f"it depends on {key}")

    def _fault(self, key: str, why: str, instead: Any = _GONE, *, loosens: bool = True) -> Any:
        """Takes note of a fault; returns what stands in its place."""
        self._loosened += loosens
        path = [*self._path, key]
        is_definition = path[0] in ("$defs", "definitions") and len(path) > 1
        self.places.add((path[0], path[1]) if is_definition else None)
        self.faults.append(f"{visible('.'.join(path)[:_LONGEST_PATH])}: {why}")
        return instead


def _mended(key: str, value: Any) -> Any:
    """The part of a keyword's value that can be kept."""
    if key in ("required", "type") and is_array(value):
        kept = list(dict.fromkeys(item for item in value if isinstance(item, str)))
        if key == "required" or (len(kept) > 0 and FORMS["type"][0](kept)):
            return kept
    return _GONE


def shown(value: Any) -> str:
    """Returns a value of others as a person may read it, cut where it gets too long."""
    try:
        text = to_json(value).decode()
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    text = visible(text).replace("\n", r"\n")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
