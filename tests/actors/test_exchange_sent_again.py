"""What is sent to an exchange a second time on one connection is stored once, and answered as the first was: as by a queue."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from actors.batch import Message, MessageBatch
from actors.queue.state.unanswered import Unanswered
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.settings import QueueSettings
from streams.testkit import run_in_virtual_time
from tests.actors.publishing_bench import LARGE, batch_of, client, defined, received, receiver
from tests.actors.stored_queues import StoredQueues, durable, turns
from tests.actors.test_exchange_turns import all_stored, slow


async def bench_of(folder: Path | None, **queues: QueueSettings) -> StoredQueues:
    """Queues, each bound to the topic exchange ``x`` by its name."""
    bench = StoredQueues(folder)
    decide = bench.queues.exchanges.exchanges.decide
    await defined(bench, decide.declare("x", "topic"))
    for name, settings in queues.items():
        bench.queues.declare(name, settings)
        await defined(bench, decide.bind("x", name, f"{name}.#"))
        await defined(bench, decide.bind("x", name, "all"))
    return bench


def numbered(first: int, stop: int) -> MessageBatch:
    return batch_of(*[b"%d" % number for number in range(first, stop)])


def keyed(key: str, *payloads: bytes) -> MessageBatch:
    return MessageBatch.from_messages([Message(payload, key.encode()) for payload in payloads])


PIECES = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 5), st.booleans()), min_size=1, max_size=12)
"""Batches: how far each begins before the number that has to come, how many messages it has, and whether a turn follows it."""


@given(PIECES, st.integers(0, 3), st.sampled_from([None, "p"]))
def test_whatever_comes_again_an_exchange_stores_and_answers_what_a_queue_does(
    pieces: list[tuple[int, int, bool]], begins: int, producer: str | None
) -> None:
    async def main() -> None:
        bench = await bench_of(None, q=QueueSettings())
        bench.queues.get_or_create("plain")
        publisher = await client(bench, "x", "all", producer)
        plain, told = await bench.connect(
            bench.queues.get("plain"),
            lambda ref: commands.AttachSender(producer, connection=ref),
            lambda ref: commands.RequestCapacity(1_000, LARGE, ref),
        )
        expected = begins
        for before, count, turn in pieces:
            first = max(0, expected - before)
            batch = numbered(first, first + count)
            publisher.send(batch, sequence=first)
            bench.queues.get("plain").tell(commands.OfferBatch(first, batch, connection=plain))
            expected = max(expected, first + count)
            if turn:
                await turns()
        await turns()
        logs = bench.queues.logs()
        answers = [each.up_to for each in told if isinstance(each, replies.SentMessages)]
        assert publisher.errors == []
        assert publisher.confirmed == answers
        assert len(answers) == len(pieces)
        found: dict[str, Any] = {name: received((await receiver(bench, name))[1]) for name in ("q", "plain")}
        assert found["q"] == found["plain"]
        assert logs["q"].last_number("p") == logs["plain"].last_number("p")
        await bench.close()

    run_in_virtual_time(main())


@durable
async def test_what_comes_again_is_confirmed_no_sooner_than_what_came_first_is_durable(folder: Path) -> None:
    bench = await bench_of(folder, q=QueueSettings())
    publisher = await client(bench, "x", "all", "p")
    publisher.send(batch_of(b"1"))
    publisher.send(batch_of(b"1"), sequence=0)
    await turns()
    publisher.send(batch_of(b"1"), sequence=0)
    publisher.send(batch_of(b"2"))
    publisher.ref.tell(commands.CaughtUp(True, publisher.ref))
    await turns()
    assert (publisher.confirmed, publisher.marks) == ([], 0)
    await bench.commit()
    assert (publisher.confirmed, publisher.marks) == ([1, 1, 1, 2], 1)
    assert bench.queues.logs()["q"].stored_messages == 2
    await bench.close()


@durable
async def test_what_comes_again_has_its_room_back_when_it_is_answered(folder: Path) -> None:
    bench = await bench_of(folder, q=QueueSettings())
    publisher = await client(bench, "x", "all")
    publisher.send(numbered(0, 1_000))
    await bench.settled()
    for _ in range(20):
        publisher.send(numbered(0, 1_000), sequence=0)
        await bench.settled()
    assert publisher.errors == []
    assert publisher.confirmed == [1_000] * 21
    assert bench.queues.logs()["q"].stored_messages == 1_000
    await bench.close()


@durable
async def test_what_comes_again_behind_its_own_rejection_is_rejected_too_and_not_taken_for_stored(folder: Path) -> None:
    bench = await bench_of(folder, small=QueueSettings(max_messages=1, overflow="reject"))
    publisher = await client(bench, "x", None, "p")
    publisher.send(keyed("small", b"0"))
    publisher.send(keyed("small", b"1"))
    publisher.send(keyed("small", b"1"), sequence=1)
    publisher.send(keyed("small", b"0"), sequence=0)
    await bench.settled()
    assert publisher.confirmed == [1, 1], "the first, and the first again"
    assert [up_to for up_to, _ in publisher.rejected] == [2, 2]
    assert bench.queues.logs()["small"].stored_messages == 1
    await bench.close()


@durable
async def test_a_batch_of_what_is_stored_and_what_was_rejected_has_the_rejected_part_judged_anew(folder: Path) -> None:
    bench = await bench_of(folder, small=QueueSettings(max_messages=1, overflow="reject"), large=QueueSettings())
    publisher = await client(bench, "x", None, "p")
    publisher.send(keyed("small", b"0"))
    publisher.send(keyed("small", b"1"))
    await bench.settled()
    publisher.send(keyed("large", b"0", b"other", b"2"), sequence=0)
    publisher.send(keyed("large", b"3"))
    await bench.settled()
    assert publisher.confirmed == [1, 3, 4]
    assert received((await receiver(bench, "large"))[1]) == [b"other", b"2", b"3"]
    await bench.close()


SENT = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9), st.booleans()), max_size=30)


@given(SENT)
def test_what_is_unanswered_is_counted_to_the_end_and_each_is_answered_once_in_order(
    sent: list[tuple[int, int, bool]],
) -> None:
    """Each of the batches is new, or the same as one before; whoever stores answers the new ones."""
    unanswered = Unanswered()
    expected, batches = 0, []
    for count, before, again in sent:
        first = max(0, expected - before - count) if again else expected
        known = min(max(0, expected - first), count)
        unanswered.add(first, count, count * 10, known)
        batches.append((first + count, known == count))
        expected = max(expected, first + count)
    assert unanswered.messages * 10 == unanswered.bytes == sum(count * 10 for count, _, _ in sent)
    answered: list[int] = [up_to for up_to, _ in unanswered.known()]
    for up_to, known in batches:
        if not known:
            unanswered.answered(rejected=False)
            answered.append(up_to)
            answered += [number for number, _ in unanswered.known()]
    assert answered == [up_to for up_to, _ in batches]
    assert (len(unanswered), unanswered.messages, unanswered.bytes) == (0, 0, 0)


@durable
async def test_behind_what_is_rejected_nothing_is_stored_that_was_sent_before_it_comes_again(folder: Path) -> None:
    bench = slow(await bench_of(folder, q=QueueSettings(max_messages=1, overflow="reject")))
    publisher = await client(bench, "x", "all", "p")
    publisher.send(batch_of(b"full"))
    await bench.settled()
    publisher.send(batch_of(b"1"))
    publisher.send(batch_of(b"2"))
    publisher.send(keyed("nowhere", b"3"))
    for _ in range(20):
        if not publisher.rejected:
            await asyncio.sleep(0)
    assert len(publisher.rejected) == 1
    # It does not wait for the answers of the others, as it should.
    bench.queues.get("q").tell(bench.queues.alter("q", {"max_messages": 100}))
    publisher.send(batch_of(b"1"), sequence=1)
    publisher.send(batch_of(b"2"), sequence=2)
    await all_stored(bench)
    await bench.settled()
    assert [up_to for up_to, _ in publisher.rejected] == [2, 3, 4]
    assert publisher.confirmed == [1, 2, 3]
    _, told = await receiver(bench, "q")
    await bench.settled()
    assert received(told) == [b"full", b"1", b"2"]
    await bench.close()


@durable
async def test_what_no_queue_takes_is_rejected_behind_what_a_queue_rejects_in_the_same_turn(folder: Path) -> None:
    bench = await bench_of(folder, q=QueueSettings(max_messages=1, overflow="reject"))
    publisher = await client(bench, "x", "all")
    publisher.send(batch_of(b"full"))
    await bench.settled()
    publisher.send(batch_of(b"1"))
    publisher.send(keyed("nowhere", b"2"))
    await bench.settled()
    assert [up_to for up_to, _ in publisher.rejected] == [2, 3]
    publisher.send(keyed("nowhere", b"1"), sequence=1)
    await bench.settled()
    assert publisher.confirmed == [1, 2]
    await bench.close()


@durable
async def test_the_first_of_a_senders_batches_that_are_rejected_together_is_the_one_that_has_to_come_again(
    folder: Path,
) -> None:
    bench = await bench_of(folder, q=QueueSettings(max_messages=10))
    publisher = await client(bench, "x", "q")
    publisher.send(batch_of(b"full"))
    await bench.settled()
    # By the time that both are stored, together, their queue rejects.
    with mock.patch.object(bench.queues.distributor, "rejects", return_value=False):
        bench.queues.get("q").tell(bench.queues.alter("q", {"overflow": "reject", "max_messages": 1}))
        publisher.send(batch_of(b"1"))
        publisher.send(batch_of(b"2"))
        await bench.settled()
    assert [up_to for up_to, _ in publisher.rejected] == [2, 3]
    bench.queues.get("q").tell(bench.queues.alter("q", {"max_messages": 10}))
    await bench.settled()
    publisher.send(batch_of(b"1"), sequence=1)
    await bench.settled()
    assert publisher.confirmed == [1, 2]
    await bench.close()
