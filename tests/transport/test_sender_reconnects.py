"""`Sender` against a real broker: connections that break, brokers that stop, and another of the same name."""

from __future__ import annotations

from typing import Any

import pytest

from streams import Sink, Source
from streams.testkit import TestSource
from tests.transport.sender_helpers import QUICK, numbered, stored
from transport import (
    Backoff,
    BrokerError,
    Confirmation,
    ConnectionLostError,
    Sender,
)
from transport.wire.messages import (
    Command,
    Result,
)


def test_cut_anywhere_towards_the_broker_nothing_is_lost_or_stored_twice(
    run: Any, serve: Any, peers: Any, cutting: Any
) -> None:
    payloads = numbered(60)

    def sender(address: str) -> Sender:
        return Sender(address, queue="orders", max_batch_messages=7, reconnect=QUICK)

    async def main() -> None:
        async with serve() as broker, cutting(broker.send_address) as proxy:
            await Source.from_iterable(payloads).to(sender(proxy.address)).run()
            await stored(broker, peers, 60)
            whole = bytes(proxy.traffic[0])
        edges = [0]
        while edges[-1] < len(whole):
            edges.append(edges[-1] + int.from_bytes(whole[edges[-1] : edges[-1] + 4], "big"))
        cuts = sorted({edge + step for edge in edges for step in (-1, 0, 1, 5, 9)} & set(range(1, len(whole) + 1)))
        assert len(edges) > 8
        for cut in cuts:
            async with serve() as broker, cutting(broker.send_address) as proxy:
                proxy.up = [cut]
                summary = await Source.from_iterable(payloads).to(sender(proxy.address)).run()
                assert summary.messages == 60, cut
                assert await stored(broker, peers, 60) == payloads, cut

    run(main)


@pytest.mark.parametrize("step", [1, 7])
def test_cut_anywhere_towards_the_sender_nothing_is_lost_or_stored_twice(
    run: Any, serve: Any, peers: Any, cutting: Any, step: int
) -> None:
    payloads = numbered(40)

    async def main() -> None:
        async with serve() as broker, cutting(broker.send_address) as proxy:
            proxy.down = [*range(20, 200, 3 * step)]
            sender = Sender(proxy.address, queue="orders", max_batch_messages=3, reconnect=QUICK)
            summary = await Source.from_iterable(payloads).to(sender).run()
            assert summary.messages == 40
            assert proxy.connections > 1
            assert summary.reconnects <= proxy.connections - 1
            assert await stored(broker, peers, 40) == payloads

    run(main)


def test_a_sender_survives_a_broker_that_stops_and_starts_again(run: Any, serve: Any, peers: Any, until: Any) -> None:
    async def main() -> None:
        confirmed: list[Confirmation] = []

        def messages() -> int:
            return sum(confirmation.count for confirmation in confirmed)

        first = serve(max_queue_messages=100)
        async with first as broker:
            address = broker.send_address
            flow = Sender(address, queue="orders", reconnect=QUICK)
            running = Source.from_iterable(numbered(150)).via(flow).to(Sink.foreach(confirmed.append)).run()
            await until(lambda: messages() == 100)
        assert not running.done()
        async with serve(send_address=address) as second:
            await running
            assert messages() == 150
            assert second.epoch >= first.epoch
            # What the first broker held in memory only, and had confirmed, went with it.
            assert await stored(second, peers, 50) == numbered(150)[100:]

    run(main)


def test_without_a_broker_it_gives_up_when_it_was_told_to(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            address = broker.send_address
        sender = Sender(address, queue="orders", reconnect=Backoff(minimum=0.001, maximum=0.01, give_up_after=0.05))
        with pytest.raises(ConnectionLostError, match="given up after"):
            await Source.from_iterable(numbered(3)).to(sender).run()

    run(main)


def test_a_second_sender_of_the_same_name_takes_over_and_the_first_fails(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            source: TestSource[bytes] = TestSource()
            first = source.to(Sender(broker.send_address, queue="orders", client_id="twin")).run()
            await source.probe.expect_request()
            source.probe.send_next(b"from the first")
            async with peers() as opened:
                admin = await opened.open(broker.send_address, "admin", None)
                row = b""
                while b'"total_in":1' not in row:
                    admin.send(Command(1, "queue.list", {}))
                    row = (await admin.expect(Result)).json
            second = Sender(broker.send_address, queue="orders", client_id="twin")
            summary = await Source.of(b"from the second").to(second).run()
            assert summary.messages == 1
            with pytest.raises(BrokerError, match="taken-over"):
                await first
            await source.probe.expect_cancellation()
            assert await stored(broker, peers, 2) == [b"from the first", b"from the second"]

    run(main)
