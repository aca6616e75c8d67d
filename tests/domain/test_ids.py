"""Random ids."""

from __future__ import annotations

import os

from spindle.domain.ids import new_id


def test_no_id_comes_twice() -> None:
    made = [new_id() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(len(item) == 32 and int(item, 16) >= 0 for item in made)


def test_a_forked_process_draws_ids_of_its_own() -> None:
    new_id()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, new_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 32).decode() not in {new_id() for _ in range(64)}
    os.close(reading)
    os.close(writing)
