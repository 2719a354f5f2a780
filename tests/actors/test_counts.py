"""What all queues count together: it never goes back, whatever becomes of a queue, and begins at nothing with each start."""

from __future__ import annotations

from pathlib import Path

from actors import QueueDirectory
from actors.batch import MessageBatch
from actors.queue.counts import less, plus
from actors.queue.operations.counting import Counters, Figures, counters_of, figures_of
from actors.queue.queue_actor import QueueActor
from actors.queue.queue_state import QueueState
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.replies import SentMessages
from actors.queue.vocabulary.settings import QueueSettings
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.queue_probes import batch, receiver_of, sender_of, start_queue, statistics
from tests.actors.stored_queues import StoredQueues, durable, turns


def summed(queues: QueueDirectory) -> Counters:
    """What the metrics make of what is counted."""
    total = queues.count().gone
    for name in queues:
        state = queues.state(name)
        assert state is not None
        total = plus(total, less(counters_of(state), queues.base(name)))
    return total


async def used(bench: StoredQueues, name: str, messages: int, acknowledged: int = 0) -> None:
    """Messages sent to a queue, all of them received, and the first acknowledged; what is not is ready again."""
    queue = bench.queues.get_or_create(name)
    payloads = MessageBatch.from_payloads([b"x"] * messages)
    sender, _ = await bench.connect(
        queue,
        lambda ref: commands.AttachSender(None, connection=ref),
        lambda ref: commands.RequestCapacity(100, 10**5, connection=ref),
        lambda ref: commands.OfferBatch(0, payloads, None, None, connection=ref),
    )
    await bench.settled()
    receiver, told = await bench.connect(
        queue,
        lambda ref: commands.AttachReceiver(connection=ref),
        lambda ref: commands.DemandSignalled(messages, 10**6, connection=ref),
    )
    await bench.settled()
    first = next(each.first for each in told if hasattr(each, "batch"))
    if acknowledged:
        queue.tell(commands.Acknowledged(((first, first + acknowledged),), connection=receiver))
    await bench.settled()
    for ref in (sender, receiver):
        await ref.stop(block=False)
    await bench.settled()


async def deleted(folder: Path | None) -> None:
    bench = StoredQueues(folder)
    await used(bench, "a", 5, acknowledged=2)
    await used(bench, "b", 3)
    before = summed(bench.queues)
    assert (before.received, before.acknowledged, before.delivered) == (8, 2, 8)
    bench.queues.delete("a")
    assert summed(bench.queues) == before
    await bench.settled()
    assert summed(bench.queues) == before
    await used(bench, "a", 1)
    assert summed(bench.queues).received == 9
    await bench.close()


async def failed(folder: Path | None) -> None:
    bench = StoredQueues(folder)
    await used(bench, "a", 5, acknowledged=2)
    before = summed(bench.queues)
    queue = bench.queues.get("a")
    for _ in range(QueueActor.max_restarts + 1):
        queue.tell(object())
    await queue.stopped()
    assert summed(bench.queues) == before
    bench.queues.get("a")
    assert summed(bench.queues) == before
    await used(bench, "a", 4)
    after = summed(bench.queues)
    assert after.received == before.received + 4
    assert after.delivered >= before.delivered + 4
    await bench.close()


def test_what_a_queue_was_told_before_it_was_deleted_counts_too() -> None:
    async def main() -> None:
        bench = StoredQueues(None)
        queue = bench.queues.get_or_create("a")
        sender, told = await bench.connect(
            queue,
            lambda ref: commands.AttachSender(None, connection=ref),
            lambda ref: commands.RequestCapacity(100, 10**5, connection=ref),
        )
        queue.tell(commands.OfferBatch(0, batch(b"1", b"2"), None, None, connection=sender))
        # Before this is answered the batch is stored.
        queue.tell(commands.GetStatistics())
        bench.queues.delete("a")
        await turns()
        assert any(isinstance(each, SentMessages) for each in told), "it was confirmed"
        assert summed(bench.queues).received == 2
        await bench.close()

    run_in_virtual_time(main())


def test_of_a_deleted_queue_in_memory_the_sums_keep_what_it_counted() -> None:
    run_in_virtual_time(deleted(None))


def test_of_a_deleted_queue_on_disk_the_sums_keep_what_it_counted(tmp_path: Path) -> None:
    run_in_virtual_time(deleted(tmp_path / "data"))


def test_a_queue_in_memory_that_failed_for_good_takes_nothing_from_the_sums() -> None:
    run_in_virtual_time(failed(None))


def test_a_queue_on_disk_that_failed_for_good_takes_nothing_from_the_sums(tmp_path: Path) -> None:
    run_in_virtual_time(failed(tmp_path / "data"))


