"""One handler at one queue: its receiver, and the stream that calls it."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from streams import Materialization, Publisher, RunnableGraph, Sink, Source
from streams.stages.stage import StageFlow
from transport.clients.at_work import AtWork
from transport.clients.delivery import Delivery
from transport.clients.receiver import Receiver
from transport.consumer.batch import Batch, Outcomes
from transport.consumer.by_name import Call
from transport.consumer.calling import awaited, called
from transport.consumer.carried import CarriedMessage
from transport.consumer.failures import ConsumerFailures
from transport.consumer.parameters import Parameters
from transport.errors import HandlerProcessError, LocalProtocolError

if TYPE_CHECKING:
    from transport.clients.handler_failures import Answerable
    from transport.consumer.apart import Apart
    from transport.consumer.pool import Pool

T = TypeVar("T")
G = TypeVar("G", bound=Callable[..., Any])

AHEAD = 2
"""Messages at hand for each one that is handled, unless ``max_in_flight`` says otherwise: the next is there when one is done, and few
wait here that another program could have."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """How many messages a batch handler is given at a time.

    Attributes:
        max_messages: at most.
        max_wait: seconds after the first of a batch, in which others may come.
    """

    max_messages: int
    max_wait: float


class Binding:
    """A handler, and the queue that it handles. With ``call`` it is called in processes, as many as ``concurrency`` says.

    Attributes:
        receiver: where its messages come from.
        name: of queue and handler, for logs.
    """

    def __init__(
        self,
        receiver: Receiver,
        failures: ConsumerFailures,
        function: Callable[..., Any],
        parameters: Parameters,
        concurrency: int,
        gathering: Gathering | None = None,
        call: Call | None = None,
        max_handling: float = 0.0,
    ) -> None:
        self.receiver = receiver
        self.name = f"queue {receiver.queue_name}, handler {parameters.handler}"
        self._function = function
        self._parameters = parameters
        self._concurrency = concurrency
        self._gathering = gathering
        self._call = call
        self._max_handling = max_handling
        self._work: AtWork  # of the run
        self._apart: Apart | None = None
        self._pool: Pool | None = None
        if parameters.decode is not None:
            failures.needed_by = f"{parameters.handler}, a handler of {parameters.kind},"
        failures.answered = self._failed
        receiver.handler_failures = failures

    @property
    def in_processes(self) -> bool:
        """Whether `open` has something to do."""
        return self._call is not None

    async def open(self) -> None:
        """Has a process for the handler, where it takes one; before each run.

        Raises:
            HandlerProcessError: it cannot be had.
        """
        if self._call is None:
            return
        from transport.consumer.pool import Pool  # noqa: PLC0415 - most handlers do without processes

        self._pool = Pool(self.name, self._call)
        await asyncio.to_thread(self._pool.open)

    async def close(self) -> None:
        """Ends the processes: those in a call are killed, and its message has not failed."""
        if self._pool is not None:
            self._pool.end()
            await asyncio.to_thread(self._pool.gone)

    def graph(self) -> RunnableGraph[Any, Any]:
        """The stream from the queue to the handler, and back with its answers; in the task that the consumer runs in."""
        self._work = self.receiver.at_work = AtWork(self._max_handling, asyncio.get_running_loop())
        if self._gathering is not None:
            return self._to_the_end(self._batches(self._gathering)).to(Sink.foreach(self._answer))
        messages = self._messages()
        if self._pool is not None:
            in_processes = messages.map_blocking_unordered(self._concurrency, self._carried(self._pool))
            return self._to_the_end(in_processes).to(Sink.acknowledge())
        if is_async(self._function):
            return messages.map_async_unordered(self._concurrency, self._awaited()).to(Sink.acknowledge())
        return messages.map_blocking_unordered(self._concurrency, self._called()).to(Sink.acknowledge())

    def _messages(self) -> Source[Delivery, None]:
        """What the receiver gets; where several are handled at a time, of each group one."""
        if self._concurrency == 1:
            return self.receiver
        from transport.consumer.apart import apart  # noqa: PLC0415 - where it is needed

        return self.receiver.via(StageFlow(apart(self._work, self._keeps_apart), "apart"))

    def _keeps_apart(self, stage: Apart) -> None:
        self._apart = stage

    def _to_the_end(self, source: Source[T, Any]) -> Source[T, Any]:
        """``source``, which ends the processes at its own end, whatever way that is: those who wait for them then get on."""
        if self._pool is None:
            return source

        def create(m: Materialization) -> tuple[Publisher[T], Any]:
            m.on_end(self.close, f"processes of {self.name}")
            return source.create(m)

        return Source(create, source.name)

    @contextmanager
    def _at_work(self, deliveries: Sequence[Delivery]) -> Iterator[None]:
        """Meanwhile they are extended when that is due."""
        work = self._work
        for delivery in deliveries:
            work.begin(delivery)
        try:
            yield
        finally:
            work.end(deliveries)

    def _handled(self, deliveries: Iterable[Delivery]) -> None:
        """They have not failed; those that have are told of, when they are answered: `_failed`."""
        if self._apart is not None:
            self._apart.handled(deliveries)

    def _failed(self, message: Answerable, again: bool) -> None:
        """One is answered that has failed: where it comes again, what is behind it in its group is not handled before."""
        if not isinstance(message, Delivery):
            return
        if again:
            self._work.give_back_behind(message)
        if self._apart is not None:
            self._apart.handled((message,))

    def _still_here(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Without those that went back while they waited for others; what came on an earlier connection is first."""
        if not (self._work.gave_back or deliveries[0].is_void):
            return deliveries
        gone = {each for each in deliveries if each.is_answered or each.is_void}
        self._work.end(gone)
        self._handled(gone)
        return [each for each in deliveries if each not in gone]

    # One message at a time. What cannot be decoded is an exception like the handler's own: the delivery is told of it on the loop.

    def _awaited(self) -> Callable[[Delivery], Awaitable[Delivery]]:
        function, parameters, runner = self._function, self._parameters, asyncio.current_task()

        @_named(function)
        async def handle(delivery: Delivery) -> Delivery:
            with self._at_work((delivery,)):
                await awaited(runner, function, *parameters.of(delivery))
            self._handled((delivery,))
            return delivery

        return handle

    def _called(self) -> Callable[[Delivery], Delivery]:
        function, parameters = self._function, self._parameters

        @_named(function)
        def handle(delivery: Delivery) -> Delivery:
            with self._at_work((delivery,)):
                called(function, *parameters.of(delivery))
            self._handled((delivery,))
            return delivery

        return handle

    def _carried(self, pool: Pool) -> Callable[[Delivery], Delivery]:
        @_named(self._function)
        def handle(delivery: Delivery) -> Delivery:
            with self._at_work((delivery,)):
                failed = pool.call([CarriedMessage.of(delivery)])
            if failed:
                raise failed[0]
            self._handled((delivery,))
            return delivery

        return handle

    # Batches. The stream knows nothing of the deliveries in a list: what has failed goes down the stream, and is told on the loop.

    def _batches(self, gathering: Gathering) -> Source[Outcomes, Any]:
        function, parameters, runner = self._function, self._parameters, asyncio.current_task()
        # Those that wait for others are not to go to somebody else meanwhile.
        messages = self._messages().map(self._work.begin)
        batches = messages.grouped_within(gathering.max_messages, gathering.max_wait)
        if is_async(function):

            @_named(function)
            async def in_turn(deliveries: list[Delivery]) -> Outcomes:
                deliveries = self._still_here(deliveries)
                with self._at_work(deliveries):
                    batch = Batch(parameters, deliveries)
                    if batch.values:
                        try:
                            await awaited(runner, function, batch.values)
                        except Exception as error:  # noqa: BLE001 - the handler's own: each message is told of it
                            batch.failed(error)
                return batch.outcomes()

            return batches.map_async_unordered(self._concurrency, in_turn)

        if (pool := self._pool) is not None:

            @_named(function)
            def carried(deliveries: list[Delivery]) -> Outcomes:
                deliveries = self._still_here(deliveries)
                if not deliveries:
                    return []
                try:
                    with self._at_work(deliveries):
                        failed = pool.call([CarriedMessage.of(delivery) for delivery in deliveries])
                except HandlerProcessError as error:
                    failed = dict.fromkeys(range(len(deliveries)), error)
                return [(delivery, failed.get(place)) for place, delivery in enumerate(deliveries)]

            return batches.map_blocking_unordered(self._concurrency, carried)

        @_named(function)
        def in_thread(deliveries: list[Delivery]) -> Outcomes:
            deliveries = self._still_here(deliveries)
            with self._at_work(deliveries):
                batch = Batch(parameters, deliveries)
                if batch.values:
                    try:
                        called(function, batch.values)
                    except Exception as error:  # noqa: BLE001 - as above
                        batch.failed(error)
            return batch.outcomes()

        return batches.map_blocking_unordered(self._concurrency, in_thread)

    def _answer(self, outcomes: Outcomes) -> None:
        """Acknowledges what is done, and has the receiver answer for what has failed; raises where that is to stop the stream."""
        for delivery, error in outcomes:
            if error is None:
                delivery.acknowledge()
        # All are told before the stream stops: some errors say that theirs has not failed.
        stopping = [error for delivery, error in outcomes if error is not None and not delivery.__failed_on__(error)]
        if stopping:
            raise stopping[0]
        self._handled([delivery for delivery, error in outcomes if error is None])


def is_async(function: Callable[..., Any]) -> bool:
    """Whether it is to be awaited."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def check_function(function: object) -> None:
    """Refuses what is no handler.

    Raises:
        LocalProtocolError: it is no function, or a generator.
    """
    if not callable(function) or inspect.isclass(function):
        raise LocalProtocolError(f"a handler is a function or a coroutine function, not {function!r:.80}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise LocalProtocolError(f"handler {function!r:.80} has a yield in it: what it yields would go nowhere")


def _named(function: Callable[..., Any]) -> Callable[[G], G]:
    """As `functools.wraps`, for the name in failures alone."""
    return cast("Callable[[G], G]", functools.wraps(function, assigned=functools.WRAPPER_ASSIGNMENTS[:3], updated=()))
