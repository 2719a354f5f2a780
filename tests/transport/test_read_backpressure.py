"""A client that says a great deal in tiny frames is read no faster than its queue handles it."""

from __future__ import annotations

from typing import Any

import pytest

from actors import MessageBatch
from actors.queue.connection_actor import ConnectionActor
from actors.queue.queue_actor import QueueActor
from actors.queue.vocabulary.commands import CaughtUp
from transport.broker.broker_connection import BrokerConnection
from transport.broker.under_way import MAX_UNDER_WAY
from transport.shell.turns import TURN_WORK
from transport.wire.codec import encode
from transport.wire.messages import Ack, Deliver, Demand, Extend, Request, Send, Sent
from transport.wire.receiving import SHARED_BUFFER_BYTES

pytestmark = pytest.mark.event_loop

FRAMES = 100_000


def encoded(*frames: Any) -> bytes:
    return b"".join(bytes(part) for frame in frames for part in encode(frame))


class Watch:
    """The most that waited for a queue, in its inbox and in the connections' actors before it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = 0
        self.ranges = 0
        self.marks = 0
        event_received = BrokerConnection.event_received
        receive = QueueActor.on_receive

        def frame(connection: BrokerConnection, frame: Any, work: int) -> None:
            event_received(connection, frame, work)
            actor = None if connection.actor is None else connection.actor._actor_weakref()
            if isinstance(actor, ConnectionActor):
                waiting = (*actor.actor_inbox.queue, *actor._queue.actor_inbox.queue)
                self.most = max(self.most, len(waiting))
                self.ranges = max(self.ranges, sum(len(getattr(item, "ranges", ())) for item in waiting))

        def handle(queue: QueueActor, message: Any) -> Any:
            self.marks += type(message) is CaughtUp
            return receive(queue, message)

        monkeypatch.setattr(BrokerConnection, "event_received", frame)
        monkeypatch.setattr(QueueActor, "on_receive", handle)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def test_a_flood_of_tiny_frames_waits_in_the_socket_and_is_handled_whole(
    run: Any, serve: Any, peers: Any, watch: Watch
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            receiver = await opened.open(broker.receive_address, "receiver")
            one = encoded(Request(1, 1))
            receiver.send_bytes(one * FRAMES)
            receiver.send(Request(3, 1_000_000))
            sender = await opened.open(broker.send_address, "sender")
            await sender.expect(Demand)
            sender.send(Send(0, None, MessageBatch.from_payloads([b"a", b"b", b"c"])))
            await sender.expect(Sent)
            got = 0
            while got < 3:
                delivered = await receiver.expect(Deliver)
                got += len(delivered.batch)
                receiver.send(Ack([(delivered.first, len(delivered.batch))]))
        assert SHARED_BUFFER_BYTES // len(one) < FRAMES / 3, "the flood must be many receives long"
        assert watch.most <= MAX_UNDER_WAY
        assert watch.marks > 50, "what counts is what the queue has handled, not the actor in front of it"

    run(main)


def test_ten_receivers_that_extend_the_same_ranges_again_and_again_pile_up_no_ranges_at_the_queue(
    run: Any, serve: Any, peers: Any, watch: Watch
) -> None:
    # 1 KB on the wire each; every other message, so that no two ranges can be made one.
    held, rounds = 400, 40

    async def main() -> None:
        async with serve() as broker, peers() as opened:
            sender = await opened.open(broker.send_address, "sender")
            await sender.expect(Demand)
            floods, piles = [], []
            for number in range(10):
                flood = await opened.open(broker.receive_address, "receiver", client_id=f"flood-{number}")
                flood.send(Request(held, 1_000_000))
                floods.append(flood)
                sender.send(Send(number * held, None, MessageBatch.from_payloads([b""] * held)))
                delivered = await flood.expect(Deliver)
                assert len(delivered.batch) == held
                extend = encoded(Extend([(delivered.first + 2 * index, 1) for index in range(200)], 60_000))
                piles.append(extend * rounds)
            for flood, pile in zip(floods, piles, strict=True):
                flood.send_bytes(pile)
            for number, flood in enumerate(floods):
                # Behind all of it: answered, so everything was handled.
                flood.send(Ack([(number * held, held)]), Ack([(0, 1)]))
            for flood in floods:
                assert (await flood.refusal()).code == "unknown-acknowledgement"
        assert len(floods) * rounds * 200 > 3 * 10 * MAX_UNDER_WAY, "what could pile up must be far more than what may"
        # One frame of each is handled however large it is, and another may be on its way behind it; the rest is a turn's.
        assert watch.ranges <= 10 * 2 * 200 + TURN_WORK < 10 * MAX_UNDER_WAY

    run(main)
