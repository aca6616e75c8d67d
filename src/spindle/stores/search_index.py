"""Splits the text of tools into weighted words, the same way for every store."""

from __future__ import annotations

import re
import sys
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable

from spindle.domain.json_schema import property_texts
from spindle.domain.tool import Tool
from spindle.stores.stem import stem

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_E_WORD = re.compile(r"\b[eE]-(?=[A-Za-z]{3})")
_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"[.!?]\s|\n\s*\n|\n\s*[-*#]|<br|</p")
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]{0,300}>|\]\([^()\s]{0,500}\)")

WORD_LIMIT = 100
"""Characters; what is longer is found by its beginning."""
_HEADLINE_LIMIT = 300
_DESCRIPTION_LIMIT = 4000
_PARAMETER_TEXT_LIMIT = 4000

# The places of a word: its weight there, and how many words there usually are. The more there are, the
# less each of them weighs.
_NAME = (6.0, 4)
_SOURCE = (3.0, 1)
_TAGS = (1.5, 2)
_HEADLINE = (4.0, 10)
_DESCRIPTION = (0.5, 40)
_PARAMETERS = (0.6, 40)
_BY_LENGTH = 0.5
"""The influence of the number of words."""
_HALFWAY = 4.0
"""So much of a word in a tool tells half of what any amount of it could."""


def words(text: str) -> list[str]:
    """The words of a text, in lower case and without accents; `snake_case` and `camelCase` are split."""
    return [word[:WORD_LIMIT] for word in _WORD.findall(_folded(_HUMPS.sub(" ", _E_WORD.sub("e", text))))]


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.lower())
    return "".join(character for character in apart if not unicodedata.combining(character))


def weighed_words(tool: Tool) -> dict[str, int]:
    """The stems that find a tool, each with its weight from 1 to 255."""
    local = tool.name.removeprefix(f"{tool.source}.")
    head, rest = _sentences(tool.description)
    found: dict[str, float] = {}
    parts = words(local)
    _count(found, parts, _NAME)
    if len(parts) > 1:
        # Also in one word, as it may be typed: `copyfile`.
        found.setdefault("".join(parts)[:WORD_LIMIT], _NAME[0])
    _count(found, words(tool.source), _SOURCE)
    _count(found, words(" ".join(tool.spec.tags)), _TAGS)
    _count(found, words(f"{tool.spec.title or ''} {head}"), _HEADLINE)
    _count(found, words(rest), _DESCRIPTION)
    _count(found, _parameters(tool), _PARAMETERS)
    return {word: max(1, round(255 * much / (_HALFWAY + much))) for word, much in found.items()}


def _count(found: dict[str, float], texts: list[str], place: tuple[float, int]) -> None:
    weight, usual = place
    each = weight / (1 - _BY_LENGTH + _BY_LENGTH * len(texts) / usual)
    for word, times in Counter(map(stem, texts)).items():
        # A second occurrence in one place adds little.
        found[word] = found.get(word, 0.0) + (each if times == 1 else 1.3 * each)


def _sentences(description: str) -> tuple[str, str]:
    """The first sentence, and the rest."""
    text = _MARKUP.sub(" ", description[: 2 * _DESCRIPTION_LIMIT]).strip()
    end = _SENTENCE.search(text)
    cut = min(end.start() if end and end.start() > 0 else len(text), _HEADLINE_LIMIT)
    return text[:cut], text[cut:_DESCRIPTION_LIMIT]


def _parameters(tool: Tool) -> list[str]:
    shared = tool.spec.definitions.schemas if tool.spec.definitions is not None else None
    found: list[str] = []
    size = 0
    for text in property_texts(tool.spec.input_schema, shared):
        found.append(text[:_PARAMETER_TEXT_LIMIT])
        size += len(found[-1]) + 1
        if size > _PARAMETER_TEXT_LIMIT:
            break
    return words("\n".join(found)[:_PARAMETER_TEXT_LIMIT])


def posting_rows(tools: Iterable[tuple[int, dict[str, int]]]) -> Iterable[tuple[str, bytes, bytes]]:
    """The search index of a source: each word with the ids of its tools, those with the highest weight
    first, and these weights."""
    found: dict[str, list[tuple[int, int]]] = {}
    for number, weighed in tools:
        for word, weight in weighed.items():
            found.setdefault(word, []).append((-weight, number))
    for word, having in found.items():
        having.sort()
        yield word, packed(number for _, number in having), bytes(-weight for weight, _ in having)


def packed(numbers: Iterable[int]) -> bytes:
    """Ids as bytes, the same on every machine."""
    made = array("q", numbers)
    if sys.byteorder == "big":
        made.byteswap()
    return made.tobytes()


def unpacked(data: bytes) -> array[int]:
    """The ids in bytes that `packed` made."""
    made = array("q", data)
    if sys.byteorder == "big":
        made.byteswap()
    return made
