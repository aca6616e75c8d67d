"""Names that every model API takes."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from spindle.domain.names import LONGEST, SAFE, served_names

names = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=100),
        st.from_regex(r"[ab]{1,2}[._][ab]{1,3}([._ ][ab])?", fullmatch=True),
        st.text("ab._", min_size=60, max_size=130),
    ),
    unique=True,
    max_size=30,
)


@given(names)
def test_every_name_is_safe_and_belongs_to_one_tool(full: list[str]) -> None:
    served = served_names(full)
    assert set(served) == set(full)
    assert all(SAFE.fullmatch(name) for name in served.values())
    assert len(set(served.values())) == len(full)


@given(names, st.randoms())
def test_the_order_of_the_tools_does_not_matter(full: list[str], chance: random.Random) -> None:
    shuffled = list(full)
    chance.shuffle(shuffled)
    assert served_names(full) == served_names(shuffled)


@given(names)
def test_a_safe_name_is_kept(full: list[str]) -> None:
    served = served_names(full)
    assert all(served[name] == name for name in full if SAFE.fullmatch(name))


def test_a_dot_becomes_an_underscore_and_only_clashes_are_marked() -> None:
    served = served_names(["github.search", "a.b_c", "a_b.c", "x"])
    assert served["github.search"] == "github_search"
    assert served["x"] == "x"
    assert served["a.b_c"] != served["a_b.c"]
    assert served["a.b_c"].startswith("a_b_c_")


def test_of_two_long_names_that_begin_alike_both_are_told_apart() -> None:
    one, two = "s." + "x" * 100 + "1", "s." + "x" * 100 + "2"
    served = served_names([one, two])
    assert served[one] != served[two]
    assert len(served[one]) == len(served[two]) == LONGEST


def test_full_names_are_served_as_they_are() -> None:
    assert served_names(["a.b", "c d"], "full") == {"a.b": "a.b", "c d": "c d"}
