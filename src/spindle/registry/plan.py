"""From an entry of a registry to a source: the way that is chosen, and the table that is written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spindle.errors import ConfigurationError
from spindle.http.addresses import is_loopback, is_written_inside, leads_inside
from spindle.registry import names
from spindle.registry.entry import Package, Remote, ServerEntry
from spindle.registry.inputs import Answers, Filler
from spindle.registry.runners import RUNNERS, how_to_get, program_for, start

if TYPE_CHECKING:
    from spindle.registry.bundle import Bundle

Offer = Package | Remote


@dataclass(slots=True)
class SourcePlan:
    """A source that is about to be written: its table, and the secrets that are sealed instead."""

    table: dict[str, Any]
    sealed: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    opening: list[str] = field(default_factory=list[str])
    """The folders and ports of this machine that it opens, to which the user must say yes."""

    def lines(self) -> list[str]:
        """Says what will run or be reached, in a few lines."""
        table = self.table
        said = [f"runs:  {shlex.join(table['command'])}"] if "command" in table else []
        said += [f"calls: {table['url']}"] if "url" in table else []
        for kind in ("env", "headers"):
            for name, text in table.get(kind, {}).items():
                shown = "(sealed)" if "${secret:" in text else text
                said.append(f"{'with' if kind == 'env' else 'sends'}:  {name}={shown}"[:400])
        said += [f"opens: {what}" for what in self.opening]
        return said


def source_name(entry: ServerEntry) -> str:
    """Returns the name that a server gets as a source, unless the user says another."""
    last = entry.name.rpartition("/")[2]
    if last.lower() in ("mcp", "mcp-server", "server"):
        last = entry.name.partition("/")[0].rpartition(".")[2]
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", last).strip("-_")
    name = re.sub(r"^(?:mcp-server|server|mcp)-|-(?:mcp-server|server|mcp)$", "", name) or name
    return (name if name[:1].isalpha() else f"mcp-{name}")[:64]


def choose(entry: ServerEntry, wanted: str | None) -> Offer:
    """Returns the package or remote server to use: of the wanted type, else the first that can run here."""
    offers: Sequence[Offer] = (*entry.packages, *entry.remotes)
    if not offers:
        raise ConfigurationError(f"{entry.name}@{entry.version} has neither a package nor a remote server")
    if wanted is not None:
        offers = [offer for offer in offers if offer.type == wanted]
        if not offers:
            raise ConfigurationError(
                f"{entry.name}@{entry.version} has no {wanted}", hint=f"it has {', '.join(entry.kinds)}"
            )
    problems = [(offer, why_not(offer)) for offer in offers]
    usable = next((offer for offer, problem in problems if problem is None), None)
    if usable is not None:
        return usable
    reasons = "; ".join(dict.fromkeys(f"{offer.type}: {problem}" for offer, problem in problems))
    raise ConfigurationError(f"{entry.name}@{entry.version} cannot be used here: {reasons}")


def why_not(offer: Offer) -> str | None:
    """Returns why an offer cannot be used on this machine; None if it can."""
    if isinstance(offer, Remote):
        known = offer.transport in ("streamable-http", "sse")
        return None if known else f"its transport {offer.transport!r} is not known"
    if offer.transport != "stdio":
        return (
            f"{names.shown(offer.identifier)} answers over HTTP on a port of its own: start it yourself, and"
            " add its URL"
        )
    if offer.type == "mcpb":
        return None if offer.sha256 else "the entry has no `fileSha256`, without which a bundle is not used"
    if offer.type == "cargo":
        by_hand = f"cargo install {offer.identifier} --version {offer.version}"
        return f"a crate is installed by hand: {by_hand}; then spindle add NAME -- PROGRAM"
    if offer.type not in RUNNERS:
        return f"packages of type {offer.type!r} are not known"
    return None if program_for(offer.type) else how_to_get(offer.type)


def plan_package(package: Package, source: str, answers: Answers, entry: ServerEntry) -> SourcePlan:
    """Returns the source that starts a package with its runner."""
    filler = Filler(source, answers)
    started = start(package, filler)
    table: dict[str, Any] = {"command": started.command}
    if started.environment:
        table["env"] = started.environment
    return SourcePlan(_described(table, entry), filler.sealed, started.opening)


def plan_bundle(
    bundle: Bundle, package: Package, source: str, answers: Answers, entry: ServerEntry
) -> SourcePlan:
    """Returns the source that starts an unpacked bundle."""
    filler = Filler(source, answers)
    environment = dict(bundle.environment(filler))
    for about in package.environment:
        for text in filler.texts(about)[:1]:
            environment[about.name] = text
    table: dict[str, Any] = {"command": bundle.command(filler)}
    if environment:
        table["env"] = environment
    return SourcePlan(_described(table, entry), filler.sealed)


async def plan_remote(
    remote: Remote, source: str, answers: Answers, entry: ServerEntry, *, may_be_inside: bool
) -> SourcePlan:
    """Returns the source that reaches a remote server. `may_be_inside`: the registry is inside too."""
    filler = Filler(source, answers)
    url = filler.template(remote.url, remote.variables)
    if url is None:
        raise ConfigurationError("a value for the server's URL is missing")
    await check_url(re.sub(r"\$\{[^}]{0,200}\}", "x", url), may_be_inside=may_be_inside)
    table: dict[str, Any] = {"url": url, "transport": "sse" if remote.transport == "sse" else "http"}
    headers = {about.name: text for about in remote.headers for text in filler.texts(about)[:1]}
    if headers:
        table["headers"] = headers
    return SourcePlan(_described(table, entry), filler.sealed)


async def check_url(url: str, *, may_be_inside: bool) -> None:
    """Refuses an address that a registry may not name: not https, or of this machine and its networks."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    if not host or "@" in parts.netloc or parts.scheme not in ("http", "https"):
        raise ConfigurationError(f"{names.shown(url)!r} is not the address of a server")
    if parts.scheme == "http" and not (may_be_inside and is_written_inside(host)):
        raise ConfigurationError(
            f"{names.shown(url)} is not https: what is sent there can be read on the way",
            hint="if that is meant, add it by its URL: spindle add NAME URL",
        )
    if not may_be_inside and (is_loopback(host) or await leads_inside(url)):
        raise ConfigurationError(
            f"{names.shown(url)} leads to this machine or a private network",
            hint="a registry on the outside may not name it; if that is meant: spindle add NAME URL",
        )


def _described(table: dict[str, Any], entry: ServerEntry) -> dict[str, Any]:
    about = f"{entry.name}@{entry.version}"
    text = entry.description.replace("${", "$ {")
    return {**table, "description": f"{text} ({about})" if text else about}
