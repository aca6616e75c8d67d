"""cli templates: words without a shell, and programs that are really run."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from utcp_service import OpenManual, a_manual, a_tool

from servers.running import PATIENCE, OpenSources, process_end
from spindle.errors import (
    ConfigurationError,
    ConnectionFailedError,
    InvalidArgumentsError,
    PermissionDeniedError,
)
from spindle.sources.utcp.commands import ArgumentPiece, NeedsShellError, Variable, words_of
from spindle.sources.utcp.programs import ProgramRun, vector_of

SHOW = f"{sys.executable} -I -c 'import json,sys; print(json.dumps(sys.argv[1:]))'"


def cli(*commands: Any, **more: Any) -> dict[str, Any]:
    steps = [{"command": command} if isinstance(command, str) else command for command in commands]
    return {"call_template_type": "cli", "commands": steps, **more}


def arg(name: str) -> str:
    return f"UTCP_ARG_{name}_UTCP_END"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("a b  c", ["a", "b", "c"]),
        ("a 'b c' \"d e\"f", ["a", "b c", "d ef"]),
        ("a '' \"\"", ["a", "", ""]),
        (r'a \* "\$x \"q\" \n" \\', ["a", "*", '$x "q" \\n', "\\"]),
        ("a '*|&;$x`'", ["a", "*|&;$x`"]),
        ("curl https://x.example/?a=b", ["curl", "https://x.example/?a=b"]),
        ("a 5$ {} a=b x#y\n", ["a", "5$", "{}", "a=b", "x#y"]),
    ],
)
def test_words_are_read_as_bash_would(command: str, words: list[str]) -> None:
    assert [word.literal for word in words_of(command)] == words


def test_places_are_part_of_one_word() -> None:
    found = words_of(f"a --x={arg('b_c')} \"$CMD_0_OUTPUT and ${{V}}\" 'q{arg('d')}'")
    assert found[1].pieces[-1] == ArgumentPiece("b_c")
    assert found[2].pieces[0] == Variable("CMD_0_OUTPUT")
    assert found[2].pieces[-1] == Variable("V")
    assert found[3].pieces == ["q", ArgumentPiece("d")]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("a | b", "a pipe"), ("a && b", "&"), ("a; b", "several commands"), ("a > f", "output to a file"),
        ("a < f", "input"), ("a `b`", "backticks"), ('a "`b`"', "backticks"), ("a $(b)", r"\$\("),
        ("(a)", "subshell"), ("export A=b", "part of a shell"),
        ('a "${b:-c}"', "expanded"), ("a $1", "expanded"), ("a *.py", "pattern"), ("a [ab]c", "pattern"),
        ("a b?", "pattern"), ("a {b,c}", "expanded by a shell"), ("a ~/b", "~"), ("a 'b", "not closed"),
        ('a "b', "not closed"), ("a\nb", "several lines"), ("a # b", "comment"), ("", "empty"),
        ("A=b c", "sets a variable"), (f"{arg('a')} b", "choose the program"), ("$P b", "choose the program"),
        (f"a -{arg('b')}", "choose an option"), (f"a --{arg('b')}", "choose an option"), ("cd", "one folder"),
        ("a b\\", "backslash"),
    ],
)  # fmt: skip
def test_what_needs_a_shell_is_told(command: str, why: str) -> None:
    with pytest.raises(NeedsShellError, match=why):
        words_of(command)


@given(st.text())
def test_any_text_is_words_or_a_clear_refusal(command: str) -> None:
    why = ""
    try:
        words = words_of(command)
    except NeedsShellError as problem:
        words, why = [], str(problem)
    assert bool(words) != bool(why)


@given(st.lists(st.text(st.characters(exclude_characters="'"), min_size=0), min_size=1, max_size=4))
def test_quoted_words_stay_as_they_are(words: list[str]) -> None:
    quoted = "program " + " ".join(f"'{word}'" for word in words)
    if "UTCP_ARG_" not in quoted:
        assert [word.literal for word in words_of(quoted)[1:]] == words


@given(st.text(), st.text())
def test_any_value_is_one_word_and_no_option_or_refused(one: str, two: str) -> None:
    words = words_of(f"p {arg('a')} --x={arg('b')} '{arg('a')} \"{arg('b')}' -- {arg('a')}")
    running = ProgramRun({"a": one, "b": two}, lambda _: None, {}, Path())
    try:
        vector = vector_of(words, running)
    except InvalidArgumentsError:
        assert one.startswith("-") or "\0" in one + two
    else:
        assert vector == ["p", one, f"--x={two}", f'{one} "{two}', "--", one]
        assert not one.startswith("-")


async def test_a_tool_that_needs_a_shell_is_left_out_with_the_reason(open_manual: OpenManual) -> None:
    manual = a_manual(
        a_tool("piped", cli("ls | wc")), a_tool("fine", cli("ls")), a_tool("early", cli("echo $CMD_0_OUTPUT"))
    )
    async with open_manual(manual, allowed_protocols=["cli"]) as opened:
        assert list(opened.tools) == ["fine"]
    assert (
        "shop.piped was left out: its commands need a shell, which is not used: it uses a pipe (|)"
        in opened.notes
    )
    assert any("is used before it has run" in note for note in opened.notes)


async def test_programs_are_not_run_unless_that_is_allowed(open_manual: OpenManual) -> None:
    manual = a_manual(a_tool("t", cli("echo hi")))
    async with open_manual(manual) as opened:
        assert not opened.tools
        assert "add it to sources.shop.allowed_protocols to allow it" in opened.notes[0]
    async with open_manual(manual, allowed_protocols=["cli"]) as opened:
        tools = opened.tools
    async with open_manual(manual) as opened:
        opened.tools.update(tools)
        with pytest.raises(PermissionDeniedError, match="uses cli, which its manual may not"):
            await opened.call("t")


async def test_values_are_one_word_each_and_never_options(open_manual: OpenManual) -> None:
    template = cli(f'{SHOW} {arg("a")} "x {arg("b")} y" --flag={arg("c")} -- {arg("d")}')
    async with open_manual(a_manual(a_tool("t", template)), allowed_protocols=["cli"]) as opened:
        nasty = "; rm -rf / $(x) `y` *"
        result = await opened.call("t", a=nasty, b=[1], c="-v", d="--version")
        assert result.structured == [nasty, "x [1] y", "--flag=-v", "--", "--version"]
        with pytest.raises(InvalidArgumentsError, match="begins with a dash") as caught:
            await opened.call("t", a="--version", b=1, c=1, d=1)
        assert not caught.value.sent
        with pytest.raises(InvalidArgumentsError, match="b is missing: the command needs it"):
            await opened.call("t", a="1", c=1, d=1)
        with pytest.raises(InvalidArgumentsError, match="zero byte"):
            await opened.call("t", a="\0", b=1, c=1, d=1)


async def test_outputs_folders_and_variables_pass_from_command_to_command(
    open_manual: OpenManual, tmp_path: Path
) -> None:
    (tmp_path / "inner").mkdir()
    template = cli(
        {"command": "pwd", "append_to_final_output": True},
        "cd UTCP_ARG_folder_UTCP_END",
        "pwd",
        {"command": 'echo "now $CMD_2_OUTPUT $GREETING $shop_v"', "append_to_final_output": True},
        {"command": f"{SHOW} $NAME $HOME", "append_to_final_output": True},
        env_vars={"GREETING": "hi", "shop_v": "${NAME}"},
    )
    tool = a_tool("t", template, folder={"type": "string", "default": "inner"})
    async with open_manual(
        a_manual(tool), allowed_protocols=["cli"], variables={"NAME": "me"}, env={"HOME": "/h"}
    ) as opened:
        lines = (await opened.call("t")).text.split("\n")
        missing = await opened.call("t", folder="nowhere")
    assert lines == [str(tmp_path), f"now {tmp_path}/inner hi me", '["me", "/h"]']
    assert missing.is_error
    assert "there is no folder" in missing.text


async def test_a_failing_command_is_an_error_result(open_manual: OpenManual) -> None:
    fails = f"{sys.executable} -I -c 'import sys; print(1); print(\"why\", file=sys.stderr); sys.exit(3)'"
    never = f'{sys.executable} -I -c \'open("ran", "w")\''
    async with open_manual(a_manual(a_tool("t", cli(fails, never))), allowed_protocols=["cli"]) as opened:
        result = await opened.call("t")
    assert result.is_error
    assert result.structured == {"command": 1, "exit_code": 3, "stderr": "why", "stdout": "1"}
    assert result.text == "command 1 of shop.t exited with status 3:\nwhy"
    assert not Path("ran").exists()


async def test_an_exit_code_means_what_the_settings_say(open_sources: OpenSources, tmp_path: Path) -> None:
    fails = f"{sys.executable} -I -c 'import sys; sys.exit(3)'"
    (tmp_path / "manual.json").write_text(json.dumps(a_manual(a_tool("t", cli(fails)))))
    source = {"kind": "utcp", "document": "manual.json", "allowed_protocols": ["cli"]}
    async with open_sources({"shop": {**source, "errors": {"not_found": 3}}, "plain": source}) as app:
        found = [(await app.call(name)).category for name in ("shop.t", "plain.t")]
    assert found == ["not_found", "tool"]


async def test_what_a_failing_command_says_does_not_give_secrets_away(open_manual: OpenManual) -> None:
    fails = f"{sys.executable} -I -c 'import os,sys; sys.exit(os.environ[\"TOKEN\"])'"
    template = cli(fails, env_vars={"TOKEN": "$T"})
    async with open_manual(
        a_manual(a_tool("t", template)), allowed_protocols=["cli"], variables={"T": "very-secret"}
    ) as opened:
        result = await opened.call("t")
    assert "very-secret" not in repr(result)
    assert "•••" in result.text


async def test_a_program_that_is_not_there_is_an_error(open_manual: OpenManual) -> None:
    async with open_manual(
        a_manual(a_tool("t", cli("no-such-program-x"))), allowed_protocols=["cli"]
    ) as opened:
        with pytest.raises(ConnectionFailedError, match="'no-such-program-x' was not found"):
            await opened.call("t")


async def test_a_missing_variable_of_a_command_is_told(open_manual: OpenManual) -> None:
    async with open_manual(a_manual(a_tool("t", cli("ls $NOWHERE_X"))), allowed_protocols=["cli"]) as opened:
        with pytest.raises(ConfigurationError, match=r"uses \$NOWHERE_X, which is not set"):
            await opened.call("t")


async def test_programs_see_only_what_they_may(
    open_manual: OpenManual, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSHARED_X", "secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    show = f"{sys.executable} -I -c 'import json,os; print(json.dumps(dict(os.environ)))'"
    manual = a_manual(
        a_tool("plain", cli(show)),
        a_tool("strict", cli(show, inherit_env_vars=[], env_vars={"A": "1"})),
        a_tool("asked", cli(show, inherit_env_vars=["UNSHARED_X"])),
    )
    async with open_manual(manual, allowed_protocols=["cli"]) as opened:
        plain, strict, asked = [(await opened.call(name)).structured for name in opened.tools]
    assert plain["LANG"] == "C.UTF-8"
    assert "UNSHARED_X" not in plain
    assert strict.keys() - {"LC_CTYPE", "SPINDLE_STARTED"} == {"A"}
    assert asked["UNSHARED_X"] == "secret"


async def test_giving_up_ends_the_program_and_what_it_started(
    open_manual: OpenManual, tmp_path: Path
) -> None:
    # Opening a pipe waits for whoever reads it.
    os.mkfifo(tmp_path / "pids")
    script = (
        "import os,subprocess,sys;"
        'child = subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(600)"]);'
        'open("pids", "w").write(f"{os.getpid()} {child.pid}"); child.wait()'
    )
    template = cli(f"{sys.executable} -I -c '{script}'")
    async with open_manual(a_manual(a_tool("t", template)), allowed_protocols=["cli"]) as opened:
        call = asyncio.create_task(opened.call("t"))
        async with asyncio.timeout(PATIENCE):
            pids = await asyncio.to_thread((tmp_path / "pids").read_text)
        call.cancel()
        for pid in pids.split():
            await process_end(int(pid))
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_output_that_is_not_text_is_kept_as_bytes(open_manual: OpenManual) -> None:
    show = f"{sys.executable} -I -c 'import sys; sys.stdout.buffer.write(bytes([0, 255]))'"
    async with open_manual(a_manual(a_tool("t", cli(show))), allowed_protocols=["cli"]) as opened:
        result = await opened.call("t")
    assert result.content[0].data == "AP8="


async def test_a_manual_that_a_program_prints_is_read(open_manual: OpenManual) -> None:
    manual = json.dumps(a_manual(a_tool("t", cli("echo hi"))))
    template = cli(f"{sys.executable} -I -c 'import sys; print(sys.argv[1])' '{manual}'")
    with pytest.raises(ConfigurationError, match="gets its manual by cli, which is not allowed"):
        async with open_manual(template):
            pass
    async with open_manual(template, allowed_protocols=["cli"]) as opened:
        assert (await opened.call("t")).text == "hi"
