"""`spindle auth` against a real authorisation server, with the browser's part played over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest

from servers.oauth import OAuthProvider, User
from servers.odd_provider import OddProvider
from servers.running import PATIENCE
from spindle.presets import Preset

if TYPE_CHECKING:
    # Only for its names: `cli` is also the name of a folder below `sources`.
    from servers.shell import Run, Workspace

LINK = re.compile(r"http://127\.0\.0\.1:\d+/\S+")


class Login:
    """A `spindle auth login` that runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.err = ""

    async def until(self, pattern: re.Pattern[str]) -> str:
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while True:
                line = (await self.process.stderr.readline()).decode()
                assert line, f"it ended: {self.err}"
                self.err += line
                found = pattern.search(line)
                if found:
                    return found[0]

    async def end(self) -> tuple[int, str, str]:
        async with asyncio.timeout(PATIENCE):
            out, err = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), self.err + err.decode()


Logins = Callable[..., AbstractAsyncContextManager[Login]]


@pytest.fixture
def login() -> Logins:
    @asynccontextmanager
    async def start(*words: str, **environ: str) -> AsyncIterator[Login]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "spindle", "auth", "login", *words,
            stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env={**os.environ, **environ},
        )  # fmt: skip
        try:
            yield Login(process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    return start


async def visit(url: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=PATIENCE) as http:
        return await http.get(url)


def add_guarded(workspace: Workspace, url: str, **auth: str) -> None:
    table = ", ".join(f'{key} = "{value}"' for key, value in {"type": "oauth", **auth}.items())
    workspace.write("spindle.toml", f'[sources.work]\nurl = "{url}"\nauth = {{ {table} }}\n')


async def test_a_login_gives_access_fetches_the_tools_and_can_be_listed_and_revoked(
    workspace: Workspace,
    program: Run,
    login: Logins,
    guarded_url: str,
    ann: User,
) -> None:
    add_guarded(workspace, guarded_url)
    async with login("work") as running:
        link = await running.until(LINK)
        back = await ann.redirected(link)
        page = await visit(back)
        assert page.status_code == 200
        assert "go back to the terminal" in page.text
        code, out, _ = await running.end()
    assert code == 0
    assert "local has given access to work (read)" in out
    assert "work.whoami" in out

    done = await asyncio.to_thread(program, "call", "work.whoami")
    assert json.loads(done.out)["subject"] == "ann", done.err
    done = await asyncio.to_thread(program, "auth", "list", "--json")
    [known] = done.json
    assert (known["source"], known["principal"], known["scopes"]) == ("work", "local", ["read"])
    listed = await asyncio.to_thread(program, "auth", "list")
    assert listed.out.split("\t")[:2] == ["work", "local"]
    assert "renewed automatically" in listed.out
    healthy = await asyncio.to_thread(program, "doctor")
    assert healthy.code == 0, healthy.out

    done = await asyncio.to_thread(program, "auth", "revoke", "work")
    assert (done.code, done.out) == (0, "local has no access to work any more\n")
    assert "note:" not in done.err, "the provider was told"
    done = await asyncio.to_thread(program, "call", "work.whoami")
    assert done.code == 75
    assert "work needs your consent" in done.err
    assert "spindle auth login work" in done.err
    done = await asyncio.to_thread(program, "auth", "revoke", "work")
    assert done.code == 3
    done = await asyncio.to_thread(program, "doctor")
    assert done.code == 1
    assert "needs your consent" in done.out
    assert "spindle auth login work" in done.out


async def test_a_sync_without_a_login_says_how_to_log_in(
    workspace: Workspace, program: Run, guarded_url: str
) -> None:
    add_guarded(workspace, guarded_url)
    done = await asyncio.to_thread(program, "sync")
    assert done.code == 75
    assert "work needs your consent" in done.err
    assert "hint: run `spindle auth login work`" in done.err


async def test_a_user_who_says_no_ends_the_login_with_a_clear_message(
    workspace: Workspace, login: Logins, guarded_url: str, ann: User
) -> None:
    add_guarded(workspace, guarded_url)
    async with login("work", "--no-browser", "--as", "ann") as running:
        link = await running.until(LINK)
        page = await visit(await ann.redirected(link, say="no"))
        assert "No access was given" in page.text
        code, out, err = await running.end()
    assert (code, out) == (5, "")
    assert "gave no access: access_denied: the user said no" in err


async def test_strangers_are_turned_away_while_a_login_waits(
    workspace: Workspace, login: Logins, guarded_url: str, ann: User
) -> None:
    add_guarded(workspace, guarded_url)
    async with login("work") as running:
        link = await running.until(LINK)
        back = await ann.redirected(link)
        base = back.partition("?")[0]
        assert (await visit(base + "?code=x&state=guessed")).status_code == 400
        assert (await visit(base + "?code=<script>")).status_code == 400
        assert (await visit(base + "/other")).status_code == 404
        _, silent = await asyncio.open_connection("127.0.0.1", httpx2.URL(base).port)
        page = await visit(back)
        assert page.status_code == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["cache-control"] == "no-store"
        code, _, _ = await running.end()
        silent.close()
    assert code == 0


async def test_a_browser_is_opened_where_there_is_one(
    workspace: Workspace, login: Logins, guarded_url: str, ann: User
) -> None:
    add_guarded(workspace, guarded_url)
    opened = workspace.root / "opened"
    os.mkfifo(opened)
    script = workspace.write("browser.sh", f'#!/bin/sh\nprintf %s "$1" > "{opened}"\n')
    script.chmod(0o755)
    async with login("work", BROWSER=f"{script} %s &") as running:
        link = await running.until(LINK)
        async with asyncio.timeout(PATIENCE):
            assert await asyncio.to_thread(opened.read_text) == link
        await visit(await ann.redirected(link))
        assert (await running.end())[0] == 0


async def test_ctrl_c_ends_a_login_at_once_and_frees_the_port(
    workspace: Workspace, login: Logins, guarded_url: str
) -> None:
    add_guarded(workspace, guarded_url)
    async with login("work", "--no-browser") as running:
        link = await running.until(LINK)
        port = int(re.findall(r"127\.0\.0\.1%3A(\d+)%2Fcallback", link)[0])
        running.process.send_signal(signal.SIGINT)
        code, _, err = await running.end()
    assert code == 130
    assert "cancelled" in err
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


async def test_nobody_coming_back_is_told_after_the_time(
    workspace: Workspace, program: Run, guarded_url: str
) -> None:
    add_guarded(workspace, guarded_url)
    done = await asyncio.to_thread(program, "auth", "login", "work", "--no-browser", "--timeout", "0.1")
    assert done.code == 6
    assert "nobody came back" in done.err


async def test_a_fixed_redirect_that_is_taken_is_told(
    workspace: Workspace, program: Run, guarded_url: str
) -> None:
    add_guarded(workspace, guarded_url)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        uri = f"http://127.0.0.1:{taken.getsockname()[1]}/callback"
        workspace.write(
            "spindle.toml",
            (workspace.root / "spindle.toml").read_text() + f'[auth]\nredirect_uri = "{uri}"\n',
        )
        done = await asyncio.to_thread(program, "auth", "login", "work", "--no-browser")
    assert done.code == 2
    assert f"cannot listen at {uri}" in done.err


async def test_a_device_login_is_completed_elsewhere(
    workspace: Workspace, login: Logins, guarded_url: str, oauth_provider: OAuthProvider, ann: User
) -> None:
    add_guarded(workspace, guarded_url, client_id="public")
    async with login("work", "--device") as running:
        link = await running.until(re.compile(r"http\S+user_code=[\w-]+"))
        await ann.enter_code(link)
        code, out, err = await running.end()
    assert code == 0, err
    assert "local has given access to work" in out


async def test_a_source_whose_server_wants_oauth_gets_it_written_when_the_user_agrees(
    workspace: Workspace, program: Run, login: Logins, guarded_url: str, ann: User
) -> None:
    done = await asyncio.to_thread(program, "add", "work", guarded_url)
    assert done.code == 75
    assert "spindle auth login work" in done.err
    written = (workspace.root / "spindle.toml").read_text()
    assert 'auth = {type = "oauth"}' in written

    workspace.write("spindle.toml", f'# mine\n[sources.work]\nurl = "{guarded_url}" # here\n')
    done = await asyncio.to_thread(program, "sync")
    assert done.code == 5
    assert 'set `auth = { type = "oauth" }`' in done.err
    done = await asyncio.to_thread(program, "auth", "login", "work")
    assert done.code == 2
    assert "--yes" in done.err
    async with login("work", "--yes", "--no-browser") as running:
        await visit(await ann.redirected(await running.until(LINK)))
        assert (await running.end())[0] == 0
    text = (workspace.root / "spindle.toml").read_text()
    assert text.startswith("# mine\n")
    assert "# here" in text


async def test_a_preset_that_wants_a_login_says_how_to_log_in(
    workspace: Workspace, spindle: Run, guarded_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Preset("work", "Issues at work", url=guarded_url, auth={"type": "oauth"})
    monkeypatch.setattr("spindle.presets.presets", lambda: {"work": work})
    done = await asyncio.to_thread(spindle, "add", "work")
    assert done.code == 75, done.err
    assert done.err.endswith("note: now run `spindle auth login work`, which also fetches its tools\n")


def test_a_source_without_oauth_cannot_be_logged_in_to(workspace: Workspace, spindle: Run) -> None:
    workspace.add_server()
    done = spindle("auth", "login", "mini")
    assert done.code == 2
    assert "users do not log in to mini" in done.err
    done = spindle("auth", "login", "minni")
    assert done.code == 3
    assert "did you mean 'mini'" in done.err


def test_keys_are_printed_and_rotated(
    workspace: Workspace, spindle: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = spindle("auth", "new-key")
    assert re.fullmatch(r"[\w-]{43}=\n", done.out)
    assert spindle("auth", "list").err.startswith("note: nobody has logged in")
    done = spindle("auth", "rotate", "--json")
    assert done.code == 0
    assert done.json["old_keys"] == 1
    file = Path(done.json["keys"])
    assert len(file.read_text().split()) == 2
    done = spindle("auth", "rotate", "--drop-old")
    assert done.out.startswith("0 secrets encrypted with a new key of ")
    assert len(file.read_text().split()) == 1
    file.chmod(0o644)
    done = spindle("auth", "rotate")
    assert done.code == 2
    assert "chmod 600" in done.err
    monkeypatch.setenv("SPINDLE_KEY", "not a key")
    assert spindle("auth", "rotate").code == 11


async def test_tokens_and_keys_are_in_no_output_and_no_process_listing(
    workspace: Workspace, program: Run, login: Logins, tmp_path: Path
) -> None:
    async with OddProvider().running() as odd:
        add_guarded(workspace, odd.url, client_id="c", client_secret="planted-client-secret")
        async with login("work", "--no-browser") as running:
            link = await running.until(LINK)
            query = httpx2.URL(link).params
            listing = Path(f"/proc/{running.process.pid}/cmdline").read_bytes()
            listing += Path(f"/proc/{running.process.pid}/environ").read_bytes()
            page = await visit(f"{query['redirect_uri']}?code=planted-code&state={query['state']}")
            _, out, err = await running.end()
        assert odd.forms, "the exchange took place"
        listed = await asyncio.to_thread(program, "auth", "list", "--json")
        shown = page.text + out + err + listed.out + listed.err + listing.decode("utf-8", "replace")
        stored = b"".join(
            file.read_bytes() for file in (workspace.root / ".spindle").iterdir() if file.is_file()
        )
        for secret in ("odd-access-1", "odd-refresh-1", "planted-client-secret", "planted-code"):
            assert secret not in shown
            assert secret.encode() not in stored
