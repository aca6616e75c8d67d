"""Tools of a catalog as a pydantic-ai toolset, and pydantic-ai tools in a catalog."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import replace
from typing import Any, cast

try:
    from pydantic_ai import BinaryContent, RunContext, Tool
    from pydantic_ai.exceptions import CallDeferred, ModelRetry, ToolFailed
    from pydantic_ai.tools import AgentDepsT, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
except ImportError as error:
    raise ImportError(
        "spindle.adapters.pydantic_ai needs pydantic-ai: pip install 'spindle-tools[agent]'"
    ) from error

from pydantic import ValidationError
from pydantic_core import SchemaValidator, core_schema

from spindle.adapters.event_loop import Home
from spindle.adapters.tool_names import App, Offer, ToolChoice
from spindle.calls.content import NOTHING, Part, TextPart, parts_of, text_of
from spindle.calls.framing import framed, framed_parts, visible_value
from spindle.calls.options import DEFAULT_OPTIONS, CallOptions
from spindle.domain.call import Result
from spindle.domain.identity import Principal
from spindle.errors import InvalidArgumentsError, SpindleError, ToolError
from spindle.runs.outcomes import Finished, Paused
from spindle.schemas.models import model_description, model_schema

# Arguments are checked against the tool's own schema, on the path of every call.
_ANY_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))

ChoosePrincipal = Callable[[RunContext[AgentDepsT]], Principal]


class SpindleToolset(AbstractToolset[AgentDepsT]):
    """Tools of a catalog for `Agent(toolsets=[…])`: all, or those that match one of `names` (globs over full
    names), a source or a tag. `options` apply to every call; `principal` takes the run's context, such as its
    `deps`, and returns the principal of its calls.

    The tools are read from the catalog at each step. Bad arguments go back to the model for correction, up to
    `max_retries` times; other errors go to it as failures. A call that waits for a person is deferred: the
    run ends with DeferredToolRequests, whose `metadata` holds the pauses.
    """

    def __init__(
        self,
        app: App,
        *names: str,
        source: str | None = None,
        tag: str | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
        principal: ChoosePrincipal[AgentDepsT] | None = None,
        max_retries: int | None = None,
        id: str | None = None,
    ) -> None:
        self._app = app
        self._choice = ToolChoice(names, source, tag)
        self._options = options
        self._principal = principal
        self._max_retries = max_retries
        self._id = id
        self._home = Home()
        self._offered: tuple[int, Offer] | None = None
        """The tools offered in this run, and the version of the catalog that they are from."""

    @property
    def id(self) -> str | None:
        return self._id

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> SpindleToolset[AgentDepsT]:
        """A toolset of its own for every run, acting for that run's principal."""
        own = copy(self)
        own._offered = None
        if self._principal is not None:
            own._options = replace(self._options, principal=self._principal(ctx))
        return own

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        offer = await self._home.run(self._offer())
        retries = ctx.max_retries if self._max_retries is None else self._max_retries
        return {
            name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=name,
                    description=model_description(tool),
                    parameters_json_schema=model_schema(tool),
                    metadata={"tool": tool.name, "source": tool.source, "hints": tool.hints.to_dict()},
                ),
                max_retries=retries,
                args_validator=_ANY_OBJECT,
            )
            for name, tool in offer.tools.items()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        offer = self._offered[1] if self._offered else await self._home.run(self._offer())
        try:
            made = await offer.outcome(name, tool_args)
        except InvalidArgumentsError as error:
            raise ModelRetry(error.message) from error
        except SpindleError as error:
            hint = error.hint_for("model")
            raise ToolFailed(f"{error.message}\nhint: {hint}" if hint else error.message) from error
        if isinstance(made, Paused):
            pauses = [pause.to_dict() for pause in made.pauses]
            raise CallDeferred(metadata={"run_id": made.run_id, "pauses": pauses})
        if made.is_error:
            raise ToolFailed(text_of(framed_parts(await parts_of(made), name)))
        return await returned(made, name)

    async def _offer(self) -> Offer:
        await self._app.catalog.look_again()
        if self._offered is None or self._offered[0] != await self._app.catalog.stored_version.number():
            offer = await Offer.of(self._app, self._choice, self._options)
            self._offered = (await self._app.catalog.stored_version.number(), offer)
        return self._offered[1]


async def returned(result: Result, name: str = "the tool") -> Any:
    """The value that a pydantic-ai tool would return: the structured data, or text and images, as data."""
    parts = framed_parts(await parts_of(result), name)
    if all(isinstance(part, TextPart) for part in parts):
        return visible_value(result.structured) if result.has_structured else text_of(parts)
    return [_shown(part) for part in parts]


def _shown(part: Part) -> str | BinaryContent:
    if isinstance(part, TextPart):
        return part.text
    return BinaryContent(base64.b64decode(part.data), media_type=part.mime_type)


async def deferred_result(outcome: Finished | SpindleError) -> Any:
    """The entry of `DeferredToolResults.calls` for a paused call, from the outcome that `app.resume`
    returned or the error that it raised."""
    if isinstance(outcome, SpindleError):
        return ToolFailed(outcome.message)
    if outcome.result.is_error:
        return ToolFailed(framed(outcome.result.text or NOTHING, "the tool"))
    return await returned(outcome.result)


def from_pydantic_ai(tool: Tool[Any]) -> Callable[..., Awaitable[Any]]:
    """Turns a pydantic-ai tool into a function for `spindle.open(tools=[…])`, with its own name and
    schema. A tool that takes the context of a run cannot be used: there is no run."""
    from spindle.sources.code.decorator import tool as offered

    if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may not check types
        raise TypeError(f"this is not a tool of pydantic-ai: {tool!r}")
    if tool.takes_ctx:
        raise TypeError(
            f"the tool {tool.name!r} takes a RunContext, which only pydantic-ai's own runs have; write a "
            "function without it"
        )
    schema = tool.function_schema

    @offered(name=tool.name, description=tool.description or "", input_schema=schema.json_schema)
    async def call(**arguments: Any) -> Any:
        try:
            checked = schema.validator.validate_python(arguments)
        except ValidationError as error:
            raise ToolError(f"the arguments do not fit: {error}") from error
        try:
            return await schema.call(checked, cast(Any, None))
        except (ModelRetry, ToolFailed) as error:
            raise ToolError(error.message) from error

    return call
