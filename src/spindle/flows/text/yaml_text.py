"""YAML as far as it says what JSON can say: `on`, `yes` and dates are text, and no name stands twice.

Anchors, aliases and `<<` work. What they unfold to is bounded.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final, cast

from spindle.domain.json_schema import is_object
from spindle.flows.problems import DocumentPath, Positions, TextMark
from spindle.flows.text.json_text import TextError

if TYPE_CHECKING:
    import yaml

MAX_PARTS: Final = 100_000
MAX_DEPTH: Final = 150

_TAG = "tag:yaml.org,2002:"
_FLOAT = r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_RULES = (
    (f"{_TAG}null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (f"{_TAG}bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (f"{_TAG}int", r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    (f"{_TAG}float", _FLOAT, list("-+.0123456789")),
    (f"{_TAG}merge", r"<<", ["<"]),
)  # fmt: skip


def parse(text: str) -> tuple[Any, Positions]:
    """Raises TextError."""
    import yaml

    try:
        root: Any = cast(Any, yaml).compose(text, _loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = error.problem or error.context or "it cannot be read"
        number = min(mark.line, text.count("\n")) + 1 if mark else None
        raise TextError(f"this is not YAML: {said}", number, _hint(said, text, number)) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position] if isinstance(error.position, int) else ""
        raise TextError(f"this is not YAML: {error.reason}", before.count("\n") + 1) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise TextError(f"this is not YAML: {str(error).splitlines()[0]}") from None
    reading = _Reading()
    value = reading.value(root, ()) if root is not None else None
    return value, Positions(lambda: reading.marks)


def write(value: Any) -> str:
    """The same value as YAML; texts of several lines as they are read best."""
    import yaml

    return yaml.dump(
        value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=100, default_flow_style=False
    )


def _hint(said: str, text: str, number: int | None) -> str | None:
    lines = text.split("\n")
    if number is not None and number <= len(lines) and lines[number - 1].lstrip(" ").startswith("\t"):
        return "YAML wants spaces for indentation, not tabs"
    if "mapping values are not allowed" in said:
        return "put the text in quotes if it holds a colon"
    return None


class _Reading:
    """From the nodes of a document to its value, noting where each part stands."""

    def __init__(self) -> None:
        self.marks: dict[DocumentPath, TextMark] = {}
        self._parts = 0
        self._inside: set[int] = set()

    def value(self, node: yaml.Node, path: DocumentPath) -> Any:
        import yaml

        line = node.start_mark.line + 1
        self.marks.setdefault(path, TextMark(line, node.start_mark.column + 1))
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise TextError("its YAML aliases unfold without measure", line)
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node, line)
        if id(node) in self._inside:
            raise TextError("a YAML alias stands inside of what it stands for", line)
        if len(self._inside) >= MAX_DEPTH:
            raise TextError(f"nested more than {MAX_DEPTH} levels deep", line)
        self._inside.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                _require(node, "seq", line)
                return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
            assert isinstance(node, yaml.MappingNode)
            _require(node, "map", line)
            return self._mapping(node, path)
        finally:
            self._inside.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: DocumentPath) -> dict[str, Any]:
        import yaml

        found: dict[str, Any] = {}
        lines: dict[str, int] = {}
        merged: list[yaml.Node] = []
        for key, item in node.value:
            mark = TextMark(key.start_mark.line + 1, key.start_mark.column + 1)
            if not isinstance(key, yaml.ScalarNode):
                raise TextError("a name must be text", mark.line)
            if key.tag == f"{_TAG}merge":
                merged += item.value if isinstance(item, yaml.SequenceNode) else [item]
                continue
            name: str = key.value  # also where YAML sees a number: `200:` is the name 200
            if name in lines:
                raise TextError(
                    f"{name!r} stands here a second time; the first is in line {lines[name]}", mark.line
                )
            lines[name] = mark.line
            self.marks[*path, name] = mark
            found[name] = self.value(item, (*path, name))
        for part in merged:
            self._merge(part, path, found)
        return found

    def _merge(self, part: yaml.Node, path: DocumentPath, found: dict[str, Any]) -> None:
        more = self.value(part, (*path, "<<"))
        if not is_object(more):
            raise TextError("`<<` takes an object, or a list of them", part.start_mark.line + 1)
        for name, item in more.items():
            found.setdefault(name, item)


def _require(node: yaml.Node, kind: str, line: int) -> None:
    if node.tag != f"{_TAG}{kind}":
        raise TextError(f"the tag {_short(node.tag)} is not understood", line, "write plain YAML")


def _scalar(node: yaml.ScalarNode, line: int) -> Any:
    text: str = node.value
    match node.tag.removeprefix(_TAG):
        case "str":
            return text
        case "null":
            return None
        case "bool" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case "int" if re.fullmatch(r"[-+]?[0-9]{1,4000}", text):
            return int(text)
        case "float" if re.fullmatch(_FLOAT, text):
            value = float(text)
            if not math.isfinite(value):
                raise TextError(f"the number {text} is too large", line)
            return value
        case "merge":
            return text
        case _:
            raise TextError(f"the tag {_short(node.tag)} is not understood", line, "write plain YAML")


def _short(tag: str) -> str:
    return f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag


_made: dict[str, Any] = {}


def _loader() -> Any:
    """A loader that sees only what JSON knows."""
    if "loader" not in _made:
        import yaml

        base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        made: Any = type("FlowLoader", (base,), {"yaml_implicit_resolvers": {}})
        for tag, pattern, first in _RULES:
            made.add_implicit_resolver(tag, re.compile(f"(?:{pattern})\\Z"), first)
        _made["loader"] = made
    return _made["loader"]


def _dumper() -> Any:
    """A dumper that puts in quotes what either this loader or one of YAML 1.1 would not take for text."""
    if "dumper" not in _made:
        import yaml

        made: Any = type("FlowDumper", (yaml.SafeDumper,), {})
        for tag, pattern, first in _RULES:
            made.add_implicit_resolver(tag, re.compile(f"(?:{pattern})\\Z"), first)
        made.ignore_aliases = _never_aliased
        made.add_representer(str, _represent_text)
        made.add_representer(float, _represent_float)
        _made["dumper"] = made
    return _made["dumper"]


def _never_aliased(_dumper: Any, _data: Any) -> bool:
    return True


def _represent_text(dumper: Any, text: str) -> Any:
    lines = text.split("\n")
    if not all(line.isprintable() for line in lines) or _BREAKS.search(text):
        style = '"'
    else:
        style = "|" if len(lines) > 1 and all(line == line.rstrip() for line in lines) else None
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


# What YAML of one version or another takes for the end of a line, or for a mark of the encoding.
_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]")


def _represent_float(dumper: Any, number: float) -> Any:
    return dumper.represent_scalar(f"{_TAG}float", json.dumps(number))
