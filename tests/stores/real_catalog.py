"""A catalog of real tools: documents of known services, and MCP servers from npm and PyPI.

Nothing of it is called: the servers are asked for their tools, and need neither an account nor a network.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import spindle
from servers.running import REPOSITORY, missing, program
from spindle.ports.store import Store
from spindle.settings import Settings
from spindle.stores.sqlite import SqliteStore

NODE = REPOSITORY / ".node"
_NAMED = {
    "calendar": "googleapis.com/calendar", "drive": "googleapis.com/drive", "gmail": "googleapis.com/gmail",
    "sheets": "googleapis.com/sheets", "gtasks": "googleapis.com/tasks", "docker": "docker.com/engine",
    "dockerhub": "docker.com/hub", "asana": "asana.com", "circleci": "circleci.com",
    "digitalocean": "digitalocean.com", "exchangerate": "exchangerate-api.com", "giphy": "giphy.com",
    "gitea": "gitea.io", "gitlab": "gitlab.com", "hetzner": "hetzner.cloud", "mandrill": "mandrillapp.com",
    "mastodon": "mastodon.local", "notion": "notion.com", "openai": "openai.com", "slack": "slack.com",
    "spoonacular": "spoonacular.com", "spotify": "spotify.com", "stripe": "stripe.com",
    "telegram": "telegram.org", "ticketmaster": "ticketmaster.com/discovery", "tomtom": "tomtom.com/search",
    "trello": "trello.com", "twilio": "twilio.com/api", "vercel": "vercel.com", "weatherbit": "weatherbit.io",
    "worldtime": "worldtimeapi.org", "xkcd": "xkcd.com",
}  # fmt: skip
_IN_PACKAGES = {
    "netlify": "@netlify/open-api/dist/swagger.json",
    "figma": "@figma/rest-api-spec/openapi/openapi.yaml",
    "petstore": "@readme/oas-examples/3.0/json/petstore.json",
    "readme": "@readme/oas-examples/3.1/json/readme.json",
    "startrek": "@readme/oas-examples/3.0/json/star-trek.json",
    "trains": "@readme/oas-examples/3.1/json/train-travel.json",
    "uspto": "@readme/oas-examples/3.0/json/uspto.json",
}
_EVENTS = ("streetlights-mqtt-asyncapi.yml", "rpc-client-asyncapi.yml", "gitter-streaming-asyncapi.yml")


def sources(folder: Path) -> dict[str, dict[str, Any]]:
    repository = folder / "repository"
    subprocess.run(["git", "init", "-q", str(repository)], check=True, capture_output=True)
    servers: dict[str, dict[str, Any]] = {
        "everything": {"command": [program("mcp-server-everything")]},
        "filesystem": {"command": [program("mcp-server-filesystem"), str(folder)]},
        "memory": {"command": [program("mcp-server-memory")]},
        "thinking": {"command": [program("mcp-server-sequential-thinking")]},
        "postgres": {"command": [program("mcp-server-postgres"), "postgresql://nobody@127.0.0.1:9/none"]},
        "github": {
            "command": [program("mcp-server-github")],
            "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "${NO_TOKEN:-none}"},
        },
        "slackbot": {
            "command": [program("mcp-server-slack")],
            "env": {"SLACK_BOT_TOKEN": "${NO_TOKEN:-none}", "SLACK_TEAM_ID": "T0"},
        },
        "maps": {
            "command": [program("mcp-server-google-maps")],
            "env": {"GOOGLE_MAPS_API_KEY": "${NO_TOKEN:-none}"},
        },
        "brave": {
            "command": [program("mcp-server-brave-search")],
            "env": {"BRAVE_API_KEY": "${NO_TOKEN:-none}"},
        },
        "time": {"command": [program("mcp-server-time"), "--local-timezone", "UTC"]},
        "git": {"command": [program("mcp-server-git"), "--repository", str(repository)]},
    }
    documents = {name: NODE / "apis" / f"{path}.json" for name, path in _NAMED.items()}
    documents |= {name: NODE / "node_modules" / path for name, path in _IN_PACKAGES.items()}
    return servers | {
        name: {"kind": "openapi", "document": str(path), "base_url": "http://127.0.0.1:9"}
        for name, path in documents.items()
    }


def _write_events(folder: Path) -> None:
    (folder / "events").mkdir()
    for name in _EVENTS:
        content = yaml.safe_load((NODE / "asyncapi" / name).read_text())
        for operation in content["operations"].values():
            operation["x-agent-tool"] = True
        file = folder / "events" / f"{name.partition('-')[0]}.json"
        file.write_text(json.dumps(content, default=str))


async def sync(folder: Path, store: str) -> None:
    """Take everything into a store."""
    for needed in ("apis", "asyncapi", "node_modules"):
        if not (NODE / needed).is_dir():
            missing(f"documents and servers of the catalog are not there: `make node` gets them ({needed})")
    _write_events(folder)
    settings = Settings(folder, {"sources": sources(folder), "store": store})
    async with spindle.open(settings=settings) as app:
        failed = {report.source: report.error for report in await app.sync() if report.error}
        assert not failed, failed


@dataclass(frozen=True)
class Question:
    text: str
    answers: frozenset[str]
    held_out: bool


def questions() -> list[Question]:
    found: list[Question] = []
    held_out = False
    for line in (Path(__file__).parent / "search_queries.txt").read_text().splitlines():
        if line.startswith("# ---"):
            held_out = line == "# --- held out"
        elif line and not line.startswith("#"):
            text, _, answers = line.partition(" | ")
            found.append(Question(text, frozenset(answers.split()), held_out))
    return found


async def places(store: Store) -> dict[Question, int | None]:
    """Where the first right answer is among ten: 0 is the first."""
    found: dict[Question, int | None] = {}
    for question in questions():
        names = [summary.name for summary in await store.search(question.text, 10)]
        found[question] = next((place for place, name in enumerate(names) if name in question.answers), None)
    return found


def figures(found: Iterable[int | None]) -> dict[str, float]:
    at = list(found)
    return {
        "questions": len(at),
        "first": sum(place == 0 for place in at),
        "first five": sum(place is not None and place < 5 for place in at),
        "mean reciprocal rank": round(sum(1 / (place + 1) for place in at if place is not None) / len(at), 3),
    }


async def _main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.db"
        await sync(Path(folder), str(file))
        async with SqliteStore(file) as store:
            tools, found = len(await store.names()), await places(store)
    print(json.dumps({"tools": tools, **figures(found.values())}))


if __name__ == "__main__":
    asyncio.run(_main())
