"""Templates in a flow's parameters: texts with expressions in them.

    "${search.items}"            the value itself, whatever its type
    "found ${search.total}"      text with values in it; what is not text is written as JSON
    "${lang ?? 'en'}"            a default where there is nothing, or null
    "${len(search.items) + 1}"   any expression (`expressions/`)
    "$${kept}"                   the text `${kept}`

They speak of the flow's shared store and of nothing else: the environment is for settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from spindle.domain.json_schema import is_array, is_object, to_json
from spindle.flows.expressions.errors import ExpressionError as ExpressionError
from spindle.flows.expressions.errors import UnresolvedError as UnresolvedError
from spindle.flows.expressions.parsing import CONSTANTS, Expression, Read
from spindle.flows.expressions.parsing import parse as parse_expression
from spindle.flows.expressions.paths import MISSING, Lookup, Path, parse_path, written_path
from spindle.flows.expressions.terms import Name


@dataclass(frozen=True, slots=True)
class Reference:
    """One `${…}`."""

    text: str
    """The text between the braces."""
    expression: Expression

    @property
    def path(self) -> Path | None:
        """The place in the shared store, if it is nothing but that."""
        term = self.expression.term
        return term.path if isinstance(term, Name) else None

    def resolve(self, lookup: Lookup) -> Any:
        term = self.expression.term
        if isinstance(term, Name):  # by far the most
            found = lookup(term.path)
            if found is not MISSING:
                return found
        return self.expression.value(lookup)


Parts = tuple[str | Reference, ...]

MAX_SHOWN: Final = 60
"""Characters of an expression in a message."""

_OPEN = re.compile(r"\$\$\{|\$\{")
_SIGNS = r"\s.\[\]{}$?\"'`+*/%<>=!(),|&"
_PLAIN_PATH = re.compile(
    rf"[^{_SIGNS}-][^{_SIGNS}]*(?:\.[^{_SIGNS}]+|\[(?:-?[0-9]+|\"[^\"\\]*\"|'[^'\\]*')\])*"
)


@lru_cache(maxsize=2048)
def parse(text: str) -> Parts:
    """Returns the text and the references of a template, in order. Raises ExpressionError."""
    return tuple(part for part, _ in _placed(text))


def renamed(text: str, old: str, new: str) -> str:
    """Returns a template in which a name is replaced by another, wherever it is read."""
    for part, start in reversed(list(_placed(text))):
        if isinstance(part, Reference):
            for read in reversed([read for read in part.expression.reads if read.path[0] == old]):
                at = start + read.offset
                end = at + len(old) + (2 if text[at] == "`" else 0)
                text = f"{text[:at]}{written_path((new,))}{text[end:]}"
    return text


def _placed(text: str) -> Iterator[tuple[str | Reference, int]]:
    """Yields the parts of a template, with the place of each; that of a reference is behind its brace."""
    position = 0
    while (found := _OPEN.search(text, position)) is not None:
        if found.start() > position:
            yield text[position : found.start()], position
        if found[0] == "$${":
            yield "${", found.start()
            position = found.end()
            continue
        end = closing_brace(text, found.end())
        yield _reference(text[found.end() : end]), found.end()
        position = end + 1
    if position < len(text):
        yield text[position:], position


def _reference(text: str) -> Reference:
    # Names of nodes may hold what an expression would take for signs.
    bare = text.strip()
    if _PLAIN_PATH.fullmatch(bare) and bare not in CONSTANTS:
        path = parse_path(bare)
        return Reference(bare, Expression(text, Name(path), (Read(path, text.index(bare)),)))
    try:
        return Reference(bare, parse_expression(text))
    except ExpressionError as error:
        shown = bare if len(bare) <= MAX_SHOWN else f"{bare[: MAX_SHOWN - 1]}…"
        raise ExpressionError(f"${{{shown}}}: {error}", hint=error.hint) from None


def render(value: Any, lookup: Lookup) -> Any:
    """Returns the value with every template in it resolved, at any depth. Raises ExpressionError, and
    UnresolvedError where a name has no value."""
    if isinstance(value, str):
        return _render_text(value, lookup) if "${" in value else value
    if is_object(value):
        return {key: render(item, lookup) for key, item in value.items()}
    if is_array(value):
        return [render(item, lookup) for item in value]
    return value


def expressions(value: Any) -> Iterator[Reference]:
    """Yields all `${…}` of the templates in a value. Raises ExpressionError."""
    if isinstance(value, str):
        yield from (part for part in parse(value) if isinstance(part, Reference)) if "${" in value else ()
    elif is_object(value):
        for item in value.values():
            yield from expressions(item)
    elif is_array(value):
        for item in value:
            yield from expressions(item)


def is_template(text: str) -> bool:
    """True if the text is one template and nothing else, which can have a value of any type."""
    if not text.startswith("${"):
        return False
    try:
        parts = parse(text)
    except ExpressionError:
        return True  # what is wrong with it is said where templates are read
    return len(parts) == 1 and isinstance(parts[0], Reference)


def references(value: Any) -> Iterator[Read]:
    """Yields all places that the templates in a value read. Raises ExpressionError."""
    for reference in expressions(value):
        yield from reference.expression.reads


def _render_text(text: str, lookup: Lookup) -> Any:
    parts = parse(text)
    if len(parts) == 1:
        (only,) = parts
        return only.resolve(lookup) if isinstance(only, Reference) else only
    return "".join(part if isinstance(part, str) else _as_text(part.resolve(lookup)) for part in parts)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value, default=str).decode()


def closing_brace(text: str, start: int) -> int:
    """Returns the place of the brace that closes the one before `start`, skipping quoted text."""
    depth, position = 1, start
    while position < len(text):
        char = text[position]
        if char in "\"'`":
            quoted = _QUOTED[char].match(text, position)
            position = position if quoted is None else quoted.end() - 1
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return position
        position += 1
    raise ExpressionError(f"{text[max(0, start - 2) :]!r} is not closed with a brace")


_QUOTED = {
    '"': re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL),
    "'": re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL),
    "`": re.compile(r"`[^`]*`"),
}
