"""The check that a program can be started, without starting it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from shutil import which

from spindle.errors import ConnectionFailedError

_INSTALL = "install the program, or give its whole path"


def require_program(name: str, program: str, env: Mapping[str, str], cwd: Path) -> None:
    """Raises ConnectionFailedError if `program` of the source `name` cannot be started in `cwd`."""
    if not cwd.is_dir():
        raise _missing(name, str(cwd), "was not found", "create that folder, or correct `cwd`")
    if "/" not in program:
        found = which(program, path=env.get("PATH"))
        if found is None:
            raise _missing(name, program, "was not found", _INSTALL)
        file = Path(found)
    else:
        file = cwd / program
        if not file.is_file():
            raise _missing(name, program, "was not found", _INSTALL)
        if not os.access(file, os.X_OK):
            raise _missing(name, program, "may not be executed", f"run `chmod +x {file}`")
    interpreter = _interpreter(file)
    if interpreter is not None and not Path(interpreter).is_file():
        raise _missing(
            name,
            program,
            f"wants the interpreter {interpreter!r}, which was not found",
            "correct its first line",
        )


def _missing(name: str, program: str, problem: str, hint: str) -> ConnectionFailedError:
    return ConnectionFailedError(f"cannot start {name!r}: {program!r} {problem}", hint=hint, sent=False)


def _interpreter(file: Path) -> str | None:
    """The interpreter that a script's first line names."""
    try:
        with file.open("rb") as opened:
            line = opened.readline(512)
    except OSError:
        return None  # a program may be executable and not readable
    words = line[2:].split() if line.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words else None
