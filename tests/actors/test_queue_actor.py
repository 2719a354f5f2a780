"""The queue's actor: messages between senders and receivers, timers, and connections that end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.queue.queue_actor import STORE_TURNS
from actors.queue.queue_state import QueueState
from actors.queue.vocabulary.commands import (
    Acknowledged,
    AttachReceiver,
    AttachSender,
    DemandSignalled,
    Extended,
    GetStatistics,
    Left,
    OfferBatch,
    Rejected,
)
from actors.queue.vocabulary.prefetch import DemandWithdrawn
from actors.queue.vocabulary.replies import (
    ReceivedMessages,
    ReceiverAttached,
    Refused,
    SenderAttached,
    SentMessages,
    Superseded,
)
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.queue_probes import (
    FAIL,
    INBOX,
    Connection,
    Probe,
    Ref,
    batch,
    connect,
    receiver_of,
    sender_of,
    start_queue,
    statistics,
    virtual,
)


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
