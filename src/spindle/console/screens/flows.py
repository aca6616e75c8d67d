"""The saved flows: what there is to run, one of them with its picture and its form, and its file."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from spindle.calls.options import CallOptions
from spindle.calls.permissions import wants_approval
from spindle.console.paging import Page, page_of
from spindle.console.screen import Look, Screen
from spindle.domain.identity import LOCAL
from spindle.errors import FlowError, NotFoundError, SpindleError
from spindle.ports.store import ToolFilter

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Run
    from spindle.domain.tool import Tool
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.problems import Problem
    from spindle.serving.flow_files import FlowFiles, FlowText

KIND: Final = "flows"
NEWEST: Final = 200
"""Runs that are looked at for the last one of each flow."""
RECENT: Final = 8
SHOWN_PROBLEMS: Final = 50
RUN_COLOURS: Final[Mapping[str, str]] = {
    "done": "good",
    "failed": "bad",
    "cancelled": "muted",
    "paused": "warn",
    "running": "accent",
    "queued": "accent",
}
NOT_YOURS: Final = "Only the owner of the workspace changes flows: sign in with a link of `spindle console`."
STARTER: Final = """\
description: Greet somebody.
inputs:
  name:
    type: string
    default: world
nodes:
- id: greet
  transform:
    greeting: Hello, ${name}
outputs:
  greeting: ${greeting}
