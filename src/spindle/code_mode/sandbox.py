"""The sandbox: programs are executed by Monty, in worker processes that can reach nothing but the host.

A program holds a worker only while it computes. Whenever all that it does waits for tools it is dumped, and
loaded again with their results, by whichever worker is free: thousands may wait, in this process or another,
and none keeps others out. Execution is in threads of ours, because the library's own aborts some processes
that exit while its threads are busy.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spindle.calls.limits import Limit
from spindle.code_mode.limits import MOST_CODE, MOST_GIVEN, MOST_PRINTED, MOST_RETURNED, require_library
from spindle.code_mode.values import LargeValueError, as_json, as_shown
from spindle.code_mode.workers import CHECKOUT, WorkerUse
from spindle.errors import InvalidArgumentsError, ServerError
from spindle.threads import in_thread

if TYPE_CHECKING:
    from pydantic_monty import Monty, SyncSnapshot

    from spindle.code_mode.limits import CodeLimits
    from spindle.domain.json_schema import JsonObject

T = TypeVar("T")
GRACE: Final = 5.0
"""Seconds after its limit in which a worker may stop a program itself, before it is killed."""
MOST_TOLD: Final = 4_000
"""Characters of the library's words about an error, which repeat lines of the program."""
_IMPORTS: Final = frozenset({"import", "import_stubs"})
_CODE: Final = "program.py"
_NO_MEMORY: Final = (
    "MemoryError: memory limit exceeded",
    "MemoryError: the worker exceeded its memory limit",
)


@dataclass(frozen=True, slots=True)
class ToolModule:
    """A module that a program may import: names of functions, and their stubs."""

    functions: Sequence[str]
    stubs: str


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A call that a program asks for."""

    id: int
    function: str
    given: JsonObject
    problem: str | None = None
    """The mistake in its arguments, if there is one."""


@dataclass(slots=True)
class SandboxTurn:
    """Tells how far a program came until all of it had to wait, or it ended."""

    asked: list[AskedCall] = field(default_factory=list[AskedCall])
    printed: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    dump: bytes | None = None
    """The program where it waits; None once it has ended."""
    value: Any = None
    """The value of its last expression, as JSON."""
    failure: str | None = None
    """The error that ended it."""
    limit: str | None = None
    """The limit that ended it."""


Settled = Mapping[int, Any]
"""By id of a call, its result or error as the library takes it."""
Modules = Mapping[str, Callable[[], ToolModule]]


class Sandbox:
    """The workers of a workspace: started with its first program, and stopped with the workspace."""

    def __init__(self) -> None:
        self._places = Limit(
            max(3, (os.cpu_count() or 1) + 1), "the sandbox", "run fewer programs at once", is_shared=True
        )
        self._uses: set[WorkerUse] = set()
        self._pool: Monty | None = None
        self._starting = asyncio.Lock()
        self._is_closed = False

    async def start(
        self, code: str, modules: Modules, limits: CodeLimits, client: str, at: float, seed: str
    ) -> SandboxTurn:
        """Begins a program of this client. `at` is the time that it sees, `seed` begins its random numbers:
        executed again, it does the same. Raises InvalidArgumentsError if the program cannot be read or its
        types are wrong; nothing of it was executed then."""
        if len(code) > MOST_CODE:
            raise InvalidArgumentsError(
                f"the program has {len(code)} characters, and {MOST_CODE} are the most", sent=False
            )
        pool, calls = await self._ready(), limits.calls

        def work(use: WorkerUse) -> SandboxTurn:
            import pydantic_monty as monty

            turn = SandboxTurn()
            known = {name: _factory(monty, make) for name, make in modules.items()}
            opening = pool.checkout(
                script_name=_CODE,
                limits={
                    "max_feed_duration_secs": limits.seconds,
                    "max_memory": limits.memory * 1_000_000,
                    "max_suspensions": 4 * calls + 1_000,
                },
                type_check=True,
                type_check_format="concise",
                os_policy={
                    "datetime": datetime.datetime.fromtimestamp(at, datetime.UTC),
                    "random_start": {"seed": seed},
                    "sleep": "call_host",
                },
                external_modules=known,
            )
            with use.session(opening) as session:
                return _advanced(turn, calls, lambda: session.feed_start(code, print_callback=_printer(turn)))

        return await self._working(client, work)

    async def go_on(
        self, dump: bytes, settled: Settled, modules: Modules, client: str, calls: int
    ) -> SandboxTurn:
        """Continues a program where it waits, with results of calls. `calls`: how many more it may make."""
        pool = await self._ready()

        def work(use: WorkerUse) -> SandboxTurn:
            import pydantic_monty as monty

            turn = SandboxTurn()
            known = {name: _factory(monty, make) for name, make in modules.items()}
            with use.session(pool.checkout(external_modules=known)) as session:

                def begin() -> SyncSnapshot:
                    snapshot = session.load_snapshot(dump, print_callback=_printer(turn))
                    assert isinstance(snapshot, monty.FutureSnapshot)
                    return snapshot.resume(dict(settled))

                return _advanced(turn, calls, begin)

        return await self._working(client, work)

    async def can_load(self, dump: bytes, client: str) -> bool:
        """True if a program that was dumped, maybe by another version of the library, can go on here."""
        pool = await self._ready()

        def work(use: WorkerUse) -> bool:
            import pydantic_monty as monty

            with use.session(pool.checkout()) as session:
                try:
                    return isinstance(session.load_snapshot(dump), monty.FutureSnapshot)
                except (monty.MontyError, RuntimeError, ValueError):
                    return False

        return await self._working(client, work)

    async def _working(self, client: str, work: Callable[[WorkerUse], T]) -> T:
        """Does what needs a worker once this client has its turn: programs that compute without end keep no
        other client's out."""
        if not self._places.take(client):
            await self._places.wait(client, CHECKOUT)
        use = WorkerUse()
        self._uses.add(use)
        working = asyncio.ensure_future(in_thread(lambda: work(use), "program"))

        def ended(done: asyncio.Future[T]) -> None:
            self._uses.discard(use)
            self._places.release(client)
            if not done.cancelled():
                done.exception()  # maybe nobody waits for it

        # The worker is busy until then, also where nobody waits any more.
        working.add_done_callback(ended)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            use.stop()
            raise

    async def close(self) -> None:
        """Stops the workers, also those that compute."""
        for use in self._uses:
            use.stop()
        async with self._starting:
            self._is_closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            await in_thread(lambda: pool.__exit__(None, None, None), "program")

    async def _ready(self) -> Monty:
        async with self._starting:
            if self._is_closed:
                raise ServerError("the workspace was closed", sent=False)
            if self._pool is None:
                require_library()
                from pydantic_monty import Monty

                most = self._places.places
                pool = Monty(max_processes=most, checkout_timeout=CHECKOUT, feed_duration_limit_grace=GRACE)
                await in_thread(pool.__enter__, "program")
                self._pool = pool
            return self._pool


