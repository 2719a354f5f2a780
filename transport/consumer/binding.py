"""One handler at one queue: its receiver, and the stream that calls it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from streams import RunnableGraph, Sink, Source
from transport.clients.delivery import Delivery
from transport.clients.receiver import Receiver
from transport.consumer.failures import ConsumerFailures
from transport.consumer.parameters import Parameters
from transport.errors import DeadLetterError, LocalProtocolError, PartlyFailedError

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


Outcomes = list[tuple[Delivery, Exception | None]]
"""The messages of a batch, and what each has failed with."""


class Binding:
    """A handler, and the queue that it handles.

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
    ) -> None:
        self.receiver = receiver
        self.name = f"queue {receiver.queue_name}, handler {parameters.handler}"
        self._function = function
        self._parameters = parameters
        self._concurrency = concurrency
        self._gathering = gathering
        if parameters.decode is not None:
            failures.needed_by = f"a handler of {parameters.kind}"
        receiver.handler_failures = failures

    def graph(self) -> RunnableGraph[Any, Any]:
        """The stream from the queue to the handler, and back with its answers."""
        if self._gathering is not None:
            return self._batches(self._gathering).to(Sink.foreach(_answer))
        if is_async(self._function):
            return self.receiver.handle(self._concurrency, self._awaited()).to(Sink.acknowledge())
        return self.receiver.handle_blocking(self._concurrency, self._called()).to(Sink.acknowledge())

    # One message at a time. What cannot be decoded is an exception like the handler's own: the delivery is told of it on the loop.

    def _awaited(self) -> Callable[[Delivery], Awaitable[object]]:
        function, parameters = self._function, self._parameters

        @_named(function)
        async def handle(delivery: Delivery) -> None:
            await function(*parameters.of(delivery))

        return handle

    def _called(self) -> Callable[[Delivery], object]:
        function, parameters = self._function, self._parameters

        @_named(function)
        def handle(delivery: Delivery) -> None:
            function(*parameters.of(delivery))

        return handle

    # Batches. The stream knows nothing of the deliveries in a list: what has failed goes down the stream, and is told on the loop.

    def _batches(self, gathering: Gathering) -> Source[Outcomes, Any]:
        function, parameters = self._function, self._parameters
        batches = self.receiver.grouped_within(gathering.max_messages, gathering.max_wait)
        if is_async(function):

            @_named(function)
            async def awaited(deliveries: list[Delivery]) -> Outcomes:
                batch = _Batch(parameters, deliveries)
                if batch.values:
                    try:
                        await function(batch.values)
                    except Exception as error:  # noqa: BLE001 - the handler's own: each message is told of it
                        batch.failed(error)
                return batch.outcomes()

            return batches.map_async_unordered(self._concurrency, awaited)

        @_named(function)
        def called(deliveries: list[Delivery]) -> Outcomes:
            batch = _Batch(parameters, deliveries)
            if batch.values:
                try:
                    function(batch.values)
                except Exception as error:  # noqa: BLE001 - as above
                    batch.failed(error)
            return batch.outcomes()

        return batches.map_blocking_unordered(self._concurrency, called)


class _Batch:
    """A list of messages on its way through a handler.

    Attributes:
        values: what the handler gets.
    """

    def __init__(self, parameters: Parameters, deliveries: list[Delivery]) -> None:
        self.values: list[Any] = []
        self._places: list[int] = []
        self._deliveries = deliveries
        self._failed: dict[int, Exception] = {}
        for place, delivery in enumerate(deliveries):
            try:
                (value,) = parameters.of(delivery)
            except DeadLetterError as error:
                self._failed[place] = error
            else:
                self.values.append(value)
                self._places.append(place)

    def failed(self, error: Exception) -> None:
        """The handler has raised ``error``: all have failed, or those that it names."""
        failed: dict[int, Exception] = dict.fromkeys(range(len(self._places)), error)
        if isinstance(error, PartlyFailedError):
            if error.failed.keys() <= failed.keys():
                failed = error.failed
            else:
                error.add_note(
                    f"a batch of {len(failed)} has no other places than 0 to {len(failed) - 1}: all have failed"
                )
        self._failed |= {self._places[place]: each for place, each in failed.items()}

    def outcomes(self) -> Outcomes:
        """Each message, and what it has failed with."""
        return [(delivery, self._failed.get(place)) for place, delivery in enumerate(self._deliveries)]


def _answer(outcomes: Outcomes) -> None:
    """Acknowledges what is done, and has the receiver answer for what has failed; raises where that is to stop the stream."""
    for delivery, error in outcomes:
        if error is None:
            delivery.acknowledge()
    for delivery, error in outcomes:
        if error is not None and not delivery.__failed_on__(error):
            raise error


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
