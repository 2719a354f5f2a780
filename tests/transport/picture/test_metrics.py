"""The figures of queues as metrics, where they are easily wrong: of one that has failed for good."""

from __future__ import annotations

from actors.queue.queue_actor import QueueActor
from actors.queue.vocabulary import commands
from streams.testkit import run_in_virtual_time
from tests.actors.queue_probes import batch
from tests.actors.stored_queues import StoredQueues
from transport.broker.served import Connections
from transport.picture.metrics import AskedQueues, Metrics, Page

FACTS = {
    "version": "1",
    "paused": None,
    "memory_pressure": False,
    "memory_watermark_bytes": 1,
    "rss_bytes": 1,
}


def figures(page: Page) -> dict[str, float]:
    """The samples of a page."""
    lines = b"".join(page.pieces).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def test_a_queue_that_failed_for_good_has_no_figures_and_keeps_its_counters() -> None:
    async def main() -> None:
        bench = StoredQueues(None)
        queue = bench.queues.get_or_create("a")
        await bench.connect(
            queue,
            lambda ref: commands.AttachSender(None, connection=ref),
            lambda ref: commands.RequestCapacity(100, 10**5, connection=ref),
            lambda ref: commands.OfferBatch(0, batch(b"1", b"2"), None, None, connection=ref),
        )
        metrics = Metrics(bench.queues, Connections(10), lambda: FACTS)

        async def all_figures() -> dict[str, float]:
            totals = await metrics.totals(lambda _size: None)
            return figures(totals) | figures(await metrics.each_queue(AskedQueues(), lambda _size: None))

        before = await all_figures()
        for _ in range(QueueActor.max_restarts + 1):
            queue.tell(object())
        await queue.stopped()
        after = await all_figures()
        of_it = '{queue="a"}'
        for name in ("messages_ready", "messages_stored"):
            assert (before[f"penstock_{name}"], before[f"penstock_queue_{name}{of_it}"]) == (2, 2)
            assert (after[f"penstock_{name}"], after[f"penstock_queue_{name}{of_it}"]) == (0, 0)
        assert before['penstock_queues_held_back{kind="no_receiver"}'] == 1
        assert after['penstock_queues_held_back{kind="no_receiver"}'] == 0
        assert after["penstock_messages_received_total"] == 2
        assert (before["penstock_queues_failed"], after["penstock_queues_failed"]) == (0, 1)
        metrics.end()
        await bench.close()

    run_in_virtual_time(main())
