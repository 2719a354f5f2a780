"""Staging, committing and aborting as clients see it: the blocking clients against a broker, in memory and with a journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from transport import (
    Broker,
    BrokerError,
    DemandTimeoutError,
    EnlistedStage,
    MessageBatch,
    StageClient,
    StageLostError,
    TransactionClient,
)
from transport.clients.administration import Administration
from transport.clients.backoff import Backoff
from transport.wire.messages import Ack, Deliver, Demand, Error, Request, Send, Sent

QUICK = Backoff(minimum=0.001, maximum=0.01, give_up_after=20.0)
MIB = 1 << 20

Run = Callable[[Callable[[], Awaitable[None]]], None]
Serve = Callable[..., Broker]


@pytest.fixture(params=["memory", "journal"], name="serve_both")
def both(request: pytest.FixtureRequest, serve: Serve, tmp_path: Path) -> Serve:
    """Makes a broker, once in memory and once with a journal."""
    if request.param == "memory":
        return serve
    return lambda **options: serve(directory=str(tmp_path / "data"), **options)


def numbered(start: int, stop: int) -> MessageBatch:
    return MessageBatch.from_payloads([b"%06d" % number for number in range(start, stop)])


def payloads(start: int, stop: int) -> list[bytes]:
    return numbered(start, stop).payloads.tolist()


def stage(
    address: str, *batches: MessageBatch, name: str = "0-0", queue: str = "orders", version: int = 1, **options: Any
) -> EnlistedStage:
    """Stage ``batches`` and close."""
    given: dict[str, Any] = {"writer": "w", "retry": QUICK} | options
    with StageClient(address, queue=queue, version=version, stage=name, **given) as client:
        for batch in batches:
            client.send(batch)
        return client.finish()


def commit(address: str, *stages: EnlistedStage, version: int = 1) -> int:
    with TransactionClient(address, writer="w", version=version, retry=QUICK) as client:
        return client.commit(stages)


def abort(address: str, version: int = 1) -> int:
    with TransactionClient(address, writer="w", version=version, retry=QUICK) as client:
        return client.abort()


class Inbox:
    """A receiver that acknowledges what it takes."""

    def __init__(self, peer: Any) -> None:
        self._peer = peer
        self._requested = 0

    async def take(self, count: int) -> list[bytes]:
        """The next ``count`` messages."""
        found: list[bytes] = []
        while len(found) < count:
            self._requested += count - len(found)
            self._peer.send(Request(self._requested, self._requested * MIB))
            while len(found) < count:
                delivered = await self._peer.expect(Deliver)
                self._peer.send(Ack([(delivered.first, len(delivered.batch))]))
                found += delivered.batch.payloads.tolist()
        return found


async def inbox(peers: Any, broker: Broker, queue: str = "orders") -> Inbox:
    return Inbox(await peers.open(broker.receive_address, "receiver", queue))


async def figures(broker: Broker, queue: str = "orders") -> dict[str, Any]:
    async with Administration(broker.send_address) as administration:
        (row,) = [row for row in await administration.queues() if row["name"] == queue]
        return row


async def send_plain(peers: Any, broker: Broker, batch: MessageBatch, queue: str = "orders") -> None:
    """One batch without a transaction, stored when this returns."""
    sender = await peers.open(broker.send_address, "sender", queue, "plain")
    await sender.expect(Demand)
    sender.send(Send(0, None, batch))
    await sender.expect_later(Sent)


@asynccontextmanager
async def started(broker: Broker, peers: Any) -> AsyncIterator[tuple[Broker, Any]]:
    async with broker, peers() as opened:
        yield broker, opened


thread = asyncio.to_thread
"""The clients block; the broker runs on the test's loop."""


def test_nobody_receives_what_is_staged_before_the_commit_and_then_all_of_it_in_order(
    run: Run, serve_both: Serve, peers: Any
) -> None:
    async def main() -> None:
        async with started(serve_both(), peers) as (broker, opened):
            receiver = await inbox(opened, broker)
            one = await thread(stage, broker.send_address, numbered(0, 100), numbered(100, 150))
            assert one == EnlistedStage("orders", "0-0", 150)
            await send_plain(opened, broker, numbered(900, 910))
            # Sent later and received first: what is staged has its number, and is not there.
            assert await receiver.take(10) == payloads(900, 910)
            row = await figures(broker)
            assert (row["ready"], row["staged_messages"]) == (0, 150)
            assert row["staged_bytes"] > 150 * 6
            assert await thread(commit, broker.send_address, one) == 150
            assert await receiver.take(150) == payloads(0, 150)
            row = await figures(broker)
            assert (row["ready"], row["staged_messages"], row["staged_bytes"]) == (0, 0, 0)

    run(main)


