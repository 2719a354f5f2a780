"""Sending by request through the door: room is waited for in turn, and what is answered is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.queue.vocabulary.commands import OfferBatch, RequestCapacity
from actors.queue.vocabulary.replies import SentMessages
from actors.storage import storage as storage_module
from streams import Source
from tests.transport.broker_helpers import batch
from transport import Broker, BrokerConfig, Sender
from transport.broker import publishers
from transport.broker.asked_to_publish import WOKEN_A_TURN
from transport.broker.operations import Operations
from transport.broker.publishers import NoRoomInTimeError, Piece
from transport.broker.served import RefusalError
from transport.clients.administration import Administration
from transport.errors import ForbiddenError, FrameTooLargeError, LimitExceededError
from transport.security.principal import ANYONE, Grant, Grants, Principal, Right
from transport.wire.frames import MAX_BODY_BYTES

FREE = "127.0.0.1:0"
QUEUE = "orders"
LARGE = 10**9
WAIT = 10.0
"""Seconds that somebody waits for room until the clock jumps: longer than a machine stands still."""


@asynccontextmanager
async def opened(directory: Path | None = None, **settings: Any) -> AsyncIterator[tuple[Broker, Operations]]:
    """A broker with the queue, and its door."""
    async with Broker(BrokerConfig(FREE, FREE, directory=directory)) as broker:
        operations = broker._host().operations(ANYONE)
        await operations.command("queue.create", {"name": QUEUE, **settings})
        yield broker, operations


async def publish(operations: Operations, *payloads: bytes, **options: Any) -> list[tuple[int, int]]:
    piece = Piece(batch(*payloads), options.pop("delay", None), options.pop("ttl", None))
    return await operations.publisher("http", QUEUE).publish(piece, **options)


async def take(operations: Operations, messages: int = 1000, wait: float = 0.0) -> list[bytes]:
    """What is there, acknowledged."""
    from actors.queue.vocabulary.takes import Settlement

    taken = await operations.taker("http", QUEUE).take(messages, LARGE, wait)
    operations.taker("http", QUEUE).seen(taken)
    named = [(each.first + index, each.delivery_count) for each in taken for index in range(len(each.batch))]
    if named:
        await operations.taker("http", QUEUE).settle(named, Settlement.ACKNOWLEDGE)
    return [payload for each in taken for payload in each.batch.payloads.tolist()]


async def figures(broker: Broker) -> Any:
    async with Administration(str(broker.send_address)) as administration:
        (row,) = await administration.queues()
        return row


async def holds(broker: Broker, least: int) -> bool:
    return bool((await figures(broker))["ready"] >= least)


@pytest.fixture(params=["in memory", "on disk"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "in memory" else tmp_path


def test_what_is_answered_is_stored_and_numbered(run: Any, directory: Path | None) -> None:
    async def main() -> None:
        async with opened(directory) as (_, operations):
            assert await publish(operations, b"a", b"b") == [(0, 2)]
            assert await publish(operations, b"c") == [(2, 1)]
            assert await take(operations) == [b"a", b"b", b"c"]

    run(main)


def test_many_at_once_are_stored_each_once_and_in_order(run: Any, directory: Path | None) -> None:
    async def main() -> None:
        async with opened(directory) as (_, operations):
            asked = [asyncio.create_task(publish(operations, b"%d" % number)) for number in range(500)]
            numbers = [(await each)[0][0] for each in asked]
            assert numbers == list(range(500))
            assert await take(operations) == [b"%d" % number for number in range(500)]

    run(main)


def test_pieces_of_one_request_are_stored_together_and_wait_for_room_together(run: Any, until: Any, jump: Any) -> None:
    async def main() -> None:
        async with opened(max_messages=4) as (broker, operations):
            pieces = [Piece(batch(b"%d" % number), ttl=60.0 if number % 2 else None) for number in range(3)]
            sender = operations.publisher("http", QUEUE)
            assert await sender.publish(*pieces) == [(0, 1), (1, 1), (2, 1)]
            asked = asyncio.ensure_future(sender.publish(*pieces, wait=WAIT))
            await until(lambda: holds(broker, 4))
            jump(WAIT)
            with pytest.raises(NoRoomInTimeError, match="is full") as told:
                await asked
            # The first of them, and all within one wait.
            assert told.value.stored == 1
            assert await take(operations) == [b"0", b"1", b"2", b"0"]

    run(main)


def test_room_that_was_asked_for_in_vain_is_soon_left_to_others(run: Any, until: Any) -> None:
    async def main() -> None:
        async with opened(max_messages=200) as (broker, operations):
            assert await publish(operations, *[b"x"] * 200) == [(0, 200)]
            vain = [asyncio.create_task(publish(operations, b"y")) for _ in range(150)]
            assert {type(each) for each in await asyncio.gather(*vain, return_exceptions=True)} == {NoRoomInTimeError}
            assert len(await take(operations)) == 200
            state = broker.queues.state(QUEUE)
            await until(lambda: not state.senders)
            assert (await figures(broker))["capacity_granted"] == 0
            assert await publish(operations, b"z") == [(200, 1)]

    run(main)


def test_an_empty_queue_whose_room_idle_senders_hold_takes_what_it_can_hold(run: Any) -> None:
    async def main() -> None:
        async with opened(max_messages=100) as (broker, operations), AsyncExitStack() as senders:
            # An idle sender has asked for all there is, and sends nothing.
            idle = Source.from_iterable([b"first"]).concat(Source.never()).to(Sender(broker.send_address, queue=QUEUE))
            running = await senders.enter_async_context(idle.run())
            assert await take(operations, wait=10.0) == [b"first"]
            stored = await publish(operations, *[b"x"] * 50)
            assert sum(count for _, count in stored) == 50
            running.cancel()

    run(main)


def test_a_message_that_no_frame_holds_is_refused_for_receivers_could_not_have_it(run: Any) -> None:
    async def main() -> None:
        async with opened(max_bytes=10**9) as (_, operations):
            overhead = batch(b"").nbytes
            with pytest.raises(FrameTooLargeError, match=f"a message of {MAX_BODY_BYTES + 1} bytes"):
                await publish(operations, b"x" * (MAX_BODY_BYTES - overhead + 1))
            assert await publish(operations, b"x" * (MAX_BODY_BYTES - overhead)) == [(0, 1)]

    run(main)


def test_room_is_asked_for_once_for_all_requests_of_a_turn(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with opened() as (_, operations):
            sender = operations.publisher("http", QUEUE)
            say, said = sender._say, []

            def noted(command: Any) -> None:
                said.append(command)
                say(command)

            monkeypatch.setattr(sender, "_say", noted)
            await asyncio.gather(*(publish(operations, b"x" * number) for number in range(1, 31)))
            asked = [each for each in said if isinstance(each, RequestCapacity)]
            assert [each.messages for each in asked] == [30]
            assert sum(isinstance(each, OfferBatch) for each in said) == 30

    run(main)


def test_who_gets_no_answer_in_time_is_told_and_the_next_is_answered(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishers, "ANSWER_SECONDS", 0.2)

    async def main() -> None:
        async with opened() as (_, operations):
            assert await publish(operations, b"a") == [(0, 1)]
            sender = operations.publisher("http", QUEUE)
            heard, kept = sender.tell, []

            def tell(reply: Any) -> None:
                (kept.append if isinstance(reply, SentMessages) else heard)(reply)

            monkeypatch.setattr(sender, "tell", tell)
            asked = [asyncio.create_task(publish(operations, payload)) for payload in (b"b", b"c")]
            for each in asked:
                with pytest.raises(RefusalError, match="has not answered in") as told:
                    await each
                assert told.value.code == "timeout"
            monkeypatch.setattr(sender, "tell", heard)
            for reply in kept:
                heard(reply)
            assert await publish(operations, b"d") == [(3, 1)]

    run(main)


def test_a_full_queue_is_waited_for_as_long_as_is_said_and_the_queue_says_why(run: Any) -> None:
    async def main() -> None:
        async with opened(max_messages=3) as (broker, operations):
            await publish(operations, b"a", b"b", b"c")
            with pytest.raises(NoRoomInTimeError, match=r"queue orders is full \(3 of 3 messages\)") as told:
                await publish(operations, b"d", wait=0.05)
            assert (told.value.code, told.value.stored) == ("queue-full", 0)
            waiting = asyncio.create_task(publish(operations, b"e", wait=30.0))
            assert await take(operations) == [b"a", b"b", b"c"]
            assert await waiting == [(3, 1)]
            assert (await figures(broker))["ready"] == 1

    run(main)


def test_more_than_a_queue_holds_is_stored_in_parts_while_somebody_takes_them(run: Any) -> None:
    payloads = [b"%d" % number for number in range(40)]

    async def main() -> None:
        async with opened(max_messages=5) as (_, operations):
            waiting = asyncio.create_task(publish(operations, *payloads, wait=30.0))
            got: list[bytes] = []
            while len(got) < len(payloads):
                got += await take(operations, wait=30.0)
            assert got == payloads
            parts = await waiting
            assert sum(count for _, count in parts) == 40
            assert len(parts) > 1

    run(main)


def test_who_gives_up_in_the_middle_is_told_how_much_is_stored(run: Any, until: Any, jump: Any) -> None:
    async def main() -> None:
        async with opened(max_messages=5) as (broker, operations):
            asked = asyncio.ensure_future(publish(operations, *[b"x"] * 12, wait=WAIT))
            await until(lambda: holds(broker, 1))
            jump(WAIT)
            with pytest.raises(NoRoomInTimeError) as told:
                await asked
            assert told.value.stored == (await figures(broker))["ready"] > 0

    run(main)


def test_who_comes_later_waits_behind_who_came_first_and_has_what_was_asked_for_in_vain(run: Any) -> None:
    async def main() -> None:
        async with opened(max_messages=1) as (_, operations):
            await publish(operations, b"a")
            for _ in range(5):
                with pytest.raises(NoRoomInTimeError):
                    await publish(operations, b"gone", wait=0.01)
            first = asyncio.create_task(publish(operations, b"b", wait=30.0))
            second = asyncio.create_task(publish(operations, b"c", wait=30.0))
            assert [await take(operations, wait=30.0) for _ in range(3)] == [[b"a"], [b"b"], [b"c"]]
            assert (await first, await second) == ([(1, 1)], [(2, 1)])

    run(main)


def test_a_queue_that_rejects_takes_all_of_a_request_or_nothing_and_the_next_ones_all_the_same(run: Any) -> None:
    async def main() -> None:
        async with opened(max_messages=3, overflow="reject") as (_, operations):
            asked = [
                asyncio.create_task(publish(operations, *[b"%d" % count] * count, wait=30.0)) for count in (2, 5, 1, 1)
            ]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert answers[0] == [(0, 2)]
            assert isinstance(answers[1], RefusalError)
            assert answers[1].code == "queue-full"
            assert answers[2] == [(2, 1)]
            assert isinstance(answers[3], RefusalError)
            assert await take(operations) == [b"2", b"2", b"1"]
            assert await publish(operations, b"z") == [(3, 1)]

    run(main)


def test_delay_and_time_to_live_are_the_queues_business(run: Any) -> None:
    async def main() -> None:
        async with opened() as (broker, operations):
            await publish(operations, b"later", delay=60.0)
            await publish(operations, b"short", ttl=0.001)
            await publish(operations, b"now")
            assert await take(operations, wait=30.0) in ([b"now"], [b"short", b"now"])
            assert (await figures(broker))["delayed"] == 1
            with pytest.raises(RefusalError):
                await publish(operations, b"never", delay=-1.0)

    run(main)


def test_a_sender_that_nobody_uses_ends(run: Any, until: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishers, "IDLE_SECONDS", 0.0)

    async def main() -> None:
        async with opened() as (broker, operations):
            first = operations.publisher("http", QUEUE)
            await first.publish(Piece(batch(b"a")))
            await until(lambda: not first._actor.is_alive())
            assert not broker._publishers._publishers
            assert await publish(operations, b"b") == [(1, 1)]

    run(main)


def test_a_sender_whose_first_request_is_refused_at_once_ends_too(
    run: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishers, "IDLE_SECONDS", 0.0)

    async def main() -> None:
        async with opened() as (broker, operations):
            sender = operations.publisher("http", QUEUE)
            with pytest.raises(FrameTooLargeError):
                await sender.publish(Piece(batch(b"x" * MAX_BODY_BYTES)))
            await until(lambda: not sender._actor.is_alive())
            assert not broker._publishers._publishers
            assert await publish(operations, b"a") == [(0, 1)]

    run(main)


def test_a_queue_that_is_deleted_and_a_broker_that_drains_answer_whoever_waits(run: Any) -> None:
    async def main() -> None:
        async with opened(max_messages=1) as (broker, operations):
            await publish(operations, b"a")
            waiting = asyncio.create_task(publish(operations, b"b", wait=30.0))
            await asyncio.sleep(0)
            await operations.command("queue.delete", {"name": QUEUE})
            with pytest.raises(RefusalError) as told:
                await waiting
            assert told.value.code == "queue-deleted"
            await operations.command("queue.create", {"name": QUEUE, "max_messages": 1})
            await publish(operations, b"a")
            waiting = asyncio.create_task(publish(operations, b"b", wait=30.0))
            await asyncio.sleep(0)
            await broker.drain(5.0)
            with pytest.raises(RefusalError, match="stopping"):
                await waiting
            with pytest.raises(RefusalError, match="stopping"):
                await publish(operations, b"c")

    run(main)


def test_who_is_cancelled_while_waiting_for_room_has_sent_nothing(run: Any) -> None:
    async def main() -> None:
        async with opened(max_messages=1) as (_, operations):
            await publish(operations, b"a")
            waiting = asyncio.create_task(publish(operations, b"b", wait=30.0))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()
            assert await take(operations) == [b"a"]
            assert await publish(operations, b"c", wait=30.0) == [(1, 1)]

    run(main)


def test_too_many_that_wait_are_refused_by_name(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishers, "MAX_WAITING", 2)

    async def main() -> None:
        async with opened(max_messages=1) as (_, operations):
            await publish(operations, b"a")
            waiting = [asyncio.create_task(publish(operations, b"b", wait=30.0)) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(LimitExceededError, match="2 requests wait to send to queue orders"):
                await publish(operations, b"c", wait=30.0)
            for each in waiting:
                each.cancel()

    run(main)


def test_publishing_takes_the_right_to_write_and_makes_a_queue_only_where_it_may(run: Any) -> None:
    async def main() -> None:
        async with opened() as (broker, _):
            reader = broker._host().operations(Principal("bob", Right(0), Grants([Grant("*", Right.READ)])))
            with pytest.raises(ForbiddenError, match="bob may not write 'orders'"):
                await publish(reader, b"a")
            with pytest.raises(Exception, match="there is no queue 'another'"):
                broker._host().operations(ANYONE).publisher("http", "another", make=False)
            assert "another" not in broker.queues

    run(main)


def test_one_request_that_the_queue_refuses_fails_alone(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.queue.operations.sending.MAX_DELAYED", 3)

    async def main() -> None:
        async with opened() as (_, operations):
            asked = [
                asyncio.create_task(publish(operations, b"%d" % number, wait=30.0, delay=60.0 if number % 2 else None))
                for number in range(16)
            ]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            refused = [number for number, each in enumerate(answers) if isinstance(each, RefusalError)]
            assert refused
            assert all(number % 2 for number in refused), "those without a delay are stored"
            got = await take(operations)
            assert got == [b"%d" % number for number in range(0, 16, 2)]
            numbers = [each[0][0] for each in answers if not isinstance(each, BaseException)]
            assert len(set(numbers)) == len(numbers)

    run(main)


def test_very_many_that_are_answered_at_once_go_on_a_few_in_a_turn(run: Any) -> None:
    async def main() -> None:
        async with opened(max_messages=10) as (_, operations):
            assert await publish(operations, *[b"x"] * 10) == [(0, 10)]
            asked = [asyncio.create_task(publish(operations, b"y", wait=30.0)) for _ in range(500)]
            deleting = asyncio.create_task(operations.command("queue.delete", {"name": QUEUE}))
            answered = 0
            while answered < len(asked):
                await asyncio.sleep(0)
                before, answered = answered, sum(each.done() for each in asked)
                assert answered <= before + 2 * WOKEN_A_TURN
            await deleting
            assert {getattr(each.exception(), "code", None) for each in asked} == {"queue-deleted"}

    run(main)


def test_many_that_a_full_queue_refuses_are_not_sent_again_behind_each_other(run: Any) -> None:
    async def main() -> None:
        async with opened(max_messages=10, overflow="reject") as (broker, operations):
            assert await publish(operations, *[b"x"] * 10) == [(0, 10)]
            answers = await asyncio.gather(*(publish(operations, b"y") for _ in range(300)), return_exceptions=True)
            assert {getattr(each, "code", None) for each in answers} == {"queue-full"}
            # Once when they came, and then one after another.
            assert (await figures(broker))["total_rejected"] <= 600
            assert len(await take(operations)) == 10
            stored = await asyncio.gather(*(publish(operations, b"z") for _ in range(10)))
            assert [first for ((first, _),) in stored] == list(range(10, 20))

    run(main)


def test_a_disk_that_is_behind_has_what_is_not_stored_refused_at_once_and_what_comes_later_stored(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_module, "PENDING_HIGH_BYTES", 5_000)
    monkeypatch.setattr(storage_module, "MAX_PENDING_BYTES", 20_000)

    async def main() -> None:
        async with opened(tmp_path) as (_, operations):
            # Messages of different times to live are a record each, and the disk has none of them when the last one comes.
            asked = [publish(operations, b"%02d" % number * 4_500, ttl=1000.0 + number) for number in range(12)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            refused = [each for each in answers if isinstance(each, BaseException)]
            assert {getattr(each, "code", None) for each in refused} == {"limit-exceeded"}
            assert {getattr(each, "stored", None) for each in refused} == {0}
            stored = [b"%02d" % number for number, each in enumerate(answers) if not isinstance(each, BaseException)]
            assert await publish(operations, b"later", wait=30.0) == [(len(stored), 1)]
            assert [payload[:2] for payload in await take(operations)] == [*stored, b"la"]

    run(main)


def test_a_broker_that_drains_says_how_much_of_a_request_is_stored(run: Any) -> None:
    async def main() -> None:
        async with opened(max_messages=10) as (broker, operations):
            waiting = asyncio.create_task(publish(operations, *[b"x"] * 50, wait=30.0))
            while not (await figures(broker))["ready"]:
                pass
            await broker.drain(5.0)
            with pytest.raises(publishers.NotAllStoredError, match="stopping") as told:
                await waiting
            there = broker.queues.read(QUEUE)
            assert there is not None
            assert told.value.stored == there.ready > 0

    run(main)


def test_a_sender_whose_asker_has_gone_ends_too(run: Any, until: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishers, "IDLE_SECONDS", 0.0)

    async def main() -> None:
        async with opened() as (broker, operations):
            asked = operations.publisher("http", QUEUE)
            sending = asyncio.create_task(asked.publish(Piece(batch(b"a")), wait=30.0))
            await asyncio.sleep(0)
            sending.cancel()
            await until(lambda: not asked._actor.is_alive())
            assert not broker._publishers._publishers

    run(main)
