"""The catalog served as three tools, one of which runs programs: the program as it runs, and real clients."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest
from mcp import Client

import spindle
from mcp_server.test_mcp_access import TOKENS, connected, names, workspace
from servers.serving import ERAS, serve_command, served, text_of
from spindle import Context, tool
from spindle.domain.serve import ServeConfig
from spindle.errors import ConfigurationError
from spindle.mcp_server.server import CatalogServer
from spindle.serving.access import ServingAccess

__all__ = ["workspace"]
EACH_ERA = pytest.mark.parametrize("era", list(ERAS))


def mode(settings: str) -> str:
    return settings.replace("[serve]", '[serve]\nmode = "code"', 1)


@EACH_ERA
async def test_two_principals_have_each_their_own_functions(workspace: Path, era: str) -> None:
    (workspace / "spindle.toml").write_text(mode(TOKENS))
    code = "import tools\n[await tools.who(), await tools.read_it()]"
    async with serve_command(workspace) as (url, _):
        async with connected(url, era, "token-of-ann") as client:
            assert await names(client) == ["describe_tool", "run_code", "search_tools"]
            found = text_of(await client.call_tool("search_tools", {"query": "say something or nothing"}))
            assert "tools.read_it()" in found
            assert "wipe" not in found
            assert "wipe" not in text_of(await client.call_tool("describe_tool", {"name": "tools"}))
            done = await client.call_tool("run_code", {"code": code})
            assert done.structured_content == {"value": ["ann@example.com ['readers']", "read"]}
            hidden = await client.call_tool("run_code", {"code": "import tools\nawait tools.wipe()"})
            assert hidden.is_error
            assert "has no member `wipe`" in text_of(hidden)
        async with connected(url, era, "token-of-bob") as client:
            refused = await client.call_tool("run_code", {"code": code})
            assert refused.is_error
            assert "nothing was called" in text_of(refused)
            done = await client.call_tool("run_code", {"code": "import tools\nawait tools.who()"})
            assert done.structured_content == {"value": "bob ['guest']"}


class Shop:
    """Tools that note what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []

        @tool
        def drop(name: str, context: Context) -> str:
            """Drop it."""
            if not context.approve(f"Drop {name}?"):
                return "kept"
            self.done.append(name)
            return f"dropped {name}"

        @tool(read_only=True)
        def look(name: str) -> dict[str, str]:
            """Look at it."""
            self.done.append(f"look {name}")
            return {"name": name}

        self.tools: list[Any] = [drop, look]


@EACH_ERA
async def test_a_person_is_asked_by_the_client_in_the_middle_of_a_program(tmp_path: Path, era: str) -> None:
    (tmp_path / "spindle.toml").write_text("")
    asked: list[str] = []

    async def allow(_context: Any, params: Any) -> t.ElicitResult:
        asked.append(params.message)
        return t.ElicitResult(action="accept", content={"approved": True})

    shop = Shop()
    code = (
        "import asyncio\nimport python\nfirst = await python.look(name='a')\n"
        "both = await asyncio.gather(python.drop(name='x'), python.look(name='b'))\n[first['name'], both[0]]"
    )
    async with (
        spindle.open(tmp_path, tools=shop.tools) as app,
        served(app, mode="code") as url,
        Client(url, mode=ERAS[era], elicitation_callback=allow) as client,
    ):
        done = await client.call_tool("run_code", {"code": code})
    assert done.structured_content == {"value": ["a", "dropped x"]}
    assert len(asked) == 1
    assert sorted(shop.done) == ["look a", "look b", "x"]


async def test_each_call_of_a_program_counts_for_the_quotas(workspace: Path) -> None:
    (workspace / "spindle.toml").write_text(
        '[serve]\nmode = "code"\n[serve.quotas.rules.few]\ncalls = "2/hour"\n'
    )
    code = "import tools\nfor n in range(3):\n    print(await tools.read_it())\n"
    async with serve_command(workspace) as (url, _), Client(url) as client:
        done = await client.call_tool("run_code", {"code": code})
    assert done.is_error
    assert "the quota 'few' of calls is used up" in text_of(done)
    assert "2. read_it: ok\n3. read_it: rate_limited" in text_of(done)


async def test_a_program_keeps_to_the_limits_of_the_settings(tmp_path: Path) -> None:
    shop = Shop()
    (tmp_path / "spindle.toml").write_text("")
    limits = {"calls": 1, "memory": 20, "seconds": 2}
    async with (
        spindle.open(tmp_path, tools=shop.tools) as app,
        served(app, mode="code", code=limits) as url,
        Client(url) as client,
    ):
        said = {}
        for name, code in {
            "calls": "import python\nfor n in ['a', 'b']:\n    await python.look(name=n)\n",
            "memory": "[0] * 10 ** 9",
            "seconds": "while True:\n    pass",
        }.items():
            done = await client.call_tool("run_code", {"code": code})
            assert done.is_error
            said[name] = text_of(done)
    assert "more than 1 calls" in said["calls"]
    assert "more than 20 MB" in said["memory"]
    assert "longer than 2 s" in said["seconds"]
    assert shop.done == ["look a"]


async def test_without_its_extra_code_mode_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spindle.toml").touch()
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    async with spindle.open(tmp_path) as app:
        with pytest.raises(ConfigurationError, match="code mode needs the extra `code`"):
            CatalogServer(app, ServingAccess.of(ServeConfig(mode="code"), {}))
