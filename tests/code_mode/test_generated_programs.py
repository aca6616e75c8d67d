"""Random programs in the sandbox: none hangs, and none makes a call that it may not make."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spindle
from servers.examples import examples
from servers.running import PATIENCE
from spindle import Principal, tool
from spindle.app import Spindle
from spindle.calls.options import CallOptions
from spindle.code_mode.limits import ProgramError
from spindle.domain.identity import LOCAL
from spindle.errors import InvalidArgumentsError
from spindle.runs.outcomes import Finished

LIMITS = {"seconds": 2.0, "memory": 30, "calls": 6}
GUEST = Principal("guest")
made: list[tuple[str, Any]] = []


@tool
def double(number: int) -> int:
    """Double it."""
    made.append(("double", number))
    return number * 2


@tool
def broken() -> int:
    """Fail."""
    made.append(("broken", None))
    raise ValueError("broken")


@tool
def hidden(number: int = 0) -> int:
    """Only for the owner."""
    made.append(("hidden", number))
    return number


class Programs:
    """A workspace in which programs are executed, for somebody who may not see everything."""

    def __init__(self, root: Path) -> None:
        (root / "spindle.toml").touch()
        self._root = root
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self._opened = spindle.open(self._root, tools=[double, broken, hidden], visible=_sees)
        self._app: Spindle = self._runner.run(self._opened.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._opened.__aexit__(None, None, None))
        self._runner.close()

    def run(self, code: str, principal: Principal) -> Any:
        async def run() -> Any:
            async with asyncio.timeout(PATIENCE * 2):
                given = {"code": code, "limits": LIMITS}
                return await self._app.runner.start("code", "run_code", given, CallOptions(principal))

        made.clear()
        return self._runner.run(run())


def _sees(principal: Principal, name: str) -> bool:
    return principal.id != "guest" or name != "hidden"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    with Programs(tmp_path_factory.mktemp("programs")) as found:
        assert isinstance(found.run("import python\nawait python.hidden(number=3)", LOCAL), Finished)
        assert made == [("hidden", 3)]
        yield found


HEAD = """
import asyncio
import python
from typing import Any

def anything(value: Any) -> Any:
    return value

x = anything(1)
m = anything(python)
"""
"""With it a program gets past the type checker, whose word the host must not rely on."""
VALUES = st.sampled_from(
    ["0", "-7", "x", "'text'", "None", "[1]", "{'a': 1}", "10 ** 30", "x['a']", "(1,)", "b'x'", "1", "2", "3"]
)
GIVEN = st.builds(
    "{}anything({})".format, st.sampled_from(["number="] * 4 + ["other=", "*", "**", ""]), VALUES
)
CALLS = st.builds("m.{}({})".format, st.sampled_from(["double"] * 4 + ["broken", "hidden", "missing"]), GIVEN)
EXPRESSIONS = st.recursive(
    VALUES | st.builds("await {}".format, CALLS),
    lambda inner: (
        st.builds("await asyncio.gather({}, {}, anything({}))".format, CALLS, CALLS, CALLS)
        | st.builds("[{} for y in range(3)]".format, inner)
        | st.builds("anything({})".format, CALLS)
        | st.builds("str({})".format, inner)
    ),
    max_leaves=4,
)
ODD = (
    "import os",
    "import python as p",
    "raise ValueError('x')",
    "m.hidden = m.double",
    "x = anything(m.__dict__)",
    "m = anything(eval('python.hidden'))",
    "print(m, x)",
    "await asyncio.sleep(1)",
    "m = anything(m.double)",
)
HEADS = ("while True:", "for x in anything(range(20)):", "if x:", "async def f():", "try:", "try:", "try:")


def _block(head: str, lines: list[str]) -> str:
    inside = [f"    {part}" for line in lines for part in line.split("\n")]
    return "\n".join([head, *inside, *(["except BaseException:", "    pass"] if head == "try:" else [])])


LINES = st.recursive(
    st.builds("x = anything({})".format, EXPRESSIONS)
    | st.builds("x = anything({})".format, EXPRESSIONS)
    | st.sampled_from(ODD),
    lambda inner: st.builds(_block, st.sampled_from(HEADS), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=6,
)
PROGRAMS = st.lists(LINES, min_size=1, max_size=4).map(lambda lines: "\n".join([HEAD, *lines, "x"]))


@examples(40)
@given(PROGRAMS)
def test_no_program_hangs_or_calls_what_it_may_not(programs: Programs, program: str) -> None:
    with contextlib.suppress(InvalidArgumentsError, ProgramError):
        assert isinstance(programs.run(program, GUEST), Finished)
    assert all(name != "hidden" for name, _ in made)
    assert len(made) <= LIMITS["calls"]
    assert all(isinstance(number, int) for name, number in made if name == "double")
