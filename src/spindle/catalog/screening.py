"""Takes of the tools of a source what can be used, each alone: one bad definition costs one tool, and a bad
schema only what is bad in it. The texts of all that is taken are looked through."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spindle.catalog.inspection import inspect, inspect_instructions
from spindle.catalog.naming import legal, name_tools
from spindle.domain.json_schema import EMPTY_OBJECT_SCHEMA, canonical
from spindle.domain.schema_cost import CIRCLE, SchemaCosts
from spindle.domain.tool import LeftOut, Loosened, Repaired
from spindle.domain.visible import visible
from spindle.giving_way import give_way
from spindle.ports.list_budget import ListBudget
from spindle.schemas.compiled import schema_problem
from spindle.schemas.repair import Repairs, Usable, usable_input

if TYPE_CHECKING:
    from spindle.domain.definitions import Definitions
    from spindle.domain.finding import ToolFinding
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import Tool, ToolSpec
    from spindle.ports.tool_checker import ToolChecker
    from spindle.schemas.addresses import Definition

MAX_NAME = 1024
MAX_SHOWN_NAME = 100
MAX_NAMED = 50
"""Tools that are left out or loosened by name. Of more, only their number is kept."""
MAX_FINDINGS = 200
"""Findings that are kept of a source."""
NO_CHECKERS: Mapping[str, ToolChecker] = {}
MAX_SAID = 3
"""Faults of one tool that are said in one sentence; `spindle show` has all."""


@dataclass(slots=True)
class Taken:
    """The tools of a source that can be used, and what of them is not as the source gave it."""

    tools: list[Tool]
    left_out: list[LeftOut]
    loosened: list[Loosened]
    findings: list[ToolFinding]
    """The texts that should not be believed."""


def take(
    source: str,
    config: SourceConfig,
    specs: Sequence[ToolSpec],
    instructions: str | None = None,
    others: Collection[str] = (),
    checkers: Mapping[str, ToolChecker] = NO_CHECKERS,
) -> Taken:
    """Returns the tools that can be used, under their names and with usable schemas, and the others with the
    reason. `others` are the names of tools of other sources. Raises ServerError where there are more than
    the source's settings allow."""
    screening = _Screening(source, config)
    tools = name_tools(source, config, screening.kept(specs))
    found = [Loosened(tool.name, _said(tool.faults)) for tool in tools if tool.faults]
    found += [Loosened(f"#/$defs/{name}", _said(faults)) for name, faults in screening.definitions.items()]
    if len(found) > MAX_NAMED:
        more = Loosened(f"{len(found) - MAX_NAMED:,} more", "for reasons like these")
        found = [*found[:MAX_NAMED], more]
    findings = inspect_instructions(source, config, instructions)
    findings += inspect(config, tools, others, checkers)
    return Taken(tools, screening.left_out, found, findings)


