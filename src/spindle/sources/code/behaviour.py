"""Marks of functions that a program gives: of their code, and of the values that they enclose."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, Final, cast

from spindle.code_marks import code_of
from spindle.domain.json_schema import survives_json, to_json

MAX_DEPTH: Final = 20
"""Functions that enclose each other."""


def functions_mark(functions: list[Callable[..., Any]], root: Path) -> str:
    """Returns a mark of functions as they are in this process."""
    return _digest([_function(function, root, 0) for function in functions])


def _function(function: Any, root: Path, depth: int) -> Any:
    if isinstance(function, functools.partial):
        given = cast("functools.partial[Any]", function)
        return [repr((given.args, given.keywords)), _function(given.func, root, depth + 1)]
    inner: Any = inspect.unwrap(function) if callable(function) else function
    inner = getattr(inner, "__func__", inner)
    code = getattr(inner, "__code__", None)
    if not isinstance(code, CodeType) or depth > MAX_DEPTH:
        return f"{inner.__class__}"
    enclosed = [_enclosed(cell, root, depth) for cell in getattr(inner, "__closure__", None) or ()]
    defaults = [getattr(inner, "__defaults__", None), getattr(inner, "__kwdefaults__", None)]
    return [_code(code), repr(defaults), enclosed, code_of(code.co_filename, root)]


def _enclosed(cell: Any, root: Path, depth: int) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:
        return None  # not set yet
    if callable(value):
        return _function(value, root, depth + 1)
    return value if survives_json(value) else f"{value.__class__}"


def _code(code: CodeType) -> list[Any]:
    consts = [_code(item) if isinstance(item, CodeType) else repr(item) for item in code.co_consts]
    return [code.co_code.hex(), consts, list(code.co_names)]


def _digest(parts: Any) -> str:
    return hashlib.sha256(to_json(parts, default=repr)).hexdigest()[:32]
