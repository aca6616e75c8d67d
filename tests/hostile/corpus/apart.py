"""Runs each case of the corpus in a process of its own, and says how it ended: one JSON object a line.

    python -m corpus.apart documents|schemas

What crashes, hangs or takes all memory ends its own process only, by a signal.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

from corpus.documents import DOCUMENTS, HostileDocument
from corpus.schemas import SCHEMAS, HostileSchema

from spindle.documents.fetch import parse
from spindle.domain.schema_cost import SchemaCosts
from spindle.errors import SpindleError
from spindle.schemas.compiled import MAX_LOOKS, CompiledSchema, TooCostlyError

PLACE = "https://api.example.com/hostile"
MEMORY = 3 * 1024**3
SECONDS = 60
"""Of the processor, and far more than any case takes: a case that is not bounded takes hours."""


def read_document(case: HostileDocument) -> dict[str, Any]:
    try:
        root = parse(PLACE, case.data()).root
    except SpindleError as error:
        return {"error": error.message, "hint": error.hint}
    return {"read": sorted(root)[:20]}


def use_schema(case: HostileSchema) -> dict[str, Any]:
    schema, value = case.schema(), case.value()
    try:
        compiled = CompiledSchema(schema)
    except ValueError as error:
        return {"error": str(error)}
    looks = SchemaCosts().of(schema).looks(value, MAX_LOOKS)
    try:
        fits = compiled.accepts(value)
    except TooCostlyError as error:
        return {"costly": str(error), "looks": looks}
    return {"fits": fits, "mistakes": [text for _, text in compiled.mistakes(value)], "looks": looks}


def apart(name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Returns what `work` does in a process of its own, and the signal that ended it, if one did."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            said: dict[str, Any] = work()
        except BaseException as error:
            said = {"raised": repr(error)[:300]}
        with os.fdopen(write, "w") as pipe:
            json.dump(said, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = json.loads(pipe.read() or "{}")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"name": name, "code": code, **said}


if __name__ == "__main__":
    if sys.argv[1] == "documents":
        for document in DOCUMENTS:
            print(json.dumps(apart(str(document), lambda document=document: read_document(document))))
    else:
        for schema in SCHEMAS:
            print(json.dumps(apart(str(schema), lambda schema=schema: use_schema(schema))))
