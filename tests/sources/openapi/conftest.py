"""Sessions of documents."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from servers.echo_server import Api, OpenApi
from spindle.catalog.screening import take
from spindle.domain.identity import NO_CREDENTIAL, Credential
from spindle.sources.openapi import OpenApiSource
from spindle.sources.openapi.config import OpenApiConfig


@pytest.fixture
def open_api(tmp_path: Path) -> OpenApi:
    @contextlib.asynccontextmanager
    async def opened(
        written: Any = None, credential: Credential = NO_CREDENTIAL, at: str = "api.json", **settings: Any
    ) -> AsyncIterator[Api]:
        if written is not None:
            text = written if isinstance(written, str) else json.dumps(written)
            (tmp_path / "api.json").write_text(text)
        config = OpenApiConfig.model_validate({"document": at, **settings})
        notes: list[str] = []
        source = OpenApiSource("api", config, tmp_path, notes.append)
        async with source.open(credential, lambda: None) as session:
            taken = take("api", config, await session.discover())
            reasons = {item.name: item.reason for item in taken.left_out}
            tools = {tool.local_name: tool for tool in taken.tools}
            yield Api(session, tools, notes, credential, reasons)

    return opened
