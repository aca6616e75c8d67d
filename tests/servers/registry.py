"""A registry of MCP servers over HTTP, with entries as the official one published them, and with faults.

The entries are what the official registry, or the `server.json` of the project, held in 2026; texts that
no test needs are shortened.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

RECORDED = Path(__file__).with_name("registry_entries.json")
META = "io.modelcontextprotocol.registry/official"

Answer = tuple[int, dict[str, str], bytes]


def answer(body: Any, status: int = 200, **headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return status, {"content-type": "application/json", **headers}, data


class Registry:
    """Entries by name and version, the requests that came, and answers given instead of the usual ones."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = json.loads(RECORDED.read_text())
        self.status: dict[str, str] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.instead: dict[str, Callable[[dict[str, str]], Answer] | Answer] = {}
        """By the beginning of a path."""
        self.token: str | None = None
        self.released = threading.Event()
        self.url = ""

    def add(self, name: str, version: str = "1.0.0", **fields: Any) -> None:
        self.entries.append({"name": name, "version": version, "description": "One of the tests.", **fields})

    def reply(self, path: str, headers: dict[str, str]) -> Answer:
        for beginning, given in self.instead.items():
            if path.startswith(beginning):
                return given(headers) if callable(given) else given
        if self.token and headers.get("authorization") != f"Bearer {self.token}":
            return answer({"title": "Unauthorized", "status": 401, "detail": "no token"}, 401)
        parts = urlsplit(path)
        asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path == "/v0.1/servers":
            return self._page(asked)
        if parts.path.startswith("/v0.1/servers/"):
            name, _, version = parts.path.removeprefix("/v0.1/servers/").partition("/versions")
            return self._one(unquote(name), unquote(version.lstrip("/")))
        return answer({"title": "Not Found", "status": 404}, 404)

    def _page(self, asked: dict[str, str]) -> Answer:
        begin, size = int(asked.get("cursor", "0")), int(asked.get("limit", "30"))
        fitting = [entry for entry in self.entries if asked.get("search", "") in entry.get("name", "")]
        metadata: dict[str, Any] = {"count": len(fitting[begin : begin + size])}
        if begin + size < len(fitting):
            metadata["nextCursor"] = str(begin + size)
        servers = [self._wrapped(entry) for entry in fitting[begin : begin + size]]
        return answer({"servers": servers, "metadata": metadata})

    def _one(self, name: str, version: str) -> Answer:
        found = [entry for entry in self.entries if entry.get("name") == name]
        if version and version != "latest":
            found = [entry for entry in found if entry["version"] == version]
        if not found:
            return answer({"title": "Not Found", "status": 404, "detail": "Server not found"}, 404)
        if not version:
            return answer({"servers": [self._wrapped(entry) for entry in found], "metadata": {}})
        return answer(self._wrapped(found[-1]))

    def _wrapped(self, entry: dict[str, Any]) -> dict[str, Any]:
        status = self.status.get(entry.get("name", ""), "active")
        meta = {"status": status, "publishedAt": "2026-09-28T10:00:00Z", "isLatest": True}
        return {"server": entry, "_meta": {META: meta}}


@contextmanager
def running_registry() -> Iterator[Registry]:
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            registry.seen.append((self.path, headers))
            status, sent, body = registry.reply(self.path, headers)
            self.send_response(status)
            for name, value in sent.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """Nobody is told that a client has gone: some tests make it go."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        registry.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
