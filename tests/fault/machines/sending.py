"""``python -m tests.fault.machines.sending``: producers that send numbered messages and log each confirmation, until SIGTERM.

Then they take no more, and the process ends in good order when everything is confirmed. They come back by themselves to whichever of the
contact points answers, for as long as it takes.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from streams import Sink, Source
from tests.fault.machines.records import SENT, UNKNOWN, Confirmed, Handed, Log, now, payload_of
from transport import Backoff, MessageBatch, Sender
from transport.clients.sender_session import Confirmation

GIVE_UP_SECONDS = 300.0
"""Without any connection: longer than any outage of a test."""


class Producer:
    """One producer, `load-NUMBER` to the broker.

    Args:
        number: which one.
        folder: where its log is.
        batch: messages that it sends at a time.
        size: bytes of a payload.
        window: messages sent and not confirmed, at most.
        rate: messages a second; None for as many as the broker takes.
        backoff: how it comes back.
    """

    def __init__(
        self, number: int, folder: Path, batch: int, size: int, window: int, rate: float | None, backoff: Backoff
    ) -> None:
        self._number = number
        self._log = Log(folder / SENT.format(number), number)
        self._batch = batch
        self._size = size
        self._window = window
        self._rate = rate
        self._backoff = backoff
        self._next = 0
        self.ending = False

    async def run(self, addresses: list[str], queue: str) -> None:
        """Send until told to end, and everything is confirmed."""
        sender = Sender(
            addresses,
            queue=queue,
            client_id=f"load-{self._number}",
            max_in_flight=self._window,
            reconnect=self._backoff,
        )
        source: Source[MessageBatch, None] = Source.from_iterable(self._batches)
        if self._rate is not None:
            source = source.throttle(1, self._batch / self._rate)
        await source.via(sender).to(Sink.foreach(self._confirmed)).run()
        self._log.close()

    def _batches(self) -> Iterator[MessageBatch]:
        while not self.ending:
            first = self._next
            self._next += self._batch
            self._log.write(Handed(now(), first, self._batch))
            numbers = range(first, self._next)
            yield MessageBatch.from_payloads([payload_of(self._number, number, self._size) for number in numbers])

    def _confirmed(self, one: Confirmation) -> None:
        if one.rejected is not None:
            raise RuntimeError(f"the queue rejected {one.count} messages: {one.rejected}")
        self._log.write(Confirmed(now(), one.sequence, one.count, UNKNOWN if one.first is None else one.first))


async def send(producers: list[Producer], addresses: list[str], queue: str) -> None:
    """Run all producers until SIGTERM, and until everything is confirmed."""

    def end() -> None:
        for producer in producers:
            producer.ending = True

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    async with asyncio.TaskGroup() as group:
        for producer in producers:
            group.create_task(producer.run(addresses, queue))


def main(
    contact: Annotated[list[str], typer.Option(help="Sending addresses, tried in turn.")],
    folder: Annotated[Path, typer.Option(help="Where the logs are.")],
    producer: Annotated[list[int], typer.Option(help="Numbers of the producers.")],
    queue: Annotated[str, typer.Option()] = "load",
    batch: Annotated[int, typer.Option(min=1)] = 10,
    size: Annotated[int, typer.Option(min=1)] = 100,
    window: Annotated[int, typer.Option(min=1)] = 1_000,
    rate: Annotated[float | None, typer.Option(help="Messages a second, of each producer.")] = None,
    longest_wait: Annotated[float, typer.Option(help="Seconds between two attempts to connect, at most.")] = 5.0,
) -> None:
    """Send numbered messages until SIGTERM."""
    backoff = Backoff(minimum=min(0.1, longest_wait), maximum=longest_wait, give_up_after=GIVE_UP_SECONDS)
    producers = [Producer(number, folder, batch, size, window, rate, backoff) for number in producer]
    asyncio.run(send(producers, contact, queue))


if __name__ == "__main__":
    typer.run(main)
