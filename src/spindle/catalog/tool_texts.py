"""Writes the texts about a tool that a model is given, so that it is found by meaning."""

from __future__ import annotations

import hashlib
import re

from spindle.domain.json_schema import property_texts
from spindle.domain.tool import Tool

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_APART = re.compile(r"[\W_]+")
_HEADLINE, _DESCRIPTION, _PARAMETERS = 300, 1000, 600
"""Characters."""


def spoken(name: str) -> str:
    """Returns a name as words: `readFile` and `read_file` as `read file`."""
    return _APART.sub(" ", _HUMPS.sub(" ", name)).strip().lower()


def texts_of(tool: Tool) -> tuple[str, str]:
    """Returns a short text about a tool, and a long one with its parameters. A tool is found best by the
    middle of both: the one says what it does, the other what with."""
    name = f"{tool.source} {spoken(tool.name.removeprefix(f'{tool.source}.'))}"
    shared = tool.spec.definitions.schemas if tool.spec.definitions is not None else None
    parameters: list[str] = []
    size = 0
    for text in property_texts(tool.spec.input_schema, shared):
        parameters.append(text[:_PARAMETERS])
        size += len(parameters[-1])
        if size > _PARAMETERS:
            break
    about = " ".join(parameters)[:_PARAMETERS]
    return (
        f"{name}. {tool.description[:_HEADLINE]}",
        f"{name}. {tool.description[:_DESCRIPTION]} {about}",
    )


def digest_of(texts: tuple[str, str]) -> str:
    """Returns what tells two pairs of texts apart."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
