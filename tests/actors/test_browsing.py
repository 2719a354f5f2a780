"""Browsing: a `QueueState` read by number, in steps, without changing anything; and the actors that carry the steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors import DemandSignalled, FetchRequested, MessageBatch, ReserveRequested, Writable
from actors.errors import InvalidRequestError
from actors.queue.operations import browsing
from actors.queue.queue_directory import QueueDirectory
from actors.queue.state.log import QueueLog
from actors.queue.state.staged import CommittedVersions, apply_commit
from actors.queue.subscription_publisher import SubscriptionOptions, SubscriptionPublisher
from actors.queue.vocabulary.commands import (
    AttachSender,
    BrowseRequested,
    OfferBatch,
    OpenSubscription,
    RequestCapacity,
)
from actors.queue.vocabulary.replies import FetchedMessages, FetchedRanges, QueueDeleted, Refused, SubscriptionOpened
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey
from streams.testkit import run_in_virtual_time, settle
from tests.actors.driven import QueueState, Reserved
from tests.actors.stored_queues import Connection, StoredQueues, turns

LARGE = 10**9
KEY = StageKey("writer", 0, "stage")
VISIBILITY = 10.0


def payload(number: int) -> bytes:
    return b"%03d" % number


def payloads(*numbers: int) -> list[bytes]:
    return [payload(number) for number in numbers]


def queue_with(*sizes: int, declared: QueueSettings | None = None, log: QueueLog | None = None) -> QueueState:
    queue = QueueState("q", 0, declared or QueueSettings(), log=log)
    queue.attach_sender("s", None)
    queue.request_capacity("s", 100_000, 10**8)
    for size in sizes:
        store(queue, size)
    queue.take_effects()
    return queue


def store(queue: QueueState, count: int, now: float = 0.0) -> None:
    first = queue.log.next_sequence
    batch = MessageBatch.from_payloads([payload(number) for number in range(first, first + count)])
    queue.send("s", first, batch, now, round(now * 10**6))


def receive(queue: QueueState, count: int, connection: str = "r", now: float = 0.0) -> None:
    queue.attach_receiver(connection)
    queue.receive(connection, count, LARGE, now)
    queue.take_effects()


def take_into_ledger(queue: QueueState, count: int) -> None:
    facts = queue.open_subscription("owner", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
    queue.reserve("owner", 1, facts.high, messages=count, size=LARGE, wait=0.0, below=None, now=0.0)
    assert any(isinstance(effect, Reserved) for effect in queue.take_effects())


def steps(queue: QueueState, start: int = 0, stop: int = LARGE) -> list[FetchedMessages]:
    """Everything from ``start`` on, step by step."""
    found: list[FetchedMessages] = []
    while start < stop:
        step = queue.browse(start, stop)
        assert step.end > start, "a step gets on"
        found += step.ranges
        start = step.end
    return found


def browsed(queue: QueueState, start: int = 0, stop: int = LARGE) -> list[bytes]:
    found = steps(queue, start, stop)
    for part in found:
        numbers = range(part.first, part.first + len(part.batch))
        assert part.position == part.first
        assert part.batch.payloads.tolist() == payloads(*numbers), "each message is at its number"
    return [one for part in found for one in part.batch.payloads]


def histories(queue: QueueState) -> list[tuple[int, int, int, bool]]:
    """First number, messages, deliveries and whether replayed, of each piece."""
    return [(part.first, len(part.batch), part.delivery_count, part.possibly_replayed) for part in steps(queue)]


def test_what_is_ready_held_reserved_and_delayed_is_shown_alike_and_what_is_acknowledged_is_not() -> None:
    queue = queue_with(3, 3, 4)
    receive(queue, 5)
    queue.acknowledge("r", [(1, 2)])
    queue.negative_acknowledge("r", [(4, 1)], 60.0, 0.0)
    take_into_ledger(queue, 2)
    assert browsed(queue) == payloads(0, 3, 4, 5, 6, 7, 8, 9)
    assert browsed(queue, 2, 6) == payloads(3, 4, 5)
    assert browsed(queue, 1, 3) == []


def test_what_is_staged_is_shown_once_its_commit_is_acted_on() -> None:
    queue = queue_with(2)
    queue.attach_stage("t", KEY, 0.0)
    queue.request_capacity("t", 10, LARGE)
    queue.send("t", 0, MessageBatch.from_payloads(payloads(2, 3)), 0.0, 0)
    queue.attach_sender("other", None)
    queue.request_capacity("other", 10, LARGE)
    queue.send("other", 0, MessageBatch.from_payloads(payloads(4)), 0.0, 0)
    assert browsed(queue) == payloads(0, 1, 4)
    ended = apply_commit({0: queue.log}, CommittedVersions(), KEY.writer, KEY.version, {0: [KEY.name]}, 7)[0]
    assert browsed(queue) == payloads(0, 1, 4), "nobody is shown a commit that may not be durable"
    queue.end_stages(ended, 7, 0.0)
    assert browsed(queue) == payloads(0, 1, 2, 3, 4)
    assert queue.browse(0, LARGE).after == 7


def test_browsing_changes_nothing() -> None:
    queue = queue_with(5, 5)
    receive(queue, 3)
    take_into_ledger(queue, 2)
    before, log = queue.statistics(0.0), repr(queue.log.acknowledged)
    queue.open_subscription("b", "", "browse", epoch=None, starting="earliest", owner_timeout=None)
    assert browsed(queue) == browsed(queue) == payloads(*range(10))
    assert queue.take_effects() == []
    assert (queue.statistics(0.0), repr(queue.log.acknowledged)) == (before, log)


def test_opening_says_where_what_is_stored_begins_and_ends_and_needs_no_name() -> None:
    queue = queue_with(4, 4)
    receive(queue, 3)
    queue.acknowledge("r", [(0, 2)])
    facts = queue.open_subscription("b", "", "browse", epoch=None, starting="earliest", owner_timeout=None)
    assert (facts.epoch, facts.base, facts.high, facts.high_water) == (0, 2, 8, 8)
    assert queue.log.ledgers == {}


def test_a_queue_in_strict_order_and_an_empty_one_can_be_browsed() -> None:
    assert browsed(queue_with(2, declared=QueueSettings(exclusive=True))) == payloads(0, 1)
    queue = queue_with()
    facts = queue.open_subscription("b", "", "browse", epoch=None, starting="earliest", owner_timeout=None)
    assert (facts.base, facts.high_water, browsed(queue)) == (0, 0, [])


def test_a_range_that_is_backwards_is_refused_and_one_beyond_the_end_is_empty() -> None:
    queue = queue_with(3)
    with pytest.raises(InvalidRequestError, match="backwards"):
        queue.browse(2, 1)
    assert browsed(queue, 7, 9) == []
    assert queue.browse(3, 3).end == 3


def test_a_step_is_bounded_in_messages_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_with(10, 10, 10)
    monkeypatch.setattr(browsing, "BROWSE_MESSAGES", 7)
    assert [len(part.batch) for part in steps(queue)] == [7, 3, 4, 6, 1, 7, 2]
    monkeypatch.setattr(browsing, "BROWSE_MESSAGES", LARGE)
    monkeypatch.setattr(browsing, "BROWSE_BYTES", 1)
    assert [queue.browse(start, LARGE).end for start in (0, 10, 20)] == [10, 20, LARGE]
    assert browsed(queue) == payloads(*range(30))


def test_what_is_acknowledged_between_two_steps_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "BROWSE_MESSAGES", 4)
    queue = queue_with(6, 6)
    receive(queue, 12)
    first = queue.browse(0, 12)
    queue.acknowledge("r", [(0, 6), (8, 2)])
    assert first.end == 4
    assert browsed(queue, first.end, 12) == payloads(6, 7, 10, 11)


def test_deliveries_are_what_the_queue_knows_of_them() -> None:
    queue = queue_with(4, 4, declared=QueueSettings(max_receives=5))
    assert histories(queue) == [(0, 4, 0, False), (4, 4, 0, False)]
    receive(queue, 3)
    queue.negative_acknowledge("r", [(1, 1)], 0.0, 0.0)
    receive(queue, 1, "second")
    queue.negative_acknowledge("r", [(2, 1)], 60.0, 0.0)
    take_into_ledger(queue, 2)
    assert histories(queue) == [
        (0, 1, 1, False),
        (1, 1, 2, True),
        (2, 1, 1, True),
        (3, 1, 1, False),
        (4, 1, 1, False),
        (5, 3, 0, False),
    ]


def test_a_queue_that_does_not_count_knows_nothing_of_what_came_back() -> None:
    queue = queue_with(2)
    receive(queue, 1)
    queue.negative_acknowledge("r", [(0, 1)], 60.0, 0.0)
    assert histories(queue) == [(0, 2, 0, False)]


class BrowsedQueue(RuleBasedStateMachine):
    """Whatever receivers, subscriptions and times do: what is browsed is what the log says is stored, each message once."""

    @initialize(counts=st.sampled_from([None, 3]), most=st.integers(1, 9))
    def declare(self, counts: int | None, most: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(browsing, "BROWSE_MESSAGES", most)
        self.now = 0.0
        self.events: list[Any] = []
        self.queue = QueueState(
            "q", 0, QueueSettings(visibility_timeout=VISIBILITY, max_receives=counts), record=self._record
        )
        self.queue.attach_sender("s", None)
        self.queue.request_capacity("s", 100_000, 10**8)
        self.held: list[tuple[int, int, float]] = []
        self.ledger = self.queue.open_subscription(
            "owner", "sub", "own", epoch=None, starting="earliest", owner_timeout=None
        ).high
        self.queue.attach_receiver("r")
        self._taken()

    def _record(self, event: Any) -> int:
        self.events.append(event)
        return len(self.events)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    def _taken(self) -> None:
        for effect in self.queue.take_effects():
            if hasattr(effect, "batch") and hasattr(effect, "receiver"):
                self.held.append((effect.first, len(effect.batch), self.now))
            elif isinstance(effect, Reserved):
                self.ledger = max(self.ledger, effect.end)

    @rule(count=st.integers(1, 8))
    def send(self, count: int) -> None:
        store(self.queue, count, self.now)
        self._taken()

    @rule(count=st.integers(1, 6))
    def take(self, count: int) -> None:
        self.queue.receive("r", count, LARGE, self.now)
        self._taken()

    @rule(give_back=st.booleans(), delay=st.sampled_from([0.0, 5.0]), data=st.data())
    def answer(self, give_back: bool, delay: float, data: st.DataObject) -> None:
        if not self.held:
            return
        first, count, _ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        if give_back:
            # One that was lost to the timeout and delivered again is answered once for both, so neither is held for certain.
            self.held = [(low, many, at) for low, many, at in self.held if low + many <= first or first + count <= low]
            self.queue.negative_acknowledge("r", [(first, count)], delay, self.now)
        else:
            self.queue.acknowledge("r", [(first, count)])
        self._taken()

    @rule(count=st.integers(1, 6))
    def reserve(self, count: int) -> None:
        self.queue.reserve("owner", 1, self.ledger, messages=count, size=LARGE, wait=0.0, below=None, now=self.now)
        self._taken()

    @rule(count=st.integers(1, 4))
    def commit(self, count: int) -> None:
        base = self.queue.log.ledgers["sub"].base
        self.queue.commit_position("owner", min(self.ledger, base + count))
        self._taken()

    @rule()
    def release(self) -> None:
        self.queue.release_subscription("sub", self.now)
        self._taken()

    @rule()
    def purge(self) -> None:
        self.queue.purge()
        self._taken()

    @rule(seconds=st.sampled_from([1.0, 6.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.queue.tick(self.now)
        self._taken()

    @rule()
    def start_again(self) -> None:
        self.queue.reset(self.now)
        self.held.clear()
        self.queue.attach_sender("s", None)
        self.queue.request_capacity("s", 100_000, 10**8)
        self.queue.attach_receiver("r")
        facts = self.queue.open_subscription("owner", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
        self.ledger = facts.high
        self._taken()

    @rule(start=st.integers(0, 40), length=st.integers(0, 40))
    def a_part_is_the_same_part_of_the_whole(self, start: int, length: int) -> None:
        whole = [number for low, high in self.queue.log.stored() for number in range(low, high)]
        expected = [number for number in whole if start <= number < start + length]
        assert browsed(self.queue, start, start + length) == payloads(*expected)

    @invariant()
    def what_is_browsed_is_what_is_stored(self) -> None:
        if not hasattr(self, "queue"):
            return
        events = len(self.events)
        stored = [number for low, high in self.queue.log.stored() for number in range(low, high)]
        assert browsed(self.queue) == payloads(*stored)
        held = {
            number
            for first, count, at in self.held
            if self.now < at + VISIBILITY
            for number in range(first, first + count)
        }
        for part in steps(self.queue):
            if held & set(range(part.first, part.first + len(part.batch))):
                assert part.delivery_count >= 1, "what somebody holds was delivered"
        assert (len(self.events), self.queue.take_effects()) == (events, [])


TestBrowsedQueue = BrowsedQueue.TestCase
TestBrowsedQueue.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


# --- the queue's actor


def send(ref: Any, first: int, count: int) -> OfferBatch:
    return OfferBatch(first, MessageBatch.from_payloads([payload(first + n) for n in range(count)]), connection=ref)


def test_a_step_waits_for_what_is_in_it_to_be_durable_and_for_nothing_else(tmp_path: Path) -> None:
    async def main() -> None:
        stored = StoredQueues(tmp_path / "data")
        queue = stored.queues.get_or_create("q")
        told: list[Any] = []
        ref = Connection.start(told)
        for message in (
            AttachSender(connection=ref),
            RequestCapacity(100, 10**6, connection=ref),
            OpenSubscription("", "browse", connection=ref),
        ):
            queue.tell(message)
        queue.tell(send(ref, 0, 3))
        await stored.settled()
        told.clear()
        queue.tell(send(ref, 3, 2))
        queue.tell(BrowseRequested(1, 0, 3, connection=ref))
        queue.tell(BrowseRequested(2, 0, 9, connection=ref))
        await turns()
        steps = [message for message in told if isinstance(message, FetchedRanges)]
        assert [(step.request, step.rest, len(step.ranges)) for step in steps] == [(1, None, 1)]
        await stored.commit()
        steps = [message for message in told if isinstance(message, FetchedRanges)]
        assert [(step.request, step.rest, len(step.ranges)) for step in steps] == [(1, None, 1), (2, None, 2)]
        await stored.close()

    run_in_virtual_time(main())


def test_who_browses_is_told_that_the_queue_was_deleted_or_failed() -> None:
    async def main() -> None:
        queue = QueueDirectory(QueueSettings(), lambda: 0.0).get_or_create("q")
        told: list[Any] = []
        ref = Connection.start(told)
        queue.tell(OpenSubscription("", "browse", connection=ref))
        queue.tell(BrowseRequested(7, 3, 1, connection=ref))
        await turns()
        assert told[0] == SubscriptionOpened(0, 0, 0, 0)
        assert (told[1].code, told[1].request) == ("protocol-error", 7)
        queue.tell("no message of a queue's")
        await turns()
        assert isinstance(told[2], Refused), "the queue was started again and says that it was"
        assert told[2].code == "internal-error"
        queue.tell(OpenSubscription("", "browse", connection=ref))
        queue.stop_nowait()
        await turns()
        assert told[-1] == QueueDeleted()
        await ref.stop(block=False)

    run_in_virtual_time(main())


# --- the connection's actor


class RecordingPort:
    """What the client would be told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.closed = False

    def tell(self, reply: Any) -> None:
        self.told.append(reply)

    def fetched(self, request: int, message: Any) -> None:
        self.told.append((request, message.first, len(message.batch)))

    def fetch_ended(self, request: int, messages: int) -> None:
        self.told.append(("end", request, messages))

    def caught_up(self) -> None:
        self.told.append("caught up")

    def refused(self, code: str, text: str, close: bool) -> None:
        self.closed = self.closed or close
        self.told.append((code, text))


