"""The program that the processes of `servers/warm.py` are forked from: `python warm_process.py SOCKET`.

It must not start a thread, or forking would not be safe: it does nothing but import.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
import types
import warnings
from pathlib import Path
from typing import Any, NoReturn

# The packages worth loading for all, each with what it imports; none of them starts a thread.
COMMON = {
    "aiohttp", "anthropic", "anyio", "asyncio", "click", "cryptography", "git", "httptools", "httpx2",
    "jsonschema_rs", "jwt", "langchain_core", "langchain_openai", "langgraph", "mcp", "mcp_server_git",
    "mcp_server_time", "openai", "orjson", "platformdirs", "psycopg", "pydantic", "pydantic_ai", "rich",
    "spindle", "sqlite3", "starlette", "tomlkit", "utcp", "uvicorn", "uvloop", "websockets", "yaml",
}  # fmt: skip
# The threads of Arrow and of Temporal would not survive a fork.
NEVER = ("spindle.tables", "spindle.cli.table", "spindle.engines.temporal")


def receive(link: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """What is asked, and the standard streams to use."""
    length, files, _, _ = socket.recv_fds(link, 4, 3)
    with link.makefile("rb") as rest:
        return marshal.loads(rest.read(int.from_bytes(length, "big"))), files


def learn(notes: Path) -> None:
    """Import what processes before have imported, as they wrote down."""
    for name in notes.read_text().split() if notes.exists() else ():
        if name not in sys.modules:
            # Some libraries make up modules as they go.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
            if len(os.listdir("/proc/self/task")) > 1:
                sys.exit(f"{name} starts a thread, which does not survive a fork")


def teach(notes: Path, known: set[str]) -> None:
    """Write down which modules of libraries and of Spindle this process has imported."""
    # In the order in which they were imported, since not every module can be the first of its package.
    new = [
        name
        for name in sys.modules.copy()
        if name not in known and name.partition(".")[0] in COMMON and not name.startswith(NEVER)
    ]
    if new:
        with notes.open("a") as file:
            file.write("\n".join(new) + "\n")


def forked(link: socket.socket, files: list[int]) -> bool:
    """Returns True in the new process. Another waits for it, and ends it when nobody waits any more."""
    if os.fork():
        return False
    child = os.fork()
    if child == 0:
        return True
    for file in files:
        os.close(file)
    link.sendall(f"{child}\n".encode())
    ended = os.pidfd_open(child)
    if ended not in select.select([ended, link], [], [])[0]:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        link.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def forget_ended() -> None:
    """Those that waited for a process have nothing to tell when they end."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def become(asked: dict[str, Any], files: list[int]) -> None:
    """Take over the streams, the folder and the environment of whoever asked."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    sys.stdin = sys.__stdin__ = open(0, encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", 1, encoding, "backslashreplace", closefd=False)  # noqa: SIM115


def execute(words: list[str]) -> None:
    """As Python does with these words: `-W ACTION`, then `-m MODULE`, `-c TEXT` or a file, and arguments."""
    while words[0] == "-W":
        warnings.simplefilter(words[1])
        words = words[2:]
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path.insert(0, "")
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec", dont_inherit=True), main.__dict__)
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(words[0]).parent))
        runpy.run_path(words[0], run_name="__main__")


def outcome(words: list[str]) -> int:
    """Execute them; returns the exit code."""
    try:
        execute(words)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        return -signal.SIGINT
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def end(code: int) -> NoReturn:
    """As Python ends, but for taking all modules apart, which takes long and nobody sees."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 255)


def main(address: str) -> None:
    # The folder of this file is not one to import from.
    del sys.path[0]
    notes = Path(f"{address}.modules")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        print("ready", flush=True)
        while True:
            # Standard input ends with the tests.
            if sys.stdin in select.select([listening, sys.stdin], [], [])[0]:
                return
            link, _ = listening.accept()
            forget_ended()
            asked, files = receive(link)
            learn(notes)
            # What is there does not have to be looked through, and so copied, by every process.
            gc.freeze()
            if forked(link, files):
                break
            for file in files:
                os.close(file)
            link.close()
    link.close()
    known = set(sys.modules)
    Path(address).with_name(f"{asked['front']}.pid").write_text(str(os.getpid()))
    become(asked, files)
    code = outcome(asked["words"])
    teach(notes, known)
    end(code)


if __name__ == "__main__":
    main(sys.argv[1])
