"""Judges by rule whether a saved flow does what words say.

A flow that is wrongly passed over costs a request to a model; one that is wrongly run does something else.
So a negation, or a deed that the flow does not do, rules it out, and whatever else of the words is not in the
flow or in one of its inputs, or is put otherwise there, is a doubt, which somebody has to settle before it
runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from spindle.calls.flags import value_of
from spindle.domain.json_schema import JsonObject
from spindle.drafting.phrases import Phrases, denied_otherwise, unsettled
from spindle.errors import InvalidArgumentsError
from spindle.stores.ranking import Query
from spindle.stores.search_index import weighed_words
from spindle.stores.search_index import words as split_words
from spindle.stores.stem import stem
from spindle.stores.synonyms import synonyms

if TYPE_CHECKING:
    from spindle.domain.tool import Tool
    from spindle.flows.definition import FlowDefinition

FITS: Final = 2 / 3
"""The share of the words that a saved flow must contain to be what is meant."""

_QUOTED = re.compile(r"\"[^\"]*\"|`[^`]*`|(?<!\w)'[^']*'(?!\w)")
_VALUE = re.compile(r"(?<!\S)(?:\S*[\d/@=\\]\S*|\S+\.\w\S*)")
_END: Final = ".,;:!?"
_APOSTROPHE: Final = "\N{RIGHT SINGLE QUOTATION MARK}"


@cache
def _listed(file: str) -> frozenset[str]:
    lines = files("spindle.drafting").joinpath(file).read_text("utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


@cache
def _deeds() -> frozenset[str]:
    return frozenset(map(stem, _listed("deeds.txt")))


@dataclass(frozen=True, slots=True)
class Fit:
    """The judgement about one flow."""

    share: float
    """The share of the words that the flow contains."""
    refused: str | None = None
    """The reason why it is not what is meant."""
    inputs: JsonObject = field(default_factory=dict[str, Any])
    """The values of its inputs that the words say beyond doubt."""
    doubts: tuple[str, ...] = ()
    """The parts of the words of which it is not known what they mean for the flow."""

    @property
    def is_candidate(self) -> bool:
        return self.refused is None and self.share >= FITS


def fit_of(words: str, flow: FlowDefinition, tool: Tool) -> Fit:
    """Returns how a saved flow, known as this tool, fits the words."""
    share = fit(words, tool)
    parts = set(map(stem, _words_of(flow)))
    said = {*weighed_words(tool), *parts}
    values, plain = _values(words)
    typed = split_words(plain)
    raw = set(re.findall(r"[\w']+", plain.lower().replace(_APOSTROPHE, "'")))
    negations = sorted(raw & _listed("negations.txt") - {word for word in raw if stem(word) in said})
    if negations:
        return Fit(share, f"the words say {negations[0]!r}")
    phrases = Phrases.of([plain], _listed("negations.txt"))
    does = Phrases.of([tool.name, tool.description], _listed("negations.txt"))
    denied = denied_otherwise(phrases, does)
    if denied is not None:
        return Fit(share, f"the words deny {denied!r}" if denied else "the words end with a negation")
    terms = Query.of(plain).terms if typed else []
    unknown = [term for term in terms if not _is_said(stem(term), said)]
    foreign = [term for term in unknown if stem(term) in _deeds()]
    if foreign:
        return Fit(share, f"it does not {foreign[0]}")
    inputs, left = _bound(values, unknown, flow)
    left += [word for word in unsettled(words, phrases, does, parts) if word not in left]
    return Fit(share, None, inputs, tuple(left))


def fit(words: str, tool: Tool) -> float:
    """Returns the share of the words that a tool contains in its name, description or inputs. Words that
    look like a value, such as a file's name, are for an input and do not count."""
    plain = _values(words)[1]
    terms = Query.of(plain).terms or Query.of(words).terms
    if not terms:
        return 0.0
    said = weighed_words(tool)
    shared = [
        term for term in map(stem, terms) if term in said or any(other in said for other in synonyms(term))
    ]
    return len(shared) / len(terms) if len(shared) >= min(2, len(terms)) else 0.0


def _is_said(term: str, said: set[str]) -> bool:
    # Those that are trusted little name a related thing, not the same.
    return term in said or any(other in said for other, trust in synonyms(term).items() if trust >= 0.5)


def _words_of(flow: FlowDefinition) -> Iterator[str]:
    for node in flow.nodes:
        yield from split_words(f"{node.id} {node.tool or ''} {node.description}")
        if node.flow is not None:
            yield from _words_of(node.flow)


def _values(words: str) -> tuple[list[str], str]:
    """Returns what looks like a value, and the words without it."""
    found = [match[0][1:-1] for match in _QUOTED.finditer(words)]
    rest = _QUOTED.sub(" ", words)
    found += [match[0].rstrip(_END) for match in _VALUE.finditer(rest)]
    return [value for value in dict.fromkeys(found) if value], _VALUE.sub(" ", rest)


def _bound(values: list[str], unknown: list[str], flow: FlowDefinition) -> tuple[JsonObject, list[str]]:
    """Returns values for inputs, where there is one way only to read the words, and what is left over."""
    fixed = set(_texts([node.params for node in flow.nodes]))
    given = [*values, *unknown]
    open_ones = [value for value in given if value not in fixed]
    inputs: JsonObject = {}
    left: list[str] = []
    for value in open_ones:
        same = [name for name, schema in flow.inputs.items() if str(schema.get("default")) == value]
        if same:
            inputs.setdefault(same[0], flow.inputs[same[0]]["default"])
        elif len(open_ones) == 1 and len(flow.inputs) == 1 and value in values:
            (name,) = flow.inputs
            try:
                inputs[name] = value_of(value, flow.inputs[name], name)
            except InvalidArgumentsError:
                left.append(value)
        else:
            left.append(value)
    return inputs, left


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _texts(item)
