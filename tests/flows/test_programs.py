"""`run`: a configured program as a step, by the words of its command line, with no shell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle import Finished, Paused
from spindle.errors import InvalidArgumentsError, NotFoundError
from spindle.flows import Flow, ToolNode
from spindle.flows.check.check import check
from spindle.flows.draw.pictures import mermaid
from spindle.flows.library import with_fingerprints
from spindle.flows.plan import plan
from spindle.flows.problems import BrokenFlowError
from spindle.flows.text.document import from_document
from spindle.flows.text.files import read, write

SETTINGS = """
[sources.say]
kind = "cli"
program = ["python3", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))"]

[sources.say.commands.words]
output = "json"
read_only = true
parameters.first = { type = "string", required = true }
parameters.count = { type = "integer", flag = "--count" }
parameters.loud = { type = "boolean", flag = "--loud" }
parameters.tags = { type = "string", flag = "--tag", repeat = true }

[sources.broken]
kind = "cli"
program = ["python3", "-c", "raise SystemExit(3)"]

[sources.broken.commands.it]

[sources.other]
kind = "python"
path = "other"
"""


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[spindle.Spindle]:
    (tmp_path / "spindle.toml").write_text(SETTINGS)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "own.py").write_text(
        "from spindle import tool\n@tool\ndef upper(text: str) -> str:\n    return text.upper()\n"
    )
    async with spindle.open(tmp_path) as app:
        yield app


def flow(*words: Any, **more: Any) -> dict[str, Any]:
    node = {"id": "say", "run": [*words], **more}
    return {"inputs": {"name": {"type": "string", "default": "x"}}, "nodes": [node]}


async def problems(app: spindle.Spindle, document: dict[str, Any]) -> list[str]:
    found = await check(from_document(document), app.show)
    return [f"{problem.message} [{problem.hint}]" for problem in found]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["hello"], ["--", "hello"]),
        (["--first=hello", "--count", 3], ["--count=3", "--", "hello"]),
        (["${name}", "--count=${1 + 1}", "--loud"], ["--count=2", "--loud", "--", "x"]),
        (["a ${name} b"], ["--", "a x b"]),
        (["--tags=a", "--tags=b", "hello"], ["--tag=a", "--tag=b", "--", "hello"]),
        (["--", "--loud"], ["--", "--loud"]),
        (["$(touch gotcha); `x` && y | z > f"], ["--", "$(touch gotcha); `x` && y | z > f"]),
        ([3], ["--", "3"]),
    ],
)
async def test_words_become_the_arguments_of_the_program(
    words: list[Any], expected: list[str], tmp_path: Path
) -> None:
    async with opened(tmp_path) as app:
        outcome = await app.run_flow(from_document(flow("say", "words", *words)))
    assert isinstance(outcome, Finished)
    assert outcome.result.structured == expected


async def test_a_template_is_a_value_and_never_an_option(tmp_path: Path) -> None:
    async with opened(tmp_path) as app:
        outcome = await app.run_flow(from_document(flow("say", "words", "${name}")), name="--loud")
    assert isinstance(outcome, Finished)
    assert outcome.result.structured == ["--", "--loud"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nosuch", "words"], "say: no program is configured as `nosuch words`, and nothing else is run ["),
        (["say", "wrods"], "say: no program is configured as `say wrods`, and nothing else is run ["),
        (["other", "upper", "a"], "'other' is a source of kind 'python' [tool: other.upper]"),
        (["say", "words", "--cuont=3", "a"], "say.words has no parameter --cuont [did you mean --count?]"),
        (["say", "words", "-n", "a"], "'-n' is not a flag of say.words [parameters have the names"),
        (["say", "words", "a", "b"], "nothing takes the word 'b' [say what it is: --count=b]"),
        (["say", "words", "--count=many", "a"], "--count must be an integer, not 'many'"),
        (["say", "words"], "`first` is missing: nothing provides it"),
        (["say", "words", "${nobody}"], "there is no node, input or key 'nobody'"),
    ],
)
async def test_a_mistake_is_named_before_anything_runs(
    words: list[Any], expected: str, tmp_path: Path
) -> None:
    async with opened(tmp_path) as app:
        document = flow(*words)
        found = await problems(app, document)
        assert any(expected in problem for problem in found), found
        with pytest.raises(BrokenFlowError):
            await app.run_flow(from_document(document))


async def test_a_program_that_is_not_configured_has_the_line_that_configures_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as app:
        (found,) = await problems(app, flow("git", "log"))
    assert "`spindle add git --cli git log`" in found


async def test_the_place_of_a_mistake_is_the_line_of_run(tmp_path: Path) -> None:
    text = "nodes:\n- id: say\n  description: x\n  run: [git, log]\n"
    loaded = read(text, "yaml", "flows/f.yaml")
    async with opened(tmp_path) as app:
        (problem,) = await check(loaded.definition, app.show, loaded.positions, loaded.place)
    assert str(problem).startswith("flows/f.yaml:4: ")


def test_a_text_is_no_list_of_words() -> None:
    with pytest.raises(BrokenFlowError) as raised:
        from_document({"nodes": [{"id": "a", "run": "git log"}]})
    assert "no shell reads it" in str(raised.value.hint)


async def test_it_is_a_node_like_that_of_a_tool(tmp_path: Path) -> None:
    """Batch, approval, plan, picture, saved and read again, and in the history under the tool's name."""
    document = flow("say", "words", "${item}", batch={"over": ["a", "b"], "reduce": "${len(results)}"})
    definition = from_document(document)
    assert read(write(definition, "yaml"), "yaml").definition == definition
    async with opened(tmp_path) as app:
        outcome = await app.run_flow(definition)
        assert isinstance(outcome, Finished)
        assert outcome.result.structured == 2
        _, _, (*_, event) = await app.flows.trace(outcome.run_id)
        assert (event.node, event.tool) == ("say", "say.words")
        assert event.inputs == [{"first": "a"}, {"first": "b"}]
        (planned,) = await plan(definition, {"name": "x"}, app.show)
        assert planned.tool == "say.words"
        assert "say.words" in mermaid(definition)
        saved = await with_fingerprints(definition, app.show)
        assert read(write(saved, "json"), "json").definition == saved
        assert '"run"' in write(saved, "json")
        paused = await app.run_flow(from_document(flow("say", "words", "a", approval="required")))
        assert isinstance(paused, Paused)
        done = await app.resume(paused.pauses[0].token, True)
        assert isinstance(done, Finished)
        assert done.result.structured == ["--", "a"]


async def test_a_program_that_fails_takes_the_edge_of_its_error(tmp_path: Path) -> None:
    document = flow("broken", "it")
    document["nodes"].append({"id": "sorry", "transform": {"line": "${say.error.category}"}})
    document["edges"] = [{"from": "say", "to": "sorry", "action": "error"}]
    async with opened(tmp_path) as app:
        outcome = await app.run_flow(from_document(document))
    assert isinstance(outcome, Finished)
    assert outcome.result.structured == {"line": "tool"}


async def test_a_program_in_python(tmp_path: Path) -> None:
    async with opened(tmp_path) as app:
        outcome = await app.run_flow(Flow(ToolNode.of_program("say", "words", "hello", "--count", 2)))
        assert isinstance(outcome, Finished)
        assert outcome.result.structured == ["--count=2", "--", "hello"]
        with pytest.raises((NotFoundError, BrokenFlowError), match="no program is configured"):
            await app.run_flow(Flow(ToolNode.of_program("git", "log")))
        with pytest.raises((InvalidArgumentsError, BrokenFlowError), match="has no parameter"):
            await app.run_flow(Flow(ToolNode.of_program("say", "words", "--no-such")))
