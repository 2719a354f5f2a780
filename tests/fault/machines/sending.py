"""``python -m tests.fault.machines.sending ORDER``: producers that send numbered messages and log each confirmation, until SIGTERM.

Then they take no more, and the process ends in good order when everything is confirmed. They come back by themselves to whichever of the
contact points answers, for as long as it takes. A producer that is told that something confirmed is lost logs that, sends none of it again,
and goes on as another one.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from streams import Sink, Source
from tests.fault.machines.options import READY, Order
from tests.fault.machines.records import SENT, UNKNOWN, Confirmed, Gone, Handed, Log, now, payload_of
from transport import ConfirmedLostError, MessageBatch, Sender
from transport.clients.sender_session import Confirmation


class Producer:
    """One producer, `QUEUE-NUMBER` to the broker; `QUEUE-NUMBER-1` and so on behind a loss.

    Attributes:
        ending: set when it is to take no more.
    """

    def __init__(self, number: int, order: Order) -> None:
        self._number = number
        self._order = order
        self._log = Log(Path(order.folder) / SENT.format(number), number)
        self._next = 0
        self._base = 0  # the number of the message that is the broker's first of this producer
        self.ending = False

    async def run(self) -> None:
        """Send until told to end, and everything is confirmed."""
        client_id = f"{self._order.options.queue}-{self._number}"
        losses = 0
        while True:
            try:
                await self._send(client_id if not losses else f"{client_id}-{losses}")
            except ConfirmedLostError as error:
                losses += 1
                self._log.write(Gone(now(), self._base + error.stored, error.confirmed - error.stored))
                # What was not confirmed yet is not sent again either: the cluster may have it, under the former name.
                self._base = self._next
            else:
                break
        self._log.close()

    async def _send(self, client_id: str) -> None:
        options = self._order.options
        sender = Sender(
            self._order.contacts,
            queue=options.queue,
            client_id=client_id,
            max_in_flight=options.window,
            reconnect=options.backoff(),
        )
        firsts: Source[int, None] = Source.from_iterable(self._firsts)
        if options.rate is not None:
            firsts = firsts.throttle(1, options.batch / options.rate)
        # A batch is made, and its time logged, when it is sent: not before it waits for its turn.
        await firsts.map(self._batch_from).via(sender).to(Sink.foreach(self._confirmed)).run()

    def _firsts(self) -> Iterator[int]:
        while not self.ending:
            first = self._next
            self._next += self._order.options.batch
            yield first

    def _batch_from(self, first: int) -> MessageBatch:
        options = self._order.options
        self._log.write(Handed(now(), first, options.batch))
        numbers = range(first, first + options.batch)
        return MessageBatch.from_payloads([payload_of(self._number, number, options.size) for number in numbers])

    def _confirmed(self, one: Confirmation) -> None:
        if one.rejected is not None:
            raise RuntimeError(f"the queue rejected {one.count} messages: {one.rejected}")
        stored = UNKNOWN if one.first is None else one.first
        self._log.write(Confirmed(now(), self._base + one.sequence, one.count, stored))


async def send(order: Order) -> None:
    """Run all producers until SIGTERM, and until everything is confirmed."""
    producers = [Producer(number, order) for number in order.numbers]

    def end() -> None:
        for producer in producers:
            producer.ending = True

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    sys.stdout.write(READY)
    sys.stdout.flush()
    async with asyncio.TaskGroup() as group:
        for producer in producers:
            group.create_task(producer.run())


if __name__ == "__main__":
    asyncio.run(send(Order.of(sys.argv[1])))
