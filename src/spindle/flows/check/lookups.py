"""Predicts the value of a template or a mapping before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spindle.domain.json_schema import JsonObject, is_object, parameters, resolve, types_of
from spindle.errors import did_you_mean, suggest
from spindle.flows.check.availability import Availability, State, Writer
from spindle.flows.check.shapes import MAY_HAVE_FAILED, is_required, within
from spindle.flows.content_values import CONTENT
from spindle.flows.expressions.parsing import Read
from spindle.flows.expressions.paths import Path, written_path
from spindle.flows.named_secrets import SECRETS
from spindle.flows.problems import Severity
from spindle.settings.secrets import NAME

Types = frozenset[str]
"""Types of JSON; empty if nothing is known."""

_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Complaint:
    """A problem of a flow, without its place."""

    severity: Severity
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """The values that can be read at one place of a flow."""

    availability: Availability
    state: State
    inputs: Mapping[str, JsonObject]
    """The inputs of the flow, and of the flows that contain it."""
    at: str
    """The place, as messages call it: `node 'send'`, `the end of the flow`."""
    item: Mapping[str, JsonObject]
    """The item of a batch, by its name."""
    params: frozenset[str] = frozenset()
    """Names that look as if they could be read here, but cannot."""

    def knows(self, name: str) -> bool:
        """True if a key of this name may exist here."""
        return name in self.item or name in self.inputs or self._is_written(name)

    def is_certain(self, name: str) -> bool:
        if name in self.item or self.availability.is_certain(name, self.state):
            return True
        return name in self.inputs and (is_required(self.inputs[name]) or "default" in self.inputs[name])

    def has_strangers(self) -> bool:
        """True if a node came before whose outputs are unknown."""
        return bool(self.state.may & self.availability.open_writers)

    def _is_written(self, key: str) -> bool:
        return any(bits & self.state.may for _, bits in self.availability.kinds.get(key, ()))

    def _present(self, key: str) -> list[Writer]:
        return [writer for writer in self.availability.writers.get(key, ()) if writer.bit & self.state.may]

    # --- a reference

    def look(self, read: Read, shown: str | None = None) -> list[Complaint]:
        """Returns the complaints about a place that an expression reads; `shown` is what they call it."""
        shown = shown or f"${{{written_path(read.path)}}}"
        complaints = self.look_at(read.path, shown, read.has_default)[0]
        if read.is_default and len(read.path) == 1 and not self.knows(str(read.path[0])):
            hint = f"text stands in quotes: '{read.path[0]}'"
            return [Complaint(complaint.severity, complaint.message, hint) for complaint in complaints]
        return complaints

    def look_at(self, path: Path, shown: str, has_default: bool = False) -> tuple[list[Complaint], Types]:
        if path[0] == SECRETS:
            return secret_complaints(path, shown), frozenset({"string"})
        key, length = self._key(path)
        if key is None:
            return [self._unknown(path, shown, has_default)], frozenset()
        if key in self.item:
            complaints, types = self._inside([self.item[key]], path, length, shown)
            is_null = MAY_HAVE_FAILED in self.item[key] and len(path) > length and not has_default
            return complaints or ([null_if_failed(f"{shown}: {key}")] if is_null else []), types
        schemas = [kind for kind, bits in self.availability.kinds.get(key, ()) if bits & self.state.may]
        if not schemas and key not in self.inputs:
            return [self._not_yet(key, shown, has_default)], frozenset()
        if key in self.inputs and not self.availability.is_certain(key, self.state):
            schemas.append(self.inputs[key])
        complaints, types = self._inside(schemas, path, length, shown)
        if not complaints and not has_default and not self.is_certain(key):
            complaints = [self._not_always(key, shown, path)]
        if not complaints and not has_default:
            complaints = self._of_failed(path, shown)
        return complaints, types

    def _of_failed(self, path: Path, shown: str) -> list[Complaint]:
        """Returns the complaint about a part of a result that is null where its item failed."""
        for length in range(2, len(path)):
            if any(MAY_HAVE_FAILED in part for part in self.parts(path[:length])):
                return [null_if_failed(f"{shown}: {written_path(path[:length])}")]
        return []

    def _key(self, path: Path) -> tuple[str | None, int]:
        """Returns the longest key that matches the beginning of the path, preferably one that exists here."""
        candidates = [(".".join(map(str, path[:length])), length) for length in range(len(path), 0, -1)]
        for key, length in candidates:
            if self.knows(key):
                return key, length
        for key, length in candidates:
            if key in self.availability.writers:
                return key, length
        return None, 0

    def _unknown(self, path: Path, shown: str, has_default: bool) -> Complaint:
        name = str(path[0])
        written = (key for key in self.availability.writers if not key.endswith(f".{CONTENT}"))
        known = [*self.item, *self.inputs, *written]
        meant = suggest(name, known)
        hint = f"did you mean ${{{meant}}}?" if meant else None
        if name in self.params:
            hint = "params are given to tools, and templates do not see them: declare it in `inputs`"
        elif not meant and _ENVIRONMENT.fullmatch(name):
            hint = "a flow does not read the environment: declare it in `inputs`"
        if self.has_strangers():
            message = f"{shown}: nothing before {self.at} is known to write {name!r}"
            return Complaint("warning", message, hint or "`${node.key}` says whose output is meant")
        return Complaint(
            "warning" if has_default else "error",
            f"{shown}: there is no node, input or key {name!r}",
            hint or (f"there are {', '.join(known[:8])}" if known else None),
        )

    def _not_yet(self, key: str, shown: str, has_default: bool) -> Complaint:
        writers = self.availability.writers[key]
        ids = _listed(dict.fromkeys(writer.id for writer in writers))
        if all(writer.has_failed for writer in writers):
            message = f"{shown}: {ids} cannot have failed before {self.at}"
            return Complaint(
                "warning" if has_default else "error",
                message,
                "it is written only where an error edge was taken",
            )
        done = {writer.id: writer for writer in writers if not writer.has_failed}
        after_failure = [id for id in done if self._is_written(f"{id}.error")]
        if after_failure:
            message = (
                f"{shown}: on the way to {self.at}, {after_failure[0]} has failed and left only an error"
            )
            return Complaint("error", message, f"${{{after_failure[0]}.error.message}} says what went wrong")
        return Complaint(
            "warning" if has_default else "error",
            f"{shown}: {ids} cannot have run before {self.at}",
            f"add edges that lead from {next(iter(done))} to it",
        )

    def _not_always(self, key: str, shown: str, path: Path) -> Complaint:
        writers = self._present(key)
        hint = f"give it a default: ${{{written_path(path)} ?? …}}"
        if not writers:
            return Complaint("warning", f"{shown}: the input {key!r} is optional", hint)
        ids = _listed(dict.fromkeys(writer.id for writer in writers))
        return Complaint("warning", f"{shown}: {ids} may not have run before {self.at}", hint)

    # --- below a key

    def parts(self, path: Path) -> list[JsonObject]:
        """Returns the schemas that the value at a path may have; none if there is nothing to know."""
        key, length = self._key(path)
        if key is None or path[0] == SECRETS:
            return []
        if key in self.item:
            schemas = [self.item[key]]
        else:
            schemas = [kind for kind, bits in self.availability.kinds.get(key, ()) if bits & self.state.may]
            if key in self.inputs and not self.availability.is_certain(key, self.state):
                schemas.append(self.inputs[key])
        found = [_part(schema, path, length, "") for schema in schemas]
        return [part for part in found if not isinstance(part, Complaint)]

    def part(
        self, schema: JsonObject, path: Path, length: int, shown: str
    ) -> tuple[JsonObject | None, Complaint | None]:
        """Returns the schema of a part of a value, or what is wrong with the path to it."""
        found = _part(schema, path, length, shown)
        return (None, found) if isinstance(found, Complaint) else (found, None)

    def _inside(
        self, schemas: list[JsonObject], path: Path, length: int, shown: str
    ) -> tuple[list[Complaint], Types]:
        found: set[str] = set()
        complaints: list[Complaint] = []
        for schema in schemas:
            part = _part(schema, path, length, shown)
            if isinstance(part, Complaint):
                complaints.append(part)
                continue
            types = types_of(part, part)
            if not types:
                return complaints if len(complaints) == len(schemas) else [], frozenset()
            found |= types
        # Where one writer has it and another has not, the ways differ, which may be meant.
        return (complaints[:1] if len(complaints) == len(schemas) else []), frozenset(found)


def null_if_failed(what: str) -> Complaint:
    """Returns the complaint about a result of a batch with `keep_errors` that is read as if it were there."""
    hint = "filter(…, item) leaves them out, and ?? gives a default"
    return Complaint("warning", f"{what} is null if its item failed, as `keep_errors` says", hint)


def misfits(path: Path, schema: JsonObject, sight: Sight) -> Iterator[Complaint]:
    """Yields what is wrong inside a list or an object, where every writer of it has the same fault; and the
    complaint about one that is null if an item failed."""
    parts, shown = sight.parts(path), f"${{{written_path(path)}}}"
    found = [misfit(part, schema) for part in parts]
    wanted = types_of(schema, schema)
    if found and None not in found:
        yield Complaint("error", f"in {shown}, {found[0]}")
    elif wanted and "null" not in wanted and any(MAY_HAVE_FAILED in part for part in parts):
        yield null_if_failed(shown)


def secret_complaints(path: Path, shown: str) -> list[Complaint]:
    """Returns what is wrong with a template for a secret of the workspace. Whether there is one of that name
    is seen when the flow begins."""
    if len(path) == 2 and NAME.fullmatch(str(path[1])):
        return []
    hint = "`secrets` are those of the workspace; ${NODE.secrets} is a key of a node's output"
    return [Complaint("error", f"{shown}: a secret is read by its name, as ${{secrets.NAME}}", hint)]


def _part(schema: JsonObject, path: Path, length: int, shown: str) -> JsonObject | Complaint:
    part: JsonObject | Complaint = schema
    for index in range(length, len(path)):
        part = _step(part, path, index, shown)
        if isinstance(part, Complaint) or not part:
            break
    return part


def _step(schema: JsonObject, path: Path, index: int, shown: str) -> JsonObject | Complaint:
    step, whole = path[index], written_path(path[:index])
    types = types_of(schema, schema)
    if isinstance(step, int) or (step.isdecimal() and "array" in types):
        if types and "array" not in types:
            return Complaint("error", f"{shown}: {whole} is {article(types)}, which has no items")
        items = schema.get("items")
        return within(schema, items) if is_object(items) else {}
    if types and "object" not in types:
        hint = f"${{{whole}[0].{step}}} is of the first item" if "array" in types else None
        if tuple(types) == ("string",) and index == 1:
            hint = "if the text is JSON, `parse: json` of the node has it read"
        return Complaint("error", f"{shown}: {whole} is {article(types)}, which has no keys", hint)
    known = {item.name: item for item in parameters(schema)}
    if step in known:
        return within(schema, known[step].schema)
    rest = schema.get("additionalProperties")
    if not known or (rest is not False and rest is not None):
        return within(schema, rest) if is_object(rest) else {}
    return Complaint(
        "error" if rest is False else "warning",
        f"{shown}: {whole} has no key {step!r}" + ("" if rest is False else " that its schema names"),
        did_you_mean(step, known, f"there are {', '.join(known)}"),
    )


def fits(given: Types, wanted: Types) -> bool:
    """True if a value of one of the given types can be one of the wanted types, as far as is known."""
    if not given or not wanted or given & wanted:
        return True
    return bool({"integer", "number"} & given and {"integer", "number"} & wanted)


MAX_COMPARED = 8
"""Levels of two schemas that are compared."""


def misfit(given: JsonObject, wanted: JsonObject, place: str = "", depth: int = 0) -> str | None:
    """Returns what is certainly wrong inside a value that has one schema where another is wanted: its items
    and its keys. None if nothing is known to be wrong."""
    given, wanted = resolve(given, given), resolve(wanted, wanted)
    has, wants = types_of(given, given), types_of(wanted, wanted)
    if not fits(has, wants):
        return f"{place} is {article(has)}, but should be {article(wants)}" if place else None
    if depth == MAX_COMPARED:
        return None
    if tuple(has) == tuple(wants) == ("array",):
        items = (given.get("items"), wanted.get("items"))
        if is_object(items[0]) and is_object(items[1]):
            inner = within(given, items[0]), within(wanted, items[1])
            return misfit(*inner, f"{place}[]" if place else "an item", depth + 1)
    if tuple(has) == tuple(wants) == ("object",):
        known = {item.name: item for item in parameters(given)}
        for item in parameters(wanted):
            if item.name not in known:
                continue
            inner = within(given, known[item.name].schema), within(wanted, item.schema)
            name = f"{place}.{item.name}" if place else f"`{item.name}`"
            if (wrong := misfit(*inner, name, depth + 1)) is not None:
                return wrong
    return None


def article(types: Iterable[str]) -> str:
    """Returns types in words: "a string or an integer"."""
    words = {"integer": "an integer", "object": "an object", "array": "a list", "null": "null"}
    return " or ".join(words.get(name, f"a {name}") for name in sorted(types))


def holds_template(value: Any) -> bool:
    """True if the value contains a template, at any depth."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            if "${" in node:
                return True
        elif is_object(node):
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return False


def _listed(names: Iterable[str]) -> str:
    return " and ".join(repr(name) for name in names)
