"""Documents and schemas that attack: each is used, or refused with a reason, and its process lives."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from corpus.documents import DOCUMENTS, HostileDocument
from corpus.schemas import SCHEMAS, HostileSchema

from servers import warm
from spindle.schemas.compiled import MAX_LOOKS

PLACE = "https://api.example.com/hostile"
LONGEST = 600
"""Characters of a message."""


def outcomes(which: str) -> dict[str, dict[str, Any]]:
    """By name of a case, how it ended in a process of its own."""
    run = subprocess.run(
        [warm.PYTHON, "-m", "corpus.apart", which],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = [json.loads(line) for line in run.stdout.splitlines()]
    return {outcome["name"]: outcome for outcome in found}


def is_good_for_a_document(case: HostileDocument, found: dict[str, Any]) -> bool:
    if found["code"] != 0 or "raised" in found:
        return False
    told = found.get("error", "")
    if case.ends == "refused":
        return told.startswith(PLACE) and len(told) <= LONGEST
    return "paths" in found["read"] if case.ends == "usable" else "read" in found or told.startswith(PLACE)


def is_good_for_a_schema(case: HostileSchema, found: dict[str, Any]) -> bool:
    if found["code"] != 0 or "raised" in found:
        return False
    if case.ends == "refused":
        return 0 < len(found.get("error", "")) <= LONGEST
    if case.ends == "costly":
        return "steps to check" in found.get("costly", "") and found["looks"] > MAX_LOOKS
    short = all(len(text) <= LONGEST for text in found.get("mistakes", ["x" * 1000]))
    return short and found["looks"] <= MAX_LOOKS


def test_the_corpus_is_large_and_its_names_are_unique() -> None:
    names = [*map(str, DOCUMENTS), *map(str, SCHEMAS)]
    assert len(names) >= 120
    assert len(set(names)) == len(names)


def test_each_document_is_read_or_refused_with_its_place() -> None:
    found = outcomes("documents")

    bad = [found[str(case)] for case in DOCUMENTS if not is_good_for_a_document(case, found[str(case)])]
    assert bad == []


def test_each_schema_is_used_or_refused_with_a_reason() -> None:
    found = outcomes("schemas")

    bad = [found[str(case)] for case in SCHEMAS if not is_good_for_a_schema(case, found[str(case)])]
    assert bad == []
