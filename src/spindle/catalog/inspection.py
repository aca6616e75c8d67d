"""Looks through the texts of a source's tools for what a description has no need of: orders to a model, text
that is not shown, names that look like those of others.

Every text that a model or a person is shown counts: of schemas too, and of definitions that tools share.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spindle.catalog.text_rules import HIDES, RULES, folded, hidden_in, is_mixed, may_hold, shape
from spindle.domain.definitions import references_in
from spindle.domain.finding import ToolFinding
from spindle.domain.json_schema import canonical, is_array, is_object
from spindle.giving_way import give_way

if TYPE_CHECKING:
    from spindle.domain.definitions import Definitions
    from spindle.domain.finding import Gravity
    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import Tool
    from spindle.ports.tool_checker import ToolChecker

MAX_OF_ONE: Final = 10
"""Findings that are kept of one tool."""
_BETWEEN: Final = " | "
_WORD: Final = re.compile(r"(?<![A-Za-z0-9_.-])[A-Za-z][A-Za-z0-9]*+(?:[_.-][A-Za-z0-9]++)++")
_LONGEST_NAME: Final = 128

Found = tuple[str, str, "Gravity"]
"""The rule, the reason and how grave it is."""


def inspect(
    config: SourceConfig,
    tools: Sequence[Tool],
    others: Collection[str],
    checkers: Mapping[str, ToolChecker],
) -> list[ToolFinding]:
    """Returns what is found in the texts of these tools. `others` are the names of tools of other sources."""
    if config.screen == "off" or _is_own(config):
        return []
    names = _Names(tools, others)
    shared: dict[int, dict[str, list[Found]]] = {}
    findings: list[ToolFinding] = []
    for tool in tools:
        give_way()
        found = [*_in_definition(tool), *names.of(tool)]
        if (definitions := tool.spec.definitions) is not None:
            if id(definitions) not in shared:
                shared[id(definitions)] = _in_shared(definitions)
            found += _reached(tool, definitions, shared[id(definitions)])
        kept = [ToolFinding(tool.name, *item) for item in dict.fromkeys(found)]
        kept += _by_others(tool, checkers)
        findings += [item.bounded() for item in kept[:MAX_OF_ONE]]
    if config.screen == "note":
        return [replace(item, gravity="note") for item in findings]
    return findings


def instructions_name(source: str) -> str:
    """Returns the name under which findings in the instructions of a source are kept."""
    return f"{source} (instructions)"


def inspect_instructions(source: str, config: SourceConfig, said: str | None) -> list[ToolFinding]:
    """Returns what is found in the words of a source on how its tools are meant to be used."""
    if not said or config.screen == "off" or _is_own(config):
        return []
    gravity = {"gravity": "note"} if config.screen == "note" else {}
    found = [ToolFinding(instructions_name(source), *item).bounded() for item in _in_texts([said])]
    return [replace(item, **gravity) for item in found]


def _in_definition(tool: Tool) -> Iterator[Found]:
    spec = tool.spec
    definition = spec.definition()
    if not may_hold(canonical(definition)):
        return
    parts = {
        "": [spec.remote_name, spec.description, spec.title or ""],
        " in its input schema": _texts(spec.input_schema),
        " in its output schema": _texts(spec.output_schema),
        " in what it says besides": [*spec.tags, *_texts(spec.metadata)],
    }
    for where, texts in parts.items():
        for rule, reason, gravity in _in_texts(texts):
            yield rule, f"{reason}{where}", gravity


def _in_shared(definitions: Definitions) -> dict[str, list[Found]]:
    """Returns what is found in definitions that tools share, by their names."""
    found: dict[str, list[Found]] = {}
    for name, schema in definitions.schemas.items():
        give_way()
        if may_hold(canonical(schema)) and (here := list(_in_texts(_texts(schema)))):
            found[name] = [(rule, f"{reason} in #/$defs/{name}", gravity) for rule, reason, gravity in here]
    return found


def _reached(tool: Tool, definitions: Definitions, found: Mapping[str, Sequence[Found]]) -> Iterator[Found]:
    if found:
        for name in definitions.reached_from(references_in(canonical(tool.spec.definition()))):
            yield from found.get(name, ())


def _in_texts(texts: Iterable[str]) -> Iterator[Found]:
    kept = [text for text in texts if text]
    together = _BETWEEN.join(kept)
    hidden = hidden_in(together)
    if hidden is not None:
        yield HIDES, *hidden
    whole = folded(together)
    for rule in RULES:
        words = rule.search(whole)
        if words is not None:
            yield rule.name, f"{rule.reason}: {words!r}", rule.gravity


def _texts(value: Any) -> Iterator[str]:
    """Yields all texts of a JSON value, names included, in their order."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif is_object(value):
            for key, item in reversed(value.items()):
                waiting += (item, key)
        elif is_array(value):
            waiting += reversed(value)


class _Names:
    """Compares the names of a source's tools with those of others."""

    def __init__(self, tools: Sequence[Tool], others: Collection[str]) -> None:
        self._own = {tool.local_name for tool in tools}
        self._others = {name.partition(".")[2] or name: name for name in others}
        self._full = frozenset(others)
        self._shapes = {shape(local): name for local, name in self._others.items()}

    def of(self, tool: Tool) -> Iterator[Found]:
        for text in (tool.spec.remote_name, tool.spec.title or ""):
            if is_mixed(text[:_LONGEST_NAME]):
                said = f"{text[:_LONGEST_NAME]!a} mixes letters of two scripts that look the same"
                yield "looks like another", said, "serious"
        local = tool.local_name
        other = self._shapes.get(shape(local))
        if other is not None and local not in self._others:
            yield "looks like another", f"its name looks like that of {other}", "serious"
        for word in _WORD.findall(tool.description):
            name = self._others.get(word) or (word if word in self._full else None)
            if name is not None and word not in self._own:
                yield (
                    "speaks of another",
                    f"its description speaks of {name}, a tool of another source",
                    "note",
                )
                return


def _by_others(tool: Tool, checkers: Mapping[str, ToolChecker]) -> list[ToolFinding]:
    found: list[ToolFinding] = []
    for name, check in checkers.items():
        try:
            found += [replace(item, name=tool.name) for item in check(tool)]
        except Exception as error:  # noqa: BLE001 - somebody else's code: its mistake must not let a tool pass
            found.append(ToolFinding(tool.name, name, f"the checker {name!r} failed: {error!r}"))
    return found


def _is_own(config: SourceConfig) -> bool:
    """True for tools that are the workspace's own code."""
    from spindle.domain.source import OWN_CODE  # where settings are typed, which takes long to load

    return config.kind in OWN_CODE
