"""Models of pydantic-ai that ask the scripted server."""

from __future__ import annotations

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from spindle.testing import ModelServer


class client:
    """A model of one of the APIs, by its name."""

    def __init__(self, api: str, server: ModelServer) -> None:
        self._api = api
        self._client: AsyncAnthropic | AsyncOpenAI
        if api == "anthropic":
            self._client = AsyncAnthropic(base_url=server.anthropic_url, api_key="any", max_retries=0)
        else:
            self._client = AsyncOpenAI(base_url=server.openai_url, api_key="any", max_retries=0)

    async def __aenter__(self) -> Model:
        if isinstance(self._client, AsyncAnthropic):
            return AnthropicModel(
                "claude-scripted", provider=AnthropicProvider(anthropic_client=self._client)
            )
        kind = OpenAIChatModel if self._api == "openai-chat" else OpenAIResponsesModel
        return kind("gpt-scripted", provider=OpenAIProvider(openai_client=self._client))

    async def __aexit__(self, *error: object) -> None:
        await self._client.close()
