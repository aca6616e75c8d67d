from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from websocket_service import Service
from websockets.asyncio.server import serve


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    handle, check = made.handle, made.check
    async with serve(handle, "127.0.0.1", 0, process_request=check) as made.server:
        yield made
