"""Spans of OpenTelemetry along the path of a call: gateway, call, attempt, source, and on to the upstream.

The trace of a client comes in `_meta`, or in the headers of its request, and what leaves carries our own span
in its place. While tracing is off nothing of OpenTelemetry is imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from spindle.domain.json_schema import JsonObject, is_object
from spindle.mcp_protocol.errors import McpError
from spindle.version import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

    from spindle.domain.tool import Tool

T = TypeVar("T")

KEYS: Final = ("traceparent", "tracestate", "baggage")
"""The fields by which a trace travels, in `_meta` and in headers."""
MAX_FIELD: Final = 8192
Kind = Literal["server", "internal", "client"]

active: Tracing | None = None
"""Makes the spans of this process; None while tracing is off."""


class Tracing:
    """Makes spans with the tracer of a provider: the process's own, or one that is given."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        from opentelemetry import trace
        from opentelemetry.baggage.propagation import W3CBaggagePropagator
        from opentelemetry.propagators.composite import CompositePropagator
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = trace.get_tracer("spindle", __version__, tracer_provider=provider)
        self._propagator = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
        kinds = trace.SpanKind
        self._kinds = {"server": kinds.SERVER, "internal": kinds.INTERNAL, "client": kinds.CLIENT}

    async def within(
        self,
        name: str,
        kind: Kind,
        attributes: Mapping[str, Any],
        work: Awaitable[T],
        judge: Callable[[T], str | None] | None = None,
        came_with: tuple[Mapping[str, str], Mapping[str, str]] | None = None,
    ) -> T:
        """Does the work in a span of this name. `judge` returns the kind of error that a result reports.
        `came_with`: the fields of `_meta` and of headers, of which the first that has a trace is the parent,
        and the other a link."""
        from opentelemetry.trace import Link, Status, StatusCode, get_current_span

        parent: Context | None = None
        links: list[Link] = []
        for carrier in came_with or ():
            if "traceparent" not in carrier:
                continue
            found = self._propagator.extract(carrier)
            if parent is None:
                parent = found
            else:
                links.append(Link(get_current_span(found).get_span_context()))
        kept = {key: value for key, value in attributes.items() if value is not None}
        with self._tracer.start_as_current_span(
            name,
            parent,
            self._kinds[kind],
            kept,
            links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                result = await work
            except BaseException as error:
                # Messages stay out: they may quote what a trace must not hold.
                self._failed(span, _kind_of(error), Status(StatusCode.ERROR))
                if isinstance(error, McpError):
                    span.set_attribute("rpc.response.status_code", str(error.code))
                raise
            problem = judge(result) if judge is not None else None
            if problem is not None:
                self._failed(span, problem, Status(StatusCode.ERROR))
            return result

    @staticmethod
    def _failed(span: Span, kind: str, status: Any) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(status)

    def carried(self) -> dict[str, str]:
        """The fields by which the current span travels on."""
        fields: dict[str, str] = {}
        self._propagator.inject(fields)
        return fields


def _kind_of(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if isinstance(error, McpError):
        return str(error.code)
    return str(getattr(error, "category", type(error).__name__))


def from_meta(meta: Any) -> dict[str, str]:
    """The fields of a trace in the `_meta` of a request: strings of a sensible length, and nothing else."""
    if not is_object(meta):
        return {}
    found = {key: meta.get(key) for key in KEYS}
    return {key: text for key, text in found.items() if isinstance(text, str) and len(text) <= MAX_FIELD}


def from_headers(scope: Mapping[str, Any] | None) -> dict[str, str]:
    """The same in the headers of an HTTP request."""
    if scope is None:
        return {}
    wanted = {key.encode(): key for key in KEYS}
    return {
        wanted[name]: value.decode("latin-1")
        for name, value in scope["headers"]
        if name in wanted and len(value) <= MAX_FIELD
    }


# --- the places of a call; each returns the work as it is while tracing is off


def call(tool: str, principal: str, work: Awaitable[T]) -> Awaitable[T]:
    """A call, with everything that it takes."""
    if active is None:
        return work
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "spindle.principal": principal,
    }
    return active.within(f"execute_tool {tool}", "internal", attributes, work, _of_result)


def follow(caller: Any) -> None:
    """Has a caller's calls be spans, if tracing is on by the time that it is made."""
    if active is None:
        return
    make = caller.make

    def made(name: str, given: JsonObject, options: Any, journal: Any) -> Awaitable[Any]:
        return call(name, options.principal.id, make(name, given, options, journal))

    caller.make = made


def attempt(running: Any, work: Awaitable[T]) -> Awaitable[T]:
    """One attempt of a call that is running: waiting for its turn, connecting and sending."""
    if active is None:
        return work
    tool: Tool = running.prepared.tool
    attributes = {"gen_ai.tool.name": tool.name, "spindle.attempt": running.attempts + 1}
    return active.within(f"attempt {tool.name}", "internal", attributes, work, _of_result)


def source(tool: Tool, work: Awaitable[T]) -> Awaitable[T]:
    """The request to the source of a tool, and its answer."""
    if active is None:
        return work
    is_mcp, local = tool.kind == "mcp", tool.spec.remote_name
    attributes = {
        "mcp.method.name": "tools/call" if is_mcp else None,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": local,
        "spindle.source": tool.source,
        "spindle.source.kind": tool.kind,
    }
    title = f"tools/call {local}" if is_mcp else f"{tool.kind} {local}"
    return active.within(title, "client", attributes, work, _of_result)


def work_named(operation: str, name: str, work: Awaitable[T]) -> Awaitable[T]:
    """A flow, a node, an agent, or a question to a model: `operation` is that of the GenAI conventions."""
    if active is None:
        return work
    attributes = {"gen_ai.operation.name": operation, "spindle.name": name}
    kind: Kind = "client" if operation == "chat" else "internal"
    return active.within(f"{operation} {name}".strip(), kind, attributes, work)


def sent_on(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of an MCP request to a source, with our own span in `_meta` in place of the client's."""
    if active is None:
        return params
    meta = params.get("_meta")
    return {**params, "_meta": {**(meta if is_object(meta) else {}), **active.carried()}}


def trace_id() -> str | None:
    """The id of the current trace, as its tools show it; None while tracing is off."""
    if active is None:
        return None
    from opentelemetry.trace import format_trace_id, get_current_span

    found = get_current_span().get_span_context()
    return format_trace_id(found.trace_id) if found.is_valid else None


def headers() -> dict[str, str]:
    """The headers by which the current span travels over HTTP; none while tracing is off."""
    return {} if active is None else active.carried()


def served_http(
    method: str, route: str, scope: Mapping[str, Any], principal: str, work: Awaitable[T]
) -> Awaitable[T]:
    """A request of a client of ours over REST: `route` is the path that its kind have in common."""
    if active is None:
        return work
    attributes = {
        "http.request.method": method,
        "http.route": route,
        "url.scheme": scope.get("scheme"),
        "network.transport": "tcp",
        "spindle.principal": principal,
    }
    return active.within(
        f"{method} {route}", "server", attributes, work, _of_response, ({}, from_headers(scope))
    )


def _of_response(response: Any) -> str | None:
    status = getattr(response, "status_code", 200)
    return str(status) if status >= 500 else None


def _of_result(result: Any) -> str | None:
    if getattr(result, "is_error", False):
        return "tool_error"
    return "tool_error" if is_object(result) and result.get("isError") is True else None


def served(
    method: str, name: str, meta: Any, scope: Mapping[str, Any] | None, facts: JsonObject, work: Awaitable[T]
) -> Awaitable[T]:
    """A request of a client of ours."""
    if active is None:
        return work
    is_tool = method == "tools/call"
    attributes = {
        "mcp.method.name": method,
        "gen_ai.operation.name": "execute_tool" if is_tool else None,
        "gen_ai.tool.name": name if is_tool else None,
        "gen_ai.prompt.name": name if method == "prompts/get" else None,
        "mcp.resource.uri": name if method.startswith("resources/") and name else None,
        "network.transport": "pipe" if scope is None else "tcp",
        **facts,
    }
    came = from_meta(meta), from_headers(scope)
    title = f"{method} {name}" if is_tool or method == "prompts/get" else method
    return active.within(title, "server", attributes, work, _of_result, came)
