from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from utcp_service import Opened, OpenManual, Service

from spindle.catalog.naming import name_tools
from spindle.domain.identity import NO_CREDENTIAL, Credential
from spindle.sources.utcp import UtcpSource
from spindle.sources.utcp.config import UtcpConfig


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with Service().running() as running:
        yield running


@pytest.fixture
def open_manual(tmp_path: Path) -> OpenManual:
    """`async with open_manual(document) as opened`: a session of that document, written to a file, or of
    the one at a URL (`at=`)."""

    @contextlib.asynccontextmanager
    async def opened(
        written: Any = None,
        credential: Credential = NO_CREDENTIAL,
        at: str = "manual.json",
        name: str = "shop",
        **settings: Any,
    ) -> AsyncIterator[Opened]:
        if written is not None:
            text = written if isinstance(written, str) else json.dumps(written)
            (tmp_path / "manual.json").write_text(text)
        config = UtcpConfig.model_validate({"document": at, **settings})
        notes: list[str] = []
        async with UtcpSource(name, config, tmp_path, notes.append).open(credential, lambda: None) as session:
            tools = name_tools(name, config, await session.discover())
            yield Opened(session, {tool.spec.remote_name: tool for tool in tools}, notes)

    return opened
