"""Agents against the scripted model, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pydantic_ai.models import Model

from servers.model_clients import client
from spindle.testing import ModelServer


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as found:
        yield found


@pytest.fixture(params=["openai-chat", "openai-responses", "anthropic"])
async def any_model(request: pytest.FixtureRequest, server: ModelServer) -> AsyncIterator[Model]:
    """Each of the APIs in turn."""
    async with client(request.param, server) as found:
        yield found


@pytest.fixture
async def model(server: ModelServer) -> AsyncIterator[Model]:
    async with client("openai-chat", server) as found:
        yield found
