"""The programs of the workload, written as users write theirs: a producer, a consumer, and at the end one that acknowledges all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from streams import Sink, Source, StreamClosedError
from streams.testkit import elapse
from tests.simulation.history import Confirmed, Handled, History, Noted, Offered, Refused, name_of
from tests.simulation.said import Saying, batch_of
from transport import Backoff, BrokerError, Delivery, MessageBatch, Receiver, Sender, TransportError
from transport.clients.sender_session import Confirmation

if TYPE_CHECKING:
    from tests.simulation.loop import Process
    from tests.simulation.plan import ConsumerPlan, ProducerPlan

SEND_ADDRESS = "broker:7001"
RECEIVE_ADDRESS = "broker:7002"
LONGEST_ACKNOWLEDGEMENT_DELAY = 4.0
LONGEST_RETURN_DELAY = 2.0
# The jitter of the clients' own would not be the seed's.
PATIENCE = Backoff(minimum=0.05, maximum=2.0, jitter=0.0, give_up_after=None)


class Client:
    """A program that can be killed and started again.

    Attributes:
        name: whose.
        process: its life, None between two.
        finished: done once it has nothing left to do.
        send_address, receive_address: where it connects to; several of a cluster.
    """

    def __init__(self, name: str, seed: int, history: History) -> None:
        self.name = name
        self.process: Process | None = None
        self.send_address, self.receive_address = SEND_ADDRESS, RECEIVE_ADDRESS
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._seed = seed
        self._lives = self._taken_over = 0
        self._history = history
        self._loop = asyncio.get_running_loop()
        self.random = Random(0)
        self._failed: Callable[[str, BaseException], None]

    def start(self, process: Process, failed: Callable[[str, BaseException], None]) -> None:
        """Begin a life; ``failed`` is told of every failure that no program should see."""
        self._lives += 1
        self._failed = failed
        self.random = Random(f"{self._seed} {self.name} {self._lives}")
        self.process = process
        self._history.add(Noted(self._loop.time(), f"{self.name} starts, life {self._lives}"))

        self._spawn(process)

    def _spawn(self, process: Process) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled() or (error := task.exception()) is None:
                return
            if was_taken_over(error) and self._taken_over < self._lives - 1:
                # What a life that was killed had said to the broker may come late, and is the newest word then. Once for each such life.
                self._taken_over += 1
                self._history.add(
                    Noted(self._loop.time(), f"{self.name} is taken over by a former life, and begins anew")
                )
                self._spawn(process)
                return
            self._failed(self.name, error)

        process.spawn(self._live()).add_done_callback(ended)

    async def _live(self) -> None:
        raise NotImplementedError


class Producer(Client):
    """Sends numbered messages, each different, and notes what is confirmed."""

    def __init__(self, plan: ProducerPlan, seed: int, history: History) -> None:
        super().__init__(plan.name, seed, history)
        self.plan = plan
        self._next = 0
        self._offered: list[str] = []
        self._saying = Saying(plan.says, plan.name, seed)
        self._confirmed = 0

    async def _live(self) -> None:
        plan = self.plan
        # What a life has sent and not seen confirmed is nobody's business in the next: nothing is sent twice by the program.
        self._offered, self._confirmed = [], 0
        sender = Sender(
            self.send_address,
            queue=plan.queue,
            client_id=plan.name if plan.named else None,
            max_in_flight=plan.max_in_flight,
            reconnect=PATIENCE,
            delay=plan.delay,
            ttl=plan.ttl,
            on_rejected="drop" if plan.drops else "fail",
        )
        running = Source.queue(1).via(sender).to(Sink.foreach(self._confirm)).run()
        while self._next < plan.total:
            await self._offer(running, min(self.random.randint(1, plan.largest_batch), plan.total - self._next))
            if plan.pause:
                await elapse(self.random.expovariate(1 / plan.pause))
        running.value.complete()
        await running
        self.finished.set_result(None)

    async def _offer(self, running: Any, count: int) -> None:
        await offered(running, self._batch(count))

    def _batch(self, count: int) -> MessageBatch:
        first, self._next = self._next, self._next + count
        payloads = [self._payload(number) for number in range(first, first + count)]
        names = tuple(map(name_of, payloads))
        self._history.add(Offered(self._loop.time(), self.plan.queue, self.name, first, names))
        self._offered += names
        return batch_of(payloads)

    def _payload(self, number: int) -> bytes:
        return f"{self._saying.label()}{self.name}/{number}|".encode() + self.random.randbytes(
            self.random.randint(0, self.plan.largest_payload)
        )

    def _confirm(self, confirmation: Confirmation) -> None:
        first = self._confirmed
        self._confirmed += confirmation.count
        names = tuple(self._offered[first : self._confirmed])
        assert len(names) == confirmation.count, f"{self.name}: more is confirmed than was offered"
        kind = Confirmed if confirmation.rejected is None else Refused
        self._history.add(kind(self._loop.time(), self.plan.queue, names))


class Consumer(Client):
    """Takes messages and does with them what its plan says; leaves and comes back."""

    def __init__(self, plan: ConsumerPlan, seed: int, history: History) -> None:
        super().__init__(plan.name, seed, history)
        self.plan = plan

    async def _live(self) -> None:
        plan = self.plan
        while True:
            receiver = Receiver(
                self.receive_address,
                queue=plan.queue,
                max_in_flight=plan.max_in_flight,
                reconnect=PATIENCE,
                priority=plan.priority,
            )
            running = receiver.to(Sink.foreach(self._handle)).run()
            try:
                await stay(running, self.random.expovariate(1 / plan.stays))
            except TransportError as error:
                # No network, however bad, ends a receiver's stream; whatever did, the program comes back.
                self._failed(self.name, error)
            await elapse(self.random.random())

    def _handle(self, delivery: Delivery) -> None:
        note_handled(self._history, self._loop.time(), delivery)
        plan, random = self.plan, self.random
        chance = random.random()
        if chance < plan.late:
            self._loop.call_later(random.uniform(0, LONGEST_ACKNOWLEDGEMENT_DELAY), delivery.acknowledge)
        elif (chance := chance - plan.late) < plan.returned:
            delivery.reject(random.choice((0.0, random.uniform(0, LONGEST_RETURN_DELAY))))
        elif (chance := chance - plan.returned) < plan.forgotten:
            return
        elif chance - plan.forgotten < plan.extended:
            seconds = random.uniform(0.1, LONGEST_ACKNOWLEDGEMENT_DELAY)
            delivery.extend(seconds)
            self._loop.call_later(random.uniform(0, seconds), delivery.acknowledge)
        else:
            delivery.acknowledge()


class Drainer(Client):
    """Acknowledges whatever is left of a queue."""

    def __init__(self, queue: str, seed: int, history: History) -> None:
        super().__init__(f"{queue}-drainer", seed, history)
        self._queue = queue

    async def _live(self) -> None:
        while True:
            receiver = Receiver(self.receive_address, queue=self._queue, reconnect=PATIENCE)
            try:
                await receiver.to(Sink.foreach(self._handle)).run()
            except TransportError as error:
                self._failed(self.name, error)

    def _handle(self, delivery: Delivery) -> None:
        note_handled(self._history, self._loop.time(), delivery)
        delivery.acknowledge()


async def offered(running: Any, batch: Any) -> None:
    """Give a batch to a sender; raises what its stream has ended with, if it has."""
    try:
        await running.value.offer_wait(batch)
    except StreamClosedError:
        await running
        raise


def was_taken_over(error: BaseException) -> bool:
    """Whether a program has failed because a connection under its name came behind its own."""
    causes: BaseException | None = error
    while causes is not None:
        if isinstance(causes, BrokerError) and causes.code == "taken-over":
            return True
        causes = causes.__cause__
    return False


async def stay(running: Any, seconds: float) -> None:
    """Let a stream run so long, then end it in good order."""
    leaving = asyncio.get_running_loop().call_later(seconds, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
    finally:
        leaving.cancel()


def note_handled(history: History, now: float, delivery: Delivery) -> None:
    """Note what the program was handed."""
    history.add(
        Handled(
            now,
            delivery.queue,
            delivery.sequence,
            name_of(delivery.payload),
            delivery.delivery_count,
            delivery.possibly_replayed,
        )
    )
