"""Metrics as Prometheus reads them, and the dashboard that shows them."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import httpx2

from servers.rest import RestWorkspace
from spindle.domain.call import CallRecord
from spindle.telemetry.metrics import MAX_SERIES, Metrics

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "spindle.json"
_LINE = re.compile(r'[a-z_]+(\{([a-z_]+="[^"\\]*(\\.[^"\\]*)*",?)*\})? \S+')


def test_only_an_administrator_reads_the_metrics_and_only_if_there_are_any(rest: RestWorkspace) -> None:
    boss = rest.spindle("token", "create", "boss", "--admin").stdout.strip()
    plain = rest.spindle("token", "create", "plain").stdout.strip()
    with rest.serve(token=boss) as served:
        assert served.client.get("/metrics").status_code == 404
    rest.settings("[serve]\nmetrics = true")
    with rest.serve(token=boss) as served:
        served.call("say", text="x")
        served.call("fail", why="x")
        assert served.client.get("/metrics", headers={"authorization": f"Bearer {plain}"}).status_code == 403
        assert served.client.get("/metrics", headers={"authorization": ""}).status_code == 401
        answer = served.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    assert all(_LINE.fullmatch(line) for line in lines)
    assert 'spindle_calls_total{source="tools",tool="say",outcome="ok"} 1' in lines
    assert 'spindle_calls_total{source="tools",tool="fail",outcome="tool"} 1' in lines
    assert 'spindle_call_duration_seconds_count{source="tools",tool="say"} 1' in lines
    assert 'spindle_http_requests_total{method="POST",status="200"} 1' in lines
    assert "boss" not in answer.text


def test_metrics_at_an_address_of_their_own_need_no_token(rest: RestWorkspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    rest.settings(f'[serve]\nauth_token = "some-token-of-a-client"\nmetrics_address = "127.0.0.1:{port}"')
    with rest.serve() as served:
        answer = httpx2.get(f"http://127.0.0.1:{port}/metrics")
        assert "spindle_info" in answer.text
        assert httpx2.get(f"http://127.0.0.1:{port}/openapi.json").status_code == 404
        assert served.client.get("/metrics").status_code == 401


def test_labels_are_escaped_and_series_bounded() -> None:
    counted = Metrics()
    for number in range(MAX_SERIES + 10):
        counted.called(CallRecord(f"k{number}", f"t{number}", 's"\n\\', "ann", {}, "ok", 1.0, 0.03, 1))
    text = counted.text()
    assert text.count("spindle_calls_total{") == MAX_SERIES + 1
    assert 'spindle_calls_total{source="other",tool="other",outcome="other"} 10' in text
    assert 'source="s\\"\\n\\\\"' in text
    assert 'le="0.02"} 0' in text
    assert "ann" not in text


def test_the_dashboard_asks_only_for_what_is_exported() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(asked) >= 8
    functions = {"sum", "rate", "by", "le", "histogram_quantile", "topk", "max", "increase", "clamp_min"}
    names: set[str] = set()
    for query in asked:
        bare = re.sub(r'\{[^}]*\}|"[^"]*"|\[[^\]]*\]|by \([^)]*\)', "", query)
        names |= {word for word in re.findall(r"[a-z_]{3,}", bare) if word not in functions}
    assert names <= Metrics().names
    labels = {label for query in asked for label in re.findall(r"by \(([^)]*)\)", query)}
    known = {"le", "source", "tool", "outcome", "method", "status", "mcp_method_name", "quota", "limit"}
    assert {word.strip() for group in labels for word in group.split(",")} <= known
