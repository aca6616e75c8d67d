"""An endpoint that speaks as OpenAI's `/v1/embeddings` does, and can be told to behave otherwise."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from counting import meaning_of

Answer = tuple[int, dict[str, str], bytes]


class Endpoint:
    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[dict[str, Any]], Answer | None] = lambda asked: None
        """Answers in place of the usual; None: as usual."""
        self.address = ""

    def usual(self, asked: dict[str, Any]) -> Answer:
        vectors = [
            {"object": "embedding", "index": place, "embedding": meaning_of(text)}
            for place, text in enumerate(asked["input"])
        ]
        # Not in their order: only `index` says which is which.
        return (
            200,
            {},
            json.dumps({"object": "list", "data": vectors[::-1], "model": asked["model"]}).encode(),
        )


@contextmanager
def serving() -> Iterator[Endpoint]:
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path != "/v1/embeddings":
                self._send(404, {}, b"{}")
                return
            asked = json.loads(body)
            endpoint.asked.append(asked)
            endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
            self._send(*(endpoint.answer(asked) or endpoint.usual(asked)))

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that went away

    server = Server(("127.0.0.1", 0), Handler)
    endpoint.address = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
