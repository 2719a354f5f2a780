"""The queue's actor and its subscriptions, statistics and commands."""

from __future__ import annotations

import asyncio

import pytest

from actors.errors import SubscriptionNotFoundError
from actors.queue.vocabulary.commands import (
    AttachReceiver,
    CommitRequested,
    FetchRequested,
    OfferBatch,
    OpenSubscription,
    PurgeQueue,
    ReleaseSubscription,
    ReserveRequested,
)
from actors.queue.vocabulary.replies import (
    FetchedRanges,
    MessagesReserved,
    ReceivedMessages,
    Refused,
    ReservationCommitted,
    SubscriptionOpened,
)
from tests.actors.queue_probes import batch, connect, receiver_of, sender_of, start_queue, statistics, virtual


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
    assert await queue.ask(ReleaseSubscription("sub", force=True), block=False) == 1


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
