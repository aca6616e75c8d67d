"""Writes a draft as a file that a person can read: one line for each parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def rendered(table: Mapping[str, Any]) -> str:
    """The settings of a drafted source as the text of a TOML file."""
    program = " ".join(table["program"])
    lines = [
        f"# Drafted from the help text of {program}. Read it before you rely on it: take out what you do not",
        "# need, and say which commands are `read_only`.",
        "",
        *(f"{key} = {_value(value)}" for key, value in table.items() if key != "commands"),
    ]
    for name, command in table["commands"].items():
        lines += ["", f"[commands.{_key(name)}]"]
        lines += [f"{key} = {_value(value)}" for key, value in command.items() if key != "parameters"]
        parameters = command.get("parameters", {}).items()
        lines += [f"parameters.{_key(parameter)} = {_value(made)}" for parameter, made in parameters]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    import tomlkit

    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return f"{{ {', '.join(f'{_key(key)} = {_value(item)}' for key, item in items)} }}"
    return tomlkit.dumps({"value": value}).removeprefix("value = ").rstrip("\n")


def _key(name: str) -> str:
    from tomlkit.items import SingleKey

    return SingleKey(name).as_string()
