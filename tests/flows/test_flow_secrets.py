"""Secrets in flows: inputs that are marked, and those of the workspace by name. No value is left anywhere."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

import spindle
from servers.flow_tools import OpenFlows
from spindle import Finished, Paused, tool
from spindle.calls.options import CallOptions
from spindle.calls.secret_forms import _replace_many, pattern_of
from spindle.domain.identity import Principal
from spindle.errors import FlowError, NotFoundError, PermissionDeniedError, ToolError
from spindle.flows.check.check import check

PASSWORD = 'hunter2-"xyz'
KEY = "k3y/S3cr3t+value"
CALLS: list[dict[str, Any]] = []

Password = Annotated[str, Field(json_schema_extra={"format": "password"})]


@tool
def login(user: str, password: Password) -> dict[str, str]:
    """Log in, and repeat what was given."""
    CALLS.append({"login": password})
    basic = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"session": "s-1", "said": f"{user}:{password}", "basic": basic}


@tool
def post(text: str, header: str = "", fail: bool = False) -> dict[str, str]:
    """Post a text."""
    CALLS.append({"post": text, "header": header})
    if fail:
        raise ValueError(f"cannot post {text} with {header}")
    return {"posted": text, "with": header}


@tool(read_only=True)
def shout(text: str) -> str:
    """A pure tool whose results are kept."""
    return text.upper() + text


TOOLS = [login, post, shout]

FLOW = """
version: 1
inputs:
  password: {type: string, format: password}
  fail: {type: boolean, default: false}
  ask: {type: boolean, default: false}
nodes:
- {id: login, tool: login, params: {user: me}}
- {id: sure, ask: {message: "post ${password} with ${secrets.API_KEY}?"}}
- id: post
  tool: post
  params: {text: "pw=${password} ${login}", header: "Bearer ${secrets.API_KEY}", fail: "${fail}"}
