"""Metrics through kills of a broker process: what was found at the start and what was counted since are what clients were told, exactly."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from streams import Sink, Source
from streams.testkit import settle
from tests.fault.kill_clients import BACK_AT_ONCE, Counter
from tests.fault.kill_process import Broker, ReservedPort
from transport import Administration, DeliveredBatch, MessageBatch, Receiver, Sender

MESSAGES, BATCH, KILLS = 6_000, 20, 3
MORE = 500
POLL = 0.02
SECONDS = 110.0
ROOT = Path(__file__).resolve().parents[2]

Figures = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scraped(address: str) -> Figures:
    async with aiohttp.ClientSession(f"http://{address}") as session, session.get("/metrics") as answer:
        assert answer.status == 200
        families = text_string_to_metric_families(await answer.text())
        return {(each.name, tuple(sorted(each.labels.items()))): each.value for one in families for each in one.samples}


def since(found: Figures, name: str) -> int:
    return int(found[f"penstock_messages_{name}_total", ()])


def ever(found: Figures, name: str) -> int:
    return since(found, name) + int(found["penstock_recovered_messages", (("counter", name),)])


async def settled(address: str, acknowledged: int) -> Figures:
    """What it says when all is acknowledged; acknowledgements are counted as they come."""
    while True:
        found = await scraped(address)
        if ever(found, "acknowledged") >= acknowledged and not found["penstock_messages_in_flight", ()]:
            return found
        await settle(POLL)


class Seen:
    """What the receiver was given."""

    def __init__(self) -> None:
        self.distinct: set[int] = set()
        self.deliveries = Counter()

    def take(self, batch: DeliveredBatch) -> None:
        payloads = list(batch.payloads())
        self.distinct.update(map(int, payloads))
        self.deliveries.add(len(payloads))
        batch.acknowledge()


@asynccontextmanager
async def receiving(address: str, seen: Seen) -> AsyncIterator[None]:
    receiver = Receiver(address, queue="orders", max_in_flight=200, reconnect=BACK_AT_ONCE)
    running = receiver.batches().to(Sink.foreach(seen.take)).run()
    try:
        yield
    finally:
        # Raises what it failed with, if it did.
        await running.stop()


def numbered(first: int, count: int) -> Source[MessageBatch, None]:
    firsts = range(first, first + count, BATCH)
    return Source.from_iterable(
        [MessageBatch.from_payloads([b"%d" % n for n in range(at, at + BATCH)]) for at in firsts]
    )


def sender(broker: Broker, name: str) -> Sender:
    return Sender(broker.send_address, queue="orders", client_id=name, max_in_flight=200, reconnect=BACK_AT_ONCE)


async def run(directory: Path) -> None:
    seen, confirmed = Seen(), Counter()
    with closing(ReservedPort()) as port:
        async with Broker(["--data", str(directory), "--http", port.address]) as broker:
            await broker.start()
            async with receiving(broker.receive_address, seen):
                through = numbered(0, MESSAGES).via(sender(broker, "first"))
                sending = through.to(Sink.foreach(lambda each: confirmed.add(each.count))).run()
                for number in range(KILLS):
                    await confirmed.more(MESSAGES * (number + 1) // (KILLS + 1) - confirmed.value)
                    await broker.kill()
                    told = confirmed.value
                    await broker.start()
                    found = await scraped(port.address)
                    # Nothing of what was confirmed is missing, and nothing is counted that nobody sent.
                    assert told <= ever(found, "received") <= MESSAGES
                    assert since(found, "received") <= ever(found, "received")
                await sending
                found = await settled(port.address, MESSAGES)
                assert ever(found, "received") == ever(found, "acknowledged") == confirmed.value == MESSAGES
                assert seen.distinct == set(range(MESSAGES))
                assert found["penstock_messages_stored", ()] == 0
                # A kill that had something under way has had it delivered again.
                assert since(found, "delivered") >= since(found, "acknowledged")
                # In one life every figure is exact, those too that no journal has.
                delivered = seen.deliveries.value
                await numbered(MESSAGES, MORE).to(sender(broker, "second")).run()
                after = await settled(port.address, MESSAGES + MORE)
                for name in ("received", "delivered", "acknowledged"):
                    assert since(after, name) - since(found, name) == MORE, name
                assert seen.deliveries.value - delivered == MORE
                for name in ("confirmation_seconds", "delivery_lag_seconds"):
                    key = (f"penstock_{name}_count", ())
                    assert after[key] - found[key] == MORE, name
            await deleted(broker, port.address)


async def deleted(broker: Broker, http: str) -> None:
    """A queue that goes takes nothing from the sums until the next start, which knows nothing of it."""
    before = await scraped(http)
    async with Administration(broker.send_address) as administration:
        await administration.delete_queue("orders")
    after = await scraped(http)
    for name in ("received", "acknowledged", "delivered"):
        assert since(after, name) == since(before, name), name
    assert ever(after, "received") == ever(before, "received") == MESSAGES + MORE
    await broker.kill()
    await broker.start()
    found = await scraped(http)
    assert (ever(found, "received"), found["penstock_queues", ()]) == (0, 0)


@pytest.mark.timeout(120)
def test_metrics_agree_exactly_with_what_clients_were_told_through_kills_of_the_broker() -> None:
    async def bounded() -> None:
        with tempfile.TemporaryDirectory(dir=ROOT, prefix=".metrics-") as folder:
            async with asyncio.timeout(SECONDS):
                await run(Path(folder) / "data")

    asyncio.run(bounded())
