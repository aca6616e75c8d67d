"""The memory of agents beyond one run: conversations that go on in later runs, and facts.

It belongs to a principal, is encrypted, and is kept until it is deleted. Nobody reads that of another.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from spindle.agents.results import ShownResult, shown_error
from spindle.domain.identity import Secret
from spindle.domain.json_schema import JsonObject, to_json
from spindle.errors import ConfigurationError, InvalidArgumentsError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    from spindle.agents.definition import Job
    from spindle.auth.encryption import Sealer
    from spindle.domain.call import Host
    from spindle.domain.identity import Principal
    from spindle.ports.store import SecretStore

MOST_FACTS = 1_000
"""Facts of one principal."""
LONGEST_FACT = 2_000
LONGEST_NAME = 200
MOST_RECALLED = 20
MOST_RUNS = 100
"""Runs of a thread whose long results can be read on in."""
MOST_OF_THREAD = 4 * 1024 * 1024
"""Bytes of the messages of one thread."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that an agent chose to keep."""

    id: str
    text: str
    at: float

    def to_dict(self) -> JsonObject:
        """Returns the fact as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation over several runs: its messages, and the runs that they are from, the newest first."""

    messages: Sequence[JsonObject]
    runs: tuple[str, ...]


class AgentMemory:
    """The memory of all agents of a workspace."""

    def __init__(self, store: SecretStore, sealer: Sealer) -> None:
        self._store = store
        self._sealer = sealer

    # --- facts

    async def remember(self, principal: Principal, text: str, id: str) -> Fact:
        """Keeps a fact. The same id again replaces it."""
        if len(text) > LONGEST_FACT:
            raise InvalidArgumentsError(f"a fact has at most {LONGEST_FACT} characters: keep it short")
        known = await self.facts(principal)
        if len(known) >= MOST_FACTS and all(fact.id != id for fact in known):
            raise InvalidArgumentsError(f"there are {MOST_FACTS} facts already: forget some first")
        fact = Fact(id, text, time.time())
        await self._save(principal, "fact", id, fact.to_dict())
        return fact

    async def facts(self, principal: Principal) -> list[Fact]:
        """Returns all facts of a principal, the oldest first."""
        stored = await self._store.secrets("memory", source=_owner("fact", principal))
        found = [Fact(**self._sealer.open(item.sealed, item.key)) for item in stored]
        return sorted(found, key=lambda fact: fact.at)

    async def recall(self, principal: Principal, words: str, limit: int) -> list[Fact]:
        """Returns the facts that share most words with these; the newest of several."""
        wanted = _words(words)
        scored = [(len(wanted & _words(fact.text)), fact.at, fact) for fact in await self.facts(principal)]
        best = sorted((item for item in scored if item[0] or not wanted), key=lambda item: item[:2])
        return [fact for _, _, fact in reversed(best)][:limit]

    async def forget(self, principal: Principal, id: str) -> bool:
        """Deletes a fact. False: there was none."""
        return await self._store.delete_secret("memory", _key(principal, "fact", id))

    async def use(self, how: str, given: JsonObject, host: Host, place: str) -> ShownResult:
        """Does for a model what it asks of its memory, once, however often its run passes this place."""
        principal, id = host.principal, hashlib.sha256(place.encode()).hexdigest()[:12]

        async def make(_: Host) -> list[str]:
            if how == "remember":
                fact = await self.remember(principal, str(given["fact"]), id)
                return [f"kept as {fact.id}"]
            if how == "forget":
                was_there = await self.forget(principal, str(given["id"]))
                return ["deleted" if was_there else "there is no such fact"]
            found = await self.recall(principal, str(given.get("query", "")), MOST_RECALLED)
            return [f"{fact.id}: {fact.text}" for fact in found] or ["nothing was kept about that"]

        try:
            return ShownResult("\n".join(await host.remember(how, [given, place], make)))
        except InvalidArgumentsError as error:
            return shown_error(error)

    # --- threads

    async def keep(self, principal: Principal, job: Job, messages: Sequence[ModelMessage]) -> None:
        """Keeps the conversation of a run in its thread, without the oldest turns of one that is too long."""
        from spindle.agents.context import Cut, without
        from spindle.agents.conversation import write_messages

        assert job.thread is not None
        kept = list(messages)
        while not fits(written := write_messages(kept)):
            answers = [index for index, item in enumerate(kept) if item.kind == "response"]
            if len(answers) < 2:
                return
            kept = without(kept, Cut(answers[len(answers) // 2], turns=True), lambda _: False)
        await self.save_thread(principal, job.thread, Thread(written, (job.run, *job.earlier)[:MOST_RUNS]))

    async def thread(self, principal: Principal, name: str) -> Thread | None:
        """Returns a conversation, or None if it has not begun."""
        if not name or len(name) > LONGEST_NAME:
            raise ConfigurationError(f"the name of a thread has 1 to {LONGEST_NAME} characters")
        key = _key(principal, "thread", name)
        found = await self._store.secret("memory", key)
        if found is None:
            return None
        data: JsonObject = self._sealer.open(found.sealed, key)
        return Thread(data["messages"], tuple(data["runs"]))

    async def threads(self, principal: Principal) -> list[str]:
        """Returns the names of the conversations of a principal."""
        stored = await self._store.secrets("memory", source=_owner("thread", principal))
        return sorted(self._sealer.open(item.sealed, item.key)["name"] for item in stored)

    async def save_thread(self, principal: Principal, name: str, thread: Thread) -> None:
        """Keeps the conversation as it is now, in the place of what was there."""
        data = {"name": name, "messages": list(thread.messages), "runs": list(thread.runs)}
        await self._save(principal, "thread", name, data)

    async def forget_thread(self, principal: Principal, name: str) -> bool:
        """Deletes a conversation. Its runs stay in the history. False: there was none."""
        return await self._store.delete_secret("memory", _key(principal, "thread", name))

    async def _save(self, principal: Principal, what: str, name: str, data: Any) -> None:
        key = _key(principal, what, name)
        sealed = self._sealer.seal(data, key)
        secret = Secret("memory", key, sealed, _owner(what, principal), principal.id, updated_at=time.time())
        await self._store.save_secret(secret)


def fits(messages: Sequence[JsonObject]) -> bool:
    """True if the messages of a thread are not too many to be kept."""
    return len(to_json(list(messages))) <= MOST_OF_THREAD


def _owner(what: str, principal: Principal) -> str:
    return f"{what}:{hashlib.sha256(principal.id.encode()).hexdigest()[:32]}"


def _key(principal: Principal, what: str, name: str) -> str:
    return f"{_owner(what, principal)}:{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def _words(text: str) -> set[str]:
    return {word.rstrip("s") or word for word in re.findall(r"\w+", text.lower())}
