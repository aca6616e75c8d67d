"""Errors inside groups of errors, which tasks that work together raise."""

from __future__ import annotations

from typing import cast


def innermost(error: BaseException) -> BaseException:
    """The first error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
