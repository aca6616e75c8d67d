"""Answers MCP servers that ask for a language model (sampling): by that of the agent that made the call, or
by the workspace's.

Only texts go in and out, and no tools: the server gets an answer to its own words, not an agent. It learns
nothing of the conversation in which its tool was called, whatever it asks for.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.calls.rates import RateLimiter
from spindle.calls.sampling import Sampling
from spindle.domain.identity import LOCAL
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ClientError, RateLimitedError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model

    from spindle.agents.usage import Budget
    from spindle.domain.identity import Principal
    from spindle.domain.sampling import SamplingConfig
    from spindle.settings import Settings

logger = logging.getLogger("spindle.sampling")


class WorkspaceSampling:
    """Makes the models that answer servers, within the limits of the settings."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        environ: Mapping[str, str] | None,
        named: Callable[[str], Awaitable[Model]],
    ) -> None:
        """`settings` gives those in force, and `named` the model of a name."""
        self._settings = settings
        self._environ = environ
        self._named = named
        self._rate: RateLimiter | None = None

    def of_workspace(self, principal: Principal) -> Sampling | None:
        """The model of the settings that answers in the calls of a principal, if there is one."""
        settings = self._settings()
        config = settings.sampling(self._environ)
        name = config.model
        if name is None and principal.id == LOCAL.id and "agent" in settings.raw:
            # The model of [agent] was not chosen for this: only the owner, who pays for it, has it answer.
            name = settings.agent(self._environ).model
        if name is None:
            return None

        async def sample(params: JsonObject) -> JsonObject:
            self._require_rate(config, principal)
            model = await self._named(name)
            return _as_result(model, await _ask(model, config, params, config.timeout))

        return Sampling(sample, config.max_requests, config.approve)

    def of_agent(self, model: Model, budget: Budget, principal: Principal) -> Sampling:
        """The model of an agent. What it uses is part of what the agent may use."""
        config = self._settings().sampling(self._environ)

        async def sample(params: JsonObject) -> JsonObject:
            from spindle.calls.delegation import LimitReachedError

            self._require_rate(config, principal)
            try:
                budget.check(0)
            except LimitReachedError as reached:
                raise ClientError(f"the limit `{reached.by}` of the agent is used up") from None
            left = budget.remaining
            timeout = config.timeout if left is None else min(config.timeout, left)
            response = await _ask(model, config, params, timeout)
            budget.add_sampled(response)
            return _as_result(model, response)

        return Sampling(sample, config.max_requests, config.approve)

    def _require_rate(self, config: SamplingConfig, principal: Principal) -> None:
        if config.rate_limit is None:
            return
        if self._rate is None or self._rate.limit != config.rate_limit:
            self._rate = RateLimiter(config.rate_limit)
        wait = self._rate.take(principal.id)
        if wait is not None:
            raise RateLimitedError(
                f"servers have asked the model too often: the next answer is in {wait:.3g} s",
                hint="see `rate_limit` in [sampling]",
                retry_after=wait,
            )


async def _ask(model: Model, config: SamplingConfig, params: JsonObject, timeout: float) -> ModelResponse:
    """The model's answer to the parameters of `sampling/createMessage`. Raises a SpindleError."""
    from spindle.agents.model_request import ask

    if params.get("tools"):
        raise ClientError("tools are not offered to a model that a server asks")
    messages = _messages(params, config.max_input)

    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    wanted = params.get("maxTokens")
    most = config.max_tokens
    settings = ModelSettings(max_tokens=min(wanted, most) if isinstance(wanted, int) and wanted > 0 else most)
    temperature, stop = params.get("temperature"), params.get("stopSequences")
    if isinstance(temperature, (int, float)):
        settings["temperature"] = float(temperature)
    if is_array(stop) and stop:
        settings["stop_sequences"] = [str(item) for item in stop]
    response = await ask(model, messages, ModelRequestParameters(), settings, timeout)
    used = response.usage
    logger.info(
        "%s answered a server: %d tokens in, %d out", model.model_name, used.input_tokens, used.output_tokens
    )
    return response


def _as_result(model: Model, response: ModelResponse) -> JsonObject:
    return {
        "role": "assistant",
        "content": {"type": "text", "text": _said(response)},
        "model": response.model_name or model.model_name,
        "stopReason": "maxTokens" if response.finish_reason == "length" else "endTurn",
    }


def _messages(params: JsonObject, most: int) -> list[ModelMessage]:
    from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart

    given = params.get("messages")
    texts = [(item.get("role"), _text(item)) for item in given if is_object(item)] if is_array(given) else []
    system = params.get("systemPrompt")
    if not texts:
        raise ClientError("a server asked the model nothing")
    if sum(len(text) for _, text in texts) + len(str(system or "")) > most:
        raise ClientError(f"a server asked the model with more than {most} characters")
    found: list[ModelMessage] = []
    if isinstance(system, str) and system:
        found.append(ModelRequest([SystemPromptPart(system)]))
    for role, text in texts:
        if role == "assistant":
            found.append(ModelResponse([TextPart(text)]))
        else:
            found.append(ModelRequest([UserPromptPart(text)]))
    return found


def _text(message: JsonObject) -> str:
    content: Any = message.get("content")
    blocks = content if is_array(content) else [content]
    found: list[str] = []
    for block in blocks:
        if not is_object(block) or block.get("type") != "text":
            raise ClientError("only texts are passed to a model that a server asks")
        found.append(str(block.get("text", "")))
    return "\n".join(found)


def _said(response: ModelResponse) -> str:
    from pydantic_ai.messages import TextPart

    return "".join(part.content for part in response.parts if isinstance(part, TextPart))
