"""`approve = "destructive"`: who is believed when a tool says that it does no harm."""

from __future__ import annotations

import pytest

from spindle.domain.source import SourceConfig
from spindle.domain.tool import Hints

PLAIN = {"name": "a", "description": "a", "inputSchema": {"type": "object"}}
READ_ONLY = {**PLAIN, "annotations": {"readOnlyHint": True}}
HARMLESS = {**PLAIN, "annotations": {"readOnlyHint": False, "destructiveHint": False}}
EVIL = {**PLAIN, "annotations": {"destructiveHint": True}}
PAUSED = 75


@pytest.mark.parametrize(
    ("tool", "settings", "asked"),
    [
        (PLAIN, {}, True),
        (PLAIN, {"pinned": True}, True),
        (READ_ONLY, {}, True),
        (READ_ONLY, {"pinned": True}, False),
        (READ_ONLY, {"trust_hints": True}, False),
        (HARMLESS, {}, True),
        (HARMLESS, {"trust_hints": True}, False),
        (EVIL, {"trust_hints": True}, True),
    ],
)
def test_a_server_s_own_words_spare_no_question_unless_it_is_trusted(
    workspace, spindle, tool, settings, asked
):
    workspace.add_server(tool, approve="destructive", **settings)
    done = spindle("call", "mini.a")
    assert (done.code == PAUSED) is asked, done.err


@pytest.mark.parametrize(
    ("kind", "hints", "destroys"),
    [
        ("openapi", Hints(read_only=True, destructive=False), False),
        ("openapi", Hints(read_only=False), True),
        ("http", Hints(read_only=False), True),
        ("utcp", Hints(), True),
        ("cli", Hints(), True),
        ("cli", Hints(read_only=True), False),
        ("cli", Hints(destructive=False), False),
        ("websocket", Hints(), True),
        ("python", Hints(), False),
        ("python", Hints(destructive=True), True),
        ("mods", Hints(), False),
        ("flows", Hints(), False),
        ("somebody's", Hints(), True),
    ],
)
def test_each_kind_has_its_own_idea_of_what_is_not_said(kind, hints, destroys):
    assert SourceConfig(kind=kind).may_destroy(hints) is destroys
