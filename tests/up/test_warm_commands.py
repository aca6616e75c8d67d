"""Commands that `spindle up` does: they look as they do without it, and sessions live on between them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from servers.shell import Done
from up.conftest import REAL, Shell

COMMANDS: list[tuple[list[str], str | None]] = [
    (["call", "s.echo", "text=hello"], None),
    (["call", "s.echo", "--text", "hello", "--json"], None),
    (["--json", "call", "s.echo", "text=hello"], None),
    (["call", "s.echo", "-"], '{"text": "piped"}'),
    (["call", "s.echo"], '{"text": "piped without a word"}'),
    (["call", "s.echo"], ""),
    (["call", "s.echo"], None),
    (["call", "s.echo", "txt=hello"], None),
    (["call", "s.fail"], None),
    (["call", "s.fail", "--json"], None),
    (["call", "s.nothing"], None),
    (["call", "s.nothing", "--json"], None),
    (["call"], None),
    (["call", "--bogus", "s.echo"], None),
    (["call", "--timeout", "never", "s.echo"], None),
    (["call", "--trace", "s.echo", "text=hello"], None),
    (["call", "where"], None),
    (["call", "broken"], None),
    (["call", "--debug", "s.nothing"], None),
    (["call", "s.wipe"], None),
    (["call", "--yes", "s.wipe"], None),
    (["run", "s.echo --text one >> s.echo --text two"], None),
    (["run", "--quiet", "s.echo", "--text", "one"], None),
    (["run", "--dry-run", "s.echo --text one"], None),
    (["run", "nothing"], None),
    (["run", "s.fail"], None),
    (["tools"], None),
    (["tools", "s", "--json"], None),
    (["tools", "nowhere"], None),
    (["tools", "list"], None),
    (["search", "words"], None),
    (["search", "--limit", "0", "words"], None),
    (["search", "quite", "unknown"], None),
    (["sources"], None),
    (["sources", "--json"], None),
    (["agent", "do it"], None),
    (["agent", "-"], "do it"),
    (["ask", "do it"], None),
    (["-w", "nowhere", "tools"], None),
]


def same(text: str) -> str:
    """The text without what differs from one call to the next: ids, moments, times, places in the code."""
    text = re.sub(r"\b(?=[0-9a-f-]*\d)[0-9a-f]{8,}(?:-[0-9a-f]+)*\b|\bsp[a-z]*_[\w-]{16,}", "ID", text)
    text = re.sub(r" +[\d.]+ m?s\b.*", " TIME", text)
    text = re.sub(r"just now|\d+ min ago", "WHEN", text)
    return re.sub(r"(?s)Traceback.*?\n(?=\S*Error)", "Traceback\n", text)


def test_every_command_looks_the_same_warm_and_cold(shell: Shell) -> None:
    cold = [shell(*words, stdin=stdin, env=shell.cold) for words, stdin in COMMANDS]
    with shell.up() as up:
        warm = [shell(*words, stdin=stdin) for words, stdin in COMMANDS]
    for (words, _), one, other in zip(COMMANDS, cold, warm, strict=True):
        shown = [Done(done.code, same(done.out), same(done.err)) for done in (one, other)]
        assert shown[0] == shown[1], words
    assert up.process.returncode == 0


def test_state_in_a_server_lives_on_between_commands(shell: Shell) -> None:
    with shell.up():
        counted = [shell("call", "s.count").out.split() for _ in range(3)]
        in_a_run = shell("run", "-q", "s.count").out.split()
    assert [number for number, _ in [*counted, in_a_run]] == ["1", "2", "3", "4"]
    assert len({pid for _, pid in [*counted, in_a_run]}) == 1
    assert shell("call", "s.count").out.split()[0] == "1"


def test_the_folder_is_the_callers(shell: Shell) -> None:
    below = shell.root / "below"
    below.mkdir()
    flow = {"version": 1, "name": "f", "nodes": [{"id": "e", "tool": "s.echo", "params": {"text": "hi"}}]}
    (below / "flow.json").write_text(json.dumps(flow))
    with shell.up():
        for folder in (shell.root, below, shell.root):
            done = shell("call", "where", cwd=folder)
            assert done.out == f"{folder}\n"
            assert done.err == "printed by the tool\nprinted by a child\n"
        assert "hi" in shell("run", "-q", "flow.json", cwd=below).out
        assert shell("-w", "..", "call", "s.count", cwd=below).out.startswith("1 ")
        assert shell("call", "-w", "..", "s.count", cwd=below).out.startswith("2 ")
        assert (
            shell("call", "s.count", cwd=Path("/"), env=shell.with_(SPINDLE_WORKSPACE=str(shell.root))).out[0]
            == "3"
        )


def test_a_command_in_another_folder_meanwhile_is_done_without_it(shell: Shell) -> None:
    below = shell.root / "below"
    below.mkdir()
    with shell.up():
        with shell.popen("call", "s.hold") as held:
            assert shell.next_told() == "held"
            assert shell("call", "where").out == f"{shell.root}\n"
            done = shell("call", "where", cwd=below)
            assert done.out == f"{below}\n"
            assert f"which is busy with a command in {shell.root}" in done.err
            held.send_signal(signal.SIGINT)
            assert shell.next_told() == "cancelled"
        assert "note" not in shell("call", "where", cwd=below).err


def test_new_files_have_the_rights_that_the_caller_wants(shell: Shell) -> None:
    (shell.root / "tools" / "files.py").write_text(
        "from pathlib import Path\nfrom spindle import tool\n\n\n@tool\ndef make(name: str) -> str:\n"
        '    """Makes a file."""\n    Path(name).touch()\n    return oct(Path(name).stat().st_mode & 0o777)\n'
    )
    with shell.up():
        for number, mask in enumerate((0o022, 0o077)):
            done = shell("call", "make", f"name=file{number}", umask=mask, program=REAL)
            assert done.out.strip() == oct(0o666 & ~mask), done


def test_another_environment_is_not_mixed_in(shell: Shell) -> None:
    with shell.up():
        assert shell("call", "variable", "name=ZONE").out == "nothing\n"
        done = shell("call", "variable", "name=ZONE", env=shell.with_(ZONE="x-value"))
        assert done.out == "x-value\n"
        assert "note: done without `spindle up`, in whose environment ZONE differs" in done.err
        assert "x-value" not in done.err
        # Every terminal has its own of these.
        done = shell("call", "s.count", env=shell.with_(TERM="dumb", COLUMNS="77", SHLVL="9"))
        assert (done.out.split()[0], done.err) == ("1", "")
        overridden = shell("sources", "--json", env=shell.with_(SPINDLE_SOURCES__S__ENABLED="false"))
        states = {item["name"]: item["state"] for item in overridden.json}
        assert states["s"] == "disabled"


def test_variables_may_be_left_out_of_the_comparison(shell: Shell) -> None:
    shell.write_settings('[up]\nignore_env = ["ZONE*"]\n')
    with shell.up():
        assert shell("call", "s.count", env=shell.with_(ZONE_A="1")).out.startswith("1 ")
        assert shell("call", "s.count", env=shell.with_(ZONE_B="two")).out.startswith("2 ")


def test_ctrl_c_cancels_the_call_in_the_server(shell: Shell) -> None:
    with shell.up():
        with shell.popen("call", "s.hold") as held:
            assert shell.next_told() == "held"
            held.send_signal(signal.SIGINT)
            assert shell.next_told() == "cancelled"
            out, err = held.communicate(timeout=300)
        assert (held.returncode, out, err) == (130, "", "spindle: cancelled\n")
        assert shell("call", "s.count").out.startswith("1 ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_it_as_they_do_without(shell: Shell, number: signal.Signals) -> None:
    codes = []
    for environ in (shell.environ, shell.cold):
        with shell.up(), shell.popen("call", "s.hold", env=environ) as held:
            assert shell.next_told() == "held"
            held.send_signal(number)
            if environ is shell.environ:  # else the server ends too, and may not come to say it
                assert shell.next_told() == "cancelled"
            assert held.communicate(timeout=300) == ("", "spindle: cancelled\n")
        codes.append(held.returncode)
    assert codes == [128 + number] * 2


def test_a_client_that_is_killed_ends_its_call(shell: Shell) -> None:
    with shell.up():
        with shell.popen("call", "s.hold") as held:
            assert shell.next_told() == "held"
            held.kill()
            assert shell.next_told() == "cancelled"
        assert shell("call", "s.count").out.startswith("1 ")


def test_a_reader_that_goes_away_ends_it_quietly(shell: Shell) -> None:
    with shell.up():
        reading, writing = os.pipe()
        os.close(reading)
        with shell.popen("call", "s.big", "size=1000000", stdout=writing) as process:
            os.close(writing)
            assert process.communicate(timeout=300) == (None, "")
        assert process.returncode == 141
        assert shell("call", "s.count").out.startswith("1 ")


def test_a_full_disk_is_told(shell: Shell) -> None:
    done: list[Any] = []
    with shell.up(), open("/dev/full", "w") as full:
        for environ in (shell.environ, shell.cold):
            with shell.popen("call", "s.big", "size=100", stdout=full, env=environ) as process:
                done.append((*process.communicate(timeout=300), process.returncode))
    assert done[0] == done[1]
    assert done[0][2] == 2


def test_a_large_result_arrives_whole(shell: Shell) -> None:
    with shell.up():
        assert shell("call", "s.big", "size=3000000").out == "x" * 3_000_000 + "\n"


def test_a_closed_stream_is_no_reason_to_fail(shell: Shell) -> None:
    with shell.up():
        done = subprocess.run(
            f"{' '.join(REAL)} call s.echo text=hi <&- 2>&-", shell=True, cwd=shell.root, env=shell.environ,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    assert done.stdout == "hi\n"


def test_help_trust_and_one_source_alone_are_not_for_it(shell: Shell) -> None:
    with shell.up() as up:
        assert "Call a tool." in shell("call", "--help").out
        assert "--text" in shell("call", "s.echo", "--help").out
        assert shell("--trust", "call", "s.count").out.startswith("1 ")
        (shell.root / "alone.py").write_text(
            'from spindle import tool\n\n@tool\ndef lonely() -> str:\n    """Alone."""\n    return "alone"\n'
        )
        assert shell("call", "--from", "alone.py", "lonely").out == "alone\n"
        assert "lonely" in shell("tools", "--from", "alone.py").out
        shell("call", "s.echo", "text=hi")
        lines = up.lines_until("call: exit code 0")
    assert len([line for line in lines if "exit code" in line]) == 1


def test_what_a_gone_reader_left_reaches_nobody_else(shell: Shell) -> None:
    with shell.up():
        reading, writing = os.pipe()
        os.close(reading)
        with shell.popen("call", "s.fail", stderr=writing, stdout=writing) as process:
            os.close(writing)
            assert process.wait(300) == 141
        for number in range(5):
            assert shell("call", "s.echo", f"text={number}") == Done(0, f"{number}\n", "")
