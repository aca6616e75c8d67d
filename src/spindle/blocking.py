"""Blocking use of Spindle: the same app on its own event loop in a thread, so that it also works in a
notebook or wherever a loop is already running."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from spindle.calls.caller import DEFAULT_OPTIONS, CallOptions
from spindle.domain.identity import LOCAL, Principal
from spindle.errors import ConnectionFailedError

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from spindle.agents.limits import Limits
    from spindle.app import Spindle
    from spindle.calls.watch import ResourceWatch
    from spindle.catalog.diff import SyncReport
    from spindle.domain.call import CallRecord, Progress, Result
    from spindle.domain.event import Event
    from spindle.domain.resource import FilledPrompt, Resource, ResourceChange, SourcePrompt
    from spindle.domain.tool import Tool, ToolSummary
    from spindle.drafting.draft import Draft
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.flow import Flow
    from spindle.runs.outcomes import OpenPause, Outcome
    from spindle.sources.events.bus import Subscription

T = TypeVar("T")


class BlockingSpindle:
    """An open workspace with the methods of `Spindle`, but blocking. Safe to use from several threads."""

    def __init__(self, app: Spindle, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        self._app = app
        self._loop = loop
        self._thread = thread

    @classmethod
    def start(cls, build: Callable[[], Awaitable[Spindle]]) -> BlockingSpindle:
        """Starts the thread and builds the app on its event loop."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_serve, args=(loop,), name="spindle", daemon=True)
        thread.start()

        async def built() -> Spindle:
            return await build()

        try:
            app = _wait(loop, built())
        except BaseException:
            _end(loop, thread)
            raise
        return cls(app, loop, thread)

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

    def pauses(self, *, principal: Principal | None = None, run: str | None = None) -> list[OpenPause]:
        """Returns the pauses that wait for a person, the oldest first."""
        return self._run(self._app.pauses(principal=principal, run=run))

    def tools(self, **filters: str | None) -> list[ToolSummary]:
        """Returns the tools of the stored catalog, filtered as in `Spindle.tools`."""
        return self._run(self._app.tools(**filters))

    def search(self, query: str, *, limit: int = 10) -> list[ToolSummary]:
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

        async def subscribed() -> Subscription:
            return self._app.events(pattern)

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
        """Closes the workspace and ends its thread."""
        if self._thread.is_alive():
            try:
                self._run(self._app.close())
            finally:
                _end(self._loop, self._thread)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(
                "this call blocks, which an async tool must not do: make the tool a plain `def` function"
            )
        if not self._thread.is_alive():
            work.close()
            raise ConnectionFailedError("this Spindle was closed", hint="open it again", sent=False)
        return _wait(self._loop, work)


def _wait(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        # Ctrl-C while waiting: the call is cancelled, not left running behind the user's back.
        future.cancel()
        raise


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


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
