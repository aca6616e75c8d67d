"""How the nodes of a run stand, and their picture."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from spindle.console.flow_picture import flow_picture
from spindle.domain.run import RunEvent
from spindle.flows.standing import node_of, standings
from spindle.flows.text.document import from_document
from spindle.flows.trace import NodeEvent


def flow(**more: Any) -> Any:
    nodes = [{"id": name, "tool": f"t.{name}"} for name in ("one", "two", "three", "mend")]
    edges = [
        {"from": "one", "to": "two"},
        {"from": "two", "to": "three"},
        {"from": "two", "to": "mend", "action": "error"},
    ]
    return from_document({"name": "f", "nodes": nodes, "edges": edges, **more})


def ended(node: str, at: float, **more: Any) -> NodeEvent:
    return NodeEvent(node, 1, "ended", at, duration=0.5, **more)


def states(definition: Any, *given: Any, **more: Any) -> dict[str, str]:
    return {place: one.state for place, one in standings(definition, *given, **more).items()}


def test_what_is_at_work_follows_from_what_has_ended() -> None:
    assert states(flow(), [], "running") == {"one": "running", "two": "open", "three": "open", "mend": "open"}
    assert states(flow(), [], "queued")["one"] == "open"
    assert states(flow(), [], "running", start="two")["two"] == "running"
    one = ended("one", 1)
    assert states(flow(), [one], "running") == {
        "one": "done",
        "two": "running",
        "three": "open",
        "mend": "open",
    }
    assert states(flow(), [one], "paused")["two"] == "waiting"
    assert states(flow(), [one], "cancelled") == {
        "one": "done",
        "two": "skipped",
        "three": "skipped",
        "mend": "skipped",
    }


def test_an_error_leads_along_its_own_edge_or_to_the_end() -> None:
    failed = ended("two", 2, error={"message": "no luck"}, action="error")
    found = standings(flow(), [ended("one", 1), failed], "running")
    assert {place: one.state for place, one in found.items()} == {
        "one": "done",
        "two": "failed",
        "three": "open",
        "mend": "running",
    }
    assert found["two"].words == "failed after 0.50 s: no luck"
    last = ended("two", 2, error={"message": "no luck"})
    assert states(flow(), [ended("one", 1), last], "failed")["mend"] == "skipped"
    assert "running" not in states(flow(), [ended("one", 1), last], "running").values()


def test_a_call_on_record_is_done_before_its_visit_is() -> None:
    steps = [
        RunEvent("r", "step", 1.0, "/flow:x:0/t.one:y:0"),
        RunEvent("r", "step", 2.0, "/flow:x:0/t.two:y:0"),
        RunEvent("r", "step", 2.0, "/flow:x:0/t.two:y:0/t.three:z:0"),
    ]
    found = states(flow(), [ended("one", 1)], "running", steps)
    # The edge that it takes is not known yet: it may be that of an error.
    assert found["two"] == "running"
    plain = from_document(
        {
            "nodes": [{"id": name, "tool": f"t.{name}"} for name in ("one", "two", "three")],
            "edges": [{"from": "one", "to": "two"}, {"from": "two", "to": "three"}],
        }
    )
    assert states(plain, [ended("one", 1)], "running", steps) == {
        "one": "done",
        "two": "done",
        "three": "running",
    }


def test_a_loop_is_at_work_again_and_flows_inside_have_their_own_nodes() -> None:
    loop = flow()
    again = [
        ended("one", 1),
        ended("two", 2),
        ended("three", 3),
        NodeEvent("two", 2, "ended", 4, duration=0.5),
    ]
    assert states(loop, again, "running")["three"] == "running"
    inner = {
        "nodes": [{"id": "a", "tool": "t.a"}, {"id": "b", "tool": "t.b"}],
        "edges": [{"from": "a", "to": "b"}],
    }
    outer = from_document({"nodes": [{"id": "each", "flow": inner}]})
    found = states(outer, [ended("each[3]/a", 1), ended("each:2[11]/a", 2)], "running")
    assert found == {"each": "running", "each/a": "done", "each/b": "running"}
    assert node_of("each:2[11]~1/a:3") == "each/a"


def test_branches_work_at_the_same_time_and_meet_later() -> None:
    nodes = [
        {"id": "s", "tool": "t.s"},
        {"id": "a", "tool": "t.a"},
        {"id": "b", "tool": "t.b"},
        {"id": "m", "tool": "t.m", "join": "all"},
    ]
    pairs = [("s", "a"), ("s", "b"), ("a", "m"), ("b", "m")]
    forked = from_document({"nodes": nodes, "edges": [{"from": x, "to": y} for x, y in pairs]})
    assert states(forked, [ended("s", 1)], "running") == {
        "s": "done",
        "a": "running",
        "b": "running",
        "m": "open",
    }
    assert states(forked, [ended("s", 1), ended("a", 2)], "running")["m"] == "open"
    assert states(forked, [ended("s", 1), ended("a", 2), ended("b", 2)], "running")["m"] == "running"


def test_the_picture_says_each_state_in_words_and_signs() -> None:
    definition = flow(name="<script>")
    failed = ended("two", 2, error={"message": "</title><script>x</script>\u202e"})
    found = standings(definition, [ended("one", 1), failed], "failed")
    drawn = flow_picture(definition, found, lambda place: f"#node-{place}")
    assert "<script" not in drawn
    assert "<style" not in drawn
    assert "\u202e" not in drawn
    root = ElementTree.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    groups = [group.get("class") for group in root.iter(f"{space}g") if "state" in (group.get("class") or "")]
    assert sorted(groups) == ["state done", "state failed", "state skipped", "state skipped"]
    links = {link.get("href"): link.findtext(f"{space}g/{space}title") for link in root.iter(f"{space}a")}
    assert links["#node-one"] == "one\nt.one\ndone after 0.50 s"
    assert set(links) == {"#node-one", "#node-two"}
    assert len(list(root.iter(f"{space}circle"))) == 1 + 4  # the beginning, and a sign for each
    assert ElementTree.fromstring(flow_picture(definition)).get("role") == "img"
