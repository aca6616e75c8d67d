"""What people write into flow files out of habit: one message with the line, and the way out."""

from __future__ import annotations

import pytest

from spindle.flows.problems import BrokenFlowError
from spindle.flows.text.files import read

NODE = "version: 1\nnodes:\n- {id: a, tool: upper, params: {text: x}"


def problems_of(text: str) -> list[tuple[int | None, str, str | None]]:
    with pytest.raises(BrokenFlowError) as caught:
        read(text, "yaml", "f.yaml")
    return [(problem.line, problem.message, problem.hint) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("", None, "a flow is an object with `nodes`, not null", "nodes: [{id: a, tool: NAME}]"),
        ("version: 1\nnodes: {a: {tool: upper}}\n", 2, "`nodes` must be a list, not an object", "- {id: a,"),
        (
            "version: 1\nnodes: [upper]\n",
            2,
            "`nodes[0]` must be an object, not a string",
            "{id: a, tool: NAME}",
        ),
        (f"{NODE}}}\nedges: [a >> b]\n", 4, "`edges[0]` must be an object, not a string", "{from: a, to: b}"),
        (f"{NODE}}}\nedges: {{from: a, to: a}}\n", 4, "`edges` must be a list, not an object", "- {from: a"),
        (f"{NODE}}}\ninputs: {{q: string}}\n", 4, "`inputs.q` must be an object", "{type: string}"),
        (f"{NODE}}}\ninputs: [q]\n", 4, "`inputs` must be an object, not a list", "{text: {type: string}}"),
        (f"{NODE}}}\noutputs: ['x']\n", 4, "`outputs` must be an object", '{result: "${NODE.key}"}'),
        (f"{NODE}, retry: 3}}\n", 3, "`nodes[0].retry` must be an object, not an integer", "{attempts: 3"),
        (f"{NODE}, timeout: 5s}}\n", 3, "`nodes[0].timeout` must be a number, not a string", "seconds"),
        (
            "version: 1\nnodes: [{id: a, flow: other}]\n",
            2,
            "`nodes[0].flow` must be an object",
            "`tool: NAME`",
        ),
        ("version: '1'\nnodes: [{id: a, tool: b}]\n", 1, '`version` must be 1, not "1"', "without quotes"),
        ("version: 2\nnodes: [{id: a, tool: b}]\n", 1, "`version` must be 1, not 2", "a newer Spindle"),
        (f"{NODE}, needs: [b]}}\n", 3, "`nodes[0]` has no key 'needs'", "`edges`"),
        (f"{NODE}, type: mcp_wrapper}}\n", 3, "`nodes[0]` has no key 'type'", "`tool`: SOURCE.TOOL"),
        (f"{NODE}, with: {{a: 1}}}}\n", 3, "`nodes[0]` has no key 'with'", "`params`"),
        (f"{NODE}, on_error: b}}\n", 3, "`nodes[0]` has no key 'on_error'", "action: error"),
        (f"{NODE}, foreach: [1]}}\n", 3, "`nodes[0]` has no key 'foreach'", "batch: {over:"),
        (f"{NODE}, tol: x}}\n", 3, "`nodes[0]` has no key 'tol'", "did you mean 'tool'?"),
        (f"{NODE}}}\nsteps: []\n", 4, "the flow has no key 'steps'", "its steps are `nodes`"),
        (
            "version: 1\nnodes:\n- {id: a, tool: b, params: {text: ${x}}}\n",
            3,
            "this is not YAML",
            'in quotes: "${…}"',
        ),
        (
            f"{NODE}}}\n---\n{NODE}}}\n",
            4,
            "this is not YAML: a second document begins here",
            "leave out `---`",
        ),
    ],
)
def test_a_habit_gets_its_line_and_the_way_out(
    text: str, line: int | None, message: str, hint: str | None
) -> None:
    ((found_line, found, found_hint),) = problems_of(text)
    assert found_line == line
    assert found.startswith(message)
    assert (found_hint is None) if hint is None else (hint in (found_hint or ""))