edges: [{from: login, to: sure}, {from: sure, to: post}]
"""


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


def flow(root: Path, text: str = FLOW, name: str = "f") -> str:
    (root / "flows").mkdir(exist_ok=True)
    (root / "flows" / f"{name}.yaml").write_text(text)
    return name


def left_behind(root: Path, *secrets: str) -> list[str]:
    """The files of the workspace that hold one of the secrets, in whatever form."""
    found: list[str] = []
    for file in root.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            for secret in secrets:
                forms = {secret, json.dumps(secret)[1:-1], base64.b64encode(secret.encode()).decode()[:-4]}
                found += [f"{file.name}: {form}" for form in forms if form.encode() in data]
    return found


def in_clear(root: Path) -> None:
    with (root / "spindle.toml").open("a") as file:
        file.write('\n[at_rest]\nhistory = "clear"\ncache = "clear"\n')


async def told(app: spindle.Spindle, run: str) -> str:
    """All that can be read of a run, and of its calls."""
    found, given, events = await app.flows.trace(run)
    calls = [record.to_dict() for record in await app.history()]
    parts = [found.to_dict(), given["inputs"], [event.to_dict() for event in events], calls]
    pauses = [pause.to_dict() for pause in await app.pauses()]
    return json.dumps([parts, pauses], ensure_ascii=False)


async def test_no_secret_is_left_by_a_run_a_pause_a_resumption_and_a_failure(
    tmp_path: Path, opened: OpenFlows
) -> None:
    in_clear(tmp_path)
    name = flow(tmp_path)
    async with opened(tools=TOOLS) as app:
        await app.auth.secrets.set("API_KEY", KEY)
        for fail in (False, True):
            seen: list[Any] = []
            paused = await app.flows.run(name, {"password": PASSWORD, "fail": fail}, observe=seen.append)
            assert isinstance(paused, Paused)
            assert paused.pauses[0].message == "post ••• with •••?"
            assert await leaks(app, paused.run_id, seen) == []
            if fail:
                with pytest.raises(ToolError) as failed:
                    await app.resume(paused.pauses[0].token, "yes")
                assert "cannot post pw=•••" in failed.value.message
                assert PASSWORD not in repr(failed.value.to_dict())
            else:
                done = await app.resume(paused.pauses[0].token, "yes")
                assert isinstance(done, Finished)
                # What the caller gave is theirs; what the workspace keeps is not.
                assert done.result.structured["posted"].startswith(f"pw={PASSWORD}")
                assert done.result.structured["with"] == "Bearer •••"
            assert await leaks(app, paused.run_id, seen) == []
            # The tools got the real ones, and the first node was not called again.
            assert CALLS[0] == {"login": PASSWORD}
            assert CALLS[1]["header"] == f"Bearer {KEY}"
            assert len(CALLS) == 2
            CALLS.clear()
    assert left_behind(tmp_path, PASSWORD, KEY) == []


async def leaks(app: spindle.Spindle, run: str, seen: list[Any]) -> list[str]:
    text = await told(app, run) + repr([event.to_dict() for event in seen])
    forms = (PASSWORD, json.dumps(PASSWORD)[1:-1], KEY, base64.b64encode(PASSWORD.encode()).decode()[:-4])
    return [form for form in forms if form in text]


async def test_a_secret_that_is_changed_while_a_run_waits_repeats_nothing(
    tmp_path: Path, opened: OpenFlows
) -> None:
    text = FLOW.replace("{user: me}", '{user: "${secrets.API_KEY}"}')
    async with opened(tools=TOOLS) as app:
        await app.auth.secrets.set("API_KEY", KEY)
        paused = await app.flows.run(flow(tmp_path, text), {"password": PASSWORD})
        assert isinstance(paused, Paused)
        await app.auth.secrets.set("API_KEY", "another-value")
        await app.resume(paused.pauses[0].token, "yes")
    assert [next(iter(call)) for call in CALLS] == ["login", "post"]
    assert CALLS[1]["header"] == "Bearer another-value"


async def test_a_missing_secret_stops_the_flow_before_anything_runs(
    tmp_path: Path, opened: OpenFlows
) -> None:
    async with opened(tools=TOOLS) as app:
        name = flow(tmp_path)
        with pytest.raises(NotFoundError, match="no secret 'API_KEY'") as missing:
            await app.run_flow(name, password=PASSWORD)
        assert "spindle secret set API_KEY" in (missing.value.hint or "")
        assert CALLS == []
        optional = FLOW.replace("${secrets.API_KEY}", "${secrets.API_KEY ?? 'none'}")
        assert isinstance(await app.run_flow(flow(tmp_path, optional, "g"), password=PASSWORD), Paused)


async def test_only_its_readers_runs_read_a_secret(tmp_path: Path, opened: OpenFlows) -> None:
    text = "version: 1\nnodes:\n- {id: post, tool: post, params: {text: 'x', header: '${secrets.S}'}}\n"
    ann, bob = Principal("ann", frozenset({"ops"})), Principal("bob")
    async with opened(tools=TOOLS) as app:
        name = flow(tmp_path, text)
        await app.auth.secrets.set("S", KEY)
        with pytest.raises(PermissionDeniedError, match="'ann' may not use the secret S"):
            await app.run_flow(name, {}, CallOptions(ann))
        await app.auth.secrets.set("S", KEY, ["group:ops"])
        assert isinstance(await app.run_flow(name, {}, CallOptions(ann)), Finished)
        with pytest.raises(PermissionDeniedError):
            await app.run_flow(name, {}, CallOptions(bob))
        await app.auth.secrets.set("S", KEY, ["*"])
        assert isinstance(await app.run_flow(name, {}, CallOptions(bob)), Finished)
        assert [info.to_dict()["readers"] for info in await app.auth.secrets.list()] == [["*"]]


async def test_secrets_come_from_the_environment_and_from_files(tmp_path: Path, opened: OpenFlows) -> None:
    (tmp_path / "key.txt").write_text("from-a-file\n")
    with (tmp_path / "spindle.toml").open("a") as file:
        file.write('\n[secrets]\nA = { env = "SECRET_OF_A" }\nB = { file = "key.txt" }\n')
    text = (
        "version: 1\nnodes:\n- {id: post, tool: post, params: {text: '${secrets.A}', header: '${secrets.B}'}}"
    )
    async with opened(tools=TOOLS, environ={"SECRET_OF_A": "from-a-variable"}) as app:
        done = await app.run_flow(flow(tmp_path, text))
        assert isinstance(done, Finished)
        assert done.result.structured == {"posted": "•••", "with": "•••"}
        assert CALLS == [{"post": "from-a-variable", "header": "from-a-file"}]
        places = {info.name: info.place for info in await app.auth.secrets.list()}
        assert places == {"A": "the variable SECRET_OF_A", "B": f"the file {tmp_path / 'key.txt'}"}


async def test_a_cached_result_holds_no_secret(tmp_path: Path, opened: OpenFlows) -> None:
    in_clear(tmp_path)
    text = """
