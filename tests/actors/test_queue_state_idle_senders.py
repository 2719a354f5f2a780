"""Senders that send nothing beside one that is busy: what they were granted is lent, and the bounds of it."""

from __future__ import annotations

from random import Random

import pytest

from actors.batch import MessageBatch
from actors.errors import DiskBehindError
from actors.queue.state.permits import LENT_SHARE, WINDOWED_MESSAGES
from actors.queue.vocabulary.events import Event, MessagesAdded
from actors.queue.vocabulary.replies import Connection
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.driven import GrantCapacity, QueueState

LIMIT = 10_000
WINDOW, WINDOW_BYTES = 1_024, 256 * 1024
"""What a sending connection's actor asks for at first."""
LARGE = 10**9
SEND_SECONDS = 0.0002
"""A batch, from asking for room to having it."""


class Bench:
    """A queue whose receiver takes everything at once, and what its senders were granted."""

    def __init__(self, limit: int = LIMIT, drains: bool = True, max_bytes: int = LARGE) -> None:
        self.queue = QueueState("q", 0, QueueSettings(limit, max_bytes))
        self.granted: dict[Connection, int] = {}
        self.sent: dict[Connection, int] = {}
        self.drains = drains
        self.now = 0.0
        self.queue.attach_receiver("r")
        self.queue.receive("r", LARGE, LARGE * 1000, 0.0)

    def attach(self, name: Connection, window: int = WINDOW, size: int = WINDOW_BYTES) -> None:
        self.queue.attach_sender(name, None)
        self.granted[name] = self.sent[name] = 0
        self.queue.request_capacity(name, window, size)
        self.settle()

    def send(self, name: Connection, count: int, size: int = 1) -> None:
        """Send so many, and ask for as many again."""
        batch = MessageBatch.from_payloads([b"x" * size] * count)
        first = self.queue.log.next_sequence
        self.now += SEND_SECONDS
        self.queue.send(name, self.sent[name], batch, self.now, 1)
        self.granted[name] -= count
        self.sent[name] += count
        self.queue.request_capacity(name, count, batch.nbytes)
        if self.drains:
            self.queue.acknowledge("r", [(first, count)])
        self.settle()

    def may_send(self, name: Connection) -> int:
        """Messages of nine bytes each, the last of which may lead beyond the bytes granted."""
        permits = self.queue.senders[name].permits
        return max(0, min(permits.messages, max(int(permits.bytes > 0), permits.bytes // 9 - 1)))

    def settle(self) -> None:
        for effect in self.queue.take_effects():
            if isinstance(effect, GrantCapacity):
                self.granted[effect.sender] += effect.messages

    def turns_for(self, name: Connection, messages: int, most: int = 1_000) -> int:
        """How often a sender that sends all it may has to wait for more until so many are sent."""
        turns = 0
        while messages > 0:
            count = min(messages, self.may_send(name), most)
            self.send(name, count)
            messages -= count
            turns += 1
        return turns


def test_five_hundred_idle_senders_leave_a_busy_one_what_it_needs() -> None:
    alone = Bench()
    alone.attach("busy")
    bench = Bench()
    for number in range(500):
        bench.attach(number)
        assert bench.granted[number] >= 1
    bench.attach("busy")
    assert bench.turns_for("busy", 500_000) <= 1.25 * alone.turns_for("busy", 500_000) + 10


def test_senders_that_sent_one_message_each_and_then_nothing_hold_little_too() -> None:
    bench = Bench()
    for number in range(500):
        bench.attach(number)
    for number in range(500):
        bench.send(number, 1)
    bench.attach("busy")
    assert bench.turns_for("busy", 500_000) <= 520


@pytest.mark.parametrize("hoarders", [1, 4, 16, 500])
def test_senders_that_were_busy_and_are_idle_are_lent_from(hoarders: int) -> None:
    bench = Bench()
    for number in range(hoarders):
        bench.attach(number, 65_536, 10**7)
    for _ in range(4):
        for number in range(hoarders):
            if count := bench.may_send(number):
                bench.send(number, count)
    bench.attach("busy", 65_536, 10**7)
    # A permit at a time for half a second at most.
    assert bench.turns_for("busy", LIMIT) < 2_600, "at first, while the others are not known to be idle"
    assert bench.turns_for("busy", 100_000) <= 400


def test_senders_that_are_busy_one_after_another_leave_something_to_the_next() -> None:
    bench = Bench()
    for number in range(25):
        bench.attach(number, 65_536, 10**7)
    turns = []
    for number in range(25):
        bench.now += 1.0
        turns.append(bench.turns_for(number, 3 * LIMIT))
    # The first few are as if alone; each leaves less, for what it holds when it rests cannot be taken back.
    assert max(turns[:10]) < 150
    assert max(turns[:20]) < 500
    assert max(turns) < 1_000


@pytest.mark.parametrize("seed", range(8))
def test_however_senders_come_send_and_rest_the_limit_is_exceeded_by_no_more_than_is_said(seed: int) -> None:
    random = Random(seed)
    limit = random.choice([WINDOWED_MESSAGES, 1_000, LIMIT])
    bench = Bench(limit, drains=False)
    most = limit + limit // LENT_SHARE
    names: list[int] = []
    for step in range(1_500):
        if len(names) < 60 and random.random() < 0.1:
            names.append(step)
            bench.attach(step, random.choice([1, WINDOW, 65_536]), random.choice([1, WINDOW_BYTES, 10**7]))
        elif names and random.random() < 0.02:
            bench.queue.detach(names.pop(random.randrange(len(names))), 0.0)
            bench.settle()
        elif names:
            # Few of them are busy at a time.
            name = names[min(len(names) - 1, round(random.expovariate(0.4)))]
            if count := bench.may_send(name):
                bench.send(name, random.randint(1, count))
        log, capacity = bench.queue.log, bench.queue.statistics(0.0).capacity_granted
        assert capacity <= most + len(names)
        assert log.stored_messages <= limit + most + len(names)
        if log.stored_messages < limit:
            for name in names:
                sender = bench.queue.senders[name]
                assert not sender.permits.is_stuck() or bench.queue.capacity.closed(
                    log.stored_messages, log.stored_bytes
                )
        if random.random() < 0.2 and log.stored_messages:
            oldest = log.acknowledged.reach(0)
            bench.queue.acknowledge("r", [(oldest, random.randint(1, log.next_sequence - oldest))])
            bench.settle()
    units = bench.queue.capacity
    held = [sender.permits for sender in bench.queue.senders.values()]
    assert units.messages == sum(one.messages for one in held)
    assert units._messages.idle == sum(one.messages for one in held if one.idle)
    assert units._bytes.idle == sum(max(0, one.bytes) for one in held if one.idle)


@pytest.mark.parametrize("seed", range(6))
def test_no_permit_is_lost_or_counted_twice_when_senders_end_are_superseded_resend_and_are_refused(seed: int) -> None:
    random = Random(seed)
    disk_behind = False

    def record(event: Event) -> int:
        if isinstance(event, MessagesAdded) and disk_behind:
            raise DiskBehindError(2, 1)
        return 1

    settings = QueueSettings(random.choice([255, 256, LIMIT]), random.choice([10_000, LARGE]))
    queue = QueueState("q", 0, settings, record=record)
    queue.attach_receiver("r")
    queue.receive("r", LARGE, LARGE * 1000, 0.0)
    senders, capacity = queue.senders, queue.capacity
    now, refused = 0.0, 0
    for step in range(600):
        now += random.choice([0.0, 0.001, 0.3])
        disk_behind = random.random() < 0.2
        choice = random.random()
        if choice < 0.1 and len(senders) < 40:
            queue.attach_sender(step, random.choice([None, f"p{random.randint(0, 9)}"]), random.random() < 0.5)
            queue.request_capacity(step, random.choice([1, WINDOW]), random.choice([1, WINDOW_BYTES]))
        elif choice < 0.15 and senders:
            queue.detach(random.choice(list(senders)), now)
        elif choice < 0.85 and senders:
            name, sender = random.choice(list(senders.items()))
            batch = MessageBatch.from_payloads([b"x" * random.choice([0, 1_000])] * random.randint(1, 50))
            count = min(batch.count_within(max(0, sender.permits.bytes)), sender.permits.messages)
            if count > 0:
                number = sender.expected or 0
                # Now and then a part of it was sent before.
                number -= random.randint(0, min(number, count)) if random.random() < 0.2 else 0
                part = batch.slice(0, count)
                queue.accept(name, number, part)
                if random.random() < 0.8:
                    before = len(senders)
                    queue.store(now, 1)
                    refused += before - len(senders)
                else:
                    # What was accepted is stored before the next command is looked at.
                    disk_behind = False
                if name in senders:
                    queue.request_capacity(name, count, part.nbytes)
        elif (oldest := queue.log.acknowledged.reach(0)) < queue.log.next_sequence:
            queue.acknowledge("r", [(oldest, random.randint(1, queue.log.next_sequence - oldest))])
        queue.take_effects()
        held = [sender.permits for sender in senders.values()]
        assert capacity.messages == sum(one.messages for one in held)
        assert capacity.bytes == sum(max(0, one.bytes) for one in held)
        assert capacity._messages.idle == sum(one.messages for one in held if one.idle)
        assert capacity._bytes.idle == sum(max(0, one.bytes) for one in held if one.idle)
        assert all(one in capacity.waiting for one in held if one.is_stuck())
        assert set(capacity.waiting) <= set(held)
    assert refused
    for name in list(senders):
        queue.detach(name, now)
    assert capacity.messages == capacity.bytes == capacity._messages.idle == capacity._bytes.idle == 0
    assert not any((capacity.waiting, capacity._stuck, capacity._now, capacity._before))


def test_a_queue_for_one_message_goes_round_among_many_senders() -> None:
    bench = Bench(1)
    for number in range(50):
        bench.attach(number)
    for _ in range(3):
        for number in range(50):
            assert bench.granted[number] == 1
            bench.send(number, 1)
    assert bench.queue.log.total_in == 150


def test_large_messages_are_lent_by_their_bytes() -> None:
    size = 10_000
    bench = Bench(10**6, max_bytes=10**8)
    for number in range(500):
        bench.attach(number, WINDOW, 16 * 1024 * 1024)
    bench.attach("busy", 65_536, 16 * 1024 * 1024)
    for _ in range(20):
        bench.send("busy", 1, size)
    before = bench.granted["busy"]
    for _ in range(200):
        bench.send("busy", 10, size)
    assert before > 0
    assert bench.queue.log.total_in == 2_020


def test_one_sender_alone_may_have_a_good_part_of_the_queue_under_way() -> None:
    bench = Bench()
    bench.attach("busy", 65_536, 10**7)
    for _ in range(30):
        bench.send("busy", max(1, bench.granted["busy"] // 2))
    assert bench.granted["busy"] >= LIMIT // 4
