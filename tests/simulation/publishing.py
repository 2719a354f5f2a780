"""Programs that publish to exchanges, and programs that change meanwhile where it goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.exchanges.delayed import DELAY
from streams import Sink, Source
from streams.testkit import elapse
from tests.simulation.clients import PATIENCE, Client, Consumer, offered
from tests.simulation.exchange_plan import KINDS, SIZES, Bound, ExchangePlan
from tests.simulation.history import CameBack, History, Noted, PublishConfirmed, Published, name_of
from transport import Administration, BrokerError, Message, MessageBatch, Receiver, Sender, TransportError
from transport.clients.sender_session import Confirmation

if TYPE_CHECKING:
    from tests.simulation.exchange_plan import DefinerPlan, PublisherPlan

REFUSALS = frozenset({"not-found", "already-exists", "in-use", "queue-deleted"})
"""What may be said of what somebody else has deleted or declared; nothing has changed then."""


class Publisher(Client):
    """Publishes numbered messages, each different, and notes what is confirmed and what comes back."""

    def __init__(self, plan: PublisherPlan, seed: int, history: History) -> None:
        super().__init__(plan.name, seed, history)
        self.plan = plan
        self._next = 0
        self._offered: list[str] = []
        self._confirmed = 0

    async def _live(self) -> None:
        plan = self.plan
        self._offered, self._confirmed = [], 0
        sender = Sender(
            self.send_address,
            exchange=plan.exchange,
            routing_key=plan.routing_key,
            mandatory=plan.mandatory,
            on_returned=self._came_back if plan.mandatory else None,
            client_id=plan.name if plan.named else None,
            max_in_flight=plan.max_in_flight,
            reconnect=PATIENCE,
            delay=plan.delay,
        )
        running = Source.queue(1).via(sender).to(Sink.foreach(self._confirm)).run()
        while self._next < plan.total:
            batch = self._batch(min(self.random.randint(1, plan.largest_batch), plan.total - self._next))
            await offered(running, batch)
            if plan.pause:
                await elapse(self.random.expovariate(1 / plan.pause))
        running.value.complete()
        await running
        self.finished.set_result(None)

    def _batch(self, count: int) -> MessageBatch:
        first, self._next = self._next, self._next + count
        messages, keys, headers = [], [], []
        by_headers = self.plan.exchange == "headers"
        for number in range(first, first + count):
            payload = f"{self.name}/{number}|".encode() + self.random.randbytes(
                self.random.randint(0, self.plan.largest_payload)
            )
            own = None if self.plan.routing_key is not None and self.random.random() < 0.7 else self._key()
            has = {"kind": self.random.choice(KINDS), "size": self.random.choice(SIZES)} if by_headers else {}
            if self.plan.waits:
                has |= self._wait()
            messages.append(Message(payload, routing_key=own, headers=has or None))
            keys.append(own or self.plan.routing_key or "")
            if self.plan.delay is not None:
                # It goes before what the message says.
                has = {**has, DELAY: str(round(self.plan.delay * 1000))}
            headers.append(tuple(sorted(has.items())))
        names = tuple(name_of(each.payload) for each in messages)
        said = self.plan.exchange, first, names, tuple(keys), tuple(headers), self.plan.mandatory
        self._history.add(Published(self._loop.time(), self.name, *said))
        self._offered += names
        return MessageBatch.from_messages(messages)

    def _wait(self) -> dict[str, str]:
        wait = self.random.choice(self.plan.waits)
        return {DELAY: str(wait)} if wait else {}

    def _key(self) -> str:
        return self.random.choice(self.plan.keys)

    def _confirm(self, confirmation: Confirmation) -> None:
        first = self._confirmed
        self._confirmed += confirmation.count
        names = tuple(self._offered[first : self._confirmed])
        assert len(names) == confirmation.count, f"{self.name}: more is confirmed than was offered"
        assert confirmation.rejected is None, confirmation.rejected
        self._history.add(PublishConfirmed(self._loop.time(), self.name, names))

    def _came_back(self, returned: Any) -> None:
        self._history.add(CameBack(self._loop.time(), self.name, name_of(returned.message.payload)))


class Definer(Client):
    """Makes and removes what is its own: bindings, queues, an exchange."""

    def __init__(self, plan: DefinerPlan, seed: int, history: History) -> None:
        super().__init__(plan.name, seed, history)
        self.plan = plan

    async def _live(self) -> None:
        plan = self.plan
        things: list[Callable[[Administration, bool], Awaitable[object]]] = [
            *(partial(_binding, each) for each in plan.bindings),
            *(partial(_queue, each) for each in plan.queues),
            *(partial(_exchange, each) for each in plan.exchanges),
        ]
        while things:
            # Not `async with`: a program that is killed does not close what it has.
            administration = Administration(self.send_address)
            try:
                await administration.__aenter__()
                while True:
                    await elapse(self.random.expovariate(1 / plan.pause))
                    await self._change(administration, self.random.choice(things))
            except TransportError as error:
                self._note(type(error).__name__)
                await administration.close()
                await elapse(self.random.random())

    async def _change(
        self, administration: Administration, thing: Callable[[Administration, bool], Awaitable[object]]
    ) -> None:
        try:
            await thing(administration, self.random.random() < 0.65)
        except BrokerError as error:
            if error.code not in REFUSALS:
                raise
            self._note(error.code)

    def _note(self, text: str) -> None:
        self._history.add(Noted(self._loop.time(), f"{self.name}: {text}"))


async def _binding(bound: Bound, administration: Administration, made: bool) -> None:
    work = administration.bind if made else administration.unbind
    arguments = dict(bound.arguments)
    await work(bound.source, bound.destination, bound.key, arguments, to_exchange=bound.to_exchange)


async def _queue(name: str, administration: Administration, made: bool) -> None:
    await (administration.create_queue(name) if made else administration.delete_queue(name))


async def _exchange(plan: ExchangePlan, administration: Administration, made: bool) -> None:
    if made:
        await administration.declare_exchange(
            plan.name,
            plan.kind,
            durable=plan.durable,
            internal=plan.internal,
            auto_delete=plan.auto_delete,
            alternate=plan.alternate,
        )
    else:
        await administration.delete_exchange(plan.name)


class BriefConsumer(Consumer):
    """Takes from a queue that comes and goes, and does not make it."""

    async def _live(self) -> None:
        plan = self.plan
        while True:
            receiver = Receiver(
                self.receive_address,
                queue=plan.queue,
                max_in_flight=plan.max_in_flight,
                reconnect=PATIENCE,
                create=False,
            )
            try:
                await receiver.to(Sink.foreach(self._handle)).run()
            except BrokerError as error:
                if error.code not in REFUSALS:
                    self._failed(self.name, error)
            await elapse(self.random.random())
