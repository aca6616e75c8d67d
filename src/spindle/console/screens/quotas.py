"""Quotas: how much users, groups and tools may use, those of the settings and those of administrators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spindle.console.access_rules import access_rules
from spindle.console.paging import Page, page_of
from spindle.console.rendering import in_bytes
from spindle.console.screen import Look, Screen
from spindle.domain.quota import QuotaRule
from spindle.errors import NotFoundError

if TYPE_CHECKING:
    from spindle.domain.source import RateLimit

_PERIODS: Final = {
    1.0: ("a second", "second"), 60.0: ("a minute", "minute"), 3600.0: ("an hour", "hour"),
    86400.0: ("a day", "day"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """One quota, in words."""

    name: str
    rule: QuotaRule
    limits: Sequence[str]
    written: bool
    """True if the settings name it; then it is changed there."""
    may_edit: bool
    """True if the form can say all of it."""


@dataclass(frozen=True, slots=True)
class QuotaForm:
    """The fields of a quota that is changed, as they are typed; empty for a new one."""

    name: str = ""
    users: str = ""
    groups: str = ""
    tools: str = ""
    shared: bool = False
    calls: str = ""
    concurrency: str = ""
    bytes: str = ""
    cost: str = ""


@dataclass(frozen=True, slots=True)
class QuotaPage:
    """All quotas, by name, and the one that is changed."""

    page: Page[QuotaLine]
    groups: Sequence[str]
    form: QuotaForm
    requests: int
    """Requests at once that one client may make without any rule."""


async def quotas(look: Look) -> QuotaPage:
    """Returns the quotas; `name` in the address is the one to change."""
    rules = await access_rules(look)
    written = rules.config.quotas.rules
    made = {
        entry.name: QuotaRule.model_validate(entry.body)
        for entry in await look.app.store.access_entries()
        if entry.kind == "quota"
    }
    every = {**made, **written}
    name = look.query.get("name", "")
    if name and name in written:
        raise NotFoundError(f"the quota {name!r} is in the settings", hint="change it there")
    if name and (name not in made or not _is_plain(made[name])):
        raise NotFoundError(
            f"there is no quota {name!r} to be changed here", hint="all are listed on this page"
        )
    page = page_of(sorted(every), look.query)
    lines = [
        QuotaLine(one, every[one], limits(every[one]), one in written, one in made and _is_plain(every[one]))
        for one in page.items
    ]
    return QuotaPage(
        Page(lines, page.number, page.total, page.size),
        list(rules.groups),
        _form(name, made[name]) if name else QuotaForm(),
        rules.config.quotas.requests,
    )


def limits(rule: QuotaRule) -> list[str]:
    """Returns what a rule limits, in words."""
    found: list[str] = []
    if rule.calls is not None:
        found.append(f"{rule.calls.calls:,g} calls {_within(rule.calls.seconds)}")
    if rule.concurrency is not None:
        found.append(f"{rule.concurrency:,} at once")
    if rule.bytes is not None:
        found.append(f"{in_bytes(rule.bytes.bytes)} {_within(rule.bytes.seconds)}")
    if rule.cost is not None:
        found.append(f"{rule.cost.calls:,g} units {_within(rule.cost.seconds)}")
    return found


def _is_plain(rule: QuotaRule) -> bool:
    rates = (rule.calls, rule.bytes, rule.cost)
    return all(rate is None or rate.seconds in _PERIODS for rate in rates)


def _within(seconds: float) -> str:
    return _PERIODS[seconds][0] if seconds in _PERIODS else f"in {seconds:,g} s"


def _form(name: str, rule: QuotaRule) -> QuotaForm:
    size = rule.bytes
    return QuotaForm(
        name,
        " ".join(rule.users),
        " ".join(rule.groups),
        " ".join(rule.tools),
        rule.shared,
        _rate(rule.calls),
        str(rule.concurrency or ""),
        f"{size.bytes:.0f}/{_period(size.seconds)}" if size is not None else "",
        _rate(rule.cost),
    )


def _rate(rate: RateLimit | None) -> str:
    return f"{rate.calls:g}/{_period(rate.seconds)}" if rate is not None else ""


def _period(seconds: float) -> str:
    return _PERIODS[seconds][1]


SCREENS: Final = (Screen("/access/quotas", "access_quotas.html", quotas, "access", admin=True),)
