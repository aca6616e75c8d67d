"""Finds and ranks the tools for a query, from postings that any store can look up."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase

from spindle.domain.tool import ToolSummary
from spindle.stores.search_index import unpacked, words
from spindle.stores.stem import stem
from spindle.stores.synonyms import synonyms

_STOP = frozenset(
    (
        "a", "about", "am", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can", "could", "do",
        "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its",
        "just", "let", "like", "me", "much", "my", "of", "on", "or", "our", "please", "so", "some",
        "somebody", "someone", "something", "than", "that", "the", "their", "them", "then", "there", "these",
        "they", "this", "those", "to", "us", "want", "was", "we", "what", "when", "where", "which", "who",
        "whose", "why", "will", "with", "would", "you", "your",
    )
)  # fmt: skip

Posting = tuple[str, bytes, bytes]
"""A word, and of one source the ids of the tools that have it with how much it tells of each."""

Segment = tuple[bytes, bytes]

CROWD = 1000
"""So many tools are looked at for a word: one that more of them have tells little."""
BEGINNINGS = 100
"""So many postings of words with a beginning are looked at."""

_QUERY_LIMIT = 1000
_TERM_LIMIT = 24
_UNKNOWN_LIMIT = 4
"""So many words that no tool has are thought about."""
_SPARE = 20
"""So many more are ranked, among which a tool may be that is called just what was typed."""

# How likely a word is meant that begins with what was typed, or is one slip away from it; or what was typed,
# where it is half of a word.
_BEGINNING, _TYPO, _HALF = 0.8, 0.7, 0.5
_FOUND_AT_ALL = 30
"""The weight of a word found anywhere in a tool. In the name it weighs about 200."""
_MOST = _FOUND_AT_ALL + 255
_PARTICLES = frozenset(("back", "down", "in", "off", "on", "out", "over", "up"))
# Of words that say nothing each by itself.
_PHRASES = {"who am i": "whoami", "to do": "todo", "time is it": "now"}
_TYPO_LENGTHS = range(5, 20)


@dataclass(slots=True)
class Matches:
    """The postings of the words that were looked up."""

    postings: dict[str, list[Segment]] = field(default_factory=dict[str, list[Segment]])
    guessed: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    """For a term that no tool has: the words that may be meant, and how likely each is."""

    def add(self, rows: Iterable[Posting]) -> set[str]:
        """Adds postings, and returns the words that have any."""
        added: dict[str, list[Segment]] = {}
        for word, numbers, weights in rows:
            added.setdefault(word, []).append((numbers, weights))
        self.postings.update(added)
        return set(added)

    def may_begin(self, term: str, rows: Iterable[Posting]) -> bool:
        """Adds words that an unknown term is the beginning of. False if there are none."""
        self.guessed[term] = dict.fromkeys(self.add(rows), _BEGINNING) if len(term) > 1 else {}
        return bool(self.guessed[term])

    def may_be_meant(self, term: str, rows: Iterable[Posting]) -> None:
        """Adds words that an unknown, perhaps mistyped term may mean."""
        self.guessed[term] = dict.fromkeys(self.add(rows), _TYPO)

    def missing_synonyms(self, term: str) -> list[str]:
        """The synonyms of guessed words that are still to be looked up."""
        others = dict.fromkeys(other for word in self.guessed[term] for other in synonyms(word))
        return [word for word in others if word not in self.postings]

    def meanings(self, term: str, joined: Sequence[str]) -> list[tuple[float, list[Segment]]]:
        """The words that a term may stand for: how likely each is, and its postings."""
        own = {stem(term): 1.0} | self.guessed.get(term, {})
        whole = [word for word in joined if word in self.postings]
        if whole:
            own = {word: trust * _HALF for word, trust in own.items()} | dict.fromkeys(whole, 1.0)
        found: dict[str, float] = {}
        for word, trust in own.items():
            for other, likeness in synonyms(word).items():
                found[other] = max(found.get(other, 0.0), trust * likeness)
        return [
            (trust, self.postings[word]) for word, trust in (found | own).items() if word in self.postings
        ]


@dataclass(slots=True)
class Query:
    """A search text, as the words to look up."""

    typed: list[str]
    """All words as typed."""
    terms: list[str]
    """The words without stop words, or all if there are no others."""
    joined: dict[str, list[str]]
    """Compounds that a term may be the first part of, such as `rollback` for `roll back`."""

    @classmethod
    def of(cls, text: str) -> Query:
        """Splits a search text into terms."""
        typed = words(text[:_QUERY_LIMIT])
        telling = dict.fromkeys(word for word in typed if word not in _STOP) or dict.fromkeys(typed)
        terms = list(telling)[:_TERM_LIMIT]
        joined: dict[str, list[str]] = {}
        for one, other in itertools.pairwise(typed):
            if one in telling and (other in telling or other in _PARTICLES):
                joined.setdefault(one, []).append(stem(stem(one) + other))
        whole = " ".join(typed)
        terms = [*(word for phrase, word in _PHRASES.items() if phrase in whole), *terms]
        return cls(typed, terms, joined)

    def words(self) -> list[str]:
        """The words to look up first: the terms and their synonyms."""
        found = [word for term in self.terms for word in (stem(term), *self.joined.get(term, ()))]
        return list(dict.fromkeys(other for word in found for other in (word, *synonyms(word))))

    def unknown(self, found: Matches) -> list[str]:
        """The terms that no tool has: each may be the beginning of a word, or mistyped."""
        return [term for term in self.terms if stem(term) not in found.postings][:_UNKNOWN_LIMIT]

    def ranked(self, found: Matches, total: int, limit: int) -> dict[int, float]:
        """The ids of the best tools, the best first, each with how much of the query it says; a few more than
        `limit`."""
        scores: dict[int, float] = {}
        squares = 0.0
        for term in self.terms:
            meanings = found.meanings(term, self.joined.get(term, ()))
            worth = _worth(meanings, total)
            squares += worth * worth
            best: dict[int, float] = {}
            for trust, segments in meanings:
                own = worth if trust < 1 else (worth + _worth([(trust, segments)], total)) / 2
                _take_best(best, segments, trust * own)
            for number, score in best.items():
                scores[number] = scores.get(number, 0.0) + score
        best_ids = heapq.nlargest(limit + _SPARE, scores, key=lambda number: (scores[number], -number))
        # By the length of the query as a vector of its words: two words of eight say more than one of four.
        length = _MOST * math.sqrt(squares)
        return {number: scores[number] / length for number in best_ids}


def slips(term: str) -> list[str]:
    """The stems of all words that are one typing mistake away: a letter missing, added, wrong or swapped."""
    if len(term) not in _TYPO_LENGTHS or not term.isascii() or not term.isalpha():
        return []
    halves = [(term[:place], term[place:]) for place in range(len(term) + 1)]
    made = [left + right[1:] for left, right in halves if right]
    made += [left + right[1] + right[0] + right[2:] for left, right in halves if len(right) > 1]
    made += [left + letter + right[1:] for left, right in halves if right for letter in ascii_lowercase]
    made += [left + letter + right for left, right in halves for letter in ascii_lowercase]
    return list(dict.fromkeys(stem(word) for word in made))


def _worth(meanings: Sequence[tuple[float, list[Segment]]], total: int) -> float:
    """The weight of a term: the fewer tools have it, the higher. A rare term with a common synonym weighs
    no more than that synonym."""
    having = sum(trust * _count(segments) for trust, segments in meanings)
    return math.log(1 + (max(total - having, 0) + 0.5) / (having + 0.5))


def _take_best(best: dict[int, float], segments: list[Segment], worth: float) -> None:
    having = _count(segments)
    known = best.get
    for numbers, weights in segments:
        many = len(weights) if having <= CROWD else -(-len(weights) * CROWD // having)
        for number, weight in zip(unpacked(numbers[: many * 8]), weights[:many], strict=True):
            score = worth * (_FOUND_AT_ALL + weight)
            if score > known(number, 0.0):
                best[number] = score


def _count(segments: list[Segment]) -> int:
    return sum(len(weights) for _, weights in segments)


def first(found: list[ToolSummary], query: Query, limit: int) -> list[ToolSummary]:
    """The first `limit` tools. A tool whose own name is exactly the query comes first, whatever its score."""
    wanted = "".join(query.typed)
    return sorted(
        found, key=lambda summary: "".join(words(summary.name.removeprefix(f"{summary.source}."))) != wanted
    )[:limit]
