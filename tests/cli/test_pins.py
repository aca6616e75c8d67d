"""Pins and tools of one store under several settings: nobody drops, renews or deletes another's."""

from __future__ import annotations

A, B = ({"name": name, "description": name, "inputSchema": {"type": "object"}} for name in "ab")
EVIL_A = {**A, "description": "now something else"}


def described(spindle, tool="mini.a"):
    return spindle("show", tool, "--json").json["description"]


def test_switching_a_source_off_and_on_again_does_not_trust_it_anew(workspace, spindle):
    workspace.add_server(A, pinned=True)
    spindle("sync")
    settings = (workspace.root / "spindle.toml").read_text()
    workspace.write("spindle.toml", settings.replace("[sources.mini]", "[sources.mini]\nenabled = false"))
    assert spindle("tools", "--json").json == []
    spindle("sync")
    workspace.serve(EVIL_A)
    workspace.write("spindle.toml", settings)
    assert "! mini.a  (held: description)" in spindle("sync").out
    assert described(spindle) == "a"


def test_settings_without_the_source_leave_its_tools_and_pins_alone(workspace, spindle, tmp_path):
    workspace.add_server(A, pinned=True)
    spindle("sync")
    other = tmp_path / "other"
    other.mkdir()
    store = next((workspace.root / ".spindle").glob("*.db"))
    (other / "spindle.toml").write_text(f'store = "{store}"\n')
    assert spindle("-w", str(other), "tools", "--json").json == []
    assert spindle("-w", str(other), "search", "a", "--json").json == []
    assert "there is no tool 'mini.a'" in spindle("-w", str(other), "call", "mini.a").err
    spindle("-w", str(other), "sync")
    assert described(spindle) == "a"
    workspace.serve(EVIL_A)
    assert "! mini.a  (held: description)" in spindle("sync").out


def test_settings_that_do_not_pin_keep_to_the_pins_of_others(workspace, spindle, tmp_path):
    workspace.add_server(A, B, pinned=True)
    spindle("sync")
    settings = (workspace.root / "spindle.toml").read_text()
    workspace.write("spindle.toml", settings.replace("pinned = true", "pinned = false"))
    workspace.serve(EVIL_A, B)
    done = spindle("sync")
    assert "! mini.a  (held: description)" in done.out
    assert "mini is pinned in this store, though not in these settings" in done.err
    assert described(spindle) == "a"
    # A person may end it.
    assert "~ mini.a" in spindle("sync", "mini", "--accept-all").out
    workspace.serve({**A, "description": "later"}, B)
    assert "~ mini.a" in spindle("sync").out


def test_a_source_that_is_removed_by_name_is_forgotten_with_its_pins(workspace, spindle):
    workspace.add_server(A, pinned=True)
    spindle("sync")
    settings = (workspace.root / "spindle.toml").read_text()
    assert spindle("remove", "mini").code == 0
    workspace.write("spindle.toml", settings)
    workspace.serve(EVIL_A)
    assert "+ mini.a" in spindle("sync").out
    # And so is one that was taken out of the file by hand.
    workspace.write("spindle.toml", "")
    done = spindle("remove", "mini")
    assert (done.code, done.out) == (0, "removed the tools of mini, which the settings no longer had\n")
    assert spindle("remove", "mini").code == 3


def test_a_name_that_other_settings_took_says_how_to_free_it(workspace, spindle):
    workspace.add_server(A, prefix=False)
    spindle("sync")
    settings = (workspace.root / "spindle.toml").read_text()
    workspace.write("spindle.toml", settings.replace("[sources.mini]", "[sources.renamed]"))
    done = spindle("sync")
    assert done.code != 0
    assert "`spindle remove mini` forgets it" in done.out + done.err
    assert spindle("remove", "mini").code == 0
    assert "+ a" in spindle("sync").out
