"""``python -m tests.fault.strict_order --deliveries N``: one exclusive queue, real sockets, a real disk, and no delivery out of turn.

One sender numbers its messages, so each must lie at its own number in the queue, and each receiver must get them without a gap,
beginning where the one before it stopped to acknowledge. Sender and receiver end and come back again and again, each time with
another window: small ones have the queue wait for demand, and that is where an order can break.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from streams import Running, Sink, Source
from tests.fault.kill_process import ROOT, Broker
from transport import Administration, Delivery, Receiver, Sender

QUEUE = "strict"
QUEUE_MESSAGES = 2_000
"""The queue's limit: a short backlog, for what is far behind in a long one is durable before anybody asks for it."""
RECEIVER_WINDOWS = (1, 100)
SENDER_WINDOWS = (20, 500)
LIFE_SENT = 20_000
"""Messages in which a sender has one window, at most."""
LIFE_ROUNDS = 200
"""Times that a receiver's window is filled in its life, at most: a small one is slow, and is not to take most of the time."""
LIFE_SECONDS = 120.0
"""In which a receiver must have got so many: a queue that delivers nothing for so long has stalled."""
REPORT_EVERY = 100_000
MOST_EXAMPLES = 10


@dataclass(slots=True)
class Order:
    """Holds deliveries against strict order.

    Attributes:
        deliveries: how many there were.
        acknowledged: every message below this is.
        wrong: how many deliveries were out of turn.
        examples: the first of them.
    """

    deliveries: int = 0
    acknowledged: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)
    _due: int | None = None
    _new: int = 0

    def receiver_comes(self) -> None:
        """Another receiver has the queue: it begins with what is not acknowledged."""
        self._due = self.acknowledged

    def deliver(self, sequence: int, number: int, flagged: bool) -> None:
        """The receiver got what the sender gave ``number``, as the queue's message ``sequence``."""
        self.deliveries += 1
        if sequence != number:
            self._find(f"message {number} is at {sequence} of the queue")
        if sequence != self._due:
            self._find(f"{sequence} came when it was the turn of {self._due}")
        if sequence < self._new and not flagged:
            self._find(f"{sequence} came again and is not marked")
        self._due = sequence + 1
        self._new = max(self._new, self._due)

    def acknowledge(self, sequence: int) -> None:
        """The receiver has acknowledged the oldest that it holds."""
        self.acknowledged = sequence + 1

    def _find(self, text: str) -> None:
        self.wrong += 1
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(text)


class OneReceiver:
    """One life of the receiver: takes ``count`` messages, holds back up to ``hold`` of them, and leaves."""

    def __init__(self, order: Order, count: int, hold: int) -> None:
        self._order = order
        self._left = count
        self._hold = hold
        self._held: deque[Delivery] = deque()
        self.enough = asyncio.Event()

    def take(self, delivery: Delivery) -> None:
        """One delivery."""
        if not self._left:
            return
        self._order.deliver(delivery.sequence, int(delivery.payload), delivery.delivery_count > 1)
        self._held.append(delivery)
        self._left -= 1
        while len(self._held) > (self._hold if self._left else 0):
            oldest = self._held.popleft()
            oldest.acknowledge()
            self._order.acknowledge(oldest.sequence)
        if not self._left:
            self.enough.set()


async def soak(deliveries: int, seed: int, directory: Path, report: Callable[[str], None]) -> Order:
    """Have ``deliveries`` messages go through a broker's exclusive queue, one by one.

    Raises:
        BrokerDiedError: the broker ended by itself.
        TransportError: a client gave up.
        TimeoutError: nothing went on.
    """
    random = Random(seed)
    order = Order()
    async with Broker(["--data", str(directory)]) as broker:
        await broker.start()
        async with Administration(broker.send_address) as administration:
            await administration.create_queue(QUEUE, exclusive=True, max_messages=QUEUE_MESSAGES)
        sending = asyncio.create_task(_send(broker.send_address, deliveries, Random(random.random())))
        try:
            reported = 0
            while order.acknowledged < deliveries:
                await _receive(broker.receive_address, order, deliveries - order.acknowledged, random, sending)
                if order.deliveries - reported >= REPORT_EVERY:
                    reported = order.deliveries
                    report(f"{order.deliveries:,} deliveries, {order.wrong} out of turn")
            await sending
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        await broker.stop()
    return order


async def _receive(address: str, order: Order, left: int, random: Random, sending: asyncio.Task[None]) -> None:
    window = random.randint(*RECEIVER_WINDOWS)
    count = min(left, random.randint(1, LIFE_ROUNDS * window))
    receiver = OneReceiver(order, count, random.randrange(max(1, window // 2)))
    order.receiver_comes()
    running = Receiver(address, queue=QUEUE, max_in_flight=window).to(Sink.foreach(receiver.take)).run()
    await _until(running, receiver.enough, sending)


async def _until(running: Running[int], enough: asyncio.Event, sending: asyncio.Task[None]) -> None:
    """End a receiver when it has had enough; raises what it or the sender fails with before."""
    waiting = asyncio.create_task(enough.wait())
    whole = asyncio.ensure_future(_whole(running))
    try:
        async with asyncio.timeout(LIFE_SECONDS):
            while not waiting.done():
                running_ones = [task for task in (whole, sending) if not task.done()]
                await asyncio.wait((waiting, *running_ones), return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
                if whole.done():
                    whole.result()
                    return
    finally:
        waiting.cancel()
        running.cancel()
        await asyncio.gather(waiting, whole, return_exceptions=True)


async def _whole(running: Running[int]) -> int:
    return await running


async def _send(address: str, count: int, random: Random) -> None:
    sent = 0
    while sent < count:
        stop = min(count, sent + random.randint(1, LIFE_SENT))
        window = random.randint(*SENDER_WINDOWS)
        sender = Sender(address, queue=QUEUE, client_id="strict", max_in_flight=window, max_batch_messages=1)
        await Source.from_iterable(_payloads(sent, stop)).to(sender).run()
        sent = stop


def _payloads(start: int, stop: int) -> Iterator[bytes]:
    return (b"%d" % number for number in range(start, stop))


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 1 if a delivery was out of turn."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.strict_order", description=__doc__)
    parser.add_argument("--deliveries", type=int, default=1_000_000, metavar="N", help="messages to be taken in order")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="of all windows; a new one by default")
    options = parser.parse_args(arguments)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"strict_order: --deliveries {options.deliveries} --seed {seed}", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-order-", dir=ROOT) as folder:
        order = asyncio.run(soak(options.deliveries, seed, Path(folder, "data"), _say))
    seconds = time.monotonic() - begin
    print("\n".join([f"{order.deliveries:,} deliveries in {seconds:.0f} s", *order.examples]))
    print(f"{order.deliveries / seconds:,.0f} deliveries/s")
    print(f"{order.wrong} out of turn")
    return 1 if order.wrong else 0


def _say(text: str) -> None:
    print(f"strict_order: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
