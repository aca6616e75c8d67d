"""Tokens, groups, limits and changed settings, against the program as it runs."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from servers.issuing import AUDIENCE, ISSUER, publishing, signed
from servers.rest import RestWorkspace, Served
from servers.running import PATIENCE

GROUPS = """
[serve]
auth_token = "the-one-token-of-all"
excluded_tools = ["fail"]
[serve.tokens]
ci = { token = "token-of-the-ci-run", groups = ["talkers"] }
ann = { token_env = "ANN_TOKEN", user = "ann@example.com", groups = ["admin"] }
[serve.groups.guest]
exposed_tools = ["hello"]
[serve.groups.talkers]
exposed_tools = ["say", "echo", "fail"]
excluded_tools = ["ec*"]
[serve.groups.admin]
"""
ANN = "token-of-ann-from-env"
ALL = {"grow", "echo", "hello", "say", "picture", "large", "count", "fail", "wait_for"}


def as_(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} if token else {}


def described(served: Served, token: str = "") -> set[str]:
    document = served.client.get("/openapi.json", headers=as_(token)).json()
    return {path.removeprefix("/tools/") for path in document["paths"]}


def listed(served: Served, token: str) -> set[str]:
    """What both documents show, which is the same."""
    names = described(served, token)
    manual = served.client.get("/utcp", headers=as_(token)).json()
    assert names == {tool["name"] for tool in manual["tools"]}
    return names


def status(served: Served, tool: str, token: str, **arguments: Any) -> int:
    return served.client.post(f"/tools/{tool}", json=arguments, headers=as_(token)).status_code


def wait_until(reached: Callable[[], bool]) -> None:
    """Each look is a request of its own, which takes its time."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline


def test_each_token_is_somebody_and_sees_what_its_groups_do(rest: RestWorkspace) -> None:
    rest.settings(GROUPS)
    with rest.serve(ANN_TOKEN=ANN) as served:
        one, ci = "the-one-token-of-all", "token-of-the-ci-run"
        assert listed(served, one) == {"hello"}
        assert listed(served, ci) == {"say"}
        assert listed(served, ANN) == ALL - {"fail"}
        assert status(served, "hello", one) == 200
        assert status(served, "say", one, text="x") == 404
        assert status(served, "say", ci, text="x") == 200
        assert status(served, "echo", ci, text="x") == 404
        assert status(served, "fail", ci, why="x") == 404
        assert status(served, "echo", ANN, text="x") == 200
        hidden = served.client.post("/tools/fail", json={"why": "x"}, headers=as_(ANN)).text
        absent = served.client.post("/tools/fial", json={"why": "x"}, headers=as_(ANN)).text
        assert hidden.replace("fail", "NAME") == absent.replace("fial", "NAME")
        assert served.client.get("/utcp?source=tools", headers=as_(ci)).status_code == 200
        for wrong in ("token-of-the-ci-ru", "ann", "", ANN.upper()):
            answer = served.client.get("/utcp", headers=as_(wrong))
            assert (answer.status_code, answer.headers["www-authenticate"][:22]) == (
                401, 'Bearer realm="spindle"',
            )  # fmt: skip
        _, said = served.stop()
    records = rest.spindle("history", "--json", ANN_TOKEN=ANN).stdout
    assert {record["principal"] for record in json.loads(records)} == {"client", "ci", "ann@example.com"}
    assert not any(token in records + said for token in (one, ci, ANN))


def test_the_exported_document_keeps_to_the_lists(rest: RestWorkspace) -> None:
    rest.settings(GROUPS)

    def exported(*words: str) -> set[str]:
        document = rest.json("export", "--openapi", *words)
        return {path.removeprefix("/tools/") for path in document["paths"]}

    assert exported() == {"hello"}
    assert exported("--group", "talkers") == {"say"}
    assert exported("--group", "admin") == ALL - {"fail"}
    wrong = rest.spindle("export", "--openapi", "--group", "talker")
    assert (wrong.returncode, "did you mean talkers?" in wrong.stderr) == (2, True)


def test_nothing_exposed_is_an_empty_list_and_unknown_names_are_noted(rest: RestWorkspace) -> None:
    rest.settings('[serve]\nexposed_tools = ["echoo"]\n')
    with rest.serve() as served:
        assert listed(served, "") == set()
        assert served.call("echo", text="x").status_code == 404
    done = rest.spindle("doctor")
    sentence = "serve.exposed_tools names 'echoo', which is not a tool; did you mean 'echo'?"
    assert sentence in done.stdout + done.stderr
    assert done.returncode == 0


