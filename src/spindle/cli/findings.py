"""The checks of `spindle doctor`. Sources are tried with a store in memory, so that the check does not
change the catalog."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from shutil import which
from typing import TYPE_CHECKING, Any, Literal, cast

from spindle import opening
from spindle import settings as settings_module
from spindle.auth.credentials import with_token
from spindle.cli.output import plural
from spindle.domain.finding import serious_names
from spindle.domain.identity import LOCAL
from spindle.errors import CallTimeoutError, ConfigurationError, SpindleError, StoreError, UntrustedError
from spindle.owner_only import open_to_others
from spindle.remedies import reworded
from spindle.schemas.compiled import schema_problem
from spindle.settings.expand import uses_secrets
from spindle.stores.open import shown
from spindle.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.identity import Credential, Principal
    from spindle.domain.serve import ServeConfig
    from spindle.domain.source import SourceConfig
    from spindle.settings import Settings

AT_ONCE = 8

Tell = Callable[["DoctorFinding"], None]

# Notes come as sentences, from tasks and threads that inherit the context of the one that asked.
_looking_at: ContextVar[str] = ContextVar("spindle_doctor_source", default="")


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One finding, with a way to fix it."""

    level: Literal["ok", "note", "problem"]
    subject: str
    message: str
    fix: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        return {"level": self.level, "subject": self.subject, "message": self.message, "fix": self.fix}


async def examine(
    load: Callable[[], Settings], names: Sequence[str], tell: Tell, status: Callable[[str], None]
) -> None:
    """Reports every finding as soon as it is known."""
    settings = _examine_settings(load, tell)
    if settings is None:
        return
    failed, accepted = await _examine_state(settings, names, tell)
    store = await SqliteStore(":memory:").open()

    def note(sentence: str) -> None:
        _tell_note(settings, sentence, tell)

    async with (
        _logins(settings) as logins,
        opening.open(
            settings=settings,
            store=store,
            note=note,
            credentials=logins.credential,
            environ=await logins.values(settings),
        ) as app,
    ):
        wanted = list(names) or app.catalog.sources.names
        for name in wanted:
            app.catalog.sources.table(name)
        valid = _examine_configuration(app, tell)
        serve = _examine_serve(settings, tell)
        _examine_servers(settings, tell)
        ready = [name for name in wanted if _examine_needs(app, name, tell)]
        if valid:
            ready = [name for name in ready if await _examine_login(app, logins, name, tell)]
            status(f"trying {', '.join(ready)} …")
            limit = asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(
                *(_examine_source(app, name, accepted.get(name, ()), limit, tell) for name in ready)
            )
            _examine_past(app, {name: why for name, why in failed.items() if name in ready}, tell)
            if not names or "flows" in names:
                await _examine_flows(app, tell)
            if serve is not None:
                await _examine_lists(app, serve, tell)


def _examine_settings(load: Callable[[], Settings], tell: Tell) -> Settings | None:
    try:
        settings = load()
        settings.require_trust()
    except UntrustedError as error:
        tell(DoctorFinding("problem", "workspace", error.message, error.hint_for("shell")))
        return None
    except ConfigurationError as error:
        tell(DoctorFinding("problem", "settings", error.message, error.hint_for("shell")))
        return None
    if settings.is_workspace:
        tell(DoctorFinding("ok", "workspace", str(settings.root)))
    elif settings.sources:
        tell(DoctorFinding("note", "workspace", "none here: only your own settings are used"))
    else:
        message = f"no {settings_module.FILE_NAME} at or above {settings.root}"
        tell(
            DoctorFinding(
                "problem", "workspace", message, "create one with `spindle new`, or name one with -w"
            )
        )
        return None
    if not settings.sources:
        tell(DoctorFinding("note", "sources", "there are none yet", "`spindle add --presets` shows some"))
    return settings


