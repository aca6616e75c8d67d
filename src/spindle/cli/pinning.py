"""The offer to pin a source that is added: changed definitions of its tools wait for a person."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from spindle.cli.context import CliContext

QUESTION = "pin it: hold changed definitions of its tools back until you accept them? [Y/n] "


def is_pinned(cli: CliContext, given: bool | None, table: dict[str, Any]) -> bool:
    """Returns True if the source is to be pinned. Asks where the command line does not say and a person is
    there."""
    if given is not None or not _is_foreign(table):
        return bool(given)
    if not cli.can_ask:
        return False
    said = cli.run(cli.ask(QUESTION))
    return said is not None and said.lower() in ("", "y", "yes")


def pin_note(name: str, given: bool | None, table: dict[str, Any]) -> str | None:
    """Returns a sentence about a source that nobody said anything about."""
    if given is not None or not _is_foreign(table):
        return None
    if table.get("pinned"):
        return f"{name} is pinned: `spindle sync {name} --accept-all` accepts changes"
    return f"{name} is not pinned: it may change its tools; `--pin` or `pinned = true` holds changes back"


def argument_notes(name: str, table: dict[str, Any], file: Path) -> list[str]:
    """Returns sentences about a command that has a secret among its words, or whose program may change."""
    from spindle.cli.client_secrets import SecretVariables

    command = table.get("command")
    if not isinstance(command, list):
        return []
    words = cast("list[Any]", command)
    variables = SecretVariables()
    variables.hide(name, {"command": list(words)})
    notes = [
        f"the command of {name} has a secret in clear in {file}: put ${{{variable}}} there, better in `env`"
        for variable in variables.values
    ]
    package = moving_package(words)
    if package and table.get("pinned"):
        notes.append(f"{name} starts whichever version of {package} is the newest; write {package}@VERSION")
    return notes


def moving_package(command: list[Any]) -> str | None:
    """Returns the package of a command such as `npx -y NAME` that names no exact version, so that another
    program may be started tomorrow."""
    words = [str(word) for word in command]
    if len(words) < 2 or words[0].rsplit("/", 1)[-1] not in ("npx", "uvx", "bunx", "pnpx"):
        return None
    package = next((word for word in words[1:] if not word.startswith("-")), None)
    if package is None or "://" in package or package.startswith((".", "/")):
        return None
    version = package.rpartition("@")[2] if "@" in package[1:] else package.partition("==")[2]
    return None if version[:1].isdigit() else package


def _is_foreign(table: dict[str, Any]) -> bool:
    """True for a source whose tools somebody else defines."""
    kind = table.get("kind", "mcp")
    if kind == "mcp":
        return True
    return kind in ("openapi", "utcp", "http") and "://" in str(
        table.get("document") or table.get("url") or ""
    )