MISTAKES = [
    (
        "tokens = { a = { token = 'x1', token_env = 'X' } }",
        "serve.tokens.a: give either `token` or `token_env`",
    ),
    ("tokens = { a = {} }", "serve.tokens.a: give either `token` or `token_env`"),
    ("tokens = { a = { token = ' ' } }", "serve.tokens.a: `token` is empty"),
    ("tokens = { a = { tokn = 'sesame' } }", "serve.tokens.a.tokn: not a setting; did you mean `token`?"),
    ("tokens = { a = { token = 5 } }", "serve.tokens.a.token: should be text"),
    ("tokens = { a = { token_env = 'NO_SUCH' } }", "serve.tokens.a.token_env names the variable NO_SUCH"),
    (
        "tokens = { a = { token = 'sesame' }, b = { token = 'sesame' } }",
        "a and serve.tokens.b are the same token",
    ),
    ("auth_token = 'sesame'\ntokens = { b = { token = 'sesame' } }", "serve.tokens.b are the same token"),
    ("rate_limit = 'often'", "serve.rate_limit: 'often' is not a rate such as"),
    ("rate_limit = '0/minute'", "serve.rate_limit: input should be greater than 0"),
    ("exposed_tols = []", "serve.exposed_tols: not a setting; did you mean `exposed_tools`?"),
    ("excluded_tools = 5", "serve.excluded_tools: should be a list"),
    (
        "groups = { a = { exposed = [] } }",
        "serve.groups.a.exposed: not a setting; did you mean `exposed_tools`?",
    ),
    ("default_agent_group = ''", "serve.default_agent_group: string should have at least 1 character"),
    ("jwt = { issuer = 'x' }", "serve.jwt.audience: field required"),
    (
        "jwt = { issuer = 'x', audience = 'y', jwks_url = 'http://evil.example/k' }",
        "must begin with https://",
    ),
    (
        "jwt = { issuer = 'x', audience = 'y', jwks_url = 'k' }",
        "serve.jwt.jwks_url: must be an address such as",
    ),
    ("jwt = { issuer = 'x', audience = [], jwks_url = 'https://e.x/k' }", "serve.jwt.audience: "),
    (
        "jwt = { issuer = 'x', audience = [' '], jwks_url = 'https://e.x/k' }",
        "serve.jwt.audience: must not be",
    ),
    (
        "jwt = { issuer = 'x', audience = 'y', jwks_url = 'https://e.x/k', algorithms = ['HS256'] }",
        "serve.jwt.algorithms: 'HS256' is none of ES256",
    ),
    (
        "jwt = { issuer = 'x', audience = 'y', jwks_url = 'https://e.x/k', required_scopes = ['a b'] }",
        "serve.jwt.required_scopes: 'a b' is not a scope",
    ),
]


@pytest.mark.parametrize(("text", "says"), MISTAKES, ids=[str(number) for number in range(len(MISTAKES))])
def test_a_mistake_stops_the_start_with_one_message(rest: RestWorkspace, text: str, says: str) -> None:
    rest.settings(f"[serve]\n{text}\n")
    done = rest.spindle("serve", "--rest", "--port", "0")
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert "sesame" not in done.stderr


def test_the_doctor_shows_the_same_mistakes(rest: RestWorkspace) -> None:
    rest.settings("[serve]\nrate_limit = 'often'\nauth_tokn = 'x'\n")
    done = rest.spindle("doctor")
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "serve.rate_limit: 'often' is not a rate" in said
    assert "did you mean `auth_token`?" in said
    rest.settings("[serve]\nauth_token_env = 'NO_SUCH'\n")
    done = rest.spindle("doctor")
    assert (done.returncode, "names the variable NO_SUCH" in done.stdout + done.stderr) == (1, True)


def test_an_issued_token_is_checked_and_a_client_is_told_where_to_get_one(rest: RestWorkspace) -> None:
    with publishing() as keys:
        rest.settings(
            f'[serve]\njwt = {{ issuer = "{ISSUER}", audience = "{AUDIENCE}", jwks_url = "{keys.url}",'
            ' required_scopes = ["tools"] }\n[serve.groups.talkers]\nexposed_tools = ["say"]\n'
            "[serve.groups.guest]\nexposed_tools = []\n"
        )
        with rest.serve() as served:
            stranger = served.client.get("/utcp")
            assert stranger.status_code == 401
            place = f"{served.url}/.well-known/oauth-protected-resource"
            told = stranger.headers["www-authenticate"]
            assert told == f'Bearer realm="spindle", scope="tools", resource_metadata="{place}"'
            assert f'"{place}/mcp"' in served.client.post("/mcp").headers["www-authenticate"]
            metadata = served.client.get(place).json()
            assert metadata == {
                "resource": served.url,
                "authorization_servers": [ISSUER],
                "bearer_methods_supported": ["header"],
                "resource_name": "Spindle",
                "scopes_supported": ["tools"],
            }
            assert served.client.get(f"{place}/mcp").json()["resource"] == f"{served.url}/mcp"
            assert served.client.post(place).status_code == 401
            assert served.client.get(f"{place}x").status_code == 401
            assert served.client.get(place, headers={"host": "evil.example"}).status_code == 421
            good = signed(scope="tools", groups=["talkers"])
            assert listed(served, good) == {"say"}
            assert listed(served, signed("ec", "ES256", scope="tools")) == set()
            assert status(served, "say", good, text="x") == 200
            late = served.client.get("/utcp", headers=as_(signed(scope="tools", exp=1_700_000_000)))
            assert late.status_code == 401
            assert (
                'error="invalid_token", error_description="the token has expired"'
                in (late.headers["www-authenticate"])
            )
            narrow = served.client.get("/utcp", headers=as_(signed()))
            assert narrow.status_code == 403
            assert 'error="insufficient_scope"' in narrow.headers["www-authenticate"]
    assert rest.json("history", "--json")[0]["principal"] == "ann"


