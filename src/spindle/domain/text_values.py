"""Texts that are JSON, as many servers answer: who wants the value sees it, and who wants text the text."""

from __future__ import annotations

from typing import Any, Final, Literal

from spindle.domain.json_schema import from_json, is_array, is_object, to_json

Parse = Literal["auto", "json", "text"]
"""A text that is a JSON object or array as a whole is that value (`auto`), must be JSON (`json`), or stays a
text (`text`)."""
MAX_PARSED: Final = 16 * 1024 * 1024
"""Characters of a text that is looked into."""


class ParsedObject(dict[str, Any]):
    """An object that was a text, which it keeps."""

    text: str = ""


class ParsedArray(list[Any]):
    """A list that was a text, which it keeps."""

    text: str = ""


def value_of_text(text: str, parse: Parse) -> Any:
    """Returns the value of a text. Raises ValueError if it must be JSON and is not."""
    if parse == "text" or (parse == "auto" and not _may_be_json(text)):
        return text
    try:
        found: Any = from_json(text.encode())
    except (ValueError, RecursionError) as error:
        if parse == "auto":
            return text
        raise ValueError(str(error)) from None
    if not is_object(found) and not is_array(found):
        return found if parse == "json" else text
    kept: ParsedObject | ParsedArray = ParsedObject(found) if is_object(found) else ParsedArray(found)
    kept.text = text
    return kept


def as_text(value: Any) -> str:
    """Returns the text of an object or a list, where only text will do: as it came, or as JSON."""
    if isinstance(value, (ParsedObject, ParsedArray)):
        return value.text
    return to_json(value, default=str).decode()


def _may_be_json(text: str) -> bool:
    bare = text.strip() if len(text) <= MAX_PARSED else ""
    return (bare[:1], bare[-1:]) in (("{", "}"), ("[", "]"))
