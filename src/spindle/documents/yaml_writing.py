"""Values written as YAML, so that this reader and those of YAML 1.1 read the same."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from spindle.documents.yaml_text import FLOAT, INT, MERGE, TAG, WORDS


def write(value: Any) -> str:
    """Returns a value as YAML; texts of several lines as they are read best."""
    import yaml

    return yaml.dump(
        value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=100, default_flow_style=False
    )


# What either this reader or one of YAML 1.1 would not take for text is put in quotes.
_NOT_TEXT = (
    (
        "null",
        "|".join(re.escape(word) for word, value in WORDS.items() if value is None),
        ["~", "n", "N", ""],
    ),
    ("bool", "|".join(word for word, value in WORDS.items() if value is not None), list("tTfF")),
    ("int", INT, list("-+0123456789")),
    ("float", FLOAT, list("-+.0123456789")),
    ("merge", MERGE, ["<"]),
)


@cache
def _dumper() -> Any:
    import yaml

    made: Any = type("PlainDumper", (yaml.SafeDumper,), {})
    for tag, pattern, first in _NOT_TEXT:
        made.add_implicit_resolver(f"{TAG}{tag}", re.compile(f"(?:{pattern})\\Z"), first)
    made.ignore_aliases = _never_aliased
    made.add_representer(str, _represent_text)
    made.add_representer(float, _represent_float)
    return made


def _never_aliased(_dumper: Any, _data: Any) -> bool:
    return True


def _represent_text(dumper: Any, text: str) -> Any:
    lines = text.split("\n")
    if not all(line.isprintable() for line in lines) or _BREAKS.search(text):
        style = '"'
    else:
        style = "|" if len(lines) > 1 and all(line == line.rstrip() for line in lines) else None
    return dumper.represent_scalar(f"{TAG}str", text, style=style)


# What YAML of one version or another takes for the end of a line, or for a mark of the encoding.
_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]")


def _represent_float(dumper: Any, number: float) -> Any:
    return dumper.represent_scalar(f"{TAG}float", json.dumps(number))
