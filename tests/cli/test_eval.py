"""`spindle eval`: tasks for an agent against a scripted model, over real HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from spindle.agents.evaluation import read_evaluation
from spindle.cli.main import execute
from spindle.errors import ConfigurationError
from spindle.testing import ModelServer, ToolCall, Turn

TASKS = """
model: openai-chat:gpt-scripted
tasks:
- name: loud
  task: Say hi loudly.
  expect:
    calls: [{tool: shout, arguments: {text: hi}}]
    never: drop*
    contains: "hi"
    matches: "^HI"
- task: Say it twice.
  expect:
    calls: [shout, shout]
"""
TOOLS = """
from spindle import tool

@tool(read_only=True)
def shout(text: str, often: int = 1) -> str:
    "Says it loudly."
    return text.upper() * often

@tool
def drop_it() -> str:
    "Drops it."
    return "dropped"
"""
SHOUT = Turn(calls=[ToolCall("shout", {"text": "hi", "often": 2})])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "spindle.toml").touch()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "own.py").write_text(TOOLS)
    (tmp_path / "tasks.yaml").write_text(TASKS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evaluated(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = execute(["eval", "tasks.yaml", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def use(models: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in models.environment().items():
        monkeypatch.setenv(name, value)


def test_what_an_agent_does_is_compared_recorded_and_played(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ModelServer(SHOUT, "HI!", SHOUT, SHOUT, "Said.") as models:
        use(models, monkeypatch)
        code, out, err = evaluated(capsys, "--record", "tape.jsonl")
    assert (code, [line.split("\t")[:3] for line in out.splitlines()]) == (
        0, [["loud", "1/1", "2.0"], ["Say it twice.", "1/1", "3.0"]],
    ), err  # fmt: skip
    assert "2 of 2 as expected" in err
    code, out, err = evaluated(capsys, "--replay", "tape.jsonl", "--json")
    assert (code, json.loads(out)["passed"]) == (0, 2), err
    assert json.loads(out)["results"][0]["calls"] == [
        {"tool": "shout", "arguments": {"text": "hi", "often": 2}}
    ]


def test_every_difference_is_told_and_written_for_ci(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Turn(calls=[ToolCall("shout", {"text": "ho"}), ToolCall("drop_it", {})])
    with ModelServer(wrong, "Done\x07.", SHOUT, "Said.") as models:
        use(models, monkeypatch)
        code, _, err = evaluated(capsys, "--junit", "report.xml", "--yes")
    assert code == 1
    for problem in (
        "loud, trial 1: shout was not called with {'text': 'hi'}, but with {'text': 'ho'}",
        "loud, trial 1: drop_it was called",
        "loud, trial 1: the answer does not contain 'hi'",
        "loud, trial 1: the answer does not match '^HI'",
        "Say it twice., trial 1: shout was not called after the one before it",
        "0 of 2 as expected",
    ):
        assert problem in err
    suite = ElementTree.parse(folder / "report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), len(suite.findall(".//failure"))) == ("2", "2", 2)


def test_trials_are_repeated_and_one_that_waits_or_fails_is_not_as_expected(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "tasks.yaml").write_text("model: 'openai-chat:x'\ntasks: [{task: Drop it.}]")
    (folder / "spindle.toml").write_text('[agent]\napprove = ["drop_it"]\n')
    drop = Turn(calls=[ToolCall("drop_it", {})])
    with ModelServer(drop, "No need.", drop) as models:
        use(models, monkeypatch)
        code, out, _ = evaluated(capsys, "--repeat", "3", "--json")
    told = json.loads(out)
    assert (code, told["passed"], told["trials"]) == (1, 1, 3)
    assert [bool(item["problems"]) for item in told["results"]] == [True, False, True]
    assert told["results"][0]["problems"][0].startswith("it waits for a person")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", r"tasks.yaml: the file: "),
        ("tasks: []", r"tasks.yaml:1: tasks: "),
        (
            "tasks:\n- task: x\n  expect: {matches: '('}",
            r"tasks.yaml:3: tasks.0.expect.matches: is no pattern",
        ),
        ("tasks:\n- task: x\n  expects: {}", r"tasks.yaml:3: tasks.0.expects: "),
        ("tasks: [", r"tasks.yaml:1: "),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_line(tmp_path: Path, text: str, wrong: str) -> None:
    (tmp_path / "tasks.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=wrong):
        read_evaluation(tmp_path / "tasks.yaml")


def test_a_missing_file_and_a_missing_model_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "tasks.yaml").write_text("tasks: [{task: x}]")
    code, _, err = evaluated(capsys)
    assert (code, "no model is chosen" in err) == (2, True)
    (folder / "tasks.yaml").unlink()
    assert evaluated(capsys)[0] == 2


def test_one_mistake_is_told_once_in_plain_words(tmp_path: Path) -> None:
    for text, wrong in {
        "tasks:\n- taks: x": (
            "tasks.yaml:2: tasks.0.task: this is missing",
            "tasks.yaml:2: tasks.0.taks: this is not known; did you mean 'task'?",
        ),
        "tasks: []": ("tasks.yaml:1: tasks: there must be at least one",),
        "- x": ("tasks.yaml:1: the file: this must have names and values, as in `tasks:`",),
    }.items():
        (tmp_path / "tasks.yaml").write_text(text)
        with pytest.raises(ConfigurationError) as caught:
            read_evaluation(tmp_path / "tasks.yaml")
        assert caught.value.message.replace(f"{tmp_path}/", "") == "\n".join(wrong)


def test_an_expected_tool_that_is_mistyped_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "tasks.yaml").write_text(
        "model: 'openai-chat:x'\ntasks: [{task: a, expect: {calls: [shuot, drop_it]}}]"
    )
    with ModelServer(SHOUT, "HI") as models:
        use(models, monkeypatch)
        code, _, err = evaluated(capsys)
    assert code == 1
    assert "'shuot' is expected, and there is no such tool; did you mean 'shout'?" in err
    assert "'drop_it' is expected" not in err


def test_a_model_that_cannot_be_used_ends_the_evaluation(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "tasks.yaml").write_text("model: 'foo:bar'\nrepeat: 50\ntasks: [{task: a}]")
    code, out, err = evaluated(capsys, "--parallel", "3", "--junit", "report.xml")
    assert (code, out) == (2, "")
    assert not (folder / "report.xml").exists()
    assert err.count("the model 'foo:bar' cannot be used") == 1


def test_a_report_that_cannot_be_written_is_told_before_anything_is_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ModelServer(SHOUT) as models:
        use(models, monkeypatch)
        code, _, err = evaluated(capsys, "--junit", "spindle.toml/report.xml")
        assert models.left == 1
    assert code == 2
    assert "the report spindle.toml/report.xml cannot be written" in err


def test_a_report_has_what_readers_of_junit_require(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ModelServer(SHOUT, "HI", SHOUT, "Said.") as models:
        use(models, monkeypatch)
        evaluated(capsys, "--junit", "new/report.xml")
    suite = ElementTree.parse(folder / "new" / "report.xml").getroot()
    assert suite.attrib.keys() == {"name", "tests", "failures", "errors", "skipped", "time"}
    assert [(case.get("classname"), case.get("name")) for case in suite] == [
        ("tasks", "loud (1)"),
        ("tasks", "Say it twice. (1)"),
    ]
