"""The queue actor, with actors as its connections, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pykka
import pytest

from actors.batch import MessageBatch
from actors.errors import StorageError, SubscriptionNotFoundError
from actors.queue.connection_actor import _of
from actors.queue.queue_actor import STORE_TURNS, QueueActor
from actors.queue.queue_state import QueueState
from actors.queue.vocabulary.commands import (
    Acknowledged,
    AttachReceiver,
    AttachSender,
    CommitRequested,
    DemandSignalled,
    DemandWithdrawn,
    Extended,
    FetchRequested,
    GetStatistics,
    Left,
    OfferBatch,
    OpenSubscription,
    PauseSenders,
    PurgeQueue,
    Rejected,
    ReleaseSubscription,
    RequestCapacity,
    ReserveRequested,
)
from actors.queue.vocabulary.events import QueuePurged
from actors.queue.vocabulary.replies import (
    CapacityGranted,
    FetchedRanges,
    MessagesReserved,
    QueueDeleted,
    QueueStatistics,
    ReceivedMessages,
    ReceiverAttached,
    Refused,
    ReservationCommitted,
    SenderAttached,
    SentMessages,
    SubscriptionOpened,
    Superseded,
)
from actors.queue.vocabulary.settings import PURGE_BUDGET, QueueSettings
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_ref import LoopActorRef
from actors.runtime.loop_registry import LoopActorRegistry
from streams.testkit import run_in_virtual_time

Ref = LoopActorRef[Any]
WALL_CLOCK = 1_700_000_000.5


class Connection(LoopActor):
    """Keeps what it is told, and lets a test wait for the next of it."""

    def __init__(self) -> None:
        super().__init__()
        self._told: asyncio.Queue[Any] = asyncio.Queue()

    def on_receive(self, message: Any) -> Any:
        if message is INBOX:
            return self._told
        if message is FAIL:
            raise RuntimeError("a defect")
        self._told.put_nowait(message)
        return None


INBOX, FAIL = object(), object()


class Probe:
    """A connection and what it was told."""

    def __init__(self, ref: Ref, told: asyncio.Queue[Any]) -> None:
        self.ref = ref
        self._told = told

    async def expect(self, kind: type[Any]) -> Any:
        """The next thing told, which must be of this kind."""
        message = await self._told.get()
        assert type(message) is kind, message
        return message

    def assert_nothing(self) -> None:
        assert self._told.empty(), self._told.get_nowait()


async def connect() -> Probe:
    ref: Ref = Connection.start()
    return Probe(ref, await ref.ask(INBOX, block=False))


def batch(*payloads: bytes) -> MessageBatch:
    return MessageBatch.from_payloads(payloads)


def start_queue(state: QueueState | None = None) -> Ref:
    return QueueActor.start(state or QueueState("q", 3, QueueSettings()), lambda: WALL_CLOCK)


async def sender_of(queue: Ref, producer: str | None = None, messages: int = 1000) -> Probe:
    probe = await connect()
    queue.tell(AttachSender(producer, connection=probe.ref))
    await probe.expect(SenderAttached)
    queue.tell(RequestCapacity(messages, 10**6, connection=probe.ref))
    await probe.expect(CapacityGranted)
    return probe


async def receiver_of(queue: Ref, demand: int = 0) -> Probe:
    probe = await connect()
    queue.tell(AttachReceiver(connection=probe.ref))
    await probe.expect(ReceiverAttached)
    if demand:
        queue.tell(DemandSignalled(demand, 8 * 2**20, connection=probe.ref))
    return probe


async def statistics(queue: Ref) -> QueueStatistics:
    facts = await queue.ask(GetStatistics(), block=False)
    assert isinstance(facts, QueueStatistics)
    return facts


Scenario = Callable[[], Coroutine[Any, Any, None]]


def virtual(scenario: Scenario) -> Callable[[], None]:
    """Run a test in virtual time, and stop the actors that it leaves."""

    async def with_end() -> None:
        await scenario()
        await LoopActorRegistry.shutdown()

    def test() -> None:
        run_in_virtual_time(with_end())

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


@virtual
async def test_a_message_goes_from_sender_to_receiver_and_is_deleted() -> None:
    queue = start_queue()
    sender, receiver = await sender_of(queue), await receiver_of(queue, 10)
    queue.tell(OfferBatch(7, batch(b"one", b"two"), connection=sender.ref))
    assert await sender.expect(SentMessages) == SentMessages(up_to=9, first=0)
    received = await receiver.expect(ReceivedMessages)
    assert received == ReceivedMessages(0, batch(b"one", b"two"), 1_700_000_000_500_000, 1, False)
    queue.tell(Acknowledged([(0, 2)], connection=receiver.ref))
    facts = await statistics(queue)
    assert (facts.stored_messages, facts.total_acknowledged) == (0, 2)


@virtual
async def test_a_message_that_is_not_deleted_comes_back_after_the_visibility_timeout() -> None:
    loop = asyncio.get_running_loop()
    queue = start_queue()
    sender, receiver = await sender_of(queue), await receiver_of(queue, 10)
    begun = loop.time()
    queue.tell(OfferBatch(0, batch(b"x"), connection=sender.ref))
    await receiver.expect(ReceivedMessages)
    again = await receiver.expect(ReceivedMessages)
    assert (again.first, again.delivery_count, again.possibly_replayed) == (0, 2, True)
    assert loop.time() - begun == pytest.approx(10.0)


@virtual
async def test_an_earlier_deadline_moves_the_timer() -> None:
    loop = asyncio.get_running_loop()
    queue = start_queue()
    sender, receiver = await sender_of(queue), await receiver_of(queue, 10)
    queue.tell(OfferBatch(0, batch(b"x", b"y"), connection=sender.ref))
    await receiver.expect(ReceivedMessages)
    begun = loop.time()
    queue.tell(Rejected([(1, 1)], 2.0, connection=receiver.ref))
    queue.tell(Extended([(0, 1)], 4.0, connection=receiver.ref))
    assert (await receiver.expect(ReceivedMessages)).first == 1
    assert loop.time() - begun == pytest.approx(2.0)
    assert (await receiver.expect(ReceivedMessages)).first == 0
    assert loop.time() - begun == pytest.approx(4.0)


@virtual
async def test_an_idle_queue_has_no_timer() -> None:
    queue = start_queue()
    sender, receiver = await sender_of(queue), await receiver_of(queue, 10)
    queue.tell(OfferBatch(0, batch(b"x"), connection=sender.ref))
    await receiver.expect(ReceivedMessages)
    queue.tell(Acknowledged([(0, 1)], connection=receiver.ref))
    await statistics(queue)
    later = asyncio.Event()
    asyncio.get_running_loop().call_later(3600.0, later.set)
    await later.wait()
    assert (await statistics(queue)).total_out == 1
    receiver.assert_nothing()


@virtual
async def test_a_receiver_whose_actor_stops_gives_everything_back_at_once() -> None:
    queue = start_queue()
    sender, doomed = await sender_of(queue), await receiver_of(queue, 10)
    queue.tell(OfferBatch(0, batch(b"x", b"y"), connection=sender.ref))
    await doomed.expect(ReceivedMessages)
    other = await receiver_of(queue, 10)
    begun = asyncio.get_running_loop().time()
    await doomed.ref.stop(block=False)
    received = await other.expect(ReceivedMessages)
    assert (received.first, len(received.batch), received.possibly_replayed) == (0, 2, True)
    assert asyncio.get_running_loop().time() == begun
    assert doomed.ref not in [facts.connection for facts in (await statistics(queue)).connections]


@virtual
async def test_a_receiver_whose_actor_fails_gives_everything_back_too() -> None:
    queue = start_queue()
    sender, doomed = await sender_of(queue), await receiver_of(queue, 10)
    queue.tell(OfferBatch(0, batch(b"x"), connection=sender.ref))
    await doomed.expect(ReceivedMessages)
    other = await receiver_of(queue, 10)
    doomed.ref.tell(FAIL)
    assert (await other.expect(ReceivedMessages)).first == 0


@virtual
async def test_a_dead_receiver_found_while_delivering_costs_no_message() -> None:
    queue = start_queue()
    sender, dead = await sender_of(queue), await receiver_of(queue, 10)
    # Both are in the queue's inbox before it can hear of the receiver's end.
    stopped = dead.ref.stop(block=False)
    queue.tell(OfferBatch(0, batch(b"x"), connection=sender.ref))
    await stopped
    other = await receiver_of(queue, 10)
    assert (await other.expect(ReceivedMessages)).first == 0


@virtual
async def test_what_a_receiver_acknowledged_before_it_ended_is_done_though_a_delivery_found_it_dead() -> None:
    queue = start_queue()
    sender, dead = await sender_of(queue), await receiver_of(queue, 10)
    queue.tell(OfferBatch(0, batch(b"x", b"y"), connection=sender.ref))
    await dead.expect(ReceivedMessages)
    stopped = dead.ref.stop(block=False)
    queue.tell(Rejected([(0, 1)], connection=dead.ref))
    # What was given back has just been delivered to it again, in vain.
    queue.tell(Acknowledged([(1, 1)], connection=dead.ref))
    await stopped
    other = await receiver_of(queue, 10)
    received = await other.expect(ReceivedMessages)
    assert (received.first, len(received.batch)) == (0, 1)
    assert (await statistics(queue)).stored_messages == 1
    other.assert_nothing()


@virtual
async def test_what_a_sender_sent_before_it_ended_is_stored_though_a_confirmation_found_it_dead() -> None:
    queue = start_queue()
    sender = await sender_of(queue)
    stopped = sender.ref.stop(block=False)
    queue.tell(OfferBatch(0, batch(b"x"), connection=sender.ref))
    queue.tell(GetStatistics())
    queue.tell(OfferBatch(1, batch(b"y"), connection=sender.ref))
    await stopped
    assert (await statistics(queue)).stored_messages == 2


@virtual
async def test_what_comes_turn_after_turn_is_stored_together_and_within_a_few_turns() -> None:
    queue = start_queue()
    sender = await sender_of(queue)
    receiver = await receiver_of(queue, 1000)
    stored_at: list[int] = []
    for turn in range(3 * (STORE_TURNS + 1)):
        for number in (2 * turn, 2 * turn + 1):
            queue.tell(OfferBatch(number, batch(b"%d" % number), connection=sender.ref))
        await asyncio.sleep(0)
        while not sender._told.empty():
            assert type(sender._told.get_nowait()) is SentMessages
            stored_at.append(turn)
    for _ in range(STORE_TURNS + 2):
        await asyncio.sleep(0)
    # Two more come in each turn: they are stored when three turns have been waited for, all at once, and the next begin anew.
    assert stored_at[0] <= STORE_TURNS + 1
    first = stored_at.count(stored_at[0])
    assert first == 2 * (STORE_TURNS + 1)
    delivered = await receiver.expect(ReceivedMessages)
    assert len(delivered.batch) == first


@virtual
async def test_what_comes_alone_is_stored_in_its_turn() -> None:
    queue = start_queue()
    sender = await sender_of(queue)
    for number in range(5):
        queue.tell(OfferBatch(number, batch(b"x"), connection=sender.ref))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (await sender.expect(SentMessages)).up_to == number + 1
        sender.assert_nothing()


@virtual
async def test_a_connection_that_does_not_keep_up_is_detached() -> None:
    class Narrow(Connection):
        max_inbox = 1

        def on_start(self) -> None:
            self.actor_ref.tell("busy")

        def on_receive(self, message: Any) -> Any:
            # It always has something to do already, and takes no more.
            if message == "busy":
                self.actor_ref.tell("busy")
            return super().on_receive(message)

    queue = start_queue()
    sender = await sender_of(queue)
    ref: Ref = Narrow.start()
    queue.tell(AttachReceiver(connection=ref))
    queue.tell(DemandSignalled(10, 8 * 2**20, connection=ref))
    for number in range(3):
        queue.tell(OfferBatch(number, batch(b"x"), connection=sender.ref))
    other = await receiver_of(queue, 10)
    numbers = [(await other.expect(ReceivedMessages)).first for _ in range(1)]
    assert numbers == [0]
    assert ref not in [facts.connection for facts in (await statistics(queue)).connections]


@virtual
async def test_a_detached_receiver_is_let_go_and_may_attach_again() -> None:
    queue = start_queue()
    sender, receiver = await sender_of(queue), await receiver_of(queue, 10)
    queue.tell(OfferBatch(0, batch(b"x"), connection=sender.ref))
    await receiver.expect(ReceivedMessages)
    queue.tell(DemandWithdrawn(connection=receiver.ref))
    queue.tell(Left(connection=receiver.ref))
    assert (await statistics(queue)).ready == 1
    queue.tell(AttachReceiver(connection=receiver.ref))
    await receiver.expect(ReceiverAttached)
    receiver.assert_nothing()


class Leaving(Connection):
    """Gives something back as it goes, and says that nothing of what it holds has failed."""

    def __init__(self, queue: Ref) -> None:
        super().__init__()
        self._queue = queue

    def on_stop(self) -> None:
        self._queue.tell(Rejected([(0, 1)], failed=False, connection=self.actor_ref))
        self._queue.tell(Left(failed=False, connection=self.actor_ref))


@virtual
async def test_only_a_connections_own_last_word_says_whether_what_it_held_has_failed() -> None:
    """What it gives back is delivered to it once more, and then it is dead already."""
    queue = start_queue(QueueState("q", 3, QueueSettings(max_receives=1)))
    ref: Ref = Leaving.start(queue)
    receiver = Probe(ref, await ref.ask(INBOX, block=False))
    queue.tell(AttachReceiver(connection=ref))
    queue.tell(DemandSignalled(10, 8 * 2**20, connection=ref))
    sender = await sender_of(queue)
    queue.tell(OfferBatch(0, batch(b"x", b"y"), connection=sender.ref))
    await receiver.expect(ReceiverAttached)
    await receiver.expect(ReceivedMessages)
    await ref.stop(block=False)
    facts = await statistics(queue)
    assert (facts.ready, facts.in_flight, facts.leaving) == (2, 0, 0)


@virtual
async def test_a_refusal_goes_to_who_caused_it_and_the_queue_lives() -> None:
    queue = start_queue()
    sender, receiver = await sender_of(queue), await receiver_of(queue)
    queue.tell(Acknowledged([(5, 1)], connection=receiver.ref))
    refused = await receiver.expect(Refused)
    assert (refused.code, refused.close, refused.request) == ("unknown-acknowledgement", True, None)
    assert "5" in refused.text
    sender.assert_nothing()
    queue.tell(OfferBatch(0, batch(b"x"), connection=sender.ref))
    await sender.expect(SentMessages)


@virtual
async def test_a_producer_that_connects_again_supersedes_its_older_connection() -> None:
    queue = start_queue()
    old = await sender_of(queue, "p")
    queue.tell(OfferBatch(0, batch(b"x", b"y"), connection=old.ref))
    await old.expect(SentMessages)
    new = await connect()
    queue.tell(AttachSender("p", connection=new.ref))
    assert await new.expect(SenderAttached) == SenderAttached(2)
    await old.expect(Superseded)


@virtual
async def test_a_subscription_reserves_fetches_and_commits() -> None:
    queue = start_queue()
    sender, owner = await sender_of(queue), await connect()
    queue.tell(OpenSubscription("sub", connection=owner.ref))
    assert await owner.expect(SubscriptionOpened) == SubscriptionOpened(1, 0, 0, 0)
    queue.tell(ReserveRequested(1, 0, 10, 10**6, wait=5.0, connection=owner.ref))
    queue.tell(OfferBatch(0, batch(b"x", b"y", b"z"), connection=sender.ref))
    reserved = await owner.expect(MessagesReserved)
    assert (reserved.request, reserved.end) == (1, 3)
    assert reserved.facts == {
        "backlog": 0,
        "backlog_bytes": 0,
        "oldest_ms": 0,
        "sender_demand": 997,
        "high_water": 3,
        "in_flight": 0,
        "full": False,
        "reserved_bytes": batch(b"x", b"y", b"z").nbytes,
        "live_subscriptions": 1,
    }
    queue.tell(FetchRequested(2, 1, 3, connection=owner.ref))
    fetched = await owner.expect(FetchedRanges)
    assert fetched.request == 2
    assert [(r.position, r.first, r.batch, r.enqueued_us) for r in fetched.ranges] == [
        (1, 1, batch(b"y", b"z"), 1_700_000_000_500_000)
    ]
    queue.tell(CommitRequested(3, 2, connection=owner.ref))
    assert await owner.expect(ReservationCommitted) == ReservationCommitted(3, 2)
    queue.tell(FetchRequested(4, 0, 3, connection=owner.ref))
    refused = await owner.expect(Refused)
    assert (refused.code, refused.request, refused.close) == ("data-loss", 4, False)
    assert await queue.ask(ReleaseSubscription("sub"), block=False) == 1


@virtual
async def test_a_reservation_in_vain_is_answered_when_its_wait_is_over() -> None:
    loop = asyncio.get_running_loop()
    queue = start_queue()
    owner = await connect()
    queue.tell(OpenSubscription("sub", connection=owner.ref))
    await owner.expect(SubscriptionOpened)
    begun = loop.time()
    queue.tell(ReserveRequested(1, 0, 10, 10**6, wait=0.25, connection=owner.ref))
    assert (await owner.expect(MessagesReserved)).end == 0
    assert loop.time() - begun == pytest.approx(0.25)


@virtual
async def test_an_owner_whose_actor_stops_is_awaited_for_its_timeout() -> None:
    queue = start_queue()
    sender, owner = await sender_of(queue), await connect()
    queue.tell(OfferBatch(0, batch(b"x"), connection=sender.ref))
    queue.tell(OpenSubscription("sub", owner_timeout=60.0, connection=owner.ref))
    queue.tell(ReserveRequested(1, 0, 10, 10**6, connection=owner.ref))
    await owner.expect(SubscriptionOpened)
    await owner.expect(MessagesReserved)
    receiver = await receiver_of(queue, 1)
    begun = asyncio.get_running_loop().time()
    await owner.ref.stop(block=False)
    await receiver.expect(ReceivedMessages)
    assert asyncio.get_running_loop().time() - begun == pytest.approx(60.0)


@virtual
async def test_what_the_broker_asks_is_answered_or_raised() -> None:
    queue = start_queue()
    sender = await sender_of(queue)
    queue.tell(OfferBatch(0, batch(b"x", b"y"), connection=sender.ref))
    assert await queue.ask(PurgeQueue(), block=False) == 2
    with pytest.raises(SubscriptionNotFoundError):
        await queue.ask(ReleaseSubscription("none"), block=False)
    with pytest.raises(TypeError, match="does not handle str"):
        await queue.ask("hello", block=False)
    with pytest.raises(TypeError, match="AttachReceiver without a connection"):
        await queue.ask(AttachReceiver(), block=False)
    facts = await statistics(queue)
    assert (facts.name, facts.total_purged) == ("q", 2)
    assert [(c.connection, c.role, c.demand) for c in facts.connections] == [(sender.ref, "sender", 998)]


class Stepping(QueueState):
    """Notes what each step of a purge drops: messages, and the ranges that its event names."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        super().__init__("q", 3, QueueSettings(), record=self._note)
        self.said(AttachSender(), "s")
        self.said(RequestCapacity(10**5, 10**6), "s")

    def said(self, command: Any, by: str) -> None:
        """Carry out a command of a connection, and all that was accepted."""
        self.execute(_of(command, cast("Any", by)), 0.0, 0)
        self.store(0.0, 0)

    def _note(self, event: object) -> int:
        if isinstance(event, QueuePurged):
            self.steps.append((sum(stop - start for start, stop in event.ranges), len(event.ranges)))
        return 0