def test_a_commit_publishes_the_winners_in_every_queue_and_discards_the_losers(
    run: Run, serve_both: Serve, peers: Any
) -> None:
    async def main() -> None:
        async with started(serve_both(), peers) as (broker, opened):
            address = broker.send_address
            first = await thread(stage, address, numbered(0, 10), name="0-0")
            await thread(stage, address, numbered(100, 120), name="0-1")
            await thread(stage, address, numbered(200, 205), name="1-0", queue="lost")
            other = await thread(stage, address, numbered(300, 330), name="0-0", queue="returns")
            left = await thread(stage, address, numbered(400, 404), name="2-0", version=2)
            assert await thread(commit, address, first, other) == 40
            assert await (await inbox(opened, broker)).take(10) == payloads(0, 10)
            assert await (await inbox(opened, broker, "returns")).take(30) == payloads(300, 330)
            for queue in ("orders", "lost", "returns"):
                assert (await figures(broker, queue))["ready"] == 0
            # A later version of the same writer is another transaction.
            assert (await figures(broker))["staged_messages"] == 4
            assert await thread(commit, address, left, version=2) == 4

    run(main)


def test_a_commit_is_done_once_however_often_it_is_asked_for(run: Run, serve_both: Serve, peers: Any) -> None:
    async def main() -> None:
        async with started(serve_both(), peers) as (broker, opened):
            one = await thread(stage, broker.send_address, numbered(0, 10))
            assert await thread(commit, broker.send_address, one) == 10
            assert await thread(commit, broker.send_address, one) == 0
            # The batch written again, by a query that did not hear of its commit, changes nothing either.
            again = StageClient(broker.send_address, queue="orders", writer="w", version=1, stage="0-7")
            assert await thread(again.open) is False
            await thread(again.send, numbered(0, 10))
            assert (await thread(again.finish)).messages == 10
            await thread(again.close)
            assert await thread(commit, broker.send_address, one) == 0
            assert await (await inbox(opened, broker)).take(10) == payloads(0, 10)
            row = await figures(broker)
            assert (row["ready"], row["staged_messages"], row["total_in"]) == (0, 0, 10)

    run(main)


def test_an_abort_discards_and_the_version_can_be_staged_again(run: Run, serve_both: Serve, peers: Any) -> None:
    async def main() -> None:
        async with started(serve_both(), peers) as (broker, opened):
            await thread(stage, broker.send_address, numbered(0, 10))
            await thread(stage, broker.send_address, numbered(10, 15), queue="returns")
            assert await thread(abort, broker.send_address) == 15
            assert await thread(abort, broker.send_address) == 0
            one = await thread(stage, broker.send_address, numbered(20, 23))
            assert await thread(commit, broker.send_address, one) == 3
            assert await thread(abort, broker.send_address) == 0
            assert await (await inbox(opened, broker)).take(3) == payloads(20, 23)

    run(main)


def test_an_abort_under_a_client_that_stages_tells_it_to_stage_again(run: Run, serve_both: Serve, peers: Any) -> None:
    async def main() -> None:
        async with started(serve_both(), peers) as (broker, _):
            client = StageClient(broker.send_address, queue="orders", writer="w", version=1, stage="0-0", retry=QUICK)
            await thread(client.send, numbered(0, 10))
            await thread(client.finish)
            assert await thread(abort, broker.send_address) == 10

            def go_on() -> None:
                client.send(numbered(10, 20))
                client.finish()

            with pytest.raises(BrokerError, match="stage the batch again") as caught:
                await thread(go_on)
            assert caught.value.code == "transaction-incomplete"
            await thread(client.close)
            assert (await figures(broker))["staged_messages"] == 0

    run(main)


