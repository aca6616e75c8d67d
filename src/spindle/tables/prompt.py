"""`prompt`: runs an agent with a column of tools and returns the conversation as a table."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Generator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import pyarrow as pa

from spindle import settings as settings_module
from spindle.errors import ConfigurationError, ModelError
from spindle.opening import open as open_workspace
from spindle.tables.calling import named, rows_in_app, settings_of_rows
from spindle.tables.columns import Tools, rows_in
from spindle.tables.data import DataTables
from spindle.tables.messages import (
    ConversationRow,
    Messages,
    history_of,
    instructions_of,
    message_table,
    messages_of,
)
from spindle.tables.messages import read_messages as read
from spindle.tables.row_places import RowPermissions, RunWorkflow
from spindle.tables.tool_row import ToolRow

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from spindle.agents.events import AgentEvent
    from spindle.agents.limits import Limits
    from spindle.app import Spindle
    from spindle.domain.identity import Credential
    from spindle.tables.rows import Note

logger = logging.getLogger("spindle")

ENDED_BY = b"spindle.ended_by"
"""Beside the schema of the messages: `answer`, or the limit that ended the run."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A task for an agent, with the rows of its tools."""

    rows: Sequence[ToolRow | None]
    messages: Sequence[ConversationRow]
    data: DataTables
    model: str | Model
    key: str | None = None
    workspace: Path | str | Spindle | None = None
    trusted: bool = False
    credentials: Mapping[str, Credential] = field(default_factory=dict[str, "Credential"])
    instructions: str = ""
    limits: Limits | Mapping[str, Any] | None = None
    settings: Mapping[str, Any] | None = None
    destructive: bool = False
    run_workflow: RunWorkflow | None = None
    final_answer: bool = False
    on_event: Callable[[AgentEvent], None] | None = None
    note: Note = logger.warning

    async def run(self, app: Spindle) -> pa.Table:
        """Runs the agent, and returns the conversation as a table."""
        from spindle.agents.agent import Agent
        from spindle.agents.attachments import Attachment
        from spindle.agents.limits import Limits
        from spindle.agents.outcomes import AgentResult

        if self.key is not None:
            from spindle.agents.models import require_library, resolve

            require_library()
            from spindle.agents.model_client import model_client

            # Made for this run, so that its connections are closed with it.
            async with (
                model_client() as http,
                resolve(str(self.model), self.key, client=lambda: http) as made,
            ):
                return await replace(self, model=made, key=None).run(app)
        told = [self.instructions, *instructions_of(self.messages), self.data.instructions()]
        reach = RowPermissions(self.trusted, self.credentials, self.workspace, self.run_workflow)
        async with rows_in_app(
            app, self.rows, reach, self.data, destructive=self.destructive, note=self.note
        ) as opened:
            if opened.left_out:
                told.append(f"These tools are not available here, do not use them: {named(opened.left_out)}")
            agent = Agent(
                app,
                self.model,
                instructions="\n\n".join(part for part in told if part),
                approve=(),  # the rows' own source refuses destructive calls: there is no person to ask
                limits=replace(Limits.of(self.limits), conclude=self.final_answer),
                settings=self.settings,
                ask_user=False,
            )
            last, history = self.messages[-1], history_of(self.messages)
            files = [Attachment(picture, "image/png") for picture in last.pictures]
            outcome = await agent.run(
                last.content or "", history=history, files=files, on_event=self.on_event
            )
            if not isinstance(outcome, AgentResult):
                raise ModelError("the run stopped for a person, and nobody can be asked here")
            record = await agent.record(outcome.run_id)
        if outcome.ended_by != "answer":
            self.note(f"it ended before there was an answer: the limit of {outcome.ended_by} was reached")
        names = {event.call_id: event.tool for event in record.events() if event.call_id and event.tool}
        known = {message.tool_call_id: message.tool_name for message in self.messages}
        names = {str(call): str(name) for call, name in {**known, **names}.items() if call and name}
        system = [message for message in self.messages if message.role == "system"]
        said = messages_of(record.messages(), names)
        return message_table([*system, *said], {ENDED_BY: outcome.ended_by.encode()})


