"""A consumer that runs beside a test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transport.consumer.consumer import Consumer


@contextmanager
def running(consumer: Consumer) -> Iterator[Consumer]:
    """Runs ``consumer`` in a thread of its own while the block lasts, then ends it in good order, as `Consumer.stop` does.

    ``with running(make_consumer(broker.receive_address)): ...``

    Raises:
        Exception: what the consumer has failed with, at the end of the block.
    """
    begun = threading.Event()

    async def serve() -> None:
        serving = asyncio.ensure_future(consumer.serve())
        # From its first turn on it can be told to end, however soon that is.
        await asyncio.sleep(0)
        begun.set()
        await serving

    with ThreadPoolExecutor(1, "penstock-consumer") as thread:
        run = thread.submit(asyncio.run, serve())
        begun.wait()
        try:
            yield consumer
        finally:
            consumer.stop()
            run.result()