BACKLOG = 4 * PURGE_BUDGET


def in_a_row() -> Stepping:
    """One range of messages, each a batch of its own."""
    state = Stepping()
    for number in range(BACKLOG):
        state.said(OfferBatch(number, batch(b"x")), "s")
    state.said(Left(), "s")
    state.take_effects()
    return state


def in_pieces() -> Stepping:
    """Single messages: those between them were acknowledged, and a receiver has given half of them back."""
    state = Stepping()
    state.said(OfferBatch(0, batch(*[b"x"] * 2 * BACKLOG)), "s")
    state.said(AttachReceiver(), "r")
    state.said(DemandSignalled(2 * BACKLOG, 10**6), "r")
    state.said(Acknowledged([(number, 1) for number in range(1, 2 * BACKLOG, 2)]), "r")
    state.said(Left(), "r")
    state.said(Left(), "s")
    state.take_effects()
    return state


@pytest.mark.parametrize("backlog", [in_a_row, in_pieces])
def test_a_purge_goes_in_steps_of_bounded_work_and_others_have_their_turn_between_them(
    backlog: Callable[[], Stepping],
) -> None:
    @virtual
    async def scenario() -> None:
        state = backlog()
        queue = start_queue(state)
        purged = asyncio.ensure_future(answer(queue))
        between = [(await statistics(queue)).total_purged for _ in range(3)]
        assert any(0 < purged_so_far < BACKLOG for purged_so_far in between)
        assert await purged == BACKLOG
        assert len(state.steps) == BACKLOG // PURGE_BUDGET
        assert all(messages <= PURGE_BUDGET and ranges <= PURGE_BUDGET for messages, ranges in state.steps)
        assert (await statistics(queue)).ready == 0

    async def answer(queue: Ref) -> Any:
        return await queue.ask(PurgeQueue(), block=False)

    scenario()


