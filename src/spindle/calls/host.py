"""A tool's way out through the call that it serves: further calls, questions, and the client that called."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from spindle.calls.content import keep_large_content
from spindle.calls.delegation import delegation
from spindle.calls.journal import Journal, current_journal
from spindle.calls.known_secrets import known_secrets
from spindle.calls.options import CallOptions
from spindle.calls.sampling import own_model
from spindle.errors import Interruption

if TYPE_CHECKING:
    from spindle.calls.deadlines import Deadline
    from spindle.calls.limits import Limit, hold
    from spindle.calls.sampling import Sampling
    from spindle.domain.call import CallRecord, Host, Reply, Result
    from spindle.domain.doubt import InDoubt
    from spindle.domain.flow_of_trust import TrustPolicy
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.peer import Peer
    from spindle.domain.source import SourceConfig
    from spindle.domain.text_values import Parse
    from spindle.domain.tool import Tool
    from spindle.ports.file_store import FileStore
    from spindle.ports.source import Note


class StepWork(Protocol):
    """A kind of work, besides calls of tools, that a step of a run may be: a language model's answer, or an
    agent's task."""

    async def __call__(self, given: JsonObject, host: CallHost, options: CallOptions) -> Result: ...

    async def require(self, given: JsonObject) -> None:
        """Raises ConfigurationError if it is known before it begins that it cannot be done here."""
        ...


class MakesCalls(Protocol):
    """The part of a Caller that a host needs."""

    step_work: Callable[[str], StepWork]

    files: FileStore
    note: Note

    def call(
        self, name: str, arguments: Mapping[str, Any], options: CallOptions
    ) -> Coroutine[Any, Any, Result]: ...

    async def find(self, name: str, principal: Principal) -> Tool: ...

    async def secret(self, name: str, principal: Principal) -> str: ...

    def config(self, source: str) -> SourceConfig: ...


# Bound once, as every call asks for them.
_model_at_hand, _secrets_at_hand, _agents_at_hand = own_model.get, known_secrets.get, delegation.get


