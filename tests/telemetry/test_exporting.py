"""Traces and metrics as a collector gets them, over OTLP."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from servers.rest import RestWorkspace

Received = list[tuple[str, bytes]]


@pytest.fixture
def collector() -> Iterator[tuple[str, Received]]:
    received: Received = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", received
        server.shutdown()


def test_a_server_sends_spans_and_metrics_to_a_collector(
    rest: RestWorkspace, collector: tuple[str, Received]
) -> None:
    url, received = collector
    with rest.serve(OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_EXPORTER_OTLP_COMPRESSION="none") as served:
        assert served.call("say", text="a secret word").status_code == 200
        served.stop()
    spans = b"".join(body for path, body in received if path == "/v1/traces")
    numbers = b"".join(body for path, body in received if path == "/v1/metrics")
    assert b"execute_tool say" in spans
    assert b"service.name" in spans
    assert b"mcp.client.operation.duration" in numbers
    assert b"secret word" not in spans + numbers


def test_a_collector_that_is_away_stops_nothing(rest: RestWorkspace) -> None:
    away = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    done = rest.spindle("call", "say", "--text", "still", **away)
    assert (done.returncode, done.stdout.strip()) == (0, "still")
