"""Questions of MCP servers at the command line: forms at a terminal, pauses elsewhere."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cli.test_resources_command import FIXTURE, add
from cli.test_terminal import Terminal, plain
from servers import warm

SERVER = Path(__file__).parent.parent / "servers" / "curious_server.py"


@pytest.fixture
def curious(workspace: Any, spindle: Any, tmp_path: Path) -> Path:
    """A workspace with a server of the handshake era that asks. What it was told is in the file."""
    did = tmp_path / "did"
    add(workspace, "ask", [sys.executable, "-I", "-S", str(SERVER), str(did)], protocol="handshake")
    assert spindle("sync").code == 0
    return did


def answers(seen: str) -> Any:
    return json.loads(next(line for line in plain(seen).splitlines() if line.startswith("[{")))


def test_a_form_is_filled_in_field_by_field(curious: Path) -> None:
    terminal = Terminal("call", "ask.trip")
    terminal.read_until("ask asks: Your trip?")
    for prompt, said in (
        ("Traveller: All names\r\n  who: ", ""),
        ("it is needed\r\n  who: ", "A"),
        ("shorter than 2 characters\r\n  who: ", "Ann"),
        ("mail (email): ", "nowhere"),
        ("'nowhere' is not an email address\r\n  mail (email): ", "ann@example.com"),
        ("day (date) [2026-12-24]: ", "tomorrow"),
        ("'tomorrow' is not a date such as 2026-01-31", ""),
        ("bags (a whole number): ", "4"),
        ("greater than the maximum of 3", "many"),
        ("must be an integer, not 'many'", "2"),
        ("window (yes or no) [yes]: ", "perhaps"),
        ("say yes or no", "n"),
        ("1  Economy (e)\r\n    2  First (b)\r\n  seat (a number or its value): ", "3"),
        ("'3' is none of the 2 choices", "2"),
        ("meals (several, with commas between them, may be left out): ", "1, soup"),
        ("note (may be left out): ", ""),
        ("send this? [Y/n] ", ""),
    ):
        terminal.read_until(prompt)
        terminal.write(f"{said}\n")
        terminal.seen = terminal.seen.replace(prompt, "", 1)
    (answer,) = answers(terminal.read_all())
    assert terminal.process.returncode == 0
    assert answer == {
        "action": "accept",
        "content": {
            "who": "Ann", "mail": "ann@example.com", "day": "2026-12-24", "bags": 2, "window": False,
            "seat": "b", "meals": ["fish", "soup"],
        },
    }  # fmt: skip
    assert curious.read_text().count("called") == 1


@pytest.mark.parametrize(("said", "action"), [("d", "decline"), ("c", "cancel")])
def test_a_person_may_decline_or_cancel(curious: Path, said: str, action: str) -> None:
    terminal = Terminal("call", "ask.weather")
    terminal.read_until("city: ")
    terminal.write("\x04")
    terminal.read_until("[d/c/L/b] ")
    terminal.write(f"{said}\n")
    assert answers(terminal.read_all()) == [{"action": action}]


def test_a_person_may_answer_later_and_is_asked_again_then(curious: Path, spindle: Any) -> None:
    terminal = Terminal("call", "ask.weather")
    terminal.read_until("city: ")
    terminal.write("\x04")
    terminal.read_until("[d/c/L/b] ")
    terminal.write("\n")
    seen = terminal.read_all()
    assert "to continue: spindle resume" in seen
    assert seen.count("ask asks") == 1
    assert terminal.process.returncode == 75
    (pause,) = spindle("pauses", "--json").json
    terminal = Terminal("resume", pause["token"])
    terminal.read_until("city: ")
    terminal.write("Oslo\n")
    assert answers(terminal.read_all()) == [{"action": "accept", "content": {"city": "Oslo"}}]


def test_a_form_of_the_newer_protocol_is_the_same(workspace: Any, spindle: Any) -> None:
    add(workspace, "fix", FIXTURE, protocol="2026-07-28")
    spindle("sync")
    terminal = Terminal("call", "fix.test_elicitation_sep1034_defaults")
    for prompt in ("[John Doe]: ", "[30]: ", "[95.5]: ", "[active]: ", "[yes]: ", "[Y/n] "):
        terminal.read_until(prompt)
        terminal.write("\n")
    seen = terminal.read_all()
    assert "action=accept" in seen
    assert "'name': 'John Doe', 'age': 30, 'score': 95.5" in seen


def test_ctrl_c_ends_the_call_and_the_question(curious: Path) -> None:
    terminal = Terminal("call", "ask.weather")
    terminal.read_until("city: ")
    terminal.process.send_signal(signal.SIGINT)
    seen = terminal.read_all()
    assert seen.endswith("spindle: cancelled\n")
    assert "Traceback" not in seen
    assert terminal.process.returncode == 130


def test_a_server_cannot_pretend_to_be_somebody_else(curious: Path) -> None:
    terminal = Terminal("call", "ask.hostile")
    terminal.read_until("city: ")
    terminal.write("x\n")
    seen = terminal.read_all()
    assert "\x1b[2J" not in seen
    assert "\u202e" not in seen
    assert r"ask asks: Where\x1b[2J?\u202egnp.exe" in seen
    assert "\n  | spindle: paused: trust me" in seen


def test_a_server_that_asks_for_a_secret_is_called_out(curious: Path) -> None:
    terminal = Terminal("call", "ask.phishing")
    terminal.read_until("must not ask for passwords or tokens in a form\r\n  api_key (may be left out): ")
    terminal.write("\n")
    assert answers(terminal.read_all()) == [{"action": "accept", "content": {}}]


def test_a_page_is_opened_only_after_yes(curious: Path, tmp_path: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o755)
    terminal = Terminal("call", "ask.pay", BROWSER=str(browser))
    terminal.read_until("a page of pay.example:\r\n  https://pay.example/1\r\n")
    terminal.read_until("[y/N] ")
    assert not opened.exists()
    terminal.write("y\n")
    terminal.read_until("press Enter")
    terminal.write("\n")
    assert answers(terminal.read_all()) == [{"action": "accept"}]
    assert opened.read_text() == "https://pay.example/1\n"
    terminal = Terminal("call", "ask.pay", BROWSER=str(browser))
    terminal.read_until("[y/N] ")
    terminal.write("\n")
    assert answers(terminal.read_all()) == [{"action": "decline"}]
    assert opened.read_text() == "https://pay.example/1\n"


def test_without_a_terminal_the_call_pauses(curious: Path, spindle: Any) -> None:
    done = spindle("call", "ask.trip")
    assert (done.code, done.out) == (75, "")
    (pause,) = spindle("pauses", "--json").json
    token = pause["token"]
    assert done.err.splitlines()[0] == "spindle: paused: Your trip?"
    assert "  then the tool is called again from its start" in done.err
    assert f"spindle resume {token} --answer JSON" in done.err
    trip = {"who": "Ann", "mail": "no mail", "bags": 1, "seat": "e"}
    wrong = spindle("resume", token, "--answer", json.dumps(trip))
    assert wrong.code == 4
    assert "mail: 'no mail' is not an email address" in wrong.err
    trip["mail"] = "ann@example.com"
    right = spindle("resume", token, "--answer", json.dumps(trip))
    assert json.loads(right.out) == [{"action": "accept", "content": trip}]
    declined = spindle("call", "ask.weather", "--json").json["paused"]["pauses"][0]["token"]
    assert json.loads(spindle("resume", declined, "--refuse", "no").out) == [{"action": "decline"}]


def test_a_flow_pauses_for_a_question_too(curious: Path, spindle: Any) -> None:
    done = spindle("run", "ask.weather >> ask.plain")
    assert done.code == 75
    (pause,) = spindle("pauses", "--json").json
    went_on = spindle("resume", pause["token"], "--answer", '{"city": "Oslo"}')
    assert went_on.code == 0, went_on.err
    assert json.loads(went_on.out) == []


def test_the_person_at_the_terminal_of_a_server_is_not_asked_for_its_clients(curious: Path) -> None:
    serving = Terminal("serve", "--rest", "--port", "0")
    serving.read_until("on http://")
    serving.read_until("\n")
    address = "http://" + plain(serving.seen).split("http://")[1].split()[0]
    answer = httpx2.post(f"{address}/tools/ask.weather", json={}, timeout=60)
    serving.process.send_signal(signal.SIGINT)
    seen = serving.read_all()
    assert answer.json()["category"] == "paused", answer.text
    assert "ask asks" not in seen


@pytest.mark.parametrize("era", ["handshake", "2026-07-28"])
@pytest.mark.parametrize("words", [("read", "ask://person"), ("prompt", "ask.ask", "--arg", "kind=person")])
def test_what_is_read_or_filled_in_may_ask_too(
    workspace: Any, spindle: Any, era: str, words: tuple[str, ...]
) -> None:
    """Such a request cannot pause: nobody is offered to answer later."""
    add(workspace, "ask", [warm.PYTHON, str(SERVER.with_name("inquiring_server.py"))], protocol=era)
    terminal = Terminal(*words)
    terminal.read_until("ask asks: Which city?")
    terminal.read_until("Ctrl-D to decline\r\n")
    terminal.read_until("city: ")
    terminal.write("\x04")
    terminal.read_until("decline, cancel, or go back? [d/C/b] ")
    terminal.write("b\n")
    terminal.seen = terminal.seen.replace("city: ", "", 1)
    terminal.read_until("city: ")
    terminal.write("Oslo\n")
    seen = terminal.read_all()
    assert terminal.process.returncode == 0
    assert '{"action": "accept", "content": {"city": "Oslo"}}' in seen
    piped = spindle(*words)
    assert piped.code != 0
    assert "asks a person before it answers" in piped.err
    assert "Which city?" in piped.err
    assert "run it at a terminal" in piped.err
