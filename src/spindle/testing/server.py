"""A model that follows a script, over real HTTP, with the APIs of OpenAI and Anthropic."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Self

from pydantic import ByteSize

from spindle.domain.json_schema import JsonObject, from_json, is_object, to_json
from spindle.domain.serve import ServeConfig
from spindle.listening.server import address_of, listen
from spindle.serving.server import serve
from spindle.testing.anthropic_messages import Messages
from spindle.testing.openai_chat import ChatCompletions
from spindle.testing.openai_responses import Responses
from spindle.testing.requests import SECRET_HEADERS, ModelRequest
from spindle.testing.turns import Answer, Dropped, Failure, Reply, Scripted, Turn, as_answer
from spindle.testing.wire import Answering, Dialect, StreamMark, problem_with

if TYPE_CHECKING:
    import socket

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOST = "127.0.0.1"
MAX_BODY = 64 * 1024 * 1024
CHARACTERS_OF_A_TOKEN = 4
KEY = "scripted"
MODELS = ("scripted", "gpt-scripted", "claude-scripted")


class _DroppedError(Exception):
    """Ends a response in the middle, which closes the connection."""


class ModelServer:
    """A scripted model on loopback, for `with` and `async with`.

    Give it turns, of which each request takes the next, or one function that answers every request; a
    function may also stand among the turns. `feed` adds turns. It runs in its own thread, where functions are
    called too, so clients that block can be used in async tests.
    """

    def __init__(self, *script: Scripted | Reply, reply: Reply | None = None) -> None:
        if script and reply is not None:
            raise TypeError("give turns, or a function as `reply`, not both")
        self.requests: list[ModelRequest] = []
        """The requests that were received, the oldest first, without keys."""
        self.counted: list[int] = []
        """The answers to requests to count tokens, a quarter of their characters, the oldest first."""
        self._script: deque[Scripted | Reply] = deque()
        self._reply = reply
        self._scripted = 0
        self._asked = 0
        self._listening: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], None] | None = None
        self._address = ""
        self.feed(*script)

    # --- what a test does

    def feed(self, *script: Scripted | Reply) -> None:
        """Adds turns to the end of the script."""
        for turn in script:
            if not callable(turn):
                as_answer(turn)
        self._script += script
        self._scripted += len(script)

    @property
    def left(self) -> int:
        """The number of turns that are left."""
        return len(self._script)

    @property
    def url(self) -> str:
        if not self._address:
            raise RuntimeError("the model server is not running: use it with `with` or `async with`")
        return self._address

    @property
    def openai_url(self) -> str:
        """The `base_url` for OpenAI's client library, and for all compatible ones."""
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The `base_url` for Anthropic's client library."""
        return self.url

    def environment(self) -> dict[str, str]:
        """The variables that make client libraries find the server, also in another process."""
        return {
            "OPENAI_BASE_URL": self.openai_url,
            "OPENAI_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.anthropic_url,
            "ANTHROPIC_API_KEY": KEY,
        }

    # --- lifetime

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._end)

    def _start(self) -> None:
        if self._thread is not None:
            raise RuntimeError("the model server is running already")
        listening = listen(HOST, 0)
        self._address = address_of(listening, HOST)
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(listening, ready)), name="scripted model", daemon=True
        )
        self._thread.start()
        ready.wait()

    def _end(self) -> None:
        if self._thread is None or self._stop is None:
            return
        self._stop()
        self._thread.join()
        self._thread, self._stop, self._address = None, None, ""

    async def _serve(self, listening: socket.socket, ready: threading.Event) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._stop = lambda: loop.call_soon_threadsafe(task.cancel) and None
        config = ServeConfig(shutdown_timeout=0, max_body_size=ByteSize(MAX_BODY))
        with listening:
            serving = serve(self._app(), listening, lambda: config, lambda: None)
            ready.set()
            try:
                await serving
            except asyncio.CancelledError:
                return

    # --- requests

    def _app(self) -> Starlette:
        from starlette.applications import Starlette
        from starlette.routing import Route

        def route(path: str, dialect: Dialect) -> Route:
            async def endpoint(request: Request) -> Response:
                return await self._answer(request, dialect)

            return Route(path, endpoint, methods=["POST"])

        async def count(request: Request) -> Response:
            from starlette.responses import JSONResponse

            body = await _body(request)
            if isinstance(body, str):
                return JSONResponse({"error": {"message": body}}, 400)
            self.counted.append(len(to_json(body)) // CHARACTERS_OF_A_TOKEN)
            return JSONResponse({"object": "response.input_tokens", "input_tokens": self.counted[-1]})

        return Starlette(
            routes=[
                route("/v1/chat/completions", ChatCompletions()),
                route("/v1/responses", Responses()),
                route("/v1/messages", Messages()),
                Route("/v1/responses/input_tokens", count, methods=["POST"]),
                Route("/v1/messages/count_tokens", count, methods=["POST"]),
                Route("/v1/models", _models, methods=["GET"]),
                Route("/v1/models/{model:path}", _models, methods=["GET"]),
            ]
        )

    async def _answer(self, request: Request, dialect: Dialect) -> Response:
        body = await _body(request)
        if isinstance(body, str):
            return _failed(dialect, Failure(400, body))
        messages = dialect.messages(body)
        if isinstance(messages, str):
            return _failed(dialect, Failure(400, messages))
        headers = {key: value for key, value in request.headers.items() if key not in SECRET_HEADERS}
        asked = ModelRequest(dialect.api, body, headers, messages)
        self.requests.append(asked)
        if problem := problem_with(asked, dialect.longest_name):
            return _failed(dialect, Failure(400, problem))
        self._asked += 1
        number = self._asked
        answer = await self._next(asked, number)
        if answer.after is not None:
            await answer.after.passed()
        if isinstance(answer, Failure):
            return _failed(dialect, answer)
        return _answered(dialect, answer, asked, number)

    async def _next(self, asked: ModelRequest, number: int) -> Answer:
        """The script's answer to this request. A mistake in the script is reported to the client as an
        error that it does not retry."""
        if self._script:
            scripted = self._script.popleft()
        elif self._reply is not None:
            scripted = self._reply
        else:
            return Failure(
                400,
                f"the script of this model server has ended: it has {self._scripted} turns, and this is "
                f"request {number}. Give it another turn, or a function as `reply`.",
            )
        if not callable(scripted):
            return as_answer(scripted)
        try:
            made = scripted(asked)
            return as_answer(await made if inspect.isawaitable(made) else made)
        except Exception as error:  # noqa: BLE001 - whatever a test's function raises has to reach the test
            problem = f"{type(error).__name__}: {error}"
            return Failure(400, f"the function in the script of this model server raised {problem}")


async def _body(request: Request) -> JsonObject | str:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY:
            return f"the request has more than {MAX_BODY} bytes"
    try:
        body = from_json(data)
    except ValueError as error:
        return f"the request is not JSON: {error}"
    return body if is_object(body) else "the request is not a JSON object"


def _failed(dialect: Dialect, failure: Failure) -> Response:
    from starlette.responses import Response

    headers = {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
    body = to_json(dialect.failure(failure.status, failure.message))
    return Response(body, failure.status, headers, "application/json")


def _answered(dialect: Dialect, answer: Turn | Dropped, asked: ModelRequest, number: int) -> Response:
    from starlette.responses import Response, StreamingResponse

    dropped = isinstance(answer, Dropped)
    turn = Turn(answer.text) if isinstance(answer, Dropped) else answer
    answering = Answering(turn, asked, number, int(time.time()))
    headers = {"request-id": f"req_{number}", "x-request-id": f"req_{number}"}
    if asked.stream:
        streamed = _stream(dialect, answering, dropped=dropped)
        return StreamingResponse(streamed, 200, headers, "text/event-stream")
    whole = to_json(dialect.whole(answering))
    if dropped:
        return StreamingResponse(_half(whole), 200, headers, "application/json")
    return Response(whole, 200, headers, "application/json")


async def _stream(dialect: Dialect, answering: Answering, *, dropped: bool) -> AsyncIterator[bytes]:
    for event in dialect.events(answering):
        if event is StreamMark.FIRST_PIECE:
            if answering.turn.midway is not None:
                await answering.turn.midway.passed()
        elif event is StreamMark.LAST_PIECE:
            if dropped:
                raise _DroppedError
        elif not isinstance(event, StreamMark):
            yield dialect.encode(event)
    if dialect.end:
        yield dialect.end


async def _half(whole: bytes) -> AsyncIterator[bytes]:
    yield whole[: len(whole) // 2]
    raise _DroppedError


async def _models(request: Request) -> Response:
    """The list of models. Any other name is accepted as well."""
    from starlette.responses import JSONResponse

    named = request.path_params.get("model")
    is_anthropic = "anthropic-version" in request.headers
    listed = [_model(name, is_anthropic) for name in ([str(named)] if named else MODELS)]
    if named:
        return JSONResponse(listed[0])
    if is_anthropic:
        return JSONResponse({"data": listed, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]})
    return JSONResponse({"object": "list", "data": listed})


def _model(name: str, is_anthropic: bool) -> JsonObject:
    if is_anthropic:
        made = "2026-01-01T00:00:00Z"
        return {"type": "model", "id": name, "display_name": name, "created_at": made}
    return {"id": name, "object": "model", "created": 1_767_225_600, "owned_by": "spindle"}
