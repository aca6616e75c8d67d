"""A language model's place, taken by rules: the same words always get the same answer."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter

SMALL = {
    "a",
    "an",
    "and",
    "are",
    "by",
    "does",
    "how",
    "in",
    "is",
    "of",
    "on",
    "the",
    "to",
    "what",
    "where",
    "which",
}


def words(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in SMALL]


def call_llm(prompt: str) -> str:
    """Answers a prompt `TASK: text`, where the task is one of those below."""
    task, _, text = prompt.partition(": ")
    if task not in TASKS:
        raise ValueError(f"the model does not know {task!r}")
    return TASKS[task](text)


async def call_llm_async(prompt: str) -> str:
    await asyncio.sleep(0)
    return call_llm(prompt)


def embed(text: str) -> Counter[str]:
    return Counter(words(text))


def likeness(one: Counter[str], other: Counter[str]) -> float:
    lengths = math.sqrt(sum(n * n for n in one.values())) * math.sqrt(sum(n * n for n in other.values()))
    return sum(one[word] * other[word] for word in one) / lengths if lengths else 0.0


def _summarize(text: str) -> str:
    common = [word for word, _ in Counter(words(text)).most_common(3)]
    return f"about {', '.join(common)}"


def _reply(text: str) -> str:
    known = {"hello": "Hello! What is it?", "name": "I am made of rules.", "weather": "I cannot see the sky."}
    return next((known[word] for word in words(text) if word in known), f"You said {len(words(text))} words.")


def _outline(text: str) -> str:
    return "\n".join(f"{part} of {text}" for part in ("The beginnings", "The use", "The future"))


def _decide(text: str) -> str:
    question, _, notes = text.partition(" | ")
    missing = [word for word in words(question) if word not in words(notes)]
    return f"search {missing[0]}" if missing else "answer"


def _record(text: str) -> str:
    name = re.search(r"I am ([A-Z]\w+ [A-Z]\w+)", text)
    skills = re.findall(r"\b(Python|Rust|SQL|cooking)\b", text)
    lines = [f"name: {name[1] if name else 'unknown'}", "skills:", *(f"- {skill}" for skill in skills)]
    return "Here you are:\n```yaml\n" + "\n".join(lines) + "\n```"


def _hint(text: str) -> str:
    target, _, taken = text.partition(" not ")
    clues = {"nostalgia": ["longing", "past", "memory"], "ocean": ["waves", "salt", "deep"]}
    return next(clue for clue in clues[target] if clue not in taken.split(","))


def _guess(text: str) -> str:
    heard, _, tried = text.partition(" not ")
    order = ["river", "history", "nostalgia", "ocean"]
    fits = {"longing": {"history", "nostalgia"}, "past": {"history", "nostalgia"}, "memory": {"nostalgia"}}
    possible = set.intersection(*(fits.get(clue, set(order)) for clue in heard.split(",")))
    return next(word for word in order if word in possible and word not in tried.split(","))


TASKS = {
    "summarize": _summarize,
    "reply": _reply,
    "outline": _outline,
    "decide": _decide,
    "record": _record,
    "translate": lambda text: " ".join(word[::-1] for word in text.split()),
    "hint": _hint,
    "guess": _guess,
}
