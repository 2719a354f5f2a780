"""The clients that live through the kills: senders with confirmations, receivers that acknowledge in ways of their own.

All of them reconnect by themselves; what they see they tell the `History`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple, Protocol

from streams import Running, Sink, Source
from tests.fault.kill_history import Arrival, History, payload_of
from transport import Backoff, DeliveredBatch, Delivery, MessageBatch, Receiver, Sender
from transport.clients.sender_session import Confirmation

LARGEST_BATCH = 100
SENDER_WINDOWS = (100, 2_000)
"""Messages under way of a sender: between the smallest and the largest."""
RECEIVER_WINDOWS = (50, 2_000)
BACK_AT_ONCE = Backoff(minimum=0.02, maximum=0.1, give_up_after=60.0)
"""The broker is away for less than a second at a time; the sooner clients are back, the more kills find them at work."""
REJECTED = 0.02
"""Share of what it takes that a receiver gives back."""


class Counter:
    """Counts events, and wakes whoever waits for a number of them."""

    def __init__(self) -> None:
        self.value = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def add(self, count: int) -> None:
        """``count`` more have happened."""
        self.value += count
        for waiting in [one for one in self._waiting if one[0] <= self.value]:
            self._waiting.remove(waiting)
            if not waiting[1].done():
                waiting[1].set_result(None)

    async def more(self, count: int) -> None:
        """Wait until ``count`` more have happened."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self.value + count, done))
        self.add(0)
        await done


class Load:
    """What all clients of a run share.

    Attributes:
        history: what they saw.
        confirmations: messages confirmed.
        deliveries: messages delivered.
        life: which start of the broker this is; an acknowledgement counts only in the one in which the message came.
        ending: set when senders are to take no more, and receivers to hold nothing back.
    """

    def __init__(self, senders: int) -> None:
        self.history = History(senders)
        self.confirmations = Counter()
        self.deliveries = Counter()
        self.life = 0
        self.ending = False


class LoadSender:
    """One producer: batches of 1 to ``LARGEST_BATCH`` numbered payloads, as fast as the broker takes them."""

    def __init__(self, load: Load, index: int, random: Random) -> None:
        self._load = load
        self._index = index
        self._random = random
        self._window = random.randint(*SENDER_WINDOWS)

    def run(self, address: str, queue: str) -> Running[int]:
        """Send until the load ends; done when everything is confirmed."""
        sender = Sender(
            address,
            queue=queue,
            client_id=f"load-{self._index}",
            max_in_flight=self._window,
            reconnect=BACK_AT_ONCE,
        )
        return self._source().via(sender).to(Sink.foreach(self._confirmed)).run()

    def _source(self) -> Source[MessageBatch, None]:
        return Source.from_iterable(self._batches)

    def _batches(self) -> Iterator[MessageBatch]:
        while not self._load.ending:
            numbers = self._load.history.hand_over(self._index, self._random.randint(1, LARGEST_BATCH))
            yield MessageBatch.from_payloads([payload_of(self._index, number) for number in numbers])

    def _confirmed(self, confirmation: Confirmation) -> None:
        self._load.history.confirm(self._index, confirmation.sequence, confirmation.count)
        self._load.confirmations.add(confirmation.count)


class Answerable(Protocol):
    """A delivery, or a whole batch of them."""

    def acknowledge(self) -> None: ...
    def reject(self, delay: float = 0.0, error: str | None = None) -> None: ...


class Held(NamedTuple):
    """Delivered, not answered yet."""

    what: Answerable
    messages: list[tuple[int, int]]
    life: int