def _factory(monty: Any, make: Callable[[], ToolModule]) -> Callable[[], Any]:
    def made() -> Any:
        module = make()
        return monty.ExternalModule(dict.fromkeys(module.functions, _never), stubs=module.stubs)

    return made


def _never(*_: Any, **__: Any) -> None:
    raise AssertionError("calls are answered by the host, one by one")


def _printer(turn: SandboxTurn) -> Callable[[Any, str], None]:
    left = MOST_PRINTED + 1  # so that it shows when there was more

    def printed(_: Any, text: str) -> None:
        nonlocal left
        if left > 0:
            turn.printed.append(text[:left])
            left -= len(text)

    return printed


def _advanced(turn: SandboxTurn, calls: int, begin: Callable[[], SyncSnapshot]) -> SandboxTurn:
    """Executes a program until all of it waits, or it ends."""
    import pydantic_monty as monty

    began = time.monotonic()
    try:
        _follow(turn, calls, begin())
    except (monty.MontyTypingError, monty.MontySyntaxError) as error:
        raise InvalidArgumentsError(
            f"the program was not run, and nothing was called:\n{_displayed(error)}", sent=False
        ) from None
    except monty.MontyRuntimeError as error:
        turn.failure, turn.limit = _displayed(error), _limit_in(error)
    except monty.MontyCrashedError as error:
        turn.failure, turn.limit = f"the sandbox ended: {error}", "seconds" if error.timed_out else None
    except monty.MontyError as error:
        turn.failure = str(error)
    turn.seconds = time.monotonic() - began
    return turn


def _follow(turn: SandboxTurn, calls: int, snapshot: SyncSnapshot) -> None:
    import pydantic_monty as monty

    while True:
        if isinstance(snapshot, monty.MontyComplete):
            # Here, in a thread, as it may take its time.
            try:
                turn.value = as_shown(snapshot.output, MOST_RETURNED)
            except LargeValueError:
                turn.limit = "value"
            return
        if isinstance(snapshot, monty.FutureSnapshot):
            turn.dump = snapshot.dump()
            return
        if isinstance(snapshot, monty.NameLookupSnapshot):
            snapshot = snapshot.resume()
        elif snapshot.is_os_function:
            # Files, the environment, sleeping: there are none here, and the program is told so.
            is_import = snapshot.function_name in _IMPORTS
            snapshot = snapshot.resume_auto() if is_import else snapshot.resume_not_handled()
        elif len(turn.asked) >= calls:
            turn.limit = "calls"
            return
        else:
            turn.asked.append(
                _asked(snapshot.call_id, snapshot.function_name, snapshot.args, snapshot.kwargs)
            )
            snapshot = snapshot.resume({"future": ...})


def _displayed(error: Any) -> str:
    text: str = error.display().strip()
    half = MOST_TOLD // 2
    return text if len(text) <= MOST_TOLD else f"{text[:half]} … {text[-half:]}"


def _asked(id: int, function: str, positional: Any, given: Any) -> AskedCall:
    if positional:
        return AskedCall(id, function, {}, f"{function} takes its arguments by name")
    try:
        return AskedCall(id, function, as_json(dict(given), MOST_GIVEN))
    except (TypeError, LargeValueError) as error:
        return AskedCall(id, function, {}, f"{function}: {error}")


def _limit_in(error: Any) -> str | None:
    """Returns the limit that stopped a program. The library tells by its own errors, which a program can
    raise too; then it has only itself to blame for the words."""
    said = error.display("type-msg")
    if said.startswith("TimeoutError: feed time limit exceeded"):
        return "seconds"
    return "memory" if said.startswith(_NO_MEMORY) else None
