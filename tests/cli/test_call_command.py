"""`spindle call`: arguments from everywhere, results on stdout, the rest on stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from servers import warm

PYTHON_TOOLS = '''
import subprocess, sys, time
from spindle import Context, tool

@tool
def talk(times: int = 1) -> str:
    """Print, and return."""
    print("printed")
    subprocess.run([sys.executable, "-c", "print('by a child')"])
    return "returned " * times

@tool
def sleepy(file: str) -> str:
    open(file, "w").close()
    time.sleep(3600)
    return ""

@tool
def odd() -> str:
    return "\\ud800 \\u2713"

@tool
def big() -> int:
    return 2**70

@tool
def nothing() -> None: ...

@tool
def steps(context: Context) -> str:
    context.progress(1, 2, "half")
    return "done"
'''


@pytest.fixture
def server(workspace):
    workspace.add_server()
    return workspace


def test_flags_reach_the_server(server, spindle):
    done = spindle("call", "mini.echo", "--text=hi", "--count", "3", "--tags", "a", "--tags", "b", "--loud")
    assert done.code == 0, done.err
    assert json.loads(done.out) == {"text": "hi", "count": 3, "tags": ["a", "b"], "loud": True}


def test_only_what_was_given_is_sent(server, spindle):
    assert spindle("call", "mini.echo", "--text=hi").json == {"text": "hi"}


def test_the_last_part_of_a_name_is_enough(server, spindle):
    assert spindle("call", "echo", "--text=hi").json == {"text": "hi"}


def test_arguments_can_be_json(server, spindle):
    assert spindle("call", "echo", '{"text": "hi", "count": 1}', "--count=2").json == {
        "text": "hi",
        "count": 2,
    }


def test_arguments_can_come_from_stdin(server, program):
    assert program("call", "echo", stdin='{"text": "hi"}').json == {"text": "hi"}
    assert program("call", "echo", "--count=2", "-", stdin='{"text": "hi"}').json == {
        "text": "hi",
        "count": 2,
    }
    assert program("call", "fail", "-", stdin="").err.splitlines()[-2:] == [
        "spindle: there was nothing on stdin",
        "  hint: pipe a JSON object into it",
    ]


def test_stdin_is_read_with_json_too(workspace, program):
    workspace.write("tools/t.py", PYTHON_TOOLS)
    text = program("call", "talk", "--json", stdin='{"times": 2}').json["content"][0]["text"]
    assert text == "returned returned "


def test_stdin_that_is_no_text_is_a_mistake(server):
    command = [warm.SPINDLE, "call", "echo", "-"]
    done = subprocess.run(command, input=b"\xff\xfe", capture_output=True, timeout=300)
    assert done.returncode == 4
    assert done.stderr.startswith(b"spindle: stdin is not UTF-8 text: ")


def test_arguments_can_come_from_a_file(server):
    file = server.write("arguments.json", '{"text": "from a file"}')
    command = [warm.SPINDLE, "call", "echo"]
    with file.open() as stdin:
        done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, timeout=300)
    assert json.loads(done.stdout) == {"text": "from a file"}


def test_an_idle_pipe_as_stdin_stops_nothing(server):
    command = [warm.SPINDLE, "call", "fail"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.wait(timeout=300) == 1
    finally:
        process.stdin.close()
        process.stderr.close()


def test_a_tool_shows_its_own_parameters(server, spindle):
    done = spindle("call", "echo", "--help")
    assert done.code == 0
    assert done.out.splitlines() == [
        "spindle call mini.echo --text=STRING [--…]",
        "",
        "  Give the arguments back. They are not changed.",
        "",
        "--text   string    required   What to say.",
        "--count  integer   default 1",
        "--tags   string[]  optional",
        "--loud   boolean   optional",
        "--json   string    optional",
    ]


def test_a_parameter_called_json_wins_after_the_tools_name(server, spindle):
    assert spindle("call", "echo", "--text=x", "--json=y").out == '{"json": "y", "text": "x"}\n'
    whole = spindle("call", "--json", "echo", "--text=x").json
    assert whole == {
        "content": [{"type": "text", "text": '{"text": "x"}'}],
        "structured": None,
        "is_error": False,
    }


def test_json_is_understood_after_the_name_of_a_tool_without_such_a_parameter(server, spindle):
    assert spindle("call", "data", "--json").json["structured"] == {"a": 1}


def test_structured_data_is_printed_where_there_is_no_text(server, spindle):
    assert spindle("call", "data").json == {"a": 1}


def test_an_error_of_the_tool_goes_to_stderr(server, spindle):
    done = spindle("call", "fail")
    assert (done.code, done.out, done.err) == (1, "", "it went wrong\n")


def test_an_error_of_the_tool_is_in_the_json_too(server, spindle):
    done = spindle("call", "fail", "--json")
    assert done.code == 1
    assert done.json["is_error"] is True


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["echo", "--txt=x"], 4, "mini.echo has no parameter --txt\n  hint: did you mean --text?"),
        (["echo", "--text=x", "--count=x"], 4, "--count must be an integer, not 'x'"),
        (["echo", "{text"], 4, "the argument is not valid JSON: Expecting property name"),
        (["echo", "[1]"], 4, "the argument must be a JSON object, not a JSON array"),
        (["echo", "x"], 4, "'x' is neither a flag nor a JSON object\n  hint: perhaps --text=x"),
        (["echo", "--count=1"], 4, 'the arguments do not fit mini.echo: arguments: "text" is a required'),
        (["mini.ecko"], 3, "there is no tool 'mini.ecko'\n  hint: did you mean 'mini.echo'?"),
        (["--timeout=-1", "echo"], 2, "invalid value for '--timeout'"),
        (["--tiemout=1", "echo"], 2, "no such option"),
    ],
)
def test_mistakes_are_one_clear_line(server, spindle, words, code, message):
    done = spindle("call", *words)
    assert done.code == code
    assert done.out == ""
    assert done.err.startswith(f"spindle: {message}")
    assert "Traceback" not in done.err


def test_a_timeout_has_its_own_exit_code(server, spindle):
    done = spindle("call", "--timeout=0.05", "hang")
    assert done.code == 6
    assert done.err.startswith("spindle: mini.hang did not answer within 0.05 s")


def test_an_error_is_also_json_where_json_was_asked_for(server, spindle):
    done = spindle("--json", "call", "nothing")
    assert done.code == 3
    assert done.json["error"]["category"] == "not_found"
    assert done.err.startswith("spindle: there is no tool 'nothing'")


def test_what_python_tools_print_never_mixes_with_results(workspace, program):
    workspace.write("tools/t.py", PYTHON_TOOLS)
    done = program("call", "talk")
    assert done.out == "returned \n"
    assert "printed\n" in done.err
    assert "by a child\n" in done.err


def test_any_text_and_any_number_can_be_printed(workspace, program):
    workspace.write("tools/t.py", PYTHON_TOOLS)
    assert program("call", "odd").out == "\\ud800 ✓\n"
    assert program("call", "odd", "--json").json["content"][0]["text"] == "\ud800 ✓"
    assert program("call", "big", "--json").json["structured"] == 2**70
    assert program("call", "odd", env={**os.environ, "PYTHONIOENCODING": "ascii"}).out == "\\ud800 \\u2713\n"


def test_no_result_is_no_output(workspace, spindle):
    workspace.write("tools/t.py", PYTHON_TOOLS)
    done = spindle("call", "nothing")
    assert (done.code, done.out) == (0, "")


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "spindle", *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for(path, process) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_call_that_is_stopped_leaves_no_server_behind(server, number, code):
    process = start("call", "hang")
    wait_for(server.definitions.with_name("hanging"), process)
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (code, "", "spindle: cancelled\n")
    for pid in server.server_pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_python_tool_that_cannot_be_stopped_does_not_hold_us(workspace):
    workspace.write("tools/t.py", PYTHON_TOOLS)
    process = start("call", "sleepy", "--file=begun")
    wait_for(workspace.root / "begun", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert err == "spindle: cancelled\n"


def test_a_timeout_does_not_wait_for_the_tool(workspace, program):
    workspace.write("tools/t.py", PYTHON_TOOLS)
    assert program("call", "--timeout=0.1", "sleepy", "--file=begun").code == 6


def test_a_reader_that_goes_away_is_no_error(workspace, program):
    workspace.write("tools/t.py", PYTHON_TOOLS)
    process = start("call", "talk", "--times=200000")
    process.stdout.close()
    assert process.wait(timeout=300) == 141
    err = process.stderr.read()
    process.stderr.close()
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


def test_a_full_disk_is_told_in_one_line(workspace):
    workspace.write("tools/t.py", PYTHON_TOOLS)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [warm.SPINDLE, "tools"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300
        )
    assert (done.returncode, done.stderr) == (
        2,
        "spindle: the result cannot be written: No space left on device\n",
    )


# --- why a Python tool failed

FAILING = '''
from spindle import tool

def inner(n):
    return {}[n]

@tool
def fails(n: int) -> str:
    """Fails."""
    try:
        inner(n)
    except KeyError as error:
        raise ValueError("no such number") from error

@tool
def secret(password: str) -> str:
    """Tells the password."""
    raise RuntimeError(password)
'''


def test_a_python_tool_that_fails_says_where(workspace, spindle):
    workspace.write("tools/maths.py", FAILING)
    done = spindle("call", "fails", "--n=7")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines() == [
        "ValueError: no such number",
        '  File "tools/maths.py", line 13, in fails',
        '    raise ValueError("no such number") from error',
        "  hint: --debug shows the whole traceback, and so does `spindle history`",
    ]


@pytest.mark.parametrize(
    "words", [["--debug", "call", "fails"], ["call", "--debug", "fails"], ["call", "fails", "--debug"]]
)
def test_debug_shows_the_whole_traceback(workspace, spindle, words):
    workspace.write("tools/maths.py", FAILING)
    done = spindle(*words, "--n=7")
    assert done.code == 1
    assert "KeyError: 7" in done.err
    assert "The above exception was the direct cause of the following exception" in done.err
    assert done.err.count("ValueError: no such number") == 2
    assert "spindle/sources" not in done.err


def test_history_keeps_the_traceback(workspace, spindle):
    workspace.write("tools/maths.py", FAILING)
    spindle("call", "fails", "--n=7")
    [record] = spindle("history", "--json").json
    assert record["error"]["failure"]["file"] == "tools/maths.py"
    shown = spindle("history", record["key"]).out
    assert "KeyError: 7\n" in shown
    assert 'tools/maths.py", line 13, in fails\n' in shown


def test_where_it_failed_is_in_the_json_of_the_shell(workspace, spindle):
    workspace.write("tools/maths.py", FAILING)
    told = spindle("call", "fails", "--n=7", "--json").json
    assert (told["is_error"], told["failure"]["line"]) == (True, 13)


def test_secrets_are_masked_where_it_failed(workspace, spindle):
    workspace.write("tools/maths.py", FAILING)
    spindle("call", "secret", "--password=hunter2-hunter2")
    [record] = spindle("history", "--json").json
    assert "hunter2" not in json.dumps(record)


def test_a_flow_says_where_its_tool_failed(workspace, spindle):
    workspace.write("tools/maths.py", FAILING)
    done = spindle("run", "fails --n=7")
    assert done.code == 1
    assert '  File "tools/maths.py", line 13, in fails' in done.err
