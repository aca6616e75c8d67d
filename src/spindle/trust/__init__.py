"""Trust in workspaces: nothing of a folder runs before a person has said that it may.

A mark in the user's own folder says which states of which folder are trusted. A state is the content of all
files that can run or steer what runs. A new state is taken for the user's own edit, and trusted without
asking, only if nobody else can have made it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from spindle.domain.visible import visible
from spindle.errors import ConfigurationError, UntrustedError
from spindle.remedies import Remedy
from spindle.trust.coverage import Coverage
from spindle.trust.marks import DamagedMarkError, Mark, Marks
from spindle.trust.ownership import foreign_writer
from spindle.trust.repositories import START, foreign_move, repositories

VARIABLE = "SPINDLE_TRUST"
NEVER = "nobody has said yet that it may run"
_YES = ("1", "true", "yes", "on")
_NO = ("", "0", "false", "no", "off")


@dataclass(frozen=True)
class Verdict:
    """The answer to the question if a workspace may run anything."""

    trusted: bool
    reason: str = ""
    """Why not."""
    changed: tuple[str, ...] = ()
    """The files that are not as they were when it was last trusted."""
    note: str = ""
    """Something odd on the way to a yes."""

    def require(self, root: Path) -> None:
        """Raises UntrustedError unless the workspace may run."""
        if not self.trusted:
            raise UntrustedError(
                f"the workspace {shown(str(root))} is not trusted, so nothing of it was run: "
                f"{shown(self.reason)}",
                remedy=Remedy("trust", shown(str(root))),
            )


TRUSTED = Verdict(True)


def granted(root: Path, environ: Mapping[str, str]) -> bool:
    """True if SPINDLE_TRUST says so: `1`, or a list of folders with this one, or one above it, among them."""
    text = environ.get(VARIABLE, "").strip()
    if text.lower() in _NO:
        return False
    if text.lower() in _YES:
        return True
    real = Path(os.path.realpath(root))
    for word in text.split(os.pathsep):
        if not word.strip():
            continue
        folder = os.path.expanduser(word.strip())
        if not os.path.isabs(folder):
            raise ConfigurationError(
                f"{VARIABLE} has {word.strip()!r}, which is no whole path",
                hint=f"give 1, or the whole paths of folders, parted by {os.pathsep!r}",
            )
        if real.is_relative_to(os.path.realpath(folder)):
            return True
    return False


def judge(root: Path, cover: Callable[[], Coverage], marks: Marks) -> Verdict:
    """Decides by the marks if a workspace may run, and remembers a new state that only its user can have
    made. The files are looked at only if there is a mark: a stranger's may be endless."""
    path = os.path.realpath(root)
    try:
        mark = marks.read(path)
    except DamagedMarkError as error:
        return Verdict(False, error.message)
    if mark is None:
        return Verdict(False, NEVER)
    coverage = cover()
    if coverage.too_much:
        return Verdict(False, f"{coverage.too_much}, too many to look at each time")
    logs = _logs(coverage, path)
    if coverage.digest in mark.digests:
        return _remembered(marks, coverage, logs, mark) if _has_moved(mark, coverage, logs) else TRUSTED
    changed = tuple(coverage.changed_from(mark.files))
    reason = "it changed, and every change is to be asked about" if mark.exact else ""
    reason = reason or _by_somebody_else(coverage, mark, logs, changed)
    if reason:
        return Verdict(False, reason, changed)
    return _remembered(marks, coverage, logs, mark)


def mark(coverage: Coverage, marks: Marks, *, exact: bool | None = None) -> None:
    """Marks the state that a workspace is in as trusted. `exact`: ask about every change from now on."""
    if coverage.too_much:
        raise ConfigurationError(
            f"{shown(str(coverage.root))} cannot be marked: {coverage.too_much}",
            hint=f"give --trust for one run, or set {VARIABLE}",
        )
    path = os.path.realpath(coverage.root)
    folder = os.stat(path).st_ino
    logs = _logs(coverage, path)

    def renewed(known: Mark | None) -> Mark:
        if known is None or known.folder != folder:
            known = Mark(path, (), folder=folder, exact=bool(exact))
        made = known.now_in(coverage.digest, coverage.files, logs)
        return made if exact is None else replace(made, exact=exact)

    marks.update(path, renewed)


def _has_moved(mark: Mark, coverage: Coverage, logs: Mapping[str, str]) -> bool:
    return mark.digests[0] != coverage.digest or mark.repositories != logs or mark.folder != _inode(mark.path)


def _remembered(marks: Marks, coverage: Coverage, logs: Mapping[str, str], seen: Mark) -> Verdict:
    def renewed(known: Mark | None) -> Mark | None:
        if known is None:
            return None  # removed by the user meanwhile
        return replace(known.now_in(coverage.digest, coverage.files, logs), folder=_inode(seen.path))

    try:
        marks.update(seen.path, renewed)
    except ConfigurationError as error:
        return Verdict(True, note=f"{error.message}, so you may be asked again")
    return TRUSTED


def _by_somebody_else(
    coverage: Coverage, mark: Mark, logs: Mapping[str, str], changed: tuple[str, ...]
) -> str:
    """Returns how somebody else may have made the change; empty if only the user can have."""
    if mark.folder != _inode(mark.path):
        return "another folder is in its place"
    user = os.getuid()
    root = Path(mark.path)
    for real in [root, *(coverage.real.get(place, root / place) for place in changed)]:
        if why := foreign_writer(real, user):
            return f"it changed, and {why}"
    for folder in logs:
        if why := foreign_move(folder, mark.repositories.get(folder, START)):
            return f"it changed, and {why}"
    return ""


def _logs(coverage: Coverage, path: str) -> dict[str, str]:
    return repositories([Path(path) / "spindle.toml", *coverage.real.values()])


def _inode(path: str) -> int:
    return os.stat(path).st_ino


def shown(text: str, most: int = 300) -> str:
    """A text from somebody else on one line: bounded, with escapes for all that is not plainly visible."""
    cut = text if len(text) <= most else f"{text[:most]}…"
    return visible(cut).replace("\n", "\\n").replace("\t", "\\t")
