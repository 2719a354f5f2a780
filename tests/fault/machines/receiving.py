"""``python -m tests.fault.machines.receiving``: receivers that log what they get, acknowledge it, and log that, until SIGTERM.

With ``--hold`` they keep the newest so many unanswered, so that a kill finds some that are to come again; SIGUSR1 has them answer all.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from pathlib import Path
from typing import Annotated

import typer

from streams import Running, Sink
from tests.fault.machines.records import RECEIVED, Acknowledged, Delivered, Log, now, runs
from tests.fault.machines.sending import GIVE_UP_SECONDS
from transport import Backoff, DeliveredBatch, Receiver


class Taker:
    """One receiver.

    Args:
        number: which one.
        folder: where its log is.
        window: messages delivered and not acknowledged, at most.
        hold: how many of them it keeps so.
        backoff: how it comes back.
    """

    def __init__(self, number: int, folder: Path, window: int, hold: int, backoff: Backoff) -> None:
        self._number = number
        self._log = Log(folder / RECEIVED.format(number), number)
        self._window = window
        self._hold = hold
        self._backoff = backoff
        self._held: deque[tuple[DeliveredBatch, list[Delivered]]] = deque()
        self._held_messages = 0

    def run(self, addresses: list[str], queue: str) -> Running[int]:
        """Receive until cancelled."""
        name = f"takes-{self._number}"
        receiver = Receiver(
            addresses, queue=queue, max_in_flight=self._window, client_id=name, reconnect=self._backoff
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
                self._log.write(*[Acknowledged(now(), run.sender, run.first, run.count) for run in found])


async def receive(takers: list[Taker], addresses: list[str], queue: str) -> None:
    """Run all receivers until SIGTERM; what they acknowledged has been sent when this returns."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)

    def release() -> None:
        for taker in takers:
            taker.release()

    loop.add_signal_handler(signal.SIGUSR1, release)
    runs_of_all = [taker.run(addresses, queue) for taker in takers]

    async def whole(run: Running[int]) -> None:
        await run

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(whole(run)) for run in runs_of_all]
        ended = group.create_task(over.wait())
        await asyncio.wait((ended, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in (ended, *tasks):
            task.cancel()


def main(
    contact: Annotated[list[str], typer.Option(help="Receiving addresses, tried in turn.")],
    folder: Annotated[Path, typer.Option(help="Where the logs are.")],
    receiver: Annotated[list[int], typer.Option(help="Numbers of the receivers.")],
    queue: Annotated[str, typer.Option()] = "load",
    window: Annotated[int, typer.Option(min=1)] = 1_000,
    hold: Annotated[int, typer.Option(min=0)] = 0,
    longest_wait: Annotated[float, typer.Option(help="Seconds between two attempts to connect, at most.")] = 5.0,
) -> None:
    """Receive until SIGTERM."""
    backoff = Backoff(minimum=min(0.1, longest_wait), maximum=longest_wait, give_up_after=GIVE_UP_SECONDS)
    takers = [Taker(number, folder, window, hold, backoff) for number in receiver]
    asyncio.run(receive(takers, contact, queue))


if __name__ == "__main__":
    typer.run(main)
