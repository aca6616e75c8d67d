"""The `[triggers]` table of the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spindle.domain.json_schema import is_object
from spindle.domain.trigger import TriggerConfig
from spindle.errors import ConfigurationError
from spindle.settings.validate import validate_table

MOST = 1000
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


def read_triggers(table: Any, file: Path, environ: Mapping[str, str]) -> dict[str, TriggerConfig]:
    """Returns the triggers by their names. Raises ConfigurationError for a mistake."""
    if not is_object(table):
        raise ConfigurationError(f"{file}: `triggers` must be a table such as [triggers.NAME]")
    if len(table) > MOST:
        raise ConfigurationError(f"{file}: there are {len(table)} triggers, and {MOST} may be")
    found: dict[str, TriggerConfig] = {}
    for name, written in table.items():
        where = f"triggers.{name}"
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{file}: a trigger cannot be called {name!r}",
                hint="a name begins with a small letter and has small letters, digits, `_` and `-`",
            )
        if not is_object(written):
            raise ConfigurationError(f"{file}: {where} must be a table: [{where}]")
        # What is in `${…}` there is of the event, not of the environment.
        inputs = {"inputs": written["inputs"]} if "inputs" in written else {}
        rest = {key: value for key, value in written.items() if key != "inputs"}
        known = validate_table(TriggerConfig, where, {**rest, "inputs": {}}, str(file), environ)
        if inputs:
            if not is_object(inputs["inputs"]):
                raise ConfigurationError(f"{file}: {where}.inputs should be a table")
            known = known.model_copy(update=inputs)
        found[name] = known
    return found
