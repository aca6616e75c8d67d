"""A Python that starts at once: its processes are forked from one that has the libraries of those before it.

Most of the time of a command or a short script goes into importing libraries, and the tests start hundreds.
The programs `PYTHON` and `SPINDLE` take the place of `sys.executable` and `spindle`; with `FOLDER` at the
front of PATH, those of `PROGRAMS` are found by name. What they start is a process with memory, environment,
folder, standard streams and an exit code of its own, and they pass signals on to it. Where a test is about
starting, or about the process itself, it takes the real one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# By process of the tests, and not below the folder of a test, whose path may be too long for a socket.
FOLDER = Path(tempfile.gettempdir()) / f"spindle-warm-{os.getpid()}"
PYTHON = str(FOLDER / "python")
SPINDLE = str(FOLDER / "spindle")
# By name of a program: what Python runs for it.
PROGRAMS = {
    "python": [],
    "spindle": ["-m", "spindle"],
    "mcp-server-git": ["-m", "mcp_server_git"],
    "mcp-server-time": ["-m", "mcp_server_time"],
}

# Runs in a Python that loads nothing: asks for the process, and ends as it does.
FRONT = """#!{python} -ISE
import json, os, signal, socket, sys
passed_on = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)  # until it is known to whom
link = socket.socket(socket.AF_UNIX)
link.connect({address!r})
words = {words!r} + sys.argv[1:]
asked = dict(words=words, folder=os.getcwd(), environment=dict(os.environ), front=os.getpid())
socket.send_fds(link, [json.dumps(asked).encode() + b"\\n"], [0, 1, 2])
nowhere = os.open(os.devnull, os.O_RDWR)
os.dup2(nowhere, 0)  # so that the pipes end with the process that uses them
os.dup2(nowhere, 1)
answers = link.makefile()
child = int(answers.readline())
for number in passed_on:
    signal.signal(number, lambda number, _: os.kill(child, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
code = int(answers.readline())
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def pid_of(front: int) -> int:
    """The number of the process itself, which has said something, by that of the program that was started."""
    return int((FOLDER / f"{front}.pid").read_text())


@contextlib.contextmanager
def warm_python() -> Iterator[None]:
    """Lets `PYTHON` and `SPINDLE` be there for as long as this lasts."""
    address = str(FOLDER / "socket")
    FOLDER.mkdir(mode=0o755)
    try:
        for name, words in PROGRAMS.items():
            front = FOLDER / name
            front.write_text(FRONT.format(python=sys.executable, words=words, address=address))
            front.chmod(0o755)
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("warm_process.py")), address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
            # Else numpy starts threads, after which a process should not be forked.
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
        # It ends with its standard input.
        process.communicate()
    finally:
        shutil.rmtree(FOLDER)
