"""Priorities of native senders: what is received first, what a batch is of, and what a broker is told that knows of none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import Message, MessageBatch
from streams import Sink, Source
from transport import Administration, Receiver, Sender
from transport.clients.sender_batches import MOST_BESIDE, BatchBuilder
from transport.clients.sender_session import SenderSession
from transport.errors import LocalProtocolError
from transport.wire.messages import Send
from transport.wire.timing import NO_TIMING, Timed, Timing


def elements() -> list[Any]:
    """Ten of each of three priorities, said in three ways; the sender's own is 2."""
    found: list[Any] = []
    for number in range(10):
        payload = b"%d" % number
        found += [
            Message(b"low " + payload, priority=0),
            b"middle " + payload,
            Timed(b"high " + payload, priority=200),
        ]
    return found


EXPECTED = [b"%b %d" % (level, number) for level in (b"high", b"middle", b"low") for number in range(10)]


async def received(broker: Any, queue: str, count: int) -> list[bytes]:
    receiver = Receiver(broker.receive_address, queue=queue)
    return [bytes(each.payload) for each in await receiver.take(count).to(Sink.collect()).run()]


@pytest.mark.parametrize("journal", [True, False])
def test_what_has_a_higher_priority_is_received_first_and_within_one_in_order(
    run: Any, serve: Any, tmp_path: Any, journal: bool
) -> None:
    async def main() -> None:
        async with serve(**({"directory": tmp_path / "data"} if journal else {})) as broker:
            async with Administration(broker.send_address) as administration:
                await administration.create_queue("jobs", max_priority=5)
            summary = (
                await Source.from_iterable(elements()).to(Sender(broker.send_address, queue="jobs", priority=2)).run()
            )
            assert summary.messages == 30
            assert await received(broker, "jobs", 30) == EXPECTED
            async with Administration(broker.send_address) as administration:
                assert (await administration.queue("jobs"))["max_priority"] == 5

    run(main)


