"""The place in a workspace where a Python tool failed, for its author."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

from spindle.domain.call import ToolFailure

MAX_TRACEBACK: Final = 3500
_SPINDLE = str(Path(__file__).parents[1])


def failure_of(error: BaseException, root: Path) -> ToolFailure | None:
    """Returns where the code of a workspace failed: the last frame inside the workspace, or the last one at
    all for code that lies elsewhere. None if no code but Spindle's was running."""
    told = traceback.TracebackException.from_exception(error)
    # The way from the call to the function is ours, and tells its author nothing.
    frames = list(told.stack)
    while frames and frames[0].filename.startswith(_SPINDLE):
        frames.pop(0)
    if not frames:
        return None
    told.stack = traceback.StackSummary.from_list(frames)
    own = [frame for frame in frames if _is_own(Path(frame.filename), root)]
    frame = (own or frames)[-1]
    file = Path(frame.filename)
    return ToolFailure(
        file=str(file.relative_to(root)) if file.is_relative_to(root) else str(file),
        line=frame.lineno or 0,
        function=frame.name,
        code=frame.line or "",
        traceback=_bounded("".join(told.format()).rstrip()),
    )


def _is_own(file: Path, root: Path) -> bool:
    """True for a file of the workspace itself, not of packages that are installed in it."""
    if not file.is_relative_to(root):
        return False
    return not any(part.startswith(".") or part == "site-packages" for part in file.relative_to(root).parts)


def _bounded(text: str) -> str:
    """The text without its middle if it is long: the error is at its end, the tool at its start."""
    if len(text) <= MAX_TRACEBACK:
        return text
    head, tail = text[: MAX_TRACEBACK // 4], text[-MAX_TRACEBACK * 3 // 4 :]
    return f"{head}\n  … ({len(text) - len(head) - len(tail)} characters) …\n{tail}"
