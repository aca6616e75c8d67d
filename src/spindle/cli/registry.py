"""`spindle registry`: finds MCP servers in registries, and shows what they would run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.context import CliContext, command
from spindle.cli.group import LazyGroup
from spindle.cli.options import shared_options

if TYPE_CHECKING:
    from spindle.domain.registry import RegistryConfig
    from spindle.registry.client import Found, RegistryClient
    from spindle.registry.entry import ServerEntry

REGISTRY = click.option(
    "--registry", "named", metavar="NAME|URL", help="One registry: its name in [registries], or its URL."
)
PACKAGES = ("npm", "pypi", "oci", "nuget", "mcpb", "remote")
SHOWN_VERSIONS = 10

registry = LazyGroup(
    "registry",
    params=[*shared_options()],
    sections={
        "MCP servers that others publish": {
            "search": ("registry", "search", "Find servers by words."),
            "show": ("registry", "show", "Show one server: versions, packages, inputs."),
        },
        "Other names": {
            "list": ("tools", "listing", "List the tools of this workspace: `spindle tools`."),
            "add-mcp": ("registry_mcp", "add_mcp", "Add an MCP server to this workspace: `spindle add`."),
        },
    },
    help="Find MCP servers in the MCP registry, or in the registries that [registries] names.",
    epilog="`spindle add io.github.owner/name` adds a server that you have found.",
)


@command("search")
@click.argument("words", nargs=-1, required=True, metavar="WORD…")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most this many."
)
@click.option("--cursor", help="Continue a search: the cursor that the search before gave.")
@REGISTRY
def search(cli: CliContext, words: tuple[str, ...], limit: int, cursor: str | None, named: str | None) -> int:
    """Find MCP servers whose name, title or description has all the words.

    \b
    spindle registry search github
    spindle registry search weather forecast --limit 50
    """
    from spindle.cli.errors import UsageMistakeError

    configs = configured(cli, named)
    if cursor is not None and len(configs) > 1:
        raise UsageMistakeError("--cursor goes with one registry", f"--registry {next(iter(configs))}")
    return cli.run(_search(cli, configs, words, limit, cursor))


async def _search(
    cli: CliContext, configs: dict[str, RegistryConfig], words: Sequence[str], limit: int, cursor: str | None
) -> int:
    from spindle.registry.client import Registries

    found: list[tuple[RegistryClient, Found]] = []
    async with Registries(configs) as registries:
        for client in registries.clients:
            cli.output.status(f"asking {client.name} …")
            found.append((client, await client.search(words, limit, cursor)))
    if cli.output.as_json:
        cli.output.json(
            {
                "servers": [_summary(entry, client.name) for client, part in found for entry in part.entries],
                "next_cursor": {client.name: part.cursor for client, part in found if part.cursor},
            }
        )
    else:
        rows = [
            (entry.name, entry.version, ", ".join(entry.kinds) or "-", entry.description or entry.title)
            for _, part in found
            for entry in part.entries
        ]
        if rows:
            cli.output.table(("SERVER", "VERSION", "AS", "DESCRIPTION"), rows, drop=("AS", "VERSION"))
        else:
            cli.output.note(f"no server has {' and '.join(map(repr, words))} in its name or description")
    for client, part in found:
        if part.unreadable:
            cli.output.note(f"{client.name}: {part.unreadable} entries were left out: they cannot be read")
        if part.cursor:
            one = f" --registry {client.name}" if len(found) > 1 else ""
            cli.output.note(f"{client.name} has more: add{one} --cursor {_quoted(part.cursor)}")
    return 0


@command("show")
@click.argument("server", metavar="NAME[@VERSION]")
@REGISTRY
async def show(cli: CliContext, server: str, named: str | None) -> int:
    """Show one server of a registry: its versions, packages and remote servers, and the inputs it takes."""
    from spindle.errors import SpindleError
    from spindle.registry.client import Registries

    configs, (name, version) = configured(cli, named), split_version(server)
    async with Registries(configs) as registries:
        cli.output.status(f"asking for {name} …")
        client, entry = await registries.find(name, version)
        try:
            versions = [item.version for item in await client.versions(name)]
        except SpindleError:
            # Some registries only have the latest version; its entry is what was asked for.
            versions = [entry.version]
    if cli.output.as_json:
        cli.output.json({**_summary(entry, client.name), "versions": versions, "server": entry.raw})
        return 0
    _print_entry(cli, entry, client.name, versions, named)
    return 0


def _print_entry(
    cli: CliContext, entry: ServerEntry, registry_name: str, versions: Sequence[str], named: str | None
) -> None:
    from spindle.registry.entry import Remote
    from spindle.registry.inputs import questions
    from spindle.registry.names import shown
    from spindle.registry.plan import why_not

    line = cli.output.line
    line(f"{entry.name} {entry.version}" + (f"  ({entry.title})" if entry.title else ""))
    if entry.description:
        line(f"  {entry.description}")
    if entry.status != "active":
        line(f"  status: {entry.status}" + (f", {entry.status_message}" if entry.status_message else ""))
    facts = {"registry": registry_name, "repository": entry.repository, "website": entry.website}
    others = [version for version in reversed(versions) if version != entry.version]
    if others:
        more = f" and {len(others) - SHOWN_VERSIONS} more" if len(others) > SHOWN_VERSIONS else ""
        facts["other versions"] = ", ".join(others[:SHOWN_VERSIONS]) + more
    for label, text in facts.items():
        if text:
            line(f"  {label}: {text}")
    for offer in (*entry.packages, *entry.remotes):
        place = offer.url if isinstance(offer, Remote) else offer.identifier
        exact = "" if isinstance(offer, Remote) or not offer.version else f" {offer.version}"
        line()
        line(f"{offer.type}: {shown(place)}{exact} ({offer.transport})")
        problem = why_not(offer)
        if problem:
            line(f"  not here: {problem}")
        for question in questions(offer):
            marks = [word for word, is_so in (("required", question.required), ("secret", question.secret))
                     if is_so]  # fmt: skip
            marks += [f"default {question.default}"] if question.default else []
            marks += [f"one of {', '.join(question.about.choices)}"] if question.about.choices else []
            about = f"  {question.about.description}" if question.about.description else ""
            line(f"  --input {question.key}=…  {'(' + ', '.join(marks) + ')' if marks else ''}{about}")
    where = f" --registry {named}" if named else ""
    cli.output.note(f"add it with: spindle add {entry.name}@{entry.version}{where}")


def configured(cli: CliContext, named: str | None) -> dict[str, RegistryConfig]:
    """The registries to ask. No workspace is needed for that."""
    from spindle.registry.client import chosen

    return chosen(cli.load().registries(), named)


def split_version(text: str) -> tuple[str, str | None]:
    """The name and the version in NAME[@VERSION]. Raises an error for what is neither."""
    from spindle.cli.errors import UsageMistakeError
    from spindle.registry import names

    name, at, version = text.partition("@")
    if not names.is_server_name(name):
        raise UsageMistakeError(
            f"{text!r} is not the name of a server in a registry", "names look like io.github.owner/name"
        )
    if at and version != "latest" and not names.is_version(version):
        raise UsageMistakeError(f"{version!r} is not one exact version", f"spindle registry show {name}")
    return name, version if at and version != "latest" else None


def _summary(entry: ServerEntry, registry_name: str) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "version": entry.version,
        "description": entry.description,
        "kinds": list(entry.kinds),
        "status": entry.status,
        "published_at": entry.published_at,
        "repository": entry.repository,
        "registry": registry_name,
    }


def _quoted(text: str) -> str:
    import shlex

    from spindle.registry.names import shown

    return shlex.quote(shown(text, 2048))


def is_server(word: str) -> bool:
    """True for a word of `spindle add` that names a server in a registry."""
    from spindle.registry import names

    return "://" not in word and names.is_server_name(word.partition("@")[0])