@virtual
async def test_what_is_sent_during_a_purge_stays_and_a_purge_that_the_queue_does_not_survive_is_answered() -> None:
    state = in_a_row()
    queue = start_queue(state)
    sender = await sender_of(queue)

    async def answer() -> Any:
        return await queue.ask(PurgeQueue(), block=False)

    purged = asyncio.ensure_future(answer())
    await statistics(queue)
    queue.tell(OfferBatch(0, batch(b"later"), connection=sender.ref))
    await sender.expect(SentMessages)
    assert await purged == BACKLOG
    assert (await statistics(queue)).ready == 1

    queue = start_queue(in_a_row())
    purged = asyncio.ensure_future(answer())
    await statistics(queue)
    queue.stop_nowait()
    with pytest.raises(pykka.ActorDeadError):
        await purged


@virtual
async def test_a_queue_that_is_stopped_tells_every_connection() -> None:
    queue = start_queue()
    sender, receiver = await sender_of(queue), await receiver_of(queue)
    queue.tell(OfferBatch(0, batch(b"x"), connection=sender.ref))
    await sender.expect(SentMessages)
    queue.stop_nowait()
    await sender.expect(QueueDeleted)
    await receiver.expect(QueueDeleted)
    assert await queue.stopped() is None


class Failing(QueueState):
    """Fails with the reason for which its senders are to pause."""

    def execute(self, command: Any, now: float, wall_us: int) -> Any:
        if isinstance(command, PauseSenders):
            raise cast("Exception", command.reason)
        return super().execute(command, now, wall_us)