version: 1
cache: true
inputs: {word: {type: string, writeOnly: true}}
nodes:
- {id: shout, tool: shout, params: {text: "${word}"}}
"""
    async with opened(tools=TOOLS) as app:
        for _ in range(2):
            await app.run_flow(flow(tmp_path, text), word="s3cretword")
    assert left_behind(tmp_path, "s3cretword") == []


async def test_a_run_is_not_repeated_from_a_node_with_a_mask_for_a_secret(
    tmp_path: Path, opened: OpenFlows
) -> None:
    text = FLOW.replace(
        '- {id: sure, ask: {message: "post ${password} with ${secrets.API_KEY}?"}}\n', ""
    ).replace("edges: [{from: login, to: sure}, {from: sure, to: post}]", "edges: [{from: login, to: post}]")
    async with opened(tools=TOOLS) as app:
        await app.auth.secrets.set("API_KEY", KEY)
        name = flow(tmp_path, text)
        done = await app.run_flow(name, password=PASSWORD)
        assert isinstance(done, Finished)
        with pytest.raises(FlowError, match="node 'login' gave a secret, which the history does not keep"):
            await app.flows.run(name, {"password": PASSWORD}, start="post", reuse=done.run_id)
    assert len(CALLS) == 2


async def test_a_flow_as_a_tool_keeps_its_secrets_too(tmp_path: Path, opened: OpenFlows) -> None:
    in_clear(tmp_path)
    inner = """
version: 1
inputs: {pin: {type: integer, writeOnly: true}}
nodes:
- {id: post, tool: post, params: {text: "pin ${pin}", header: "${secrets.S}"}}
"""
    outer = """
version: 1
inputs: {code: {type: integer, format: password}}
nodes:
- {id: inner, tool: inner, params: {pin: "${code}"}}
"""
    flow(tmp_path, inner, "inner")
    async with opened(tools=TOOLS) as app:
        await app.auth.secrets.set("S", KEY)
        done = await app.run_flow(flow(tmp_path, outer, "outer"), code=91827364)
        assert isinstance(done, Finished)
        text = await told(app, done.run_id)
        assert "91827364" not in text
        assert KEY not in text
    assert left_behind(tmp_path, "91827364", KEY) == []


async def test_an_approval_shows_no_secret_and_sends_it_all_the_same(
    tmp_path: Path, opened: OpenFlows
) -> None:
    def ask_always(_tool: Any, _destructive: bool) -> bool:
        return True

    async with opened(tools=TOOLS) as app:
        paused = await app.run("login", {"user": "me", "password": PASSWORD}, CallOptions(approve=ask_always))
        assert isinstance(paused, Paused)
        arguments = paused.pauses[0].details["arguments"]
        assert arguments == {"user": "me", "password": "•••"}
        await app.resume(
            paused.pauses[0].token, {"approved": True, "arguments": {**arguments, "user": "you"}}
        )
    assert CALLS == [{"login": PASSWORD}]


async def test_check_knows_secrets_and_finds_those_in_clear(tmp_path: Path, opened: OpenFlows) -> None:
    text = """
version: 1
inputs:
  secrets: {type: string}
  pin: {type: string, format: password, default: "1234"}
nodes:
- {id: login, tool: login, params: {user: "${secrets.A}", password: in-clear}}
- {id: post, tool: post, params: {text: "${secrets}"}}
edges: [{from: login, to: post}]
"""
    async with opened(tools=TOOLS) as app:
        loaded = app.flows.library.load(tmp_path / "flows" / f"{flow(tmp_path, text)}.yaml")
        found = [str(problem) for problem in await check(loaded.definition, app.show, loaded.positions)]
    assert [line.split(": ", 1)[1] for line in found] == [
        "the input 'secrets' has the name of the workspace's secrets, ${secrets.NAME}",
        "the input 'pin' is a secret, and its default stands here for all to read",
        "login: `password` is a secret, which stands here for all to read",
        "post: `text`: ${secrets}: a secret is read by its name, as ${secrets.NAME}",
    ]


CONDITIONS = """
inputs:
  given: {type: string, format: password}
