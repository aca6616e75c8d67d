"""Asks a model for a document and tells it what is wrong, until the document is usable or a limit is
reached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import ModelRequestParameters

from spindle.agents.conversation import Conversation
from spindle.agents.model_request import ask
from spindle.calls.delegation import LimitReachedError
from spindle.errors import CallTimeoutError, ModelError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model

    from spindle.agents.limits import Limits
    from spindle.agents.usage import Budget

T = TypeVar("T")

REPHRASE: Final = "rephrase it, or use another model"


class UnusableError(Exception):
    """An answer that cannot be used. `what` completes "the model …"; `told` is what the model is told."""

    def __init__(self, what: str, told: str, details: Any = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.told = told
        self.details = details
        self.hint = hint


class Dialogue:
    """A conversation with a model about one document."""

    def __init__(
        self, model: Model, limits: Limits, budget: Budget, settings: Mapping[str, Any] | None = None
    ) -> None:
        self._model = model
        self._limits = limits
        self._budget = budget
        self._settings = settings

    async def until_usable(self, instructions: str, request: str, read: Callable[[str], Awaitable[T]]) -> T:
        """Returns the first answer that `read` accepts. `read` raises UnusableError for others; after too
        many of them this raises ModelError."""
        conversation = Conversation()
        conversation.say(request)
        parameters = ModelRequestParameters(instruction_parts=[InstructionPart(content=instructions)])
        useless = 0
        while True:
            response = await self._ask(conversation, parameters)
            conversation.respond(response)
            try:
                return await read(_text(response))
            except UnusableError as error:
                useless += 1
                if useless > self._limits.repairs:
                    raise ModelError(
                        f"the model {error.what}, {useless} times in a row",
                        hint=error.hint or REPHRASE,
                        details=error.details,
                    ) from None
                conversation.say(error.told)

    async def _ask(self, conversation: Conversation, parameters: ModelRequestParameters) -> ModelResponse:
        try:
            self._budget.check(self._budget.usage.requests + 1)
            remaining, request = self._budget.remaining, self._limits.request
            ends_first = remaining is not None and remaining < request
            timeout = remaining if remaining is not None and ends_first else request
            settings: Any = dict(self._settings) if self._settings else None
            try:
                response = await ask(self._model, conversation.messages(), parameters, settings, timeout)
            except CallTimeoutError:
                if ends_first:
                    raise LimitReachedError("time") from None
                raise
        except LimitReachedError as reached:
            raise ModelError(
                f"the limit of {reached.by} was reached before the model gave a usable answer",
                hint="raise it in [agent.limits], or rephrase it",
            ) from None
        self._budget.add(response, self._budget.recorded())
        return response


def _text(response: ModelResponse) -> str:
    text = (response.text or "").strip()
    if response.finish_reason == "content_filter":
        said = (response.provider_details or {}).get("refusal") or text
        what = f"the model refused: {said}" if said else "the provider's filter stopped the model's answer"
        raise ModelError(what, hint="rephrase it")
    if response.finish_reason == "length":
        raise UnusableError(
            "was cut off at the limit of tokens",
            "Your answer was cut off at the limit of tokens. Answer more briefly, with the JSON alone.",
            hint="ask for less at once, or use another model",
        )
    if not text:
        raise UnusableError("gave no answer", "Your answer was empty. Answer with one JSON object.")
    return text
