"""The public names, all of them, and what loading the package costs."""

from __future__ import annotations

import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import spindle
from spindle import errors

PUBLIC = [
    "Agent",
    "AgentEvent",
    "AgentResult",
    "Answer",
    "ApprovalRequired",
    "AuthError",
    "AuthorizationRequired",
    "Block",
    "BlockingSpindle",
    "BreakerOpenError",
    "BusyError",
    "CallOptions",
    "CallRecord",
    "CallTimeoutError",
    "CancelledCallError",
    "ClientError",
    "ConfigurationError",
    "ConnectionFailedError",
    "Context",
    "Continuing",
    "Credential",
    "CredentialProvider",
    "Event",
    "FilledPrompt",
    "Finished",
    "FlowError",
    "GrantStore",
    "Hints",
    "InDoubtError",
    "InputRequired",
    "Interruption",
    "InvalidArgumentsError",
    "Limit",
    "Limits",
    "LoopError",
    "Mod",
    "ModelError",
    "NameConflictError",
    "NotFoundError",
    "Note",
    "OnQuestion",
    "OpenPause",
    "Paused",
    "Permission",
    "PermissionDeniedError",
    "Principal",
    "Progress",
    "RateLimitedError",
    "Resource",
    "ResourceChange",
    "Result",
    "ResultTooLargeError",
    "RunLostError",
    "RunStore",
    "ServerError",
    "Session",
    "Source",
    "SourceConfig",
    "SourcePrompt",
    "SourceQuestion",
    "Spindle",
    "SpindleError",
    "StateStore",
    "Store",
    "StoreAwayError",
    "StoreError",
    "SyncReport",
    "TableError",
    "TokenGrant",
    "TokenStore",
    "Tool",
    "ToolError",
    "ToolSummary",
    "UntrustedError",
    "Visible",
    "__version__",
    "bearer",
    "callback_app",
    "flow_safe",
    "open",
    "tool",
]


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(spindle.__all__) == PUBLIC
    assert dir(spindle) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_name_can_be_imported(name: str) -> None:
    namespace: dict[str, object] = {}
    exec(f"from spindle import {name} as found", namespace)
    assert getattr(namespace["found"], "__name__", name) == name


def test_a_name_that_is_not_there_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = spindle.nonsense


def test_every_error_is_a_public_name() -> None:
    raised = [
        name
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, (errors.SpindleError, errors.Interruption))
    ]
    assert set(raised) <= set(PUBLIC)
    assert {name: getattr(spindle, name) for name in raised} == {name: vars(errors)[name] for name in raised}


def test_every_error_that_the_reference_names_is_a_public_name() -> None:
    page = Path(__file__).parents[1] / "docs/reference/errors.md"
    named = set(re.findall(r"`(\w+(?:Error|Required|Interruption))`", page.read_text()))
    assert len(named) > 20
    assert named <= set(PUBLIC)


def test_every_type_that_opening_a_workspace_takes_is_a_public_name() -> None:
    told = " ".join(str(item.annotation) for item in inspect.signature(spindle.open).parameters.values())
    named = set(re.findall(r"\b[A-Z]\w+", told)) - {"Any", "Callable", "Mapping", "None", "Path", "Sequence"}
    assert {"CredentialProvider", "GrantStore", "OnQuestion", "TokenStore"} <= named
    elsewhere = {"Clock", "Flow", "Settings"}  # not for programs to implement
    assert named - elsewhere <= set(PUBLIC)


def test_what_a_program_implements_is_a_protocol_or_a_base_class_of_spindle() -> None:
    for name in ("CredentialProvider", "GrantStore", "Mod", "Note", "OnQuestion", "Permission", "Progress",
                 "RunStore", "StateStore", "Store", "TokenStore", "Visible"):  # fmt: skip
        assert getattr(getattr(spindle, name), "_is_protocol", False), name
    assert inspect.isabstract(spindle.Source)
    assert inspect.isabstract(spindle.Session)


def test_a_mistyped_name_is_answered_with_the_one_that_was_meant() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", "import spindle; spindle.NotFoundEror"], capture_output=True, text=True
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("AttributeError: module 'spindle' has no attribute 'NotFoundEror'")
    assert "'NotFoundError'" in last


def test_importing_the_package_alone_loads_nothing_heavy() -> None:
    script = (
        "import sys; before = set(sys.modules); import spindle;"
        "print(*sorted(name.partition('.')[0] for name in set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "spindle" in loaded
    assert not loaded & {
        "pydantic",
        "asyncio",
        "mcp",
        "sqlite3",
        "orjson",
        "aiohttp",
        "httpx2",
        "anyio",
        "click",
        "rich",
    }


def _public_members() -> list[tuple[str, object]]:
    """Every public name, and every public method and property of the public classes."""
    found: list[tuple[str, object]] = []
    for name in PUBLIC:
        value = getattr(spindle, name)
        found.append((name, value))
        if isinstance(value, type):
            found += [
                (f"{name}.{member}", vars(owner)[member])
                for owner in value.__mro__
                if owner.__module__.startswith("spindle")
                for member in vars(owner)
                if not member.startswith("_")
            ]
    return found


MEMBERS = [
    (name, value)
    for name, value in _public_members()
    if callable(value) or isinstance(value, (property, staticmethod, classmethod))
]


@pytest.mark.parametrize(("name", "value"), MEMBERS, ids=[name for name, _ in MEMBERS])
def test_help_says_something_useful(name: str, value: object) -> None:
    documented = inspect.getdoc(value) or ""
    assert len(documented.split()) >= 3, f"help({name}) says {documented!r}"
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        return
    assert len(signature) < 2200
    assert "<" not in re.sub("<(factory|class|enum)", "", signature)


def test_help_of_the_package_shows_its_names() -> None:
    text = pydoc.render_doc(spindle, renderer=pydoc.plaintext)
    assert "NotFoundError" in text
    assert " at 0x" not in text
