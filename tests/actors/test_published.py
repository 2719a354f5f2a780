"""What was published to an exchange says so wherever it goes: which exchange, and with which routing key."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.batch import Message, MessageBatch
from actors.errors import StorageError
from actors.queue.operations.peeking import peek
from actors.queue.queue_state import QueueState
from actors.queue.state.entries import stored_entry
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary import commands, moves, replies
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesAdded, MessagesMoved
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey
from actors.runtime.loop_future import ask
from actors.storage import codec, verify_storage
from actors.storage.together import encode_all
from journal import Journal
from journal.format import SEGMENT_HEADER_BYTES, SEVERAL_VERSION, VERSION, unpack_segment_header
from streams.testkit import run_in_virtual_time
from tests.actors.publishing_bench import LARGE, batch_of, came, client, defined, receiver
from tests.actors.storage_lives import DATA, Life, in_loop
from tests.actors.stored_queues import StoredQueues, durable, turns
from tests.actors.taking import TakerState
from tests.examples_tried import tried


def keyed(*keys: bytes) -> MessageBatch:
    return MessageBatch.from_messages([Message(key + b"!", key) for key in keys])


async def bound(bench: StoredQueues, *queues: str) -> None:
    """A topic exchange that gives everything to these queues."""
    decide = bench.queues.exchanges.exchanges.decide
    await defined(bench, decide.declare("x", "topic"))
    for queue in queues:
        bench.queues.get_or_create(queue)
        await defined(bench, decide.bind("x", queue, "#"))


async def published_and_received(bench: StoredQueues, again: Any) -> None:
    await bound(bench, "a", "b")
    plain = await bench.connect(
        bench.queues.get("a"),
        lambda ref: commands.AttachSender(None, connection=ref),
        lambda ref: commands.RequestCapacity(10, LARGE, ref),
    )
    bench.queues.get("a").tell(commands.OfferBatch(0, batch_of(b"plain"), connection=plain[0]))
    await bench.settled() if bench._storage else await turns()
    one, two = await client(bench, "x", "k.one"), await client(bench, "x", "k.two")
    own, default = await client(bench, "x", None), await client(bench, "", "a")
    for publishers in ([one, one], [one, two], [own, two], [default]):
        for publisher in publishers:
            publisher.send(keyed(b"k.own") if publisher is own else batch_of(b"m"))
        await turns()
    if bench._storage:
        await bench.settled()
        assert [log.stored_batches for log in bench.queues.logs().values()] == [5, 3]
        bench = await again(bench)
    (_, a), (_, b) = [await receiver(bench, name) for name in "ab"]
    published = [(b"m", "x", "k.one"), (b"m", "x", "k.one"), (b"m", "x", "k.one"), (b"m", "x", "k.two")]
    published += [(b"k.own!", "x", "k.own"), (b"m", "x", "k.two")]
    assert came(a) == [(b"plain", None, None), *published, (b"m", "", "a")]
    assert came(b) == published
    await bench.close()


def test_receivers_are_told_of_each_message_where_and_with_which_key_it_was_published() -> None:
    run_in_virtual_time(published_and_received(StoredQueues(None), None))


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("cache_bytes", [0, 10**6])
def test_queues_on_the_disk_tell_the_same_whether_it_is_in_memory_still_or_read_again(
    tmp_path: Path, restarted: bool, cache_bytes: int
) -> None:
    async def again(bench: StoredQueues) -> StoredQueues:
        if not restarted:
            return bench
        await bench.die()
        return StoredQueues(tmp_path, cache_bytes=cache_bytes)

    async def main() -> None:
        await published_and_received(StoredQueues(tmp_path, cache_bytes=cache_bytes), again)

    run_in_virtual_time(main())


@durable
async def test_a_record_that_several_queues_share_says_it_in_each_after_one_has_read_it(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, *"abc")
    before = bench.storage._journal.next_lsn
    (await client(bench, "x", "k")).send(batch_of(b"m"))
    await turns()
    assert bench.storage._journal.next_lsn == before + 1
    await bench.settled()
    await bench.die()
    bench = StoredQueues(folder)
    for name in "abc":
        _, told = await receiver(bench, name)
        assert came(told) == [(b"m", "x", "k")]
    assert bench.storage._cache.shares
    await bench.close()


@durable
async def test_what_is_moved_or_is_a_dead_letter_says_still_where_it_was_published(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("a", QueueSettings(max_receives=1))
    await bound(bench, "a")
    one, two = await client(bench, "x", "k.one"), await client(bench, "x", "k.two")
    one.send(batch_of(b"1", b"2"))
    two.send(batch_of(b"3"))
    await bench.settled()
    ref, told = await receiver(bench, "a", 1)
    (first,) = [each for each in told if isinstance(each, replies.ReceivedMessages)]
    bench.queues.get("a").tell(commands.Rejected(((first.first, 1),), 0.0, connection=ref))
    await bench.settled()
    await ref.stop(block=False)
    moving = asyncio.ensure_future(
        _awaited(ask(bench.queues.get("a"), moves.MoveMessages(bench.queues.get_or_create("to"), b"storequ1")))
    )
    await bench.settled()
    await bench.settled()
    assert (await moving).messages == 2
    await bench.die()
    bench = StoredQueues(folder)
    _, dead = await receiver(bench, "a.dead")
    _, moved = await receiver(bench, "to")
    assert came(dead) == [(b"1", "x", "k.one")]
    assert came(moved) == [(b"2", "x", "k.one"), (b"3", "x", "k.two")]
    await bench.close()


async def _awaited(future: Any) -> Any:
    return await future


def test_a_queue_without_room_for_what_the_record_says_of_exchange_and_key_takes_nothing_that_is_moved() -> None:
    async def main() -> None:
        found = []
        for published in (None, Published("x" * 255, "k" * 255)):
            bench = StoredQueues(None)
            queue = QueueState("q", 1)
            # Room for the message and the usual facts, and for little more.
            size = QueueSettings(max_bytes=queue.batch_overhead + 96 + 200)
            target = QueueState("to", 2, settings=size)
            parcel = moves.Parcel(1, 0, batch_of(b"m"), published)
            target.execute(moves.StoreParcels("source", (parcel,)), 0.0, 0)
            found.append(parcel.stored)
            await bench.close()
        assert found == [1, None]

    run_in_virtual_time(main())


# --- in a queue's state


PUBLISHED = Published("x", "k")


def queue_with(*published: Published | None) -> TakerState:
    """A queue with a message of each of these."""
    log = QueueLog()
    for number, where in enumerate(published):
        log.apply(MessagesAdded(number, batch_of(b"%d" % number), 1, published=where), number + 1)
    return TakerState("q", 1, log=log)


def test_who_takes_peeks_browses_or_fetches_is_told_it_too() -> None:
    other = Published("", "q")
    queue = queue_with(PUBLISHED, other, None)
    queue.attach_taker()
    assert [each.published for each in queue.browse(0, 3).ranges] == [PUBLISHED, other, None]
    found = peek(queue, moves.PeekMessages(10, 0), 0)
    assert [each.messages.published for each in found.ranges] == [PUBLISHED, other, None]
    queue.open_subscription("s", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
    queue.reserve("s", 1, 0, messages=1, size=LARGE, wait=0.0, below=None, now=0.0)
    queue.take_effects()
    assert [each.published for each in queue.fetch("s", 0, 1)] == [PUBLISHED]
    queue.take(1, 2)
    (taken,) = queue.answers()
    assert [each.published for each in taken.ranges] == [other, None]


def test_both_halves_of_what_was_fetched_were_published_where_all_of_it_was() -> None:
    whole = replies.FetchedMessages(0, 0, batch_of(b"1", b"2"), 1, 1, False, PUBLISHED)
    assert [half.published for half in whole.split(1)] == [PUBLISHED, PUBLISHED]


def test_entries_that_differ_in_it_are_not_equal() -> None:
    one, same, other = (queue_with(where).log for where in (PUBLISHED, PUBLISHED, None))
    assert one == same
    assert one != other


# --- on the disk


def test_the_record_of_what_was_sent_to_a_queue_is_the_record_that_it_always_was() -> None:
    event = MessagesAdded(5, batch_of(b"plain"), 1_000_000, (("p", 7),))
    body = b"\0\0\0\0\5\0\0\0plain"
    header = bytes.fromhex("99ce000f424000c005c2c0c09192a17007c0")
    assert b"".join(map(bytes, codec.encode_added(event))) == len(header).to_bytes(2, "little") + header + body


def test_where_it_was_published_stands_behind_all_else_that_a_record_says() -> None:
    event = MessagesAdded(5, batch_of(b"x"), 1_000_000, published=Published("x", "k"))
    header = bytes(codec.encode_added(event)[0])[2:]
    assert msgpack.unpackb(header) == [1_000_000, 0, None, 1, False, None, None, [], None, None, [], ["x", "k"]]


def test_a_record_that_says_more_than_is_known_is_refused_with_the_reason() -> None:
    event = MessagesAdded(5, batch_of(b"x"), 1_000_000, published=Published("x", "k"))
    fields = [*msgpack.unpackb(bytes(codec.encode_added(event)[0])[2:]), "more"]
    header = msgpack.packb(fields)
    payload = len(header).to_bytes(2, "little") + header + b"".join(map(bytes, event.batch.buffers()))
    with pytest.raises(StorageError, match=r"says more than this program knows: .* written by a newer version"):
        codec.decode_added(5, 1, memoryview(payload))


def segment_versions(disk: Any) -> list[int]:
    found = []
    for name in sorted(disk.names(DATA)):
        if name.endswith(".segment") and name[0].isdigit():
            file = disk.open(DATA / name)
            found.append(unpack_segment_header(disk.read(file, SEGMENT_HEADER_BYTES, 0)).version)
            disk.close(file)
    return found


@pytest.mark.parametrize("letter", [False, True])
@in_loop
def test_a_segment_says_by_its_version_that_older_programs_do_not_know_all_of_it(letter: bool) -> None:
    life = Life()
    life.storage.record_all({0: life.added(0, b"plain")})
    life.storage.record_all({1: life.added(1, b"letter"), 0: MessagesMoved(((0, 1),))})
    life.run()
    assert segment_versions(life.disk) == [VERSION], "what is sent to queues is as it was"
    events: dict[int, Any] = {1: life.added(1, b"published", published=PUBLISHED)}
    if letter:
        events[0] = MessagesMoved(((0, 1),))
    assert encode_all(events, None).kind == (codec.ADDED if letter else codec.TOGETHER)
    life.storage.record_all(events)
    life.run()
    assert segment_versions(life.disk) == [VERSION, SEVERAL_VERSION]
    life.storage.record_all({2: life.added(2, b"published", published=PUBLISHED)})
    life.run()
    assert segment_versions(life.disk) == [VERSION, SEVERAL_VERSION], "the second begins no other segment"
    life = life.closed()
    assert [life.held(number) for number in range(3)] == [[], [b"letter", b"published"], [b"published"]]


WHERE = st.none() | st.builds(Published, st.sampled_from(["", "x", "y" * 255]), st.sampled_from(["", "k", "l" * 255]))
STEPS = st.lists(
    st.tuples(
        st.sets(st.integers(0, 2), min_size=1), WHERE, st.booleans(), st.sampled_from(["", "run", "kill", "check"])
    ),
    max_size=40,
)


@settings(max_examples=tried(60), deadline=None)
@given(STEPS, st.data())
def test_through_kills_combination_and_starts_each_message_says_where_it_was_published(
    steps: list[tuple[set[int], Published | None, bool, str]], data: st.DataObject
) -> None:
    async def main() -> None:
        options: dict[str, Any] = {"segment_bytes": 4096, "reserve_bytes": 0}
        life = Life(**options)
        model: list[dict[int, Published | None]] = [{}, {}, {}]
        for number, (queues, where, staged, then) in enumerate(steps):
            batch = MessageBatch.from_payloads([b"%d" % number + bytes(300)] * 2)
            more: dict[str, Any] = {"temporary": (("t", number),)} if staged else {}
            events: dict[int, Any] = {}
            for n in queues:
                first = life.logs[n].next_sequence
                events[n] = MessagesAdded(first, batch, 1, published=where, **more)
                model[n] |= {first: where, first + 1: where}
            life.storage.record_all(events)
            if number % 3 == 2:
                n = data.draw(st.integers(0, 2))
                gone = data.draw(st.sets(st.sampled_from(sorted(model[n])), max_size=8)) if model[n] else set()
                for sequence in gone:
                    life.record(n, MessagesAcknowledged(((sequence, sequence + 1),)))
                    del model[n][sequence]
            if then:
                life.storage._gathered.write()
                life.run()
            if then == "check":
                life.checkpoint()
            if then == "kill":
                life = life.killed(**options)
        life.storage._gathered.write()
        life.run()
        for run in (life, life.closed()):
            for n, expected in enumerate(model):
                table = run.logs[n].table
                assert {at: stored_entry(table, at).read().published for at in expected} == expected
        run.storage.close()
        assert verify_storage(DATA, run.disk) == []
        assert Journal.open(DATA, files=run.disk).next_lsn

    run_in_virtual_time(main())


def test_a_stage_that_is_published_says_it_when_its_transaction_is_committed() -> None:
    event = MessagesAdded(0, batch_of(b"x"), 1, stage=StageKey("w", 1, "s"), published=PUBLISHED)
    payload = memoryview(b"".join(map(bytes, codec.encode_added(event))))
    assert codec.decode_added(0, 1, payload) == event
