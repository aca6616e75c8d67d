"""The record of a call, with secrets masked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from spindle.calls.secret_forms import MIN_SECRET as MIN_SECRET
from spindle.calls.secret_forms import replace_secrets
from spindle.calls.unsaved import UnsavedRecords, is_full
from spindle.domain.json_schema import JsonObject, is_array, is_object, resolve, to_json
from spindle.errors import Interruption, SpindleError, StoreError
from spindle.ports.store import DONE

if TYPE_CHECKING:
    from spindle.domain.call import Block, CallRecord, Result, ToolFailure
    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import Tool
    from spindle.ports.source import Note
    from spindle.ports.store import CallStore

MASK = "•••"
MAX_TEXT = 4000
MAX_BLOCKS = 20
MAX_STRUCTURED = 16 * 1024

_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase|code)$|(^|[_-])pass$|secret|token$|api[_-]?key|auth(orization)?$|credential|private[_-]?key"
    r"|access[_-]?key|cookie",
    re.IGNORECASE,
)
_MAX_REMEMBERED = 64
"""Characters of the names that are remembered for being those of secrets or not."""
_NUMBERS = frozenset({int, float, bool})
_MAX_SCHEMAS = 1000
"""Schemas that may describe one value; what has more is hidden whole."""
_MAX_NESTING = 200
"""Of arguments. What lies deeper is hidden whole: it is not accepted anyway, or no more than just so."""


class Recorder:
    """Writes down calls, and masks their arguments."""

    def __init__(self, store: CallStore, note: Note) -> None:
        self._store = store
        self._note = note
        self.unsaved = UnsavedRecords(store, note)
        self.on_save: Callable[[CallRecord], None] | None = None
        """Is shown every record, such as an audit log."""
        self.on_unknown: Callable[[str, str], None] | None = None
        """Is told of a call without a record: the principal, and the name that is no tool of theirs."""

    def missed(self, tool: Tool | None, principal: str, name: str) -> None:
        """Tells of a call that has no record, if it found no tool."""
        if tool is None and self.on_unknown is not None:
            self.on_unknown(principal, name)

    def hear(self, also: Callable[[CallRecord], None]) -> None:
        """Shows every record to one more."""
        before = self.on_save

        def both(record: CallRecord) -> None:
            assert before is not None
            before(record)
            also(record)

        self.on_save = also if before is None else both

    def masked(self, tool: Tool, arguments: JsonObject, secrets: frozenset[str]) -> JsonObject:
        """Returns the arguments of a call of this tool without what is secret in them."""
        marked = tool.forms.get("marks secrets")
        if marked is None:
            marked = marks_secrets(tool)
        if not marked and not secrets and _is_plain(arguments):
            return arguments
        return masked(arguments, tool.input_schema, secrets, marked=marked)

    def save(self, record: CallRecord, *, together: bool = False) -> Awaitable[None]:
        """Writes a record to the store, `together` with others that are about to come; `DONE` if it is
        written. A failure is noted: the tool has done its work. What finds the disk full is kept until there
        is space."""
        if self.on_save is not None:
            self.on_save(record)
        try:
            saving = self._store.save_call(record, together=together)
        except Exception as error:  # noqa: BLE001 - the result of the call must not be lost
            self._failed(record, error)
            return DONE
        return saving if saving is DONE else self._saved(record, saving)

    async def _saved(self, record: CallRecord, saving: Awaitable[None]) -> None:
        try:
            await saving
        except Exception as error:  # noqa: BLE001 - the result of the call must not be lost
            self._failed(record, error)

    def _failed(self, record: CallRecord, error: Exception) -> None:
        if isinstance(error, StoreError) and is_full(error):
            self.unsaved.add(record, error)
        else:
            self._note(f"the call of {record.tool} could not be recorded: {error}")


def _is_plain(arguments: JsonObject) -> bool:
    """True for short texts and numbers under names that are not those of secrets, as most arguments are."""
    for name, value in arguments.items():
        if value.__class__ is str:
            if len(value) > MAX_TEXT:
                return False
        elif value.__class__ not in _NUMBERS:
            return False
        if len(name) > _MAX_REMEMBERED or _is_known_secret(name):
            return False
    return True


def ended_by(error: BaseException) -> tuple[str, JsonObject | None]:
    """Returns the outcome of a call that raised this, and the error, as its record has them."""
    match error:
        case SpindleError():
            return error.category, error.to_dict()
        case asyncio.CancelledError():
            return "cancelled", None
        case Interruption():
            return "paused", None
        case _:
            return "error", {"category": "error", "message": f"{type(error).__name__}: {error}"}


def masked(
    arguments: JsonObject, schema: JsonObject, secrets: Collection[str], *, marked: bool | None = None
) -> JsonObject:
    """Returns the arguments of a call with secrets masked."""
    schemas = [schema] if (mentions_secrets(schema) if marked is None else marked) else []
    return cast(JsonObject, _mask(arguments, schemas, schema, secrets, None))


def secrets_in(arguments: JsonObject, schema: JsonObject) -> set[str]:
    """The texts that `masked` hides for their name or schema, to be hidden from messages too."""
    found: set[str] = set()
    schemas = [schema] if mentions_secrets(schema) else []
    _mask(arguments, schemas, schema, (), found)
    return found


def mentions_secrets(schema: Any, depth: int = 0) -> bool:
    """True if any part of a schema is marked as secret. Most have no such mark, and need no closer look."""
    if is_object(schema):
        if schema.get("format") == "password" or schema.get("writeOnly") is True:
            return True
        return depth < 64 and any(mentions_secrets(item, depth + 1) for item in schema.values())
    return is_array(schema) and depth < 64 and any(mentions_secrets(item, depth + 1) for item in schema)


def marks_secrets(tool: Tool) -> bool:
    """True if any argument of a tool is marked as secret."""
    known: bool | None = tool.forms.get("marks secrets")
    if known is None:
        known = tool.forms["marks secrets"] = mentions_secrets(tool.input_schema)
    return known


def looks_secret(name: str, schema: JsonObject) -> bool:
    """True if a value of this name and schema is probably a secret."""
    return _SECRET_NAME.search(name) is not None or mentions_secrets(schema)


def configured_secrets(config: SourceConfig) -> set[str]:
    """Values in a source's settings that are secret although they were written there as they are."""
    named: dict[str, Any] = {**config.env, **getattr(config, "headers", {})}
    found = {str(value) for name, value in named.items() if _SECRET_NAME.search(name)}
    for part in ("token", "password", "value", "client_secret"):
        found.add(getattr(config.auth, part, None) or "")
    return {value for value in found if len(value) >= MIN_SECRET}


