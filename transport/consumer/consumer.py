"""`Consumer`: functions that handle the messages of queues, as a program that ends in good order."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar, overload

from streams import Running
from transport.clients.backoff import Backoff
from transport.clients.handler_failures import DEFAULT_RETRY_DELAY, RETURN, OnFailure, ReceiverStatistics
from transport.clients.receiver import Receiver
from transport.consumer.binding import AHEAD, Binding, Gathering, check_function
from transport.consumer.by_name import Call, check_found, check_not_a_worker
from transport.consumer.decoding import JSON, Codec, Decode
from transport.consumer.failures import ConsumerFailures
from transport.consumer.parameters import parameters_of
from transport.consumer.probe import HealthProbe
from transport.consumer.values import positive
from transport.errors import LocalProtocolError, TransportError
from transport.security.access import Access
from transport.wire.address import DEFAULT_RECEIVE_ADDRESS
from transport.wire.names import check_name
from transport.wire.receiver_priorities import checked_priority

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_CONCURRENCY = 8
DEFAULT_GRACE = 20.0
"""Seconds; Kubernetes kills 30 s after SIGTERM, Docker after 10: there, set it lower."""
DEFAULT_MAX_HANDLING = 3600.0
"""Seconds. A handler that never returns keeps its message for so long: long enough for work, and short enough to be noticed."""
DEFAULT_BATCH_MESSAGES = 100
DEFAULT_BATCH_WAIT = 0.5
ENDING = (signal.SIGINT, signal.SIGTERM)

logger = logging.getLogger("penstock.consumer")


class Consumer:
    """Handlers of the messages of one queue or several; each message is acknowledged when its handler returns.

    Handlers are registered with `handler` and `batch_handler`, and called while `run` or `serve` goes on. What a handler takes is said
    by its annotation: docs/consumer.md.

    Args:
        addresses: the broker's receiving address ``host:port``, or several of a cluster, in a sequence or with commas.
        queue: the queue of handlers that name none.
        concurrency: calls of a handler at a time, unless it says otherwise; each of a function that is not ``async`` has a thread.
        on_failure: what becomes of a message whose handler raises. ``return``: it goes back, has failed, and comes again after
            ``retry_delay``, as often as the queue's ``max_receives`` allows. ``reject``: it is a dead letter at once. ``stop``: the
            message goes back and has failed, the other handlers finish what is under way, and `run` raises the exception.
        retry_delay: with ``return``, seconds until the message can be received again; a `Backoff` has them grow with each delivery.
        codec: how payloads are written that are decoded, ``json`` or ``msgpack``; or a function of the payload that decodes it.
        grace: seconds that messages under way have to be finished when the program is told to end; the rest goes back and has not failed.
        max_handling: seconds for which a message is kept from others while a handler is at work on it, though the queue's visibility
            timeout is shorter; 0 for no longer than that. A handler that calls ``delivery.extend`` sees to it itself.
        max_in_flight: messages delivered and not acknowledged, of each handler; twice what is handled at a time unless given.
        client_id: a name for the broker's statistics.
        reconnect: how to come back after a broken connection, and when to give up.
        access: who this is, and whether TLS is spoken; as of `Receiver`.
        create: whether queues are made where there are none.
        health: an address ``host:port`` that answers HTTP with 200 while `healthy`, else with 503; None for none.
        priority: of all its handlers among the receivers of their queues, as of `Receiver`.

    Raises:
        LocalProtocolError: a value that cannot be.
        InvalidNameError: a queue or client id that is no name.
    """

    def __init__(
        self,
        addresses: str | Sequence[str] = DEFAULT_RECEIVE_ADDRESS,
        *,
        queue: str | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        on_failure: OnFailure = RETURN,
        retry_delay: float | Backoff = DEFAULT_RETRY_DELAY,
        codec: Codec | Decode = JSON,
        grace: float = DEFAULT_GRACE,
        max_handling: float = DEFAULT_MAX_HANDLING,
        max_in_flight: int | None = None,
        client_id: str | None = None,
        reconnect: Backoff | None = None,
        access: Access | None = None,
        create: bool = True,
        health: str | None = None,
        priority: int = 0,
    ) -> None:
        self._addresses = addresses
        self._queue = None if queue is None else check_name(queue, "queue")
        self._concurrency = positive("concurrency", concurrency)
        self._on_failure = on_failure
        self._retry_delay = retry_delay
        ConsumerFailures(on_failure, retry_delay)  # so that what cannot be is told here, not at the first handler
        self._codec = codec
        if not grace >= 0:
            raise LocalProtocolError(f"grace is {grace!r}; it is a number of seconds, 0 or more")
        self._grace = grace
        if not max_handling >= 0:
            raise LocalProtocolError(f"max_handling is {max_handling!r}; it is a number of seconds, 0 or more")
        self._max_handling = max_handling
        self._max_in_flight = None if max_in_flight is None else positive("max_in_flight", max_in_flight)
        self._client_id = client_id
        self._reconnect = reconnect
        self._access = access
        self._create = create
        self._priority = checked_priority(priority)
        self._probe = None if health is None else HealthProbe(health, self.healthy)
        self._bindings: list[Binding] = []
        self._runs: list[Running[Any, Any]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()

    # Handlers

    @overload
    def handler(self, function: F, /) -> F: ...
    @overload
    def handler(
        self,
        /,
        *,
        queue: str | None = None,
        concurrency: int | None = None,
        processes: int | None = None,
        on_failure: OnFailure | None = None,
        retry_delay: float | Backoff | None = None,
        codec: Codec | Decode | None = None,
    ) -> Callable[[F], F]: ...
    def handler(
        self,
        function: Any = None,
        /,
        *,
        queue: str | None = None,
        concurrency: int | None = None,
        processes: int | None = None,
        on_failure: OnFailure | None = None,
        retry_delay: float | Backoff | None = None,
        codec: Codec | Decode | None = None,
    ) -> Any:
        """Registers a function of one message; a decorator, with arguments or without. What is None is the consumer's.

        A coroutine function is awaited, any other function is called in a thread, or in a process.

        Args:
            function: the handler.
            queue: whose messages it gets.
            concurrency: calls at a time.
            processes: calls it in so many processes instead of threads, each with one message at a time: for what keeps the processor
                busy. It has to be a function at the top of a module, which the processes import: docs/consumer.md.
            on_failure: what becomes of a message that it raises an exception on.
            retry_delay: of a message that is returned.
            codec: of its payloads.

        Raises:
            LocalProtocolError: it is no handler, or a value cannot be.
        """

        def register(f: F) -> F:
            self._add(f, None, queue, concurrency, processes, on_failure, retry_delay, codec)
            return f

        return register if function is None else register(function)

    @overload
    def batch_handler(self, function: F, /) -> F: ...
    @overload
    def batch_handler(
        self,
        /,
        *,
        max_messages: int = DEFAULT_BATCH_MESSAGES,
        max_wait: float = DEFAULT_BATCH_WAIT,
        queue: str | None = None,
        concurrency: int | None = None,
        processes: int | None = None,
        on_failure: OnFailure | None = None,
        retry_delay: float | Backoff | None = None,
        codec: Codec | Decode | None = None,
    ) -> Callable[[F], F]: ...
    def batch_handler(
        self,
        function: Any = None,
        /,
        *,
        max_messages: int = DEFAULT_BATCH_MESSAGES,
        max_wait: float = DEFAULT_BATCH_WAIT,
        queue: str | None = None,
        concurrency: int | None = None,
        processes: int | None = None,
        on_failure: OnFailure | None = None,
        retry_delay: float | Backoff | None = None,
        codec: Codec | Decode | None = None,
    ) -> Any:
        """Registers a function of a list of messages, all of which are acknowledged when it returns; a decorator, as `handler`.

        Where it raises, all have failed; where it raises `PartlyFailedError`, those that it names, and the others are acknowledged.

        Args:
            function: the handler.
            max_messages: in a list, at most.
            max_wait: seconds that the first of a list waits for others.
            queue: as of `handler`, and so are the others.
            concurrency: lists at a time.
            processes: calls it in so many processes, each with one list at a time.
            on_failure: of each message that has failed.
            retry_delay: of each message that is returned.
            codec: of each payload.

        Raises:
            LocalProtocolError: it is no handler, or a value cannot be.
        """
        gathering = Gathering(positive("max_messages", max_messages), max_wait)
        if not max_wait > 0:
            raise LocalProtocolError(f"max_wait is {max_wait!r}; it is a number of seconds, more than 0")

        def register(f: F) -> F:
            self._add(f, gathering, queue, concurrency, processes, on_failure, retry_delay, codec)
            return f

        return register if function is None else register(function)

    def _add(
        self,
        function: Callable[..., Any],
        gathering: Gathering | None,
        queue: str | None,
        concurrency: int | None,
        processes: int | None,
        on_failure: OnFailure | None,
        retry_delay: float | Backoff | None,
        codec: Codec | Decode | None,
    ) -> None:
        check_function(function)
        if self._loop is not None:
            raise LocalProtocolError("the consumer is running: register its handlers before that")
        codec = self._codec if codec is None else codec
        parameters = parameters_of(function, codec, batch=gathering is not None)
        call = None
        if processes is not None:
            if concurrency is not None:
                raise LocalProtocolError(
                    f"handler {parameters.handler}: processes={processes!r:.40} are as many calls at a time: leave out concurrency"
                )
            concurrency = positive("processes", processes)
            check_found(parameters.handler, function, codec)
            call = Call(function, codec, gathering is not None)
        queue = self._queue if queue is None else queue
        if queue is None:
            raise LocalProtocolError(
                f'handler {parameters.handler} has no queue: say Consumer(queue="orders"), or @consumer.handler(queue="orders")'
            )
        at_a_time = positive("concurrency", self._concurrency if concurrency is None else concurrency)
        handled = at_a_time * (1 if gathering is None else gathering.max_messages)
        if self._max_in_flight is not None and gathering is not None and self._max_in_flight < gathering.max_messages:
            raise LocalProtocolError(
                f"max_in_flight={self._max_in_flight} is less than max_messages={gathering.max_messages}: no list would ever be full"
            )
        failures = ConsumerFailures(
            self._on_failure if on_failure is None else on_failure,
            self._retry_delay if retry_delay is None else retry_delay,
        )
        receiver = Receiver(
            self._addresses,
            queue=queue,
            max_in_flight=AHEAD * handled if self._max_in_flight is None else self._max_in_flight,
            client_id=self._client_id,
            reconnect=self._reconnect,
            access=self._access,
            create=self._create,
            priority=self._priority,
        )
        self._bindings.append(
            Binding(receiver, failures, function, parameters, at_a_time, gathering, call, self._max_handling)
        )

    # Running

    def run(self) -> None:
        """Handles messages until SIGINT or SIGTERM, on an event loop of its own; returns when everything is answered.

        At the first signal nothing more is asked for. What is under way has ``grace`` seconds to be finished; the rest goes back, and
        has not failed. A second signal gives everything back at once. In a thread other than the first, signals are left alone: `stop`
        ends it.

        Raises:
            OSError: the address of ``health`` cannot be had.
            LocalProtocolError: an event loop runs already, there is no handler, or a queue keeps no dead letters and a handler needs them.
            ConnectionLostError: there was no broker for as long as ``reconnect`` allows.
            HandlerProcessError: there is no process for a handler that takes one.
            Exception: what a handler has raised, with ``on_failure="stop"``.
        """
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise LocalProtocolError("an event loop runs here already: await consumer.serve() instead of run()")
        with asyncio.Runner() as runner:
            runner.run(self._serve_until_signal())

    async def serve(self) -> None:
        """As `run`, on the running loop, until `stop`; signals are left alone.

        Cancelling it gives everything back at once, and nothing has failed.
        """
        if not self._bindings:
            raise LocalProtocolError("the consumer has no handler: put @consumer.handler on a function")
        if self._loop is not None:
            raise LocalProtocolError("the consumer is running already")
        check_not_a_worker()
        self._told = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        try:
            async with AsyncExitStack() as stack:
                if self._probe is not None:
                    await stack.enter_async_context(self._probe)
                await self._serve()
        finally:
            self._loop = None
            self._runs = []

    def stop(self) -> None:
        """Ends `run` and `serve` in good order, as the first signal does; from any thread. Without effect while neither goes on."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop was closed meanwhile, so it is over
                loop.call_soon_threadsafe(self._told.set)

    def healthy(self) -> bool:
        """Whether it is at work: running, not told to end, and each handler connected to the broker."""
        return (
            bool(self._runs)
            and not self._told.is_set()
            and not any(run.done() for run in self._runs)
            and all(binding.receiver.connected for binding in self._bindings)
        )

    def statistics(self) -> dict[str, ReceiverStatistics]:
        """What handlers have failed on, by the name of the handler's queue; of several at a queue, together."""
        found: dict[str, ReceiverStatistics] = {}
        for binding in self._bindings:
            one, name = binding.receiver.statistics(), binding.receiver.queue_name
            before = found.get(name, ReceiverStatistics())
            found[name] = ReceiverStatistics(
                before.returned + one.returned, before.rejected + one.rejected, one.last_failure or before.last_failure
            )
        return found

    # Inside

    async def _serve(self) -> None:
        """Until it is told to end, or a stream has ended by itself, which then is a failure."""
        told = asyncio.ensure_future(self._told.wait())
        try:
            if any(binding.in_processes for binding in self._bindings) and not await self._opened(told):
                return
            await self._handle(told)
        finally:
            told.cancel()
            await asyncio.gather(told, return_exceptions=True)

    async def _handle(self, told: asyncio.Future[Any]) -> None:
        self._runs = [binding.graph().run() for binding in self._bindings]
        attended = [asyncio.ensure_future(_attend(run)) for run in self._runs]
        try:
            await asyncio.wait((told, *attended), return_when=asyncio.FIRST_COMPLETED)
            by_itself = not self._told.is_set()
            self._told.set()
            ends = await asyncio.gather(*map(self._drained, self._runs, self._bindings), return_exceptions=True)
        except asyncio.CancelledError:
            for run in self._runs:  # before anything is awaited, for this may be cancelled again
                run.abandon()
            raise
        finally:
            await asyncio.gather(*attended, return_exceptions=True)
        failures = [end for end in ends if isinstance(end, Exception)]
        if len(failures) > 1:
            raise ExceptionGroup("handlers of a consumer have failed", failures)
        if failures:
            raise failures[0]
        if by_itself:
            raise TransportError("the stream of a handler has ended, and nothing says why")

    async def _opened(self, told: asyncio.Future[Any]) -> bool:
        """Has processes for the handlers that take some; false where the consumer is told to end meanwhile."""

        async def open_all() -> None:
            for binding in self._bindings:
                await binding.open()

        opening = asyncio.ensure_future(open_all())
        opened = False
        try:
            await asyncio.wait((told, opening), return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                opening.result()
                opened = True
        finally:
            if not opened:
                opening.cancel()
                await asyncio.gather(opening, *(binding.close() for binding in self._bindings), return_exceptions=True)
        return opened

    async def _drained(self, run: Running[Any, Any], binding: Binding) -> None:
        """Has ``run`` finish what is under way, or give it back; raises what it has failed with."""
        try:
            await run.drain(within=self._grace)
        except TimeoutError:
            try:
                await run  # over by now; a handler may have raised TimeoutError itself
            except asyncio.CancelledError:
                logger.warning("%s: what was not done within %g s was given back", binding.name, self._grace)

    async def _serve_until_signal(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            await self.serve()
            return
        loop = asyncio.get_running_loop()

        def first(number: signal.Signals) -> None:
            logger.info("%s: finishing what is under way, for %g s at most", number.name, self._grace)
            for each in ENDING:
                loop.add_signal_handler(each, second)
            self.stop()

        def second() -> None:
            release()
            for run in self._runs:
                run.cancel()

        def release() -> None:
            for each in ENDING:
                if loop.remove_signal_handler(each) and before[each] is not None:
                    signal.signal(each, before[each])

        before = {each: signal.getsignal(each) for each in ENDING}
        for each in ENDING:
            loop.add_signal_handler(each, first, each)
        try:
            await self.serve()
        finally:
            release()


async def _attend(run: Running[Any, Any]) -> None:
    await run