def test_a_commit_of_a_stage_that_is_not_whole_changes_nothing(run: Run, serve_both: Serve, peers: Any) -> None:
    async def main() -> None:
        async with started(serve_both(), peers) as (broker, _):
            one = await thread(stage, broker.send_address, numbered(0, 10))
            other = await thread(stage, broker.send_address, numbered(0, 5), queue="returns")
            for wrong in (
                other._replace(messages=6),
                other._replace(stage="none"),
                other._replace(queue="nowhere"),
            ):
                with pytest.raises(BrokerError, match=f"{wrong.stage!r}.*{wrong.queue!r}") as caught:
                    await thread(commit, broker.send_address, one, wrong)
                assert caught.value.code == "transaction-incomplete"
                assert str(wrong.messages) in caught.value.text
            assert (await figures(broker))["ready"] == 0
            assert await thread(commit, broker.send_address, one, other) == 15

    run(main)


def test_a_full_queue_holds_a_stage_until_a_receiver_acknowledges(run: Run, serve_both: Serve, peers: Any) -> None:
    async def main() -> None:
        async with started(serve_both(max_queue_messages=50), peers) as (broker, opened):
            await send_plain(opened, broker, numbered(0, 50))
            staging = asyncio.create_task(thread(stage, broker.send_address, numbered(100, 400)))
            # It is connected and waits: the queue has no room to grant.
            async with Administration(broker.send_address) as administration:
                while not [
                    row for row in (await administration.statistics())["connections"] if row["client_id"] == "0-0"
                ]:
                    continue
            assert (await figures(broker))["staged_messages"] == 0
            assert not staging.done()
            assert await (await inbox(opened, broker)).take(50) == payloads(0, 50)
            one = await staging
            assert one.messages == 300
            # What is staged does not count against the queue's limit, and a commit is always taken.
            assert await thread(commit, broker.send_address, one) == 300
            assert (await figures(broker))["ready"] == 300

    run(main)


def test_a_queue_that_stays_full_is_an_error_in_time(run: Run, serve: Serve, peers: Any) -> None:
    async def main() -> None:
        async with started(serve(max_queue_messages=5), peers) as (broker, opened):
            await send_plain(opened, broker, numbered(0, 5))
            with pytest.raises(DemandTimeoutError, match=r"'orders' granted no room for 0\.05 s"):
                await thread(stage, broker.send_address, numbered(0, 1), demand_timeout=0.05)

    run(main)


def test_a_transaction_larger_than_may_be_staged_is_refused_with_the_limit(
    run: Run, serve_both: Serve, peers: Any
) -> None:
    async def main() -> None:
        async with started(serve_both(max_staged_messages=100), peers) as (broker, _):
            assert (await thread(stage, broker.send_address, numbered(0, 100), name="a")).messages == 100
            with pytest.raises(BrokerError, match="max_staged_messages 100") as caught:
                await thread(stage, broker.send_address, numbered(0, 1), name="b")
            assert caught.value.code == "transaction-too-large"

    run(main)


def test_a_second_connection_with_a_stages_name_takes_it_over(run: Run, serve_both: Serve, peers: Any) -> None:
    async def main() -> None:
        async with started(serve_both(), peers) as (broker, opened):
            options = {"writer": "w", "version": 1, "stage": "0-0"}
            old = await opened.open(broker.send_address, "sender", "orders", "c", **options)
            await old.expect(Demand)
            old.send(Send(0, None, numbered(0, 4)))
            await old.expect_later(Sent)
            new = await opened.connect(broker.send_address)
            welcome = await new.hello("sender", "orders", "c", **options)
            assert (welcome.options["last_sequence"], welcome.options["committed"]) == (4, False)
            assert (await old.refusal()).code == "taken-over"

    run(main)


def test_a_send_after_the_commit_is_refused(run: Run, serve_both: Serve, peers: Any) -> None:
    async def main() -> None:
        async with started(serve_both(), peers) as (broker, opened):
            zombie = await opened.open(broker.send_address, "sender", "orders", "c", writer="w", version=1, stage="0-0")
            await zombie.expect(Demand)
            zombie.send(Send(0, None, numbered(0, 4)))
            await zombie.expect_later(Sent)
            winner = await thread(stage, broker.send_address, numbered(10, 12), name="0-1")
            assert await thread(commit, broker.send_address, winner) == 2
            zombie.send(Send(4, None, numbered(4, 8)))
            errors = [frame for frame in await zombie.rest() if isinstance(frame, Error)]
            assert [error.code for error in errors] == ["transaction-committed"]
            row = await figures(broker)
            assert (row["ready"], row["staged_messages"]) == (2, 0)

    run(main)


