"""Checks the data that nodes get: missing inputs, wrong types, templates that find nothing, keys with two
writers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spindle.documents.places import DocumentPath
from spindle.domain.json_schema import JsonObject, type_of, types_of
from spindle.domain.tool import Tool
from spindle.flows import templates
from spindle.flows.check.availability import Availability, Level
from spindle.flows.check.conditions import condition_findings
from spindle.flows.check.lookups import Complaint, Sight, Types, article, fits, holds_template, misfits
from spindle.flows.check.parts import (
    Finding,
    InputSchemas,
    cache_findings,
    carried_schemas,
    input_findings,
    item_schema,
    loop_findings,
    name_of,
    no_input,
    other_templates,
    schema_wanted,
    types_wanted,
    unknown_output,
)
from spindle.flows.check.shapes import Shape
from spindle.flows.check.types import expression_types
from spindle.flows.definition import NodeDefinition
from spindle.flows.expressions.errors import ExpressionError
from spindle.flows.expressions.paths import descend, parse_path, written_path
from spindle.schemas.compiled import schema_problem


@dataclass(slots=True)
class DataCheck:
    """Checks the data of one flow and of the flows inside it. `tools` are by node, below the flows that
    contain it."""

    availability: Availability
    tools: Mapping[str, Tool]
    readers: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])
    """By shared key that is read by its name: who does, as the analysis and as messages call them."""
    _schemas: InputSchemas = field(default_factory=InputSchemas)

    _local: set[str] = field(default_factory=set[str])
    """The values that the loops around carry, which hide shared keys of their names."""

    def findings(self, level: Level, given: Collection[str]) -> Iterator[Finding]:
        yield from self._level(level, (), {name: {} for name in given}, {})
        yield from self._two_writers(level, ())

    def _level(
        self, level: Level, path: DocumentPath, inputs: Mapping[str, JsonObject], params: JsonObject
    ) -> Iterator[Finding]:
        definition = level.definition
        inputs, params = {**inputs, **definition.inputs}, {**params, **definition.params}
        for name, schema in definition.inputs.items():
            yield from input_findings(name, schema, (*path, "inputs", name))
            if name in level.graph.edges:
                message = f"the input {name!r} has the name of a node, whose output takes its place"
                yield (*path, "inputs", name), Complaint("error", message, "give one of them another name")
        hooks = {node.id: {"type": "string"} for node in definition.nodes if node.wait and node.wait.webhook}
        if hooks:
            inputs = {
                **inputs,
                "hooks": {"type": "object", "properties": hooks, "additionalProperties": False},
            }
        taken: set[str] = set()
        for index, node in enumerate(definition.nodes):
            if node.id not in level.graph.order:
                continue
            here: DocumentPath = (*path, "nodes", index)
            sight = self._sight(level, node, inputs, params)
            if node.flow is not None:
                yield from self._arguments(level, node, sight, here, {}, {})
                yield from other_templates(node, sight, here, level.shapes[node.id])
                own = {name: value for name, value in node.params.items() if name not in node.flow.inputs}
                carried = carried_schemas(node)
                seen = {**inputs, **sight.item, **{name: {} for name in node.inputs}, **carried}
                outside, self._local = self._local, self._local | set(carried)
                yield from self._level(level.inner[node.id], (*here, "flow"), seen, {**params, **own})
                self._local = outside
                yield from self._loop(level, node, sight, here, seen)
                yield from condition_findings(level, node.id, self._leaving(level, node, inputs), path)
                taken |= set(params)  # by one of its nodes, maybe
                continue
            yield from self._arguments(level, node, sight, here, params, definition.params)
            yield from other_templates(node, sight, here, level.shapes[node.id])
            for name, value in (node.transform or {}).items():
                place = (*here, "transform", name)
                yield from self._given(level.prefix + node.id, value, {}, sight, place, name_of(node, name))
            yield from condition_findings(level, node.id, self._leaving(level, node, inputs), path)
            yield from cache_findings(node, self.tools.get(level.prefix + node.id), here)
            taken |= set(level.shapes[node.id].takes)
            if level.shapes[node.id].takes_others:
                taken |= set(params)
        for name in definition.params:
            if name not in taken and not path:
                yield (*path, "params", name), Complaint("warning", f"no node takes the param {name!r}", None)
        yield from self._outputs(level, path, inputs, params)

    def _sight(
        self, level: Level, node: NodeDefinition, inputs: Mapping[str, JsonObject], params: JsonObject
    ) -> Sight:
        state = self.availability.states[level.prefix + node.id]
        plain = Sight(self.availability, state, inputs, f"node {node.id!r}", {}, frozenset(params))
        if node.batch is None:
            return plain
        item = {node.batch.item: item_schema(node.batch.over, plain)}
        return Sight(self.availability, state, inputs, plain.at, item, plain.params)

    def _leaving(
        self, level: Level, node: NodeDefinition, inputs: Mapping[str, JsonObject]
    ) -> Callable[[bool], Sight]:
        """Returns what the conditions of the node's edges see."""

        def sight(has_failed: bool) -> Sight:
            state = self.availability.leaving(level.prefix + node.id, has_failed=has_failed)
            return Sight(self.availability, state, inputs, f"the edges of {node.id!r}", {}, frozenset())

        return sight

    def _loop(
        self,
        level: Level,
        node: NodeDefinition,
        sight: Sight,
        here: DocumentPath,
        inputs: Mapping[str, JsonObject],
    ) -> Iterator[Finding]:
        """Checks the values that a loop carries, and its condition."""
        if node.loop is None or node.flow is None:
            return
        for name, value in node.loop.carry.items():
            place = (*here, "loop", "carry", name)
            yield from self._given(level.prefix + node.id, value, {}, sight, place, name_of(node, name))
        end = self.availability.ends[f"{level.prefix}{node.id}/"]
        outputs = {name: output.schema for name, output in (node.flow.outputs or {}).items()}
        after = Sight(self.availability, end, inputs, f"the end of a round of {node.id!r}", outputs)
        yield from loop_findings(node, after, here)

    # --- arguments

    def _arguments(
        self,
        level: Level,
        node: NodeDefinition,
        sight: Sight,
        here: DocumentPath,
        params: JsonObject,
        of_flow: JsonObject,
    ) -> Iterator[Finding]:
        shape, reader = level.shapes[node.id], level.prefix + node.id
        for name, value in node.params.items():
            place = (*here, "params", name)
            if name not in shape.takes and not shape.takes_others:
                yield place, no_input(node, name, shape)
            yield from self._given(
                reader, value, schema_wanted(shape, name), sight, place, name_of(node, name)
            )
        yield from self._literals(reader, node, here, node.params)
        shared = {
            name: value for name, value in params.items() if name in shape.takes and name not in node.params
        }
        base = here[:-2]
        for name, value in shared.items():
            place = (*base, "params", name) if name in of_flow else here
            yield from self._given(
                reader, value, schema_wanted(shape, name), sight, place, name_of(node, name)
            )
        for place, complaint in self._literals(reader, node, here, shared):
            yield ((*base, *place[len(here) :]) if len(place) > len(here) else here), complaint
        for name, source in node.inputs.items():
            place = (*base, "mappings", node.id, "inputs", name)
            if name not in shape.takes and not shape.takes_others:
                yield place, no_input(node, name, shape)
            yield from self._mapped(reader, node, name, source, shape, sight, place)
        for name in node.outputs:
            place = (*base, "mappings", node.id, "outputs", name)
            yield from unknown_output(node, name, shape, place)
        given = {*node.params, *shared, *node.inputs}
        for name, key in shape.takes.items():
            if name not in given:
                yield from self._by_name(
                    reader, node, name, key.required, types_wanted(shape, name), sight, here
                )

    def _given(
        self, reader: str, value: Any, schema: JsonObject, sight: Sight, place: DocumentPath, called: str
    ) -> Iterator[Finding]:
        """Checks a value that contains templates against what is wanted in its place."""
        if not holds_template(value):
            return
        wanted = types_of(schema, schema)
        try:
            found = list(templates.expressions(value))
            parts = templates.parse(value) if isinstance(value, str) else ()
        except ExpressionError as error:
            yield place, Complaint("error", f"{called}: {error}", error.hint)
            return
        types: Types = frozenset()
        for reference in found:
            for read in reference.expression.reads:
                self._reads(reader, sight.at, str(read.path[0]))
            complaints, types = expression_types(reference.expression, sight)
            for complaint in complaints:
                yield place, Complaint(complaint.severity, f"{called}: {complaint.message}", complaint.hint)
        if len(parts) == 1 and isinstance(parts[0], templates.Reference):
            if not fits(types, wanted):
                message = (
                    f"{called}: ${{{parts[0].text}}} is {article(types)}, but should be {article(wanted)}"
                )
                yield place, Complaint("error", message)
            elif parts[0].path is not None:
                for complaint in misfits(parts[0].path, schema, sight):
                    yield place, replace(complaint, message=f"{called}: {complaint.message}")
        elif any(isinstance(part, templates.Reference) for part in parts) and not fits(
            frozenset({"string"}), wanted
        ):
            message = f"{called}: {value!r} is text, but should be {article(wanted)}"
            yield place, Complaint("error", message, "a template that is the whole value keeps its type")

    def _literals(
        self, reader: str, node: NodeDefinition, here: DocumentPath, given: JsonObject
    ) -> Iterator[Finding]:
        """Checks values without templates against the tool's own schema."""
        tool = self.tools.get(reader)
        if tool is None or not given:
            return
        for steps, message in self._schemas.errors(tool, given):
            value: Any = descend(given, tuple(steps))
            if not holds_template(value):
                called = name_of(node, written_path(tuple(steps)))
                yield (*here, "params", *steps), Complaint("error", f"{called}: {message}")

    def _mapped(
        self,
        reader: str,
        node: NodeDefinition,
        name: str,
        source: str,
        shape: Shape,
        sight: Sight,
        place: DocumentPath,
    ) -> Iterator[Finding]:
        called = name_of(node, name)
        try:
            steps = parse_path(source)
        except ExpressionError as error:
            hint = "a mapping names a place without ${…}" if "${" in source else None
            yield place, Complaint("error", f"{called}: {error}", hint)
            return
        self._reads(reader, sight.at, str(steps[0]))
        complaints, types = sight.look_at(steps, source)
        for complaint in complaints:
            hint = None if complaint.hint and "default" in complaint.hint else complaint.hint
            yield place, Complaint(complaint.severity, f"{called}: {complaint.message}", hint)
        wanted = types_wanted(shape, name)
        if not fits(types, wanted):
            yield (
                place,
                Complaint(
                    "error", f"{called}: {source} is {article(types)}, but should be {article(wanted)}"
                ),
            )

    def _by_name(
        self,
        reader: str,
        node: NodeDefinition,
        name: str,
        is_needed: bool,
        wanted: Types,
        sight: Sight,
        here: DocumentPath,
    ) -> Iterator[Finding]:
        """Checks an input that nothing sets: it is the shared key of its name, if there is one."""
        called = name_of(node, name)
        if not sight.knows(name):
            if is_needed:
                yield here, self._missing(name, called, sight)
            return
        self._reads(reader, sight.at, name)
        types = sight.look_at((name,), name)[1]
        if not fits(types, wanted):
            message = (
                f"{called} is read from the shared key of that name: it is {article(types)}, "
                f"but should be {article(wanted)}"
            )
            severity = "error" if sight.is_certain(name) else "warning"
            yield here, Complaint(severity, message, f"set {name!r} in the node's params, or map it")
        elif is_needed and not sight.is_certain(name):
            writers = [
                writer.id
                for writer in self.availability.writers.get(name, ())
                if writer.bit & sight.state.may
            ]
            who = f"{writers[0]!r}, which writes it, may not have run" if writers else "the input is optional"
            yield (
                here,
                Complaint("warning", f"{called} may be missing: {who}", f"set {name!r} in the node's params"),
            )

    def _missing(self, name: str, called: str, sight: Sight) -> Complaint:
        hint = f"set {name!r} in the node's params, map it, or give the flow an input {name!r}"
        if sight.has_strangers():
            return Complaint("warning", f"{called} is needed, and nothing before is known to write it", hint)
        later = self.availability.writers.get(name)
        if later:
            return Complaint(
                "error",
                f"{called} is missing: {later[0].id!r}, which writes it, cannot have run before",
                hint,
            )
        return Complaint("error", f"{called} is missing: nothing provides it", hint)

    def _reads(self, reader: str, at: str, key: str) -> None:
        if key not in self._local:
            self.readers.setdefault(key, []).append((reader, at))

    # --- what a flow gives back

    def _outputs(
        self, level: Level, path: DocumentPath, inputs: Mapping[str, JsonObject], params: JsonObject
    ) -> Iterator[Finding]:
        state = self.availability.ends[level.prefix]
        sight = Sight(self.availability, state, inputs, "the end of the flow", {}, frozenset(params))
        for name, output in (level.definition.outputs or {}).items():
            place = (*path, "outputs", name)
            called = f"the output {name!r}"
            problem = schema_problem(output.schema) if output.schema else None
            if problem is not None:
                yield place, Complaint("error", f"{called}: its schema is not valid: {problem}")
                continue
            wanted = types_of(output.schema, output.schema)
            for found, complaint in self._given("", output.value, output.schema, sight, place, called):
                # One that may be left out is left out where a node has not run.
                if output.required or complaint.severity == "error":
                    yield found, complaint
            if not holds_template(output.value) and not fits(frozenset({type_of(output.value)}), wanted):
                message = f"{called} is {article([type_of(output.value)])}, but should be {article(wanted)}"
                yield place, Complaint("error", message)

    # --- two writers

    def _two_writers(self, level: Level, path: DocumentPath) -> Iterator[Finding]:
        places = dict(_places(level, path))
        for key, writers in self.availability.writers.items():
            if len(writers) < 2 or "." in key:
                continue
            own = {writer.node: writer for writer in writers if not writer.has_failed and writer.id != key}
            if len(own) < 2:
                continue
            readers = self.readers.get(key, [])
            updating = {reader for reader, _ in readers}
            mask = 0
            for writer in own.values():
                mask |= writer.bit
            for node, writer in own.items():
                state = self.availability.states.get(node)
                others = state.may & mask & ~writer.bit if state is not None else 0
                if not others or node in updating:
                    continue
                first = next(other for other in own.values() if other.bit & others)
                found = self._overwrites(key, first.id, writer.id, first.bit | writer.bit, readers)
                # A tool used twice gives its plain output twice under its name: that harms only who reads it.
                if found.severity == "error" or writer.is_declared:
                    yield places[node], found
                break

    def _overwrites(
        self, key: str, first: str, second: str, both: int, readers: list[tuple[str, str]]
    ) -> Complaint:
        message = f"{key!r} is written by {first!r} and again by {second!r}"
        hint = f"${{{first}.{key}}} and ${{{second}.{key}}} say which is meant; `mappings` can rename one"
        for reader, at in readers:
            state = self.availability.states.get(reader) or self.availability.ends[""]
            if state.may & both == both:
                return Complaint("error", f"{message}, and {at} reads it by that name", hint)
        return Complaint("warning", f"{message}, so that only the second is found under that name", hint)


def _places(level: Level, path: DocumentPath) -> Iterator[tuple[str, DocumentPath]]:
    for index, node in enumerate(level.definition.nodes):
        here = (*path, "nodes", index)
        yield level.prefix + node.id, here
        if node.id in level.inner:
            yield from _places(level.inner[node.id], (*here, "flow"))
