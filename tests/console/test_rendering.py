"""Pages without a browser: texts of others stay texts, and lists have pages."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, cast

import pytest

from spindle.console import charts
from spindle.console.glances import COLUMNS, glance
from spindle.console.icons import NAMES, icon
from spindle.console.live import CROWD, Watcher
from spindle.console.paging import page_of
from spindle.console.rendering import (
    LONGEST,
    Pages,
    ago,
    broken_name,
    cut,
    environment,
    seconds,
    text,
    when,
    with_query,
)
from spindle.console.shared_parts import SharedParts
from spindle.errors import SpindleError
from spindle.ports.store import CallTiming

if TYPE_CHECKING:
    from spindle.console.live import LiveUpdates

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\u202eevil\x00\x1b[31m"


def test_a_hostile_text_is_shown_as_text_wherever_a_template_puts_it() -> None:
    made = environment().from_string('<p title="{{ x }}">{{ x }}</p>').render(x=HOSTILE)
    assert "<script" not in made
    assert "<img" not in made
    assert "49" not in made
    assert "\u202e" not in made
    assert "\\u202e" in made
    assert "\x1b" not in made
    assert made.count('"') == 2


def test_a_text_of_ten_megabytes_does_not_reach_a_page() -> None:
    shown = text("x" * 10_000_000)
    assert len(shown) < LONGEST + 100
    assert shown.endswith("(10,000,000 characters)")
    assert cut("a\n b " * 1000, 10) == "a b a b a…"


def test_a_name_breaks_at_its_joints_and_stays_text() -> None:
    assert broken_name("crm.list_all") == "crm.<wbr>list_<wbr>all"
    hostile = broken_name(f"a.{HOSTILE}")
    assert "<script" not in hostile
    assert "\u202e" not in hostile
    assert broken_name("x.") == "x."


def test_an_outcome_is_told_in_words() -> None:
    told = environment().from_string("{{ ui.outcome(value) }}")
    for value, words in (("ok", "ok"), ("tool", "tool error"), ("invalid_arguments", "invalid arguments")):
        assert f"</span>{words}</span>" in told.render(value=value)


def test_what_is_missing_in_a_template_is_an_error() -> None:
    with pytest.raises(Exception, match="nothing"):
        environment().from_string("{{ nothing }}").render()


def test_a_problem_can_be_asked_for_alone_and_its_words_are_text() -> None:
    pages = Pages()
    answer = pages.respond("problem.html", "problem", 404, view=SpindleError(HOSTILE, hint=HOSTILE))
    body = answer.body.decode()
    assert answer.status_code == 404
    assert "<html" not in body
    assert "<script" not in body
    assert "&lt;script&gt;" in body


def test_times_and_spans_are_those_of_people() -> None:
    assert 'datetime="1970-01-01T00:00:01.500000Z"' in when(1.5)
    assert "never" in when(None)
    assert "unknown" in when(1e300)
    spans = (None, 0.0001, 0.25, 1.5, 61, 7300, 86400 * 3)
    assert [seconds(span) for span in spans] == [
        "none", "<1 ms", "250 ms", "1.5 s", "1 min 1 s", "2 h 1 min", "3 days",
    ]  # fmt: skip


def test_a_time_is_told_as_the_script_of_the_page_tells_it() -> None:
    spans = (0, -4, 5, 59, 60, 90, 3599, 3600, 86399, 86400, 86400 * 29, -120)
    assert [ago(span) for span in spans] == [
        "just now", "just now", "5 s ago", "59 s ago", "1 min ago", "1 min ago", "59 min ago", "1 h ago",
        "23 h ago", "1 day ago", "29 days ago", "in 2 min",
    ]  # fmt: skip
    assert ago(86400 * 30) is None
    assert ">1 Jan 1970</time>" in when(1.5)
    assert ">just now</time>" in when(time.time())


def test_addresses_keep_what_was_asked_for() -> None:
    query = {"q": "a&b", "page": "3", "kind": ""}
    assert with_query(query, page=4) == "?q=a%26b&page=4"
    assert with_query(query, page=None) == "?q=a%26b"
    assert with_query({}) == "?"


@pytest.mark.parametrize("asked", ["0", "-1", "99", "9" * 400, "x", "²", ""])
def test_a_page_that_is_not_there_is_the_nearest(asked: str) -> None:
    found = page_of(list(range(95)), {"page": asked}, 10)
    assert found.number in (1, 10)
    assert found.total == 95


def test_pages_of_a_list_follow_each_other() -> None:
    items = list(range(25))
    first, last = page_of(items, {}, 10), page_of(items, {"page": "3"}, 10)
    assert (first.first, first.last, first.previous, first.next) == (1, 10, None, 2)
    assert (last.first, last.last, last.previous, last.next) == (21, 25, 2, None)
    none = page_of([], {}, 10)
    assert (none.first, none.last, none.previous, none.next) == (0, 0, None, None)


def test_calls_fall_into_columns_by_time() -> None:
    now = 10_000.0
    timings = [
        CallTiming(now - 3599, 1.0, "ok"),
        CallTiming(now - 30, 0.1, "timeout"),
        CallTiming(now - 32, 0.2, "paused"),
        CallTiming(now - 31, 0.3, "cached"),
        CallTiming(now + 5, 0.2, "ok"),  # a clock that is ahead
    ]
    found = glance(timings, now)
    assert len(found.counts) == COLUMNS
    assert (found.counts[0], found.counts[-1], found.total, found.failed) == (1, 4, 5, 1)
    assert found.medians[-1] == 0.2
    assert found.medians[1] is None
    assert found.share_failed == 0.2
    nothing = glance([], now)
    assert (nothing.total, nothing.median, nothing.slow, nothing.share_failed) == (0, None, None, 0.0)


def test_charts_and_icons_are_drawn_without_styles() -> None:
    drawn = charts.bars([0, 3, 9], [0, 1, 0], label='a "chart"') + charts.line(
        [None, 1, None, 2, 3], label="l"
    )
    assert drawn.count("<rect") == 3
    assert drawn.count("<path") == 4
    assert "a &#34;chart&#34;" in drawn
    assert "style" not in drawn
    assert charts.line([], label="nothing").count("<path") == 1
    assert 'width="100.0"' in charts.share(2, "all")
    assert len(NAMES) <= 30
    for name in NAMES:
        assert 'aria-hidden="true"' in icon(name)


async def test_a_crowd_of_pages_shares_what_it_asks_for_until_something_changes() -> None:
    class Crowd:
        pages, changes = CROWD, 0

    crowd, made, may_end = Crowd(), 0, asyncio.Event()

    async def make() -> str:
        nonlocal made
        made += 1
        await may_end.wait()
        return f"part {made}"

    parts = SharedParts(cast("LiveUpdates", crowd))
    asked = [asyncio.ensure_future(parts.get("a", make)) for _ in range(5)]
    await asyncio.sleep(0)
    asked.pop().cancel()
    may_end.set()
    assert set(await asyncio.gather(*asked)) == {"part 1"}
    assert await parts.get("a", make) == "part 1"
    assert await parts.get("another", make) == "part 2"
    crowd.changes += 1
    assert await parts.get("a", make) == "part 3"
    crowd.pages = CROWD - 1  # few pages are each made anew
    assert await parts.get("a", make) == "part 4"


def test_each_answer_has_a_nonce_of_its_own() -> None:
    pages = Pages()
    shown = pages.rendered("problem.html", "problem", view=SpindleError("x"))
    one, other = (pages.answer(f"{shown}{pages._mark}") for _ in range(2))
    nonces = [answer.body.decode().removeprefix(shown) for answer in (one, other)]
    assert len(set(nonces)) == 2
    assert pages._mark not in nonces
    assert f"'nonce-{nonces[0]}'" in one.headers["content-security-policy"]


async def test_a_page_is_told_of_what_happened_before_its_stream_began() -> None:
    told, quiet, first = (Watcher({"runs": "1", "calls": "1"}) for _ in range(3))
    told.compare({})  # nobody has looked yet
    told.compare({"runs": "2", "calls": "1", "tools": "9"})
    assert await told.taken(5) == {"runs"}
    told.compare({"runs": "3"})  # once: from then on changes are told
    assert await told.taken(0) == set()
    quiet.compare({"runs": "1", "calls": "1"})
    assert await quiet.taken(0) == set()
    first.compare({"runs": "1", "calls": "2"})
    assert await first.taken(5) == {"calls"}
