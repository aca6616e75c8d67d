"""A model behind an endpoint, asked over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from counting import meaning_of
from endpoint_server import Endpoint, serving

import spindle
from spindle.embedders import endpoint as module
from spindle.embedders.endpoint import EndpointEmbedder
from spindle.errors import SpindleError
from spindle.settings.search import SearchSettings

KEY = "sk-planted-in-the-test"
TOOLS = '''
from spindle import tool


@tool
def ahead(place: str) -> str:
    """The forecast of the coming days."""
    return place


@tool
def next_one() -> str:
    """Jump to another track."""
    return ""
'''


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as made:
        yield made


@pytest.fixture
async def embedder(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EndpointEmbedder]:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.0)
    made = EndpointEmbedder(
        SearchSettings(embedder="openai", base_url=endpoint.address, model="some-model", api_key=KEY)
    )
    yield made
    await made.close()


def listed(found: Sequence[Sequence[float]]) -> list[list[float]]:
    return [list(vector) for vector in found]


async def test_texts_and_key_are_sent_and_vectors_come_back_in_their_order(
    endpoint: Endpoint, embedder: EndpointEmbedder
) -> None:
    texts = ["a song", "the rain", "nothing"]
    assert listed(await embedder.embed(texts, "tool")) == [meaning_of(text) for text in texts]
    assert endpoint.asked == [{"model": "some-model", "input": texts}]
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    assert endpoint.address in embedder.model
    assert "some-model" in embedder.model


async def test_the_endpoint_is_asked_for_a_length(endpoint: Endpoint) -> None:
    wanted = SearchSettings(embedder="openai", base_url=endpoint.address, model="m", dimensions=5)
    made = EndpointEmbedder(wanted)
    await made.embed(["a"], "query")
    assert endpoint.asked[0]["dimensions"] == 5
    assert "authorization" not in endpoint.headers[0]
    assert made.model != EndpointEmbedder(SearchSettings(base_url=endpoint.address, model="m")).model
    await made.close()


async def test_no_request_has_more_texts_than_are_sent_at_once(
    endpoint: Endpoint, embedder: EndpointEmbedder
) -> None:
    texts = [f"song {number}" for number in range(300)]
    assert len(await embedder.embed(texts, "tool")) == 300
    assert [len(asked["input"]) for asked in endpoint.asked] == [128, 128, 44]


async def test_an_endpoint_that_takes_fewer_texts_gets_fewer_from_then_on(
    endpoint: Endpoint, embedder: EndpointEmbedder
) -> None:
    endpoint.answer = lambda asked: (413, {}, b"{}") if len(asked["input"]) > 20 else None
    texts = [("song " if number % 2 else "rain ") + str(number) for number in range(100)]
    assert listed(await embedder.embed(texts, "tool")) == [meaning_of(text) for text in texts]
    endpoint.asked.clear()
    await embedder.embed(texts, "tool")
    assert max(len(asked["input"]) for asked in endpoint.asked) <= 20


async def test_a_text_that_is_too_long_is_shortened(endpoint: Endpoint, embedder: EndpointEmbedder) -> None:
    endpoint.answer = lambda asked: (
        (400, {}, b'{"error": {"message": "too long"}}') if max(map(len, asked["input"])) > 600 else None
    )
    found = listed(await embedder.embed(["song " * 400, "rain"], "tool"))
    assert found[0][1] > 0
    assert found[1] == meaning_of("rain")
    endpoint.answer = lambda asked: (400, {}, b'{"error": {"message": "no such thing"}}')
    endpoint.asked.clear()
    with pytest.raises(SpindleError, match="no such thing"):
        await embedder.embed(["song " * 400, "rain"], "tool")
    assert len(endpoint.asked) < 10


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_passing_failure_is_asked_again(
    endpoint: Endpoint, embedder: EndpointEmbedder, status: int
) -> None:
    endpoint.answer = lambda _: (status, {"retry-after": "0"}, b"{}") if len(endpoint.asked) < 3 else None
    assert listed(await embedder.embed(["rain"], "tool")) == [meaning_of("rain")]
    assert len(endpoint.asked) == 3


async def test_an_endpoint_that_goes_on_failing_is_given_up(
    endpoint: Endpoint, embedder: EndpointEmbedder
) -> None:
    endpoint.answer = lambda _: (503, {}, b"{}")
    with pytest.raises(SpindleError) as caught:
        await embedder.embed(["rain"], "tool")
    assert caught.value.message == "the endpoint of search answered with HTTP status 503"
    assert len(endpoint.asked) == 4
    endpoint.asked.clear()
    with pytest.raises(SpindleError, match="503"):
        await embedder.embed(["rain"], "query")
    assert len(endpoint.asked) == 1, "a search does not wait"


async def test_an_endpoint_that_wants_an_hour_is_away(endpoint: Endpoint, embedder: EndpointEmbedder) -> None:
    endpoint.answer = lambda _: (429, {"retry-after": "3600"}, b"{}")
    with pytest.raises(SpindleError, match="429"):
        await embedder.embed(["rain"], "tool")
    assert len(endpoint.asked) == 1


async def test_a_refused_key_says_which_setting_it_is_and_not_the_key(
    endpoint: Endpoint, embedder: EndpointEmbedder
) -> None:
    endpoint.answer = lambda _: (401, {}, b'{"error": {"message": "invalid key"}}')
    with pytest.raises(SpindleError) as caught:
        await embedder.embed(["rain"], "tool")
    assert caught.value.hint == "set search.api_key"
    assert KEY not in f"{caught.value.message}{caught.value.details}{caught.value!r}"


async def test_the_key_is_not_taken_to_another_origin(endpoint: Endpoint, embedder: EndpointEmbedder) -> None:
    with serving() as other:
        endpoint.answer = lambda _: (307, {"location": f"{other.address}/embeddings"}, b"")
        with pytest.raises(SpindleError, match="another origin"):
            await embedder.embed(["rain"], "tool")
        assert other.asked == []


def one(vector: Any, index: Any = 0) -> bytes:
    return json.dumps({"data": [{"index": index, "embedding": vector}]}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html>", b"[]", b"{}", b'{"data": {}}', b'{"data": []}', b'{"data": [1]}', b'{"data": [{}]}',
        one(None), one("AAAA"), one([1.0], 1), one([1.0], -1), one([1.0], "0"), one([1.0], None),
        b'{"data": [{"embedding": [1]}, {"embedding": [1]}]}', b"[" * 100_000,
    ],
)  # fmt: skip
async def test_what_is_no_answer_is_an_error_with_a_sentence(
    endpoint: Endpoint, embedder: EndpointEmbedder, body: bytes
) -> None:
    endpoint.answer = lambda _: (200, {}, body)
    with pytest.raises(SpindleError, match="the endpoint of search did not answer with"):
        await embedder.embed(["rain"], "query")


async def test_a_vector_given_twice_is_refused(endpoint: Endpoint, embedder: EndpointEmbedder) -> None:
    item = {"index": 0, "embedding": [1.0]}
    endpoint.answer = lambda _: (200, {}, json.dumps({"data": [item, item]}).encode())
    with pytest.raises(SpindleError, match="one `embedding` for each `index`"):
        await embedder.embed(["rain", "song"], "query")


async def test_an_answer_that_is_too_large_is_not_read(
    endpoint: Endpoint, embedder: EndpointEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER", 1000)
    endpoint.answer = lambda _: (200, {}, one([1.0] * 1000))
    with pytest.raises(SpindleError, match="larger than 1000 bytes"):
        await embedder.embed(["rain"], "query")


# --- in a workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPINDLE_TRUST", "1")
    monkeypatch.setenv("PLANTED_KEY", KEY)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "some.py").write_text(TOOLS)
    return tmp_path


def configure(folder: Path, address: str) -> None:
    (folder / "spindle.toml").write_text(
        f'[search]\nembedder = "openai"\nbase_url = "{address}"\nmodel = "m"\napi_key = "${{PLANTED_KEY}}"\n'
        "timeout = 30\n"
    )


async def test_tools_are_found_by_the_model_of_an_endpoint_and_by_words_when_it_is_gone(
    workspace: Path,
) -> None:
    notes: list[str] = []
    with serving() as endpoint:
        configure(workspace, endpoint.address)
        async with spindle.open(workspace, note=notes.append) as app:
            await app.sync()
            assert app.catalog.meaning is not None
            await app.catalog.meaning.settled()
            assert [item.name for item in await app.search("do I need an umbrella", limit=1)] == ["ahead"]
            assert all(headers["authorization"] == f"Bearer {KEY}" for headers in endpoint.headers)
    assert notes == []
    async with spindle.open(workspace, note=notes.append) as app:
        assert list(await app.search("do I need an umbrella")) == []
        assert [item.name for item in await app.search("forecast")] == ["ahead"]
    assert len(notes) == 1
    assert "tools are found by their words alone: cannot reach the endpoint of search" in notes[0]
    assert KEY not in notes[0]


async def test_vectors_are_made_when_an_endpoint_that_was_away_is_back(workspace: Path) -> None:
    notes: list[str] = []
    with serving() as endpoint:
        configure(workspace, endpoint.address)
        endpoint.answer = lambda _: (401, {}, b"{}")
        async with spindle.open(workspace, note=notes.append) as app:
            await app.sync()
            meaning = app.catalog.meaning
            assert meaning is not None
            await meaning.settled()
            assert list(await app.search("umbrella")) == []
            endpoint.answer = lambda _: None
            meaning._away_until = 0.0
            await app.search("umbrella")
            await meaning.settled()
            assert [item.name for item in await app.search("umbrella", limit=1)] == ["ahead"]
    assert len(notes) == 1
