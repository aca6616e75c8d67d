"""Sends traces and metrics to a collector, by OTLP, where OpenTelemetry's own variables ask for it.

`OTEL_EXPORTER_OTLP_ENDPOINT` switches it on, and all other variables of the SDK count too. A program that has
set up OpenTelemetry itself gets our spans without any of this.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from spindle.telemetry import metrics, tracing
from spindle.version import __version__

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

    from spindle.ports.source import Note

WANTED: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
_meter: Meter | None = None


def switch_on(environ: Mapping[str, str], note: Note) -> None:
    """Makes spans, and exports them, if that is wanted and not so already."""
    if tracing.active is not None or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    if not any(environ.get(name) for name in WANTED):
        if _is_set_up():
            tracing.active = tracing.Tracing()
        return
    try:
        _export(environ)
    except ImportError:
        note(
            "OTEL_EXPORTER_OTLP_… asks for telemetry, which needs more libraries: pip install"
            " 'spindle-tools[telemetry]'"
        )
        return
    tracing.active = tracing.Tracing()


def meter() -> Meter | None:
    """The meter whose metrics are exported, if any are."""
    return _meter


def _is_set_up() -> bool:
    """True if the program we are in has chosen where spans go."""
    sdk = sys.modules.get("opentelemetry.sdk.trace")
    if sdk is None:
        return False
    from opentelemetry import trace

    return isinstance(trace.get_tracer_provider(), sdk.TracerProvider)


def _export(environ: Mapping[str, str]) -> None:
    global _meter  # noqa: PLW0603 - one exporter for a process
    from opentelemetry import metrics as api
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named: dict[str, Any] = {"service.version": __version__}
    if not environ.get("OTEL_SERVICE_NAME"):
        named["service.name"] = "spindle"
    about = Resource.create(named)
    if environ.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp" and not _is_set_up():
        provider = TracerProvider(resource=about)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
    if environ.get("OTEL_METRICS_EXPORTER", "otlp") == "otlp":
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        api.set_meter_provider(MeterProvider([reader], resource=about))
        _meter = api.get_meter("spindle", __version__)
        if metrics.active is None:
            metrics.active = metrics.Metrics(_meter)
