"""The roles with many connections: idle ones, and receivers of which only some have demand."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from collections.abc import Callable
from typing import Any

from benchmarks._worker import Parent, run_loop
from streams import RunnableGraph, Sink, Source
from transport import Backoff, Delivery, Receiver, Sender
from transport.clients.link import BrokerLink
from transport.wire.messages import VERSION, Cancel, Frame, Hello, Welcome

AT_ONCE = 100
"""Connections that are being made at one time: many more would overflow the listener's queue, and measure the kernel's retries."""
CLOSE_TIMEOUT = 60.0
"""Seconds for all of them to end."""
NO_RETRY = Backoff(give_up_after=0.0)


def raise_file_limit() -> int:
    """As many open files as this process may have; the broker and the clients of thousands of connections need them."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class IdleLink:
    """A receiver's connection that never asks for anything.

    Attributes:
        opened: resolved when the broker has answered HELLO.
        closed: resolved when the broker has closed after CANCEL.
    """

    def __init__(self, address: str, queue: str) -> None:
        loop = asyncio.get_running_loop()
        self._queue = queue
        self._link = BrokerLink(address, self._hello, self, NO_RETRY)
        self._link.over.add_done_callback(self._over)
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()

    async def open(self) -> None:
        """Connect."""
        self._link.start()
        await self.opened

    async def close(self) -> None:
        """Say CANCEL, and wait until the broker has taken note."""
        self._link.send(Cancel())
        self._link.finish()
        await self.closed

    def _hello(self) -> Hello:
        return Hello(VERSION, "receiver", self._queue, None, {})

    # LinkUser

    def link_opened(self, welcome: Welcome) -> None:  # noqa: ARG002 - only that it came counts
        """The broker has taken the connection in."""
        self.opened.set_result(None)

    def link_frame(self, frame: Frame) -> None:
        """Nothing was asked for."""
        self.link_failed(RuntimeError(f"{type(frame).__name__} came to a receiver without demand"))

    def link_writable(self) -> None:
        """Nothing is held back."""

    def link_lost(self, error: Exception | None) -> None:
        """What follows says whether it was meant."""

    def link_failed(self, error: Exception) -> None:
        """Whoever waits gets the error."""
        for waiting in (self.opened, self.closed):
            if not waiting.done():
                waiting.set_exception(error)

    def _over(self, _future: asyncio.Future[None]) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


async def open_links(address: str, queue: str, count: int) -> list[IdleLink]:
    """``count`` connections, ``AT_ONCE`` at a time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def opened() -> IdleLink:
        async with gate:
            link = IdleLink(address, queue)
            await link.open()
            return link

    return await asyncio.gather(*(opened() for _ in range(count)))


async def close_links(links: list[IdleLink]) -> None:
    """End them all at one time, as when a program ends."""
    async with asyncio.timeout(CLOSE_TIMEOUT):
        await asyncio.gather(*(link.close() for link in links))


def connect_and_disconnect(parent: Parent, address: str, queue: str, count: int, uvloop: bool) -> None:
    """Time ``count`` connections being made, and being ended."""

    async def run() -> tuple[float, float]:
        started = time.monotonic()
        links = await open_links(address, queue, count)
        connected = time.monotonic()
        await close_links(links)
        return connected - started, time.monotonic() - connected

    raise_file_limit()
    parent.say(ready=True)
    parent.wait()
    connecting, disconnecting = run_loop(run(), uvloop)
    parent.say(connect_s=connecting, disconnect_s=disconnecting)


def stay_idle(
    parent: Parent, send_address: str, receive_address: str, queue: str, senders: int, receivers: int, uvloop: bool
) -> None:
    """Real senders whose sources give nothing, and receivers that have asked and get nothing, until told to stop."""

    async def run() -> None:
        graphs: list[RunnableGraph[Any]] = [
            Source.queue(1).to(Sender(send_address, queue=queue)) for _ in range(senders)
        ]
        graphs += [Receiver(receive_address, queue=queue).to(Sink.acknowledge()) for _ in range(receivers)]
        runs = [asyncio.ensure_future(graph.run()) for graph in graphs]
        await parent.told()
        for one in runs:
            if one.done():
                one.result()
            one.cancel()
        await asyncio.gather(*runs, return_exceptions=True)

    parent.say(ready=True)
    run_loop(run(), uvloop)


def receive_in_crowd(
    parent: Parent,
    address: str,
    queue: str,
    messages: int,
    connected: int,
    active: int,
    max_in_flight: int,
    uvloop: bool,
) -> None:
    """``connected`` receivers, of which ``active``, in the middle of the order in which they came, take ``messages`` in all."""
    counts = [0] * active

    async def run() -> None:
        done = asyncio.Event()
        left = messages
        idle = connected - active
        links = await open_links(address, queue, idle // 2)

        def taker(index: int) -> Callable[[Delivery], None]:
            def take(delivery: Delivery) -> None:
                nonlocal left
                delivery.acknowledge()
                counts[index] += 1
                left -= 1
                if not left:
                    done.set()

            return take

        receiver = Receiver(address, queue=queue, max_in_flight=max_in_flight)
        runs = [receiver.to(Sink.foreach(taker(index))).run() for index in range(active)]
        links += await open_links(address, queue, idle - idle // 2)
        parent.say(ready=True)
        await done.wait()
        ended = time.monotonic()
        for one in runs:
            one.cancel()
        for one in runs:
            with contextlib.suppress(asyncio.CancelledError):
                await one
        await close_links(links)
        parent.say(ended=ended, counts=counts)

    raise_file_limit()
    run_loop(run(), uvloop)
