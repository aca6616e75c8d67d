"""The package as a type checker sees it. Read by pyright in `make check`, never run."""

# pyright: basic, reportUnnecessaryTypeIgnoreComment=true

from typing import assert_type

import spindle


def a_known_name_has_its_type(error: spindle.NotFoundError, pause: spindle.ApprovalRequired) -> None:
    assert_type(error.message, str)
    assert_type(pause.message, str)


def a_mistyped_name_is_an_error() -> None:
    # Each would be reported as a comment without need if the name were taken for known.
    _ = spindle.NotFoundEror  # pyright: ignore[reportAttributeAccessIssue]
    spindle.opn()  # pyright: ignore[reportAttributeAccessIssue]
