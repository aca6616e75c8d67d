"""Strips the endings of English words, so that `deploys` finds `deployed`.

The first and the last of Porter's rules: the plural, the participles, and the final `e` and `y`. Those
between strip too much for short texts: `directions` would become `direct`.
"""

from __future__ import annotations

import re
from functools import lru_cache

# A consonant, and a vowel; `y` is a vowel after a consonant.
_C = "(?:[^aeiouy]|(?<![^aeiou])y)"
_V = "(?:[aeiou]|(?<=[^aeiou])y)"
_VOWEL = re.compile(_V)
_MEASURE = re.compile(f"{_V}+{_C}+")
_SHORT = re.compile(f"{_C}{_V}[^aeiouwxy]$")
_PLAIN = re.compile("[a-z]+")


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """The stem of a word in lower case; a word with other than English letters is returned as it is."""
    if len(word) <= 2 or not _PLAIN.fullmatch(word):
        return word
    word = _without_participle(_without_plural(word))
    if word.endswith("y") and _VOWEL.search(word[:-1]):
        word = word[:-1] + "i"
    if word.endswith("e") and (
        _measure(word[:-1]) > 1 or (_measure(word[:-1]) == 1 and not _short(word[:-1]))
    ):
        word = word[:-1]
    return word


def _measure(part: str) -> int:
    """The number of times that vowels are followed by consonants."""
    return len(_MEASURE.findall(part))


def _short(part: str) -> bool:
    return _SHORT.search(part) is not None


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_participle(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        rest = word.removesuffix(ending)
        if rest == word:
            continue
        if not _VOWEL.search(rest):
            return word
        if rest.endswith(("at", "bl", "iz")):
            return rest + "e"
        if len(rest) > 1 and rest[-1] == rest[-2] and rest[-1] not in "aeiouylsz":
            return rest[:-1]
        return rest + "e" if _measure(rest) == 1 and _short(rest) else rest
    return word
