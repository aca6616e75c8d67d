"""Workspaces that several stories of the console begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from servers.asking import asking
from servers.rest import RestWorkspace
from servers.words import add_words

SPEAK = """\
description: Say something, and wait until a file is there.
inputs:
  text: {type: string}
nodes:
- {id: speak, tool: echo, params: {text: "${text}"}}
"""
HOLD = """\
- {id: hold, tool: wait_for, params: {name: go}}
edges:
- {from: speak, to: hold}
"""


@pytest.fixture
def holding(rest: RestWorkspace) -> RestWorkspace:
    """One with a flow, `hold-on`, whose second node waits until the file `tools/go` is there."""
    (rest.root / "flows").mkdir()
    (rest.root / "flows" / "hold-on.yaml").write_text(SPEAK + HOLD)
    return rest


@pytest.fixture
def approving(tmp_path: Path) -> RestWorkspace:
    """One whose tool `order` waits for an approval, which its owner gives."""
    rest = asking(tmp_path / "shop")
    rest.settings((rest.root / "spindle.toml").read_text().partition("[serve.tokens]")[0])
    return rest


@pytest.fixture
def worded(rest: RestWorkspace) -> RestWorkspace:
    """One with a source, `words`, that is a program: it notes its id in `pid.txt`, and dies at once while
    there is a `dead.txt`."""
    add_words(rest)
    rest.json("sync", "--json")
    return rest
