"""Metrics of a server: counted here, shown as Prometheus reads them, and handed to OpenTelemetry if it is on.

No label names a user. The number of series is bounded: what comes beyond it is counted under `other`.
"""

from __future__ import annotations

import bisect
import os
import resource
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from spindle.version import __version__

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

    from spindle.domain.call import CallRecord

BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Seconds, as the conventions for MCP have them."""
MAX_SERIES: Final = 5000
"""Of one metric."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

active: Metrics | None = None
"""Counts what happens in this process; None while nobody wants to know."""

Labels = tuple[str, ...]


class Counter:
    """A number for each set of labels, which only grows."""

    kind = "counter"

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()) -> None:
        self.name, self.about, self.labels = name, about, tuple(labels)
        self._values: dict[Labels, float] = {}

    def add(self, labels: Labels = (), amount: float = 1.0) -> None:
        """Adds to the number of these labels."""
        if labels not in self._values and len(self._values) >= MAX_SERIES:
            labels = ("other",) * len(self.labels)
        self._values[labels] = self._values.get(labels, 0.0) + amount

    def lines(self) -> list[str]:
        """The samples, as text."""
        return [f"{self.name}{_shown(self.labels, key)} {value:.15g}" for key, value in self._values.items()]


class Histogram:
    """The times that things took, for each set of labels."""

    kind = "histogram"

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()) -> None:
        self.name, self.about, self.labels = name, about, tuple(labels)
        self._values: dict[Labels, list[float]] = {}

    def observe(self, seconds: float, labels: Labels = ()) -> None:
        """Counts something that took so long."""
        found = self._values.get(labels)
        if found is None:
            if len(self._values) >= MAX_SERIES:
                labels = ("other",) * len(self.labels)
            # One for each bucket, one for what takes longer than all, and the sum.
            found = self._values.setdefault(labels, [0.0] * (len(BUCKETS) + 2))
        found[bisect.bisect_left(BUCKETS, seconds)] += 1
        found[-1] += seconds

    def lines(self) -> list[str]:
        """The samples, as text."""
        made: list[str] = []
        names = (*self.labels, "le")
        for key, values in self._values.items():
            count = 0.0
            for bound, number in zip((*BUCKETS, None), values, strict=False):
                count += number
                edge = "+Inf" if bound is None else f"{bound:g}"
                made.append(f"{self.name}_bucket{_shown(names, (*key, edge))} {count:.15g}")
            made.append(f"{self.name}_sum{_shown(self.labels, key)} {values[-1]:.15g}")
            made.append(f"{self.name}_count{_shown(self.labels, key)} {count:.15g}")
        return made


class Gauge:
    """A number that is asked for when it is wanted."""

    kind = "gauge"

    def __init__(self, name: str, about: str, value: Callable[[], float], kind: str = "gauge") -> None:
        self.name, self.about, self.value, self.kind = name, about, value, kind

    def lines(self) -> list[str]:
        """The sample, as text."""
        return [f"{self.name} {self.value():.15g}"]


class Metrics:
    """All that is counted in one process. `meter` also gets what OpenTelemetry has names for."""

    def __init__(self, meter: Meter | None = None) -> None:
        self.calls = Counter("spindle_calls_total", "Calls that ended.", ("source", "tool", "outcome"))
        self.call_seconds = Histogram(
            "spindle_call_duration_seconds", "How long calls took.", ("source", "tool")
        )
        self.operations = Histogram(
            "mcp_server_operation_duration_seconds", "How long requests of MCP clients took.",
            ("mcp_method_name", "error_type"),
        )  # fmt: skip
        self.requests = Counter("spindle_http_requests_total", "Requests over HTTP.", ("method", "status"))
        self.request_seconds = Histogram(
            "spindle_http_request_duration_seconds", "How long requests over HTTP took.", ("method",)
        )
        self.refused = Counter(
            "spindle_quota_refusals_total", "Calls that a quota refused.", ("quota", "limit")
        )
        self.in_flight = 0
        started = time.time()
        self._all: list[Counter | Histogram | Gauge] = [
            self.calls,
            self.call_seconds,
            self.operations,
            self.requests,
            self.request_seconds,
            self.refused,
            Gauge("spindle_http_requests_running", "Requests that are answered now.", self._running),
            Gauge("process_cpu_seconds_total", "CPU of this process.", _cpu, "counter"),
            Gauge("process_resident_memory_bytes", "Memory of this process.", _memory),
            Gauge("process_open_fds", "Open files of this process.", _files),
            Gauge("process_start_time_seconds", "When this process started.", lambda: started),
        ]
        self._meter: dict[str, Any] = {}
        if meter is not None:
            buckets = list(BUCKETS)
            for name in ("mcp.server.operation.duration", "mcp.client.operation.duration"):
                self._meter[name] = meter.create_histogram(
                    name, "s", explicit_bucket_boundaries_advisory=buckets
                )
            self._meter["spindle.calls"] = meter.create_counter("spindle.calls", "{call}")

    def _running(self) -> float:
        return float(self.in_flight)

    @property
    def names(self) -> set[str]:
        """The names of all series that are shown."""
        found = {"spindle_info"}
        for metric in self._all:
            ends = ("_bucket", "_sum", "_count") if isinstance(metric, Histogram) else ("",)
            found |= {metric.name + end for end in ends}
        return found

    def called(self, record: CallRecord) -> None:
        """Counts a call that ended."""
        labels = record.source, record.tool
        self.calls.add((*labels, record.outcome))
        self.call_seconds.observe(record.duration, labels)
        if self._meter:
            told = {"gen_ai.tool.name": record.tool, "spindle.source": record.source}
            self._meter["spindle.calls"].add(1, {**told, "outcome": record.outcome})
            told |= {"mcp.method.name": "tools/call"}
            told |= {} if record.outcome in ("ok", "cached") else {"error.type": record.outcome}
            self._meter["mcp.client.operation.duration"].record(record.duration, told)

    def operated(self, method: str, seconds: float, error: str = "") -> None:
        """Counts a request of an MCP client that was answered."""
        self.operations.observe(seconds, (method, error))
        if self._meter:
            told = {"mcp.method.name": method} | ({"error.type": error} if error else {})
            self._meter["mcp.server.operation.duration"].record(seconds, told)

    def requested(self, method: str, status: int, seconds: float) -> None:
        """Counts a request over HTTP that was answered."""
        known = method if method in ("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD") else "other"
        self.requests.add((known, str(status)))
        self.request_seconds.observe(seconds, (known,))

    def text(self) -> str:
        """All of it, as Prometheus reads it."""
        made: list[str] = []
        for metric in self._all:
            made += [f"# HELP {metric.name} {metric.about}", f"# TYPE {metric.name} {metric.kind}"]
            made += metric.lines()
        made += ["# HELP spindle_info The version.", "# TYPE spindle_info gauge"]
        made.append(f"spindle_info{_shown(('version',), (__version__,))} 1")
        return "\n".join(made) + "\n"


def _shown(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = [f'{name}="{_plain(value)}"' for name, value in zip(names, values, strict=True)]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _plain(text: str) -> str:
    return text[:200].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _memory() -> float:
    try:
        with open("/proc/self/statm", "rb") as file:
            return float(int(file.read().split()[1]) * resource.getpagesize())
    except OSError:
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def _files() -> float:
    try:
        return float(len(os.listdir("/proc/self/fd")))
    except OSError:
        return 0.0
