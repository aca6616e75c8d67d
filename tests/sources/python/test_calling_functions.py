from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import datetime
import enum
import functools
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

import spindle
from spindle import Block, CallOptions, Context, Principal, Result, ToolError, tool
from spindle.errors import InputRequired, InvalidArgumentsError, ServerError

PATIENCE = 30.0


class Color(enum.Enum):
    RED = "red"


class Point(BaseModel):
    x: int
    y: int = 0


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    when: datetime.date
    pair: tuple[int, int]


@dataclasses.dataclass
class Size:
    width: int


# --- arguments


async def test_arguments_arrive_as_the_types_that_were_asked_for(offer: Any) -> None:
    seen: list[Any] = []

    @tool
    def take(
        color: Color,
        point: Point,
        size: Size,
        when: datetime.datetime,
        path: Path,
        many: set[int],
        pair: tuple[int, str],
        strict: Strict,
        raw,
    ) -> None:
        seen.extend([color, point, size, when, path, many, pair, strict, raw])

    async with offer(take) as app:
        await app.call(
            "take",
            color="red",
            point={"x": 1},
            size={"width": 2},
            when="2024-05-06T07:08:09Z",
            path="/x",
            many=[1, 2],
            pair=[1, "a"],
            strict={"when": "2024-05-06", "pair": [1, 2]},
            raw={"a": [None]},
        )
    assert seen == [
        Color.RED, Point(x=1), Size(2), datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC),
        Path("/x"), {1, 2}, (1, "a"), Strict(when=datetime.date(2024, 5, 6), pair=(1, 2)), {"a": [None]},
    ]  # fmt: skip


async def test_what_is_omitted_stays_omitted_and_null_is_null(offer: Any) -> None:
    sentinel = object()

    @tool
    def ask(text: str | None = sentinel) -> list[bool]:  # type: ignore[assignment]
        return [text is sentinel, text is None]

    async with offer(ask) as app:
        assert (await app.call("ask")).structured == [True, False]
        assert (await app.call("ask", text=None)).structured == [False, True]


async def test_the_default_of_a_field_is_used(offer: Any) -> None:
    @tool
    def search(
        limit: int = Field(default=5),
        tags: list[str] = Field(default_factory=list),  # noqa: B008
    ) -> dict[str, Any]:
        return {"limit": limit, "tags": tags}

    async with offer(search) as app:
        assert (await app.call("search")).structured == {"limit": 5, "tags": []}
        assert (await app.call("search", limit=2)).structured == {"limit": 2, "tags": []}


async def test_further_arguments_are_passed_where_the_function_takes_them(offer: Any) -> None:
    @tool
    def collect(**more: Any) -> dict[str, Any]:
        return more

    async with offer(collect) as app:
        assert (await app.call("collect", {"a": 1, "tool": 2, "options": 3})).structured == {
            "a": 1, "tool": 2, "options": 3,
        }  # fmt: skip


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even, not {odd}")
    return value


Even = Annotated[int, AfterValidator(even)]


async def test_a_validator_s_refusal_is_an_invalid_argument_with_its_path(offer: Any) -> None:
    called: list[int] = []

    @tool
    def take(a: Even, b: list[Even], c: int = 0) -> None:
        called.append(a)

    async with offer(take) as app:
        with pytest.raises(InvalidArgumentsError) as caught:
            await app.call("take", a=1, b=[2, 3])
    assert caught.value.details == [
        {"path": "a", "problem": "Value error, must be even, not {odd}"},
        {"path": "b.1", "problem": "Value error, must be even, not {odd}"},
    ]
    assert called == []


class Arguments(BaseModel):
    text: str
    times: Even = 2


async def test_an_argument_model_is_passed_whole_wherever_the_context_stands(offer: Any) -> None:
    @tool(input_schema=Arguments)
    def first(context: Context, arguments: Arguments) -> str:
        return f"{context.tool} {arguments.text * arguments.times}"

    @tool(input_schema=Arguments)
    async def second(arguments: Arguments, extra: int = 7) -> str:
        return f"{arguments.text} {extra}"

    async with offer(first, second) as app:
        assert (await app.call("first", text="ab")).text == "first abab"
        assert (await app.call("second", text="ab")).text == "ab 7"
        with pytest.raises(InvalidArgumentsError, match="times: Value error"):
            await app.call("first", text="ab", times=3)


