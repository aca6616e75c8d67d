"""Trying tools and watching runs, in a real Chromium: by keyboard, live, and with hostile results."""

from __future__ import annotations

import base64
import io
import json
import sys
import wave
from pathlib import Path

import pytest

from servers.asking import asking
from servers.browser import PATIENCE
from servers.console import axe, console_browser, fits, picture
from servers.rest import RestWorkspace
from servers.running import until

pytestmark = [pytest.mark.browser, pytest.mark.npm]

TOOLS = '''
import asyncio
import base64
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from spindle import Block, Context, Result, tool

HERE = Path(__file__).parent
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Guest(BaseModel):
    name: str = Field(description="As it stands on the invitation.")
    age: int | None = None


@tool(read_only=True)
def invite(guests: list[Guest], when: Literal["noon", "evening"] = "evening", note: str | None = None):
    """Write invitations for guests. Each of them gets a table."""
    return [{"guest": guest.name, "table": at + 1, "when": when, "note": note}
            for at, guest in enumerate(guests)]


@tool
def evil():
    """Returns what a page must not run."""
    bad = "<script>alert(1)</script><img src=x onerror=alert(2)> \\u202edlrow"
    return Result((Block("text", text=bad), Block("image", data=DOT, mime_type="image/png"),
                   Block("link", uri="javascript:alert(3)", name="click"),
                   Block("link", uri="https://example.com/", name="a page"),
                   Block("text", text="x" * 10_000_000)))


async def wait(name: str) -> None:
    (HERE / f"{name}.begun").touch()
    while not (HERE / name).exists():
        await asyncio.sleep(0.02)


@tool
async def slow(ctx: Context) -> str:
    """Takes its time."""
    ctx.progress(1, 4, "one of four")
    await wait("slow")
    return "done"


@tool
async def fetch(page: str) -> str:
    """Fetch a page."""
    await wait("fetch")
    return page


@tool(read_only=True)
async def summarise(text: str) -> str:
    """Summarise a text."""
    await wait("summarise")
    return text[:4]
'''
FLOW = """
name: digest
inputs:
  page: {type: string, default: the news of today}
nodes:
  - {id: get, tool: fetch, params: {page: "${page}"}}
  - {id: short, tool: summarise, params: {text: "${get}"}}
edges:
  - {from: get, to: short}
"""

SERVER = """
import json, sys

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    tool = {"name": "now", "description": "Say the time.", "inputSchema": {"type": "object"}}
    made = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "time", "version": "1"}},
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": "it is noon"}]},
    }.get(message["method"])
    answer = {"result": made} if made else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""

MEDIA = """
import base64
import io
import wave
from pathlib import Path
from typing import Annotated

from pydantic import Field

from spindle import Block, Result, tool
from spindle.errors import RateLimitedError

BUSY = Path(__file__).with_name("busy")