@durable
async def test_a_start_counts_from_nothing_and_says_what_it_found(folder: Path) -> None:
    bench = StoredQueues(folder)
    await used(bench, "a", 5, acknowledged=2)
    await used(bench, "b", 3)
    await bench.close()
    bench = StoredQueues(folder)
    count = bench.queues.count()
    assert summed(bench.queues) == Counters()
    assert (count.recovered.received, count.recovered.acknowledged, count.recovered.delivered) == (8, 2, 0)
    assert bench.queues.base("a").received == 5
    await used(bench, "b", 4)
    assert summed(bench.queues).received == 4
    bench.queues.delete("b")
    count = bench.queues.count()
    # What was found stays what was found; what the queue had counted since is not lost with it.
    assert (summed(bench.queues).received, count.recovered.received) == (4, 8)
    assert (bench.queues.base("a").received, bench.queues.base("b")) == (5, Counters())
    await bench.close()


def test_the_figures_are_those_that_a_queue_tells() -> None:
    async def main() -> None:
        state = QueueState("q", 3, QueueSettings())
        queue = start_queue(state)
        sender, receiver = await sender_of(queue), await receiver_of(queue, demand=2)
        queue.tell(commands.OfferBatch(0, batch(b"1", b"2", b"3"), None, None, sender.ref))
        await turns()
        told = await statistics(queue)
        figures, counters = figures_of(state), counters_of(state)
        assert (figures.ready, figures.in_flight, figures.attached_receivers) == (1, 2, 1)
        for name in Figures._fields:
            assert getattr(figures, name) == getattr(told, name), name
        for name in Counters._fields:
            total = {"received": "total_in", "delivered": "total_out"}.get(name, f"total_{name}")
            assert getattr(counters, name) == getattr(told, total), name
        await receiver.ref.stop(block=False)

    run_in_virtual_time(main())


@durable
async def test_confirmations_are_measured_to_the_moment_in_which_they_are_durable(folder: Path) -> None:
    bench = StoredQueues(folder)
    queue = bench.queues.get_or_create("a")
    await bench.connect(
        queue,
        lambda ref: commands.AttachSender(None, connection=ref),
        lambda ref: commands.RequestCapacity(100, 10**5, connection=ref),
        lambda ref: commands.OfferBatch(0, batch(b"1", b"2"), None, None, connection=ref),
        lambda ref: commands.OfferBatch(2, batch(b"3"), None, None, connection=ref),
    )
    confirmation = bench.queues.measures.confirmation
    assert sum(confirmation.counts) == 0
    await elapse(0.3)
    await bench.commit()
    assert confirmation.counts[confirmation.bounds.index(0.5)] == 3
    assert abs(confirmation.sum - 0.9) < 0.01
    await bench.close()


def test_in_memory_a_message_may_be_confirmed_when_it_is_stored() -> None:
    async def main() -> None:
        bench = StoredQueues(None)
        await used(bench, "a", 5)
        assert bench.queues.measures.confirmation.counts[0] == 5
        await bench.close()

    run_in_virtual_time(main())


@durable
async def test_the_lag_is_measured_once_a_message_by_the_clock_of_the_times_on_it(folder: Path) -> None:
    bench = StoredQueues(folder)
    queue = bench.queues.get_or_create("a")
    await bench.connect(
        queue,
        lambda ref: commands.AttachSender(None, connection=ref),
        lambda ref: commands.RequestCapacity(100, 10**5, connection=ref),
        lambda ref: commands.OfferBatch(0, batch(b"1", b"2"), None, None, connection=ref),
    )
    await bench.settled()
    lag = bench.queues.measures.lag
    bench.time_of_day += 30
    for count in (2, 2):
        receiver, _ = await bench.connect(
            queue,
            lambda ref: commands.AttachReceiver(connection=ref),
            lambda ref: commands.DemandSignalled(2, 10**6, connection=ref),
        )
        # The second time they come again, and count no more.
        assert (lag.counts[lag.bounds.index(60.0)], lag.sum) == (count, 60.0)
        await receiver.stop(block=False)
        await turns()
    bench.time_of_day -= 3600
    await used(bench, "b", 1)
    assert lag.counts[0] == 1
    await bench.close()


@durable
async def test_the_journal_tells_of_each_sync_and_of_the_bytes_of_each_group(folder: Path) -> None:
    bench = StoredQueues(folder)
    await used(bench, "a", 5)
    measures, facts = bench.queues.storage_measures(), bench.storage.statistics()
    assert measures is not None
    assert sum(measures.sync_seconds.counts) == facts["syncs"] > 0
    assert sum(measures.write_bytes.counts) == facts["groups"] > 0
    assert measures.write_bytes.sum > 100
    assert StoredQueues(None).queues.storage_measures() is None
    await bench.close()
