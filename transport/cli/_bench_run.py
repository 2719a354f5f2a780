"""What ``penstock bench`` measures: messages that are confirmed, delivered and acknowledged, through clients as programs have them.

It begins with one message at a time, each sent when the one before has come back: the round trip of a broker with nothing else to do.
Then senders send as fast as the broker takes it and receivers acknowledge as fast as they get it, all on one queue of its own. The queue
is deleted in the end, whatever the end is.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from actors.batch import MessageBatch
from streams import Running, Sink, Source
from transport.clients.administration import Administration
from transport.clients.backoff import Backoff
from transport.clients.delivery import DeliveredBatch
from transport.clients.receiver import Receiver
from transport.clients.sender import Sender
from transport.clients.sender_session import Confirmation
from transport.errors import BrokerError, ConnectionLostError
from transport.security.access import Access

QUEUE_PREFIX: Final = "penstock-bench-"
QUEUE_MESSAGES: Final = 100_000
"""What the queue may hold: receivers that are slower hold the senders up, and no disk is filled."""
ALONE_SHARE: Final = 0.2
"""Of the time, for one message at a time."""
POINTS: Final = 60
"""Of the rates over the time."""
MAX_LATENCIES: Final = 100_000
"""Round trips kept; of more, every second, every fourth and so on."""
MAX_IN_FLIGHT: Final = 10_000
DRAIN_SECONDS: Final = 15.0
"""For what has been sent to be confirmed and received, when the time is over."""
STAMP_BYTES: Final = 8
"""At the beginning of each payload: when it was made, in nanoseconds of this program's clock."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured.

    Attributes:
        send_address: the broker's.
        receive_address: likewise.
        seconds: for all of it.
        size: bytes of a payload.
        batch: messages that a sender is given at once.
        senders: how many at the same time.
        receivers: likewise.
        connect_timeout: seconds without a connection after which to give up.
        access: who this is.
    """

    send_address: str
    receive_address: str
    seconds: float
    size: int
    batch: int
    senders: int
    receivers: int
    connect_timeout: float
    access: Access


class Latencies:
    """Round trips in seconds, a bounded number of them, evenly chosen."""

    def __init__(self, most: int = MAX_LATENCIES) -> None:
        self._most = most
        self._every = 1
        self._skipped = 0
        self.values: list[float] = []

    def add(self, seconds: float) -> None:
        """One more."""
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self.values.append(seconds)
        if len(self.values) >= self._most:
            del self.values[::2]
            self._every *= 2

    def quantile(self, share: float) -> float | None:
        """What ``share`` of them are not over; None where there are none."""
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


@dataclass
class Measured:
    """What was measured.

    Attributes:
        queue: the name of the queue.
        sent: messages that the broker has confirmed.
        received: messages that were received and acknowledged.
        send_seconds: from the beginning to the last confirmation.
        receive_seconds: from the beginning to the last receipt.
        points: for each of `POINTS` times, messages a second confirmed, and received.
        alone: round trips of one message at a time.
        loaded: round trips under load, of the oldest of each delivery.
        client_cpu: how much of one processor this program used under load, 1 for all of it.
        broker_cpu: likewise the broker, where it is this program's own.
        sync_share: how much of the time under load the broker's disk was synced, where that can be known.
        backlog: the most messages that were under way at once.
        stopped: whether a signal came before the time was over.
        overdue: the part that was not over `DRAIN_SECONDS` after its time; None where each was.
    """

    queue: str
    sent: int = 0
    received: int = 0
    send_seconds: float = 0.0
    receive_seconds: float = 0.0
    points: list[tuple[float, float]] = field(default_factory=list)
    alone: Latencies = field(default_factory=Latencies)
    loaded: Latencies = field(default_factory=Latencies)
    client_cpu: float = 0.0
    broker_cpu: float | None = None
    sync_share: float | None = None
    backlog: int = 0
    stopped: bool = False
    overdue: str | None = None


class Bench:
    """One measurement.

    Args:
        plan: what is to be measured.
        broker_cpu: the seconds of processor that the broker has used, where it is this program's own.
    """

    def __init__(self, plan: Plan, broker_cpu: Callable[[], float | None] = lambda: None) -> None:
        self._plan = plan
        self._broker_cpu = broker_cpu
        self._over = asyncio.Event()
        self.measured = Measured(f"{QUEUE_PREFIX}{os.getpid()}-{secrets.token_hex(4)}")

    def stop(self) -> None:
        """End now, in good order; what was measured so far stands."""
        self.measured.stopped = True
        self._over.set()

    async def run(self) -> Measured:
        """Measure.

        Raises:
            TransportError: the broker refused, or was not there for too long.
        """
        plan = self._plan
        async with Administration(
            plan.send_address, connect_timeout=plan.connect_timeout, access=plan.access
        ) as administration:
            await administration.create_queue(self.measured.queue, max_messages=QUEUE_MESSAGES)
            try:
                await self._alone(plan.seconds * ALONE_SHARE)
                if not self._over.is_set():
                    before = await _storage(administration)
                    await self._loaded(plan.seconds * (1 - ALONE_SHARE))
                    self.measured.sync_share = _sync_share(
                        before, await _storage(administration), self.measured.receive_seconds
                    )
            finally:
                await self._delete(administration)
        return self.measured

    async def _delete(self, administration: Administration) -> None:
        queue = self.measured.queue
        try:
            await administration.delete_queue(queue)
        except ConnectionLostError:
            # The command's connection may have ended while all was measured: another is made for this.
            async with Administration(self._plan.send_address, access=self._plan.access) as again:
                with suppress(BrokerError):
                    await again.delete_queue(queue)

    def _sender(self) -> Sender:
        plan = self._plan
        return Sender(
            plan.send_address,
            queue=self.measured.queue,
            max_batch_messages=plan.batch,
            reconnect=Backoff(give_up_after=plan.connect_timeout),
            access=plan.access,
            # One that is only about to be heard of when the queue is deleted does not make it anew.
            create=False,
        )

    def _receiver(self) -> Receiver:
        plan = self._plan
        return Receiver(
            plan.receive_address,
            queue=self.measured.queue,
            max_in_flight=MAX_IN_FLIGHT,
            reconnect=Backoff(give_up_after=plan.connect_timeout),
            access=plan.access,
            create=False,
        )

    async def _alone(self, seconds: float) -> None:
        """One message at a time."""
        came = asyncio.Event()
        padding = secrets.token_bytes(self._plan.size - STAMP_BYTES)

        def received(delivered: DeliveredBatch) -> None:
            self.measured.alone.add(_age(delivered))
            delivered.acknowledge()
            came.set()

        async def one_by_one() -> AsyncGenerator[bytes]:
            until: float | None = None
            while True:
                came.clear()
                yield time.perf_counter_ns().to_bytes(STAMP_BYTES, "big") + padding
                await came.wait()
                if until is None:
                    # The first has waited for the connections, and for a login that may take longer than a short measurement.
                    self.measured.alone.values.clear()
                    until = time.perf_counter() + seconds
                elif time.perf_counter() >= until:
                    return

        receiving = self._receiver().batches().to(Sink.foreach(received)).run()
        sending = Source.from_async_iterable(one_by_one).via(self._sender()).to(Sink.ignore()).run()
        await self._all("one message at a time", [sending], [receiving], None, seconds)

    async def _loaded(self, seconds: float) -> None:
        """As much as goes through."""
        measured, plan = self.measured, self._plan
        padding = secrets.token_bytes(plan.size - STAMP_BYTES)
        ended = False
        came = asyncio.Event()
        began = time.perf_counter()

        async def batches() -> AsyncGenerator[MessageBatch]:
            while not ended:
                payload = time.perf_counter_ns().to_bytes(STAMP_BYTES, "big") + padding
                yield MessageBatch.from_payloads([payload] * plan.batch)

        def confirmed(confirmation: Confirmation) -> None:
            if confirmation.rejected is None:
                measured.sent += confirmation.count
                measured.send_seconds = time.perf_counter() - began

        def received(delivered: DeliveredBatch) -> None:
            measured.loaded.add(_age(delivered))
            delivered.acknowledge()
            measured.received += len(delivered)
            measured.receive_seconds = time.perf_counter() - began
            came.set()

        processor, broker = time.process_time(), self._broker_cpu()
        receiving = [self._receiver().batches().to(Sink.foreach(received)).run() for _ in range(plan.receivers)]
        sending = [
            Source.from_async_iterable(batches).via(self._sender()).to(Sink.foreach(confirmed)).run()
            for _ in range(plan.senders)
        ]
        watching = asyncio.create_task(self._watch(seconds))

        def note_processors() -> None:
            spent = time.perf_counter() - began
            measured.client_cpu = (time.process_time() - processor) / spent
            after = self._broker_cpu()
            measured.broker_cpu = None if broker is None or after is None else (after - broker) / spent

        async def whole() -> None:
            nonlocal ended
            await self._pass(seconds)
            note_processors()
            ended = True

        clock = asyncio.create_task(whole())
        try:
            await self._all("the drain", [*sending, clock], receiving, lambda: self._drain(came), seconds)
        finally:
            if not ended:
                note_processors()
            watching.cancel()
            clock.cancel()
            await asyncio.wait([watching, clock])

    async def _all(
        self,
        what: str,
        finishing: list[Any],
        lasting: list[Running[Any]],
        then: Callable[[], Awaitable[None]] | None,
        seconds: float,
    ) -> None:
        """Wait for those that end by themselves, and for ``then``; end all when that is done, fails, is stopped or takes too long."""
        tasks = [
            asyncio.ensure_future(_ended(finishing, then)),
            asyncio.create_task(self._over.wait()),
            *map(asyncio.ensure_future, lasting),
        ]
        try:
            done, _ = await asyncio.wait(
                tasks,
                timeout=self._plan.connect_timeout + seconds + DRAIN_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                task.result()
            if not done:
                self.measured.overdue = self.measured.overdue or what
        finally:
            for each in (*finishing, *lasting):
                each.cancel()
            for task in tasks:
                task.cancel()
            # The first failure is raised above; those of others that failed with it are taken note of, and no more.
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass(self, seconds: float) -> None:
        """Return when so much time has passed, or the end has come."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    async def _drain(self, came: asyncio.Event) -> None:
        """Wait for what has been sent to be received: all of it is confirmed by now."""
        while self.measured.received < self.measured.sent:
            came.clear()
            await came.wait()

    async def _watch(self, seconds: float) -> None:
        """Note the rates, each so often."""
        measured = self.measured
        last, sent, received = time.perf_counter(), 0, 0
        for _ in range(POINTS):
            await self._pass(seconds / POINTS)
            now = time.perf_counter()
            span = max(now - last, 1e-9)
            measured.points.append(((measured.sent - sent) / span, (measured.received - received) / span))
            measured.backlog = max(measured.backlog, measured.sent - measured.received)
            last, sent, received = now, measured.sent, measured.received


async def _ended(finishing: list[Awaitable[Any]], then: Callable[[], Awaitable[None]] | None) -> None:
    await asyncio.gather(*finishing)
    if then is not None:
        await then()


def _age(delivered: DeliveredBatch) -> float:
    """Seconds since the oldest message of it was given to its sender."""
    made = int.from_bytes(delivered.batch.payloads[0][:STAMP_BYTES], "big")
    return (time.perf_counter_ns() - made) / 1e9


async def _storage(administration: Administration) -> dict[str, Any] | None:
    """The broker's figures of its journal; None without one, and without the right to see them."""
    try:
        figures = (await administration.statistics()).get("storage")
    except BrokerError:
        return None
    return figures if isinstance(figures, dict) else None


def _sync_share(before: dict[str, Any] | None, after: dict[str, Any] | None, seconds: float) -> float | None:
    """How much of ``seconds`` the disk was synced between two looks at the broker's figures."""
    if before is None or after is None or seconds <= 0:
        return None
    try:
        spent = [float(facts["syncs"]) * float(facts["sync_ms"]) / 1000 for facts in (before, after)]
    except (KeyError, TypeError, ValueError):
        return None
    return max(0.0, spent[1] - spent[0]) / seconds