class LoadReceiver:
    """One receiver. It holds some of what it got unanswered, so that each kill finds some; answers batches or single messages.

    The even ones take batches and answer the oldest first, the odd ones take messages and answer any.
    """

    def __init__(self, load: Load, index: int, random: Random) -> None:
        self._load = load
        self._index = index
        self._random = random
        self._in_flight = random.randint(*RECEIVER_WINDOWS)
        # Far below the window: a receiver that held all of it would have no demand left and wait for itself.
        self._hold = self._in_flight // 4
        self._held: deque[Held] = deque()
        self._held_messages = 0

    def run(self, address: str, queue: str) -> Running[int]:
        """Receive until cancelled."""
        receiver = Receiver(address, queue=queue, max_in_flight=self._in_flight, reconnect=BACK_AT_ONCE)
        if self._index % 2:
            return receiver.to(Sink.foreach(self._take_message)).run()
        return receiver.batches().to(Sink.foreach(self._take_batch)).run()

    def release(self) -> None:
        """Answer all that is held."""
        self._answer_down_to(0)

    def _take_batch(self, delivered: DeliveredBatch) -> None:
        messages = [
            self._seen(delivered.first + index, payload, delivered.possibly_replayed)
            for index, payload in enumerate(delivered.payloads())
        ]
        self._take(delivered, [message for message in messages if message is not None], len(messages))

    def _take_message(self, delivery: Delivery) -> None:
        message = self._seen(delivery.sequence, delivery.payload, delivery.possibly_replayed)
        self._take(delivery, [] if message is None else [message], 1)

    def _seen(self, sequence: int, payload: bytes, flagged: bool) -> tuple[int, int] | None:
        return self._load.history.deliver(self._index, sequence, payload, flagged)

    def _take(self, what: Answerable, messages: list[tuple[int, int]], count: int) -> None:
        if self._random.random() < REJECTED and not self._load.ending:
            what.reject()
        else:
            self._held.append(Held(what, messages, self._load.life))
            self._held_messages += len(messages)
            self._answer_down_to(0 if self._load.ending else self._hold)
        self._load.deliveries.add(count)

    def _answer_down_to(self, most: int) -> None:
        while self._held and self._held_messages > most:
            if self._index % 2:
                self._held.rotate(self._random.randrange(len(self._held)))
            held = self._held.popleft()
            self._held_messages -= len(held.messages)
            held.what.acknowledge()
            # One of an earlier life has no effect: its connection is gone.
            if held.life == self._load.life:
                for sender, number in held.messages:
                    self._load.history.acknowledge(sender, number)


class LineReceiver:
    """Takes a file's lines and acknowledges each batch at once.

    Attributes:
        arrivals: every delivery, in order.
    """

    def __init__(self, deliveries: Counter) -> None:
        self.arrivals: list[Arrival] = []
        self._deliveries = deliveries

    def run(self, address: str, queue: str) -> Running[int]:
        """Receive until cancelled."""
        receiver = Receiver(address, queue=queue, max_in_flight=RECEIVER_WINDOWS[1], reconnect=BACK_AT_ONCE)
        return receiver.batches().to(Sink.foreach(self._take)).run()

    def _take(self, delivered: DeliveredBatch) -> None:
        self.arrivals += [
            Arrival(delivered.first + index, line, delivered.possibly_replayed)
            for index, line in enumerate(delivered.payloads())
        ]
        delivered.acknowledge()
        self._deliveries.add(len(delivered))


def send_lines(
    address: str, queue: str, lines: list[bytes], random: Random, confirmed: Callable[[Confirmation], Any]
) -> Running[int]:
    """Send ``lines`` in order in batches of 1 to ``LARGEST_BATCH``; done when all are confirmed."""

    def batches() -> Iterator[MessageBatch]:
        start = 0
        while start < len(lines):
            stop = start + random.randint(1, LARGEST_BATCH)
            yield MessageBatch.from_payloads(lines[start:stop])
            start = stop

    sender = Sender(address, queue=queue, client_id="lines", max_in_flight=SENDER_WINDOWS[0], reconnect=BACK_AT_ONCE)
    return Source.from_iterable(batches).via(sender).to(Sink.foreach(confirmed)).run()
