"""The process behind `spindle up`: its start and end, what it refuses, and what becomes of commands when it
dies."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.running import PATIENCE
from spindle.up import client, messages, places, starting
from up.conftest import MakeShell, Shell


@pytest.fixture
def places_of(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The shell, whose sockets this process finds too."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", shell.environ["XDG_RUNTIME_DIR"])
    return shell


@contextlib.contextmanager
def link_to(shell: Shell) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(PATIENCE)
        link.connect(places.place_of(str(shell.root), "sock"))
        yield link


def received(link: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := link.recv(65536):
            data += chunk
    return data


def test_it_is_started_in_the_background_and_ended(shell: Shell) -> None:
    assert shell("up", "--status").code == 1
    started = shell("up")
    assert started.out.startswith("up: pid "), started
    status = shell("up", "--status", "--json").json
    assert status["up"]
    assert (status["workspace"], status["served"], status["running"]) == (str(shell.root), 0, 0)
    assert shell("call", "s.count").out.startswith("1 ")
    assert shell("call", "s.count").out.startswith("2 ")
    assert shell("up").out.startswith("already up")
    assert "2 commands done, 0 running" in shell("up", "--status").out
    assert shell("down").out == f"down: pid {status['pid']} has ended\n"
    assert shell("up", "--status").code == 1
    assert shell("down").out == "it was not up\n"
    assert "call: exit code 0" in shell.log
    assert "ended: asked to, after 2 commands" in shell.log
    assert shell("call", "s.count").out.startswith("1 ")


def test_nobody_else_can_reach_its_files(places_of: Shell) -> None:
    assert places_of("up").code == 0
    folder = Path(places.runtime_folder())
    rights = {path.name.rpartition(".")[2]: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert rights == {"sock": 0o600, "lock": 0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (places_of.root / ".spindle" / "up.log").stat().st_mode & 0o777 == 0o600


def test_of_two_that_start_at_once_one_wins(shell: Shell) -> None:
    with shell.popen("up", "--json") as one, shell.popen("up", "--json") as other:
        said = [json.loads(process.communicate(timeout=300)[0]) for process in (one, other)]
    assert sorted(item["started"] for item in said) == [False, True]
    assert shell("call", "s.count").out.startswith("1 ")
    assert shell("call", "s.count").out.startswith("2 ")


def test_a_second_one_in_the_foreground_ends_by_itself(shell: Shell) -> None:
    with shell.up():
        done = shell("up", "--foreground")
    assert (done.code, done.err) == (0, "note: it is up already\n")


def test_the_socket_of_one_that_was_killed_is_no_obstacle(shell: Shell) -> None:
    with shell.up() as up:
        assert shell("call", "s.count").out.startswith("1 ")
        up.kill()
        done = shell("call", "s.count")
        assert (done.code, done.out[:2], done.err) == (0, "1 ", "")
        assert shell("up", "--status").code == 1
        assert shell("down").out == "it was not up\n"
    with shell.up():
        assert shell("call", "s.count").out.startswith("1 ")
        assert shell("call", "s.count").out.startswith("2 ")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_command_whose_server_is_killed_is_not_repeated(shell: Shell, as_json: bool) -> None:
    words = ["call", *(["--json"] if as_json else []), "s.hold"]
    with shell.up() as up, shell.popen(*words) as held:
        assert shell.next_told() == "held"
        up.kill()
        out, err = held.communicate(timeout=300)
    assert held.returncode == 7
    assert err.startswith(
        "spindle: `spindle up` ended before the command did, so its outcome is unknown\n  hint: "
    )
    assert (json.loads(out)["error"]["category"] if as_json else out) == ("in_doubt" if as_json else "")
    # Nobody has called it a second time, or it would wait at the pipe.
    assert shell("history", "--json", "--limit", "5").code == 0


def test_ending_it_cancels_what_it_is_doing(shell: Shell) -> None:
    with shell.up(), shell.popen("call", "s.hold") as held:
        assert shell.next_told() == "held"
        with shell.popen("down") as down:
            assert shell.next_told() == "cancelled"
            assert down.communicate(timeout=300)[0].startswith("down: ")
        assert held.communicate(timeout=300) == ("", "spindle: cancelled\n")
    assert held.returncode == 128 + signal.SIGTERM


def test_it_ends_when_nobody_wants_anything(shell: Shell) -> None:
    shell.write_settings("[up]\nidle_timeout = 0.2\n")
    with shell.up() as up:
        assert up.lines_until("ended: no command for 0.2 s")
        assert up.process.wait(PATIENCE) == 0
    assert shell("call", "s.count").out.startswith("1 ")


def test_a_running_command_keeps_it_up(shell: Shell) -> None:
    with shell.up():
        assert 0 < shell("up", "--status", "--json").json["ends_in"] <= 1800
        with shell.popen("call", "s.hold") as held:
            assert shell.next_told() == "held"
            assert shell("call", "s.echo", "text=hi").out == "hi\n"
            status = shell("up", "--status", "--json").json
            assert (status["running"], status["ends_in"]) == (1, None)
            held.send_signal(signal.SIGINT)
            assert shell.next_told() == "cancelled"
        assert 0 < shell("up", "--status", "--json").json["ends_in"] <= 1800


def test_changed_settings_are_in_force_at_the_next_command(shell: Shell) -> None:
    with shell.up():
        assert shell("call", "s.count").out.startswith("1 ")
        shell.write_settings("[sources.t\n")
        wrong = shell("tools")
        assert (wrong.code, wrong.out) == (2, "")
        assert wrong == shell("tools", env=shell.cold)
        shell.write_settings("[sources.s2]\nenabled = false\ncommand = ['x']\n")
        assert {item["name"] for item in shell("sources", "--json").json} == {"s", "s2", "tools"}
        # A source whose settings are the same keeps its session.
        assert shell("call", "s.count").out.startswith("2 ")


def test_changed_code_is_in_force_at_the_next_command(shell: Shell) -> None:
    with shell.up():
        assert shell("call", "where").code == 0
        (shell.root / "tools" / "own.py").write_text(
            'from spindle import tool\n\n@tool\ndef where() -> str:\n    """Here."""\n    return "there"\n'
        )
        assert shell("call", "where").out == "there\n"


def test_another_store_needs_another_process(shell: Shell) -> None:
    with shell.up() as up:
        assert shell("call", "s.count").out.startswith("1 ")
        text = (shell.root / "spindle.toml").read_text()
        (shell.root / "spindle.toml").write_text(f'store = "other.db"\n{text}')
        assert shell("call", "s.count").out.startswith("1 ")
        assert up.lines_until("ended: the settings changed too much")
        assert up.process.wait(PATIENCE) == 0


def test_a_state_that_is_gone_needs_another_process(shell: Shell) -> None:
    with shell.up() as up:
        assert shell("call", "s.count").out.startswith("1 ")
        shutil.rmtree(shell.root / ".spindle")
        assert shell("call", "s.count").out.startswith("1 ")
        assert up.lines_until("ended: the state was replaced")
        assert up.process.wait(PATIENCE) == 0
    assert len(shell("history", "--json").json) == 1


def test_two_workspaces_have_one_each(make_shell: MakeShell) -> None:
    one, other = make_shell("one"), make_shell("other")
    with one.up(), other.up():
        assert one("call", "s.count").out.startswith("1 ")
        assert one("call", "s.count").out.startswith("2 ")
        assert other("call", "s.count").out.startswith("1 ")
        assert one("-w", str(other.root), "call", "s.count").out.startswith("2 ")
        # The client guesses which workspace is meant, and the server knows.
        done = one("call", "--timeout", "9", "-w", str(other.root), "s.count")
        assert done.out.startswith("3 ")


# --- trust


def test_an_untrusted_workspace_is_not_served(make_shell: MakeShell) -> None:
    shell = make_shell()
    del shell.environ["SPINDLE_TRUST"]
    refused = shell("up")
    assert (refused.code, "is not trusted" in refused.err) == (75, True), refused
    assert "--trust is for one command" in shell("up", "--trust").err
    assert shell("trust", "--yes").code == 0
    with shell.up() as up:
        assert shell("call", "s.count").out.startswith("1 ")
        # Trusted with another word, it is not the server's.
        assert shell("call", "s.count", env=shell.with_(SPINDLE_TRUST="1")).out.startswith("1 ")
        assert shell("trust", "--remove").code == 0
        refused = shell("call", "s.count")
        assert (refused.code, "is not trusted" in refused.err) == (75, True), refused
        assert up.lines_until("ended: the workspace is no longer trusted")
        assert up.process.wait(PATIENCE) == 0


# --- strangers, and other versions


def test_a_folder_that_others_can_enter_is_not_used(shell: Shell) -> None:
    folder = Path(shell.environ["XDG_RUNTIME_DIR"]) / "spindle"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    done = shell("up", "--foreground")
    assert (done.code, "is open to other users" in done.err) == (2, True), done
    assert shell("call", "s.count").out.startswith("1 ")


def test_a_server_of_another_user_is_not_used(places_of: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(places_of.root)
    with places_of.up():
        link = client.connected(root)
        assert link is not None
        link.close()
        monkeypatch.setattr(messages, "peer_of", lambda _link: (1, os.getuid() + 1))
        assert client.connected(root) is None
        monkeypatch.setattr(messages, "peer_of", lambda _link: (None, None))
        assert client.connected(root) is None


def test_the_folder_of_another_user_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert places.problem_with(str(tmp_path)) is None
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert places.problem_with(str(tmp_path)) == f"{tmp_path} belongs to another user"
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert places.problem_with(str(link)) == f"{link} is not a folder"


@pytest.mark.parametrize(
    "sent",
    [
        b"\n", b"\xff\xfe\x00\n", b"[]\n", b"null\n", b"{}\n", b'{"protocol": 1}\n', b"[" * 100_000 + b"\n",
        b'{"protocol": 1, "spindle": "x", "argv": "call", "environ": []}\n',
        b'{"protocol": 1, "ask": ["status"]}\n', b"GET / HTTP/1.1\r\n\r\n", b"",
        b'{"protocol": 1, "argv": ["call"], "root": "/", "folder": "/", "umask": 18, "environ": {}, '
        b'"encodings": ["utf-8", "utf-8", "utf-8"]}\n',
        b'{"protocol": 1, "argv": ["call"], "root": "/", "folder": "/", "umask": 1e99, "environ": {}, '
        b'"encodings": ["nothing", "zip", "rot13"]}\n',
    ],
)  # fmt: skip
def test_hostile_bytes_cost_only_their_own_connection(places_of: Shell, sent: bytes) -> None:
    with places_of.up():
        with link_to(places_of) as link:
            link.sendall(sent)
            link.shutdown(socket.SHUT_WR)
            assert b"ready" not in received(link)
        assert places_of("call", "s.count").out.startswith("1 ")


def test_a_message_without_an_end_is_refused(places_of: Shell) -> None:
    with places_of.up():
        with link_to(places_of) as link, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(messages.LONGEST_MESSAGE // 1_000_000 + 10):
                link.sendall(b"x" * 1_000_000)
            assert received(link) == b""
        assert places_of("call", "s.count").out.startswith("1 ")


def test_descriptors_that_are_sent_for_nothing_are_closed(places_of: Shell) -> None:
    with places_of.up() as up:
        assert places_of("call", "s.count").code == 0
        before = len(os.listdir(f"/proc/{up.pid}/fd"))
        for count in (1, 3, 8):
            with link_to(places_of) as link:
                socket.send_fds(link, [b"{}\n"], [0] * count)
                received(link)
        assert places_of("call", "s.count").out.startswith("2 ")
        assert len(os.listdir(f"/proc/{up.pid}/fd")) <= before


def asked(shell: Shell, **changed: Any) -> dict[str, Any]:
    found = client.CommandLine(["call", "s.count"], "call", str(shell.root), str(shell.root))
    return client.request(found) | {"environ": shell.environ} | changed


def answer_to(shell: Shell, **changed: Any) -> dict[str, Any]:
    with link_to(shell) as link:
        link.sendall(messages.encoded(asked(shell, **changed)))
        return messages.decoded(link.makefile("rb").readline())


def test_another_version_does_it_alone_and_says_so(places_of: Shell) -> None:
    with places_of.up():
        assert answer_to(places_of) == {"ready": True}
        for changed, words in (
            ({"spindle": "0.0.1"}, "which runs Spindle "),
            ({"python": ["/usr/bin/python", "3.99"]}, "which runs another Python"),
            ({"protocol": 99}, "which runs another version"),
        ):
            said = answer_to(places_of, **changed)
            assert said["alone"]
            assert words in said["note"]
        assert answer_to(places_of, root="/") == {"alone": True}
        assert places_of("call", "s.count").out.startswith("1 ")  # none of them has begun


def test_a_client_that_does_not_say_go_has_done_nothing(places_of: Shell) -> None:
    with places_of.up():
        for _ in range(3):
            assert answer_to(places_of) == {"ready": True}
        assert places_of("call", "s.count").out.startswith("1 ")


@pytest.mark.parametrize("said", [b"", b"\n", b"what?\n", b"[1]\n", b'{"alone": true, "note": 7}\n', b"{}\n"])
def test_whatever_answers_in_its_place_the_command_is_done(places_of: Shell, said: bytes) -> None:
    root = str(places_of.root)
    with starting.listening(root) as listener, places_of.popen("call", "s.count") as process:
        assert listener is not None
        listener.setblocking(True)
        listener.settimeout(PATIENCE)
        link, _ = listener.accept()
        with link:
            assert link.recv(65536)
            link.sendall(said)
            link.shutdown(socket.SHUT_WR)
            out, err = process.communicate(timeout=300)
    assert (process.returncode, out[:2], err) == (0, "1 ", "")


def test_one_that_does_not_answer_is_not_waited_for(places_of: Shell) -> None:
    root = str(places_of.root)
    with starting.listening(root) as listener:
        assert listener is not None
        done = places_of("call", "s.count")
    assert (done.code, done.out[:2]) == (0, "1 ")
    assert done.err == "note: `spindle up` does not answer, so this is done without it\n"


# --- started by the first call


def test_the_first_call_starts_it_where_the_settings_say_so(shell: Shell) -> None:
    shell.write_settings("[up]\nauto = true\n")
    assert shell("tools").code == 0
    assert shell("up", "--status").code == 1
    done = shell("call", "s.count")
    assert (done.code, done.out[:2], done.err) == (0, "1 ", "")
    assert shell("call", "s.count").out.startswith("2 ")
    assert shell("up", "--status").code == 0


def test_two_first_calls_share_the_one_that_starts(shell: Shell) -> None:
    shell.write_settings("[up]\nauto = true\n")
    with shell.popen("call", "s.count") as one, shell.popen("call", "s.count") as other:
        counted = [process.communicate(timeout=300)[0].split() for process in (one, other)]
    assert sorted(number for number, _ in counted) == ["1", "2"]


# --- for long


def test_nothing_grows_over_many_commands(shell: Shell) -> None:
    with shell.up() as up:

        def burst(count: int) -> None:
            for _ in range(count):
                assert shell("call", "s.echo", "text=hi").out == "hi\n"

        def descriptors() -> int:
            return len(os.listdir(f"/proc/{up.pid}/fd"))

        def memory() -> int:
            status = Path(f"/proc/{up.pid}/status").read_text()
            return int(status.partition("VmRSS:")[2].split()[0])

        burst(20)
        before = descriptors(), memory(), len(os.listdir(f"/proc/{up.pid}/task"))
        burst(60)
        assert descriptors() <= before[0] + 2
        assert memory() <= before[1] * 1.15
        assert len(os.listdir(f"/proc/{up.pid}/task")) <= before[2] + 4
        assert json.loads(shell("up", "--status", "--json").out)["served"] == 80


def test_commands_at_the_same_time_are_kept_apart(shell: Shell) -> None:
    with shell.up():
        running = [shell.popen("call", "s.echo", f"text=word{number}") for number in range(12)]
        said = [process.communicate(timeout=300) for process in running]
        assert said == [(f"word{number}\n", "") for number in range(12)]


def test_streams_that_cannot_be_used_are_refused(places_of: Shell) -> None:
    with places_of.up() as up:
        assert places_of("call", "s.count").code == 0
        before = len(os.listdir(f"/proc/{up.pid}/fd"))
        folder = os.open("/", os.O_RDONLY)
        try:
            for descriptors in ([], [folder], [folder] * 3, [folder] * 7):
                with link_to(places_of) as link:
                    link.sendall(messages.encoded(asked(places_of)))
                    assert b"ready" in link.recv(65536)
                    socket.send_fds(link, [b'{"go": true}\n'], descriptors)
                    assert received(link) == b""
        finally:
            os.close(folder)
        assert places_of("call", "s.count").out.startswith("2 ")
        assert len(os.listdir(f"/proc/{up.pid}/fd")) <= before


def test_a_start_that_fails_says_why(shell: Shell) -> None:
    (shell.root / "broken.db").write_text("this is no database, and long enough to be looked at" * 100)
    text = (shell.root / "spindle.toml").read_text()
    (shell.root / "spindle.toml").write_text(f'store = "broken.db"\n{text}')
    started, called = shell("up"), shell("call", "s.count")
    assert (started.code, started.err) == (called.code, called.err)
    assert started.code == 11
    assert shell("up", "--status").code == 1
