"""Forms that sources ask people to fill in: their fields, and the problems with what was filled in.

MCP allows flat forms only, of texts, numbers, yes or no, and choices.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from spindle.calls.validate import problems_with
from spindle.domain.json_schema import JsonObject, is_array, is_object

MAX_FIELDS = 100
MAX_CHOICES = 1000
MAX_TEXT = 20_000
"""Characters of a message or of a description."""

FieldKind = Literal["string", "number", "integer", "boolean", "choice", "choices"]
_PLAIN: dict[str, FieldKind] = {
    "string": "string", "number": "number", "integer": "integer", "boolean": "boolean",
}  # fmt: skip
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


@dataclass(frozen=True, slots=True)
class FormField:
    """One value of a form."""

    name: str
    kind: FieldKind
    schema: JsonObject
    required: bool
    title: str
    description: str | None = None
    choices: tuple[tuple[str, str], ...] = ()
    """Each value with the title to show for it."""

    @property
    def has_default(self) -> bool:
        return "default" in self.schema


def fields_of(schema: Any) -> list[FormField]:
    """Returns the fields of a form. Raises ValueError, with the reason, for what is none."""
    properties = schema.get("properties") if is_object(schema) else None
    if not is_object(schema) or schema.get("type") != "object" or not is_object(properties):
        raise ValueError("it is not an object with properties")
    if len(properties) > MAX_FIELDS:
        raise ValueError(f"it has {len(properties)} fields, more than {MAX_FIELDS}")
    required = schema.get("required")
    needed = [name for name in required if isinstance(name, str)] if is_array(required) else []
    fields = [_field(name, item, name in needed) for name, item in properties.items()]
    problem = problems_with(schema, {}, "the form")
    if problem and problem[0]["problem"].startswith("its schema is not valid"):
        raise ValueError(problem[0]["problem"])
    return fields


def problems_in(schema: JsonObject, content: Any) -> list[dict[str, str]]:
    """Everything in which the values of a form do not fit it, formats included."""
    found = problems_with(schema, content, "answer")
    properties = schema.get("properties")
    if not is_object(content) or not is_object(properties):
        return found
    for name, value in content.items():
        item = properties.get(name)
        problem = format_problem(item, value) if is_object(item) else None
        if problem is not None:
            found.append({"path": name, "problem": problem})
    return found


def answer_problems(details: JsonObject, answer: Any) -> list[dict[str, str]]:
    """Everything in which the answer to a pause does not fit what was asked. `details` are the pause's."""
    schema: JsonObject = details.get("schema", {})
    questions: list[JsonObject] = details.get("questions", [])
    found = problems_with(schema, answer, "answer")
    if found or not schema:
        return found
    for item in questions:
        content = answer if len(questions) == 1 else answer.get(item["name"])
        found += problems_in(item["schema"], content) if "schema" in item else []
    return found


def format_problem(schema: JsonObject, value: Any) -> str | None:
    """Why a text is not of the format that its schema names, or None. Of the formats that forms may have."""
    kind = schema.get("format")
    if not isinstance(value, str) or kind not in _FORMATS:
        return None
    check, wanted = _FORMATS[kind]
    try:
        return None if check(value) else f"{value!r} is not {wanted}"
    except ValueError:
        return f"{value!r} is not {wanted}"


def _is_date(text: str) -> bool:
    from datetime import date

    date.fromisoformat(text)
    return len(text) == len("2026-01-31")


def _is_moment(text: str) -> bool:
    from datetime import datetime

    return datetime.fromisoformat(text).tzinfo is not None and "T" in text.upper()


def _is_email(text: str) -> bool:
    return _EMAIL.fullmatch(text) is not None


def _is_address(text: str) -> bool:
    return bool(urlsplit(text).scheme) and not re.search(r"\s", text)


_FORMATS = {
    "email": (_is_email, "an email address"),
    "uri": (_is_address, "an address (URI)"),
    "date": (_is_date, "a date such as 2026-01-31"),
    "date-time": (_is_moment, "a time such as 2026-01-31T12:00:00Z"),
}


def _field(name: str, item: Any, required: bool) -> FormField:
    if not is_object(item):
        raise ValueError(f"its field {name!r} has no schema")
    title, description = item.get("title"), item.get("description")
    for text in (name, title, description):
        if isinstance(text, str) and len(text) > MAX_TEXT:
            raise ValueError(f"its field {name[:40]!r} has a text of more than {MAX_TEXT} characters")
    kind, choices = _kind(name, item)
    if len(choices) > MAX_CHOICES:
        raise ValueError(f"its field {name!r} has more than {MAX_CHOICES} choices")
    return FormField(
        name,
        kind,
        item,
        required,
        title if isinstance(title, str) and title.strip() else name,
        description if isinstance(description, str) and description.strip() else None,
        tuple(choices),
    )


def _kind(name: str, item: JsonObject) -> tuple[FieldKind, list[tuple[str, str]]]:
    kind = item.get("type")
    if kind == "array":
        inner = item.get("items")
        choices = _choices(inner) if is_object(inner) else None
        if choices is None:
            raise ValueError(f"its field {name!r} is a list of something other than choices")
        return "choices", choices
    choices = _choices(item)
    if kind == "string" and choices is not None:
        return "choice", choices
    if not isinstance(kind, str) or kind not in _PLAIN:
        raise ValueError(f"its field {name!r} is of type {kind!r}, and not a plain value")
    return _PLAIN[kind], []


def _choices(item: JsonObject) -> list[tuple[str, str]] | None:
    """The values to choose from with their titles, if it is a choice."""
    values = item.get("enum")
    if is_array(values):
        titles = item.get("enumNames")
        names = titles if is_array(titles) and len(titles) == len(values) else values
        return [(str(value), str(title)) for value, title in zip(values, names, strict=True)]
    for keyword in ("oneOf", "anyOf"):
        options = item.get(keyword)
        if is_array(options) and all(is_object(one) and "const" in one for one in options):
            return [(str(one["const"]), str(one.get("title", one["const"]))) for one in options]
    return None
