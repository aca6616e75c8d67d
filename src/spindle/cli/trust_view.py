"""The view of a workspace for the person who is asked to trust it, and the question."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spindle.trust import NEVER, shown

if TYPE_CHECKING:
    from spindle.cli.output import Output
    from spindle.settings import Settings
    from spindle.trust.coverage import Coverage
    from spindle.trust.powers import Powers

MOST = 12
"""Lines of each part; `--json` has them all."""
LONGEST = 160


def powers_of(settings: Settings, coverage: Coverage) -> Powers:
    """The powers that trust would give to the workspace."""
    from spindle.settings import STATE_FOLDER
    from spindle.trust.powers import powers

    return powers(coverage, settings.written, settings.root / STATE_FOLDER / "state.db")


def lines_of(settings: Settings, coverage: Coverage) -> list[str]:
    """The lines that a person reads before trusting: the reason, and all that Spindle would do there."""
    found = powers_of(settings, coverage)
    lines = [f"{shown(str(settings.root))} is not trusted: {shown(settings.verdict.reason)}"]
    if settings.verdict.trusted:
        lines = [shown(str(settings.root))]
    lines += _part("changed since it was trusted", settings.verdict.changed)
    lines += _part("it would start", [f"{what}  ({where})" for where, what in found.programs])
    lines += _part("it would import", found.python)
    lines += _part("it would read the variables", [f"{what}  ({where})" for where, what in found.variables])
    lines += _part("it would contact", [f"{what}  ({where})" for where, what in found.hosts])
    lines += _part("its settings, flows and documents", found.files)
    if found.state and settings.verdict.reason == NEVER:
        lines += _part("it comes with a stored state", [found.state])
    return lines


def _part(title: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    lines = [f"  {title}:", *(f"    {shown(item, LONGEST)}" for item in items[:MOST])]
    if len(items) > MOST:
        lines.append(f"    … and {len(items) - MOST} more: `spindle trust --json` lists them")
    return lines


def ask_to_trust(output: Output, settings: Settings, *, exact: bool | None = None) -> bool:
    """Shows what the workspace would do, asks, and marks what was shown. Returns False for a no."""
    from spindle import trust
    from spindle.settings.places import trust_marks

    coverage = settings.cover()
    for line in lines_of(settings, coverage):
        output.aside(line)
    if not _agrees(output, "Trust it, and run what it says? [y/N] "):
        return False
    # What was shown is marked, not what is there by now.
    trust.mark(coverage, trust_marks(), exact=exact)
    return True


def _agrees(output: Output, question: str) -> bool:
    """Asks on the terminal. Blocks, which is right: nothing else may run before the answer."""
    in_main = threading.current_thread() is threading.main_thread()
    # Inside of an event loop Ctrl-C only asks its task to end, and that would wait for the answer.
    before = signal.signal(signal.SIGINT, signal.default_int_handler) if in_main else None
    try:
        output.prompt(question)
        answer = os.read(sys.stdin.fileno(), 4096)
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    if not answer:
        output.aside("")
    return answer.decode("utf-8", "replace").strip().lower() in ("y", "yes")
