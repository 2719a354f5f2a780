"""``python -m tests.fault.machines.sending ORDER``: producers that send numbered messages and log each confirmation, until SIGTERM.

Then they take no more, and the process ends in good order when everything is confirmed. They come back by themselves to whichever of the
contact points answers, for as long as it takes.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from streams import Sink, Source
from tests.fault.machines.options import READY, Order
from tests.fault.machines.records import SENT, UNKNOWN, Confirmed, Handed, Log, now, payload_of
from transport import MessageBatch, Sender
from transport.clients.sender_session import Confirmation


class Producer:
    """One producer, `load-NUMBER` to the broker.

    Attributes:
        ending: set when it is to take no more.
    """

    def __init__(self, number: int, order: Order) -> None:
        self._number = number
        self._order = order
        self._log = Log(Path(order.folder) / SENT.format(number), number)
        self.ending = False

    async def run(self) -> None:
        """Send until told to end, and everything is confirmed."""
        options = self._order.options
        sender = Sender(
            self._order.contacts,
            queue=options.queue,
            client_id=f"load-{self._number}",
            max_in_flight=options.window,
            reconnect=options.backoff(),
        )
        firsts: Source[int, None] = Source.from_iterable(self._firsts)
        if options.rate is not None:
            firsts = firsts.throttle(1, options.batch / options.rate)
        # A batch is made, and its time logged, when it is sent: not before it waits for its turn.
        await firsts.map(self._batch_from).via(sender).to(Sink.foreach(self._confirmed)).run()
        self._log.close()

    def _firsts(self) -> Iterator[int]:
        first = 0
        while not self.ending:
            yield first
            first += self._order.options.batch

    def _batch_from(self, first: int) -> MessageBatch:
        options = self._order.options
        self._log.write(Handed(now(), first, options.batch))
        numbers = range(first, first + options.batch)
        return MessageBatch.from_payloads([payload_of(self._number, number, options.size) for number in numbers])

    def _confirmed(self, one: Confirmation) -> None:
        if one.rejected is not None:
            raise RuntimeError(f"the queue rejected {one.count} messages: {one.rejected}")
        self._log.write(Confirmed(now(), one.sequence, one.count, UNKNOWN if one.first is None else one.first))


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
