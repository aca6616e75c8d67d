"""What servers report keeps its meaning, in whatever shape they send it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from error_shapes import ERRORS, SENTENCES, SHAPES, STRUCTURED, Shape

from servers.running import OpenSources, StdioServers
from spindle.app import Spindle
from spindle.calls.reported import error_of, refined, understood
from spindle.domain.tool import Hints, Tool, ToolSpec
from spindle.errors import SpindleError
from spindle.mcp_protocol.errors import McpError
from spindle.presets import presets
from spindle.sources.mcp.config import McpConfig
from spindle.sources.mcp.convert import to_error, to_result

RAW = {"name": "raw", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
TOOL = Tool("s.raw", "s", "mcp", ToolSpec("raw", hints=Hints(read_only=True)), "f")


def told(error: SpindleError) -> tuple[str, int | None, float | None]:
    assert error.answered
    return error.category, error.status, error.retry_after


def meant(shape: Shape) -> tuple[str, int | None, float | None]:
    return shape.category, shape.status, shape.retry_after


def settings_of(shape: Shape) -> dict[str, Any]:
    """The settings of a source that is the preset's server, as far as they matter."""
    settings: dict[str, Any] = {"errors": shape.rules}
    if shape.preset is None:
        return {**settings, "command": ["program"]}
    preset = presets()[shape.preset]
    return settings | ({"url": preset.url} if preset.url else {"command": [*preset.launched]})


def test_the_table_has_the_shapes_of_many_servers() -> None:
    assert len(SHAPES) >= 130
    assert len({shape.name for shape in SHAPES}) == len(SHAPES)


@pytest.mark.parametrize("shape", [*STRUCTURED, *SENTENCES], ids=lambda shape: shape.name)
def test_a_failed_result_means_what_the_server_meant(shape: Shape) -> None:
    config = McpConfig(**settings_of(shape))
    if "error" in shape.wire:
        found = to_error(McpError(**shape.wire["error"]), "s")
        error = refined(found, TOOL, config)
    else:
        result = understood(to_result(shape.wire["result"]), config)
        assert result.category == shape.category
        error = error_of(TOOL, result)
    assert told(error) == meant(shape)


@pytest.mark.parametrize("shape", ERRORS, ids=lambda shape: shape.name)
def test_a_json_rpc_error_means_what_the_server_meant(shape: Shape) -> None:
    config = McpConfig(**settings_of(shape))
    error = refined(to_error(McpError(**shape.wire["error"]), "s"), TOOL, config)
    assert told(error) == meant(shape)


# --- through a server's process


async def answered(app: Spindle, source: str, shape: Shape, modern: bool) -> tuple[Any, ...]:
    """What a caller learns of the answer, and how often the server was asked."""
    wire = dict(shape.wire)
    if modern and "result" in wire:
        wire["result"] = {"resultType": "complete", **wire["result"]}
    line = json.dumps({"jsonrpc": "2.0", "id": "$ID", **wire}).replace('"$ID"', "$ID")
    try:
        result = await app.call(f"{source}.raw", line=line)
    except SpindleError as error:
        found: dict[str, Any] = error.to_dict()
    else:
        assert result.is_error
        found = result.to_dict()
    (record,) = await app.history(limit=1)
    assert record.outcome == found["category"]
    assert record.error is not None
    assert record.error["category"] == found["category"]
    retryable = found.get("retryable", False)
    assert record.error.get("retryable", False) == retryable
    facts = (found["category"], found.get("status"), found.get("retry_after"), retryable)
    return (*facts, record.attempts)


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
async def test_a_real_server_is_understood_in_every_shape(
    open_sources: OpenSources, stdio_server: StdioServers, modern: bool
) -> None:
    sources: dict[str, dict[str, Any]] = {}
    homes: dict[str, str] = {}
    for number, shape in enumerate(SHAPES):
        preset = presets()[shape.preset] if shape.preset else None
        if preset is not None and preset.url:
            continue  # it is known by its address
        name = f"rules{number}" if shape.rules else preset.name if preset else "plain"
        homes[shape.name] = name
        if name not in sources:
            made = stdio_server(name, modern=modern, tools=[RAW])
            word = [f"{preset.package}@{preset.version}"] if preset else []
            sources[name] = {**made, "command": [*made["command"], *word], "errors": shape.rules}
    async with open_sources(sources) as app:
        await app.sync()
        found = {
            shape.name: await answered(app, homes[shape.name], shape, modern)
            for shape in SHAPES
            if shape.name in homes
        }
    # More failures in a row than any breaker allows: whatever it reports, a server that answers is well.
    assert found == {
        shape.name: (*meant(shape), shape.retryable, 3 if shape.retryable else 1)
        for shape in SHAPES
        if shape.name in homes
    }
    assert len(found) >= 120