def test_a_queue_without_levels_has_them_in_the_order_in_which_they_were_sent(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await Source.from_iterable(elements()).to(Sender(broker.send_address, queue="plain", priority=2)).run()
            found = await received(broker, "plain", 30)
            assert found[:3] == [b"low 0", b"middle 0", b"high 0"]
            assert sorted(found) == sorted(EXPECTED)
            assert [each for each in found if each.startswith(b"low")] == EXPECTED[20:]

    run(main)


def test_an_exchange_has_each_queue_keep_its_own_levels(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.declare_exchange("all", "fanout")
            for queue, levels in (("levels", 5), ("plain", 0)):
                await administration.create_queue(queue, max_priority=levels)
                await administration.bind("all", queue)
            await Source.from_iterable(elements()).to(Sender(broker.send_address, exchange="all", priority=2)).run()
            assert await received(broker, "levels", 30) == EXPECTED
            assert (await received(broker, "plain", 30))[:3] == [b"low 0", b"middle 0", b"high 0"]

    run(main)


def test_dead_letters_and_moved_messages_keep_their_level(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("lost", max_priority=5)
            await administration.create_queue("jobs", max_priority=5, max_receives=1, dead_letter_queue="lost")
            await Source.from_iterable(elements()).to(Sender(broker.send_address, queue="jobs", priority=2)).run()
            receiver = Receiver(broker.receive_address, queue="jobs", max_in_flight=30)
            taken = 0
            async for delivery in receiver:
                delivery.dead_letter("no")
                taken += 1
                if taken == 30:
                    break
            await administration.create_queue("again", max_priority=5)
            moved = 0
            async with asyncio.timeout(10):
                while moved < 30:
                    # What is still on its way there is moved by the next.
                    moved += await administration.move("lost", "again")
            assert await received(broker, "again", 30) == EXPECTED

    run(main)


def test_a_broker_that_says_nothing_of_priorities_is_told_none() -> None:
    session = SenderSession(timing=Timing(priority=7))
    session.connected(None)
    session.granted(10, 10_000)
    session.offer(Timed(b"x", priority=9))
    (send,) = session.sends(complete=True)
    assert send.properties is None
    knows = SenderSession(timing=Timing(priority=7))
    knows.takes_priorities(255)
    knows.connected(None)
    knows.granted(10, 10_000)
    knows.offer(Timed(b"x", delay=1.0))
    (send,) = knows.sends(complete=True)
    assert (isinstance(send, Send), send.properties) == (True, {"priority": 7, "delay_ms": 1000})


@given(st.lists(st.tuples(st.sampled_from([None, 0, 3, 9]), st.sampled_from([None, 1.0])), max_size=60), st.booleans())
def test_batches_are_of_one_priority_each_in_order_and_as_few_as_can_be(
    said: list[tuple[int | None, float | None]], apart: bool
) -> None:
    closed: list[tuple[MessageBatch, Timing]] = []
    builder = BatchBuilder(1000, 1 << 20, NO_TIMING, lambda batch, timing: closed.append((batch, timing)))
    builder.max_priority = 255 if apart else 0
    for number, (priority, ttl) in enumerate(said):
        builder.offer(Timed(Message(b"%d" % number, priority=priority), ttl=ttl))
        assert len(builder) + sum(len(batch) for batch, _ in closed) == number + 1
    builder.seal()
    assert len(builder) == 0
    # What says no priority has the lowest.
    found = [
        (int(bytes(payload)), timing.priority or 0, timing.ttl)
        for batch, timing in closed
        for payload in batch.payloads
    ]
    meant = [(priority or 0, ttl) for priority, ttl in said]
    assert sorted(found) == [(number, *way) for number, way in enumerate(meant)]
    for way in set(meant):
        mine = [number for number, *rest in found if tuple(rest) == way]
        assert mine == sorted(mine)
    if not apart:
        assert [number for number, _, _ in found] == list(range(len(said)))
    elif len({ttl for _, ttl in said}) == 1:
        assert len(closed) == len(set(meant))


def test_what_is_of_one_level_keeps_its_order_however_its_priority_is_said() -> None:
    closed: list[MessageBatch] = []
    builder = BatchBuilder(1000, 1 << 20, NO_TIMING, lambda batch, _timing: closed.append(batch))
    builder.max_priority = 5
    for number, priority in enumerate([None, 9, 0, 5, None, 200, 0, 6]):
        builder.offer(Message(b"%d" % number, priority=priority))
    builder.seal()
    assert [[int(bytes(payload)) for payload in batch.payloads] for batch in closed] == [[1, 3, 5, 7], [0, 2, 4, 6]]


def test_what_has_another_priority_does_not_wait_for_ever_behind_full_batches() -> None:
    closed: list[tuple[int | None, int]] = []
    builder = BatchBuilder(10, 1 << 20, NO_TIMING, lambda batch, timing: closed.append((timing.priority, len(batch))))
    builder.max_priority = 5
    builder.offer(Message(b"low", priority=1))
    for _ in range(MOST_BESIDE * 10):
        assert (1, 1) not in closed
        builder.offer(Message(b"high", priority=5))
    assert closed == [(5, 10)] * MOST_BESIDE + [(1, 1)]


def test_open_batches_of_all_priorities_have_a_bound_and_are_measured() -> None:
    session = SenderSession(max_batch_messages=1000, max_batch_bytes=1000, timing=NO_TIMING)
    session.takes_priorities(255)
    measured = most = 0
    for number in range(1_000):
        session.offer(Message(bytes(100), priority=number % 256))
        messages, size = session.take_measure()
        assert messages == 1
        assert size >= 100
        measured += size
        most = max(most, session._builder.all_bytes)
    assert measured >= 100_000
    assert most <= (MOST_BESIDE + 1) * 1000


@pytest.mark.parametrize("priority", [-1, 256, "high", 1.5, True])
def test_a_priority_that_cannot_be_is_refused(priority: Any) -> None:
    for make in (lambda: Timed(b"x", priority=priority), lambda: Sender(queue="q", priority=priority)):
        with pytest.raises(LocalProtocolError, match=r"priority is .*whole numbers from 0 to 255 are possible"):
            make()
    builder = BatchBuilder(10, 1000, NO_TIMING, lambda _batch, _timing: None)
    with pytest.raises(LocalProtocolError, match="priority is"):
        builder.offer(Message(b"x", priority=priority))
