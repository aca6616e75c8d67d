"""The composition root: it builds the parts of Spindle and owns their lifetimes, and has no behaviour."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from spindle import settings as settings_module
from spindle.agents.sampling import WorkspaceSampling
from spindle.agents.workspace import WorkspaceAgents
from spindle.auth.access import SourceAccess
from spindle.auth.credentials import CredentialProvider, Credentials
from spindle.auth.details import DetailSealer
from spindle.auth.encryption import Sealer
from spindle.auth.keys import Keys
from spindle.auth.secrets import Secrets
from spindle.calls.caller import DEFAULT_OPTIONS, Caller, CallOptions, Clock
from spindle.calls.offered_resources import OffersResources
from spindle.calls.permissions import Permission, Visible, allow_all, show_all
from spindle.calls.questions import LocalAnswers
from spindle.catalog.catalog import Catalog
from spindle.catalog.sources import SourceSet
from spindle.domain.call import CallRecord, Result
from spindle.domain.identity import LOCAL, Principal
from spindle.domain.run import DEFAULT_QUEUE, PART, USUAL_PRIORITY, Run
from spindle.domain.tool import Tool, ToolList
from spindle.embedders.workspace import meaning_of
from spindle.engines.open import open_engine
from spindle.flows.workspace import WorkspaceFlows
from spindle.ports.store import RunStore, Store, ToolFilter, ToolStore
from spindle.runs.connecting import Connecting
from spindle.runs.placing import Placing
from spindle.runs.runner import Runner
from spindle.sources.events.bus import Subscription, bus_of
from spindle.stores.files import FolderFileStore
from spindle.stores.layered import LayeredToolStore
from spindle.stores.open import close_to_others, database_of, open_store
from spindle.stores.pruning import Pruner
from spindle.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from spindle.agents.limits import Limits
    from spindle.calls.requests import SourceRequests
    from spindle.calls.resources import Resources
    from spindle.calls.tape import OpenTape, Tape
    from spindle.catalog.diff import SyncReport
    from spindle.domain.call import Progress
    from spindle.domain.event import Event
    from spindle.domain.question import OnQuestion
    from spindle.drafting.draft import Draft
    from spindle.drafting.workspace import Drafting
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.flow import Flow
    from spindle.ports.engine import Engine
    from spindle.ports.source import Note
    from spindle.ports.token_store import GrantStore, TokenStore
    from spindle.runs.outcomes import OpenPause, Outcome
    from spindle.settings import Settings

logger = logging.getLogger("spindle")
SETTLE_TIMEOUT = 5.0


class Spindle(OffersResources):
    """An open workspace, made by `spindle.open`."""

    tape: OpenTape | None = None

    def __init__(
        self,
        settings: Settings,
        store: Store,
        private: SqliteStore,
        catalog: Catalog,
        caller: Caller,
        auth: SourceAccess,
        runner: Runner,
        flows: WorkspaceFlows,
        agents: WorkspaceAgents,
        make_requests: Callable[[], SourceRequests],
        pruner: Pruner,
        files: FolderFileStore,
        on_question: OnQuestion | None,
        environ: Mapping[str, str] | None,
        visible: Visible,
        note: Note,
    ) -> None:
        self.settings = settings
        self.store = store
        self.catalog = catalog
        self.auth = auth
        """Users' access to sources: their consent and tokens."""
        self._private = private
        self.caller = caller
        self.recorder = caller.recorder
        self.runner = runner
        self.agents = agents
        """The parts of the workspace that an `Agent` needs."""
        self.visible = visible  # decides if a principal may see a tool
        self.flows = flows
        """Runs the workspace's flows and shows their traces."""
        self._make_requests = make_requests
        self.pruner = pruner
        """Removes all that the settings no longer want to be kept."""
        self.files = files
        self._environ = environ
        self._note = note
        agents.sampling = WorkspaceSampling(lambda: self.settings, environ, agents.named)
        caller.step_work = agents.step_work(lambda: self.settings.agent(environ))
        caller.answers = LocalAnswers(on_question, agents.sampling.of_workspace)
        self._bus = bus_of(settings.root)
        self._subscriptions: WeakSet[Subscription] = WeakSet()

    def answer_by(self, answers: LocalAnswers) -> None:
        """Has others answer what sources ask in calls that no other program made."""
        self.caller.answers = answers

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
        /,
        **named: Any,
    ) -> Coroutine[Any, Any, Result]:
        """Calls a tool, with arguments by name or as one mapping: `await call("fs.read", path="x")`."""
        return self.caller.call(tool, {**arguments, **named} if arguments else named, options)

    async def run(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
        /,
        **named: Any,
    ) -> Outcome:
        """Calls a tool that may pause for a person: `Paused` instead of `Finished`; `resume` continues it."""
        return await self.runner.run(tool, {**(arguments or {}), **named}, options)

    async def run_flow(
        self,
        flow: Flow | FlowDefinition | str,
        inputs: Mapping[str, Any] | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
        /,
        **named: Any,
    ) -> Outcome:
        """Runs a flow: one built in Python, the name or file of a saved one, or a pipe of tools such as
        `"search --query TODO >> summarize"`. Inputs are given by name, or as one mapping."""
        return await self.flows.run(flow, {**(inputs or {}), **named}, options)

    async def submit(
        self,
        flow: Flow | FlowDefinition | str,
        inputs: Mapping[str, Any] | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
        *,
        queue: str = DEFAULT_QUEUE,
        priority: int = USUAL_PRIORITY,
        at: float | None = None,
        dedup: str | None = None,
    ) -> Run:
        """Submits a flow to a queue, where `spindle worker` runs it, and returns its run. Smaller `priority`
        is sooner, before `at` it does not begin, and all who submit with the same key `dedup` get one run."""
        placing = Placing(queue, priority, at, dedup)
        return await self.flows.submit(flow, inputs, options, placing)

    async def draft_flow(
        self,
        words: str,
        *,
        model: str | Model | None = None,
        inputs: Mapping[str, Any] | None = None,
        reuse: bool = True,
        principal: Principal = LOCAL,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> Draft:
        """Returns a flow that does what `words` ask for: a saved one that fits, or one that the model writes
        (always with `reuse=False`). Nothing is run: give its `definition` and `inputs` to `run_flow`."""
        drafting = self.drafting(model=model, principal=principal, limits=limits)
        return await drafting.fill(await drafting.draft(words, reuse=reuse), inputs or {})

    def drafting(
        self,
        *,
        model: str | Model | None = None,
        principal: Principal = LOCAL,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> Drafting:
        """`draft_flow` in two steps: first the flow, then the values of its inputs."""
        from spindle.drafting.workspace import Drafting

        config = self.settings.agent(self._environ)
        parts = (self.catalog, self.visible, self.agents, self.flows, self._note)
        return Drafting(*parts, config, model, principal, limits)

    async def connect(self, source: str, principal: Principal = LOCAL) -> Outcome:
        """Asks a user for the consent that a source wants, once, and lists its tools when it was given."""
        return await self.runner.connect(source, CallOptions(principal))

    async def resume(
        self,
        token: str,
        answer: Any = None,
        *,
        refused: str | None = None,
        principal: Principal | None = None,
        on_progress: Progress | None = None,
    ) -> Outcome:
        """Answers a pause by its token, or refuses it with a reason, and resumes the run. Given the id of
        a run, resumes it where its process died. With `principal`, only a pause of theirs."""
        return await self.runner.resume(
            token, answer, refused=refused, principal=principal, on_progress=on_progress
        )

    async def pauses(
        self,
        *,
        principal: Principal | None = None,
        run: str | None = None,
        approver: Principal | None = None,
    ) -> list[OpenPause]:
        """The pauses that wait for a person, the oldest first; `approver`: that this one may approve."""
        return await self.runner.pauses(principal=principal, run=run, approver=approver)

    async def tools(
        self,
        *,
        source: str | None = None,
        kind: str | None = None,
        tag: str | None = None,
        pattern: str | None = None,
    ) -> ToolList:
        """The tools of the stored catalog that pass all filters. `pattern` is a glob over names."""
        return ToolList(await self.catalog.tools(ToolFilter(source, kind, tag, pattern)))

    async def search(self, query: str, *, limit: int = 10) -> ToolList:
        """The tools that match the query, the best first."""
        return ToolList(await self.catalog.search(query, limit))

    async def show(self, tool: str) -> Tool:
        """One tool with its schemas."""
        return await self.catalog.find(tool)

    async def sync(
        self, *sources: str, accept: Sequence[str] | bool = (), principal: Principal = LOCAL
    ) -> list[SyncReport]:
        """Asks all sources, or those named, for their tools, and stores what changed. `accept` names the
        tools of pinned sources whose new definitions are accepted (True: all)."""
        return await self.catalog.sync(sources or None, accept, principal)

    def events(self, pattern: str = "*") -> Subscription:
        """This process's events by channel or type: `async for event in app.events("orders/*")`."""
        subscription = self._bus.subscribe(pattern)
        self._subscriptions.add(subscription)
        return subscription

    async def emit(self, channel: str, data: Any = None, **attributes: Any) -> Event:
        """Puts an event on the bus of this process. `attributes` are fields of `Event`, such as `type`."""
        return self._bus.emit(channel, data, attributes)

    @cached_property
    def requests(self) -> SourceRequests:
        """Makes requests of MCP servers that are not calls of tools."""
        return self._make_requests()

    def _make_resources(self) -> Resources:
        from spindle.calls.relay import SourceRelay
        from spindle.calls.resources import Resources

        # What no list of tools can name is there for those who may see all of its source.
        relay = SourceRelay(self.requests, lambda who, name: self.visible(who, f"{name}."), self._note)
        return Resources(relay, self._note)

    async def history(
        self, *, limit: int = 50, tool: str | None = None, outcome: str | None = None
    ) -> list[CallRecord]:
        """The latest calls, the newest first, all or those of one tool or outcome."""
        return await self.store.calls(limit=limit, tool=tool, outcome=outcome)

    async def reload(self, check: Callable[[Settings], None] | None = None) -> None:
        """Reads the settings again and applies them. Raises ConfigurationError, and keeps the old ones, if
        they are wrong or `check` refuses them. Changed sources are asked for their tools later."""
        loaded = self.settings.reread(self._environ)
        loaded.require_trust()
        loaded.retention(self._environ)  # raises where it has a mistake
        known = self.auth.secrets
        sources = self.catalog.sources.replaced(loaded, await known.environment(loaded, self._environ))
        if check is not None:
            check(loaded)
        # From here on nothing can be refused.
        self.settings = loaded
        loaded.at_rest.apply(self.store)
        known.adopt(loaded, self._environ)
        await self.catalog.replace_sources(sources)

    async def close(self) -> None:
        """Cancels what is running, closes all sources and the store."""
        for subscription in list(self._subscriptions):
            subscription.close()
        if "_resources" in self.__dict__:
            await self._resources.close()
        await self.runner.close()
        await self.agents.close()
        try:
            if self.tape is not None:
                await self.tape.close()
        finally:
            await self.catalog.close()
            # Calls that were running end with their sessions, and are recorded like any other.
            await self.caller.settle(SETTLE_TIMEOUT)
            await self.auth.close()
            await self._private.close()
            await self.store.close()


async def build(
    path: Path | str | None = None,
    *,
    tools: Sequence[Callable[..., Any]] = (),
    flows: Sequence[Flow] = (),
    settings: Settings | None = None,
    store: Store | None = None,
    run_store: RunStore | None = None,
    credentials: CredentialProvider | None = None,
    token_store: TokenStore | GrantStore | None = None,
    permission: Permission = allow_all,
    visible: Visible = show_all,
    on_question: OnQuestion | None = None,
    note: Note = logger.warning,
    environ: Mapping[str, str] | None = None,
    clock: Clock = Clock(),  # noqa: B008 - frozen
    tape: Tape | None = None,
) -> Spindle:
    """Builds the workspace's parts. The arguments are explained at `spindle.open`."""
    loaded = settings or settings_module.load(path, environ)
    loaded.require_trust()
    if loaded.verdict.note:
        note(loaded.verdict.note)
    opened = store or await open_store(loaded.store_address(os.environ if environ is None else environ))
    private = SqliteStore(":memory:")
    close_to_others(loaded.state_folder, note)
    try:
        keys = Keys(loaded.auth, os.environ if environ is None else environ, settings_module.data_folder())
        sealer = Sealer(keys)
        opened.seal_with(DetailSealer(keys))
        loaded.at_rest.apply(opened)
        variables = await Secrets(opened, sealer).environment(loaded, environ)
        sources = SourceSet(loaded, note, variables)
        known: ToolStore = opened
        if tools or tape is not None:
            from spindle.sources.handed_over import hand_over

            added = hand_over(sources, loaded, tools, tape, note)
            known = LayeredToolStore(opened, await private.open(), added)
        auth = SourceAccess(opened, sealer, keys, loaded.auth, sources.config, clock.now, token_store)
        auth.secrets.adopt(loaded, environ)
        chosen = Credentials(credentials, auth)
        catalog = Catalog(sources, known, chosen, note)
        catalog.meaning = meaning_of(loaded, variables, (opened, private)[: 1 + (known is not opened)], note)
        chosen.on_newer = catalog.connections.supersede
        files = FolderFileStore(loaded.state_folder / "files")
        caller = Caller(
            catalog, opened, files, chosen, note, permission=permission, visible=visible, clock=clock
        )
        kept = run_store or opened
        flow_parts = WorkspaceFlows(loaded.root, flows, opened, kept, sealer, caller, clock.now)
        agent_parts = WorkspaceAgents(catalog, visible, kept, sealer, opened)
        works = {"agent": agent_parts.work, "code": agent_parts.code.work, "flow": flow_parts.work}
        works |= {"connect": Connecting(catalog, visible).work, PART: flow_parts.work}

        def engine() -> Engine:
            address = loaded.store_address(os.environ if environ is None else environ)
            place = (address, database_of(address), loaded.state_folder)
            return open_engine(loaded.engine(environ), *place, note, root=loaded.root)

        runner = flow_parts.runner = Runner(caller, kept, sealer, note, clock, works, engine)
        runner.tasks.queue = lambda: loaded.engine(environ).task_queue
        await catalog.open()

        def make_requests() -> SourceRequests:
            from spindle.calls.requests import SourceRequests

            return SourceRequests(catalog, chosen, caller, clock.now)

    except BaseException:
        await private.close()
        await opened.close()
        raise
    return Spindle(
        loaded, opened, private, catalog, caller, auth, runner, flow_parts, agent_parts, make_requests,
        Pruner(opened, kept, files, sealer, note, clock.now), files, on_question, environ, visible, note,
    )  # fmt: skip
