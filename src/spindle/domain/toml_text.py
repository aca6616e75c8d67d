"""TOML from outside, read within bounds: a workspace that was cloned, the settings of another program."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from spindle.domain.json_schema import is_deeper

MAX_SIZE: Final = 4 * 1024 * 1024
MAX_DEPTH: Final = 100
"""Levels of tables and lists. The standard library's parser calls itself for each."""

_LONG_KEY = re.compile(
    r"(?<![\w-])(?:(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+')[ \t]*+\.[ \t]*+){" + str(MAX_DEPTH) + "}"
)
"""A key of more parts than there may be levels. The parser goes through all of them again for each."""


def read_toml(text: str) -> dict[str, Any]:
    """Returns the tables of a text; raises tomllib.TOMLDecodeError, whatever is wrong."""
    if len(text) > MAX_SIZE:
        raise tomllib.TOMLDecodeError(f"longer than {MAX_SIZE} characters")
    if (key := _LONG_KEY.search(text)) is not None:
        line = text.count("\n", 0, key.start()) + 1
        raise tomllib.TOMLDecodeError(f"a key of more than {MAX_DEPTH} parts (at line {line})")
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        found = None
    except ValueError as error:
        # A number of too many digits.
        raise tomllib.TOMLDecodeError(str(error).partition(";")[0]) from None
    if found is None or is_deeper(found, MAX_DEPTH):
        raise tomllib.TOMLDecodeError(f"nested more than {MAX_DEPTH} levels deep")
    return found
