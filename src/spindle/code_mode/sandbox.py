"""The sandbox: programs are executed by Monty, in worker processes that can reach nothing but the host.

A program holds a worker only while it computes. Whenever all that it does waits for tools it is dumped, and
loaded again with their results, by whichever worker is free: thousands may wait, in this process or another,
and none keeps others out. Execution is in threads of ours, because the library's own aborts some processes
that exit while its threads are busy.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from spindle.code_mode.limits import MOST_CODE, MOST_PRINTED
from spindle.errors import BusyError, ConfigurationError, InvalidArgumentsError, ServerError
from spindle.threads import in_thread

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontySession, SyncSnapshot

    from spindle.code_mode.limits import CodeLimits

CHECKOUT: Final = 60.0
"""Seconds that a program waits for a worker."""
GRACE: Final = 5.0
"""Seconds after its limit in which a worker may stop a program itself, before it is killed."""
_IMPORTS: Final = frozenset({"import", "import_stubs"})
_CODE: Final = "program.py"


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
    given: Mapping[str, Any]
    positional: int = 0


@dataclass(slots=True)
class SandboxTurn:
    """Tells how far a program came until all of it had to wait, or it ended."""

    asked: list[AskedCall] = field(default_factory=list[AskedCall])
    printed: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    dump: bytes | None = None
    """The program where it waits; None once it has ended."""
    value: Any = None
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
        self._pool: Monty | None = None
        self._starting = asyncio.Lock()
        self._is_closed = False

    async def start(
        self, code: str, modules: Modules, limits: CodeLimits, calls: int, at: float, seed: str
    ) -> SandboxTurn:
        """Begins a program. `at` is the time that it sees, `seed` begins its random numbers: executed again,
        it does the same. Raises InvalidArgumentsError if the program cannot be read or its types are wrong;
        nothing of it was executed then."""
        if len(code) > MOST_CODE:
            raise InvalidArgumentsError(
                f"the program has {len(code)} characters, and {MOST_CODE} are the most", sent=False
            )
        pool = await self._ready()

        def work() -> SandboxTurn:
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
            with _session(opening) as session:
                return _advanced(turn, calls, lambda: session.feed_start(code, print_callback=_printer(turn)))

        return await in_thread(work, "program")

    async def go_on(self, dump: bytes, settled: Settled, modules: Modules, calls: int) -> SandboxTurn:
        """Continues a program where it waits, with results of calls. `calls`: how many more it may make."""
        pool = await self._ready()

        def work() -> SandboxTurn:
            import pydantic_monty as monty

            turn = SandboxTurn()
            known = {name: _factory(monty, make) for name, make in modules.items()}
            with _session(pool.checkout(external_modules=known)) as session:

                def begin() -> SyncSnapshot:
                    snapshot = session.load_snapshot(dump, print_callback=_printer(turn))
                    assert isinstance(snapshot, monty.FutureSnapshot)
                    return snapshot.resume(dict(settled))

                return _advanced(turn, calls, begin)

        return await in_thread(work, "program")

    async def can_load(self, dump: bytes) -> bool:
        """True if a program that was dumped, maybe by another version of the library, can go on here."""
        pool = await self._ready()

        def work() -> bool:
            import pydantic_monty as monty

            with _session(pool.checkout()) as session:
                try:
                    return isinstance(session.load_snapshot(dump), monty.FutureSnapshot)
                except (monty.MontyError, RuntimeError, ValueError):
                    return False

        return await in_thread(work, "program")

    async def close(self) -> None:
        """Stops the workers."""
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

                most = max(2, os.cpu_count() or 1)
                pool = Monty(max_processes=most, checkout_timeout=CHECKOUT, feed_duration_limit_grace=GRACE)
                await in_thread(pool.__enter__, "program")
                self._pool = pool
            return self._pool


def require_library() -> None:
    """Raises ConfigurationError if the extra is not installed."""
    try:
        import pydantic_monty  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise ConfigurationError(
            "code mode needs the extra `code`", hint='pip install "spindle-tools[code]"'
        ) from error


@contextlib.contextmanager
def _session(opening: MontySession) -> Any:
    try:
        session = opening.__enter__()
    except TimeoutError:
        raise BusyError(
            f"no worker was free for the program in {CHECKOUT:g} s",
            hint="run fewer programs at once",
            sent=False,
        ) from None
    try:
        yield session
    finally:
        opening.__exit__(None, None, None)


def _factory(monty: Any, make: Callable[[], ToolModule]) -> Callable[[], Any]:
    def made() -> Any:
        module = make()
        return monty.ExternalModule(dict.fromkeys(module.functions, _never), stubs=module.stubs)

    return made


def _never(*_: Any, **__: Any) -> None:
    raise AssertionError("calls are answered by the host, one by one")


def _printer(turn: SandboxTurn) -> Callable[[Any, str], None]:
    left = MOST_PRINTED

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
            f"the program was not run, and nothing was called:\n{error.display().strip()}", sent=False
        ) from None
    except monty.MontyRuntimeError as error:
        turn.failure, turn.limit = error.display().strip(), _limit_in(error)
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
            turn.value = snapshot.output
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
                AskedCall(snapshot.call_id, snapshot.function_name, snapshot.kwargs, len(snapshot.args))
            )
            snapshot = snapshot.resume({"future": ...})


def _limit_in(error: Any) -> str | None:
    """Returns the limit that stopped a program. The library tells by its own errors, which a program can
    raise too; then it has only itself to blame for the words."""
    said = error.display("type-msg")
    if said.startswith("TimeoutError: feed time limit exceeded"):
        return "seconds"
    return "memory" if said.startswith("MemoryError: memory limit exceeded") else None
