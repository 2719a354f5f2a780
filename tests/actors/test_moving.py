"""Messages that somebody moves from one queue to another: what goes, what stays, and that each is in one of the two at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.batch import Message, MessageBatch
from actors.errors import QueueGoneError
from actors.queue.operations.moving import settle_all, store_parcels, take_parcels, with_ids
from actors.queue.operations.peeking import peek
from actors.queue.queue_actor import QueueActor
from actors.queue.queue_state import QueueState
from actors.queue.vocabulary import commands, moves, replies
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesAdded, MessagesMoved
from actors.queue.vocabulary.moves import MessagesHandedOver, NoRoomError, PausedError, StoreParcels
from actors.queue.vocabulary.settings import ENTRY_OVERHEAD_BYTES, REJECT, QueueSettings
from actors.runtime.loop_future import ask
from actors.storage import codec
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.stored_queues import Connection, Ref, StoredQueues, durable, turns
from tests.examples_tried import tried

PREFIX = b"storequ1"
LARGE = 10**9
SOURCE: Any = "the source"


class Bench(StoredQueues):
    """Queues of which messages are moved."""

    async def send(self, name: str, *batches: MessageBatch, **timing: float) -> Ref:
        connection: Ref = Connection.start([])
        queue = self.queues.get_or_create(name)
        queue.tell(commands.AttachSender(None, connection=connection))
        queue.tell(commands.RequestCapacity(sum(map(len, batches)), 10**6, connection=connection))
        sequence = 0
        for batch in batches:
            queue.tell(
                commands.OfferBatch(sequence, batch, timing.get("delay"), timing.get("ttl"), connection=connection)
            )
            sequence += len(batch)
        await self.settled()
        await connection.stop(block=False)
        await self.settled()
        return connection

    async def receiver(self, name: str, messages: int) -> tuple[Ref, list[Any]]:
        connection, told = await self.connect(
            self.queues.get_or_create(name),
            commands.AttachReceiver,
            lambda ref: commands.DemandSignalled(messages, LARGE, connection=ref),
        )
        await self.settled()
        return connection, told

    def begin(self, source: str, target: str, count: int | None = None, below: int | None = None) -> Any:
        to = self.queues.get_or_create(target)
        return ask(self.queues.get(source), moves.MoveMessages(to, PREFIX, count, below))

    async def move(self, source: str, target: str, count: int | None = None) -> MessagesHandedOver:
        answer = asyncio.ensure_future(_awaited(self.begin(source, target, count)))
        await self.settled()
        moved: MessagesHandedOver = await answer
        return moved

    async def statistics(self, name: str) -> replies.QueueStatistics:
        await self.settled()
        found: replies.QueueStatistics = await ask(self.queues.get(name), commands.GetStatistics())
        return found

    async def stored(self, name: str) -> list[bytes]:
        await self.settled()
        found = await ask(self.queues.get(name), moves.PeekMessages(10_000, 0))
        return [payload for each in found.ranges for payload in each.messages.batch.payloads.tolist()]


async def _awaited(future: Any) -> Any:
    return await future


def payloads(*given: bytes) -> MessageBatch:
    return MessageBatch.from_payloads(given)


Test = Callable[[Bench], Coroutine[Any, Any, None]]


def both(settings_: QueueSettings | None = None) -> Callable[[Test], Any]:
    """Run a test with queues in memory, and with queues on the disk."""

    def decorate(test: Test) -> Any:
        @pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
        def run(tmp_path: Path, on_disk: bool) -> None:
            async def main() -> None:
                bench = Bench(tmp_path / "data" if on_disk else None, settings_)
                try:
                    await test(bench)
                finally:
                    await bench.close()

            run_in_virtual_time(main())

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


@both()
async def test_messages_go_oldest_first_with_ids_keys_and_headers_and_are_new_there(bench: Bench) -> None:
    own = Message(b"b", b"key", {"name": "value"}, b"i" * 16)
    await bench.send("a", payloads(b"a", b"z"), MessageBatch.from_messages([own]))
    moved = await bench.move("a", "b")
    assert (moved.messages, moved.more, moved.refusal) == (3, False, None)
    _, told = await bench.receiver("b", 10)
    found = [
        (each.batch.messages(), each.delivery_count) for each in told if isinstance(each, replies.ReceivedMessages)
    ]
    messages = [message for batch, _ in found for message in batch]
    assert [message.payload for message in messages] == [b"a", b"z", b"b"]
    assert [message.id for message in messages] == [PREFIX + bytes(8), PREFIX + bytes(7) + b"\1", b"i" * 16]
    assert messages[-1] == own
    assert {deliveries for _, deliveries in found} == {1}
    source = await bench.statistics("a")
    assert (source.stored_messages, source.ready, source.leaving, source.total_moved) == (0, 0, 0, 3)
    assert source.total_dead_lettered == 0


@both()
async def test_what_is_held_delayed_or_staged_stays(bench: Bench) -> None:
    await bench.send("a", payloads(b"held", b"ready"))
    await bench.send("a", payloads(b"late"), delay=60.0)
    await bench.receiver("a", 1)
    moved = await bench.move("a", "b")
    assert moved.messages == 1
    assert await bench.stored("a") == [b"held", b"late"]
    assert await bench.stored("b") == [b"ready"]


@both()
async def test_of_a_batch_only_as_many_go_as_are_asked_for(bench: Bench) -> None:
    await bench.send("a", payloads(b"1", b"2", b"3"))
    assert (await bench.move("a", "b", 2)).messages == 2
    assert await bench.stored("a") == [b"3"]
    assert await bench.stored("b") == [b"1", b"2"]


@both(QueueSettings(max_messages=5))
async def test_a_queue_is_filled_to_its_limit_and_not_beyond_and_the_rest_is_back_in_its_place(bench: Bench) -> None:
    await bench.send("b", payloads(b"there", b"too"))
    await bench.send("a", payloads(*(b"%d" % number for number in range(5))))
    moved = await bench.move("a", "b")
    assert (moved.messages, moved.more) == (3, True)
    assert isinstance(moved.refusal, NoRoomError)
    assert str(moved.refusal) == "queue 'b' has room for 0 messages: 5 of max_messages 5 are stored"
    assert await bench.stored("a") == [b"3", b"4"]
    assert await bench.stored("b") == [b"there", b"too", b"0", b"1", b"2"]
    again = await bench.move("a", "b")
    assert (again.messages, type(again.refusal)) == (0, NoRoomError)
    assert (await bench.statistics("a")).ready == 2


@both(QueueSettings(max_messages=5))
async def test_nothing_is_delivered_ahead_of_what_a_full_queue_refuses(bench: Bench) -> None:
    await bench.send("b", payloads(*(b"%d" % number for number in range(5))))
    await bench.send("a", payloads(b"1", b"2", b"3", b"4"))
    receiver, told = await bench.receiver("a", 0)
    answer = asyncio.ensure_future(_awaited(bench.begin("a", "b", count=2)))
    # Behind the move in the queue's inbox: it is asked while the first two are under way.
    bench.queues.get("a").tell(commands.DemandSignalled(10, LARGE, connection=receiver))
    await bench.settled()
    moved = await answer
    assert (moved.messages, type(moved.refusal)) == (0, NoRoomError)
    came = [each.batch for each in told if isinstance(each, replies.ReceivedMessages)]
    assert [payload for batch in came for payload in batch.payloads.tolist()] == [b"1", b"2", b"3", b"4"]


@both()
async def test_bytes_are_a_limit_too_and_a_queue_that_rejects_is_no_exception(bench: Bench) -> None:
    limit = ENTRY_OVERHEAD_BYTES + 232  # a batch on the disk counts for less beside its bytes
    bench.queues.declare("b", QueueSettings(max_bytes=limit, overflow=REJECT))
    await bench.send("a", payloads(*[bytes(100)] * 8))
    moved = await bench.move("a", "b")
    assert 0 < moved.messages < 8
    assert isinstance(moved.refusal, NoRoomError)
    assert "and the next message takes" in str(moved.refusal)
    assert (await bench.statistics("b")).stored_bytes <= limit
    assert (await bench.statistics("a")).ready == 8 - moved.messages


@both(QueueSettings(max_messages=4))
async def test_what_senders_may_send_already_counts_as_if_it_were_there(bench: Bench) -> None:
    await bench.send("a", payloads(b"1", b"2"))
    await bench.connect(
        bench.queues.get_or_create("b"),
        lambda ref: commands.AttachSender(None, connection=ref),
        lambda ref: commands.RequestCapacity(3, 100, connection=ref),
    )
    moved = await bench.move("a", "b")
    assert moved.messages == 1
    assert "1 of max_messages 4 are stored, and 3 are granted to senders" in str(moved.refusal)


@both()
async def test_a_queue_that_takes_nothing_now_is_left_alone(bench: Bench) -> None:
    await bench.send("a", payloads(b"1"))
    bench.queues.get_or_create("b")
    bench.queues.pause_senders("memory is short")
    moved = await bench.move("a", "b")
    assert moved.messages == 0
    assert isinstance(moved.refusal, PausedError)
    assert "memory is short" in str(moved.refusal)


@both()
async def test_the_time_to_live_of_the_other_queue_begins_anew_and_its_delay_does_not_apply(bench: Bench) -> None:
    bench.queues.declare("b", QueueSettings(delay=60.0, ttl=10.0))
    await bench.send("a", payloads(b"1"), ttl=5.0)
    await elapse(4)
    await bench.move("a", "b")
    await elapse(9)
    assert (await bench.statistics("b")).ready == 1
    await elapse(2)
    assert (await bench.statistics("b")).ready == 0
    assert (await bench.statistics("b")).total_expired == 1


@both()
async def test_what_has_expired_is_dropped_and_not_moved(bench: Bench) -> None:
    await bench.send("a", payloads(b"1"), ttl=5.0)
    await bench.send("a", payloads(b"2"))
    await elapse(6)
    assert (await bench.move("a", "b")).messages == 1
    assert await bench.stored("b") == [b"2"]


@both(QueueSettings(exclusive=True))
async def test_in_an_exclusive_queue_nothing_passes_what_waits_for_a_delay(bench: Bench) -> None:
    await bench.send("a", payloads(b"late"), delay=60.0)
    await bench.send("a", payloads(b"behind"))
    moved = await bench.move("a", "b")
    assert (moved.messages, moved.more) == (0, False)
    assert await bench.stored("a") == [b"late", b"behind"]


def test_what_expires_behind_messages_under_way_has_no_deadline_until_they_are_settled() -> None:
    state = QueueState("a", 1)
    state.execute(commands.AttachSender(None, connection=SOURCE), 0.0, 0)
    state.execute(commands.RequestCapacity(2, 1000, connection=SOURCE), 0.0, 0)
    for number, ttl in enumerate((None, 1.0)):
        state.execute(commands.OfferBatch(number, payloads(b"%d" % number), None, ttl, SOURCE), 0.0, 0)
        state.store(0.0, 0)
    parcels = tuple(take_parcels(state, 2, 1, PREFIX, 0.5))
    state.tick(1.0)
    assert state.next_deadline() is None
    parcels[0].stored = 1
    assert settle_all(state, parcels, 1.0) == 1
    assert state.log.total_expired == 1


@both(QueueSettings(max_messages=3))
async def test_receivers_there_get_it_at_once_and_senders_here_get_the_room(bench: Bench) -> None:
    await bench.send("a", payloads(b"1", b"2", b"3"))
    _, granted = await bench.connect(
        bench.queues.get("a"),
        lambda ref: commands.AttachSender(None, connection=ref),
        lambda ref: commands.RequestCapacity(3, 100, connection=ref),
    )
    _, told = await bench.receiver("b", 10)
    assert not [each for each in granted if isinstance(each, replies.CapacityGranted)]
    await bench.move("a", "b")
    await bench.settled()
    assert [each.batch.payloads.tolist() for each in told if isinstance(each, replies.ReceivedMessages)] == [
        [b"1", b"2", b"3"]
    ]
    assert [each for each in granted if isinstance(each, replies.CapacityGranted)]


@both()
async def test_what_was_sent_after_it_began_stays(bench: Bench) -> None:
    await bench.send("a", payloads(b"1"))
    below = (await bench.statistics("a")).next_sequence
    await bench.send("a", payloads(b"2"))
    answer = asyncio.ensure_future(_awaited(bench.begin("a", "b", below=below)))
    await bench.settled()
    assert ((await answer).messages, (await answer).more) == (1, False)
    assert await bench.stored("a") == [b"2"]


@both()
async def test_a_target_that_is_deleted_in_the_midst_leaves_all_that_it_has_not_stored(bench: Bench) -> None:
    await bench.send("a", payloads(b"1", b"2"))
    answer = asyncio.ensure_future(_awaited(bench.begin("a", "b")))
    bench.queues.delete("b")
    await bench.settled()
    moved = await answer
    assert isinstance(moved.refusal, QueueGoneError)
    assert moved.messages == 0
    assert await bench.stored("a") == [b"1", b"2"]
    assert (await bench.statistics("a")).ready == 2


@durable
async def test_receivers_get_at_once_what_is_back_from_a_target_that_was_deleted(folder: Path) -> None:
    bench = Bench(folder)
    await bench.send("a", payloads(b"1", b"2"))
    receiver, told = await bench.receiver("a", 0)
    answer = asyncio.ensure_future(_awaited(bench.begin("a", "b")))
    bench.queues.get("a").tell(commands.DemandSignalled(10, LARGE, connection=receiver))
    await asyncio.sleep(0)
    # The messages are under way, and in its inbox.
    bench.queues.delete("b")
    await bench.settled()
    assert isinstance((await answer).refusal, QueueGoneError)
    came = [each.batch for each in told if isinstance(each, replies.ReceivedMessages)]
    assert [payload for batch in came for payload in batch.payloads.tolist()] == [b"1", b"2"]
    await bench.close()


@both()
async def test_a_source_that_is_deleted_in_the_midst_takes_back_nothing_and_doubles_nothing(bench: Bench) -> None:
    await bench.send("a", payloads(b"1"))
    answer = asyncio.ensure_future(_awaited(bench.begin("a", "b")))
    bench.queues.delete("a")
    await bench.settled()
    with pytest.raises(Exception, match=r"stopped|dead|answer"):
        await answer
    assert len(await bench.stored("b")) <= 1


@both()
async def test_a_source_that_fails_in_the_midst_has_what_was_not_stored_and_nothing_twice(bench: Bench) -> None:
    await bench.send("a", payloads(b"1", b"2"))
    answer = asyncio.ensure_future(_awaited(bench.begin("a", "b")))
    bench.queues.get("a").tell(object())
    await bench.settled()
    with pytest.raises(TypeError):
        await answer
    both_have = [*await bench.stored("a"), *await bench.stored("b")]
    assert sorted(both_have) == [b"1", b"2"]
    ready = (await bench.statistics("a")).ready + (await bench.statistics("b")).ready
    assert ready == 2


@both()
async def test_a_target_that_fails_on_what_it_is_handed_is_given_up_and_it_is_all_back(bench: Bench) -> None:
    await bench.send("a", payloads(b"1", b"2"))
    target = bench.queues.get_or_create("b")
    await turns()
    answer = asyncio.ensure_future(_awaited(bench.begin("a", "b")))
    # It breaks as it is about to store them.
    actor = target._actor_weakref()
    assert isinstance(actor, QueueActor)
    actor._state.clocks = None  # type: ignore[assignment]
    await turns()
    await elapse(4)
    await bench.settled()
    moved = await answer
    assert moved.messages == 0
    assert moved.refusal is not None
    assert "did not answer within 3 s" in str(moved.refusal)
    assert await bench.stored("a") == [b"1", b"2"]


@both()
async def test_a_timer_that_had_rung_when_the_answer_came_ends_no_step(bench: Bench) -> None:
    await bench.send("a", payloads(b"1", b"2"))
    source = bench.queues.get("a")
    answer = asyncio.ensure_future(_awaited(bench.begin("a", "b")))
    await asyncio.sleep(0)
    actor = source._actor_weakref()
    assert isinstance(actor, QueueActor)
    [move] = actor._moves._moves
    assert move.parcels
    # So it comes where the loop stood still for so long that the timer of the step before had rung as its answer came.
    source.deliver(move)
    await bench.settled()
    assert ((await answer).messages, (await answer).refusal) == (2, None)


@durable
async def test_what_a_target_has_stored_that_fails_behind_it_counts_when_it_is_durable(folder: Path) -> None:
    bench = Bench(folder)
    await bench.send("a", payloads(b"1", b"2"))
    target = bench.queues.get_or_create("b")
    await bench.settled()
    answer = asyncio.ensure_future(_awaited(bench.begin("a", "b")))
    # It breaks behind the record, and before it has answered.
    actor = target._actor_weakref()
    assert isinstance(actor, QueueActor)
    actor._state.ring = None  # type: ignore[assignment]
    await turns()
    figures = bench.queues.read("a")
    assert figures is not None
    assert (figures.total_moved, figures.stored_messages, figures.leaving) == (2, 0, 0), "it is there, and not here"
    await elapse(4)
    await turns()
    assert not answer.done()
    await bench.settled()
    assert (await answer).messages == 2
    assert await bench.stored("b") == [b"1", b"2"]
    await bench.close()


def test_a_restart_finds_each_message_in_one_queue_wherever_the_journal_ends(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Bench(tmp_path / "data")
        for number in range(40):
            await bench.send("a", payloads(b"%d" % number))
        bench.queues.get_or_create("b")
        await bench.settled()
        bench.begin("a", "b")
        await turns()
        # Some of the records are on the disk, and the others never will be.
        bench.commit_groups(17)
        await turns()
        on_disk = tmp_path / "copy"
        _copy(tmp_path / "data", on_disk)
        await bench.close()
        again = Bench(on_disk)
        a, b = await again.stored("a"), await again.stored("b")
        assert b == [b"%d" % number for number in range(len(b))]
        assert a == [b"%d" % number for number in range(len(b), 40)]
        assert 0 < len(b) < 40
        source = await again.statistics("a")
        assert (source.total_moved, source.total_dead_lettered) == (len(b), 0)
        await again.close()

    run_in_virtual_time(main())


def _copy(source: Path, target: Path) -> None:
    target.mkdir()
    for file in source.iterdir():
        if file.name != "lock":
            (target / file.name).write_bytes(file.read_bytes())


def test_generated_ids_become_a_column_and_own_ids_stay() -> None:
    batch = payloads(b"1", b"2", b"3").slice(1, 3)
    found = with_ids(batch, PREFIX, 2**40 + 7)
    assert found.ids is not None
    assert bytes(found.ids) == PREFIX + (2**40 + 7).to_bytes(8, "big") + PREFIX + (2**40 + 8).to_bytes(8, "big")
    assert with_ids(found, b"other id", 0) is found
    assert found.payloads.tolist() == [b"2", b"3"]
    assert found.nbytes == batch.nbytes + 32


STEPS = st.lists(
    st.sampled_from(["send", "take", "store", "settle", "withdraw", "receive", "reset source", "reset target"]),
    min_size=1,
    max_size=40,
)


@given(steps=STEPS, data=st.data())
@settings(max_examples=tried(150), deadline=None)
def test_whatever_happens_in_whatever_order_each_message_is_in_one_queue_once(
    steps: list[str], data: st.DataObject
) -> None:
    """Two queues in memory, whose parcels may be stored late, partly, or be taken back; either may fail at any moment."""
    source, target = (QueueState(name, number, QueueSettings(max_messages=30)) for number, name in enumerate("ab"))
    target.settings = QueueSettings(max_messages=12)
    target.capacity.alter(12, 10**9, False, [])
    sent = 0
    gone: list[bytes] = []
    handed: list[tuple[moves.Parcel, ...]] = []
    for now, step in enumerate(steps):
        if step == "send":
            count = data.draw(st.integers(1, 6))
            batch = payloads(*(b"%d" % number for number in range(sent, sent + count)))
            sent += count
            source.commit(MessagesAdded(source.log.next_sequence, batch, now))
            source.ready.add(source.log.next_sequence, count)
        elif step == "take":
            most = data.draw(st.none() | st.integers(1, 4))
            handed.append(tuple(take_parcels(source, source.log.next_sequence, most, PREFIX, now)))
        elif step == "store" and handed:
            store_parcels(target, StoreParcels(SOURCE, data.draw(st.sampled_from(handed))), now)
        elif step in ("settle", "withdraw") and handed:
            parcels = data.draw(st.sampled_from(handed))
            settle_all(source, parcels, now)
        elif step == "receive" and (span := target.ready.first()) is not None:
            taken = target.ready.take(span, 1)
            gone += taken.entry.part(taken.start, taken.stop).payloads.tolist()
            target.commit(MessagesAcknowledged(((taken.start, taken.stop),)))
        elif step == "reset source":
            source.reset(now)
        elif step == "reset target":
            target.reset(now)
        assert target.log.stored_messages <= 12
        for queue in (source, target):
            log = queue.log
            assert queue.ready.messages + sum(map(len, queue.parcels)) == log.stored_messages
    for parcels in handed:
        settle_all(source, parcels, len(steps))
    left = [payload for queue in (source, target) for payload in _all(queue)]
    assert sorted([*left, *gone]) == sorted(b"%d" % number for number in range(sent))
    assert source.ready.messages == source.log.stored_messages


def _all(queue: QueueState) -> list[bytes]:
    found = peek(queue, moves.PeekMessages(10_000, 0), 0)
    return [payload for each in found.ranges for payload in each.messages.batch.payloads.tolist()]


def test_a_moved_parcel_is_a_record_of_before_with_one_item_more() -> None:
    event = MessagesAdded(7, payloads(b"1"), 9)
    for dead in (True, False):
        moved = MessagesMoved(((3, 4),), dead)
        payload = memoryview(b"".join(codec.encode_added(event, 5, moved)))
        assert codec.decode_stored(7, 1, payload) == (event, (5, moved))
        # As an older program reads it: by the first two items of the origin.
        header = msgpack.unpackb(payload[2 : 2 + int.from_bytes(payload[:2], "little")])
        assert header[8][:2] == [5, [3, 4]]
        assert header[8][2:] == ([] if dead else [False])


@durable
async def test_a_checkpoint_remembers_how_much_was_moved(folder: Path) -> None:
    bench = Bench(folder)
    await bench.send("a", payloads(b"1", b"2"))
    await bench.move("a", "b")
    bench.storage._checkpoints.make(lambda: None)
    await bench.settled()
    await bench.close()
    again = Bench(folder)
    assert (await again.statistics("a")).total_moved == 2
    assert await again.stored("b") == [b"1", b"2"]
    await again.close()
