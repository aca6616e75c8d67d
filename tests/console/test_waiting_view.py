"""What waits for a person as plain data, and as a page, without a browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from servers.asking import ORDER, asking
from servers.rest import Served
from servers.running import PATIENCE


class Visitor:
    """Somebody who signed in with their token."""

    def __init__(self, served: Served, user: str) -> None:
        self.client = httpx2.Client(base_url=served.url, timeout=PATIENCE, headers={"accept": "text/html"})
        form = {"token": f"token-of-{user}"}
        entered = self.client.post("/console/enter", data=form, headers={"origin": served.url})
        assert entered.status_code == 303, entered.text

    def page(self, path: str, part: str | None = None) -> httpx2.Response:
        headers = {"hx-request": "true", "hx-target": f"div#{part}"} if part else {}
        return self.client.get(f"/console{path}", headers=headers)

    def answer(self, token: str, body: Any, *, marked: bool = True) -> httpx2.Response:
        found = re.search(r'name="csrf" content="(\w+)"', self.page("/waiting").text)
        assert found is not None
        headers = {"x-spindle-csrf": found[1]} if marked else {}
        return self.client.post(f"/pauses/{token}", json=body, headers=headers)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with asking(tmp_path_factory.mktemp("waiting") / "rest").serve() as running:
        yield running


@pytest.fixture
def visit(served: Served) -> Iterator[Callable[[str], Visitor]]:
    visitors = list[Visitor]()

    def visit(user: str) -> Visitor:
        visitors.append(Visitor(served, user))
        return visitors[-1]

    yield visit
    for visitor in visitors:
        visitor.client.close()


def test_a_page_shows_what_its_visitor_may_answer_and_nothing_else(
    served: Served, visit: Callable[[str], Visitor]
) -> None:
    ann, bob, eve = visit("ann"), visit("bob"), visit("eve")
    headers = {"authorization": "Bearer token-of-ann"}
    asked = httpx2.post(f"{served.url}/tools/order", json=ORDER, headers=headers, timeout=PATIENCE)
    assert asked.status_code == 202
    listed = bob.page("/waiting").text
    found = re.search(r"/console/waiting/(\w+)", listed)
    assert found is not None
    token = found[1]
    assert '<span class="count" id="waiting-count"' in listed
    whole = bob.page(f"/waiting/{token}").text
    assert "The exact arguments" in whole
    assert 'value="approve"' in whole
    assert "&#34;customer&#34;: &#34;ann&#34;" in whole
    # Whoever asked sees that it waits for another; others see nothing at all.
    own = ann.page(f"/waiting/{token}").text
    assert "Somebody else has to approve this" in own
    assert 'value="approve"' not in own
    assert "Nothing waits for you." in eve.page("/waiting").text
    assert eve.page(f"/waiting/{token}").status_code == 404
    assert bob.page("/waiting/nothing").status_code == 404
    # A request without the mark of the page changes nothing.
    assert bob.answer(token, {"answer": {"approved": True}}, marked=False).status_code == 403
    assert bob.page(f"/waiting/{token}", "pause-state").text.count("data-over") == 0
    assert bob.answer(token, {"answer": {"approved": True}}).status_code == 200
    state = bob.page(f"/waiting/{token}", "pause-state").text
    assert "<html" not in state
    assert "data-over" in state
    assert "approved" in state
    assert "<strong>bob</strong>" in state
    late = ann.page(f"/waiting/{token}").text
    assert "by <strong>bob</strong>" in late
    assert "data-pause" not in late