class Options(TypedDict, total=False):
    """The options of `prompt`."""

    data: Mapping[str, Any] | None
    """Tables by their ids. Tables that tools make are added, if the mapping is mutable."""
    model: str | Model | None
    """`provider:name`, or a pydantic-ai model; by default the one of [agent]."""
    key: str | None
    """The API key of the model's provider; by default it is read from the environment."""
    column: str | None
    """The column of the tools, if a table has several."""
    workspace: Path | str | Spindle | None
    """The workspace in which flows run, as for `open_rows`. Only `prompt_async` takes an open one."""
    trusted: bool
    credentials: Mapping[str, Credential] | None
    instructions: str
    limits: Limits | Mapping[str, Any] | None
    """The limits of an `Agent`."""
    settings: Mapping[str, Any] | None
    """The model's settings, as for an `Agent`."""
    destructive: bool
    """True to allow calls of tools that declare themselves destructive."""
    run_workflow: RunWorkflow | None
    """Runs workflows of other software, as for `open_rows`."""
    final_answer: bool
    """True to ask the model once more, without tools, if it has not answered within the limit of steps."""
    on_event: Callable[[AgentEvent], None] | None
    note: Note


def prompt(tools: Tools, messages: Messages, **options: Unpack[Options]) -> pa.Table:
    """Lets a model work with the tools of a column, and returns the whole conversation as a table. Blocks;
    also works in a notebook.

    `messages` is a text, a list of texts and objects, or a table such as this function returns: the
    conversation so far, ending with the user's message. The model sees the columns of `data`, while tools
    receive the rows.

    Errors of calls are told to the model. Raises if the model cannot be asked, and for mistakes in the
    arguments before anything is asked.
    """
    prepared = _prepared(tools, messages, **options)
    if not isinstance(prepared.workspace, str | Path | None):
        raise ConfigurationError(
            "a workspace that is open cannot be used from here", hint="name its folder, or await prompt_async"
        )
    with (
        _returning(prepared.data, options.get("data")),
        open_workspace(settings=settings_of_rows(), note=prepared.note) as app,
    ):
        return app.wait(prepared.run)


async def prompt_async(tools: Tools, messages: Messages, **options: Unpack[Options]) -> pa.Table:
    """Does the same as `prompt`, awaited. The workspace may be an open one."""
    prepared = _prepared(tools, messages, **options)
    with _returning(prepared.data, options.get("data")):
        async with open_workspace(settings=settings_of_rows(), note=prepared.note) as app:
            return await prepared.run(app)


def _prepared(
    tools: Tools,
    messages: Messages,
    *,
    data: Mapping[str, Any] | None = None,
    model: str | Model | None = None,
    key: str | None = None,
    column: str | None = None,
    workspace: Path | str | Spindle | None = None,
    credentials: Mapping[str, Credential] | None = None,
    **rest: Any,
) -> Prompt:
    """Checks the arguments, and raises for every mistake that can be known before the model is asked."""
    rows, said, tables = rows_in(tools, column), read(messages), DataTables(data or {})
    chosen = _model(model, workspace)
    if key is not None and not isinstance(chosen, str):
        raise ConfigurationError("a key goes with the name of a model, not with one that is made already")
    return Prompt(rows, said, tables, chosen, key, workspace, credentials=credentials or {}, **rest)


def _model(model: str | Model | None, workspace: Path | str | Spindle | None) -> str | Model:
    chosen = model
    if chosen is None:
        found = (
            settings_module.load(workspace)
            if workspace is None or isinstance(workspace, str | Path)
            else workspace.settings
        )
        chosen = found.agent().model
    if chosen is None:
        raise ConfigurationError(
            "no model is chosen",
            hint="say model='provider:name', or set `model` in [agent] of spindle.toml",
        )
    return chosen


@contextlib.contextmanager
def _returning(tables: DataTables, data: Mapping[str, Any] | None) -> Generator[None]:
    """Adds the tables that tools made to the caller's `data`, even if the run fails afterwards."""
    try:
        yield
    finally:
        if isinstance(data, MutableMapping):
            data.update({name: tables[name] for name in tables.made})