def failure(error: Exception) -> PauseSenders:
    return PauseSenders(cast("Any", error))


@virtual
async def test_a_failing_handler_ends_the_connections_and_keeps_the_messages() -> None:
    queue = start_queue(Failing("q", 0))
    sender, receiver = await sender_of(queue), await receiver_of(queue, 1)
    queue.tell(OfferBatch(0, batch(b"x", b"y"), connection=sender.ref))
    await sender.expect(SentMessages)
    await receiver.expect(ReceivedMessages)
    queue.tell(failure(ZeroDivisionError()))
    for probe in (sender, receiver):
        refused = await probe.expect(Refused)
        assert (refused.code, refused.close) == ("internal-error", True)
        assert "ZeroDivisionError" in refused.text
    again = await receiver_of(queue, 10)
    received = await again.expect(ReceivedMessages)
    assert (received.first, len(received.batch), received.possibly_replayed) == (0, 2, True)
    assert [facts.connection for facts in (await statistics(queue)).connections] == [again.ref]


@virtual
async def test_an_error_of_storage_that_does_not_end_the_broker_does_not_end_the_queue() -> None:
    queue = start_queue(Failing("q", 0))
    sender = await sender_of(queue)
    queue.tell(OfferBatch(0, batch(b"x", b"y"), connection=sender.ref))
    await sender.expect(SentMessages)
    queue.tell(failure(StorageError("message 3 is stored, and its batch is not in memory")))
    assert (await sender.expect(Refused)).code == "internal-error"
    assert queue.is_alive()
    assert (await statistics(queue)).stored_messages == 2


@virtual
async def test_a_queue_that_fails_for_good_ends_its_connections() -> None:
    queue = start_queue(Failing("q", 0))
    for _ in range(QueueActor.max_restarts):
        queue.tell(failure(ZeroDivisionError()))
    receiver = await receiver_of(queue)
    queue.tell(failure(ZeroDivisionError()))
    assert (await receiver.expect(Refused)).code == "internal-error"
    assert isinstance(await queue.stopped(), ZeroDivisionError)


@virtual
async def test_a_large_backlog_goes_out_in_portions() -> None:
    queue = start_queue(QueueState("q", 0, QueueSettings(max_messages=10**7)))
    sender = await sender_of(queue, messages=120_000)
    # So large that they are not joined with their neighbours.
    for number in range(600):
        queue.tell(OfferBatch(number * 200, batch(*[b"x"] * 200), connection=sender.ref))
    receiver = await receiver_of(queue, 120_000)
    numbers = [(await receiver.expect(ReceivedMessages)).first for _ in range(600)]
    assert numbers == list(range(0, 120_000, 200))
