"""Tells by git's own log if files came from elsewhere. Git is never run: in a hostile folder it runs code.

The log of HEAD has a line for each time that HEAD moved, `OLD NEW NAME <MAIL> TIME ZONE<tab>WHY`. It is
written by the git of this machine and is no part of what is cloned or pulled.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

MAX_LOG = 2_000_000
LAST_LINES = 65_536
"""Bytes at the end of a log in which its last line is."""
MAX_REFS = 32_000_000
START = ""
"""The position in the log of a repository without any commit."""
UNKNOWN = "unknown"

_OWN = ("commit: ", "commit (initial): ", "commit (amend): ")
# A merge, pick or rebase that has begun changes files before HEAD moves.
_UNFINISHED = (
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG"),
    *("rebase-merge", "rebase-apply", "sequencer"),
)
_OTHERS = (".hg", ".svn", ".jj", ".sl", ".bzr", "_darcs", ".fslckout", "_FOSSIL_", ".pijul", "CVS/Entries")


def repositories(files: Iterable[Path]) -> dict[str, str]:
    """The repositories that the files lie in, each with the position of its log."""
    found: dict[str, str] = {}
    seen: set[Path] = set()
    for file in files:
        for folder in file.parents:
            if folder in seen:
                break
            seen.add(folder)
            # All above count, not only the nearest: a repository inside of another is updated by both.
            if os.path.lexists(folder / ".git"):
                found[str(folder)] = _position(folder)
            elif any(os.path.lexists(folder / name) for name in _OTHERS):
                found[str(folder)] = UNKNOWN
    return found


def foreign_move(folder: str, before: str) -> str:
    """Returns how files of a repository may have come from elsewhere since its log was at a position.
    Empty if HEAD moved only by commits made here, or not at all."""
    root = Path(folder)
    git = _git_folder(root)
    if git is None:
        return f"{root} is kept by a program whose log Spindle does not read"
    if unfinished := next((name for name in _UNFINISHED if os.path.lexists(git / name)), None):
        return f"git is in the middle of something in {root} ({unfinished})"
    lines = _log(git)
    if lines is None:
        return "" if before == START and _is_unborn(git) else f"git keeps no log of HEAD in {root}"
    if not _is_of_head(git, lines):
        return f"the log of git in {root} is not that of HEAD"
    if before == UNKNOWN:
        return f"git kept no log of HEAD in {root}"
    if before != START:
        marks = [_mark(line) for line in lines]
        if before not in marks:
            return f"the log of git in {root} does not go back to the time when it was trusted"
        # The last of them: HEAD may have been moved twice in one second between the same commits.
        lines = lines[len(marks) - marks[::-1].index(before) :]
    for line in lines:
        head, tab, why = line.partition(b"\t")
        commits = head.split(b" ")[:2]
        stayed = len(commits) == 2 and commits[0] == commits[1] and len(commits[0]) >= 40
        if not stayed and not (tab and why.startswith(tuple(map(str.encode, _OWN)))):
            said = why.decode("utf-8", "replace").partition(":")[0].partition(" -")[0] or "something unknown"
            return f"git moved to other commits in {root} ({said[:60]})"
    return ""


def _position(root: Path) -> str:
    git = _git_folder(root)
    if git is None:
        return UNKNOWN
    lines = _log(git, LAST_LINES)
    if lines is None:
        return START if _is_unborn(git) else UNKNOWN
    return _mark(lines[-1]) if lines else UNKNOWN


def _mark(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _git_folder(root: Path) -> Path | None:
    """The folder of git's own files: `.git`, or the folder that a file `.git` names, as in a worktree."""
    git = root / ".git"
    if git.is_dir():
        return git
    begin = _read(git, 4096)
    if begin is None or not begin.startswith(b"gitdir:"):
        return None
    named = os.fsdecode(begin.removeprefix(b"gitdir:").strip())
    folder = root / named
    return folder if "\0" not in named and folder.is_dir() else None


def _log(git: Path, most: int = MAX_LOG) -> list[bytes] | None:
    """The last lines of the log of HEAD; None without a log."""
    data = _read(git / "logs" / "HEAD", most, tail=True)
    return None if data is None else [line for line in data.split(b"\n") if line]


def _is_of_head(git: Path, lines: list[bytes]) -> bool:
    """True if the log ends where HEAD is. Otherwise git writes another one, as it can be told to, and this
    one came with the folder."""
    head = _head(git)
    ends = lines[-1].split(b" ")[1:2] if lines else []
    return bool(head) and ends == [head]


def _is_unborn(git: Path) -> bool:
    """True if no commit was ever made or fetched into HEAD."""
    return _head(git) == b""


def _head(git: Path) -> bytes | None:
    """The commit that HEAD is at: empty if there is none yet, None if that cannot be told."""
    common = _common_folder(git)
    if common is None or any(os.path.lexists(folder / "reftable") for folder in (git, common)):
        return None  # refs in a form that is not read here
    head = (_read(git / "HEAD", 4096) or b"").strip()
    if not head.startswith(b"ref: "):
        return head or None
    name = head.removeprefix(b"ref: ").strip()
    if not name.startswith(b"refs/") or b".." in name or b"\0" in name:
        return None
    loose = common / os.fsdecode(name)
    if os.path.lexists(loose):
        return (_read(loose, 4096) or b"").strip() or None
    if not os.path.lexists(common / "packed-refs"):
        return b""
    refs = _read(common / "packed-refs", MAX_REFS)
    if refs is None or len(refs) == MAX_REFS:
        return None
    found = [line.split(b" ")[0] for line in refs.split(b"\n") if line.endswith(b" " + name)]
    return found[0] if found else b""


def _common_folder(git: Path) -> Path | None:
    """The folder of the refs, which worktrees share."""
    if not os.path.lexists(git / "commondir"):
        return git
    named = os.fsdecode((_read(git / "commondir", 4096) or b"").strip())
    folder = git / named
    return folder if named and "\0" not in named and folder.is_dir() else None


def _read(file: Path, most: int, *, tail: bool = False) -> bytes | None:
    """Reads a regular file, or its end, within a bound."""
    try:
        if not file.is_file():
            return None
        with file.open("rb") as handle:
            if tail:
                handle.seek(max(0, os.fstat(handle.fileno()).st_size - most))
            return handle.read(most)
    except (OSError, ValueError):
        return None
