"""Messages by request through the door: who is answered, who is forgotten, and what nobody got."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.queue.message_taker import MessageTaker
from actors.queue.vocabulary.replies import Lost, MessagesTaken, NothingHeld
from actors.queue.vocabulary.takes import Settlement
from streams import Source
from tests.transport.broker_helpers import batch
from transport import Broker, BrokerConfig, Sender
from transport.broker.operations import Operations
from transport.broker.served import RefusalError
from transport.broker.takers import Taker
from transport.clients.administration import Administration
from transport.errors import ForbiddenError
from transport.security.principal import ANYONE, Grant, Grants, Principal, Right

FREE = "127.0.0.1:0"
QUEUE = "orders"
LARGE = 10**9


@asynccontextmanager
async def opened(directory: Path | None = None) -> AsyncIterator[tuple[Broker, Operations]]:
    """A broker with the queue, and its door."""
    async with Broker(BrokerConfig(FREE, FREE, directory=directory)) as broker:
        broker.queues.get_or_create(QUEUE)
        yield broker, broker._host().operations(ANYONE)


async def send(broker: Broker, *payloads: bytes) -> None:
    await Source.single(batch(*payloads)).to(Sender(str(broker.send_address), queue=QUEUE)).run()


def taker(operations: Operations) -> Taker:
    return operations.taker("http", QUEUE)


async def take(operations: Operations, messages: int = 10, wait: float = 0.0, **options: Any) -> Any:
    """What a request gets, seen by who asked."""
    asked = taker(operations)
    taken = await asked.take(messages, LARGE, wait, **options)
    asked.seen(taken)
    return taken


def payloads(taken: Any) -> list[bytes]:
    return [payload for each in taken for payload in each.batch.payloads.tolist()]


def named(taken: Any) -> list[tuple[int, int]]:
    return [(each.first + index, each.delivery_count) for each in taken for index in range(len(each.batch))]


async def figures(broker: Broker) -> Any:
    async with Administration(str(broker.send_address)) as administration:
        (row,) = await administration.queues()
        return row


@pytest.fixture(params=["in memory", "on disk"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "in memory" else tmp_path


def test_what_one_request_takes_another_settles(run: Any, directory: Path | None) -> None:
    async def main() -> None:
        async with opened(directory) as (broker, operations):
            await send(broker, b"a", b"b", b"c")
            taken = await take(operations, 2)
            assert payloads(taken) == [b"a", b"b"]
            assert await taker(operations).settle(named(taken), Settlement.ACKNOWLEDGE) == {}
            again = named(taken)
            assert await taker(operations).settle(again, Settlement.ACKNOWLEDGE) == {
                (0, 1): Lost.GONE,
                (1, 1): Lost.GONE,
            }
            row = await figures(broker)
            assert (row["ready"], row["in_flight"], row["total_out"], row["total_acknowledged"]) == (1, 0, 2, 2)

    run(main)


def test_a_request_that_waits_is_answered_when_a_message_comes(run: Any, directory: Path | None) -> None:
    async def main() -> None:
        async with opened(directory) as (broker, operations):
            waiting = asyncio.create_task(take(operations, wait=30.0))
            await send(broker, b"a")
            assert payloads(await waiting) == [b"a"]

    run(main)


def test_a_taker_ends_when_it_holds_nothing_and_another_begins_when_it_is_needed(run: Any) -> None:
    async def main() -> None:
        async with opened() as (broker, operations):
            await send(broker, b"a")
            taken = await take(operations)
            first = taker(operations)
            assert first._actor.is_alive()
            await first.settle(named(taken), Settlement.ACKNOWLEDGE)
            await figures(broker)
            assert not first._actor.is_alive()
            assert not broker._takers._takers
            await send(broker, b"b")
            assert payloads(await take(operations)) == [b"b"]

    run(main)


@pytest.mark.parametrize("turns", range(12))
def test_a_request_that_is_cancelled_at_any_moment_costs_no_delivery(
    run: Any, directory: Path | None, turns: int
) -> None:
    async def main() -> None:
        async with opened(directory) as (broker, operations):
            waiting = asyncio.create_task(taker(operations).take(10, LARGE, 30.0))
            sending = asyncio.create_task(send(broker, b"a"))
            while (await figures(broker))["ready"] == 0 and not waiting.done():
                if sending.done():
                    break
            for _ in range(turns):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            await sending
            if not waiting.cancelled():
                taker(operations).unseen(waiting.result())
            (only,) = await take(operations, wait=30.0)
            assert (only.delivery_count, only.possibly_replayed) == (1, False)
            assert (await figures(broker))["total_out"] == 1

    run(main)


def test_what_was_answered_in_the_turn_of_the_cancellation_is_given_back(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with opened() as (broker, operations):
            asked = taker(operations)
            waiting = asyncio.create_task(asked.take(10, LARGE, 30.0))
            answer = asked.tell

            def answer_and_cancel(reply: Any) -> None:
                answer(reply)
                waiting.cancel()

            monkeypatch.setattr(asked, "tell", answer_and_cancel)
            await send(broker, b"a")
            await asyncio.wait([waiting])
            assert waiting.cancelled()
            (only,) = await take(operations, wait=30.0)
            assert (only.delivery_count, only.possibly_replayed) == (1, False)

    run(main)


def test_an_old_word_that_nothing_is_held_ends_no_taker_to_whom_the_queue_gives_something(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with opened() as (broker, operations):
            under_way: list[Any] = []
            handle = MessageTaker.handle

            def held_up(actor: MessageTaker, kind: type, message: Any) -> None:
                if kind in (NothingHeld, MessagesTaken):
                    under_way.append(message)
                else:
                    handle(actor, kind, message)

            await send(broker, b"a")
            held = named(await take(operations))
            asked = taker(operations)
            monkeypatch.setattr(MessageTaker, "handle", held_up)
            await asked.settle(held, Settlement.ACKNOWLEDGE)
            await send(broker, b"b")
            waiting = asyncio.create_task(asked.take(10, LARGE))
            await figures(broker)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert [type(each) for each in under_way] == [NothingHeld, MessagesTaken]
            monkeypatch.setattr(MessageTaker, "handle", handle)
            for each in under_way:
                asked._actor.deliver(each)
            await figures(broker)
            (only,) = await take(operations, wait=30.0)
            assert (payloads([only]), only.delivery_count, only.failures) == ([b"b"], 1, 0)
            await taker(operations).settle(named([only]), Settlement.ACKNOWLEDGE)
            await figures(broker)
            assert not broker._takers._takers, "it ends all the same when it holds nothing"

    run(main)


def test_many_that_wait_are_all_answered_when_messages_come(run: Any) -> None:
    async def main() -> None:
        async with opened() as (broker, operations):
            waiting = [asyncio.create_task(take(operations, wait=30.0)) for _ in range(500)]
            await asyncio.sleep(0)
            await send(broker, *[b"%d" % number for number in range(1000)])
            got = [payloads(taken) for taken in await asyncio.gather(*waiting)]
            assert {len(each) for each in got} == {2}
            assert len({payload for each in got for payload in each}) == 1000

    run(main)


def test_a_queue_that_is_deleted_answers_whoever_waits(run: Any) -> None:
    async def main() -> None:
        async with opened() as (broker, operations):
            waiting = asyncio.create_task(take(operations, wait=30.0))
            await asyncio.sleep(0)
            await operations.command("queue.delete", {"name": QUEUE})
            with pytest.raises(RefusalError) as told:
                await waiting
            assert told.value.code == "queue-deleted"
            assert not broker._takers._takers

    run(main)


def test_a_broker_that_drains_gives_nothing_more_and_still_settles(run: Any) -> None:
    async def main() -> None:
        async with opened() as (broker, operations):
            await send(broker, b"a")
            taken = await take(operations)
            waiting = asyncio.create_task(take(operations, wait=30.0))
            await asyncio.sleep(0)
            await broker.drain(5.0)
            with pytest.raises(RefusalError) as told:
                await waiting
            assert told.value.code == "shutting-down"
            with pytest.raises(RefusalError, match="stopping"):
                await take(operations)
            assert await taker(operations).settle(named(taken), Settlement.ACKNOWLEDGE) == {}

    run(main)


def test_what_is_held_at_the_end_of_a_broker_is_there_after_it_and_has_not_failed(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        for _ in range(3):
            async with opened(tmp_path) as (broker, operations):
                await operations.command("queue.alter", {"name": QUEUE, "max_receives": 1})
                if not (await figures(broker))["ready"]:
                    await send(broker, b"a")
                taken = await take(operations, wait=30.0)
                assert payloads(taken) == [b"a"]

    run(main)


def test_taking_takes_the_right_to_read_and_makes_no_queue(run: Any) -> None:
    async def main() -> None:
        async with opened() as (broker, _):
            door = broker._host().operations
            writer = door(Principal("ann", Right(0), Grants([Grant(QUEUE, Right.WRITE)])))
            with pytest.raises(ForbiddenError, match="ann may not read 'orders'"):
                writer.taker("http", QUEUE)
            reader = door(Principal("bob", Right(0), Grants([Grant("*", Right.READ)])))
            assert await take(reader) == ()
            with pytest.raises(Exception, match="there is no queue 'another'"):
                reader.taker("http", "another")
            assert "another" not in broker.queues

    run(main)


def test_a_request_that_cannot_be_is_refused_and_the_others_go_on(run: Any) -> None:
    async def main() -> None:
        async with opened() as (broker, operations):
            waiting = asyncio.create_task(take(operations, wait=30.0))
            await asyncio.sleep(0)
            with pytest.raises(RefusalError, match="1 to 1000 messages") as told:
                await take(operations, 5000)
            assert told.value.code == "protocol-error"
            await send(broker, b"a")
            assert payloads(await waiting) == [b"a"]

    run(main)


def test_an_acknowledgement_of_all_that_is_held_beside_a_take_ends_nothing_that_is_taken(run: Any) -> None:
    async def main() -> None:
        async with opened() as (broker, operations):
            for number in range(30):
                await send(broker, b"%d" % number)
                held = await take(operations, 1)
                await send(broker, b"next")
                settled, taken = await asyncio.gather(
                    taker(operations).settle(named(held), Settlement.ACKNOWLEDGE), take(operations, 1)
                )
                assert settled == {}
                assert await taker(operations).settle(named(taken), Settlement.ACKNOWLEDGE) == {}

    run(main)


def test_those_that_poll_at_once_settle_all_that_they_take(run: Any) -> None:
    async def main() -> None:
        async with opened() as (broker, operations):
            await send(broker, *[b"%d" % number for number in range(200)])
            got: list[bytes] = []

            async def poll() -> None:
                while len(got) < 200:
                    taken = await take(operations, 1)
                    got.extend(payloads(taken))
                    if taken:
                        assert await taker(operations).settle(named(taken), Settlement.ACKNOWLEDGE) == {}

            await asyncio.gather(*(poll() for _ in range(4)))
            assert len(set(got)) == len(got) == 200

    run(main)


def test_a_taker_that_nobody_asks_for_anything_ends_and_lets_go_of_an_exclusive_queue(run: Any) -> None:
    async def main() -> None:
        async with opened() as (broker, operations):
            unasked = taker(operations)
            await figures(broker)
            await figures(broker)
            assert not unasked._actor.is_alive()
            with pytest.raises(RefusalError):
                await take(operations, 5000)
            await figures(broker)
            await figures(broker)
            assert not broker._takers._takers

    run(main)


def test_a_delivery_that_is_over_does_not_spoil_the_one_that_is_not(run: Any) -> None:
    async def main() -> None:
        async with opened() as (broker, operations):
            await send(broker, b"a")
            before = await take(operations)
            await taker(operations).settle(named(before), Settlement.RETURN)
            now = await take(operations)
            answer = await taker(operations).settle([*named(before), *named(now)], Settlement.ACKNOWLEDGE)
            assert answer == {(0, 1): Lost.EXPIRED}

    run(main)
