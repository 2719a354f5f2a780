"""A queue whose messages are refused, or expire, in front of an exchange with queues behind it, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors.batch import Message, MessageBatch
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.statistics import QueueStatistics
from tests.actors.publishing_bench import LARGE, defined
from tests.actors.stored_queues import StoredQueues, turns

TO_X = QueueSettings(max_receives=1, dead_letter_exchange="x")
GONE = "no good"
"""The reason with which all is refused."""


class Letters(StoredQueues):
    """A directory with the queue ``q``, whose dead letters go to the exchange ``x``."""

    def __init__(self, folder: Path | None, settings: QueueSettings = TO_X, **storage: Any) -> None:
        super().__init__(folder, **storage)
        if "q" not in self.queues:
            self.queues.declare("q", settings)

    async def bound(self, kind: str = "fanout", exchange: str = "x", **bindings: str) -> None:
        """An exchange of a kind with queues bound by these keys, each made if need be."""
        decide = self.queues.exchanges.exchanges.decide
        await defined(self, decide.declare(exchange, kind))
        for queue, key in bindings.items():
            self.queues.get_or_create(queue)
            await defined(self, decide.bind(exchange, queue, key))

    def store(self, *messages: bytes | Message, name: str = "q", ttl: float | None = None) -> None:
        """Have messages in a queue, which is not asked."""
        batch = MessageBatch.from_messages([Message(one) if isinstance(one, bytes) else one for one in messages])
        self.queues.distributor.store([name], batch, ttl=ttl)

    async def refuse(self, name: str = "q", messages: int = 10_000) -> None:
        """Receive what there is, and refuse it for good."""
        ref, told = await self.connect(
            self.queues.get(name),
            lambda ref: commands.AttachReceiver(connection=ref),
            lambda ref: commands.DemandSignalled(messages, LARGE, connection=ref),
        )
        if self._storage is not None:
            await self.settled()
        for reply in told:
            if isinstance(reply, replies.ReceivedMessages):
                pairs = ((reply.first, len(reply.batch)),)
                self.queues.get(name).tell(commands.Rejected(pairs, connection=ref, reason=GONE))
        await turns()
        self.queues.get(name).tell(commands.Left(connection=ref))
        await turns()

    async def die_of(self, *messages: bytes | Message, name: str = "q") -> None:
        """Have messages in the queue, and refuse them."""
        self.store(*messages, name=name)
        await self.refuse(name)

    def figures(self, name: str) -> QueueStatistics:
        found = self.queues.read(name)
        assert found is not None
        return found

    def holds(self, *names: str) -> list[list[bytes]]:
        """What is stored in each of these queues, in order; nothing of a queue that is not there."""
        return [[bytes(message.payload) for message in self.messages(name)] for name in names]

    def messages(self, name: str) -> Sequence[Message]:
        if name not in self.queues:
            return []
        log = self.queues.logs()[name]
        found: list[Message] = []
        for start, stop in log.stored():
            position = start
            while position < stop:
                entry = log.table.at(position)
                assert entry is not None
                end = min(stop, entry.stop)
                found += entry.read().part(position, end).messages()
                position = end
        return found

    def headers(self, name: str) -> list[dict[str, Any]]:
        return [dict(message.headers or {}) for message in self.messages(name)]

    async def acknowledge(self, name: str, count: int) -> None:
        """Have the first messages of a queue done with."""
        ref, told = await self.connect(
            self.queues.get(name),
            lambda ref: commands.AttachReceiver(connection=ref),
            lambda ref: commands.DemandSignalled(count, LARGE, connection=ref),
        )
        if self._storage is not None:
            await self.settled()
        for reply in told:
            if isinstance(reply, replies.ReceivedMessages):
                self.queues.get(name).tell(commands.Acknowledged(((reply.first, len(reply.batch)),), connection=ref))
        await turns()
        self.queues.get(name).tell(commands.Left(connection=ref))
        await turns()
        if self._storage is not None:
            await self.settled()
