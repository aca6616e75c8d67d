"""Running `store_process.py`, several at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from servers import warm

PROGRAM = Path(__file__).with_name("store_process.py")


@contextlib.contextmanager
def processes(*arguments: tuple[str, ...]) -> Iterator[list[subprocess.Popen[str]]]:
    """Start them all and let them go at the same moment."""
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [warm.PYTHON, str(PROGRAM), *each],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for each in arguments
        ]
        for process in started:
            stack.callback(kill, process)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        yield started


def kill(process: subprocess.Popen[str]) -> None:
    """Ends the process itself, not only the program that stands for it, and waits until it is over."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):  # over, and its program will be at once
            os.kill(warm.pid_of(process.pid), signal.SIGKILL)
    process.wait()


def outputs(running: list[subprocess.Popen[str]]) -> list[list[str]]:
    lines = [process.communicate()[0].splitlines() for process in running]
    assert [process.returncode for process in running] == [0] * len(running)
    return lines
