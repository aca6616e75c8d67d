"""Running the authorisation server and the MCP server that trusts it, and being their users."""

from __future__ import annotations

import contextlib
import html
import json
import re
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx2

from servers import warm
from servers.running import REPOSITORY, missing, program
from spindle.app import Spindle
from spindle.auth.oauth import Completed
from spindle.domain.identity import Principal

HERE = Path(__file__).parent
MODULES = REPOSITORY / ".node" / "node_modules"


@contextlib.contextmanager
def started(*command: str) -> Generator[dict[str, Any]]:
    """A server process, and what it says about itself when it is ready."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"{command} ended at once"
        yield json.loads(line)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@dataclass(frozen=True)
class OAuthProvider:
    issuer: str

    async def stats(self) -> dict[str, int]:
        """How often its token endpoint was asked for what, since it started."""
        async with httpx2.AsyncClient() as http:
            return (await http.get(f"{self.issuer}/stats")).json()

    async def forget(self, client: str) -> None:
        async with httpx2.AsyncClient() as http:
            (await http.get(f"{self.issuer}/forget", params={"client": client})).raise_for_status()

    async def end(self, token: str) -> None:
        """Let an access token be over, and nothing else."""
        async with httpx2.AsyncClient() as http:
            (await http.get(f"{self.issuer}/end", params={"token": token})).raise_for_status()

    async def introspect(self, token: str) -> dict[str, Any]:
        async with httpx2.AsyncClient(auth=("mcp-server", "secret-of-mcp-server")) as http:
            return (await http.post(f"{self.issuer}/token/introspection", data={"token": token})).json()


@contextlib.contextmanager
def running_provider(**options: Any) -> Generator[OAuthProvider]:
    if not (MODULES / "oidc-provider").is_dir():
        missing("oidc-provider is not installed: run `make node`")
    script = str(HERE / "oauth_provider.mjs")
    with started(program("node"), script, str(MODULES), json.dumps(options)) as told:
        yield OAuthProvider(told["issuer"])


@contextlib.contextmanager
def running_mcp_server(issuer: str, *words: str) -> Generator[str]:
    """The URL of an MCP server that wants tokens of this issuer."""
    with started(warm.PYTHON, str(HERE / "oauth_mcp_server.py"), issuer, *words) as told:
        yield told["url"]


async def agree(app: Spindle, url: str, principal: Principal, *, say: str = "yes") -> Completed:
    """A user of the principal's name follows a link for consent, and comes back to this process."""
    async with User(principal.id) as user:
        given = await user.follow(url, say=say)
    error = given.get("error")
    back = (given.get("code"), given["state"], given.get("iss"))
    return await app.auth.complete(*back, error=error, principal=principal)


class User:
    """A person with a browser, as far as the provider can tell."""

    def __init__(self, account: str = "ann") -> None:
        self.account = account
        self._http = httpx2.AsyncClient()

    async def __aenter__(self) -> User:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def follow(self, url: str, *, say: str = "yes") -> dict[str, str]:
        """Log in and decide; what the provider then sends back with the user."""
        target = await self.redirected(url, say=say)
        return dict(parse_qsl(urlsplit(target).query))

    async def redirected(self, url: str, *, say: str = "yes") -> str:
        """The same, as the address that the browser is sent to in the end."""
        start = urlsplit(url).netloc
        method = "GET"
        for _ in range(20):
            response = await self._http.request(method, url)
            location = response.headers.get("location")
            if location is not None:
                method, url = "GET", urljoin(url, location)
                if urlsplit(url).netloc != start:
                    return url
                continue
            assert response.status_code == 200, response.text[:2000]
            page = response.json()
            base = url.partition("?")[0]
            method = "POST"
            if "prompt" not in page:
                return url
            if page["prompt"] == "login":
                url = f"{base}/login?account={self.account}"
            else:
                url = f"{base}/{'confirm' if say == 'yes' else 'abort'}"
        raise AssertionError("the provider asks without an end")

    async def enter_code(self, link: str) -> None:
        """What a user does with the link of a device login: submit each form, log in, agree."""
        response = await self._http.get(link)
        for _ in range(20):
            location = response.headers.get("location")
            if location is not None:
                response = await self._http.get(urljoin(str(response.url), location))
                continue
            assert response.status_code == 200, response.text[:2000]
            is_json = response.headers["content-type"].startswith("application/json")
            page = response.json() if is_json else {"form": response.text}
            if page.get("done"):
                return
            if "form" in page:
                inputs = re.findall(r"<input[^>]+>", page["form"])
                pairs = [dict(re.findall(r'(name|value)="([^"]*)"', text)) for text in inputs]
                form = {pair["name"]: pair.get("value", "") for pair in pairs if "name" in pair}
                action = html.unescape(re.findall(r'action="([^"]+)"', page["form"])[0])
                response = await self._http.post(urljoin(str(response.url), action), data=form)
            else:
                path = f"/login?account={self.account}" if page["prompt"] == "login" else "/confirm"
                response = await self._http.post(str(response.url) + path)
        raise AssertionError("the provider asks without an end")
