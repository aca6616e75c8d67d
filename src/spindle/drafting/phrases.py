"""Reads what single words do not tell: what is denied, what goes where, and what is asked about.

`copy the archive to the database` has the words of `copy the database to the archive`, and a question about a
flow has the words of the flow.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from spindle.stores.ranking import Query
from spindle.stores.search_index import words as split_words
from spindle.stores.stem import stem

_CLAUSE_END = re.compile(r"[.,;:!?\n]|\b(?:and|but|or|then)\b")
_TOWARDS: Final = "to"
_AWAY: Final = "from"
_ELSEWHERE: Final = "elsewhere"
_PREPOSITIONS: Final = {
    "to": _TOWARDS, "into": _TOWARDS, "onto": _TOWARDS, "from": _AWAY,
    **dict.fromkeys(["at", "as", "by", "for", "in", "of", "on", "with"], _ELSEWHERE),
}  # fmt: skip
_ASKING: Final = frozenset(["how", "if", "what", "when", "where", "whether", "which", "who", "why"])
_OPENS_QUESTION = re.compile(r"\W*(?:are|did|does|had|has|have|is|was|were)\b")
_POLITE = re.compile(r"\W*(?:please\W+)?(?:can|could|will|would)\W+you\b")


@dataclass(slots=True)
class Phrases:
    """The words of a text by what stands before them in their clause."""

    denied: set[str] = field(default_factory=set[str])
    """The stems in the reach of a negation."""
    affirmed: dict[str, str] = field(default_factory=dict[str, str])
    """By stem, the words that are in the reach of none."""
    first_denied: dict[str, str] = field(default_factory=dict[str, str])
    """By stem, the word that follows a negation, which is what it denies; "" where nothing follows."""
    roles: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """By word, the directions in which it stands; "" without any."""
    asking: dict[str, None] = field(default_factory=dict[str, None])
    """The words that begin a question or a condition, in order."""

    @classmethod
    def of(cls, texts: Collection[str], negations: Collection[str]) -> Phrases:
        self = cls()
        for text in texts:
            self.asking |= dict.fromkeys(word for word in split_words(text) if word in _ASKING)
            telling = set(Query.of(text).terms)
            for clause in _CLAUSE_END.split(text.lower()):
                self._read(split_words(clause), telling, negations)
        return self

    def _read(self, clause: list[str], telling: set[str], negations: Collection[str]) -> None:
        role = ""
        is_denied = has_begun = is_after_negation = False
        for word in clause:
            if word in _PREPOSITIONS and has_begun:  # before anything else, `to` begins an infinitive
                role = _PREPOSITIONS[word]
            elif word in negations or (word in telling and word not in _PREPOSITIONS):
                if is_after_negation:
                    self.first_denied[stem(word)] = word
                    self.denied.add(stem(word))
                is_after_negation = word in negations
                if is_after_negation:
                    is_denied = True
                    continue
                if is_denied:
                    self.denied.add(stem(word))
                else:
                    self.affirmed[stem(word)] = word
                self.roles.setdefault(word, set()).add(role)
                # The direction is that of the next word; of those behind it, it is not known.
                role = _ELSEWHERE if role else ""
                has_begun = True
        if is_after_negation:
            self.first_denied[""] = ""
            self.denied.add("")


def denied_otherwise(said: Phrases, does: Phrases) -> str | None:
    """Returns a word that the words deny and the flow's own do not."""
    return next((word for key, word in said.first_denied.items() if key not in does.denied), None)


def unsettled(words: str, said: Phrases, does: Phrases, known: Collection[str]) -> list[str]:
    """Returns what makes it doubtful that the words ask for what the flow does, though it has them all.
    `known` are the stems of the flow's tools and of its other parts."""
    only_denied = does.denied - does.affirmed.keys() - set(known)
    found = [word for key, word in said.affirmed.items() if key in only_denied]
    theirs: dict[str, set[str]] = {}
    for word, roles in does.roles.items():
        theirs.setdefault(stem(word), set()).update(roles)
    if any({_TOWARDS, _AWAY} & roles for roles in theirs.values()):
        for word, roles in said.roles.items():
            wanted = theirs.get(stem(word), {_ELSEWHERE})
            if _ELSEWHERE not in wanted and roles - wanted - {_ELSEWHERE}:
                found.append(word)
    found += [word for word in said.asking if word not in does.asking]
    return [*found, *_question(words.lower())]


def _question(words: str) -> list[str]:
    if opening := _OPENS_QUESTION.match(words):
        return [opening[0].strip()]
    return ["?"] if words.rstrip().endswith("?") and not _POLITE.match(words) else []
