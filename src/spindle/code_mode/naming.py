"""The names of tools in programs: a module for each source, a function for each tool.

A name does not depend on who is shown which tools, nor on the order in which they came. The way back is a
map, nothing is parsed out of a name.
"""

from __future__ import annotations

import hashlib
import keyword
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spindle.domain.tool import ToolSummary

TYPE_NAMES: Final = ("Any", "Literal", "NotRequired", "TypedDict")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_]+")
_TAKEN: Final = frozenset({"bool", "dict", "float", "int", "list", "str", *TYPE_NAMES})
"""Names that mean something else in a stub."""
_MARK: Final = 6


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A tool as programs know it."""

    module: str
    name: str
    tool: str
    """Its name in the catalog."""

    @property
    def path(self) -> str:
        """The name by which a program calls it."""
        return f"{self.module}.{self.name}"


def functions_of(tools: Iterable[ToolSummary]) -> Mapping[str, ToolFunction]:
    """Returns all tools by their names in the catalog."""
    wanted: dict[tuple[str, str], list[str]] = {}
    for item in tools:
        local = item.name.removeprefix(f"{item.source}.")
        wanted.setdefault((module_name(item.source), identifier(local)), []).append(item.name)
    found: dict[str, ToolFunction] = {}
    for (module, name), claimants in sorted(wanted.items()):
        for tool in sorted(claimants):
            own = name if len(claimants) == 1 else f"{name}_{_mark(tool)}"
            found[tool] = ToolFunction(module, own, tool)
    return found


def module_name(source: str) -> str:
    """Returns the name of a source's module, which is none of Python's own."""
    name = identifier(source)
    return f"{name}_tools" if name in sys.stdlib_module_names else name


def identifier(name: str) -> str:
    """Returns a name of Python that reads like this one. It does not begin with `_`: such names are not
    seen in a module."""
    made = _UNSAFE.sub("_", name).strip("_") or "tool"
    made = f"n{made}" if made[0].isdigit() else made
    return f"{made}_" if keyword.iskeyword(made) or made in _TAKEN else made


def parameter_names(names: Iterable[str]) -> Mapping[str, str]:
    """Returns the names of arguments in programs, each with the one that the tool has for it."""
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (identifier(name) != name, name)):
        own = identifier(name)
        found[own if own not in found else f"{own}_{_mark(name)}"] = name
    return found


def _mark(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]