async def _examine_state(
    settings: Settings, names: Sequence[str], tell: Tell
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Returns, by source, why its last sync failed; and tools that a person accepted in spite of what they
    say."""
    loose = open_to_others(settings.state_folder)
    try:
        async with opening.open(settings=settings, note=lambda _sentence: None) as app:
            states = await app.catalog.states()
            accepted: dict[str, list[str]] = {}
            for name, state in states.items():
                suspect = serious_names(state.findings)
                stored = await app.store.stored_tools(name) if suspect else []
                accepted[name] = [item.name for item in stored if item.name in suspect and not item.held]
    except StoreError as error:
        place = shown(settings.store_address(os.environ))
        # For a database, the message itself names it.
        message = error.message if "://" in place else f"{error.message} ({place})"
        tell(DoctorFinding("problem", "state", message, error.hint_for("shell")))
        return {}, {}
    except SpindleError as error:
        tell(DoctorFinding("problem", "settings", error.message, error.hint_for("shell")))
        return {}, {}
    tell(DoctorFinding("ok", "state", shown(settings.store_address(os.environ))))
    still = open_to_others(settings.state_folder)
    for path in loose:
        if path in still:
            fix = f"run `chmod go= {path}` as the user whose it is"
            tell(DoctorFinding("problem", "state", f"others can use {path}", fix))
        else:
            tell(DoctorFinding("note", "state", f"others could use {path}: it is yours alone now"))
    for name, state in states.items():
        if state.held_count and (not names or name in names):
            tell(
                DoctorFinding(
                    "problem",
                    name,
                    f"{plural(state.held_count, 'changed definition')} held back until accepted",
                    f"look at them with `spindle sync {name}`, then add --accept TOOL or --accept-all",
                )
            )
    return {name: state.error for name, state in states.items() if state.error}, accepted


def _examine_configuration(app: Spindle, tell: Tell) -> bool:
    try:
        app.catalog.sources.validate()
    except ConfigurationError as error:
        mistakes: list[str] = error.details or [error.message]
        for mistake in mistakes:
            tell(DoctorFinding("problem", "settings", mistake, error.hint_for("shell")))
        return False
    tell(DoctorFinding("ok", "settings", "all sources are configured correctly"))
    try:
        app.settings.retention()
    except ConfigurationError as error:
        mistakes = error.details or [error.message]
        for mistake in mistakes:
            tell(DoctorFinding("problem", "retention", mistake, error.hint_for("shell")))
    return True


def _examine_serve(settings: Settings, tell: Tell) -> ServeConfig | None:
    """Reports everything that would stop `spindle serve`."""
    if not settings.raw.get("serve"):
        return None
    from spindle.serving.access import ServingAccess

    try:
        config = settings.serve()
        ServingAccess.of(config)
    except ConfigurationError as error:
        mistakes: list[str] = error.details or [error.message]
        for mistake in mistakes:
            tell(DoctorFinding("problem", "serve", mistake, error.hint_for("shell")))
        return None
    who = "those who show a token" if config.wants_token else "everybody on this machine"
    tell(DoctorFinding("ok", "serve", f"open to {who}"))
    return config


def _examine_servers(settings: Settings, tell: Tell) -> None:
    """Reports servers that run with older settings than those in the files."""
    from spindle.serving.held_back import held_back

    for process, why in held_back(settings.state_folder):
        said = f"the server with process id {process} keeps its older settings: {why}"
        tell(DoctorFinding("note", "serve", said, "restart it, or correct the settings"))


async def _examine_lists(app: Spindle, config: ServeConfig, tell: Tell) -> None:
    from spindle.serving.exposure import doubts

    names = [tool.name for tool in await app.tools()]
    for sentence in doubts(config, names, app.catalog.unsynced()):
        tell(DoctorFinding("note", "serve", sentence))


def _examine_needs(app: Spindle, name: str, tell: Tell) -> bool:
    """True if this machine has everything that the source needs."""
    missing = app.catalog.sources.missing_variables(name)
    for item in missing:
        is_plain = not item.variable.startswith("secret:") and not item.is_empty
        fix = f"export {item.variable}=…" if is_plain else item.hint
        tell(DoctorFinding("problem", name, item.message, fix))
    program = _program(app.catalog.sources.table(name).get("command"))
    if program and "/" not in program and "$" not in program and which(program) is None:
        fixes = {
            "npx": "install Node.js (https://nodejs.org), which brings npx",
            "uvx": "install uv (https://docs.astral.sh/uv), which brings uvx",
            "docker": "install Docker",
        }
        fix = fixes.get(program, "install it, or give its whole path in `command`")
        tell(DoctorFinding("problem", name, f"the program {program!r} was not found", fix))
        return False
    return not missing


async def _examine_login(app: Spindle, logins: _Logins, name: str, tell: Tell) -> bool:
    """True if the source can be tried: a source that wants a login must have one."""
    try:
        if not await logins.needs_login(name, app.catalog.sources.config(name)):
            return True
    except SpindleError as error:
        tell(DoctorFinding("problem", name, error.message, error.hint_for("shell")))
        return False
    tell(DoctorFinding("problem", name, "needs your consent", f"run `spindle auth login {name}`"))
    return False


class _Logins:
    """The tokens and sealed values of the workspace, for sources that are tried with another store."""

    def __init__(self, app: Spindle | None) -> None:
        self._app = app

    async def needs_login(self, source: str, config: SourceConfig) -> bool:
        return _is_oauth(config) and (self._app is None or await self._app.auth.needs_login(source))

    async def values(self, settings: Settings) -> Mapping[str, str] | None:
        return None if self._app is None else await self._app.auth.secrets.environment(settings, None)

    async def credential(self, source: str, principal: Principal) -> Credential | None:
        if self._app is None:
            return None
        config = self._app.catalog.sources.config(source)
        if not _is_oauth(config):
            return None
        return with_token(config, await self._app.auth.token(source, config, principal))


def _is_oauth(config: SourceConfig) -> bool:
    return getattr(config.auth, "type", None) == "oauth"


@contextlib.asynccontextmanager
async def _logins(settings: Settings) -> AsyncGenerator[_Logins]:
    tables = [table.get("auth") for table in settings.sources.values()]
    wants_tokens = any(
        isinstance(auth, dict) and cast("dict[str, Any]", auth).get("type") == "oauth" for auth in tables
    )
    if not wants_tokens and not uses_secrets(settings.sources):
        yield _Logins(None)
        return
    async with contextlib.AsyncExitStack() as stack:
        app = None
        with contextlib.suppress(StoreError):  # already reported
            app = await stack.enter_async_context(
                opening.open(settings=settings, note=lambda _sentence: None)
            )
        yield _Logins(app)


def _program(command: Any) -> str | None:
    """The program of a command; None for one that is a mistake in the settings, which is reported as such."""
    import shlex

    if isinstance(command, str):
        try:
            command = shlex.split(command)
        except ValueError:
            return None
    words = cast("list[Any]", command) if isinstance(command, list) else []
    return words[0] if words and isinstance(words[0], str) else None


def _examine_past(app: Spindle, failed: Mapping[str, str], tell: Tell) -> None:
    """Reports sources that can be synced now, but failed at their last sync into the catalog."""
    # A conflict of names is found at one of two sources, by chance, and was reported at one of them.
    for name, why in () if app.catalog.conflicts else failed.items():
        if name not in app.catalog.unsynced():
            tell(DoctorFinding("problem", name, f"its last sync failed: {why}", f"run `spindle sync {name}`"))


async def _examine_source(
    app: Spindle, name: str, accepted: Sequence[str], limit: asyncio.Semaphore, tell: Tell
) -> None:
    """Syncs a source into the store in memory, and tries what calls of its tools would need."""
    _looking_at.set(name)
    async with limit:
        report = (await app.sync(name, accept=accepted))[0]
        problem = None if report.error else await _probe(app, name)
    if report.error:
        told = reworded(report.error, "shell")
        tell(DoctorFinding("problem", name, told["message"], told.get("hint")))
        return
    if problem is not None:
        tell(DoctorFinding("problem", name, problem.message, problem.hint_for("shell")))
    else:
        tell(DoctorFinding("ok", name, f"{plural(report.tools, 'tool')} in {report.seconds:.1f} s"))
    fix = f"tell the author of {name}, or leave the tool out with `exclude`"
    for item in report.left_out:
        tell(DoctorFinding("problem", name, f"the tool {item.name} is left out: {item.reason}", fix))
    for item in report.loosened:
        said = f"{item.name} is loosened, and can be called: {item.reason}"
        tell(DoctorFinding("note", name, said, f"tell the author of {name}"))
    for item in report.findings:
        level = "problem" if item.is_serious and item.name not in accepted else "note"
        fix = f"read it, then `spindle sync {name} --accept {item.name}`, or leave it out with `exclude`"
        tell(DoctorFinding(level, name, f"{item.name}: {item.sentence}", fix if level == "problem" else None))
    for stored in await app.store.stored_tools(name):
        tool = stored.current or stored.held
        assert tool is not None
        schemas = {"input": tool.input_schema, "output": tool.output_schema}
        for side, schema in schemas.items():
            problem = schema_problem(schema) if schema is not None else None
            if problem:
                fix = "tell the author of the source, or leave the tool out with `exclude`"
                tell(DoctorFinding("problem", stored.name, f"its {side} schema is not valid: {problem}", fix))


async def _probe(app: Spindle, name: str) -> SpindleError | None:
    """Tries what calls need beyond the list of tools: programs and addresses. Calls no tool."""
    # From the store: the catalog would look at the other sources again.
    tools = [stored.current for stored in await app.store.stored_tools(name) if stored.current]
    limit = app.catalog.sources.config(name).timeout
    try:
        async with asyncio.timeout(limit), app.catalog.session(name, LOCAL) as (session, _credential):
            await session.probe(tools)
    except TimeoutError:
        return CallTimeoutError(f"did not answer within {limit:g} s", hint=f"raise sources.{name}.timeout")
    except SpindleError as error:
        return error
    return None


async def _examine_flows(app: Spindle, tell: Tell) -> None:
    """Reports everything that would go wrong when a saved flow runs."""
    if not app.flows.library.files():
        return
    from spindle.flows.check.check import check
    from spindle.flows.text.files import Loaded

    for _, loaded in app.flows.library.all():
        if isinstance(loaded, Loaded):  # a broken one was reported when it was left out
            for problem in await check(loaded.definition, app.show, loaded.positions, loaded.place):
                level = "problem" if problem.severity == "error" else "note"
                tell(DoctorFinding(level, problem.where, problem.message, problem.hint))


def _tell_note(settings: Settings, sentence: str, tell: Tell) -> None:
    source = _looking_at.get()
    # The notes of the workspace's own folders are about files, or parts of them, that were left out.
    is_own = settings.sources.get(source, {}).get("kind") in ("python", "flows")
    tell(
        DoctorFinding("problem", source, sentence, "repair that file")
        if is_own
        else DoctorFinding("note", source, sentence)
    )
