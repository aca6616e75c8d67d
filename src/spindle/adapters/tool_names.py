"""Gives the tools of a catalog names that every model API accepts, and calls them by those names."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol

from spindle.adapters.event_loop import Home
from spindle.calls.options import DEFAULT_OPTIONS, CallOptions
from spindle.calls.reported import result_of
from spindle.calls.validate import read_arguments
from spindle.domain.call import Result
from spindle.domain.names import may_name, served_names
from spindle.errors import (
    NotFoundError,
    RunLostError,
    ServerError,
    SpindleError,
    did_you_mean,
    from_description,
)
from spindle.ports.store import ToolFilter
from spindle.remedies import Remedy
from spindle.runs.outcomes import Continuing, Finished, Paused
from spindle.schemas.models import arguments_of

if TYPE_CHECKING:
    from spindle.calls.permissions import Visible
    from spindle.catalog.catalog import Catalog
    from spindle.domain.tool import Tool
    from spindle.runs.outcomes import OpenPause, Outcome
    from spindle.runs.runner import Runner

logger = logging.getLogger("spindle")

MAX_NAMED = 20


class App(Protocol):
    """The parts of an open workspace that adapters need."""

    @property
    def catalog(self) -> Catalog: ...
    @property
    def visible(self) -> Visible: ...
    async def run(
        self, tool: str, arguments: Mapping[str, Any] | None = None, options: CallOptions = ..., /
    ) -> Outcome: ...
    @property
    def runner(self) -> Runner: ...


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """A choice of tools: all, or those that pass every filter."""

    names: Sequence[str] = ()
    """Full names or globs; a tool that matches one of them is chosen."""
    source: str | None = None
    tag: str | None = None


class Offer:
    """The chosen tools, as they were when this was made, and their calls for one principal."""

    def __init__(self, app: App, tools: Mapping[str, Tool], options: CallOptions, home: Home) -> None:
        self.tools = tools
        """By the name that the model knows."""
        self.home = home
        self._app = app
        self._options = replace(options, for_model=True)

    @classmethod
    async def of(cls, app: App, choice: ToolChoice, options: CallOptions = DEFAULT_OPTIONS) -> Offer:
        """Chooses the tools. Raises NotFoundError for an unknown source and for a name that matches no
        tool. Sources that were never synced are synced first. One that fails is left out with a warning;
        if it is the chosen one, its error is raised. The request for a consent that it wants is raised also
        if one of the names is of it."""
        catalog = app.catalog
        _check_source(choice, catalog.sources.names)
        unsynced = [name for name in catalog.unsynced() if choice.source in (None, name)]
        failures: dict[str, str] = {}
        for report in await catalog.sync(unsynced, principal=options.principal) if unsynced else ():
            if report.error is not None:
                failures[report.source] = str(report.error["message"])
                named = choice.source is not None or any(may_name(it, report.source) for it in choice.names)
                if named and report.error["category"] == "consent":
                    await catalog.consents.require(report.source, options.principal)
                if choice.source is not None:
                    raise ServerError(
                        f"{choice.source} could not be asked for its tools: {failures[report.source]}",
                        **from_description(report.error).way_out,
                        source=choice.source,
                    )
                logger.warning("%s: its tools are not offered: %s", report.source, failures[report.source])
        # Names are made among all tools, so that they do not depend on the choice.
        served = served_names(summary.name for summary in await catalog.tools(ToolFilter()))
        found = await catalog.whole_tools(ToolFilter(source=choice.source, tag=choice.tag))
        shown = [tool for tool in found if app.visible(options.principal, tool.name)]
        _check_names(choice, [tool.name for tool in shown], failures)
        tools = {
            served[tool.name]: tool
            for tool in shown
            if tool.name in served
            and (not choice.names or any(_fits(tool.name, name) for name in choice.names))
        }
        return cls(app, tools, options, Home())

    async def outcome(self, name: str, arguments: object, **options: Any) -> Result | Paused:
        """Makes a call as a model asks for it: by the name it knows, with arguments that may be JSON text.
        `options` are those of this call alone. Raises a SpindleError."""
        tool = self._find(name)
        given = arguments_of(tool, read_arguments(arguments))
        own = replace(self._options, **options) if options else self._options
        return _rested(await self.home.run(self._app.run(tool.name, given, own)))

    async def answer(self, name: str, arguments: object, **options: Any) -> Result | Paused:
        """Does the same, but turns an error into a result that the model can read."""
        try:
            return await self.outcome(name, arguments, **options)
        except RunLostError:
            raise  # what became of the call is known elsewhere
        except SpindleError as error:
            return result_of(error)

    async def resumed(
        self, pause: OpenPause, answer: Any = None, *, refused: str | None = None
    ) -> Result | Paused:
        """Answers a pause, and returns how its call went on, as `answer` does. Raises why an answer was not
        taken."""
        try:
            return _rested(await self.home.run(self._app.runner.resume(pause.token, answer, refused=refused)))
        except RunLostError:
            raise
        except SpindleError as error:
            if any(pause.token == open.token for open in await self.pauses(pause.run_id)):
                raise
            return result_of(error)

    async def pauses(self, run: str) -> list[OpenPause]:
        """The pauses of a call that wait for a person."""
        return await self.home.run(self._app.runner.pauses(run=run))

    async def asked(self, run: str) -> int:
        """The number of pauses that a call has had so far."""
        return await self.home.run(self._app.runner.asked(run))

    def _find(self, name: str) -> Tool:
        if (tool := self.tools.get(name)) is not None:
            return tool
        some = sorted(self.tools)[:MAX_NAMED]
        listed = ", ".join(some) + (", …" if len(self.tools) > len(some) else "")
        hint = did_you_mean(name, self.tools, f"there are: {listed or 'none'}")
        raise NotFoundError(f"there is no tool {name!r}", hint=hint, tool=name)


def _rested(outcome: Outcome) -> Result | Paused:
    if isinstance(outcome, Continuing):
        raise RunLostError(f"another process continues run {outcome.run_id}", hint="ask again for its result")
    return outcome.result if isinstance(outcome, Finished) else outcome


def _fits(name: str, wanted: str) -> bool:
    return name == wanted or fnmatchcase(name, wanted)


def _check_source(choice: ToolChoice, known: Sequence[str]) -> None:
    if choice.source is not None and choice.source not in known:
        hint = did_you_mean(choice.source, known, f"there are: {', '.join(known) or 'none'}")
        raise NotFoundError(f"there is no source {choice.source!r}", hint=hint, source=choice.source)


def _check_names(choice: ToolChoice, known: list[str], failures: Mapping[str, str]) -> None:
    for name in choice.names:
        if any(_fits(found, name) for found in known):
            continue
        hint = did_you_mean(name, known)
        if failures:
            said = "; ".join(f"{source}: {problem}" for source, problem in failures.items())
            hint = f"some sources could not be asked for their tools: {said}"
        raise NotFoundError(f"no tool matches {name!r}", hint=hint, remedy=Remedy("list_tools"), tool=name)
