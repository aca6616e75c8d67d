"""One document as a source: imported as `spindle sync` does, and a request made for every operation."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
import re
import resource
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from values import NoValueError, Values

from spindle.calls.validate import Validation
from spindle.catalog.screening import take
from spindle.domain.identity import NO_CREDENTIAL
from spindle.domain.tool import Tool
from spindle.errors import InvalidArgumentsError, SpindleError
from spindle.sources.openapi import OpenApiSource
from spindle.sources.openapi.config import OpenApiConfig
from spindle.sources.openapi.request import prepare

MAX_MEMORY = 6 * 1024**3
"""Bytes of address space that a process may use."""
MAX_SECONDS = 600
ATTEMPTS = 6
MOST_TRIED = 300
"""Operations of one document that a request is made for; the largest has sixteen thousand."""
BASE = "http://127.0.0.1:1"
LIMITS: dict[str, Any] = {"max_document_size": "64MiB", "max_tools": 50_000, "max_list_size": "256MiB"}
"""For documents that the usual limits refuse: those that the hints of the errors tell to raise."""


@dataclass
class ImportedDocument:
    """The outcome for one document."""

    name: str
    tools: int = 0
    seconds: float = 0.0
    refused: str | None = None
    raised: bool = False
    """It needed larger limits than usual."""
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    uncallable: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Tools whose request could not be made, with the reason."""
    tried: int = 0
    """Tools for which arguments were looked for."""
    unfilled: int = 0
    """Those of them for which none were found."""
    fragments: int = 0
    """Operations with a `#` in their path."""


def limit_memory() -> None:
    """Bounds the memory of this process, so that a document cannot take the machine's."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))


def import_document(folder: Path, name: str, seed: int) -> ImportedDocument:
    """Imports a document, and makes a request for each of its operations."""
    started = time.perf_counter()
    outcome = ImportedDocument(name)
    try:
        with time_limit(MAX_SECONDS):
            try:
                tools = _tools(folder, name, outcome)
            except SpindleError as error:
                if not _is_about_limits(error):
                    raise
                outcome.raised = True
                tools = _tools(folder, name, outcome, **LIMITS)
            outcome.tools = len(tools)
            outcome.fragments = sum("#" in tool.spec.metadata["path"] for tool in tools)
            tried = random.Random(seed).sample(tools, min(len(tools), MOST_TRIED))  # noqa: S311 - repeatable
            for number, tool in enumerate(tried):
                _try(tool, seed + number, outcome)
            outcome.tried = len(tried)
    except SpindleError as error:
        outcome.refused = error.message.replace(f"{folder}/", "")
    except MemoryError:
        outcome.refused = f"more than {MAX_MEMORY >> 30} GiB of memory"
    except TimeoutError:
        outcome.refused = f"longer than {MAX_SECONDS} s"
    except Exception as error:  # noqa: BLE001 - a crash is what the corpus is there to find
        outcome.refused = f"crashed: {error!r}"
    outcome.seconds = time.perf_counter() - started
    return outcome


def arguments_for(tool: Tool, seed: int, validation: Validation) -> dict[str, Any]:
    """Random arguments that fit the input schema of a tool; raises NoValueError."""
    schema = tool.input_schema
    places = {how["argument"]: how["in"] for how in tool.spec.metadata["parameters"]}
    # Headers and cookies carry plain text; a part of a path must not be empty.
    plain = {name for name, place in places.items() if place in ("header", "cookie")}
    for attempt in range(ATTEMPTS):
        try:
            found = Values(seed * ATTEMPTS + attempt, schema).of(schema)
            again = Values(seed * ATTEMPTS + attempt, schema, plain=True)
            found |= {name: again.of(schema["properties"][name], 1) for name in plain if name in found}
            body = tool.spec.metadata.get("body") or {}
            if body.get("kind") == "binary" and body["argument"] in found:
                found[body["argument"]] = base64.b64encode(str(found).encode()).decode()
            # Null has no form outside of a body: `?name=` is an empty text.
            found = {name: value for name, value in found.items() if value is not None or name not in places}
            validation.check_arguments(tool, found)
        except (InvalidArgumentsError, NoValueError, RecursionError, re.error):
            continue
        return found
    raise NoValueError


def _tools(folder: Path, name: str, outcome: ImportedDocument, **limits: Any) -> list[Tool]:
    config = OpenApiConfig.model_validate({"document": name, "base_url": BASE, **limits})

    async def discover() -> list[Tool]:
        source = OpenApiSource("api", config, folder, lambda _line: None)
        async with source.open(NO_CREDENTIAL, lambda: None) as session:
            specs = await session.discover()
        taken = take("api", config, specs)
        outcome.left_out = [(item.name, item.reason.replace(f"{folder}/", "")) for item in taken.left_out]
        return taken.tools

    return asyncio.run(discover())


def _try(tool: Tool, seed: int, outcome: ImportedDocument) -> None:
    schema, shared = tool.spec.input_schema, tool.spec.definitions
    root = {"$defs": shared.schemas if shared is not None else {}}
    try:
        # Not checked, which would compile the schema with all it reaches: they fit more often than not.
        arguments = Values(seed, root).of(schema)
    except (NoValueError, RecursionError, re.error):
        outcome.unfilled += 1
        return
    try:
        made = prepare(tool, arguments, BASE, {}, NO_CREDENTIAL, _NOWHERE)
    except InvalidArgumentsError:
        outcome.unfilled += 1  # such as `.` as a part of a path
    except SpindleError as error:
        outcome.uncallable.append((tool.local_name, error.message))
    else:
        sent = {how["argument"] for how in tool.spec.metadata["parameters"] if how["in"] == "query"}
        if any(_is_written(arguments[name]) for name in sent & arguments.keys()) and "?" not in made.url:
            outcome.uncallable.append((tool.local_name, "its query was lost"))


def _is_written(value: Any) -> bool:
    return value != [] and value != {}


class _Nowhere:
    """No credentials are sent, so that nothing may be asked about them."""

    def require(self, url: str, what: str) -> None:
        raise AssertionError(f"{what} for {url}")


_NOWHERE: Any = _Nowhere()


def _is_about_limits(error: SpindleError) -> bool:
    return any(setting in (error.hint or "") for setting in LIMITS)


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Ends the work of this process after so many seconds, with TimeoutError."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
