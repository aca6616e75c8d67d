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

# Runs in a Python that loads nothing: asks for the process, and ends as it does. It takes half the time with
# the modules of C alone, without those around them.
FRONT = """#!{python} -ISE
import _signal, _socket, marshal, os, sys
passed_on = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)
_signal.pthread_sigmask(_signal.SIG_BLOCK, passed_on)  # until it is known to whom
link = _socket.socket(_socket.AF_UNIX)
link.connect({address!r})
words = {words!r} + sys.argv[1:]
asked = marshal.dumps(dict(words=words, folder=os.getcwd(), environment=dict(os.environ), front=os.getpid()))
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
link.sendmsg([len(asked).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
link.sendall(asked)
nowhere = os.open(os.devnull, os.O_RDWR)
os.dup2(nowhere, 0)  # so that the pipes end with the process that uses them
os.dup2(nowhere, 1)
said = b""
def next_number():
    global said
    while b"\\n" not in said:
        more = link.recv(64)
        if not more:
            sys.exit("the Python that processes are forked from is gone")
        said += more
    number, _, said = said.partition(b"\\n")
    return int(number)
child = next_number()
for number in passed_on:
    _signal.signal(number, lambda number, _: os.kill(child, number))
_signal.pthread_sigmask(_signal.SIG_UNBLOCK, passed_on)
code = next_number()
if code < 0:
    if -code != _signal.SIGKILL:
        _signal.signal(-code, _signal.SIG_DFL)
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
