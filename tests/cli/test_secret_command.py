"""`spindle secret`: the value comes from a pipe or a hidden prompt, and is never shown again."""

from __future__ import annotations

from servers.shell import Run, Workspace

TOOL = """
from spindle import tool

@tool
def post(text: str, header: str) -> str:
    return f"posted {text}, {len(header)} characters"
"""
FLOW = "version: 1\nnodes:\n- {id: post, tool: post, params: {text: hi, header: '${secrets.KEY}'}}\n"


def set_up(workspace: Workspace) -> None:
    for name, text in (("tools/t.py", TOOL), ("flows/f.yaml", FLOW)):
        file = workspace.root / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


def test_a_secret_is_set_read_by_a_flow_and_removed(workspace: Workspace, program: Run) -> None:
    set_up(workspace)
    missing = program("run", "-q", "f")
    assert missing.code == 3
    assert "no secret 'KEY'" in missing.err
    done = program("secret", "set", "KEY", stdin="very-secret-value\n")
    assert done.code == 0, done.err
    assert done.out == "sealed KEY\n"
    assert program("run", "-q", "f").out == "posted hi, 17 characters\n"
    listed = program("secret", "list")
    assert listed.out.split()[:3] == ["KEY", "sealed", "local"]
    traced = program("trace", "--json")
    assert traced.json["nodes"][0]["inputs"] == {"text": "hi", "header": "•••"}
    assert program("secret", "remove", "KEY").code == 0
    again = program("secret", "remove", "KEY")
    assert (again.code, "no secret 'KEY'" in again.err) == (3, True)
    outputs = (done, listed, traced, again)
    assert not any("very-secret-value" in one.out + one.err for one in outputs)
    files = [file for file in workspace.root.rglob("*") if file.is_file()]
    assert not any(b"very-secret-value" in file.read_bytes() for file in files)


def test_mistakes_get_a_way_out(workspace: Workspace, program: Run) -> None:
    set_up(workspace)
    assert "pipe it in" in program("secret", "set", "KEY").err
    assert "cannot be the name" in program("secret", "set", "a b", stdin="value").err
    assert "there is no source 'nowhere'" in program("secret", "set", "nowhere.KEY", stdin="value").err
    assert program("secret", "set", "KEY", "value-as-argument", stdin="value").code == 2
    (workspace.root / "spindle.toml").write_text('[secrets]\nKEY = "in clear"\n')
    wrong = program("secret", "list")
    assert "must say where the secret is, not what it is" in wrong.err
    assert "in clear" not in wrong.err


def test_a_dry_run_shows_no_secret(workspace: Workspace, program: Run) -> None:
    set_up(workspace)
    flow = FLOW.replace("version: 1\n", "version: 1\ninputs: {pin: {type: string, writeOnly: true}}\n")
    (workspace.root / "flows" / "f.yaml").write_text(flow.replace("text: hi", "text: 'pin ${pin}'"))
    for words in ((), ("--json",)):
        shown = program("run", "f", "--pin=987654", "--dry-run", *words)
        assert shown.code == 0, shown.err
        assert "987654" not in shown.out
        assert "pin •••" in shown.out
