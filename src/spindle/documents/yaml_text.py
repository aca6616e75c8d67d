"""YAML as far as it says what JSON can say: `on`, `yes` and dates are text, and so is every name.

Anchors, aliases and `<<` work; what they unfold to is counted. A value is built from the parser's events in a
loop: PyYAML's own composer calls itself for every level, and some thousand brackets end the whole process.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final, cast

from spindle.documents.bounds import Bounds
from spindle.documents.places import (
    DocumentPath,
    LargeTextError,
    NotInFormatError,
    TextError,
    TextMark,
)
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.giving_way import give_way

TAG: Final = "tag:yaml.org,2002:"
MERGE: Final = "<<"
WORDS: Final[dict[str, bool | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
INT = r"[-+]?(?:0|[1-9][0-9]*)"
FLOAT = r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_IS_INT = re.compile(INT)
_IS_FLOAT = re.compile(FLOAT)
_NUMBER_STARTS: Final = frozenset("-+.0123456789")
_OPEN_TEMPLATE = re.compile(r"[\[{,:]\s*\$\{")
"""A template that begins a value without quotes."""
_PART_LENGTH: Final = 64
MAX_TAG_DIRECTIVES: Final = 100
MAX_DIGITS: Final = 4000
"""The longest whole number. Python refuses to write one of more than 4300 digits."""


def parse(text: str, bounds: Bounds, *, unique: bool) -> Any:
    """Returns the value of a YAML text; raises TextError. `unique` refuses a name twice in one object."""
    return _Reading(bounds, unique=unique).read(text)


def marks(text: str, bounds: Bounds) -> dict[DocumentPath, TextMark]:
    """Returns the places of all parts of a text that `parse` has read."""
    found: dict[DocumentPath, TextMark] = {}
    _Reading(bounds, marks=found).read(text)
    return found


def nodes(text: str) -> Any:
    """Returns PyYAML's nodes of a text, for who edits it in place; None if it is empty. Only for a text that
    `parse` has read, and so has bounded: the composer calls itself for every level."""
    import yaml

    library = cast("Any", yaml)
    return library.compose(text, Loader=library.SafeLoader)


class _Part:
    """A value that has been read."""

    __slots__ = ("height", "path", "size", "text", "value")

    def __init__(self, value: Any, path: DocumentPath, text: str | None = None) -> None:
        self.value = value
        self.path = path
        self.text = text
        """A scalar as it is written, which is what it is called as a name."""
        self.size = 1 if text is None else _size(text)
        """The number of its parts, aliases written out, and itself. A long text is worth several."""
        self.height = 0
        """The levels of lists and objects in it."""


class _Frame:
    """A list or object that is being read."""

    __slots__ = ("anchor", "is_object", "lines", "merge_line", "merges", "name", "part")

    def __init__(self, part: _Part, anchor: str | None) -> None:
        self.part = part
        self.anchor = anchor
        self.is_object = is_object(part.value)
        self.name: str | None = None
        """The name whose value comes next."""
        self.merge_line: int | None = None
        """The line of that name, where it is `<<`."""
        self.lines: dict[str, int] = {}
        self.merges: list[tuple[Any, int]] = []


class _Reading:
    """One pass over the events of a text."""

    def __init__(
        self,
        bounds: Bounds,
        *,
        unique: bool = False,
        marks: dict[DocumentPath, TextMark] | None = None,
    ) -> None:
        self._bounds = bounds
        self._unique = unique
        self._marks = marks
        self._unfolded = 0
        self._anchors: dict[str, _Part | None] = {}
        """None for one that is being read: an alias of it would hold itself."""
        self._frames: list[_Frame] = []
        self._root: Any = None

    def read(self, text: str) -> Any:
        """Returns the value of the text."""
        import yaml

        documents = 0
        for parts, event in enumerate(_events(text)):
            if parts > self._bounds.parts:
                problem = f"more than {self._bounds.parts} lists, objects and values"
                raise LargeTextError(problem, _line(event))
            give_way()
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                self._begin(event, is_mapping=isinstance(event, yaml.MappingStartEvent))
            elif isinstance(event, yaml.CollectionEndEvent):
                self._end()
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    hint = "leave out `---` and what follows it"
                    raise NotInFormatError("YAML", "a second document begins here", _line(event), hint)
        return self._root

    # --- events

    def _scalar(self, event: Any) -> None:
        text: str = event.value
        is_plain = event.implicit[0] and event.tag is None
        if self._awaits_name():
            if event.anchor is not None:
                self._anchors[event.anchor] = _Part(text, (), text)
            is_merge = text == MERGE and (is_plain or event.tag == f"{TAG}merge")
            self._name(text, event, is_merge=is_merge)
            return
        if is_plain:
            value = _plain(text, event)
        else:
            value = text if event.tag in (None, "!") else _tagged(event.tag, text, event)
        part = _Part(value, self._mark(event), text)
        if event.anchor is not None:
            self._anchors[event.anchor] = part
        self._add(part)

    def _begin(self, event: Any, *, is_mapping: bool) -> None:
        if self._awaits_name():
            raise TextError("a name must be text", _line(event))
        if event.tag not in (None, "!", f"{TAG}{'map' if is_mapping else 'seq'}"):
            raise _unknown_tag(event)
        if len(self._frames) >= self._bounds.depth:
            raise self._too_deep(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._frames.append(_Frame(_Part({} if is_mapping else [], self._mark(event)), event.anchor))

    def _end(self) -> None:
        frame = self._frames.pop()
        part = frame.part
        part.height += 1
        for merged, line in frame.merges:
            self._merge(merged, part.value, line)
        if frame.anchor is not None:
            self._anchors[frame.anchor] = part
        self._add(part)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise NotInFormatError("YAML", "found undefined alias", _line(event))
        part = self._anchors[event.anchor]
        if part is None:
            raise TextError("a YAML alias refers to a value that contains it", _line(event))
        if self._awaits_name():
            if part.text is None:
                raise TextError("a name must be text", _line(event))
            self._name(part.text, event)
            return
        if len(self._frames) + part.height > self._bounds.depth:
            raise self._too_deep(event)
        self._unfold(part.size, _line(event))
        path = self._mark(event)
        if self._marks is not None:
            for steps in _inside(part.value):
                if (mark := self._marks.get(part.path + steps)) is not None:
                    self._marks.setdefault(path + steps, mark)
        self._add(part)

    # --- what they add up to

    def _awaits_name(self) -> bool:
        return bool(self._frames) and self._frames[-1].is_object and self._frames[-1].name is None

    def _name(self, name: str, event: Any, *, is_merge: bool = False) -> None:
        # As it is written, also where YAML sees a number: `200:` is the name 200.
        frame, line = self._frames[-1], _line(event)
        frame.name = name
        frame.merge_line = line if is_merge else None
        if is_merge:
            return
        if self._unique:
            if name in frame.lines:
                first = frame.lines[name]
                raise TextError(f"{name!r} appears a second time; the first is in line {first}", line)
            frame.lines[name] = line
        if self._marks is not None:
            self._marks[*frame.part.path, name] = TextMark(line, event.start_mark.column + 1)

    def _add(self, part: _Part) -> None:
        if not self._frames:
            self._root = part.value
            return
        frame = self._frames[-1]
        owner = frame.part
        owner.size += part.size
        height = part.height
        if not frame.is_object:
            owner.value.append(part.value)
        elif frame.merge_line is None:
            owner.value[frame.name] = part.value
            owner.size += _size(frame.name or "")
        else:
            frame.merges.append((part.value, frame.merge_line))
            height -= 2 if is_array(part.value) else 1
        owner.height = max(owner.height, height)
        frame.name = None

    def _merge(self, merged: Any, into: JsonObject, line: int) -> None:
        for more in merged if is_array(merged) else [merged]:
            if not is_object(more):
                raise TextError("`<<` takes an object, or a list of them", line)
            self._unfold(sum(map(_size, more)), line)
            for name, item in more.items():
                into.setdefault(name, item)

    def _unfold(self, parts: int, line: int) -> None:
        self._unfolded += parts
        if self._unfolded > self._bounds.unfolded:
            problem = f"its YAML aliases unfold to more than {self._bounds.unfolded} parts"
            raise LargeTextError(problem, line)

    def _mark(self, event: Any) -> DocumentPath:
        """Notes where the next value stands; returns its path, where paths are wanted."""
        if self._marks is None:
            return ()
        path: DocumentPath = ()
        if self._frames:
            frame = self._frames[-1]
            step = frame.name if frame.name is not None else len(frame.part.value)
            path = (*frame.part.path, step)
        self._marks.setdefault(path, TextMark(_line(event), event.start_mark.column + 1))
        return path

    def _too_deep(self, event: Any) -> TextError:
        return TextError(f"nested more than {self._bounds.depth} levels deep", _line(event))


def _size(text: str) -> int:
    """The parts that a text is worth, where an alias repeats it."""
    return 1 + len(text) // _PART_LENGTH


def _events(text: str) -> Iterator[Any]:
    import yaml

    if text.count("%TAG") > MAX_TAG_DIRECTIVES:
        # The parser compares each of them with all before it.
        raise TextError(f"more than {MAX_TAG_DIRECTIVES} `%TAG` directives", hint="write plain YAML")
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        yield from cast(Any, yaml).parse(text, loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = error.problem or error.context or "it cannot be read"
        number = min(mark.line, text.count("\n")) + 1 if mark else None
        raise NotInFormatError("YAML", said, number, _hint(said, text, number)) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position] if isinstance(error.position, int) else ""
        raise NotInFormatError("YAML", str(error.reason), before.count("\n") + 1) from None
    except (yaml.YAMLError, ValueError) as error:
        raise NotInFormatError("YAML", str(error).splitlines()[0]) from None


def _hint(said: str, text: str, number: int | None) -> str | None:
    lines = text.split("\n")
    if number is not None and number <= len(lines) and lines[number - 1].lstrip(" ").startswith("\t"):
        return "YAML needs spaces for indentation, not tabs"
    if "mapping values are not allowed" in said:
        return "put the text in quotes if it holds a colon"
    if number is not None and _OPEN_TEMPLATE.search("\n".join(lines[max(number - 2, 0) : number])):
        return 'put a template between braces in quotes: "${…}"'
    return None


def _inside(value: Any) -> Iterator[DocumentPath]:
    """Yields the paths of all parts of a value."""
    waiting: list[tuple[DocumentPath, Any]] = [((), value)]
    while waiting:
        path, node = waiting.pop()
        items = node.items() if is_object(node) else enumerate(node) if is_array(node) else ()
        for step, item in items:
            yield (*path, step)
            if is_object(item) or is_array(item):
                waiting.append(((*path, step), item))


def _line(event: Any) -> int:
    return event.start_mark.line + 1


# --- scalars


def _plain(text: str, event: Any) -> Any:
    """Returns what a scalar without quotes and tag stands for."""
    if text in WORDS:
        return WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _IS_INT.fullmatch(text):
        return _whole(text, event)
    return _finite(text, event) if _IS_FLOAT.fullmatch(text) else text


def _tagged(tag: str, text: str, event: Any) -> Any:
    match tag.removeprefix(TAG):
        case "str":
            return text
        case "null":
            return None
        case "bool" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case "int" if re.fullmatch(r"[-+]?[0-9]+", text):
            return _whole(text, event)
        case "float" if _IS_FLOAT.fullmatch(text):
            return _finite(text, event)
        case _:
            raise _unknown_tag(event)


def _whole(text: str, event: Any) -> int:
    if len(text) > MAX_DIGITS:
        raise TextError(f"the number {text[:10]}… has more than {MAX_DIGITS} digits", _line(event))
    return int(text)


def _finite(text: str, event: Any) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise TextError(
            f"the number {text if len(text) < 30 else text[:10] + '…'} is too large", _line(event)
        )
    return value


def _unknown_tag(event: Any) -> TextError:
    tag: str = event.tag
    shown = f"!!{tag.removeprefix(TAG)}" if tag.startswith(TAG) else tag
    if len(shown) > 80:
        shown = f"{shown[:80]}…"
    return TextError(f"the tag {shown} is not understood", _line(event), "write plain YAML")
