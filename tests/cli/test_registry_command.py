"""`spindle registry search | show`, against a registry with recorded entries and with faults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.test_terminal import Terminal, plain
from servers.registry import Registry, answer, running_registry


@pytest.fixture(scope="module")
def server() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


@pytest.fixture
def registry(server: Registry, folder: Path) -> Iterator[Registry]:
    (folder / "spindle.toml").write_text(f'[registries.test]\nurl = "{server.url}"\n')
    entries = list(server.entries)
    yield server
    server.entries[:] = entries
    server.instead.clear()
    server.status.clear()
    server.seen.clear()
    server.token = None


def test_words_find_servers(registry, spindle):
    done = spindle("registry", "search", "github-mcp")
    assert done.code == 0, done.err
    assert done.out == (
        "io.github.github/github-mcp-server\t1.12.2\toci, remote\tConnect AI assistants to GitHub - manage"
        " repos, issues, PRs, and workflows through natural language.\n"
    )


def test_all_words_must_be_in_name_title_or_description(registry, spindle):
    found = spindle("registry", "search", "server", "airtable", "records", "--json").json
    assert [item["name"] for item in found["servers"]] == ["io.github.domdomegg/airtable-mcp-server"]
    assert found["servers"][0]["kinds"] == ["npm", "oci", "mcpb"]
    assert found["next_cursor"] == {}
    done = spindle("registry", "search", "server", "zebra")
    assert (done.code, done.out) == (0, "")
    assert "no server has 'server' and 'zebra'" in done.err


def test_a_search_goes_on_at_its_cursor(registry, spindle):
    first = spindle("registry", "search", "domdomegg", "--limit", "2", "--json").json
    assert len(first["servers"]) == 2
    done = spindle(
        "registry", "search", "domdomegg", "--limit", "2", "--cursor", first["next_cursor"]["test"]
    )
    assert done.out.startswith("io.github.domdomegg/time-mcp-pypi\t")
    assert "has more" not in done.err


def test_one_server_is_shown_with_its_inputs(registry, spindle):
    registry.add("io.github.github/github-mcp-server", "1.11.0")
    registry.entries.sort(key=lambda entry: entry["version"] == "1.12.2")
    done = spindle("registry", "show", "io.github.github/github-mcp-server")
    assert done.code == 0, done.err
    assert "io.github.github/github-mcp-server 1.12.2  (GitHub)" in done.out
    assert "other versions: 1.11.0" in done.out
    assert "oci: ghcr.io/github/github-mcp-server:1.12.2 (stdio)" in done.out
    assert "--input token=…  (secret)" in done.out
    assert "remote: https://api.githubcopilot.com/mcp/ (streamable-http)" in done.out
    shown = spindle("registry", "show", "io.github.github/github-mcp-server", "--json").json
    assert shown["versions"] == ["1.11.0", "1.12.2"]
    assert shown["server"]["packages"][0]["registryType"] == "oci"


def test_a_server_that_is_not_there(registry, spindle):
    done = spindle("registry", "show", "io.github.nobody/nothing")
    assert (done.code, "there is no server 'io.github.nobody/nothing'" in done.err) == (3, True)
    done = spindle("registry", "show", "io.github.github/github-mcp-server@9.9.9")
    assert (done.code, "in version 9.9.9" in done.err) == (3, True)


@pytest.mark.parametrize(
    "name", ["nothing", "a/b/c", "../x", "-x/y", "io.github.x/y@", "io.github.x/y@--call", "a/b@^1.0"]
)
def test_what_cannot_be_a_name_is_not_asked_for(registry, spindle, name):
    done = spindle("registry", "show", "--", name)
    assert done.code == 2
    assert "Traceback" not in done.err
    assert registry.seen == []


def test_a_private_registry_gets_its_credential(registry, spindle, folder, monkeypatch):
    registry.token = "s3cret-token"
    done = spindle("registry", "search", "time")
    assert done.code == 5
    assert "hint: set registries.test.auth" in done.err
    monkeypatch.setenv("REGISTRY_TOKEN", "s3cret-token")
    auth = 'auth = { type = "bearer", token = "${REGISTRY_TOKEN}" }'
    (folder / "spindle.toml").write_text(f'[registries.test]\nurl = "{registry.url}/"\n{auth}\n')
    done = spindle("registry", "search", "time")
    assert (done.code, done.out.count("\n")) == (0, 2)


def test_a_registry_can_be_named_by_its_url_without_a_workspace(server, spindle, folder):
    done = spindle("registry", "search", "phishunt", "--registry", server.url)
    assert (done.code, done.out.split("\t")[0]) == (0, "io.github.0xDanielLopez/phishunt")
    assert list(folder.iterdir()) == []


def test_mistakes_in_the_settings_are_named(registry, spindle, folder):
    (folder / "spindle.toml").write_text('[registries.test]\nurl = "ftp://x"\n')
    done = spindle("registry", "search", "x")
    assert done.code == 2
    assert "registries.test.url: must be an address such as https://registry.example.com" in done.err
    (folder / "spindle.toml").write_text('[registries]\ntest = "https://x"\n')
    assert "registries.test must be a table" in spindle("registry", "search", "x").err
    done = spindle("registry", "search", "x", "--registry", "tset")
    assert done.code == 2


HOSTILE = [
    {"server": {"name": "io.github.x/y\x1b[2J", "version": "1.0.0"}},
    {"server": {"name": "io.github.x/y", "version": "--call"}},
    {"server": {"name": "--help/y", "version": "1.0.0"}},
    {"server": {"name": "io.github.x/y", "version": ["1"]}},
    {"server": {"name": "io.github.x/y", "version": "1.0.0", "packages": {"a": 1}}},
    {
        "server": {
            "name": "io.github.x/y",
            "version": "1.0.0",
            "packages": [{"registryType": "npm", "identifier": "--call=x"}],
        }
    },
    {"server": None},
    [],
    None,
    7,
]


def test_entries_that_cannot_be_read_are_left_out(registry, spindle):
    good = {
        "server": {"name": "io.github.x/good", "version": "1.0.0", "description": "a\x1b[31m\u202ered\nline"}
    }
    registry.instead["/v0.1/servers?"] = answer({"servers": [*HOSTILE, good], "metadata": {}})
    done = spindle("registry", "search", "x")
    assert done.code == 0
    assert done.out == "io.github.x/good\t1.0.0\t-\ta\ufffd[31m\ufffdred line\n"
    assert f"{len(HOSTILE)} entries were left out" in done.err


@pytest.mark.parametrize("wrong", HOSTILE)
def test_a_hostile_entry_is_an_error_of_the_registry(registry, spindle, wrong):
    registry.instead["/v0.1/servers/"] = answer(wrong)
    done = spindle("registry", "show", "io.github.x/y")
    assert done.code == 9, done.err
    assert done.err.startswith("spindle: the registry 'test': ")
    assert "\x1b" not in done.err


def test_another_server_than_the_one_asked_for_is_refused(registry, spindle):
    registry.instead["/v0.1/servers/"] = answer({"server": {"name": "io.github.x/other", "version": "1.0.0"}})
    done = spindle("registry", "show", "io.github.x/y")
    assert "answered with io.github.x/other@1.0.0, which was not asked for" in done.err


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (answer({"detail": "gone"}, 404), 3, "does it know\nv0.1"),
        (answer({"detail": "oh"}, 500), 9, "HTTP status 500"),
        (answer(b"<html>hello</html>"), 9, "did not answer with JSON"),
        (answer(b'{"servers": [' + b"[" * 1000), 9, "did not answer with JSON"),
        (answer(b"[]"), 9, "did not answer with a JSON object"),
        (answer({}), 9, "an answer without `servers`"),
        (answer({"servers": [], "metadata": {"nextCursor": "0"}}), 9, "gives the same page again and again"),
        (answer(b" " * (9 * 1024 * 1024)), 9, "larger than 8388608 bytes"),
        (answer(b"", 302, location="file:///etc/passwd"), 9, "redirects to file:"),
        (answer(b"", 302, location="/v0.1/servers?again"), 9, "redirected more than 3 times"),
    ],
)
def test_a_broken_registry_is_one_clear_sentence(registry, spindle, given, code, said):
    registry.instead["/v0.1/servers?"] = given
    done = spindle("registry", "search", "x")
    assert done.code == code, done.err
    assert said.split("\n")[-1] in done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 2


def test_a_cursor_for_ever_ends(registry, spindle):
    count = iter(range(10_000))

    def more(_headers: dict[str, str]):
        return answer({"servers": [], "metadata": {"nextCursor": f"c{next(count)}"}})

    registry.instead["/v0.1/servers?"] = more
    done = spindle("registry", "search", "x")
    assert done.code == 0
    assert len(registry.seen) == 20
    assert "has more" in done.err


def test_a_registry_that_does_not_answer_is_not_waited_for(registry, spindle, folder):
    def never(_headers: dict[str, str]):
        registry.released.wait()
        return answer({})

    registry.instead["/v0.1/servers?"] = never
    (folder / "spindle.toml").write_text(f'[registries.test]\nurl = "{registry.url}"\ntimeout = 0.2\n')
    done = spindle("registry", "search", "x")
    registry.released.set()
    registry.released.clear()
    assert (done.code, "did not answer within 0.2 s" in done.err) == (6, True)


def test_nobody_at_the_address(registry, spindle, folder):
    (folder / "spindle.toml").write_text('[registries.test]\nurl = "http://127.0.0.1:1"\n')
    done = spindle("registry", "search", "x")
    assert done.code == 7
    assert "cannot reach the registry 'test' at 127.0.0.1" in done.err


def test_an_error_is_json_where_json_is_wanted(registry, spindle):
    registry.instead["/v0.1/servers?"] = answer({"detail": "oh"}, 500)
    done = spindle("registry", "search", "x", "--json")
    assert json.loads(done.out)["error"]["category"] == "server"


def test_a_narrow_terminal_shows_every_name_whole(registry):
    seen = plain(Terminal("registry", "search", "mcp", COLUMNS="60").read_all())
    names = [entry["name"] for entry in registry.entries if "mcp" in entry["name"]]
    assert [line.split()[0] for line in seen.splitlines() if line.startswith("io.")] == names