class Bench:
    """A connection that browses between a recorded queue and a recorded client."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.queue = Connection.start(self.asked)
        self.port = RecordingPort()
        self.ref = SubscriptionPublisher.start(
            self.queue, SubscriptionOptions("", "browse", None, "earliest", None), self.port
        )

    async def tell(self, *messages: Any) -> None:
        for message in messages:
            self.ref.tell(message)
        await settle()

    def steps(self) -> list[tuple[int, int]]:
        return [(message.start, message.stop) for message in self.asked if isinstance(message, BrowseRequested)]


def with_bench(test: Callable[[Bench], Any]) -> None:
    async def main() -> None:
        bench = Bench()
        await bench.tell(SubscriptionOpened(0, 0, 9, 9))
        assert bench.asked == [OpenSubscription("", "browse", None, "earliest", None, connection=bench.ref)]
        bench.port.told.clear()
        await test(bench)
        await bench.ref.stop(block=False)
        await bench.queue.stop(block=False)

    asyncio.run(asyncio.wait_for(main(), 10))


def step(first: int, count: int) -> tuple[FetchedMessages, ...]:
    batch = MessageBatch.from_payloads([payload(number) for number in range(first, first + count)])
    return (FetchedMessages(first, first, batch, 0, 0, False),)


def test_nothing_is_read_for_a_client_before_it_wants_something() -> None:
    async def test(bench: Bench) -> None:
        await bench.tell(FetchRequested(5, 0, 9))
        assert bench.steps() == []
        await bench.tell(Writable(False), DemandSignalled(4, 1000))
        assert bench.steps() == []
        await bench.tell(Writable(True))
        assert bench.steps() == [(0, 9)]

    with_bench(test)


def test_the_next_step_is_asked_for_when_the_last_is_sent_and_more_is_wanted() -> None:
    async def test(bench: Bench) -> None:
        await bench.tell(FetchRequested(5, 0, 9), DemandSignalled(2, 1000))
        await bench.tell(FetchedRanges(5, step(1, 3), 4))
        assert bench.port.told == [(5, 1, 2)]
        await bench.tell(DemandSignalled(1, 0))
        assert bench.port.told == [(5, 1, 2), (5, 3, 1)]
        assert bench.steps() == [(0, 9)], "all demand is used up"
        await bench.tell(DemandSignalled(10, 0))
        assert bench.steps() == [(0, 9), (4, 9)]
        await bench.tell(FetchedRanges(5, (), 7))
        assert bench.steps()[-1] == (7, 9), "a step may have nothing, where all was acknowledged"
        await bench.tell(FetchedRanges(5, step(8, 1)))
        assert bench.port.told[2:] == [(5, 8, 1), ("end", 5, 4)]
        await bench.tell(FetchRequested(6, 3, 3))
        assert bench.steps()[-1] == (3, 3), "for nothing, no demand is needed"

    with_bench(test)


def test_a_client_that_browses_can_take_nothing() -> None:
    async def test(bench: Bench) -> None:
        await bench.tell(ReserveRequested(1, 0, 10, 100, 0.0, None))
        assert bench.port.closed
        assert bench.port.told == [
            ("protocol-error", "mode 'browse' changes nothing: open a subscription with mode 'own'")
        ]

    with_bench(test)


def test_a_step_that_is_refused_ends_its_fetch_and_leaves_the_connection_to_the_next() -> None:
    async def test(bench: Bench) -> None:
        await bench.tell(DemandSignalled(10, 1000), FetchRequested(5, 0, 9))
        await bench.tell(Refused("limit-exceeded", "not now", 5, close=False))
        assert bench.port.told == [("limit-exceeded", "request 5: not now")]
        await bench.tell(FetchRequested(6, 0, 9), FetchedRanges(6, step(0, 2)))
        assert bench.port.told[1:] == [(6, 0, 2), ("end", 6, 2)]

    with_bench(test)