async def test_a_json_schema_s_properties_are_passed_by_name(offer: Any) -> None:
    @tool(input_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    def double(n):
        return n * 2

    async with offer(double) as app:
        assert (await app.call("double", n=2)).structured == 4
        with pytest.raises(InvalidArgumentsError):
            await app.call("double", n="2")


# --- results


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", Result((Block("text", text="text"),))),
        ('{"looks": "like json"}', Result((Block("text", text='{"looks": "like json"}'),))),
        ("", Result((Block("text", text=""),))),
        (None, Result()),
        ({"a": 1}, Result((Block("text", text='{"a":1}'),), {"a": 1}, False, True)),
        ([1, "b"], Result((Block("text", text='[1,"b"]'),), [1, "b"], False, True)),
        ([], Result((Block("text", text="[]"),), [], False, True)),
        (2**70, Result((Block("text", text=str(2**70)),), 2**70, False, True)),
        (Point(x=1), Result((Block("text", text='{"x":1,"y":0}'),), {"x": 1, "y": 0}, False, True)),
        (Size(3), Result((Block("text", text='{"width":3}'),), {"width": 3}, False, True)),
        (datetime.date(2024, 1, 2), Result((Block("text", text="2024-01-02"),), "2024-01-02", False, True)),
        (
            b"\xff",
            Result((Block("resource", data="/w==", mime_type="application/octet-stream", size=1),)),
        ),
        (Result((), {"x": 1}, has_structured=True), Result((), {"x": 1}, has_structured=True)),
        (Block("link", uri="u"), Result((Block("link", uri="u"),))),
        (
            [Block("text", text="a"), Block("link", uri="u")],
            Result((Block("text", text="a"), Block("link", uri="u"))),
        ),
    ],
)
async def test_a_value_becomes_a_result(offer: Any, value: Any, expected: Result) -> None:
    @tool
    def give():
        return value

    async with offer(give) as app:
        assert await app.call("give") == expected


async def test_a_declared_type_gives_structured_data(offer: Any) -> None:
    @tool
    def model() -> Point:
        return Point(x=1)

    @tool
    def models() -> list[Point]:
        return [Point(x=1)]

    @tool
    def maybe(yes: bool) -> str | None:
        return "yes" if yes else None

    @tool
    def size() -> Size:
        return Size(2)

    @tool
    def blocks() -> list[Block] | None:
        return [Block("text", text="a")]

    async with offer(model, models, maybe, size, blocks) as app:
        assert (await app.call("model")).structured == {"x": 1, "y": 0}
        assert (await app.call("models")).structured == [{"x": 1, "y": 0}]
        assert (await app.call("maybe", yes=True)).structured == "yes"
        missing = await app.call("maybe", yes=False)
        assert missing.structured is None
        assert missing.has_structured
        assert (await app.call("size")).structured == {"width": 2}
        assert (await app.call("blocks")).text == "a"


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, "x"), (list[int], ["x"]), (Point, {"x": 1}), (str, 5), (str, b"x"), (str, None), (bytes, "x"),
        (type(None), 1), (dict[str, int], [1]), (Any, object()),
    ],
)  # fmt: skip
async def test_a_value_of_another_type_than_declared_is_a_server_error(
    offer: Any, annotation: Any, value: Any
) -> None:
    def give():
        return value

    give.__annotations__["return"] = annotation
    async with offer(give) as app:
        with pytest.raises(ServerError, match="what give returned is not what it declares") as caught:
            await app.call("give")
    assert __file__ in (caught.value.hint or "")


# --- errors


def fails() -> None:
    raise KeyError("gone")


async def fails_async() -> None:
    raise RuntimeError("broken")


def stops() -> None:
    raise StopIteration("enough")


def leaves() -> None:
    raise SystemExit(3)


async def leaves_async() -> None:
    raise SystemExit(3)


