"""Loads the modules of a command, and takes them out of the collector's sight."""

from __future__ import annotations

import gc
import sys
from importlib import import_module


def load(*modules: str) -> None:
    """Loads modules of ours before anything of the workspace runs, without the collector of circles, and for
    good: to look through them while they load, and to take them apart at the exit, takes a sixth of the time
    of a call. What is made later is collected as ever."""
    if all(name in sys.modules for name in modules):
        return
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for name in modules:
            import_module(name)
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()
