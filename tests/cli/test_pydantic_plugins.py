"""The search of pydantic for plugins, which a command is spared where there are none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PLUGIN = """
class Plugin:
    def new_schema_validator(self, schema, schema_type, *rest):
        print("seen", schema_type.__name__)
        return None, None, None

plugin = Plugin()
"""
SCRIPT = """
import json, sys
from spindle.cli.pydantic_plugins import look_first
look_first()
from pydantic import BaseModel
class Point(BaseModel):
    x: int
point = Point(x="1")
from pydantic.plugin import _loader
print(json.dumps({
    "x": point.x,
    "searched": "importlib.metadata" in sys.modules,
    "plugins": [type(one).__name__ for one in _loader.get_plugins()],
    "group": _loader.PYDANTIC_ENTRY_POINT_GROUP,
}))
"""


def run(folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Returns what plugins said, and what a program found that makes a model."""
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        env=unmeasured | {"PYTHONPATH": str(folder)},
    )
    *said, found = done.stdout.splitlines()
    return said, json.loads(found)


def test_without_plugins_packages_are_not_searched(tmp_path: Path) -> None:
    said, found = run(tmp_path)
    assert said == []
    assert found == {"x": 1, "searched": False, "plugins": [], "group": "pydantic"}


def test_a_declared_plugin_is_used(tmp_path: Path) -> None:
    (tmp_path / "seeing.py").write_text(PLUGIN)
    declared = tmp_path / "seeing-1.dist-info"
    declared.mkdir()
    (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: seeing\nVersion: 1\n")
    (declared / "entry_points.txt").write_text("[pydantic]\nseeing = seeing:plugin\n")
    said, found = run(tmp_path)
    assert "seen Point" in said
    assert found == {"x": 1, "searched": True, "plugins": ["Plugin"], "group": "pydantic"}


def test_a_path_that_only_pydantic_can_read_is_left_to_it(tmp_path: Path) -> None:
    archive = tmp_path / "some.zip"
    archive.write_bytes(b"PK\x05\x06" + bytes(18))
    said, found = run(archive)
    assert said == []
    assert found == {"x": 1, "searched": True, "plugins": [], "group": "pydantic"}