def reports() -> None:
    raise ToolError("no such city")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (fails, "KeyError: 'gone'"),
        (fails_async, "RuntimeError: broken"),
        (stops, "RuntimeError: coroutine raised StopIteration"),
        (leaves, "SystemExit: 3"),
        (leaves_async, "SystemExit: 3"),
        (reports, "no such city"),
    ],
)
async def test_what_a_function_raises_is_its_result(
    offer: Any, function: Callable[..., Any], text: str
) -> None:
    async with offer(function) as app:
        result = await app.call(function.__name__)
    assert result.is_error
    assert result.text == text


@pytest.mark.parametrize("in_thread", [True, False])
async def test_a_pause_is_not_taken_for_an_error(offer: Any, in_thread: bool) -> None:
    def wait() -> None:
        raise InputRequired("which one?")

    async def wait_async() -> None:
        raise InputRequired("which one?")

    function = wait if in_thread else wait_async
    async with offer(function) as app:
        with pytest.raises(InputRequired):
            await app.call(function.__name__)


# --- threads, loops and contexts


async def test_a_sync_function_does_not_block_the_loop(offer: Any) -> None:
    started, go = threading.Event(), threading.Event()

    @tool
    def wait() -> str:
        started.set()
        assert go.wait(PATIENCE)
        return threading.current_thread().name

    @tool
    async def release() -> str:
        go.set()
        return threading.current_thread().name

    async with offer(wait, release) as app:
        waiting = asyncio.ensure_future(app.call("wait"))
        while not started.is_set():
            await asyncio.sleep(0)
        released = await app.call("release")
        assert released.text == threading.current_thread().name
        assert (await waiting).text != threading.current_thread().name


async def test_sync_functions_run_side_by_side(offer: Any) -> None:
    together = threading.Barrier(5, timeout=PATIENCE)

    @tool
    def meet() -> int:
        return together.wait()

    async with offer(meet) as app:
        results = await asyncio.gather(*(app.call("meet") for _ in range(5)))
    assert sorted(result.structured for result in results) == [0, 1, 2, 3, 4]


async def test_a_cancelled_call_stops_an_async_function(offer: Any) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def wait(context: Context) -> None:
        context.progress(1)
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    reported = asyncio.Event()

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        reported.set()
        await asyncio.Event().wait()

    async with offer(wait) as app:
        call = asyncio.ensure_future(app.call("wait", {}, CallOptions(on_progress=on_progress)))
        await started.wait()
        await reported.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert stopped.is_set()


async def test_a_call_that_is_given_up_does_not_wait_for_its_thread(offer: Any) -> None:
    started, go, ended = threading.Event(), threading.Event(), threading.Event()

    @tool
    def wait() -> None:
        started.set()
        go.wait(PATIENCE)
        ended.set()

    async with offer(wait) as app:
        call = asyncio.ensure_future(app.call("wait"))
        while not started.is_set():
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not ended.is_set()
    go.set()
    assert ended.wait(PATIENCE)


async def test_a_wrapped_function_runs_as_what_it_has_become(offer: Any) -> None:
    def sync_of(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **named: Any) -> Any:
            return asyncio.run(function(*args, **named))

        return wrapper

    def passing(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **named: Any) -> Any:
            return function(*args, **named)

        return wrapper

    @tool
    @sync_of
    async def run(text: str) -> str:
        return f"ran {text}"

    @tool
    @passing
    async def pass_on(text: str) -> str:
        return f"passed {text} {threading.current_thread().name}"

    async with offer(run, pass_on) as app:
        assert (await app.call("run", text="x")).text == "ran x"
        assert (await app.call("pass_on", text="x")).text == f"passed x {threading.current_thread().name}"


async def test_partials_methods_and_instances_are_called(offer: Any) -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def increase(self, by: int = 1) -> int:
            """Add to the count."""
            self.count += by
            return self.count

        async def __call__(self) -> int:
            return self.count

    def scale(factor: int, value: int) -> int:
        return factor * value

    counter = Counter()
    async with offer(counter.increase, functools.partial(scale, 3), tool(name="read")(counter)) as app:
        assert (await app.call("increase", by=2)).structured == 2
        assert (await app.call("scale", value=2)).structured == 6
        assert (await app.call("read")).structured == 2


