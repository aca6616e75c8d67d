"""Callers that would approve what a policy holds back from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as t
import pytest
from mcp import Client

import spindle
from servers.serving import ERAS, served, text_of
from spindle import CallOptions, Finished, Paused
from spindle.domain.identity import Principal
from spindle.errors import ConfigurationError, PermissionDeniedError

TOOLS = "from spindle import tool\n\n\n@tool\ndef wipe(disk: str) -> str:\n    return f'wiped {disk}'\n"
ANN, BEN = Principal("ann"), Principal("ben")
BOSS = Principal("eve", frozenset({"ops"}))
EACH_ERA = pytest.mark.parametrize("era", list(ERAS))


def workspace(root: Path, approvers: str = "") -> Path:
    (root / "tools").mkdir(exist_ok=True)
    (root / "tools" / "wipe.py").write_text(TOOLS)
    (root / "spindle.toml").write_text(f'[sources.tools]\napprove = ["wipe"]\n{approvers}\n')
    return root


class Yes:
    """A client that says yes to everything it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, _context: Any, params: Any) -> t.ElicitResult:
        self.asked.append(params.message)
        return t.ElicitResult(action="accept", content={"approved": True})


@EACH_ERA
async def test_a_client_that_says_yes_to_everything_does_not_approve_its_own_call(
    tmp_path: Path, era: str
) -> None:
    yes = Yes()
    async with (
        spindle.open(workspace(tmp_path)) as app,
        served(app) as url,
        Client(url, mode=ERAS[era], elicitation_callback=yes) as client,
    ):
        await app.sync()
        answer = await client.call_tool("wipe", {"disk": "a"})
        assert answer.is_error
        assert "Somebody else has to approve it first" in text_of(answer)
        assert yes.asked == []
        [pause] = await app.pauses()
        # Nor by coming back with the token, as a client of the newer protocol would.
        state = {"requestState": f"spindle-pause:{pause.token}"}
        said = {"inputResponses": {"answer": {"action": "accept", "content": {"approved": True}}}}
        if era == "modern":
            again = await client.session.send_request(
                t.CallToolRequest(
                    params=t.CallToolRequestParams.model_validate(
                        {"name": "wipe", "arguments": {"disk": "a"}, **state, **said}
                    )
                ),
                t.CallToolResult,
            )
            assert again.is_error
        assert [item.token for item in await app.pauses()] == [pause.token]
        # The owner, out of band.
        done = await app.resume(pause.token, True)
        assert isinstance(done, Finished)
        assert done.result.text == "wiped a"
        assert await app.runner.decisions(pause.run_id) == [
            {"tool": "wipe", "approved": True, "by": "the owner"}
        ]


@EACH_ERA
async def test_a_caller_may_approve_where_the_settings_say_so(tmp_path: Path, era: str) -> None:
    yes = Yes()
    async with (
        spindle.open(workspace(tmp_path, 'approvers = "caller"')) as app,
        served(app) as url,
        Client(url, mode=ERAS[era], elicitation_callback=yes) as client,
    ):
        await app.sync()
        assert text_of(await client.call_tool("wipe", {"disk": "a"})) == "wiped a"
    assert len(yes.asked) == 1


async def test_only_those_that_the_settings_name_approve_and_nobody_their_own(tmp_path: Path) -> None:
    root = workspace(tmp_path, 'approvers = ["ben", "group:ops"]')
    async with spindle.open(root) as app:
        for caller, others in ((ANN, [BEN, BOSS]), (BEN, [BOSS]), (BOSS, [BEN])):
            for approver in others:
                paused = await app.run("wipe", {"disk": "a"}, CallOptions(principal=caller))
                assert isinstance(paused, Paused)
                token = paused.pauses[0].token
                for stranger in (caller, Principal("ops"), Principal("group:ops"), Principal("caller")):
                    with pytest.raises(PermissionDeniedError, match="may not approve this call"):
                        await app.resume(token, True, principal=stranger)
                    assert token not in [item.token for item in await app.pauses(approver=stranger)]
                assert token in [item.token for item in await app.pauses(approver=approver)]
                done = await app.resume(token, True, principal=approver)
                assert isinstance(done, Finished)
                [decision] = await app.runner.decisions(paused.run_id)
                assert decision["by"] == approver.id


async def test_who_asked_may_still_take_it_back(tmp_path: Path) -> None:
    async with spindle.open(workspace(tmp_path)) as app:
        paused = await app.run("wipe", {"disk": "a"}, CallOptions(principal=ANN))
        assert isinstance(paused, Paused)
        token = paused.pauses[0].token
        with pytest.raises(PermissionDeniedError, match="may not approve"):
            await app.resume(token, False, principal=BEN)
        with pytest.raises(PermissionDeniedError, match="was not approved: changed my mind"):
            await app.resume(token, refused="changed my mind", principal=ANN)


@pytest.mark.parametrize("wrong", ['approvers = ""', 'approvers = ["group:"]', "approvers = 5"])
async def test_approvers_that_name_nobody_are_a_mistake(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="approvers"):
        async with spindle.open(workspace(tmp_path, wrong)) as app:
            await app.sync()
