"""Errors that a source reported, understood: by the data that it sent, by the shipped rules for its server,
by the rules of its settings, in this order. What none of them knows is an error of the tool's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spindle.domain.call import Result
from spindle.domain.json_schema import JsonObject, from_json, is_object
from spindle.errors import SpindleError, from_meaning
from spindle.meanings import CATEGORIES, GENERAL, Meaning, in_data, in_status_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import Tool

MAX_JSON = 64 * 1024
"""Bytes of a text that is read as JSON."""
MAX_TEXTS = 4


def understood(result: Result, config: SourceConfig) -> Result:
    """Returns a failed result with the meaning of its error, as far as it is known."""
    meaning = result.meaning
    if meaning is not None and meaning.category not in CATEGORIES:
        meaning = Meaning("tool")
    if meaning is None:
        meaning = in_data(result.structured) or in_data(*_json_texts(result)) or in_status_line(result.text)
    if meaning is None or meaning.category in GENERAL:
        category = _by_rules(config, result.text, {*_codes(result.structured, meaning)})
        meaning = _as(category, meaning) if category is not None else meaning
    return replace(result, meaning=meaning)


def refined(error: SpindleError, tool: Tool, config: SourceConfig) -> SpindleError:
    """Returns an error that a source answered with, or the one that a rule makes of it."""
    if error.category not in GENERAL or not (error.answered or error.status is not None):
        return error
    known = {"code": error.details.get("code")} if is_object(error.details) else None
    category = _by_rules(config, _text_of(error, tool.source), {*_codes(known, error.meaning)})
    if category is None or category == error.category:
        return error
    fields: JsonObject = {"sent": error.sent, "answered": True, "details": error.details}
    found = from_meaning(_as(category, error.meaning), error.message, **fields)
    return found.about(source=error.source, tool=error.tool)


def problem_of(result: Result) -> JsonObject:
    """Returns the error that a tool reported, as its call's record has it."""
    problem = {**result.reported(), "message": result.text}
    return problem | ({"failure": result.failure.to_dict()} if result.failure is not None else {})


def error_of(tool: Tool, result: Result) -> SpindleError:
    """Returns the exception for the error that a tool reported."""
    error = from_meaning(
        result.meaning or Meaning("tool"),
        result.text,
        source=tool.source,
        tool=tool.name,
        answered=True,
        details=result.to_dict(),
    )
    error.failure = result.failure
    return error


def result_of(error: SpindleError) -> Result:
    """Returns the result that reports an error, with what its reader can do about it."""
    hint = error.hint_for("model")
    text = error.message if hint is None else f"{error.message}\nhint: {hint}"
    return Result.of_text(text, is_error=True, meaning=error.meaning)


def _as(category: str, meaning: Meaning | None) -> Meaning:
    """The meaning with the category that a rule gives it."""
    retryable = category == "rate_limited" or (meaning is not None and meaning.status == 503)
    return replace(meaning or Meaning(category), category=category, retryable=retryable)


def _by_rules(config: SourceConfig, text: str, codes: set[int]) -> str | None:
    from spindle.presets import error_rules  # the list is read when there is an error to understand

    shipped = error_rules(tuple(getattr(config, "command", None) or ()), getattr(config, "url", None))
    found = shipped.category(text, codes) if shipped is not None else None
    return found if found is not None else config.errors.category(text, codes)


def _json_texts(result: Result) -> Iterator[Any]:
    """Yields what texts hold that are JSON as a whole: where the protocol has no place for data, servers send
    it like that."""
    for block in result.content[:MAX_TEXTS]:
        text = (block.text or "").strip()
        if text[:1] in ("{", "[") and len(text) <= MAX_JSON:
            try:
                yield from_json(text.encode())
            except ValueError:
                continue


def _codes(structured: Any, meaning: Meaning | None) -> Iterator[int]:
    """Yields the numbers by which a rule may know an error: the status, the exit code, a code of its data."""
    if meaning is not None and meaning.status is not None:
        yield meaning.status
    if not is_object(structured):
        return
    inner = structured.get("error")
    for held in (structured, inner if is_object(inner) else {}):
        for key in ("exit_code", "code"):
            value = held.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                yield value


def _text_of(error: SpindleError, source: str) -> str:
    """The words of the source: without ours before them, and with the body of its answer."""
    text = error.message.removeprefix(f"{source!r}: ")
    body = error.details.get("body") if is_object(error.details) else None
    return f"{text}\n{body}" if body is not None else text
