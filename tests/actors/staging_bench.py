"""A queue with stages of transactions."""

from __future__ import annotations

from typing import Any

from actors.batch import MessageBatch
from actors.queue.state.log import QueueLog
from actors.queue.state.staged import CommittedVersions, apply_commit
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey
from tests.actors.driven import Deliver, QueueState

LARGE = 10**9

KEY = StageKey("w", 0, "s")


class Bench:
    """One queue and the versions that are committed, with a clock."""

    def __init__(self, log: QueueLog | None = None, **settings: Any) -> None:
        self.versions = CommittedVersions()
        self.events: list[Any] = []
        self.queue = QueueState(
            "q", 3, QueueSettings(**settings), log=log, record=self.record, versions=self.versions, now=0.0
        )
        self.now = 0.0
        self.sent = 0

    def record(self, event: Any) -> int:
        self.events.append(event)
        return len(self.events)

    def attach(self, connection: str, key: StageKey = KEY, messages: int = 1_000, size: int = 100_000) -> int:
        facts = self.queue.attach_stage(connection, key, self.now)
        self.queue.request_capacity(connection, messages, size)
        return facts.messages

    def stage(self, connection: str, *payloads: bytes, at: int = 0) -> None:
        batch = MessageBatch.from_payloads(payloads)
        self.queue.send(connection, at, batch, self.now, round(self.now * 1e6))

    def send(self, *payloads: bytes) -> None:
        if not self.sent:
            self.queue.attach_sender("plain", None)
            self.queue.request_capacity("plain", 1_000, LARGE)
        batch = MessageBatch.from_payloads(payloads)
        self.queue.send("plain", self.sent, batch, self.now, round(self.now * 1e6))
        self.sent += len(payloads)

    def commit(self, *names: str, writer: str = "w", version: int = 0) -> int:
        number = self.record("the transaction's record")
        ended = apply_commit({3: self.queue.log}, self.versions, writer, version, {3: names}, number)
        if 3 in ended:
            self.queue.end_stages(ended[3], number, self.now)
        return number

    def effects(self, kind: type) -> list[Any]:
        return [effect for effect in self.queue.take_effects() if isinstance(effect, kind)]

    def received(self, messages: int = LARGE) -> list[tuple[int, bytes]]:
        """Numbers and payloads of what a receiver gets that acknowledges it all."""
        if "r" not in {facts.connection for facts in self.queue.statistics(self.now).connections}:
            self.queue.attach_receiver("r")
        self.queue.receive("r", messages, LARGE, self.now)
        found: list[tuple[int, bytes]] = []
        while effects := self.effects(Deliver):
            for effect in effects:
                found += list(enumerate(effect.batch.payloads, effect.first))
                self.queue.acknowledge("r", [(effect.first, len(effect.batch))])
            self.queue.tick(self.now)
        self.queue.cancel_demand("r")
        return found
