"""Answers that are files: streamed to the file store, within bounds."""

import asyncio
import itertools
import tracemalloc
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

import pytest

from servers.echo_server import Answer, Api, EchoServer, OpenApi, a_document
from servers.running import PATIENCE
from spindle.domain.call import Call
from spindle.errors import ConnectionFailedError, ResultTooLargeError, StoreError
from spindle.stores.files import FolderFileStore

DOCUMENT = a_document({"/file": {"get": {"operationId": "file", "responses": {}}}})
ZIP = {"content-type": "application/zip", "content-disposition": 'attachment; filename="a.zip"'}
PIECE = bytes(range(256)) * 256


@pytest.fixture
async def api(open_api: OpenApi, echo: EchoServer) -> AsyncIterator[Api]:
    async with open_api(
        DOCUMENT, base_url=echo.url, max_result_size=1_000_000, max_download_size="50MB"
    ) as api:
        yield api


def a_call(folder: Path) -> Call:
    return Call("file", {}, files=FolderFileStore(folder))


async def test_a_large_file_goes_to_the_store_without_being_held(
    api: Api, echo: EchoServer, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    echo.answers["/file"] = Answer(headers=ZIP, pieces=itertools.repeat(PIECE, 480))
    tracemalloc.start()
    try:
        result = await api.session.invoke(api.tools["file"], a_call(folder))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    [block] = result.content
    size = 480 * len(PIECE)
    assert (block.type, block.name, block.size, block.data) == ("resource", "a.zip", size, None)
    assert block.path is not None
    assert Path(block.path).suffix == ".zip"
    assert Path(block.path).read_bytes() == PIECE * 480
    assert peak < size / 3
    assert [str(path) for path in folder.iterdir()] == [block.path]


async def test_a_small_file_stays_in_the_result(api: Api, echo: EchoServer, tmp_path: Path) -> None:
    echo.answers["/file"] = Answer(b"PK", headers=ZIP)
    result = await api.session.invoke(api.tools["file"], a_call(tmp_path / "files"))
    assert (result.content[0].data, result.content[0].path) == ("UEs=", None)
    assert not (tmp_path / "files").exists()


async def test_a_file_over_the_limit_leaves_nothing(api: Api, echo: EchoServer, tmp_path: Path) -> None:
    echo.answers["/file"] = Answer(headers=ZIP, pieces=itertools.repeat(PIECE))
    with pytest.raises(ResultTooLargeError, match="larger than 50000000 bytes") as caught:
        await api.session.invoke(api.tools["file"], a_call(tmp_path / "files"))
    assert "sources.api.max_download_size" in (caught.value.hint or "")
    assert list((tmp_path / "files").iterdir()) == []


async def test_a_file_that_breaks_off_leaves_nothing(api: Api, echo: EchoServer, tmp_path: Path) -> None:
    echo.answers["/file"] = Answer(PIECE * 40, headers=ZIP, break_off=True)
    with pytest.raises(ConnectionFailedError, match="lost 'api' while it answered"):
        await api.session.invoke(api.tools["file"], a_call(tmp_path / "files"))
    assert list((tmp_path / "files").iterdir()) == []


async def test_a_cancelled_download_leaves_nothing(api: Api, echo: EchoServer, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    echo.answers["/file"] = Answer(headers=ZIP, pieces=itertools.repeat(PIECE, 100), then=asyncio.Event())
    begun = asyncio.Event()

    class Watched(FolderFileStore):
        async def keep_stream(self, chunks: AsyncIterable[bytes], mime_type: str | None) -> str:
            async def watched() -> AsyncIterator[bytes]:
                async for chunk in chunks:
                    yield chunk
                    begun.set()

            return await super().keep_stream(watched(), mime_type)

    call = Call("file", {}, files=Watched(folder))
    task = asyncio.create_task(api.session.invoke(api.tools["file"], call))
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
    assert [path.suffix for path in folder.iterdir()] == [".part"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(folder.iterdir()) == []


async def test_a_store_that_cannot_be_written_says_so(api: Api, echo: EchoServer, tmp_path: Path) -> None:
    (tmp_path / "files").write_text("a file in the place of the folder")
    echo.answers["/file"] = Answer(headers=ZIP, pieces=itertools.repeat(PIECE, 10))
    with pytest.raises(StoreError, match="cannot keep a file"):
        await api.session.invoke(api.tools["file"], a_call(tmp_path / "files"))


async def test_the_same_content_is_kept_once(tmp_path: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"pic"
        yield b"ture"

    store = FolderFileStore(tmp_path)
    assert await store.keep(b"picture", "image/png") == await store.keep_stream(pieces(), "image/png")
