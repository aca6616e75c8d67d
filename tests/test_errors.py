"""The error tree: what its docstring shows is what there is."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest

from spindle import errors
from spindle.domain.nested_errors import innermost
from spindle.errors import (
    AuthError,
    CallTimeoutError,
    ClientError,
    InputRequired,
    Interruption,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    ServerError,
    SpindleError,
    from_status,
    suggest,
)


def _all(cls: type[SpindleError]) -> list[type[SpindleError]]:
    return [cls, *(below for child in cls.__subclasses__() for below in _all(child))]


# Only those of the module itself: tests define errors of their own.
ALL = [cls for cls in _all(SpindleError) if cls.__module__ == "spindle.errors"]
LINE = re.compile(r"^ {4}([│├└─ ]*)(\w+Error)\b +(\S.*?)(?: {2,}(\w+))?$")


def _drawn() -> list[tuple[int, str, str | None]]:
    """(depth, name, category) of every line of the tree."""
    assert errors.__doc__ is not None
    found: list[tuple[int, str, str | None]] = [(0, "SpindleError", None)]
    for line in errors.__doc__.splitlines():
        match = LINE.match(line)
        if match:
            found.append((len(match[1]) // 4, match[2], match[4]))
    return found


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn_parents: dict[str, str] = {}
    path: list[str] = []
    for depth, name, _ in _drawn():
        path[depth:] = [name]
        if depth:
            drawn_parents[name] = path[depth - 1]
    real_parents = {cls.__name__: cls.__bases__[0].__name__ for cls in ALL if cls is not SpindleError}
    assert drawn_parents == real_parents


def test_the_categories_in_the_docstring_are_the_categories() -> None:
    drawn = {name: category for _, name, category in _drawn() if category}
    real = {cls.__name__: cls.category for cls in ALL if cls.__bases__[0] is SpindleError}
    assert drawn == real


def test_each_branch_has_a_category_of_its_own_and_its_twigs_share_it() -> None:
    branches = [cls for cls in ALL if cls.__bases__[0] is SpindleError]
    categories = [cls.category for cls in branches]
    assert len(set(categories)) == len(categories)
    assert SpindleError.category not in categories
    twigs = [cls for cls in ALL if cls is not SpindleError and cls not in branches]
    assert all(cls.category == cls.__bases__[0].category for cls in twigs)  # type: ignore[attr-defined]


FIELDS: dict[str, Any] = {
    "hint": "do this", "source": "fs", "tool": "fs.read", "status": 418, "retry_after": 1.5,
    "details": {"a": [1]},
}  # fmt: skip


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_error_is_told_as_a_dict_of_what_is_known(cls: type[SpindleError]) -> None:
    whole = cls("it broke", **FIELDS)
    assert whole.to_dict() == {
        "category": cls.category,
        "message": "it broke",
        "retryable": whole.retryable,
        **FIELDS,
    }
    bare = cls("it broke")
    assert set(bare.to_dict()) == {"category", "message", "retryable"}
    assert bare.sent
    assert str(bare) == "it broke"
    for twin in (copy.copy(whole), pickle.loads(pickle.dumps(whole))):
        assert type(twin) is cls
        assert twin.to_dict() == whole.to_dict()


def test_what_is_known_of_the_place_is_not_overwritten() -> None:
    error = ClientError("x", source="first")
    assert error.about(source="second", tool="second.t") is error
    assert (error.source, error.tool) == ("first", "second.t")


NAMED = {
    401: AuthError, 407: AuthError, 403: PermissionDeniedError, 404: NotFoundError, 410: NotFoundError,
    408: CallTimeoutError, 504: CallTimeoutError, 429: RateLimitedError,
}  # fmt: skip


@pytest.mark.parametrize("status", range(400, 600))
def test_every_status_means_an_error(status: int) -> None:
    error = from_status(status, "it broke", source="fs")
    expected = NAMED.get(status, ClientError if status < 500 else ServerError)
    assert type(error) is expected
    assert (error.status, error.source, error.message) == (status, "fs", "it broke")
    assert error.retryable == (status in (408, 429) or status >= 500)


def test_a_source_that_says_when_to_come_back_only_asks_to_wait() -> None:
    error = from_status(503, "busy", retry_after=3)
    assert type(error) is RateLimitedError
    assert error.retry_after == 3
    assert type(from_status(503, "busy", retry_after=0)) is RateLimitedError


def test_a_pause_is_not_caught_by_handlers_of_errors() -> None:
    def pausing() -> str:
        try:
            raise InputRequired("which one?")
        except Exception:
            return "swallowed"

    with pytest.raises(Interruption):
        pausing()
    assert not issubclass(Interruption, Exception)
    assert not issubclass(Interruption, SpindleError)


def test_the_error_inside_groups_of_errors_is_found() -> None:
    inner = ValueError("x")
    assert innermost(ExceptionGroup("a", [ExceptionGroup("b", [inner]), KeyError()])) is inner
    assert innermost(inner) is inner


def test_a_mistyped_name_gets_the_one_that_was_meant() -> None:
    assert suggest("reed_file", ["read_file", "write"]) == "read_file"
    assert suggest("zzz", ["read_file", "write"]) is None
    assert suggest("x", []) is None
