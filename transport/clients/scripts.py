"""`send` and `receive`: for scripts, which know nothing of event loops.

Either has an event loop of its own for as long as it is at work: `send` in the thread that calls it, `receive` in a thread beside it.
So the connection of a `receive` lives, and what was acknowledged leaves, while the body of the loop works on a message.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from streams import Sink, SinkQueue, Source
from transport.clients.delivery import Delivery
from transport.clients.receiver import Receiver
from transport.clients.receiver_session import DEFAULT_MAX_IN_FLIGHT
from transport.clients.sender import Sender, SendSummary
from transport.clients.sender_batches import Sendable
from transport.errors import LocalProtocolError
from transport.security.access import Access

if TYPE_CHECKING:
    from datetime import datetime

    from transport.clients.tracing import Tracing

T = TypeVar("T")

DEFAULT_PREFETCH = 16
"""Messages that wait for the body of the loop, at most, with the one that it has; what it takes in one go of the other thread."""
CLOSE_TIMEOUT = 30.0
"""Seconds that leaving a `receive` waits for its connection to end: longer than what has deadlines of its own there."""


def send(
    addresses: str | Sequence[str],
    queue: str,
    messages: Iterable[Sendable],
    *,
    delay: float | None = None,
    ttl: float | None = None,
    client_id: str | None = None,
    timeout: float | None = None,
    access: Access | None = None,
    tracing: Tracing | None = None,
    deliver_at: float | datetime | None = None,
) -> SendSummary:
    """Sends messages to a queue, and returns when all of them are confirmed, and so stored: ``send(address, "orders", [b"a", b"b"])``.

    Args:
        addresses: the broker's sending address ``host:port``, or several of a cluster, in a sequence or with commas.
        queue: the queue's name.
        messages: bytes, `Message`, `MessageBatch`, or one of them `Timed`. What is no list or tuple is gone through in a thread of its
            own, as its messages are wanted, and may block.
        delay: seconds until they can be received, at most 366 days; None for what the queue declares.
        ttl: seconds after which they are of no use, at most 3660 days, 0 for at once or never; None likewise.
        client_id: the producer's name, under which the broker recognizes what is sent again; random by default.
        timeout: seconds for all of it; None to wait for a queue that is full for as long as that lasts. An iterable that blocks cannot be
            interrupted: it is waited for beyond that, until it has come back.
        access: who this is, and whether TLS is spoken; None for what the environment says.
        tracing: a `Tracing`, as of `Sender`.
        deliver_at: in the place of a delay, from when they can be received; as of `Sender`.

    Raises:
        TransportError: as of `Sender`: no broker for a minute (`ConnectionLostError`), a queue that rejects (`QueueFullError`) ...
        TimeoutError: not all is confirmed in time. What was confirmed by then is stored.
        RuntimeError: an event loop is running in this thread, and would be blocked.
    """
    _refuse_to_block_a_loop("send()", "await Source.from_iterable(messages).to(Sender(addresses, queue=queue)).run()")
    if isinstance(messages, bytes | bytearray | memoryview | str):
        raise LocalProtocolError(f"send: messages is one {type(messages).__name__}; give a list of them: [message]")
    sender = Sender(
        addresses,
        queue=queue,
        delay=delay,
        deliver_at=deliver_at,
        ttl=ttl,
        client_id=client_id,
        access=access,
        tracing=tracing,
    )
    at_hand = isinstance(messages, list | tuple)
    # Whether there are more is seen by asking: one that blocks is asked one ahead, or its end would not be seen where the queue is full.
    source = Source.from_iterable(messages) if at_hand else Source.from_blocking_iterable(messages).buffer(1)

    async def sent() -> SendSummary:
        try:
            async with asyncio.timeout(timeout) as limit:
                return await source.to(sender).run()
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"send: not all is confirmed by queue {queue} after {timeout:g} s") from None
            raise

    return asyncio.run(sent())


def receive(
    addresses: str | Sequence[str],
    queue: str,
    *,
    idle_exit: float | None = None,
    limit: int | None = None,
    prefetch: int = DEFAULT_PREFETCH,
    max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
    client_id: str | None = None,
    access: Access | None = None,
) -> Generator[Delivery, None, None]:
    """The messages of a queue, for a ``for`` in synchronous code.

    ``for delivery in receive("127.0.0.1:9183", "orders", idle_exit=1.0): print(delivery.payload)``. A message is acknowledged when the
    loop asks for the next one, unless the body has answered for it (`Delivery.acknowledge`, `Delivery.reject`, `Delivery.dead_letter`).
    Where the loop is left, by ``break`` or by an exception, nobody asks: the message at hand goes back to the queue and has failed,
    unless it was acknowledged. What waits behind it goes back too, and has not failed.

    Messages are acknowledged, and the connection is kept, in a thread of its own, while the body works. The body has the broker's
    visibility timeout for a message and those that wait before it: give a smaller ``prefetch`` where it is slow, or `Delivery.extend`.

    Args:
        addresses: the broker's receiving address ``host:port``, or several of a cluster, in a sequence or with commas.
        queue: the queue's name.
        idle_exit: seconds without a message after which the loop ends; None for never. A broker that is away is not idle, but an error.
        limit: the loop ends after so many messages were acknowledged; None for never.
        prefetch: messages that wait for the body of the loop, at most.
        max_in_flight: messages delivered and not acknowledged, at most.
        client_id: a name for the statistics.
        access: who this is, and whether TLS is spoken; None for what the environment says.

    Raises:
        TransportError: as of `Receiver`; from the loop, where the connection fails.
        RuntimeError: an event loop is running in this thread, and would be blocked.
        ValueError: ``idle_exit`` is not more than 0, or ``prefetch`` less than 1.
    """
    _refuse_to_block_a_loop("receive()", "async for delivery in Receiver(addresses, queue=queue): ...")
    if prefetch < 1 or (idle_exit is not None and not idle_exit > 0):
        raise ValueError(
            f"receive: prefetch={prefetch} must be 1 or more, and idle_exit={idle_exit} more than 0 seconds, or None"
        )
    receiver = Receiver(
        addresses, queue=queue, max_in_flight=max_in_flight, limit=limit, client_id=client_id, access=access
    )
    return _received(receiver, idle_exit, prefetch)


def _refuse_to_block_a_loop(what: str, instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{what} would block the event loop that runs in this thread; there, use: {instead}")


def _received(receiver: Receiver, idle_exit: float | None, prefetch: int) -> Generator[Delivery, None, None]:
    _refuse_to_block_a_loop("receive()", "async for delivery in Receiver(addresses, queue=queue): ...")
    reception = _Reception(receiver, idle_exit, prefetch)
    taken: deque[_PostedDelivery] = deque()
    try:
        while taken := reception.take():
            while taken:
                yield taken[0]
                taken.popleft().acknowledge()
    finally:
        reception.close(taken)


class _PostedDelivery(Delivery):
    """A delivery in another thread than its connection: what is said of it is said there, in the order in which it is said here."""

    __slots__ = ("_loop",)

    def __init__(self, delivery: Delivery, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(delivery._batch, delivery._index, delivery.payload)
        self._loop = loop

    def acknowledge(self) -> None:
        self._say(super().acknowledge)

    def _reject(self, delay: float, failed: bool = True, error: str | None = None) -> None:
        self._say(super()._reject, delay, failed, error)

    def _dead_letter(self, reason: str) -> None:
        self._say(super()._dead_letter, reason)

    def _extend(self, seconds: float) -> None:
        self._say(super()._extend, seconds)

    def _say(self, what: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the message has gone back to the queue
            self._loop.call_soon_threadsafe(what, *arguments)


class _Reception:
    """One `receive` at work: a thread with an event loop, in which the receiver runs."""

    def __init__(self, receiver: Receiver, idle_exit: float | None, prefetch: int) -> None:
        self._receiver = receiver
        self._idle_exit = idle_exit
        self._most = prefetch
        self._begun: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, SinkQueue[Delivery]]] = (
            concurrent.futures.Future()
        )
        self._left = asyncio.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(receiver, prefetch)), name="penstock receive", daemon=True
        )
        self._thread.start()
        self._loop, self._queue = self._begun.result()
        # A loop that an exception has left may be held by its traceback until the interpreter is gone.
        atexit.register(self.close)

    def take(self) -> deque[_PostedDelivery]:
        """Waits for messages; none at the end."""
        taking = asyncio.run_coroutine_threadsafe(self._take(), self._loop)
        try:
            return taking.result()
        except BaseException:
            taking.cancel()  # Ctrl-C: nobody takes what would come
            raise

    def close(self, taken: Sequence[_PostedDelivery] = ()) -> None:
        """Gives back what was taken and not acknowledged, and waits until everything that was said has left.

        Args:
            taken: the first is the one that the body had when it was left, and has failed; the others nobody has seen.
        """
        atexit.unregister(self.close)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._leave, tuple(taken))
            self._thread.join(CLOSE_TIMEOUT)

    def _leave(self, taken: Sequence[_PostedDelivery]) -> None:
        # Nothing more is asked for from here on: else what is given back would come here again at once, and be counted.
        self._queue.cancel()
        for number, delivery in enumerate(taken):
            Delivery._reject(delivery, 0.0, failed=number == 0)
        self._left.set()

    async def _run(self, receiver: Receiver, prefetch: int) -> None:
        try:
            running = receiver.to(Sink.queue(prefetch)).run()
        except BaseException as error:  # told to the thread that waits for it
            self._begun.set_exception(error)
            raise
        self._begun.set_result((asyncio.get_running_loop(), running.value))
        await self._left.wait()
        await running.stop()

    async def _take(self) -> deque[_PostedDelivery]:
        queue = self._queue
        while True:
            try:
                async with asyncio.timeout(self._idle_exit) as limit:
                    first = await queue.pull()
                break
            except TimeoutError:
                if not limit.expired():
                    raise
                # Idle is a queue that gives nothing, not a broker that is away: of that the link says soon enough.
                if self._receiver.connected:
                    return deque()
        taken = [] if first is None else [first]
        while len(queue) and len(taken) < self._most and (another := await queue.pull()) is not None:
            taken.append(another)
        return deque(_PostedDelivery(delivery, self._loop) for delivery in taken)
