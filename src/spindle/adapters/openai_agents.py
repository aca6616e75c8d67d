"""Tools of a catalog for the OpenAI Agents SDK, and tools of the SDK in a catalog."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any

try:
    from agents.strict_schema import ensure_strict_json_schema
    from agents.tool_context import ToolContext

    from agents import (
        AgentBase,
        FunctionTool,
        RunContextWrapper,
        RunState,
        ToolApprovalItem,
        ToolOutputImage,
        ToolOutputText,
        UserError,
    )
except ImportError as error:
    raise ImportError(
        "spindle.adapters.openai_agents needs openai-agents: pip install openai-agents"
    ) from error

from spindle.adapters.dispatch import CallPaused, PausedCall
from spindle.adapters.tool_names import App, Offer, ToolChoice
from spindle.calls.content import Part, TextPart, parts_of, text_of
from spindle.calls.framing import framed_parts
from spindle.calls.options import DEFAULT_OPTIONS, CallOptions
from spindle.calls.permissions import Visible
from spindle.calls.validate import read_arguments
from spindle.domain.call import Block, Result
from spindle.domain.identity import Principal
from spindle.domain.json_schema import JsonObject, is_object, to_json
from spindle.errors import SpindleError
from spindle.runs.outcomes import OpenPause, Paused
from spindle.schemas.models import model_description, model_schema

ChoosePrincipal = Callable[[RunContextWrapper[Any]], Principal]
Output = str | list[ToolOutputText | ToolOutputImage]

REFUSED = "the call was rejected"
MAX_HELD = 4096
"""Calls that are made and not yet asked for their result, or that wait for a person, in one list of tools."""


class AgentTools(list[FunctionTool]):
    """Tools of a catalog for `Agent(tools=…)`, made by `tools`, and the pauses of their calls."""

    def __init__(
        self, offer: Offer, principal: ChoosePrincipal | None, visible: Visible, *, strict: bool
    ) -> None:
        self._offer = offer
        self._principal = principal
        self._visible = visible
        self._made: OrderedDict[str, Result] = OrderedDict()
        """By the id of the run, the result of a call that did not have to wait."""
        self._waiting: OrderedDict[str, tuple[str, str]] = OrderedDict()
        """By the id of the run, the tool and the call of the SDK that wait for a person."""
        super().__init__(self._tool(name, strict=strict) for name in offer.tools)

    async def pauses(self, interruption: ToolApprovalItem) -> list[OpenPause]:
        """Returns what an interruption waits for. Empty: it was answered elsewhere and can be approved."""
        name, call_id = interruption.tool_name or "", interruption.call_id or ""
        return await self._offer.pauses(_run_id(name, call_id, interruption.arguments))

    async def answer(
        self, state: RunState[Any, Any], interruption: ToolApprovalItem, answer: Any = True
    ) -> None:
        """Answers the only pause of an interruption of this state. Raises what is wrong with the answer; the
        pause can then still be answered."""
        await self._offer.resumed(await self._only(interruption), answer)
        state.approve(interruption)

    async def refuse(
        self, state: RunState[Any, Any], interruption: ToolApprovalItem, reason: str = REFUSED
    ) -> None:
        """Refuses the only pause of an interruption. What the tool says to that is its result."""
        await self._offer.resumed(await self._only(interruption), refused=reason)
        state.approve(interruption)

    async def _only(self, interruption: ToolApprovalItem) -> OpenPause:
        found = await self.pauses(interruption)
        if len(found) != 1:
            raise SpindleError(
                f"this interruption has {len(found)} pauses that can be answered",
                hint="answer each by its token, with app.resume" if found else None,
            )
        return found[0]

    # --- as the SDK calls it

    def _tool(self, name: str, *, strict: bool) -> FunctionTool:
        found = self._offer.tools[name]
        schema = model_schema(found)

        async def needs_approval(
            context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str
        ) -> bool:
            if made.tool_input_guardrails:
                return False  # they come first: the call is made once they have let it pass
            return await self._begin(context, name, arguments, call_id)

        async def invoke(context: ToolContext[Any], arguments: str) -> Output:
            return await self._invoke(context, name, arguments)

        async def is_enabled(context: RunContextWrapper[Any], agent: AgentBase[Any]) -> bool:
            await self._give_up_rejected(context)
            return self._principal is None or self._visible(self._principal(context), found.name)

        made = FunctionTool(
            name=name,
            description=model_description(found),
            params_json_schema=deepcopy(schema),  # the SDK writes into it
            on_invoke_tool=invoke,
            strict_json_schema=strict and _is_strict(schema),
            is_enabled=is_enabled,
            needs_approval=needs_approval,
        )
        return made

    async def _begin(
        self, context: RunContextWrapper[Any], name: str, arguments: object, call_id: str
    ) -> bool:
        """Makes the call. True if it waits for a person."""
        run_id = _run_id(name, call_id, arguments)
        made = await self._call(context, name, arguments, run_id)
        if isinstance(made, Paused):
            _hold(self._waiting, run_id, (name, call_id))
            return True
        self._waiting.pop(run_id, None)
        _hold(self._made, run_id, made)
        return False

    async def _invoke(self, context: ToolContext[Any], name: str, arguments: str) -> Output:
        run_id = _run_id(name, context.tool_call_id, arguments)
        made: Result | Paused | None = self._made.pop(run_id, None)
        if made is None:
            made = await self._call(context, name, arguments, run_id)
            if isinstance(made, Paused) and context.is_tool_approved(name, context.tool_call_id):
                made = await self._approved(made)
        if isinstance(made, Paused):
            raise CallPaused(
                [PausedCall(context.tool_call_id, name, made.run_id, "openai_agents", made.pauses)]
            )
        self._waiting.pop(run_id, None)
        parts = framed_parts(await parts_of(made), name)
        # The API has no field that marks an error.
        return _output([TextPart("Error:"), *parts] if made.is_error else parts)

    def _call(
        self, context: RunContextWrapper[Any], name: str, arguments: object, run_id: str
    ) -> Awaitable[Result | Paused]:
        options: dict[str, Any] = {"run_id": run_id}
        if self._principal is not None:
            options["principal"] = self._principal(context)
        return self._offer.answer(name, arguments, **options)

    async def _approved(self, paused: Paused) -> Result | Paused:
        """Answers what an approval of the SDK answers; a question or a consent needs more than a yes."""
        made: Result | Paused = paused
        for pause in paused.pauses:
            if pause.kind == "approval":
                made = await self._offer.resumed(pause, True)
        return made

    async def _give_up_rejected(self, context: RunContextWrapper[Any]) -> None:
        """Refuses what the SDK was told to reject, so that nobody allows it later."""
        for run_id, (name, call_id) in list(self._waiting.items()):
            if context.is_tool_approved(name, call_id) is False:
                del self._waiting[run_id]
                for pause in await self._offer.pauses(run_id):
                    await self._offer.resumed(pause, refused=REFUSED)


async def tools(
    app: App,
    *names: str,
    source: str | None = None,
    tag: str | None = None,
    options: CallOptions = DEFAULT_OPTIONS,
    principal: ChoosePrincipal | None = None,
    strict: bool = False,
) -> AgentTools:
    """Chooses tools of the catalog for the Agents SDK: all, or those that match one of `names` (globs over
    full names), a source or a tag. `options` apply to every call; `principal` takes the context of the SDK's
    run and returns the principal of its calls. With `strict`, tools whose schemas say the same in the strict
    form are offered in it.

    An error becomes text that the model reads. A call that waits for a person interrupts the SDK's run:
    approve or reject the interruption in the run's state, or answer a question with `answer`, and run the
    agent with that state. Calls are known by their ids, so a model's API has to give each its own.
    """
    offer = await Offer.of(app, ToolChoice(names, source, tag), options)
    return AgentTools(offer, principal, app.visible, strict=strict)


def _run_id(name: str, call_id: str, arguments: object) -> str:
    """The id of the run that a call becomes if it has to wait: the same in every process."""
    try:
        given: object = read_arguments(arguments)
    except SpindleError:
        given = str(arguments)
    told = to_json([name, call_id, given], sort_keys=True)
    return f"agents-{hashlib.sha256(told).hexdigest()[:32]}"


def _hold(held: OrderedDict[str, Any], key: str, value: object) -> None:
    held[key] = value
    if len(held) > MAX_HELD:
        held.popitem(last=False)


def _is_strict(schema: JsonObject) -> bool:
    """True if the strict form of a schema takes the same arguments as the schema."""
    try:
        return ensure_strict_json_schema(deepcopy(schema)) == schema
    except UserError:
        return False


def _output(parts: list[Part]) -> Output:
    if all(isinstance(part, TextPart) for part in parts):
        return text_of(parts)
    return [
        ToolOutputText(text=part.text)
        if isinstance(part, TextPart)
        else ToolOutputImage(image_url=part.url, detail="auto")
        for part in parts
    ]


def from_openai_agents(tool: FunctionTool) -> Callable[..., Awaitable[Result]]:
    """Turns a tool of the Agents SDK into a function for `spindle.open(tools=[…])`, with its own name and
    schema. It gets a context without the state of a run."""
    from spindle.sources.code.decorator import tool as offered

    if not isinstance(tool, FunctionTool):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may not check types
        raise TypeError(f"this is not a function tool of the Agents SDK: {tool!r}")
    schema = {key: value for key, value in tool.params_json_schema.items() if key != "title"}

    @offered(name=tool.name, description=tool.description, input_schema=schema)
    async def call(**arguments: Any) -> Result:
        sent = to_json(arguments).decode()
        context: ToolContext[Any] = ToolContext(
            None, tool_name=tool.name, tool_call_id="", tool_arguments=sent
        )
        answer: object = await tool.on_invoke_tool(context, sent)
        items = answer if isinstance(answer, list) else [answer]  # pyright: ignore[reportUnknownVariableType]
        return Result(tuple(_block(item) for item in items))  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]

    return call


def _block(item: object) -> Block:
    if isinstance(item, ToolOutputText):
        return Block("text", text=item.text)
    if isinstance(item, ToolOutputImage) and (item.image_url or "").startswith("data:"):
        head, _, data = (item.image_url or "").partition(",")
        return Block("image", data=data, mime_type=head.removeprefix("data:").partition(";")[0])
    plain = item if is_object(item) or isinstance(item, str) else str(item)
    return Block("text", text=plain if isinstance(plain, str) else to_json(plain).decode())
