"""Work on what came from outside, beside the event loop and out of the collector's way."""

from __future__ import annotations

import gc
import weakref

from spindle.threads import MANY_OBJECTS, without_collector


class Node:
    other: Node


def test_many_new_objects_do_not_hold_up_the_next_look_at_young_ones() -> None:
    made = without_collector(lambda: [[] for _ in range(4 * MANY_OBJECTS)])
    assert gc.isenabled()
    assert len(gc.get_objects(generation=0)) < MANY_OBJECTS
    assert len(made) == 4 * MANY_OBJECTS


def test_circles_among_them_are_still_found() -> None:
    def circle() -> weakref.ref[Node]:
        one, two = Node(), Node()
        one.other, two.other = two, one
        kept = [[] for _ in range(4 * MANY_OBJECTS)]
        assert kept
        return weakref.ref(one)

    found = without_collector(circle)
    gc.collect()
    assert found() is None


def test_a_little_work_leaves_the_generations_alone() -> None:
    gc.collect()
    made = without_collector(lambda: [Node()])
    assert any(known is made[0] for known in gc.get_objects(generation=0))