class CallHost:
    """Makes further calls, and asks questions, at the place of one call."""

    __slots__ = ("_caller", "_delegation", "_journal", "_model", "_principal", "_secrets")

    def __init__(
        self,
        caller: MakesCalls,
        principal: Principal,
        journal: Journal | None,
        model: Sampling | None = None,
    ) -> None:
        """`model` answers sources that its calls ask for one; by default that of whoever called."""
        self._caller = caller
        self._principal = principal
        self._journal = journal
        self._model = model or _model_at_hand()
        self._secrets = _secrets_at_hand()
        self._delegation = _agents_at_hand()

    @property
    def principal(self) -> Principal:
        return self._principal

    def with_model(self, model: Sampling | None) -> CallHost:
        """The same host for an agent in whose context this is called, with its model that answers sources."""
        return CallHost(self._caller, self._principal, self._journal, model)

    @property
    def policy(self) -> TrustPolicy | None:
        """The flow-of-trust policy to which all steps below this place keep."""
        return self._journal.policy if self._journal is not None else None

    def under(self, policy: TrustPolicy | None, origin: str = "") -> None:
        """Has all steps below this place keep to the policy. `origin`: where untrusted content came from that
        is there from the start."""
        if self._journal is not None:
            if policy is not None:
                self._journal.policy = policy.inside(self._journal.policy)
            if origin:
                self._journal.mark_untrusted(origin)

    @property
    def untrusted(self) -> str | None:
        """The tool that brought untrusted content into the run first."""
        return self._journal.untrusted if self._journal is not None else None

    @property
    def step_id(self) -> str | None:
        return self._journal.step_id if self._journal is not None else None

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        use_cache: bool = True,
        cache_ttl: float | None = None,
        on_record: Callable[[CallRecord], None] | None = None,
        limits: Sequence[Limit] = (),
        approve: Callable[[Tool, bool], bool] | None = None,
        is_clean: bool = False,
    ) -> Result:
        options = CallOptions(
            self._principal, timeout, limits=limits, use_cache=use_cache, cache_ttl=cache_ttl,
            on_record=on_record, approve=approve, is_clean=is_clean,
        )  # fmt: skip
        # Not left to the context: a tool may hand its Context to threads and tasks that have another one.
        token, model = current_journal.set(self._journal), own_model.set(self._model)
        known = known_secrets.set(known_secrets.get() or self._secrets)
        agents = delegation.set(self._delegation)
        try:
            return await self._caller.call(tool, arguments, options)
        finally:
            delegation.reset(agents)
            known_secrets.reset(known)
            own_model.reset(model)
            current_journal.reset(token)

    async def find(self, tool: str) -> Tool:
        return await self._caller.find(tool, self._principal)

    async def work(self, kind: str, given: JsonObject) -> Result:
        work, options = self._caller.step_work(kind), CallOptions(self._principal)

        async def done(place: Journal | None) -> Result:
            return await work(given, CallHost(self._caller, self._principal, place, self._model), options)

        if self._journal is None:
            return await done(None)
        return await self._journal.step(kind, given, self._principal, done)

    async def require(self, kind: str, given: JsonObject) -> None:
        await self._caller.step_work(kind).require(given)

    async def kept(self, result: Result) -> Result:
        return await keep_large_content(result, self._caller.files, self._caller.note, over=0)

    def holds(self, path: str) -> bool:
        return self._caller.files.holds(path)

    def parses(self, tool: Tool) -> Parse:
        return self._caller.config(tool.source).parse

    async def secret(self, name: str) -> str:
        return await self._caller.secret(name, self._principal)

    def ask(self, question: BaseException) -> Reply:
        if self._journal is None or not isinstance(question, Interruption):
            raise question
        return self._journal.ask(question)

    async def remember(
        self,
        name: str,
        key: Any,
        make: Callable[[Host], Awaitable[Any]],
        *,
        in_doubt: InDoubt = "repeat",
    ) -> Any:
        if self._journal is None:
            return await make(self)
        return await self._journal.remember(
            name,
            key,
            lambda place: make(CallHost(self._caller, self._principal, place, self._model)),
            in_doubt=in_doubt,
        )

    def recall(self, name: str, key: Any) -> Any:
        return None if self._journal is None else self._journal.recall(name, key)

    def branch(self, name: str) -> Self:
        place = None if self._journal is None else self._journal.branch(name)
        return type(self)(self._caller, self._principal, place, self._model)

    def give_up(self) -> None:
        if self._journal is not None:
            self._journal.give_up()

    def note(self, name: str, data: JsonObject) -> bool:
        return True if self._journal is None else self._journal.note(name, data)


class PatientPeer:
    """The client that made a call; the call's time limit stands still while the client is asked something."""

    __slots__ = ("_asked", "_limit", "_peer", "deadline", "held")

    def __init__(self, peer: Peer, limit: float, deadline: Deadline | None = None) -> None:
        self._peer = peer
        self._limit = limit
        self._asked = 0
        self.deadline = deadline
        """The limit of the attempt that is being made."""
        self.held: hold | None = None
        """The places that the call has among others, which they have while it waits for an answer."""

    @property
    def owner(self) -> object:
        return self._peer.owner

    @property
    def holder(self) -> str:
        return self._peer.holder

    @property
    def has_session(self) -> bool:
        return self._peer.has_session

    def wants_own_session(self, answers: Collection[str]) -> bool:
        return self._peer.wants_own_session(answers)

    @property
    def capabilities(self) -> JsonObject:
        return self._peer.capabilities

    @property
    def log_level(self) -> str | None:
        return self._peer.log_level

    def log(self, level: str, data: Any, logger: str | None) -> None:
        self._peer.log(level, data, logger)

    @property
    def comes_back(self) -> bool:
        return self._peer.comes_back

    @property
    def has_model(self) -> bool:
        return self._peer.has_model

    def can_answer(self, method: str) -> bool:
        return self._peer.can_answer(method)

    async def ask(self, method: str, params: JsonObject | None) -> JsonObject:
        deadline, held = self.deadline, self.held
        self._asked += 1
        if deadline is not None:
            deadline.reschedule(None)
        if held is not None:
            held.lend()
        try:
            return await self._peer.ask(method, params)
        except asyncio.CancelledError:
            held = None  # the call has ended, and needs no place
            raise
        finally:
            self._asked -= 1
            if deadline is not None and not self._asked:
                deadline.reschedule(self._limit)
            if held is not None:
                await held.take_back()
