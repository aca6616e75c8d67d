"""The tools of the catalog, searched and filtered, and one tool in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from spindle.console.access_rules import access_rules
from spindle.console.call_lines import CallLine, call_line, shown_json
from spindle.console.choices import Choice, counted
from spindle.console.copying import Copied, copied, sample_arguments
from spindle.console.paging import Page, page_of
from spindle.console.screen import Look, Screen
from spindle.domain.json_schema import Parameter, as_word, parameters
from spindle.domain.names import served_names
from spindle.domain.tool import Effect
from spindle.ports.store import CallFilter, ToolFilter

if TYPE_CHECKING:
    from spindle.domain.tool import Hints, Tool, ToolSummary

FOUND: Final = 200
"""Tools that a search returns."""
RECENT: Final = 8
EFFECTS: Final[dict[str, Effect]] = {name: name for name in get_args(Effect)}


@dataclass(frozen=True, slots=True)
class ToolPage:
    """The list."""

    page: Page[ToolSummary]
    total: int
    """Tools that this principal sees, without filters."""
    sources: Sequence[Choice]
    kinds: Sequence[Choice]
    tags: Sequence[Choice]
    hints: Sequence[Choice]
    groups: Sequence[Choice]
    """The groups as which an administrator can look."""
    seen_as: str
    """The group as which the list is seen; empty: as whoever looks."""


async def tools(look: Look) -> ToolPage:
    """Returns the tools that fit the address: `q`, `source`, `kind`, `tag`, `hint`, and for administrators
    `group`, as which they look."""
    asked = look.query
    catalog = look.app.catalog
    rules = await access_rules(look) if look.principal.admin else None
    group = asked.get("group", "") if rules is not None else ""

    every = await catalog.tools(ToolFilter())
    names = [tool.name for tool in every]
    if rules is None or not group:
        names = look.seen(names)
    else:
        names = rules.exposed.seen_by(group, names if look.is_owner else look.seen(names))
    shown = frozenset(names)
    seen = every if len(shown) == len(every) else [tool for tool in every if tool.name in shown]
    words = asked.get("q", "").strip()
    found = seen
    if words:
        found = [tool for tool in await catalog.search(words, FOUND) if tool.name in shown]
    for key, of in _FILTERS.items():
        if wanted := asked.get(key):
            found = [tool for tool in found if wanted in of(tool)]
    if (effect := EFFECTS.get(asked.get("hint", ""))) is not None:
        names = {tool.name for tool in await catalog.tools(ToolFilter(effect=effect))}
        found = [tool for tool in found if tool.name in names]
    return ToolPage(
        page_of(found, asked),
        len(seen),
        counted(tool.source for tool in seen),
        counted(tool.kind for tool in seen),
        counted(tag for tool in seen for tag in tool.tags),
        [Choice(effect) for effect in EFFECTS],
        [Choice(name) for name in rules.groups] if rules is not None else [],
        group,
    )


def _source(tool: ToolSummary) -> tuple[str, ...]:
    return (tool.source,)


def _kind(tool: ToolSummary) -> tuple[str, ...]:
    return (tool.kind,)


def _tags(tool: ToolSummary) -> tuple[str, ...]:
    return tool.tags


_FILTERS: Final = {"source": _source, "kind": _kind, "tag": _tags}


@dataclass(frozen=True, slots=True)
class Field:
    """An argument, or a part of one, as a line of the schema's outline."""

    name: str
    depth: int
    label: str
    required: bool
    description: str
    default: str


@dataclass(frozen=True, slots=True)
class ToolView:
    """One tool."""

    tool: Tool
    fields: Sequence[Field]
    schema: str
    output: str
    promises: Sequence[tuple[str, str]]
    """Colour and words of what it promises about its effects."""
    copies: Sequence[Copied]
    recent: Sequence[CallLine]
    groups: Sequence[str]
    """The groups that see it, for administrators; empty where there are no groups."""


async def tool(look: Look) -> ToolView:
    """Returns a tool by its full name. One that this principal may not see is not there."""
    found = await look.app.catalog.find(look.named["name"], look.principal, look.sees)
    recent = await look.app.store.calls(limit=RECENT, tool=found.name, where=CallFilter(principal=look.whose))
    config = look.access.config
    base = config.url or look.origin or f"http://{config.host}:{config.port}"
    groups: list[str] = []
    if look.principal.admin:
        rules = await access_rules(look)
        groups = [name for name in rules.groups if rules.group_shows(name, found.name)]
    return ToolView(
        found,
        list(_outline(parameters(found.input_schema))),
        shown_json(found.input_schema),
        shown_json(found.output_schema) if found.output_schema is not None else "",
        list(promises(found.hints)),
        copied(found, sample_arguments(found), base, served_names([found.name], config.names)[found.name]),
        [call_line(record) for record in recent],
        groups,
    )


def _outline(items: Sequence[Parameter], depth: int = 0) -> list[Field]:
    found: list[Field] = []
    for item in items[:100]:
        default = as_word(item.schema["default"]) if "default" in item.schema else ""
        # Many schemas only say the name again.
        said = "" if _is_name(item.description, item.name) else item.description
        found.append(Field(item.name, depth, item.label, item.required, said, default))
        inner = item.schema
        if "array" in item.types and isinstance(inner.get("items"), dict):
            inner = inner["items"]
        if depth < 3 and "properties" in inner:
            found += _outline(parameters(inner), depth + 1)
    return found


def _is_name(text: str, name: str) -> bool:
    return text.replace(" ", "_").casefold() == name.casefold()


def promises(hints: Hints) -> list[tuple[str, str]]:
    """Returns the colour and words of what a tool promises about its effects."""
    found: list[tuple[str, str]] = []
    if hints.read_only:
        found.append(("good", "read-only"))
    elif hints.destructive:
        found.append(("warn", "may destroy"))
    elif hints.read_only is False:
        found.append(("", "changes things"))
    if hints.idempotent and not hints.read_only:
        found.append(("good", "safe to repeat"))
    if hints.open_world:
        found.append(("", "reaches the world outside"))
    return found


SCREENS: Final = (
    Screen("/tools", "tools.html", tools, "tools"),
    Screen("/tools/{name}", "tool.html", tool, "tools"),
)
