"""Tools that flows put together. Each does one thing."""

from collections import Counter

from spindle import ToolError, tool


@tool(read_only=True)
def count_words(text: str) -> dict[str, int]:
    """Count how often each word is in a text."""
    counted = Counter(text.lower().split())
    if not counted:
        raise ToolError("there are no words")
    return dict(counted)


@tool(read_only=True)
def most_common(counts: dict[str, int]) -> str:
    """The word that was counted most often."""
    return max(counts, key=lambda word: counts[word])


@tool(read_only=True)
def headline(word: str, counts: dict[str, int]) -> str:
    """One line about the word that was counted most often."""
    return f"{word} ({counts[word]} of {sum(counts.values())} words)"


@tool(read_only=True)
def say(text: str) -> str:
    """Return a text as it is."""
    return text
