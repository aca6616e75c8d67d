from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from made_source import Answer, Desk, FakeClock, MadeSource, OpenDesk

import spindle
from spindle import plugins
from spindle.domain.tool import ToolSpec
from spindle.settings import Settings


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenDesk:
    """`async with desk(spec("x"), answer=..., max_concurrency=2) as d`: a workspace on disk whose source
    `made` has these tools; what is not known here is a setting of the source."""
    kinds = {**plugins.BUILT_IN, "made": "made_source:MadeSource"}
    monkeypatch.setattr(plugins, "BUILT_IN", kinds)

    @contextlib.asynccontextmanager
    async def opened(
        *specs: ToolSpec,
        answer: Answer | None = None,
        options: dict[str, Any] | None = None,
        others: dict[str, dict[str, Any]] | None = None,
        **settings: Any,
    ) -> AsyncIterator[Desk]:
        tables = {"made": {"kind": "made", **settings}}
        for name, table in (others or {}).items():
            tables[name] = {"kind": "made", **table}
        clock, notes = FakeClock(), list[str]()
        loaded = Settings(tmp_path, {"sources": tables})
        async with spindle.open(
            settings=loaded, clock=clock.clock, note=notes.append, **(options or {})
        ) as app:
            for name in tables:
                source = app.catalog.sources.get(name)
                assert isinstance(source, MadeSource)
                source.specs = list(specs)
                if answer is not None:
                    source.answer = answer
            made = app.catalog.sources.get("made")
            assert isinstance(made, MadeSource)
            yield Desk(app, made, clock, notes)

    return opened
