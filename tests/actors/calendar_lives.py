"""Lives of a queue with a calendar over a simulated disk and a clock that the test sets, beside a model that knows every message."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from actors.batch import MessageBatch
from actors.queue.operations.calendar import QUANTUM_US
from actors.queue.operations.purging import begin_purge, purge_step
from actors.queue.vocabulary.settings import QueueSettings
from actors.storage import Storage
from journal import JournalOptions, ManualCommitter
from tests.actors.driven import Confirm, Deliver, QueueState
from tests.fault.disk import ROOT, SimulatedDisk

DATA = ROOT / "data"
LARGE = 10**9
START_US = 1_790_000_000_000_000
US = 1_000_000


@dataclass(slots=True)
class Sent:
    """A message that was sent."""

    due_us: int
    level: int
    confirmed: bool = False
    delivered: int = 0


class CalendarLife:
    """One process after another over a disk, in which a queue has a calendar.

    Attributes:
        sent: every message that may be there, by its payload.
        log: the durable part of the queue.
    """

    def __init__(self, seed: int = 0, *, levels: int | None = None, **options: Any) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk()
        self.now = 5.0
        self.offset_us = START_US
        self.settings = QueueSettings(max_priority=levels, visibility_timeout=12 * 3600.0)
        self.options = {"segment_bytes": 16 * 1024, "checkpoint_records": 10**9, **options}
        self.sent: dict[bytes, Sent] = {}
        self.number = 0
        self.order: list[bytes] = []
        # What was delivered since everything was durable: its acknowledgement may be lost.
        self.unsure: list[bytes] = []
        self._begin()

    @property
    def wall_us(self) -> int:
        """The time of day."""
        return self.offset_us + round(self.now * US)

    def _begin(self) -> None:
        self.committer = ManualCommitter()
        self.failures: list[Any] = []
        self.storage = Storage.open(DATA, JournalOptions(**self.options), files=self.disk, committer=self.committer)
        self.storage.start(self.failures.append)
        if not self.storage.queues:
            self.storage.declare("other", None)
        if "q" not in {queue.name for queue in self.storage.queues}:
            self.storage.declare("q", self.settings)
        stored = next(queue for queue in self.storage.queues if queue.name == "q")
        self.log = stored.log
        self.queue = QueueState(
            "q",
            stored.number,
            self.settings,
            log=stored.log,
            record=partial(self.storage.record, stored.number),
            record_all=self.storage.record_all,
            now=self.now,
            wall_us=self.wall_us,
        )
        self.queue.attach_sender("s", None)
        self.queue.attach_receiver("r")
        self.queue.request_capacity("s", LARGE, LARGE)
        self.queue.receive("r", LARGE, LARGE, self.now)
        # By the number of the event that has to be durable before it is seen outside.
        self.told: list[tuple[int, Any]] = []
        self.sequence = 0
        self.settle()

    # --- what happens

    def send(self, delay: float, count: int = 1, priority: int = 0, ttl: float | None = None) -> list[bytes]:
        """Send a batch."""
        payloads = [b"%d" % (self.number + n) for n in range(count)]
        self.number += count
        due_us = self.wall_us + round(delay * US)
        for payload in payloads:
            self.sent[payload] = Sent(due_us, priority)
        batch = MessageBatch.from_payloads(payloads)
        self.queue.send("s", self.sequence, batch, self.now, self.wall_us, delay, ttl, priority)
        self.sequence += count
        self._take(payloads)
        return payloads

    def pass_time(self, seconds: float) -> None:
        """Let time pass in one step, as where the process was not given any; then it does all that is due."""
        self.now += seconds
        self.settle()

    def wait(self, seconds: float) -> None:
        """Let time pass, and have all that is due at its time."""
        end = self.now + seconds
        while (deadline := self.queue.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.settle()
        self.now = end
        self.settle()

    def settle(self) -> None:
        """Do what is due by now, until nothing is."""
        for _ in range(10_000):
            deadline = self.queue.next_deadline()
            if deadline is None or deadline > self.now:
                break
            self.queue.tick(self.now, self.wall_us)
            self._take()
        else:
            raise AssertionError("it never comes to rest")
        self._take()

    def sync(self) -> None:
        """Have everything durable, and told."""
        self.storage._gathered.write()
        self.committer.run()
        self.storage._advance()
        assert not self.failures
        self.unsure.clear()
        self._tell()

    def checkpoint(self) -> None:
        """Make a checkpoint."""
        self.storage._gathered.write()
        self.storage._checkpoints.make()
        self.storage._checkpoints._advance(whole=True)
        self.sync()

    def kill(self, *, power: bool = False, away: float = 0.0, clock: float = 0.0) -> None:
        """End the process, or the power with it, and start another some time later, with another time of day."""
        self.storage._journal.abandon()
        self.disk = self.disk.crash(self.random) if power else self.disk.restart()
        for payload in self.unsure:
            self.sent[payload] = Sent(self.sent[payload].due_us, 0)
        self.unsure.clear()
        self.now += away
        self.offset_us += round(clock * US)
        self._begin()

    def purge(self) -> int:
        """Purge the queue."""
        below, purged = begin_purge(self.queue)
        purged += sum(iter(lambda: purge_step(self.queue, below), 0))
        self._take()
        for payload in [payload for payload, sent in self.sent.items() if not sent.delivered]:
            del self.sent[payload]
        self.sync()
        return purged

    # --- what is seen

    def _take(self, payloads: list[bytes] | None = None) -> None:
        for effect in self.queue.take_effects():
            if isinstance(effect, Confirm):
                self.told.append((effect.after, payloads))
            elif isinstance(effect, Deliver):
                for payload in effect.batch.payloads:
                    # It is looked at when it leaves the queue: what a crash undoes leaves it again.
                    due_us = self.sent[bytes(payload)].due_us
                    assert due_us <= self.wall_us, f"{payload!r} comes {(due_us - self.wall_us) / US} s before its time"
                self.told.append((effect.after, effect))
        self._tell()

    def _tell(self) -> None:
        later = []
        for after, what in self.told:
            if after > self.storage.durable:
                later.append((after, what))
            elif isinstance(what, Deliver):
                for payload in what.batch.payloads:
                    sent = self.sent[bytes(payload)]
                    sent.delivered += 1
                    assert sent.delivered == 1, f"{payload!r} comes twice"
                    self.order.append(bytes(payload))
                    self.unsure.append(bytes(payload))
                self.queue.acknowledge("r", [(what.first, len(what.batch))])
            else:
                for payload in what or ():
                    if payload in self.sent:
                        self.sent[payload].confirmed = True
        self.told = later

    def check(self) -> None:
        """What is due has come, and what is stored is what has not."""
        self.sync()
        left = self.wall_us - QUANTUM_US
        late = [
            payload
            for payload, sent in self.sent.items()
            if sent.confirmed and not sent.delivered and sent.due_us <= left
        ]
        assert not late, f"{late} have not come"
        waiting = sum(sent.confirmed and not sent.delivered for sent in self.sent.values())
        statistics = self.queue.statistics(self.now)
        assert statistics.delayed >= waiting
        assert statistics.stored_messages == statistics.ready + statistics.delayed + statistics.in_flight
        calendar = self.log.calendar
        if calendar is not None:
            used = [slot for slot in calendar.streams.values() if slot.messages]
            assert calendar.messages == sum(slot.messages for slot in used)
            assert calendar.bytes == sum(slot.bytes for slot in used)
            assert sorted(map(id, used)) == sorted(map(id, calendar.used()))
            for slot in calendar.streams.values():
                assert slot.messages == slot.next - slot.gone.count_within(0, slot.next)
                assert (slot.bytes > 0) == (slot.messages > 0)
