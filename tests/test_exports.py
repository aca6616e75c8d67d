"""The public names, all of them, and what loading the package costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import spindle

PUBLIC = [
    "Agent",
    "AgentEvent",
    "AgentResult",
    "Answer",
    "Block",
    "BlockingSpindle",
    "CallOptions",
    "CallRecord",
    "Context",
    "Continuing",
    "Credential",
    "Event",
    "FilledPrompt",
    "Finished",
    "Hints",
    "Interruption",
    "Limit",
    "Limits",
    "OpenPause",
    "Paused",
    "Principal",
    "Resource",
    "ResourceChange",
    "Result",
    "SourceConfig",
    "SourcePrompt",
    "SourceQuestion",
    "Spindle",
    "SpindleError",
    "SyncReport",
    "Tool",
    "ToolError",
    "ToolSummary",
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
        "httpx2",
        "anyio",
        "click",
        "rich",
    }