class _Screening:
    def __init__(self, source: str, config: SourceConfig) -> None:
        self._source = source
        self._config = config
        self._budget = ListBudget(source, config)
        self._repairs = Repairs()
        self._shared: dict[int, tuple[Definitions, Definitions, set[Definition]]] = {}
        """By definitions that tools share: these, as they can be used, and which of them are loosened."""
        self.definitions: dict[str, tuple[str, ...]] = {}
        """By the name of a definition that tools share, what was dropped of it."""
        self.left_out: list[LeftOut] = []

    def kept(self, specs: Sequence[ToolSpec]) -> list[ToolSpec]:
        """Returns the tools that can be used."""
        kept: list[ToolSpec] = []
        more = 0
        for spec in specs:
            give_way()
            size = self._size(spec)
            self._budget.take(1, size)
            taken = self._taken(spec, size)
            if not isinstance(taken, str):
                kept.append(taken)
            elif not self._config.admits(legal(spec.remote_name)):
                continue
            elif len(self.left_out) < MAX_NAMED:
                self.left_out.append(LeftOut(_shown(spec.remote_name), taken))
            else:
                more += 1
        if more:
            self.left_out.append(LeftOut(f"{more:,} more", "for reasons like these"))
        return kept

    def _size(self, spec: ToolSpec) -> int:
        """The bytes that a tool takes, 0 if it is not JSON. The definitions that it is the first to use are
        counted and repaired."""
        if spec.unusable is not None or not spec.remote_name or len(spec.remote_name) > MAX_NAME:
            return len(spec.remote_name)
        shared = spec.definitions
        if shared is not None and id(shared) not in self._shared:
            # Counted before anything looks at them.
            self._budget.take(0, sum(len(canonical(schema)) for schema in shared.schemas.values()))
            usable, faults, loose = self._repairs.definitions(shared)
            self._shared[id(shared)] = shared, usable, loose
            self.definitions |= faults
        try:
            return len(canonical(spec.definition()))
        except (RecursionError, TypeError, ValueError):
            return 0

    def _taken(self, spec: ToolSpec, size: int) -> ToolSpec | str:
        """The tool as it can be used, or why it cannot be."""
        name = spec.remote_name
        if spec.unusable is not None:
            return spec.unusable
        if not name or len(name) > MAX_NAME:
            return f"its name has {len(name):,} characters" if name else "it has no name"
        if visible(name) != name or "\n" in name or "\t" in name:
            return "its name holds characters that are not seen"
        if not size:
            return "its definition is nested too deeply, or is not JSON"
        if size > self._config.max_tool_size:
            hint = f"more than sources.{self._source}.max_tool_size allows"
            return f"its definition has {size:,} bytes, {hint}"
        return self._repaired(spec)

    def _repaired(self, spec: ToolSpec) -> ToolSpec | str:
        shared: Definitions | None = None
        loose: set[Definition] = set()
        if spec.definitions is not None:
            _, shared, loose = self._shared[id(spec.definitions)]
        costs = shared.costs if shared is not None else SchemaCosts()
        faults = list(spec.repaired.faults) if spec.repaired is not None else []

        def usable(side: str, given: JsonObject) -> JsonObject | str:
            """The schema, or why it cannot be used."""
            made = self._repairs.of(given, shared.schemas if shared is not None else (), loose)
            made = usable_input(made) if side == "input" else made
            problem = costs.of(made.schema).problem
            if problem == CIRCLE and shared is None:
                made = self._repairs.opened(made)
                problem = costs.of(made.schema).problem
            if problem is not None:
                return problem
            if made.schema is not given and shared is None and (problem := schema_problem(made.schema)):
                made = Usable({}, (*made.faults, f"nothing of it can be used: {problem}"))
            faults.extend(f"{side} schema: {fault}" for fault in made.faults)
            return made.schema

        taken = usable("input", spec.usable_input)
        if isinstance(taken, str):
            return f"the input schema of {spec.remote_name[:100]} cannot be used: {taken}"
        promised = usable("output", spec.usable_output) if spec.usable_output is not None else None
        if isinstance(promised, str):
            faults.append(f"output schema: it cannot be used, and results are not checked: {promised}")
            promised = None
        spec = spec if shared is spec.definitions else replace(spec, definitions=shared)
        if taken is spec.input_schema and promised is spec.output_schema and not faults:
            return spec
        return replace(spec, repaired=Repaired(taken or dict(EMPTY_OBJECT_SCHEMA), promised, tuple(faults)))


def _said(faults: Sequence[str]) -> str:
    more = f"; and {len(faults) - MAX_SAID} more" if len(faults) > MAX_SAID else ""
    return "; ".join(faults[:MAX_SAID]) + more


def _shown(name: str) -> str:
    cut = visible(name[:MAX_SHOWN_NAME]).replace("\n", r"\n").replace("\t", r"\t")
    return f"{cut}…" if len(name) > MAX_SHOWN_NAME else cut