def _is_secret_name(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


_is_known_secret = lru_cache(10_000)(_is_secret_name)
"""The same: most names come again and again."""


def _mask(
    value: Any,
    schemas: list[Any],
    root: JsonObject,
    secrets: Collection[str],
    found: set[str] | None,
    depth: int = 0,
) -> Any:
    """`schemas` are all that describe the value; `found` collects what is hidden."""
    if depth > _MAX_NESTING:
        return _hide(value, found)
    if schemas:
        schemas = _parts(root, schemas)
        if len(schemas) > _MAX_SCHEMAS or any(
            part.get("format") == "password" or part.get("writeOnly") is True for part in schemas
        ):
            return _hide(value, found)
    if isinstance(value, str):
        return cut(clean(value, secrets)) if secrets else cut(value)
    if is_object(value):
        return {
            key: _hide(item, found)
            if (_is_known_secret(key) if len(key) <= _MAX_REMEMBERED else _is_secret_name(key))
            else _mask(item, _of_property(schemas, key), root, secrets, found, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        items = cast("list[Any]", value)
        inner = [part["items"] for part in schemas if "items" in part]
        inner += [item for part in schemas for item in part.get("prefixItems", ())]
        return [_mask(item, inner, root, secrets, found, depth + 1) for item in items]
    return MASK if secrets and _is_secret_number(value, secrets) else value


def _is_secret_number(value: Any, secrets: Collection[str]) -> bool:
    """True for a number that is one of the secrets, such as a PIN."""
    return value.__class__ in _NUMBERS and value.__class__ is not bool and str(value) in secrets


def _hide(value: Any, found: set[str] | None) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if found is not None:
        found.update(text for text in _texts(value) if len(text) >= MIN_SECRET)
    return MASK


def _texts(value: Any) -> Iterator[str]:
    # Without recursion, as this also sees what is nested too deeply for it.
    left = [value]
    while left:
        value = left.pop()
        if is_object(value):
            left += value.values()
        elif isinstance(value, (list, tuple)):
            left += cast("list[Any]", value)
        elif value is not None and not isinstance(value, bool):
            yield str(value)


def _parts(root: JsonObject, schemas: list[Any]) -> list[JsonObject]:
    """Schemas and all of their branches, each once: an optional secret is one branch of two."""
    found: list[JsonObject] = []
    seen: set[int] = set()
    waiting = list(schemas)
    while waiting and len(found) <= _MAX_SCHEMAS:
        schema = waiting.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        resolved = resolve(root, schema)
        found.append(resolved)
        for keyword in ("allOf", "anyOf", "oneOf"):
            branches = resolved.get(keyword)
            waiting += branches if is_array(branches) else ()
    return found


def _of_property(schemas: list[Any], key: str) -> list[Any]:
    found: list[Any] = []
    for part in schemas:
        properties = part.get("properties")
        if is_object(properties) and key in properties:
            found.append(properties[key])
        elif is_object(part.get("additionalProperties")):
            found.append(part["additionalProperties"])
    return found


def cut(text: str) -> str:
    """The text, shortened if it is too long for a record."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text)} characters)"


def clean(text: str, secrets: Collection[str]) -> str:
    """The text with every known secret masked, also where it was encoded."""
    return replace_secrets(text, secrets, MASK)


def clean_json(value: Any, secrets: Collection[str]) -> Any:
    """The same for every text inside a JSON value."""
    return _each_text(value, secrets, lambda text: clean(text, secrets))


def with_secrets(value: Any, shown: Any, given: Any) -> Any:
    """Returns a value with all that is as it was `shown` replaced by what was `given` there."""
    if value == shown:
        return given
    if is_object(value) and is_object(shown) and is_object(given):
        return {
            key: with_secrets(item, shown[key], given[key]) if key in shown and key in given else item
            for key, item in value.items()
        }
    if is_array(value) and is_array(shown) and is_array(given) and len(value) == len(shown):
        return [with_secrets(*parts) for parts in zip(value, shown, given, strict=True)]
    return value


def fit_to_store(value: Any, secrets: Collection[str]) -> Any:
    """The same, and very long texts are cut."""
    return _each_text(value, secrets, lambda text: cut(clean(text, secrets)))


def _each_text(value: Any, secrets: Collection[str], change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if is_object(value):
        named = {clean(key, secrets): item for key, item in value.items()} if secrets else value
        return {key: _each_text(item, secrets, change) for key, item in named.items()}
    if is_array(value):
        return [_each_text(item, secrets, change) for item in value]
    return MASK if secrets and _is_secret_number(value, secrets) else value


def kept_result(result: Result, tool: Tool, given: JsonObject, secrets: frozenset[str]) -> JsonObject:
    """The beginning of a result for its record, without the secrets of the source and of the arguments: texts
    are cut, and of binary content there is only a description. `left_out` says what is missing."""
    written = fit_to_store(result.to_dict(), secrets | secrets_in(given, tool.input_schema))
    left_out = [block["type"] for block in written["content"] if block.pop("data", None) is not None]
    # What MCP says besides is for programs, and as long as its server likes.
    written.pop("meta", None)
    for block in written["content"]:
        block.pop("besides", None)
    if len(written["content"]) > MAX_BLOCKS:
        left_out.append(f"{len(written['content']) - MAX_BLOCKS} blocks")
        written["content"] = written["content"][:MAX_BLOCKS]
    if len(to_json(written["structured"], default=str)) > MAX_STRUCTURED:
        written["structured"] = None
        left_out.append("structured data")
    return {**written, **({"left_out": left_out} if left_out else {})}


def without_secrets(result: Result, secrets: Collection[str], given: Collection[str]) -> Result:
    """Returns a failed result with the secrets of its source masked in all that it tells. Those that the
    caller has given are masked only in the place where it failed, which is for others."""
    if secrets:
        content = tuple(_cleaned(block, secrets) for block in result.content)
        structured, meta = clean_json(result.structured, secrets), clean_json(result.meta, secrets)
        result = replace(result, content=content, structured=structured, meta=meta)
    if result.failure is None:
        return result
    known = {*secrets, *given}
    return replace(result, failure=_cleaned_failure(result.failure, known))


def _cleaned_failure(failure: ToolFailure, secrets: Collection[str]) -> ToolFailure:
    told = {key: clean(value, secrets) for key, value in failure.to_dict().items() if key != "line"}
    return replace(failure, **told)


def _cleaned(block: Block, secrets: Collection[str]) -> Block:
    if block.text:
        block = replace(block, text=clean(block.text, secrets))
    return replace(block, besides=clean_json(block.besides, secrets)) if block.besides else block


def hide_secrets(error: SpindleError, secrets: Collection[str]) -> None:
    """Masks the secrets in an error's message, details and traceback."""
    if not secrets:
        return
    error.message = clean(error.message, secrets)
    if error.remedy is None:
        error.hint = error.hint and clean(error.hint, secrets)
    error.details = clean_json(error.details, secrets)
    error.args = (error.message,)
    if error.failure is not None:
        error.failure = _cleaned_failure(error.failure, secrets)
    cause = str(error.__cause__)
    if clean(cause, secrets) != cause:
        # A traceback would print what the message no longer says.
        error.__cause__ = None
