"""What users of other gateways complain about, where no other test shows it. `docs/why.md` has the list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mcp import Client

import spindle
from servers.running import OpenSources, StdioServers
from servers.serving import ERAS, served, text_of
from spindle.domain.serve import ServeConfig
from spindle.serving.access import ServingAccess

EACH_ERA = pytest.mark.parametrize("era", list(ERAS))
MANY = 25


@EACH_ERA
async def test_a_group_with_the_tools_of_more_than_twenty_servers_lists_and_calls_them_all(
    open_sources: OpenSources, stdio_server: StdioServers, era: str
) -> None:
    names = [f"server{number}" for number in range(MANY)]
    group = {"exposed_tools": ["*.echo"]}
    config = ServeConfig.model_validate(
        {"port": 0, "groups": {"guest": group}, "quotas": {"requests": 2 * MANY}}
    )
    async with (
        open_sources({name: stdio_server(name) for name in names}) as app,
        served(app, access=ServingAccess.of(config, {})) as url,
        Client(url, mode=ERAS[era]) as client,
    ):
        assert {report.error is None for report in await app.sync()} == {True}
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert listed == {f"{name}_echo" for name in names}
        for name in names:
            assert text_of(await client.call_tool(f"{name}_echo", {"text": name})) == name
    assert all(len(stdio_server.starts(name)) == 1 for name in names), "each server is started once"


@EACH_ERA
async def test_a_name_that_no_model_takes_is_served_as_one_that_all_take(tmp_path: Path, era: str) -> None:
    long = "a" * 100
    (tmp_path / "tools").mkdir()
    source = f"from spindle import tool\n\n@tool\ndef {long}() -> str:\n    return 'one'\n"
    source += f"\n@tool\ndef {long}b() -> str:\n    return 'two'\n"
    (tmp_path / "tools" / "long.py").write_text(source)
    async with (
        spindle.open(tmp_path) as app,
        served(app) as url,
        Client(url, mode=ERAS[era]) as client,
    ):
        await app.sync()
        listed = sorted(tool.name for tool in (await client.list_tools()).tools)
        assert len(listed) == 2
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in listed)
        assert {text_of(await client.call_tool(name)) for name in listed} == {"one", "two"}