async def test_what_cannot_be_a_tool_is_noted_and_the_rest_is_offered(offer: Any, notes: list[str]) -> None:
    def fine() -> None: ...

    def generator() -> Any:
        yield 1

    class Nameless:
        def __call__(self) -> None: ...

    async with offer(fine, generator, Nameless()) as app:
        assert [summary.name for summary in await app.tools()] == []
        await app.call("fine")
        assert [summary.name for summary in await app.tools()] == ["fine"]
    assert any("`generator` is left out: a generator cannot be a tool" in note for note in notes)
    assert any("`Nameless` is left out: it has no name" in note for note in notes)


async def test_a_function_sees_the_caller_s_context_variables(offer: Any) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    @tool
    def look() -> str:
        return variable.get()

    variable.set("seen")
    async with offer(look) as app:
        assert (await app.call("look")).text == "seen"


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_progress_arrives_in_order_and_before_the_result(offer: Any, kind: str) -> None:
    @tool
    def sync_work(context: Context) -> str:
        for step in range(3):
            context.progress(step, 3, f"step {step}")
        return "done"

    @tool
    async def async_work(ctx: Context | None) -> str:
        assert ctx is not None
        for step in range(3):
            ctx.progress(step, 3, f"step {step}")
        return "done"

    seen: list[Any] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        await asyncio.sleep(0)
        seen.append((done, total, message))

    async with offer(sync_work, async_work) as app:
        await app.call(f"{kind}_work", {}, CallOptions(on_progress=on_progress))
        assert seen == [(0, 3, "step 0"), (1, 3, "step 1"), (2, 3, "step 2")]
        assert (await app.call(f"{kind}_work")).text == "done"


@pytest.mark.parametrize("fails", [True, False])
async def test_a_listener_that_fails_does_not_lose_the_result(
    offer: Any, fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def work(context: Context) -> str:
        context.progress(1)
        if fails:
            raise ValueError("own error")
        return "done"

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        raise RuntimeError("listener broke")

    async with offer(work) as app:
        result = await app.call("work", {}, CallOptions(on_progress=on_progress))
    assert result.text == ("ValueError: own error" if fails else "done")
    assert "listener broke" in caplog.text


async def test_a_context_tells_who_calls_and_logs(offer: Any, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def who(context: Context) -> str:
        context.log("at work", logging.WARNING)
        assert "call" not in repr(context)
        return context.principal.id

    async with offer(who) as app:
        assert (await app.call("who", {}, CallOptions(principal=Principal("ann")))).text == "ann"
    assert [(record.name, record.message) for record in caplog.records if "tools" in record.name] == [
        ("spindle.tools.who", "at work")
    ]


async def test_a_tool_stays_an_ordinary_function() -> None:
    @tool(read_only=True)
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, b=2) == 3


async def test_programs_that_share_a_workspace_do_not_see_each_other_s_functions(tmp_path: Path) -> None:
    def first() -> str:
        return "1"

    def second() -> str:
        return "2"

    def names(summaries: Any) -> list[str]:
        return [summary.name for summary in summaries]

    async with spindle.open(tmp_path, tools=[first]) as one:
        assert (await one.call("first")).text == "1"
        async with spindle.open(tmp_path, tools=[second]) as other:
            assert (await other.call("second")).text == "2"
            assert names(await other.tools()) == ["second"]
            assert (await one.call("first")).text == "1"
            assert names(await one.tools()) == ["first"]
    async with spindle.open(tmp_path, tools=[first, second]) as later:
        assert (await later.call("second")).text == "2"
        assert names(await later.search("first")) == ["first"]
    async with spindle.open(tmp_path) as plain:
        assert await plain.tools() == []


async def test_functions_may_stand_beside_a_source_called_python(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from spindle import tool\n@tool\ndef there() -> str:\n    return 'there'\n"
    )
    (tmp_path / "spindle.toml").write_text('[sources.python]\nkind = "python"\nmodule = "mine"\n')

    def here() -> str:
        return "here"

    async with spindle.open(tmp_path, tools=[here]) as app:
        assert (await app.call("here")).text == "here"
        assert (await app.call("python.there")).text == "there"
