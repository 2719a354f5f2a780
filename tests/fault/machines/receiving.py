"""``python -m tests.fault.machines.receiving ORDER``: receivers that log what they get, acknowledge it, and log that, until SIGTERM.

They keep as many of the newest unanswered as `hold` says, so that a kill finds some that are to come again; SIGUSR1 has them answer all.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from pathlib import Path

from streams import Running, Sink
from tests.fault.machines.options import READY, Order
from tests.fault.machines.records import RECEIVED, Acknowledged, Delivered, Log, now, runs
from transport import DeliveredBatch, Receiver


class Taker:
    """One receiver, `takes-NUMBER` to the broker."""

    def __init__(self, number: int, order: Order) -> None:
        self._number = number
        self._order = order
        self._log = Log(Path(order.folder) / RECEIVED.format(number), number)
        self._hold = order.options.hold
        self._held: deque[tuple[DeliveredBatch, list[Delivered]]] = deque()
        self._held_messages = 0

    def run(self) -> Running[int]:
        """Receive until cancelled."""
        options = self._order.options
        receiver = Receiver(
            self._order.contacts,
            queue=options.queue,
            max_in_flight=options.window,
            client_id=f"takes-{self._number}",
            reconnect=options.backoff(),
        )
        return receiver.batches().to(Sink.foreach(self._take)).run()

    def release(self) -> None:
        """Hold nothing any more."""
        self._hold = 0
        self._answer()

    def _take(self, batch: DeliveredBatch) -> None:
        found = runs(now(), batch.payloads(), batch.first, batch.possibly_replayed)
        self._log.write(*found)
        self._held.append((batch, [run for run in found if isinstance(run, Delivered)]))
        self._held_messages += len(batch)
        self._answer()

    def _answer(self) -> None:
        while self._held and self._held_messages > self._hold:
            batch, found = self._held.popleft()
            self._held_messages -= len(batch)
            batch.acknowledge()
            if found:
                self._log.write(*[Acknowledged(now(), run.sender, run.first, run.messages) for run in found])


async def receive(order: Order) -> None:
    """Run all receivers until SIGTERM; what they acknowledged has been sent when this returns."""
    takers = [Taker(number, order) for number in order.numbers]
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)

    def release() -> None:
        for taker in takers:
            taker.release()

    loop.add_signal_handler(signal.SIGUSR1, release)
    sys.stdout.write(READY)
    sys.stdout.flush()
    runs_of_all = [taker.run() for taker in takers]

    async def whole(run: Running[int]) -> None:
        await run

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(whole(run)) for run in runs_of_all]
        ended = group.create_task(over.wait())
        await asyncio.wait((ended, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in (ended, *tasks):
            task.cancel()


if __name__ == "__main__":
    asyncio.run(receive(Order.of(sys.argv[1])))
