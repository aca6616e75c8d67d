"""Blocking use of Spindle: the same app on its own event loop in a thread, so that it also works in a
notebook or wherever a loop is already running."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from spindle.calls.caller import DEFAULT_OPTIONS, CallOptions
from spindle.domain.identity import LOCAL, Principal
from spindle.errors import ConnectionFailedError

if TYPE_CHECKING:
    from types import TracebackType

    from pydantic_ai.models import Model

    from spindle.agents.limits import Limits
    from spindle.app import Spindle
    from spindle.calls.watch import ResourceWatch
    from spindle.catalog.diff import SyncReport
    from spindle.domain.call import CallRecord, Progress, Result
    from spindle.domain.event import Event
    from spindle.domain.resource import FilledPrompt, Resource, ResourceChange, SourcePrompt
    from spindle.domain.run import Run
    from spindle.domain.tool import Tool, ToolList
    from spindle.drafting.draft import Draft
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.flow import Flow
    from spindle.runs.outcomes import OpenPause, Outcome
    from spindle.sources.events.bus import Subscription

T = TypeVar("T")

EXIT_TIMEOUT = 20.0
"""Seconds that closing may take when Python exits."""


class BlockingSpindle:
    """An open workspace with the methods of `Spindle`, but blocking. Safe to use from several threads.

    It is opened when it is first used. A `with` block closes it at its end, `close` at any time, and it
    closes itself when nothing refers to it any more, or when Python exits.
    """

    def __init__(self, make: Callable[[], Awaitable[Spindle]]) -> None:
        self._make = make
        self._starting = threading.Lock()
        self._running: _Running | None = None
        self._was_closed = False

    def __enter__(self) -> BlockingSpindle:
        with self._starting:
            self._was_closed = False
            self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
        /,
        **named: Any,
    ) -> Result:
        """Calls a tool and returns its result; see `Spindle.call`."""
        return self._run(self._app.call(tool, arguments, options, **named))

    def run(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
        /,
        **named: Any,
    ) -> Outcome:
        """Calls a tool that may pause for a person; see `Spindle.run`."""
        return self._run(self._app.run(tool, arguments, options, **named))

    def run_flow(
        self,
        flow: Flow | FlowDefinition | str,
        inputs: Mapping[str, Any] | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
        /,
        **named: Any,
    ) -> Outcome:
        """Runs a flow; see `Spindle.run_flow`."""
        return self._run(self._app.run_flow(flow, inputs, options, **named))

    def submit(
        self, flow: Flow | FlowDefinition | str, inputs: Mapping[str, Any] | None = None, **placing: Any
    ) -> Run:
        """Submits a flow to a queue; see `Spindle.submit`."""
        return self._run(self._app.submit(flow, inputs, **placing))

    def connect(self, source: str, principal: Principal = LOCAL) -> Outcome:
        """Connects a user to a source; see `Spindle.connect`."""
        return self._run(self._app.connect(source, principal))

    def draft_flow(
        self,
        words: str,
        *,
        model: str | Model | None = None,
        inputs: Mapping[str, Any] | None = None,
        reuse: bool = True,
        principal: Principal = LOCAL,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> Draft:
        """Finds or writes a flow that does what `words` ask for; see `Spindle.draft_flow`."""
        return self._run(
            self._app.draft_flow(
                words, model=model, inputs=inputs, reuse=reuse, principal=principal, limits=limits
            )
        )

    def resume(
        self,
        token: str,
        answer: Any = None,
        *,
        refused: str | None = None,
        principal: Principal | None = None,
        on_progress: Progress | None = None,
    ) -> Outcome:
        """Answers a pause and resumes its run; see `Spindle.resume`."""
        return self._run(
            self._app.resume(token, answer, refused=refused, principal=principal, on_progress=on_progress)
        )

    def pauses(
        self,
        *,
        principal: Principal | None = None,
        run: str | None = None,
        approver: Principal | None = None,
    ) -> list[OpenPause]:
        """Returns the pauses that wait for a person, the oldest first. `approver`: those that this principal
        may approve."""
        return self._run(self._app.pauses(principal=principal, run=run, approver=approver))

    def tools(
        self,
        *,
        source: str | None = None,
        kind: str | None = None,
        tag: str | None = None,
        pattern: str | None = None,
    ) -> ToolList:
        """Returns the tools of the stored catalog, all or those that pass the filters. `pattern` is a glob
        over names."""
        return self._run(self._app.tools(source=source, kind=kind, tag=tag, pattern=pattern))

    def search(self, query: str, *, limit: int = 10) -> ToolList:
        """Returns the tools that match the query, the best first."""
        return self._run(self._app.search(query, limit=limit))

    def show(self, tool: str) -> Tool:
        """Returns one tool with its schemas."""
        return self._run(self._app.show(tool))

    def sync(self, *sources: str, accept: Sequence[str] | bool = ()) -> list[SyncReport]:
        """Asks sources for their tools and stores them; see `Spindle.sync`."""
        return self._run(self._app.sync(*sources, accept=accept))

    def reload(self) -> None:
        """Reads the settings again and applies them; see `Spindle.reload`."""
        self._run(self._app.reload())

    def events(self, pattern: str = "*", *, timeout: float | None = None) -> Iterator[Event]:
        """Yields the events of this process from now on; ends when none came for `timeout` seconds."""

        app = self._app

        async def subscribed() -> Subscription:
            return app.events(pattern)

        return self._each(self._run(subscribed()), timeout)

    def _each(self, items: AsyncIterator[T], timeout: float | None) -> Iterator[T]:
        async def following() -> T | None:
            with contextlib.suppress(TimeoutError, StopAsyncIteration):
                async with asyncio.timeout(timeout):
                    return await anext(items)
            return None

        while (item := self._run(following())) is not None:
            yield item

    def resources(self, source: str | None = None, *, principal: Principal = LOCAL) -> list[Resource]:
        """Returns the resources and templates of MCP servers; see `Spindle.resources`."""
        return self._run(self._app.resources(source, principal=principal))

    def read(self, uri: str, *, source: str | None = None, principal: Principal = LOCAL) -> Result:
        """Returns the contents of a resource; see `Spindle.read`."""
        return self._run(self._app.read(uri, source=source, principal=principal))

    def prompts(self, source: str | None = None, *, principal: Principal = LOCAL) -> list[SourcePrompt]:
        """Returns the prompts of MCP servers; see `Spindle.prompts`."""
        return self._run(self._app.prompts(source, principal=principal))

    def prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        source: str | None = None,
        principal: Principal = LOCAL,
    ) -> FilledPrompt:
        """Returns a prompt with its arguments filled in; see `Spindle.prompt`."""
        return self._run(self._app.prompt(name, arguments, source=source, principal=principal))

    def watch(
        self,
        uri: str,
        *,
        source: str | None = None,
        timeout: float | None = None,
        principal: Principal = LOCAL,
    ) -> Iterator[ResourceChange]:
        """Yields the changes of a resource from now on; ends when none came for `timeout` seconds."""

        async def begun() -> ResourceWatch:
            return await self._app.watch(uri, source=source, principal=principal).__aenter__()

        return self._changes(self._run(begun()), timeout)

    def _changes(self, watch: ResourceWatch, timeout: float | None) -> Iterator[ResourceChange]:
        try:
            yield from self._each(watch, timeout)
        finally:
            self._run(watch.close())

    def emit(self, channel: str, data: Any = None, **attributes: Any) -> Event:
        """Puts an event on the bus of this process; see `Spindle.emit`."""
        return self._run(self._app.emit(channel, data, **attributes))

    def history(
        self, *, limit: int = 50, tool: str | None = None, outcome: str | None = None
    ) -> list[CallRecord]:
        """Returns the latest calls, the newest first."""
        return self._run(self._app.history(limit=limit, tool=tool, outcome=outcome))

    def wait(self, work: Callable[[Spindle], Coroutine[Any, Any, T]]) -> T:
        """Runs async work with the app on its own loop and waits for it: `s.wait(lambda app: tools(app))`."""
        return self._run(work(self._app))

    def close(self) -> None:
        """Closes the workspace and ends its thread. Waits until that is done."""
        with self._starting:
            running, self._running = self._running, None
            self._was_closed = True
        if running is not None:
            running.close()

    def _start(self) -> _Running:
        if self._running is None:
            self._running = _Running(self._make)
            weakref.finalize(self, self._running.let_close).atexit = False
        return self._running

    @property
    def _app(self) -> Spindle:
        with self._starting:
            if self._was_closed:
                raise ConnectionFailedError("this Spindle was closed", hint="open it again", sent=False)
            return self._start().app

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        running = self._running
        if running is None:  # closed by another thread meanwhile
            work.close()
            raise ConnectionFailedError("this Spindle was closed", hint="open it again", sent=False)
        return running.wait(work)


class _Running:
    """An app on an event loop in a thread of its own. Refers to nothing that the user holds, so that what is
    no longer used can be told."""

    def __init__(self, make: Callable[[], Awaitable[Spindle]]) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=_serve, args=(self.loop,), name="spindle", daemon=True)
        self.thread.start()

        async def made() -> Spindle:
            return await make()

        try:
            self.app = self.wait(made())
        except BaseException:
            self._end()
            raise
        self._closing: asyncio.Task[None] | None = None
        _open.add(self)
        _close_at_exit()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs async work on the loop, and returns its result."""
        if threading.current_thread() is self.thread:
            work.close()
            raise RuntimeError(
                "this call blocks, which an async tool must not do: make the tool a plain `def` function"
            )
        if not self.thread.is_alive():
            work.close()
            raise ConnectionFailedError("this Spindle was closed", hint="open it again", sent=False)
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C while waiting: the call is cancelled, not left running behind the user's back.
            future.cancel()
            raise

    def close(self) -> None:
        """Closes the app and ends the thread."""
        _open.discard(self)
        if self.thread.is_alive():
            try:
                self.wait(self.app.close())
            finally:
                self._end()

    def let_close(self) -> None:
        """Has the app closed and the thread ended, without waiting: the garbage collector may call this at
        any moment, in any thread, while anything is locked."""
        if self.thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                self.loop.call_soon_threadsafe(self._begin_closing)

    def _begin_closing(self) -> None:
        if self._closing is None:
            self._closing = self.loop.create_task(self._close_and_stop(), name="closing the workspace")

    async def _close_and_stop(self) -> None:
        try:
            await self.app.close()
        finally:
            _open.discard(self)
            self.loop.stop()

    def _end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


_open: set[_Running] = set()
"""All that were not closed yet."""


@functools.cache
def _close_at_exit() -> None:
    # Closing needs an executor. Python ends them in the reverse order in which they asked to be told of the
    # exit, so we have to ask after they did.
    import concurrent.futures.thread  # noqa: F401 # pyright: ignore[reportUnusedImport]

    register: Any = getattr(threading, "_register_atexit", atexit.register)
    register(_close_all)


def _close_all() -> None:
    left = list(_open)
    for running in left:
        running.let_close()
    for running in left:
        running.thread.join(EXIT_TIMEOUT)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Runs the loop until it is stopped, then cancels the tasks that are left on it."""
    try:
        loop.run_forever()
        loop.run_until_complete(_end_what_is_left())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _end_what_is_left() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