nodes:
- {id: begin, tool: post, params: {text: x, header: "${given}"}, fail_when: "with == secrets.BAD"}
- {id: rounds, loop: {carry: {n: 0}, while: "secrets.MORE == 'again-and-again' and n < 2", limit: 5},
   flow: {nodes: [{id: one, transform: {x: 1}}], outputs: {n: "${n + 1}"}}}
- {id: right, transform: {line: right}}
- {id: wrong, transform: {line: wrong}}
- {id: refused, transform: {line: refused}}
edges:
- {from: begin, to: rounds}
- {from: begin, to: refused, action: error}
- {from: rounds, to: right, when: given == secrets.API_KEY and n == 2}
- {from: rounds, to: wrong, when: else}
"""


@pytest.mark.parametrize(
    ("given", "line"), [(KEY, "right"), ("another-one", "wrong"), ("bad-value", "refused")]
)
async def test_secrets_are_read_in_conditions_and_left_nowhere(
    given: str, line: str, tmp_path: Path, opened: OpenFlows
) -> None:
    in_clear(tmp_path)
    name = flow(tmp_path, CONDITIONS)
    async with opened(tools=TOOLS) as app:
        for secret, value in {"API_KEY": KEY, "BAD": "bad-value", "MORE": "again-and-again"}.items():
            await app.auth.secrets.set(secret, value)
        assert await check((await app.flows.find(name, Principal("local"))).definition, app.show) == []
        done = await app.flows.run(name, {"given": given})
        assert isinstance(done, Finished)
        assert done.result.structured == {"line": line}
        assert await leaks(app, done.run_id, []) == []
    assert left_behind(tmp_path, KEY, "bad-value") == []


async def test_a_secret_of_a_condition_that_is_not_there_is_said_before_anything_runs(
    tmp_path: Path, opened: OpenFlows
) -> None:
    name = flow(tmp_path, CONDITIONS)
    async with opened(tools=TOOLS) as app:
        with pytest.raises(NotFoundError, match=r"BAD|API_KEY|MORE"):
            await app.flows.run(name, {"given": KEY})
    assert CALLS == []


MANY = """
inputs:
  passwords: {type: array, items: {type: string}}
nodes:
- {id: each, tool: login, params: {user: me, password: "${item}"}, batch: {over: "${passwords}"}}
- {id: after, tool: post, params: {text: "${to_json(each)}"}}
edges: [{from: each, to: after}]
"""


async def test_many_secrets_are_all_masked_and_too_many_are_refused_before_any_is_used(
    tmp_path: Path, opened: OpenFlows
) -> None:
    in_clear(tmp_path)
    name = flow(tmp_path, MANY)
    passwords = [f"pass-{number:04}-word" for number in range(1001)]
    async with opened(tools=TOOLS) as app:
        done = await app.flows.run(name, {"passwords": passwords[:40]})
        assert isinstance(done, Finished)
        _, _, events = await app.flows.trace(done.run_id)
        assert not [one for one in passwords if one in json.dumps([event.to_dict() for event in events])]
        CALLS.clear()
        with pytest.raises(FlowError, match="more than 1,000 secrets"):
            await app.flows.run(name, {"passwords": passwords})
    assert CALLS == []


SECRETS = st.lists(st.text("abcABC019+/=-_ ", min_size=4, max_size=12), min_size=1, max_size=12)


@given(
    SECRETS, st.lists(st.sampled_from(["plain", "base64", "hex", "json", "url"]), min_size=12, max_size=12)
)
def test_many_secrets_are_replaced_as_few_are(secrets: list[str], ways: list[str]) -> None:
    encode = {
        "plain": lambda text: text,
        "base64": lambda text: base64.b64encode(f"u:{text}".encode()).decode(),
        "hex": lambda text: text.encode().hex(),
        "json": lambda text: json.dumps(text),
        "url": lambda text: quote_plus(text),
    }
    text = " ".join(encode[way](secret) for secret, way in zip(secrets, ways, strict=False))
    known = frozenset(secrets)
    pattern = pattern_of(known)
    assert pattern is not None
    few, many = pattern.sub("•", text), _replace_many(text, known, "•")
    for secret in secrets:
        assert secret not in many or secret in few
    assert _replace_many("nothing of it here!", known, "•") == pattern.sub("•", "nothing of it here!")