def test_without_the_issuers_keys_the_answer_is_to_come_back(rest: RestWorkspace) -> None:
    with publishing() as keys:
        keys.status = 500
        rest.settings(
            f'[serve]\njwt = {{ issuer = "{ISSUER}", audience = "{AUDIENCE}", jwks_url = "{keys.url}" }}\n'
        )
        with rest.serve() as served:
            answer = served.client.get("/utcp", headers=as_(signed()))
            assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (503, True)


def test_who_asks_too_often_waits_and_others_do_not(rest: RestWorkspace) -> None:
    rest.settings(
        '[serve]\nrate_limit = "3/hour"\n[serve.tokens]\na = { token = "aaaa" }\nb = { token = "bbbb" }\n'
    )
    with rest.serve() as served:
        assert [status(served, "hello", "aaaa") for _ in range(4)] == [200, 200, 200, 429]
        assert status(served, "hello", "bbbb") == 200
        late = served.client.get("/utcp", headers=as_("aaaa"))
        assert 0 < int(late.headers["retry-after"]) <= 1200
        assert late.json()["category"] == "rate_limited"
        # Guessing has the limit of the address, which is not that of those who know.
        assert [status(served, "hello", f"guess{n}") for n in range(4)] == [401, 401, 401, 429]
        assert status(served, "hello", "bbbb") == 200


def test_a_body_that_says_to_be_too_large_is_not_read(rest: RestWorkspace) -> None:
    rest.settings('[serve]\nmax_body_size = "1KiB"\n')
    with rest.serve() as served:
        port = httpx2.URL(served.url).port
        for path in ("/tools/echo", "/nothing"):
            with socket.create_connection(("127.0.0.1", port or 0), timeout=PATIENCE) as raw:
                raw.sendall(
                    f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1025\r\n\r\n".encode()
                )
                assert raw.recv(64).startswith(b"HTTP/1.1 413 ")
        assert served.call("say", text="x" * 900).status_code == 200


# --- settings that change


def test_changed_settings_take_effect_and_broken_ones_do_not(rest: RestWorkspace) -> None:
    with rest.serve() as served:
        assert listed(served, "") == ALL
        rest.settings('[serve]\nexposed_tools = ["say", "echo"]\n')
        wait_until(lambda: described(served) == {"say", "echo"})
        assert status(served, "hello", "") == 404
        rest.settings('[serve]\nexposed_tools = ["say"\n')
        noted = read_until(served, "the old ones stay in force")
        assert "is not valid TOML" in noted
        rest.settings('[serve]\nexposed_tools = ["say"]\nport = "x"\n')
        assert "serve.port" in read_until(served, "the old ones stay in force")
        rest.settings('[serve]\nexposed_tools = ["say"]\n[sources.x]\nkind = "nothing"\n')
        assert "sources.x.kind" in read_until(served, "the old ones stay in force")
        assert listed(served, "") == {"say", "echo"}
        rest.settings('[serve]\nauth_token = "now-with-a-token"\nhost = "localhost"\n')
        read_until(served, "serve.host will be as changed after the next start")
        assert served.client.get("/utcp").status_code == 401
        assert listed(served, "now-with-a-token") == ALL


def read_until(served: Served, words: str) -> str:
    assert served.process.stderr is not None
    for line in served.process.stderr:
        if words in line:
            return line
    raise AssertionError(f"the server ended without saying {words!r}")


def test_sources_come_and_go_while_serving(rest: RestWorkspace) -> None:
    more = rest.root / "more"
    more.mkdir()
    (more / "m.py").write_text("from spindle import tool\n\n@tool\ndef extra() -> int:\n    return 7\n")
    with rest.serve() as served:
        assert status(served, "more.extra", "") == 404
        rest.settings('[sources.more]\nkind = "python"\npath = "more"\n')
        wait_until(lambda: "more.extra" in described(served))
        assert served.call("more.extra").json() == 7
        rest.settings('[sources.more]\nkind = "python"\npath = "more"\nprefix = false\n')
        wait_until(lambda: "extra" in described(served))
        assert served.call("extra").json() == 7
        rest.settings("# none\n")
        wait_until(lambda: described(served) == ALL)
        assert status(served, "extra", "") == 404
