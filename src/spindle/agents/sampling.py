"""Answers MCP servers that ask for a language model (sampling), with the workspace's own model.

Only texts go in and out, and no tools: the server gets an answer, not an agent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from spindle.agents.limits import Limits
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ClientError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model

    from spindle.domain.agent import AgentConfig

MAX_TOKENS = 4096
"""Of one answer, whatever the server asks for."""
MAX_INPUT = 200_000
"""Characters that a server may send to the model at once."""


def sampler(
    config: AgentConfig, named: Callable[[str], Awaitable[Model]]
) -> Callable[[JsonObject], Awaitable[JsonObject]]:
    """Returns who asks the workspace's model what a server wants to know. `named` finds the model."""

    async def sample(params: JsonObject) -> JsonObject:
        from spindle.agents.models import no_model

        if params.get("tools"):
            raise ClientError("tools are not offered to a model that a server asks")
        if config.model is None:
            raise no_model()
        return await answer_of(await named(config.model), config, params)

    return sample


async def answer_of(model: Model, config: AgentConfig, params: JsonObject) -> JsonObject:
    """The model's answer to the parameters of `sampling/createMessage`. Raises a SpindleError."""
    from spindle.agents.model_request import ask

    messages = _messages(params)

    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    limits = Limits.of(config.limits.model_dump(exclude_none=True))
    wanted = params.get("maxTokens")
    tokens = min(wanted, MAX_TOKENS) if isinstance(wanted, int) and wanted > 0 else MAX_TOKENS
    settings = ModelSettings(max_tokens=tokens)
    temperature, stop = params.get("temperature"), params.get("stopSequences")
    if isinstance(temperature, (int, float)):
        settings["temperature"] = float(temperature)
    if is_array(stop) and stop:
        settings["stop_sequences"] = [str(item) for item in stop]
    response = await ask(model, messages, ModelRequestParameters(), settings, limits.request)
    return {
        "role": "assistant",
        "content": {"type": "text", "text": _said(response)},
        "model": response.model_name or model.model_name,
        "stopReason": "maxTokens" if response.finish_reason == "length" else "endTurn",
    }


def _messages(params: JsonObject) -> list[ModelMessage]:
    from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart

    given = params.get("messages")
    texts = [(item.get("role"), _text(item)) for item in given if is_object(item)] if is_array(given) else []
    system = params.get("systemPrompt")
    if not texts:
        raise ClientError("a server asked the model nothing")
    if sum(len(text) for _, text in texts) + len(str(system or "")) > MAX_INPUT:
        raise ClientError(f"a server asked the model with more than {MAX_INPUT} characters")
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
