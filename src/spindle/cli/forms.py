"""Questions of servers at the terminal: a form, field by field, or a page to open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from spindle.cli.output import plural
from spindle.domain.visible import quoted

if TYPE_CHECKING:
    import asyncio

    from spindle.calls.forms import FormField
    from spindle.cli.output import Output
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.question import Answer, SourceQuestion

HOW = "  Enter takes what is in [brackets]; Ctrl-D to decline"
LEAVE = "decline, cancel, answer later, or go back? [d/c/L/b] "
LEAVE_NOW = "decline, cancel, or go back? [d/C/b] "


class Person(Protocol):
    """The person at the terminal: what is shown and asked."""

    output: Output
    answers_later: bool

    async def ask(self, prompt: str) -> str | None:
        """Asks for one line; None if the person pressed Ctrl-D."""
        ...


class _LeftError(Exception):
    """The person pressed Ctrl-D."""


class TerminalQuestions:
    """Puts questions of servers to the person at the terminal, one after the other."""

    def __init__(self, cli: Person) -> None:
        self._cli = cli
        self._turn: asyncio.Lock | None = None

    async def __call__(self, question: SourceQuestion) -> Answer | None:
        """The person's answer; None if they answer later."""
        import asyncio

        self._turn = self._turn or asyncio.Lock()
        async with self._turn:
            try:
                said = await answer(self._cli, question)
                self._cli.answers_later |= said is None
                return said
            except asyncio.CancelledError:
                self._cli.output.aside("")
                self._cli.output.aside(f"{question.source} no longer waits for an answer")
                raise


async def answer(cli: Person, question: SourceQuestion) -> Answer | None:
    """Asks the person at the terminal. Returns None if they answer later, where that is possible."""
    from spindle.domain.question import Answer

    while True:
        try:
            if question.url is not None:
                return await _visit(cli, question)
            return Answer("accept", await _fill(cli, question))
        except _LeftError:
            said = (await cli.ask(LEAVE if question.can_wait else LEAVE_NOW) or "").lower()
        if said[:1] == "b":
            continue
        if said[:1] == "d":
            return Answer("decline")
        return None if question.can_wait and said[:1] != "c" else Answer("cancel")


async def _visit(cli: Person, question: SourceQuestion) -> Answer:
    from urllib.parse import urlsplit

    from spindle.domain.question import Answer

    url = question.url or ""
    _introduce(cli, question)
    cli.output.aside(f"  it wants you to open a page of {urlsplit(url).hostname}:")
    cli.output.aside(f"  {url}")
    said = (await _ask(cli, "open it in the browser? [y/N] ")).lower()
    if said not in ("y", "yes"):
        return Answer("decline")
    from spindle.cli.browser import open_browser

    open_browser(url)
    await _ask(cli, "press Enter when you are done there ")
    return Answer("accept")


async def _fill(cli: Person, question: SourceQuestion) -> JsonObject:
    from spindle.calls.forms import fields_of, problems_in

    schema = question.schema or {}
    fields = fields_of(schema)
    _introduce(cli, question)
    if fields:
        cli.output.aside(f"{HOW}, or to answer later" if question.can_wait else HOW)
    content: JsonObject = {}
    while True:
        content = await _values(cli, fields, content)
        problems = problems_in(schema, content)
        for item in problems:
            cli.output.aside(f"  {item['path']}: {item['problem']}")
        if problems:
            continue
        if len(fields) == 1:
            return content
        cli.output.aside(f"  {plural(len(content), 'value')} for {question.source}:")
        for name, value in content.items():
            cli.output.aside(f"    {name}: {_shown(value)}")
        if (await _ask(cli, "send this? [Y/n] ")).lower() not in ("n", "no"):
            return content


def _introduce(cli: Person, question: SourceQuestion) -> None:
    cli.output.aside(f"{question.source} asks: {quoted(question.message)}")


async def _values(cli: Person, fields: list[FormField], known: JsonObject) -> JsonObject:
    content: JsonObject = {}
    for field in fields:
        value = await _value(cli, field, known)
        if value is not None:
            content[field.name] = value
    return content


async def _value(cli: Person, field: FormField, known: JsonObject) -> Any:
    """The value of one field; None if it is left out."""
    from spindle.calls.forms import format_problem
    from spindle.calls.record import looks_secret
    from spindle.calls.validate import problems_with

    has_known = field.name in known or field.has_default
    usual = known.get(field.name, field.schema.get("default"))
    about = f": {field.description}" if field.description else ""
    if about or field.title.casefold().replace(" ", "_") != field.name.casefold():
        cli.output.aside(f"  {_line(field.title + about)}")
    if looks_secret(field.name, field.schema):
        cli.output.aside("  careful: a server must not ask for passwords or tokens in a form")
    for number, (value, title) in enumerate(field.choices, 1):
        cli.output.aside(_line(f"    {number}  {title}" + (f" ({value})" if title != value else "")))
    prompt = f"  {field.name}{_wanted(field)}" + (f" [{_shown(usual)}]" if has_known else "") + ": "
    while True:
        said = await _ask(cli, prompt)
        if not said and has_known:
            return usual
        if not said and not field.required:
            return None
        if not said:
            cli.output.aside("  it is needed")
            continue
        try:
            value = _typed(field, said)
        except ValueError as error:
            cli.output.aside(f"  {error}")
            continue
        problems = [item["problem"] for item in problems_with(field.schema, value, field.name)]
        wrong = problems[0] if problems else format_problem(field.schema, value)
        if wrong is None:
            return value
        cli.output.aside(f"  {wrong}")


def _wanted(field: FormField) -> str:
    words: dict[str, str] = {
        "boolean": "yes or no",
        "integer": "a whole number",
        "number": "a number",
        "choice": "a number or its value",
        "choices": "several, with commas between them",
    }
    kinds = [words.get(field.kind) or str(field.schema.get("format") or "")]
    kinds += [] if field.required or field.has_default else ["may be left out"]
    inside = ", ".join(kind for kind in kinds if kind)
    return f" ({inside})" if inside else ""


def _typed(field: FormField, said: str) -> Any:
    """The value that a person means. Raises ValueError with what is wrong."""
    match field.kind:
        case "boolean":
            known = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
            if said.lower() not in known:
                raise ValueError("say yes or no")
            return known[said.lower()]
        case "integer" | "number":
            from spindle.calls.flags import value_of
            from spindle.errors import InvalidArgumentsError

            try:
                return value_of(said, field.schema, field.name)
            except InvalidArgumentsError as error:
                raise ValueError(error.message) from None
        case "choice":
            return _choice(field, said)
        case "choices":
            return [_choice(field, item.strip()) for item in said.split(",") if item.strip()]
        case _:
            return said


def _choice(field: FormField, said: str) -> str:
    values = [value for value, _ in field.choices]
    if said in values:
        return said
    for value, title in field.choices:
        if title == said:
            return value
    if said.isdecimal() and 1 <= int(said) <= len(values):
        return values[int(said) - 1]
    raise ValueError(f"{said!r} is none of the {len(values)} choices")


def _line(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType] - of JSON
        return ", ".join(str(item) for item in items)
    return str(value)


async def _ask(cli: Person, prompt: str) -> str:
    said = await cli.ask(_line(prompt))
    if said is None:
        raise _LeftError
    return said
