from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parent / "argv_program.py"


@pytest.fixture
def program() -> Any:
    """Settings of a source of kind `cli` whose program shows how it was called."""

    def settings(commands: dict[str, Any], **further: Any) -> dict[str, Any]:
        return {
            "kind": "cli",
            "program": [sys.executable, "-I", "-S", str(PROGRAM)],
            "commands": commands,
            **further,
        }

    return settings
