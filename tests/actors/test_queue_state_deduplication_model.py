"""Queues that remember ids against a model, under arbitrary batches, transactions, alterations, times and restarts.

The model knows of each id until when others are duplicates, and of each message whether it is to be stored, and where. What is in the queue
is read by a receiver, once all is over and in between. A restart is from the records, or from a checkpoint and the records behind it; it
may come between a commit and the queue's acting on it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors.batch import Message, MessageBatch
from actors.queue.operations.deduplicating import duplicates_of
from actors.queue.state.log import QueueLog
from actors.queue.state.staged import CommittedVersions, apply_commit
from actors.queue.vocabulary.commands import AlterQueue
from actors.queue.vocabulary.events import MessagesAdded
from actors.queue.vocabulary.settings import DROP_HEAD, REJECT, QueueSettings
from actors.queue.vocabulary.stages import StageKey
from actors.storage.snapshot import Snapshot, StoredQueue, decode_snapshot, encoded
from tests.actors.driven import Confirm, Deliver, QueueState, empty_log
from tests.actors.test_queue_state_levels_model import LeveledQueueMachine
from tests.actors.test_queue_state_model import QueueMachine, declared
from tests.examples_tried import tried

US = 1_000_000
WALL = 1_700_000_000 * US
LARGE = 10**9
WINDOW = 10.0
NUMBER = 5
IDS = st.sampled_from([None, None, "a", "b", "c", "d", "e"])
BATCHES = st.lists(st.tuples(IDS, st.integers(0, 2)), min_size=1, max_size=5)
"""Ids, and how many messages without one are behind each."""
FORGETS = object()
"""In the place of an event: settings were recorded by which no id counts."""


class DeduplicationMachine(RuleBasedStateMachine):
    declarations: ClassVar[tuple[QueueSettings, ...]] = (
        QueueSettings(deduplication_window=WINDOW),
        QueueSettings(deduplication_window=WINDOW, overflow=REJECT),
        QueueSettings(deduplication_window=WINDOW, max_priority=2),
        QueueSettings(deduplication_window=WINDOW, overflow=DROP_HEAD, max_messages=10_000),
        QueueSettings(deduplication_window=WINDOW, ttl=1_000.0, max_receives=3),
    )

    @initialize(declared=st.sampled_from(range(5)))
    def declare(self, declared: int) -> None:
        self.settings = self.declarations[declared]
        self.now = 100.0
        self.events: list[Any] = []
        self.base: bytes | None = None
        self.base_events = 0
        self.versions = CommittedVersions()
        self.queue = self.made(empty_log(self.settings))
        self.count = 0
        self.version = 0
        # By id until when it counts; of numbers what is stored there.
        self.ids: dict[str, float] = {}
        # By which event the message of an id was stored, since the start; and the last of those by which duplicates have to wait.
        self.by: dict[str, int] = {}
        self.waits = 0
        self.stored: dict[int, str] = {}
        self.next = 0
        self.staged: dict[int, tuple[str, str | None]] = {}
        self.sent = self.duplicates = self.base_duplicates = 0
        self.producer = 0
        self.attach()

    def made(self, log: QueueLog) -> QueueState:
        return QueueState(
            "q",
            NUMBER,
            self.settings,
            log=log,
            record=self.record,
            now=self.now,
            wall_us=self.wall,
            versions=self.versions,
        )

    def record(self, event: Any) -> int:
        self.events.append(event)
        return len(self.events)

    @property
    def wall(self) -> int:
        return WALL + round(self.now * US)

    def attach(self) -> None:
        for name, producer in (("s", None), ("p", "producer")):
            last = self.queue.attach_sender(name, producer)
            assert last == (self.producer or None if producer else None)
            self.queue.request_capacity(name, 100_000, LARGE)
        self.queue.take_effects()
        self.sent = 0

    def batch(
        self, said: list[tuple[str | None, int]], priority: int
    ) -> tuple[MessageBatch, list[tuple[str, str | None]]]:
        """Messages, and what each is: its payload, which no other has, and its id."""
        found: list[tuple[str, str | None]] = []
        for each, plain in said:
            for deduplication_id in (each, *[None] * plain):
                self.count += 1
                found.append((f"{priority}:{self.count}", deduplication_id))
        messages = [Message(payload.encode(), deduplication_id=own) for payload, own in found]
        return MessageBatch.from_messages(messages), found

    def judged(self, found: list[tuple[str, str | None]]) -> list[int | None]:
        """What the model makes of messages that come now: the number of each; None for duplicates."""
        numbers: list[int | None] = []
        for payload, own in found:
            if own is not None and self.ids.get(own, 0.0) > self.now and self.settings.deduplication_window:
                numbers.append(None)
                self.duplicates += 1
                self.waits = max(self.waits, self.by.get(own, 0))
                continue
            if own is not None and self.settings.deduplication_window:
                self.ids[own] = self.now + self.settings.deduplication_window
                self.by[own] = len(self.events)
            numbers.append(self.next)
            self.stored[self.next] = payload
            self.next += 1
        return numbers

    def check(self, confirm: Confirm, numbers: list[int | None]) -> None:
        assert confirm.rejected is None
        assert confirm.after >= self.waits, "what it is a duplicate of may be lost"
        if confirm.numbers is None:
            assert confirm.first == numbers[0]
            assert numbers == list(range(numbers[0] or 0, (numbers[0] or 0) + len(numbers)))
            return
        told: list[int | None] = []
        for first, count in confirm.numbers:
            told += [None] * count if first is None else range(first, first + count)
        assert told == numbers

    @rule(said=BATCHES, priority=st.integers(0, 2), named=st.booleans(), again=st.integers(0, 3))
    def send(self, said: list[tuple[str | None, int]], priority: int, named: bool, again: int) -> None:
        batch, found = self.batch(said, priority)
        name, at = ("p", self.producer) if named else ("s", self.sent)
        self.queue.accept(name, at, batch, priority=priority)
        self.queue.store(self.now, self.wall)
        (confirm,) = [effect for effect in self.queue.take_effects() if isinstance(effect, Confirm)]
        self.check(confirm, self.judged(found))
        if not named:
            self.sent += len(batch)
            return
        self.producer += len(batch)
        if again == 0:
            # As after a lost connection: it is known by its numbers, and counts as no duplicate.
            self.queue.accept(name, at, batch, priority=priority)
            self.queue.store(self.now, self.wall)
            self.queue.take_effects()

    @rule(one=BATCHES, other=BATCHES)
    def send_in_one_turn(self, one: list[tuple[str | None, int]], other: list[tuple[str | None, int]]) -> None:
        first, second = self.batch(one, 0), self.batch(other, 0)
        self.queue.accept("s", self.sent, first[0])
        self.queue.accept("p", self.producer, second[0])
        self.sent += len(first[0])
        self.producer += len(second[0])
        self.queue.store(self.now, self.wall)
        confirms = [effect for effect in self.queue.take_effects() if isinstance(effect, Confirm)]
        for confirm, (_, found) in zip(confirms, (first, second), strict=True):
            self.check(confirm, self.judged(found))

    @rule(said=BATCHES)
    def stage(self, said: list[tuple[str | None, int]]) -> None:
        if self.staged:
            return
        batch, found = self.batch(said, 0)
        self.queue.attach_stage("w", StageKey("w", self.version, "s"), self.now)
        self.queue.request_capacity("w", 1_000, LARGE)
        self.queue.accept("w", 0, batch)
        self.queue.store(self.now, self.wall)
        self.queue.take_effects()
        self.staged = dict(enumerate(found, self.next))
        self.next += len(found)
        self.staged_with_ids = bool(self.settings.deduplication_window)

    @rule(killed=st.booleans(), between=st.none() | BATCHES)
    def commit(self, killed: bool, between: list[tuple[str | None, int]] | None) -> None:
        if not self.staged:
            return
        self.events.append(None)
        (ended,) = apply_commit(
            {NUMBER: self.queue.log},
            self.versions,
            "w",
            self.version,
            {NUMBER: ["s"]},
            len(self.events),
            lambda log, published: duplicates_of(log, published, self.wall),
        ).values()
        self.events[-1] = ended
        self.version += 1
        window = self.settings.deduplication_window if self.staged_with_ids else None
        for number, (payload, own) in self.staged.items():
            if window and own is not None:
                if self.ids.get(own, 0.0) > self.now:
                    self.duplicates += not killed
                    continue
                self.ids[own] = self.now + window
                self.by[own] = len(self.events)
            self.stored[number] = payload
        self.staged = {}
        if killed:
            self.restart(checkpoint=False)
        else:
            number = len(self.events)
            if between is not None:
                # Before the queue acts on it.
                batch, found = self.batch(between, 0)
                self.queue.accept("s", self.sent, batch)
                self.sent += len(batch)
                self.queue.store(self.now, self.wall)
                (confirm,) = [effect for effect in self.queue.take_effects() if isinstance(effect, Confirm)]
                self.check(confirm, self.judged(found))
            self.queue.end_stages(ended, number, self.now)
            self.queue.forget("w", self.now)
            self.queue.take_effects()

    @rule()
    def abort(self) -> None:
        if self.staged:
            assert self.queue.discard_transaction("w", self.version, self.now) == len(self.staged)
            self.staged = {}
            self.version += 1
            self.queue.take_effects()

    @rule(seconds=st.sampled_from([0.5, 3.0, 9.5, 10.0, 40.0]), ticks=st.booleans())
    def pass_time(self, seconds: float, ticks: bool) -> None:
        self.now += seconds
        if ticks:
            self.queue.tick(self.now)
            self.queue.take_effects()

    @rule(window=st.sampled_from([None, 4.0, WINDOW, 30.0]))
    def alter(self, window: float | None) -> None:
        self.settings = replace(self.settings, deduplication_window=window)
        self.queue.execute(AlterQueue(self.settings), self.now, self.wall)
        if window is None:
            self.ids.clear()
            # As the settings are recorded.
            self.events.append(FORGETS)
        self.queue.take_effects()

    @rule(checkpoint=st.booleans())
    def restart(self, checkpoint: bool) -> None:
        if checkpoint:
            self.base, self.base_events = self.pictured(), len(self.events)
        log = self.restored()
        before = self.queue.log
        for number, event in enumerate(self.events[self.base_events :], self.base_events + 1):
            if event is FORGETS:
                log.accepted = None
            else:
                log.apply(event, number)
        assert log == before
        self.queue = self.made(log)
        self.duplicates = self.waits = 0
        self.by.clear()
        self.attach()

    def pictured(self) -> bytes:
        stored = StoredQueue(NUMBER, "q", self.settings, self.queue.log)
        return b"".join(encoded(Snapshot(1, NUMBER + 9, [stored], self.versions)))

    def restored(self) -> QueueLog:
        if self.base is None:
            return empty_log(self.settings)
        # The batches are in the journal, whatever is wanted of them by now.
        table = empty_log(self.settings).table
        added = [event for event in self.events[: self.base_events] if isinstance(event, MessagesAdded)]
        for event in added:
            table.add(event, 0)
        (stored,) = decode_snapshot(self.base, lambda _number, _levels: table).queues
        for event in added:
            if stored.log.acknowledged.reach(event.first) >= event.first + len(event.batch):
                table.discard(event.first)
        return stored.log

    @rule()
    def receive(self) -> None:
        self.queue.attach_receiver("r")
        self.queue.receive("r", LARGE, LARGE, self.now)
        found: dict[int, str] = {}
        while deliveries := [effect for effect in self.queue.take_effects() if isinstance(effect, Deliver)]:
            for effect in deliveries:
                found |= {effect.first + at: bytes(one).decode() for at, one in enumerate(effect.batch.payloads)}
                self.queue.acknowledge("r", [(effect.first, len(effect.batch))])
            self.queue.tick(self.now)
        self.queue.forget("r", self.now)
        self.queue.take_effects()
        assert found == self.stored
        self.stored = {}

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "queue"):
            return
        log = self.queue.log
        assert log.stored_messages == len(self.stored)
        assert log.staged_messages == len(self.staged)
        assert self.queue.total_deduplicated == self.duplicates
        assert log.total_in == log.stored_messages + log.total_acknowledged
        if log.accepted is not None:
            log.accepted.forget(self.wall)
            counting = sum(due > self.now for due in self.ids.values())
            assert len(list(log.accepted)) == counting


class DeduplicatingQueueMachine(QueueMachine):
    """The model of every queue, of such that look at ids, which these messages have none of."""

    declarations: ClassVar[tuple[QueueSettings, ...]] = (
        declared(deduplication_window=5.0),
        declared(deduplication_window=5.0, delay=3.0),
        declared(deduplication_window=5.0, overflow=REJECT, max_deduplication_ids=1),
        declared(deduplication_window=5.0, ttl=8.0, dead_letter_queue="late"),
        QueueSettings(6, None, 10.0, overflow=DROP_HEAD, deduplication_window=5.0),
    )


class DeduplicatingLeveledMachine(LeveledQueueMachine):
    declarations: ClassVar[tuple[QueueSettings, ...]] = (declared(deduplication_window=5.0, max_priority=2),)


class TestIdsAgainstTheirModel(DeduplicationMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(150), stateful_step_count=40)


class TestQueuesThatLookAtIds(DeduplicatingQueueMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=tried(40), stateful_step_count=50)


class TestLevelsThatLookAtIds(DeduplicatingLeveledMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=tried(20), stateful_step_count=50)


@pytest.mark.soak
@pytest.mark.hypothesis
@pytest.mark.timeout(1800)
def test_ids_against_their_model_for_long() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(DeduplicationMachine, settings=settings(max_examples=2_000, stateful_step_count=50))