def test_open_transactions_are_listed_and_aborted_by_an_administrator(run: Run, serve_both: Serve, peers: Any) -> None:
    async def main() -> None:
        async with started(serve_both(), peers) as (broker, _), Administration(broker.send_address) as administration:
            await thread(stage, broker.send_address, numbered(0, 10))
            await thread(stage, broker.send_address, numbered(0, 5), queue="returns")
            await thread(stage, broker.send_address, numbered(0, 2), version=7)
            rows = await administration.transactions()
            seen = [{key: row[key] for key in row if key != "bytes"} for row in rows]
            assert seen == [
                {"writer": "w", "version": 1, "queues": ["orders", "returns"], "stages": 2, "messages": 15},
                {"writer": "w", "version": 7, "queues": ["orders"], "stages": 1, "messages": 2},
            ]
            assert all(row["bytes"] > 0 for row in rows)
            assert await administration.abort_transaction("w", 1) == 15
            assert [row["version"] for row in await administration.transactions()] == [7]
            assert await administration.abort_transaction("nobody", 1) == 0

    run(main)


def test_a_stage_that_timed_out_under_its_client_is_an_error_that_says_so(
    run: Run, serve_both: Serve, peers: Any, cutting: Any
) -> None:
    async def main() -> None:
        async with (
            started(serve_both(transaction_timeout=0.01), peers) as (broker, _),
            cutting(broker.send_address) as proxy,
        ):
            client = StageClient(proxy.address, queue="orders", writer="w", version=1, stage="0-0", retry=QUICK)
            await thread(client.send, numbered(0, 4))
            await thread(client.finish)
            proxy.cut()
            async with Administration(broker.send_address) as administration:
                while await administration.transactions():
                    continue
            with pytest.raises(StageLostError, match="had confirmed 4"):
                await thread(client.send, numbered(4, 8))
            await thread(client.close)

    run(main)


# Connections that break


BATCHES = [numbered(start, start + 20) for start in range(0, 200, 20)]
TRAFFIC = sum(batch.nbytes for batch in BATCHES)


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("part", range(12))
def test_a_connection_cut_anywhere_loses_and_doubles_nothing(
    run: Run, serve_both: Serve, peers: Any, cutting: Any, direction: str, part: int
) -> None:
    """Up: HELLO has about 60 bytes and the batches a good 2 kB. Down: WELCOME about 60, each DEMAND and SENT about 10."""
    cuts = {
        "up": [30 + part * TRAFFIC // 12, 70 + part * 7, 500 + part],
        "down": [20 + part * 9, 90 + part * 4, 60 + part],
    }[direction]

    async def main() -> None:
        async with started(serve_both(), peers) as (broker, opened), cutting(broker.send_address) as proxy:
            setattr(proxy, direction, list(cuts))
            one = await thread(stage, proxy.address, *BATCHES)
            assert one.messages == 200
            assert proxy.connections > 1
            assert await thread(commit, broker.send_address, one) == 200
            assert await (await inbox(opened, broker)).take(200) == payloads(0, 200)
            assert (await figures(broker))["ready"] == 0

    run(main)


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("part", range(8))
def test_a_commit_whose_connection_is_cut_anywhere_happens_once(
    run: Run, serve_both: Serve, peers: Any, cutting: Any, direction: str, part: int
) -> None:
    async def main() -> None:
        async with started(serve_both(), peers) as (broker, opened), cutting(broker.send_address) as proxy:
            one = await thread(stage, broker.send_address, numbered(0, 10))
            other = await thread(stage, broker.send_address, numbered(10, 15), queue="returns")
            # HELLO and WELCOME have about 50 bytes each; two ENLISTs, COMMIT_TRANSACTION and its answer about 60.
            setattr(proxy, direction, [10 + 15 * part, 12 + 14 * part])
            assert await thread(commit, proxy.address, one, other) in (15, 0)
            assert await thread(commit, broker.send_address, one, other) == 0
            assert await (await inbox(opened, broker)).take(10) == payloads(0, 10)
            assert await (await inbox(opened, broker, "returns")).take(5) == payloads(10, 15)
            assert (await figures(broker))["ready"] == 0

    run(main)
