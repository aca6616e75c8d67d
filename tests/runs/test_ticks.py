"""When the ticks of a schedule come: cron expressions, time zones, hours that are missing or come twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.domain.schedule import Schedule
from spindle.errors import InvalidArgumentsError
from spindle.runs.ticks import Ticks, ticks_of

BERLIN = ZoneInfo("Europe/Berlin")


def cron(text: str, zone: str = "UTC") -> Ticks:
    return ticks_of(Schedule("s", "f", cron=text, zone=zone))


def every(seconds: float, created_at: float = 0.0) -> Ticks:
    return ticks_of(Schedule("s", "f", every=seconds, created_at=created_at))


def ticks(found: Ticks, start: float) -> Iterator[float]:
    while True:
        start = found.after(start)
        yield start


def told(text: str, start: datetime, count: int) -> list[str]:
    """The next ticks after a local time, as that zone's clocks show them."""
    zone = start.tzinfo
    found = cron(text, str(zone))
    times = itertools.islice(ticks(found, start.timestamp()), count)
    return [datetime.fromtimestamp(time, zone).strftime("%d %H:%M%z") for time in times]


class TestSummerTime:
    """Berlin: on 29 March 2026 there is no hour from 2 to 3, on 25 October it comes twice."""

    def test_a_tick_in_the_missing_hour_comes_once_at_its_end(self) -> None:
        before = datetime(2026, 3, 28, 12, tzinfo=BERLIN)
        assert told("30 2 * * *", before, 2) == ["29 03:00+0200", "30 02:30+0200"]
        # One that is due then anyway is the same tick.
        assert told("0 2,3 * * *", before, 3) == ["29 03:00+0200", "30 02:00+0200", "30 03:00+0200"]

    def test_ticks_of_every_hour_pass_over_the_missing_one_evenly(self) -> None:
        before = datetime(2026, 3, 29, 1, 0, tzinfo=BERLIN)
        assert told("*/30 * * * *", before, 3) == ["29 01:30+0100", "29 03:00+0200", "29 03:30+0200"]

    def test_a_tick_in_the_doubled_hour_comes_in_the_first_alone(self) -> None:
        before = datetime(2026, 10, 24, 12, tzinfo=BERLIN)
        assert told("30 2 * * *", before, 2) == ["25 02:30+0200", "26 02:30+0100"]
        assert told("0 */2 * * *", datetime(2026, 10, 25, 1, tzinfo=BERLIN), 2) == [
            "25 02:00+0200",
            "25 04:00+0100",
        ]

    @pytest.mark.parametrize("text", ["0 * * * *", "@hourly"])
    def test_ticks_of_every_hour_come_in_both(self, text: str) -> None:
        before = datetime(2026, 10, 25, 1, 30, tzinfo=BERLIN)
        assert told(text, before, 3) == ["25 02:00+0200", "25 02:00+0100", "25 03:00+0100"]

    def test_half_an_hour_that_comes_twice(self) -> None:
        before = datetime(2026, 4, 4, 12, tzinfo=ZoneInfo("Australia/Lord_Howe"))
        assert told("45 1 * * *", before, 2) == ["05 01:45+1100", "06 01:45+1030"]

    def test_intervals_are_even_whatever_clocks_show(self) -> None:
        start = datetime(2026, 3, 28, 12, tzinfo=BERLIN).timestamp()
        found = list(itertools.islice(ticks(every(6 * 3600, start), start), 5))
        assert {after - before for before, after in itertools.pairwise(found)} == {6 * 3600}


@given(
    text=st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 */3 * * *", "15 1,2,3 * * 0", "*/20 * * * * *"]),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
    start=st.integers(1_735_689_600, 1_798_761_600),
)
@settings(max_examples=60, deadline=None)
def test_the_newest_ticks_are_those_that_came(text: str, zone: str, start: int) -> None:
    found = cron(text, zone)
    came = list(itertools.islice(ticks(found, start), 12))
    assert came == sorted(set(came))
    assert found.newest(start + 1, came[-1], 100) == came
    assert found.newest(start + 1, came[-1], 3) == came[-3:]
    assert found.newest(came[4], came[6] + 0.5, 100) == came[4:7]
    assert found.newest(came[1], came[0], 100) == []


@given(seconds=st.floats(1, 5000), start=st.floats(0, 2e9), later=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_intervals_count_from_the_beginning_without_drift(seconds: float, start: float, later: int) -> None:
    found = every(seconds, start)
    first = found.after(start)
    assert first == float(int(start)) + seconds
    tick = found.after(first + later * seconds)
    assert found.newest(tick, tick, 5) == [tick]
    assert found.after(tick) > tick
    assert len(found.newest(0, tick, 4)) <= 4


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("* * * *", "five or six"),
        ("* * * * * * 2026", "five or six"),
        ("R * * * *", "five or six"),
        ("h h * * *", "five or six"),
        ("61 * * * *", "out of range"),
        ("a b c d e", "not acceptable"),
        ("0 0 31 2 *", "never ticks"),
        ("* " * 5000, "five or six"),
        ("@dayly", "no cron expression"),
        ("@reboot", "no cron expression"),
        ("", "five or six"),
    ],
)
def test_what_is_no_cron_expression_is_said(text: str, why: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=why) as refused:
        cron(text)
    assert refused.value.hint
    assert len(refused.value.message) < 300


@pytest.mark.parametrize("zone", ["Europe/Belrin", "../../etc/passwd", "", "UTC+1"])
def test_a_zone_that_is_none_is_said(zone: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="no time zone"):
        cron("* * * * *", zone)


@pytest.mark.parametrize("seconds", [0, -1, 0.5, float("nan"), float("inf"), 1e12])
def test_an_interval_must_be_a_second_or_more(seconds: float) -> None:
    with pytest.raises(InvalidArgumentsError, match="apart"):
        every(seconds)
