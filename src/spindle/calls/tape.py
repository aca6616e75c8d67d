"""A tape: a file of calls with what came of them, of whatever kind their sources are.

A recorded tape answers the same calls later, without any server: a call is found by its tool and arguments,
and where the same one was made several times, by how many of them came before. So calls that run side by
side may come in another order.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from spindle.calls.record import MASK
from spindle.domain.call import Result
from spindle.domain.json_schema import JsonObject, canonical, from_json, is_array, is_object
from spindle.domain.tool import ToolSpec
from spindle.errors import ConfigurationError, NotFoundError, from_description

FORMAT = 1
MAX_SIZE = 256 * 1024 * 1024
"""Bytes of a tape."""
MAX_SHOWN = 200
"""Characters of a value in a message."""
MAX_DIFFERENCES = 4
MAX_MISSED = 1000
"""Calls that are told of at the end, where they are not on a tape."""


@dataclass(frozen=True, slots=True)
class Take:
    """One call on a tape, or one request to a model or for a resource or prompt, with its outcome: one of
    `result` and `error`."""

    number: int
    tool: str
    arguments: JsonObject
    milliseconds: float
    result: JsonObject | None = None
    error: JsonObject | None = None
    is_model: bool = False
    source: tuple[str, str] | None = None
    """Of a request to a source that is no call of a tool: its name and kind."""

    @property
    def what(self) -> str:
        """The tool or the model, in words."""
        return f"the model {self.tool!r}" if self.is_model else self.tool


@dataclass(frozen=True, slots=True)
class TapedTool:
    """A tool as it was when calls were recorded."""

    name: str
    source: str
    kind: str
    definition: JsonObject
    fingerprint: str


class OpenTape(Protocol):
    """A tape that an open workspace records on or plays."""

    @property
    def missed(self) -> list[str]:
        """Says in words which calls were asked for in vain."""
        ...

    async def close(self) -> None:
        """Ends its use, before the workspace is closed."""
        ...


def mark_of(tool: str, arguments: JsonObject) -> str:
    """Returns a mark that the same call of the same tool has."""
    return hashlib.sha256(canonical([tool, arguments])).hexdigest()[:16]


class Tape:
    """A recorded tape, and how much of it was used."""

    def __init__(self, path: Path, tools: Iterable[TapedTool], takes: Iterable[Take]) -> None:
        self.path = path
        self.tools = {tool.name: tool for tool in tools}
        self.takes = list(takes)
        self._by_mark: defaultdict[str, list[Take]] = defaultdict(list)
        self._by_tool: defaultdict[str, list[Take]] = defaultdict(list)
        for take in self.takes:
            self._by_mark[mark_of(take.tool, take.arguments)].append(take)
            self._by_tool[take.tool].append(take)
        self._used: Counter[str] = Counter()
        self.missed: list[str] = []
        """Says in words which calls were asked for in vain."""
        self._changed: dict[str, str] = {}

    def compare(self, name: str, fingerprint: str, definition: JsonObject) -> str | None:
        """Takes note of a tool as it is now. Returns in words how it has changed since its calls were
        recorded, with the first of these; None if it has not, or none was."""
        then, takes = self.tools.get(name), self._by_tool.get(name)
        if then is None or not takes or then.fingerprint == fingerprint:
            return None
        changed = differences(then.definition, definition) or "its definition differs"
        self._changed[name] = f"{name} has changed since {self.path.name} was recorded: {changed}"
        return f"{self._changed[name]}; it answers as it was then, from call {takes[0].number} on"

    @property
    def sources(self) -> dict[str, str]:
        """The kinds of the sources whose tools it has, by name."""
        asked = dict(take.source for take in self.takes if take.source is not None)
        return asked | {tool.source: tool.kind for tool in self.tools.values()}

    @property
    def unused(self) -> list[Take]:
        """Those that nobody has asked for."""
        return [
            take
            for mark, takes in self._by_mark.items()
            for take in takes[self._used[mark] :]
        ]  # fmt: skip

    def answer(self, tool: str, arguments: JsonObject, *, is_model: bool = False) -> Take:
        """Returns the outcome of this call, the next one where it was made several times. Raises
        NotFoundError, which tells of the nearest one, for a call that is not on the tape."""
        mark = mark_of(tool, arguments)
        if mark not in self._by_mark:
            # What was secret is not on the tape, and stands for any text.
            same = (take for take in self._by_tool[tool] if _fits(take.arguments, arguments))
            first = next(same, None)
            mark = mark_of(tool, first.arguments) if first is not None else mark
        takes, used = self._by_mark.get(mark, []), self._used[mark]
        if used < len(takes):
            self._used[mark] += 1
            return takes[used]
        error = self._missing(tool, arguments, takes, is_model=is_model)
        if len(self.missed) < MAX_MISSED:
            self.missed.append(error.message)
        raise error

    def _missing(
        self, tool: str, arguments: JsonObject, same: list[Take], *, is_model: bool
    ) -> NotFoundError:
        what, file = (f"the model {tool!r}" if is_model else tool), self.path.name
        again = "record it again"
        if same:
            times = "once" if len(same) == 1 else f"{len(same)} times"
            return NotFoundError(
                f"{what} was called like this {times} when {file} was recorded, and now once more",
                hint=again, tool=tool,
            )  # fmt: skip
        known = [take for take in self._by_tool[tool] if take.is_model == is_model]
        if not known:
            others = sorted({take.tool for take in self.takes if take.is_model == is_model})
            near = _nearest_name(tool, others)
            told = f"; the nearest call is one of {near}" if near else ""
            return NotFoundError(f"no call of {what} is in {file}{told}", hint=again, tool=tool)
        nearest = min(known, key=lambda take: sum(1 for _ in _differences(take.arguments, arguments)))
        return NotFoundError(
            f"{what} was not called with these arguments when {file} was recorded. The nearest is call"
            f" {nearest.number}, where {differences(nearest.arguments, arguments)}",
            hint=self._changed.get(tool) or again, tool=tool,
        )  # fmt: skip

    @classmethod
    def read(cls, path: Path) -> Tape:
        """Reads a tape. Raises ConfigurationError, with the line, for a file that is none."""
        try:
            if path.exists() and not path.is_file():  # such as a pipe, which has no end
                raise ConfigurationError(f"the tape {path} is no file", hint="record one first")
            if path.stat().st_size > MAX_SIZE:
                raise ConfigurationError(f"{path} is too large for a tape: over {MAX_SIZE:,} bytes")
            lines = path.read_bytes().splitlines(keepends=True)
        except OSError as error:
            raise ConfigurationError(
                f"the tape {path} cannot be read: {error.strerror}", hint="record one first"
            ) from None
        if not lines:
            raise ConfigurationError(f"{path} is empty, and no tape", hint="record it again")
        tools: list[TapedTool] = []
        takes: list[Take] = []
        end: JsonObject | None = None
        for number, line in enumerate(lines, 1):
            try:
                end = _read_line(from_json(line), number, tools, takes)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
                if (
                    1 < number == len(lines)
                    and not line.endswith(b"\n")
                    and isinstance(error, json.JSONDecodeError)
                ):
                    raise _cut(path, f"in line {number}", takes) from None
                why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise ConfigurationError(f"{path}:{number}: this is no line of a tape: {why}") from None
        if end is None:
            raise _cut(path, f"after line {len(lines)}", takes)
        counted = {"calls": len(takes), "tools": len(tools)}
        if end != counted:
            raise ConfigurationError(
                f"{path} lacks lines: it was recorded with {_counts(end)}, and has {_counts(counted)}",
                hint="record it again; if they were taken out on purpose, correct its last line",
            )
        return cls(path, tools, takes)


def _cut(path: Path, where: str, takes: list[Take]) -> ConfigurationError:
    number = len(takes)
    whole = "none of its calls is" if not number else "1 call is" if number == 1 else f"{number} calls are"
    return ConfigurationError(
        f"the tape {path} is cut off {where}; {whole} whole before that",
        hint="get the whole file again, or record it again",
    )


def _counts(end: JsonObject) -> str:
    return " and ".join(f"{end.get(what)} {what}" for what in ("calls", "tools"))


def _read_line(line: Any, number: int, tools: list[TapedTool], takes: list[Take]) -> JsonObject | None:
    """Adds what a line holds. Returns what the last one says of all."""
    if not is_object(line):
        raise ValueError("it is no JSON object")
    if number == 1:
        if line.get("tape") != FORMAT:
            raise ValueError(f'the first line must be {{"tape":{FORMAT}}}')
    elif "end" in line:
        return _object(line, "end")
    elif "definition" in line:
        definition, kind = _object(line, "definition"), str(line["kind"])
        name, source = str(line["name"]), str(line["source"])
        ToolSpec.from_definition(definition)  # raises where it is none
        tools.append(TapedTool(name, source, kind, definition, str(line["fingerprint"])))
    else:
        is_model, is_request = "model" in line, "request" in line
        tool = str(line["model" if is_model else "request" if is_request else "tool"])
        arguments = _object(line, "arguments")
        source = (str(line["source"]), str(line["kind"])) if is_request else None
        result = _object(line, "result") if "result" in line else None
        error = _object(line, "error") if result is None else None
        if error is not None:
            from_description(error)
        elif result is not None and not is_model and not is_request:
            Result.from_dict(result)
        took = float(line.get("ms", 0))
        takes.append(Take(int(line["call"]), tool, arguments, took, result, error, is_model, source))
    return None


def _object(line: JsonObject, key: str) -> JsonObject:
    value = line[key]
    if not is_object(value):
        raise ValueError(f"{key!r} is no JSON object")
    return value


def _fits(taped: Any, given: Any) -> bool:
    """True if what is given may be what was recorded, whose secrets are masked."""
    if isinstance(taped, str):
        return taped == given or (MASK in taped)
    if is_object(taped) and is_object(given):
        return taped.keys() == given.keys() and all(_fits(taped[key], given[key]) for key in taped)
    if is_array(taped) and is_array(given):
        return len(taped) == len(given) and all(map(_fits, taped, given))
    return bool(taped == given)


def differences(taped: Any, given: Any) -> str:
    """Returns where a value differs from what is on a tape, in words; nothing where it does not."""
    found = list(_differences(taped, given))
    told = "; ".join(found[:MAX_DIFFERENCES])
    left = len(found) - MAX_DIFFERENCES
    return f"{told}; and {left} more" if left > 0 else told


def _differences(taped: Any, given: Any, path: str = "") -> Iterator[str]:
    """The places at which two values differ, in words."""
    if is_object(taped) and is_object(given):
        for key in [*taped, *(key for key in given if key not in taped)]:
            inner = f"{path}.{key}" if path else key
            if key not in given:
                yield f"{inner} was {_shown(taped[key])}, and is missing now"
            elif key not in taped:
                yield f"{inner} was missing, and is {_shown(given[key])} now"
            else:
                yield from _differences(taped[key], given[key], inner)
    elif is_array(taped) and is_array(given) and len(taped) == len(given):
        for index, (one, other) in enumerate(zip(taped, given, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif not _fits(taped, given):
        yield f"{path or 'the whole'} was {_shown(taped)}, and is {_shown(given)} now"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _nearest_name(tool: str, others: list[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(tool, others, 1, 0.0)), None)