@tool(read_only=True)
def listen(sound: Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"})]):
    'Plays a sound back, with its size as a file.'
    data = base64.b64decode(sound, validate=True)
    size = base64.b64encode(f"{len(data)} bytes".encode()).decode()
    return Result((Block("audio", data=sound, mime_type="audio/wav"),
                   Block("resource", data=size, mime_type="text/csv", name="size.csv")))


@tool(read_only=True)
def shaky() -> str:
    'Is busy the first time.'
    if not BUSY.exists():
        BUSY.touch()
        raise RateLimitedError("come back later", retry_after=0)
    return "here it is"
"""


@pytest.fixture
def rest(tmp_path: Path) -> RestWorkspace:
    made = RestWorkspace(tmp_path / "shop")
    (made.root / "tools" / "t.py").write_text(TOOLS)
    (made.root / "flows").mkdir()
    (made.root / "flows" / "digest.yaml").write_text(FLOW)
    return made


async def test_a_tool_is_tried_by_keyboard_alone(rest: RestWorkspace) -> None:
    async with console_browser(rest) as console:
        page = await console.page("/tools/invite")
        await page.keyboard.press("t")
        await page.get_by_role("heading", name="Try invite").wait_for()
        call = page.get_by_role("button", name="Call", exact=True)
        await page.get_by_role("button", name="Add an item to guests").focus()
        await page.keyboard.press("Enter")
        await call.focus()
        await page.keyboard.press("Enter")
        # Our own validation says what is missing, at its field, which has the focus then.
        await page.locator(".field-problem:visible").first.wait_for()
        await page.wait_for_function("document.activeElement.tagName === 'INPUT'")
        await page.keyboard.type("Ann")
        written = json.loads(await page.get_by_label("JSON").input_value())
        assert written == {"guests": [{"name": "Ann"}]}
        # What is left out, null and given are three things.
        await page.get_by_role("button", name="Null: note").focus()
        await page.keyboard.press("Enter")
        assert json.loads(await page.get_by_label("JSON").input_value())["note"] is None
        assert await axe(page) == []
        await call.focus()
        await page.keyboard.press("Enter")
        await page.get_by_role("cell", name="Ann").wait_for()
        await picture(page, "try")
        assert await axe(page) == []
        await page.get_by_role("button", name="Tree").focus()
        await page.keyboard.press("Enter")
        await page.get_by_text("list of 1").wait_for()
        assert await fits(page)
        dark = await console.page("/tools/invite/try", scheme="dark", width=360)
        assert await axe(dark) == []
        assert await fits(dark)
        console.problems[:] = [text for text in console.problems if "400" not in text]


async def test_progress_is_seen_a_call_cancelled_and_a_hostile_result_does_nothing(
    rest: RestWorkspace,
) -> None:
    async with console_browser(rest) as console:
        page = await console.page("/tools/slow/try")
        await page.get_by_role("button", name="Call", exact=True).click()
        await page.get_by_text("one of four").wait_for()
        await page.get_by_role("button", name="Cancel").click()
        await page.get_by_text("You cancelled the call.").wait_for()
        await page.goto("/console/tools/evil/try")
        await page.get_by_role("button", name="Call", exact=True).click()
        await page.locator(".result img.seen").wait_for()
        text = await page.locator(".result").text_content()
        assert text is not None
        assert "<img src=x onerror=alert(2)>" in text
        assert "\u202e" not in text
        assert len(text) < 200_000
        assert "of 10,000,000 characters" in text
        assert await page.locator(".result script, .result img[src=x]").count() == 0
        links = page.locator(".result a")
        assert [await link.get_attribute("href") for link in await links.all()] == ["https://example.com/"]


async def test_a_run_is_coloured_while_it_runs_and_run_again_from_a_node(rest: RestWorkspace) -> None:
    async with console_browser(rest) as console:
        page = await console.page("/runs")
        await page.get_by_text("Nothing ran yet.").wait_for()
        other = await console.page("/tools/digest/try")
        await other.get_by_role("button", name="Call", exact=True).click()
        await page.get_by_role("link", name="digest").click()
        await page.locator(".state.running", has_text="get").wait_for()
        (rest.root / "tools" / "fetch").touch()
        await page.locator(".state.done", has_text="get").wait_for()
        await page.locator(".state.running", has_text="short").wait_for()
        assert await axe(page) == []
        await picture(page, "run")
        (rest.root / "tools" / "summarise").touch()
        await page.locator(".state.done", has_text="short").wait_for()
        await page.locator("#run").get_by_text("done", exact=True).first.wait_for()
        await page.locator("#run-result .result pre", has_text="the").wait_for()
        await other.get_by_text("the ", exact=False).first.wait_for()
        # A run of the flow itself is repeated from a node, without what was before it.
        assert rest.spindle("run", "digest").returncode == 0
        await page.goto("/console/runs?kind=flow")
        await page.get_by_role("link", name="digest").click()
        await page.locator(".timeline a", has_text="short").click()
        await page.get_by_role("heading", name="Output").wait_for()
        await picture(page, "run-node")
        (rest.root / "tools" / "fetch.begun").unlink()
        first = page.url.partition("?")[0]
        await page.get_by_role("button", name="Run again from here").click()
        await page.wait_for_url(lambda url: "/console/runs/" in url and not url.startswith(first))
        await page.locator(".state.done", has_text="short").wait_for()
        assert not (rest.root / "tools" / "fetch.begun").exists()
        assert await axe(page) == []
        for scheme, width in (("dark", 1280), ("light", 360)):
            small = await console.page(
                page.url.partition("/console")[2],
                scheme=scheme,
                width=width,  # type: ignore[arg-type]
            )
            await small.get_by_role("heading", name="Timeline").wait_for()
            assert await axe(small) == []
            assert await fits(small)
        await page.locator("a[href*=compare]").first.click()
        await page.get_by_role("heading", name="What differs between two runs?").wait_for()
        assert await axe(page) == []
        await picture(page, "compare")
        await page.goto("/console/runs")
        await page.locator("tr[data-row]").first.wait_for()
        await picture(page, "runs")


async def test_a_call_that_pauses_leads_to_its_place_in_what_waits(tmp_path: Path) -> None:
    rest = asking(tmp_path / "shop")
    rest.settings("[serve]\nconsole = true\n")
    async with console_browser(rest) as console:
        page = await console.page("/tools/lunch/try")
        await page.get_by_role("button", name="Call", exact=True).click()
        await page.get_by_role("link", name="Answer it").click()
        await page.get_by_role("heading", name="Where do we eat?").wait_for()


async def test_three_clicks_lead_from_an_empty_workspace_to_a_first_call(tmp_path: Path) -> None:
    rest = RestWorkspace(tmp_path / "new")
    (rest.root / "tools" / "t.py").unlink()
    # The preset `time` runs uvx; this one needs no network.
    folder = tmp_path / "bin"
    folder.mkdir()
    server = folder / "uvx"
    server.write_text(f"#!{sys.executable}\n{SERVER}")
    server.chmod(0o755)
    rest.env["PATH"] = f"{folder}:{rest.env['PATH']}"
    async with console_browser(rest) as console:
        page = await console.page()
        await page.get_by_role("heading", name="Welcome").wait_for()
        await page.get_by_role("button", name="time").click()
        await page.get_by_role("link", name="Try time.now").click()
        await page.get_by_role("button", name="Call", exact=True).click()
        await page.get_by_text("it is noon").first.wait_for()


async def test_a_call_is_saved_in_a_new_flow_and_as_a_node_of_one_that_is_there(rest: RestWorkspace) -> None:
    file = rest.root / "flows" / "digest.yaml"
    async with console_browser(rest) as console:
        page = await console.page("/tools/invite/try")
        await page.get_by_label("JSON").fill('{"guests": [{"name": "${Ann}"}]}')
        await page.get_by_role("button", name="Save in a flow").click()
        dialog = page.get_by_role("dialog")
        await dialog.locator("select[name=flow]").select_option("digest.yaml")
        # After its last node, unless another is chosen.
        await dialog.locator("select[name=after] option").first.wait_for(state="attached")
        assert await dialog.get_by_label("After its node").input_value() == "short"
        await dialog.get_by_label("After its node").select_option("get")
        assert await axe(page) == []
        await dialog.get_by_role("button", name="Save").click()
        await dialog.get_by_role("link", name="Open flows/digest.yaml").wait_for()
        text = file.read_text()
        assert text.startswith(FLOW.rstrip().partition("edges")[0].rstrip())
        assert "- from: get\n    to: invite" in text
        # A second time: the file is another now, and no id is taken twice.
        await dialog.get_by_role("button", name="Save").click()
        await until(lambda: "id: invite_2" in file.read_text())
        await dialog.locator("form[data-save]:not([aria-busy])").wait_for()
        assert "$${Ann}" in file.read_text()  # a text, and no template
        await dialog.locator("select[name=flow]").select_option("")
        await dialog.get_by_label("Name of the new flow").fill("party")
        await dialog.get_by_role("button", name="Save").click()
        await dialog.get_by_role("link", name="Open flows/party.json").click()
        await page.get_by_role("button", name="Run", exact=True).click()
        await page.wait_for_url("**/console/runs/*")
        await page.locator("#run-result").get_by_role("cell", name="${Ann}").wait_for()


LOADED = "one => one.duration > 0 || new Promise((done) => { one.ondurationchange = () => done(true); })"


def sound() -> bytes:
    """Returns a tenth of a second of silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(8000)
        written.writeframes(bytes(1600))
    return file.getvalue()


async def test_a_file_is_chosen_sent_and_heard_and_what_comes_back_is_downloaded(rest: RestWorkspace) -> None:
    from playwright.async_api import expect

    (rest.root / "tools" / "media.py").write_text(MEDIA)
    data = sound()
    async with console_browser(rest) as console:
        page = await console.page("/tools/listen/try")
        chosen = page.get_by_label("File for sound")
        await chosen.set_input_files({"name": "bell.wav", "mimeType": "audio/wav", "buffer": data})
        field = page.get_by_role("textbox", name="sound")
        await expect(field).to_have_value(base64.b64encode(data).decode(), timeout=PATIENCE)
        assert json.loads(await page.get_by_label("JSON").input_value()) == {
            "sound": await field.input_value()
        }
        assert await axe(page) == []
        await page.get_by_role("button", name="Call", exact=True).click()
        heard = page.locator(".result audio")
        await heard.wait_for()
        # The browser reads it as sound: it is as long as it was.
        await heard.evaluate(
            "one => one.duration > 0 || new Promise((done) => { one.onloadedmetadata = done; })"
        )
        assert await heard.evaluate("one => one.duration") == pytest.approx(0.1, abs=0.02)
        async with page.expect_download() as waiting:
            await page.get_by_role("link", name="Download size.csv").click()
        download = await waiting.value
        assert download.suggested_filename == "size.csv"
        assert (await download.path()).read_text() == f"{len(data)} bytes"
        assert await axe(page) == []
        # What is no base64 is refused by the tool, and said so.
        await field.fill("not base64!")
        await page.get_by_role("button", name="Call", exact=True).click()
        await page.locator("[data-outcome] .notice.bad, .field-problem:visible").first.wait_for()
        console.problems[:] = [text for text in console.problems if "status of" not in text]


async def test_a_call_tells_how_often_it_was_tried(
    rest: RestWorkspace,
) -> None:
    (rest.root / "tools" / "media.py").write_text(MEDIA)
    async with console_browser(rest) as console:
        page = await console.page("/tools/shaky/try")
        await page.get_by_role("button", name="Call", exact=True).click()
        await page.get_by_text("here it is").first.wait_for()
        await page.goto("/console/calls")
        await page.get_by_role("link", name="shaky").click()
        took = page.locator(".facts dt", has_text="Took").locator("+ dd")
        assert (await took.inner_text()).endswith(", 2 attempts")
        assert await axe(page) == []
