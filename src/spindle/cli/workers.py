"""`spindle serve --workers N`: the process that owns the port and the workers."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from spindle.cli.context import CliContext
    from spindle.domain.serve import ServeConfig


async def serve(
    cli: CliContext,
    config: ServeConfig,
    given: Mapping[str, Any],
    count: int,
    way: str,
    tell: Callable[[str], None],
) -> int:
    """Serves with several workers until stopped, and tells the address once they do. `way` is the option that
    says how. Returns the exit code of the first worker if it cannot serve."""
    from spindle.cli.serving_place import serving_place
    from spindle.serving.access import ServingAccess
    from spindle.serving.workers import Workers

    settings = cli.settings()
    if settings.raw.get("store") == ":memory:":
        raise ConfigurationError(
            "workers share what is stored, and this workspace stores nothing",
            hint='take `store = ":memory:"` out of the settings, or serve with one process',
        )
    command = [sys.executable, "-m", "spindle", "serve", way, *(["--trust"] if cli.trusted else [])]
    command += ["-w", str(settings.root)] if settings.is_workspace else []
    for name, value in given.items():
        option = f"--{'tls-cert' if name == 'tls_certificate' else name.replace('_', '-')}"
        command += [option] if value is True else [option, str(value)]
    async with serving_place(cli, config, ServingAccess.of(config)) as place:
        workers = Workers(command, place.listening, count, cli.output.note)
        code = await workers.start()
        if code is not None:
            return code or 1
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, workers.read_again)
        tell(place.url)
        try:
            async with place.manager.told(f"serving on {place.url}"):
                await workers.run()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        finally:
            await until_done(workers.stop(config.shutdown_timeout))
    return 0


async def until_done(work: Coroutine[Any, Any, None]) -> None:
    """Does the work to its end, however often it is cancelled: a signal to a whole group may come twice."""
    doing = asyncio.ensure_future(work)
    while not doing.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({doing})
    doing.result()
