"""What may be written about an MCP server, and what may not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from spindle.sources.mcp.config import McpConfig


def test_a_command_may_be_one_string_as_in_a_shell() -> None:
    config = McpConfig(command="npx -y 'a package' --flag=\"two words\"")  # type: ignore[arg-type]
    assert config.command == ("npx", "-y", "a package", "--flag=two words")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "give either `command`"),
        ({"command": ["x"], "url": "http://x"}, "give either `command`"),
        ({"command": ["x"], "transport": "http"}, "goes with `url`"),
        ({"url": "http://x", "transport": "stdio"}, "goes with `command`"),
        ({"url": "ftp://x"}, "must begin with http"),
        ({"command": "echo 'unclosed"}, "cannot be split into words"),
        ({"command": ["x"], "protocol": "1999"}, "protocol"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        McpConfig(**settings)
