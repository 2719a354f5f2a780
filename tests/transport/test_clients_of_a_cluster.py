"""Clients whose broker goes, by real processes and sockets: they find the next leader, and what they send and have sent is as it was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from streams import Sink, Source
from tests.standing_still import stand_still
from tests.transport.cluster_members import Member
from tests.transport.programs import Program
from tests.transport.scripted_peers import unused_address
from transport import (
    Administration,
    Backoff,
    Broker,
    BrokerConfig,
    Confirmation,
    MessageBatch,
    Receiver,
    Sender,
    StageClient,
    TransactionClient,
)
from transport.broker.leadership import Leadership
from transport.clients.subscription_client import SubscriptionClient
from transport.errors import ConnectionLostError

pytestmark = pytest.mark.event_loop
FREE = "127.0.0.1:0"
DEADLINE = 30.0
SILENT_IN = 15.0
"""Seconds after which a client of a broker that is alone gives it up: three heartbeats."""


@pytest.fixture
def members() -> Iterator[list[Member]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Member()) for _ in range(3)]


class Numbers:
    """Numbers as payloads, one behind the other as they are asked for, until it is told to stop."""

    def __init__(self) -> None:
        self.given = 0
        self.stops = False

    def __iter__(self) -> Iterator[bytes]:
        while not self.stops:
            self.given += 1
            yield str(self.given - 1).encode()


class Sending:
    """A sender that has little under way, and what it was told of it."""

    def __init__(self, addresses: str, **options: Any) -> None:
        self.numbers = Numbers()
        self.confirmed: list[Confirmation] = []
        sender = Sender(addresses, queue="orders", max_batch_messages=8, max_in_flight=64, **options)
        stream = Source.from_iterable(self.numbers).via(sender).to(Sink.foreach(self.confirmed.append))
        self.running = asyncio.ensure_future(stream.run())

    async def ends(self) -> int:
        """Have it end: how many messages it has sent, each confirmed once, one behind the other."""
        self.numbers.stops = True
        await self.running
        assert sum(each.count for each in self.confirmed) == self.numbers.given
        for before, after in pairwise(self.confirmed):
            assert after.sequence == before.sequence + before.count
        return self.numbers.given


async def received(addresses: str, count: int) -> list[bytes]:
    """So many messages, acknowledged, in the order in which they come."""
    payloads: list[bytes] = []
    async with asyncio.timeout(DEADLINE):
        async for delivery in Receiver(addresses, queue="orders", limit=count):
            payloads.append(bytes(delivery.payload))
            delivery.acknowledge()
    return payloads


def texts(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


def test_a_sender_whose_leader_is_killed_goes_on_at_the_next_one_and_nothing_is_lost_doubled_or_in_another_order(
    members: list[Member], run: Any, until: Any, tmp_path: Path
) -> None:
    first, second, third = members
    first.lead(str(tmp_path / "data"))
    third.follow(first)

    async def main() -> None:
        # It is told of one that never leads, and of none that does.
        sending = Sending(third.send, client_id="till")
        await until(lambda: len(sending.confirmed) > 20)
        first.kill()
        third.follow()
        await asyncio.to_thread(second.lead, str(tmp_path / "data"))
        third.follow(second)
        before = len(sending.confirmed)
        await until(lambda: len(sending.confirmed) > before + 20)
        count = await sending.ends()
        assert await received(third.receive, count) == texts(count)

    run(main)


def test_a_leader_that_stands_still_is_left_long_before_its_heartbeat_would_tell(
    members: list[Member], run: Any, until: Any
) -> None:
    first, second, third = members
    first.lead("-")
    third.follow(first)
    second.follow(first)

    async def main() -> None:
        sending = Sending(f"{first.send},{second.send},{third.send}", client_id="till")
        await until(lambda: len(sending.confirmed) > 20)
        stand_still(first.process.pid)
        stopped, before = time.monotonic(), len(sending.confirmed)
        # It has no directory of the first: what it is asked about is how soon it is found.
        await asyncio.to_thread(second.lead, "-")
        third.follow(second)
        await until(lambda: len(sending.confirmed) > before + 20)
        assert time.monotonic() - stopped < SILENT_IN
        sending.numbers.stops = True
        await sending.running

    run(main)


def test_a_receiver_a_transaction_and_a_subscription_go_on_at_the_next_leader(
    members: list[Member], run: Any, tmp_path: Path
) -> None:
    first, second, third = members
    first.lead(str(tmp_path / "data"))
    third.follow(first)
    send, receive = f"{third.send},{first.send}", f"{third.receive},{first.receive}"
    subscription = SubscriptionClient(receive, queue="orders", subscription="lake", mode="own")
    stage = StageClient(send, queue="orders", writer="query", version=1, stage="0-0")
    with subscription, stage:
        made = subscription.open()
        stage.send(MessageBatch.from_payloads(texts(10)))
        enlisted = stage.finish()
        first.kill()
        third.follow()
        second.lead(str(tmp_path / "data"))
        third.follow(second)
        with TransactionClient(send, writer="query", version=1) as transaction:
            assert transaction.commit([enlisted]) == 10
        reservation = subscription.reserve(0, 4, 1 << 20, wait_ms=5000)
        assert reservation.end == 4
        assert [bytes(each) for piece in subscription.fetch(0, 4) for each in piece.batch.payloads] == texts(4)
        assert subscription.commit(4) == 4
        assert subscription.open().id_prefix == made.id_prefix, "the same store at another address"

    async def main() -> None:
        assert await received(receive, 6) == texts(10)[4:]
        async with Administration([third.send, first.send]) as administration:
            assert str(administration.address) == second.send
            assert [row["stored_messages"] for row in await administration.queues()] == [0]
            assert str(administration.another()._addresses[0]) == third.send

    run(main)


def test_a_verb_takes_several_addresses_and_goes_to_the_leader(members: list[Member]) -> None:
    first, _, third = members
    first.lead("-")
    third.follow(first)
    points = f"{unused_address()},{third.send}"
    with Program("send", "--queue", "orders", "--address", points) as sending:
        sending.stdin.write(b"tea\ncake\n")
        sending.stdin.close()
        sending.stdin = None
        assert sending.end() == 0
    with Program(
        "receive", "--queue", "orders", "--address", f"{unused_address()},{third.receive}", "--count", "2"
    ) as receiving:
        assert receiving.rest(receiving.stdout) == b"tea\ncake\n"
        assert receiving.end() == 0
    with Program("queue", "list", "--address", points) as listing:
        assert b"\norders " in listing.rest(listing.stdout)
        assert listing.end() == 0


def test_a_verb_says_what_to_do_where_a_cluster_has_no_leader(members: list[Member]) -> None:
    for patience in ("300ms", "1s", "3s", "10s"):
        with Program("queue", "list", "--address", members[2].send, "--connect-timeout", patience) as listing:
            told = listing.rest(listing.stderr).decode()
            assert listing.end() == 1
        if "its leader is not known yet" in told:
            break
        # On a busy machine a node may need longer for its first word: then there is none to tell, and it is asked with more patience.
        assert "no connection to the broker" in told
    assert "its leader is not known yet" in told
    assert "`penstock cluster status` shows which of its nodes are there" in told
    with Program("queue", "list", "--address", "a:1,b:") as listing:
        assert "'b:' is not host:port" in listing.rest(listing.stderr).decode()
        assert listing.end() == 2


@asynccontextmanager
async def followers() -> AsyncIterator[tuple[Broker, Broker, Leadership, Leadership]]:
    """Two that point at each other."""
    one, other = Leadership(), Leadership()
    async with (
        Broker(BrokerConfig(FREE, FREE), leadership=one) as here,
        Broker(BrokerConfig(FREE, FREE), leadership=other) as there,
    ):
        one.follow({"send": [there.send_address], "receive": [there.receive_address]})
        other.follow({"send": [here.send_address], "receive": [here.receive_address]})
        yield here, there, one, other


def came(*brokers: Broker) -> int:
    return sum(broker._connections.numbers for broker in brokers)


def test_two_followers_that_point_at_each_other_are_asked_in_turn_with_pauses_until_patience_ends(run: Any) -> None:
    patient = Backoff(minimum=0.05, maximum=0.2, jitter=0.0, give_up_after=1.0)

    async def main() -> None:
        async with followers() as (here, there, _, _):
            stream = Source.of(b"x").to(Sender(here.send_address, queue="orders", reconnect=patient))
            with pytest.raises(ConnectionLostError, match="does not lead its cluster"):
                await stream.run()
            # A pass has two; the pauses are 0.05, 0.1 and then 0.2 seconds long.
            asynchronous = came(here, there)
            assert 4 <= asynchronous <= 2 * 9
            with (
                TransactionClient(here.send_address, writer="w", version=1, retry=patient) as client,
                pytest.raises(ConnectionLostError, match="does not lead its cluster"),
            ):
                await asyncio.to_thread(client.abort)
            assert 4 <= came(here, there) - asynchronous <= 2 * 9

    run(main)


def test_a_client_of_a_cluster_that_elects_asks_again_soon_however_long_its_pauses_may_grow(
    run: Any, until: Any
) -> None:
    async def main() -> None:
        async with followers() as (here, there, one, _):
            growing = Backoff(minimum=0.1, maximum=60.0, factor=100.0, jitter=0.0)
            sending = asyncio.ensure_future(
                Source.of(b"x").to(Sender(here.send_address, queue="orders", reconnect=growing)).run()
            )
            await until(lambda: came(here, there) >= 8)
            one.lead()
            assert (await sending).messages == 1

    run(main)


def test_who_is_inside_goes_to_the_next_leader_at_once_when_a_leader_steps_down(run: Any, until: Any) -> None:
    async def main() -> None:
        async with followers() as (_, there, one, other):
            one.lead()
            never = Backoff(minimum=1000.0, maximum=1000.0, give_up_after=None)
            sending = Sending(there.send_address, reconnect=never)
            await until(lambda: len(sending.confirmed) > 3)
            other.lead()
            one.follow({"send": [there.send_address]})
            before = len(sending.confirmed)
            await until(lambda: len(sending.confirmed) > before + 3)
            sending.numbers.stops = True
            await sending.running
            assert len(there.connections) == 0, "it was let in there, and has left"

    run(main)


def test_an_address_that_refuses_costs_no_pause_where_another_answers(run: Any, serve: Any) -> None:
    async def main() -> None:
        never = Backoff(minimum=1000.0, maximum=1000.0, give_up_after=None)
        async with serve() as broker:
            points = f"{unused_address()},{unused_address()},{broker.send_address}"
            assert (await Source.of(b"x").to(Sender(points, queue="orders", reconnect=never)).run()).messages == 1
            with SubscriptionClient(
                f"{unused_address()},{broker.receive_address}", queue="orders", mode="browse", retry=never
            ) as client:
                assert (await asyncio.to_thread(client.open)).high_water == 1

    run(main)


def test_an_address_where_nobody_says_a_word_is_passed_over_within_a_second_or_so(run: Any, serve: Any) -> None:
    async def main() -> None:
        # Connections are made, as of a process that stands still, and nothing comes.
        writers: list[asyncio.StreamWriter] = []
        mute = await asyncio.start_server(lambda _reader, writer: writers.append(writer), "127.0.0.1", 0)
        address = "{}:{}".format(*mute.sockets[0].getsockname())
        try:
            async with serve() as broker:
                began = time.monotonic()
                stream = Source.of(b"x").to(Sender(f"{address},{broker.send_address}", queue="orders"))
                assert (await stream.run()).messages == 1
                with SubscriptionClient(f"{address},{broker.receive_address}", queue="orders", mode="browse") as client:
                    assert (await asyncio.to_thread(client.open)).high_water == 1
                assert time.monotonic() - began < 10.0, "a handshake with one of them would have had that alone"
        finally:
            mute.close()
            for writer in writers:
                writer.close()

    run(main)