"""


@dataclass(frozen=True, slots=True)
class FlowLine:
    """One flow of the list."""

    name: str
    path: str
    """The address of its page, below `/console`."""
    file: str
    description: str
    problem: str
    """The problem of its file; empty for a flow that runs."""
    last: Run | None


@dataclass(frozen=True, slots=True)
class FlowsPage:
    """The list."""

    page: Page[FlowLine]
    may_edit: bool
    colours: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FlowView:
    """One flow."""

    file: str
    place: str
    name: str
    tool: str | None
    """Its name in the catalog; None if it is not there, since it is broken."""
    description: str
    picture: Markup | None
    not_drawn: str
    problems: Sequence[Problem]
    more_problems: int
    schema: JsonObject | None
    """The schema of its inputs, for whoever may run it."""
    wants_approval: bool
    text: str
    """For administrators."""
    may_edit: bool
    runs: Sequence[Run]
    colours: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FlowEditor:
    """A file that is edited, or a new one."""

    file: str
    """Empty for a new one."""
    text: str
    version: str
    format: str
    unreadable: str
    """The reason for which it cannot be edited here."""
    picture: Markup | None
    can_ask: bool
    """True if a model can be asked to write one."""
    why_not: str


async def flow_lines(look: Look) -> list[FlowLine]:
    """Returns the flows that this principal sees, by name; to an administrator also the files that are
    broken."""
    tools = await _tools(look)
    lines = [
        FlowLine(tool.name, _path(look, tool), tool.spec.place or "", tool.description, "", None)
        for tool in tools
    ]
    if look.principal.admin:
        known = {tool.spec.place for tool in tools}
        library = look.app.flows.library
        lines += [
            FlowLine(path.stem, f"/flows/{_below(look, place)}", place, "", "broken", None)
            for path in library.files()
            if (place := library.place(path)) not in known
        ]
    return sorted(lines, key=lambda line: (line.name.lower(), line.file))


async def flows(look: Look) -> FlowsPage:
    """Returns them in pages, each with its last run."""
    page = page_of(await flow_lines(look), look.query)
    last = _by_name(await look.app.store.runs(limit=NEWEST, principal=look.whose))
    shown = [
        FlowLine(
            line.name, line.path, line.file, line.description,
            await _why_broken(look, line.file) if line.problem else "", last.get(line.name),
        )
        for line in page.items
    ]  # fmt: skip
    return FlowsPage(Page(shown, page.number, page.total, page.size), _is_owner(look), RUN_COLOURS)


async def _tools(look: Look) -> list[Tool]:
    found = await look.app.catalog.whole_tools(ToolFilter(kind=KIND))
    return [tool for tool in found if look.sees(tool.name)]


def _path(look: Look, tool: Tool) -> str:
    """The page of a flow. One that is written in Python has that of its tool."""
    from spindle.console.rendering import in_path
    from spindle.flows.text.files import FORMATS

    place = tool.spec.place or ""
    is_file = any(place.lower().endswith(ending) for ending in FORMATS) and _below(look, place) != place
    return f"/flows/{_below(look, place)}" if is_file else f"/tools/{in_path(tool.name)}"


def _below(look: Look, place: str) -> str:
    """The name of a file below the folder of flows, as part of an address."""
    from urllib.parse import quote

    folder = look.app.flows.library.place(look.app.flows.library.folder)
    return quote(place.removeprefix(f"{folder}/")) if place.startswith(f"{folder}/") else place


async def _why_broken(look: Look, place: str) -> str:
    library = look.app.flows.library
    judged = await _files(look).judge_file(library.place(library.folder), place, look.principal, look.sees)
    wrong = next((problem for problem in judged.problems if problem.severity == "error"), None)
    return str(wrong) if wrong is not None else "it was not read yet"


def _by_name(runs: Sequence[Run]) -> dict[str, Run]:
    found: dict[str, Run] = {}
    for run in runs:  # the newest first
        if run.kind in ("flow", "call"):
            found.setdefault(run.name, run)
    return found


def _files(look: Look) -> FlowFiles:
    from spindle.serving.flow_files import files_of

    return files_of(look.app)


async def flow(look: Look) -> FlowView:
    """Returns a flow by its file. One whose tool a principal may not see is not there."""
    files = _files(look)
    admin = look.principal.admin
    file = look.named["file"]
    try:
        found = await files.read(file)
    except NotFoundError:
        raise NotFoundError(f"there is no flow {file!r}") from None
    tool = next((tool for tool in await _tools(look) if tool.spec.place == found.place), None)
    if tool is None and not admin:
        raise NotFoundError(f"there is no flow {file!r}")
    problems, definition = list(found.problems), None
    if found.text is not None:
        judged = await files.judge(found.text, found.format, found.place, look.principal, look.sees)
        problems, definition = list(judged.problems), judged.definition
    picture, not_drawn = await _drawn(look, definition)
    name = tool.name if tool is not None else definition.name if definition is not None else ""
    runs = await look.app.store.runs(limit=RECENT, name=name, principal=look.whose) if name else []
    config = look.app.catalog.sources.config(tool.source) if tool is not None else None
    approval = config is not None and tool is not None and look.principal.id != LOCAL.id
    return FlowView(
        found.file,
        found.place,
        name or found.file,
        tool.name if tool is not None else None,
        tool.description if tool is not None else definition.description if definition is not None else "",
        picture,
        not_drawn,
        problems[:SHOWN_PROBLEMS] if admin else [],
        max(len(problems) - SHOWN_PROBLEMS, 0) if admin else 0,
        tool.spec.usable_input if tool is not None else None,
        bool(approval and config and tool and wants_approval(tool, config, CallOptions(look.principal))),
        (found.text or "") if admin else "",
        _is_owner(look),
        [run for run in runs if run.kind in ("flow", "call")],
        RUN_COLOURS,
    )


async def _drawn(look: Look, definition: FlowDefinition | None) -> tuple[Markup | None, str]:
    """The picture of a flow, for whoever sees all that is in it."""
    from spindle.serving.flow_files import tools_in

    if definition is None:
        return None, "A file that cannot be read has no picture."
    if not look.principal.admin and not all(look.sees(name) for name in tools_in(definition)):
        return None, "It uses tools that you do not see."
    try:
        return Markup(await _files(look).draw(definition)), ""  # noqa: S704 - it escapes all that it is given
    except FlowError as error:
        return None, f"{error.message[:1].upper()}{error.message[1:]}."


async def edit(look: Look) -> FlowEditor:
    """Returns the file of a flow, for the owner to change."""
    if not _is_owner(look):
        return FlowEditor(look.named["file"], "", "", "yaml", NOT_YOURS, None, can_ask=False, why_not="")
    found = await _files(look).read(look.named["file"])
    picture: Markup | None = None
    if found.text is not None:
        judge = partial(_files(look).judge, found.text, found.format, found.place)
        picture, _ = await _drawn(look, (await judge(look.principal, look.sees)).definition)
    why = "" if found.text is not None else str(found.problems[0])
    return _editor(look, found, picture, why)


async def new(look: Look) -> FlowEditor:
    """Returns a text to begin a flow with."""
    if not _is_owner(look):
        return FlowEditor("", "", "", "yaml", NOT_YOURS, None, can_ask=False, why_not="")
    judged = await _files(look).judge(STARTER, "yaml", "", look.principal, look.sees)
    picture, _ = await _drawn(look, judged.definition)
    return _editor(look, None, picture, "")


def _editor(look: Look, found: FlowText | None, picture: Markup | None, why: str) -> FlowEditor:
    can_ask, why_not = _asking(look) if found is None else (False, "")
    if found is None:
        return FlowEditor("", STARTER, "", "yaml", why, picture, can_ask, why_not)
    return FlowEditor(
        found.file, found.text or "", found.version, found.format, why, picture, can_ask, why_not
    )


def _is_owner(look: Look) -> bool:
    return look.principal.id == LOCAL.id and look.principal.admin


def _asking(look: Look) -> tuple[bool, str]:
    """True if words can be made a flow of by a model, and why not."""
    if importlib.util.find_spec("pydantic_ai") is None:
        return False, "Models need a library that is not installed here."
    try:
        model = look.app.settings.agent().model
    except SpindleError as error:
        return False, f"The settings of [agent] are not right: {error.message}"
    return model is not None, "No model is chosen: set model under [agent] in spindle.toml."


SCREENS: Final = (
    Screen("/flows", "flows.html", flows, "flows"),
    Screen("/flows/new", "flow_editor.html", new, "flows", admin=True),
    Screen("/flows/{file:path}/edit", "flow_editor.html", edit, "flows", admin=True),
    Screen("/flows/{file:path}", "flow.html", flow, "flows"),
)
