"""The kinds of source that must fulfil the contract. Another kind is one more entry in `KINDS`."""

from __future__ import annotations

from collections.abc import Mapping

from contract.kinds.events import MemoryEvents, NatsEvents, Webhooks
from contract.kinds.kind import PROPERTIES, Kind, Request
from contract.kinds.mcp import LegacySse, ModernHttp, Stdio, StreamableHttp
from contract.kinds.programs import Cli, UtcpPrograms
from contract.kinds.python import Flows, Mods, PythonFiles
from contract.kinds.web import DescribedHttp, OpenApi, PlainHttp, UtcpHttp
from contract.kinds.websocket import UtcpWebSocket, WebSocketInTurns, WebSocketWithIds

KINDS: Mapping[str, type[Kind]] = {
    "mcp over stdio": Stdio,
    "mcp over Streamable HTTP": StreamableHttp,
    "mcp over HTTP without sessions": ModernHttp,
    "mcp over legacy SSE": LegacySse,
    "openapi": OpenApi,
    "http": PlainHttp,
    "http with a description": DescribedHttp,
    "utcp over HTTP": UtcpHttp,
    "utcp over WebSocket": UtcpWebSocket,
    "utcp with programs": UtcpPrograms,
    "cli": Cli,
    "websocket with ids": WebSocketWithIds,
    "websocket in turns": WebSocketInTurns,
    "python": PythonFiles,
    "mods": Mods,
    "flows": Flows,
    "events in memory": MemoryEvents,
    "events by webhook": Webhooks,
    "events over NATS": NatsEvents,
}

__all__ = ["KINDS", "PROPERTIES", "Kind", "Request"]
