"""Resources, prompts and completions of sources, through the served catalog."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest
from mcp import Client, MCPError
from mcp.shared.exceptions import MCPDeprecationWarning

import spindle
from mcp_server.conftest import OpenFixture, fixture_source
from servers.running import PATIENCE
from servers.serving import ERAS, served, text_of
from spindle.calls.relay import own_address
from spindle.domain.resource import MAX_URI, fits_template, places_of
from spindle.settings import Settings

EACH_ERA = pytest.mark.parametrize("era", list(ERAS))
EACH_SOURCE = pytest.mark.parametrize("source", ["handshake", "2026-07-28"])


@EACH_ERA
@EACH_SOURCE
async def test_prompts_are_offered_under_their_sources_name(
    open_fixture: OpenFixture, era: str, source: str
) -> None:
    async with (
        open_fixture(prefix=True, protocol=source) as app,
        served(app) as url,
        Client(url, mode=ERAS[era]) as client,
    ):
        names = {prompt.name for prompt in (await client.list_prompts()).prompts}
        given = {"arg1": "a", "arg2": "b"}
        prompt = await client.get_prompt("fixture.test_prompt_with_arguments", given)
        ref = t.PromptReference(name="fixture.test_prompt_with_arguments")
        completed = await client.complete(ref, {"name": "arg1", "value": "par"})
        with pytest.raises(MCPError, match=r"did you mean 'fixture\.test_simple_prompt'"):
            await client.get_prompt("test_simple_prompt")
    assert "fixture.test_simple_prompt" in names
    assert isinstance(prompt.messages[0].content, t.TextContent)
    assert prompt.messages[0].content.text == "Prompt with arguments: arg1='a', arg2='b'"
    assert completed.completion.values == ["paris", "park", "party"]


@EACH_ERA
@EACH_SOURCE
async def test_resources_keep_their_addresses(open_fixture: OpenFixture, era: str, source: str) -> None:
    async with (
        open_fixture(protocol=source) as app,
        served(app) as url,
        Client(url, mode=ERAS[era]) as client,
    ):
        # Not listed before: the way to a resource is found when it is asked for.
        (read,) = (await client.read_resource("test://template/7/data")).contents
        listed = {str(item.uri) for item in (await client.list_resources()).resources}
        templates = (await client.list_resource_templates()).resource_templates
        with pytest.raises(MCPError) as missing:
            await client.read_resource("test://nowhere")
    assert isinstance(read, t.TextResourceContents)
    assert '"id":"7"' in read.text
    assert "test://static-text" in listed
    assert [item.uri_template for item in templates] == ["test://template/{id}/data"]
    assert missing.value.code == (-32602 if era == "modern" else -32002)
    assert missing.value.data == {"uri": "test://nowhere"}


async def test_of_two_sources_with_one_address_both_can_be_read(tmp_path: Path) -> None:
    sources = {name: fixture_source(prefix=True) for name in ("one", "two")}
    settings = Settings(tmp_path, {"sources": sources, "store": ":memory:"})
    async with spindle.open(settings=settings) as app, served(app) as url, Client(url) as client:
        listed = [str(item.uri) for item in (await client.list_resources()).resources]
        assert len(listed) == len(set(listed)) == 8
        address = own_address("two", "test://static-text")
        assert address in listed
        (read,) = (await client.read_resource(address)).contents
        assert str(read.uri) == address
        names = {prompt.name for prompt in (await client.list_prompts()).prompts}
        assert {"one.test_simple_prompt", "two.test_simple_prompt"} <= names


async def test_a_source_that_fails_does_not_hide_the_others(tmp_path: Path) -> None:
    sources = {"good": fixture_source(), "bad": {"command": ["/no/such/program"]}}
    settings = Settings(tmp_path, {"sources": sources, "store": ":memory:"})
    async with spindle.open(settings=settings) as app, served(app) as url, Client(url) as client:
        assert (await client.list_resources()).resources
        assert (await client.list_prompts()).prompts
        assert "test_touch_resource" in [tool.name for tool in (await client.list_tools()).tools]
        assert text_of(await client.call_tool("test_touch_resource", {})) == "Touched."


@EACH_ERA
@EACH_SOURCE
async def test_a_watched_resource_that_changes_is_told(
    open_fixture: OpenFixture, era: str, source: str
) -> None:
    updated = asyncio.Event()
    uri = "test://watched-resource"

    async def hear(message: Any) -> None:
        if isinstance(message, t.ResourceUpdatedNotification) and str(message.params.uri) == uri:
            updated.set()

    async with (
        open_fixture(protocol=source) as app,
        served(app) as url,
        Client(url, mode=ERAS[era], message_handler=hear) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        if era == "modern":
            await stack.enter_async_context(client.listen(resource_subscriptions=[uri]))
        else:
            with pytest.warns(MCPDeprecationWarning):
                await client.session.subscribe_resource(uri)
        async with asyncio.timeout(PATIENCE):
            while not updated.is_set():
                # The source may still be about to take note of who watches.
                assert text_of(await client.call_tool("test_touch_resource", {})) == "Touched."
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await updated.wait()


@EACH_ERA
async def test_a_watched_resource_of_the_second_of_two_sources_is_told_under_its_own_address(
    tmp_path: Path, era: str
) -> None:
    sources = {name: fixture_source(prefix=True) for name in ("one", "two")}
    told: asyncio.Queue[str] = asyncio.Queue()
    uri = own_address("two", "test://watched-resource")

    async def hear(message: Any) -> None:
        if isinstance(message, t.ResourceUpdatedNotification):
            told.put_nowait(str(message.params.uri))

    settings = Settings(tmp_path, {"sources": sources, "store": ":memory:"})
    async with (
        spindle.open(settings=settings) as app,
        served(app) as url,
        Client(url, mode=ERAS[era], message_handler=hear) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        if era == "modern":
            await stack.enter_async_context(client.listen(resource_subscriptions=[uri]))
        else:
            with pytest.warns(MCPDeprecationWarning):
                await client.session.subscribe_resource(uri)
        async with asyncio.timeout(PATIENCE):
            while told.empty():
                # The source may still be about to take note of who watches.
                await client.call_tool("one_test_touch_resource", {})
                await client.call_tool("two_test_touch_resource", {})
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        assert await told.get() == uri
                        break


def test_an_address_fits_a_template_that_it_may_have_come_from() -> None:
    assert fits_template("test://template/7/data", "test://template/{id}/data")
    assert fits_template("db://a/b/c", "db://{+path}")
    assert not fits_template("test://template/7", "test://template/{id}/data")
    assert not fits_template("testXtemplate", "test.template")
    assert fits_template("a://x-y", "a://{one}-{two}")
    assert fits_template("a://", "a://{one}{two}")
    assert not fits_template("ab", "ab{x}b")
    assert not fits_template("a://x", "a://x{")
    assert fits_template("a://{x", "a://{{x}")
    assert places_of("a{b}c{d") == (["a", "c{d"], ["{b}"])


def test_a_template_with_many_places_costs_no_more_than_its_length() -> None:
    address = "a" * (MAX_URI - 1)
    assert not fits_template(address, "{x}a" * 400 + "b")
    assert fits_template(address, "{x}a" * 400)
    assert not fits_template(address + "aa", "{x}")
    assert not fits_template(address, "{x}" * MAX_URI)


@EACH_ERA
async def test_an_address_longer_than_any_is_refused_wherever_it_enters(
    open_fixture: OpenFixture, era: str
) -> None:
    long = "test://template/" + "a" * MAX_URI + "/data"
    async with open_fixture() as app, served(app) as url, Client(url, mode=ERAS[era]) as client:
        for attempt in (
            lambda: client.read_resource(long),
            lambda: client.read_resource(own_address("fixture", long)),
            lambda: client.complete(t.ResourceTemplateReference(uri=long), {"name": "id", "value": "1"}),
        ):
            with pytest.raises(MCPError, match="has more than 2048 characters"):
                await attempt()
        with pytest.raises(spindle.InvalidArgumentsError, match="has more than 2048 characters"):
            await app.read(long)
        with pytest.raises(spindle.InvalidArgumentsError, match="has more than 2048 characters"):
            await app.read(long, source="fixture")
