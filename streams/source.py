"""`Source`: the beginning of a stream."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.contract import Publisher, Subscriber
from streams.graph import RunnableGraph, connect
from streams.keep import Combine, first
from streams.line import Line, longer, put_behind
from streams.materialize import Materialization
from streams.operators.every import Operators
from streams.operators.via import member, positive
from streams.overflow import OverflowStrategy
from streams.publishers.async_iterable import AsyncIterablePublisher, async_opener
from streams.publishers.blocking_iterable import BlockingIterablePublisher
from streams.publishers.blocks import BLOCK_BYTES, BinaryFile, BlockPublisher, expect_file
from streams.publishers.future import Awaited, FuturePublisher, waiting
from streams.publishers.generated import cycled, repeatable, unfolded, unfolded_async
from streams.publishers.iterable import IterablePublisher, opener
from streams.publishers.lazy import LazyPublisher
from streams.publishers.never import NeverPublisher
from streams.publishers.observable import ObservablePublisher
from streams.publishers.source_queue import MAX_WAITING_OFFERS, SourceQueue
from streams.publishers.tick import TickPublisher
from streams.running import Running
from streams.several_sinks import SeveralSinks
from streams.shapes import FlowLike, SourceLike, expect_flow, name_of
from streams.stages.framing import MAX_LINE_BYTES, DrainedLines
from streams.stages.relay import Relay
from streams.stages.stage import StageFlow
from streams.subscribers.iterate import ITERATION_PREFETCH, iterate, iterate_blocking
from streams.substream import SubSource
from streams.supervised_run import SupervisedRun
from streams.supervision import Decider
from streams.type_variables import Generic, V_co, Valued, W

if TYPE_CHECKING:
    from asyncio import Future

    from reactivex.abc import ObservableBase, SchedulerBase

    from streams.shapes import ShortFlow, ShortSink, SinkLike, ValuedFlow, ValuedSink, With, Without

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")
M = TypeVar("M")
V = TypeVar("V")
X = TypeVar("X")
T_co = TypeVar("T_co", covariant=True)


class Source(SeveralSinks, Operators, Valued[V_co], Generic[T_co, V_co]):
    """An immutable description of a stream's beginning; ``V`` is what it materializes. ``async for`` over it runs it.

    Args:
        create: gives, for one run, the publisher and the materialized value (`Running.value`).
        name: seen in the names of graphs.
    """

    def __init__(self, create: Callable[[Materialization], tuple[Publisher[T_co], V_co]], name: str = "source") -> None:
        self._create = create
        self._line: Line = ()
        self.name = name

    def create(self, m: Materialization, /) -> tuple[Publisher[T_co], V_co]:
        """The publisher for one run, and the materialized value."""
        publisher, value = self._create(m)
        return put_behind(publisher, value, self._line, m) if self._line else (publisher, value)

    @overload  # type: ignore[override]  # said more exactly, in overloads
    def via(self: With, flow: FlowLike[T_co, R]) -> Source[R, V_co]: ...
    @overload
    def via(self: Without[V], flow: ValuedFlow[T_co, R, W | V]) -> Source[R, V | W]: ...
    @overload
    def via(self: Without[V], flow: ShortFlow[T_co, R]) -> Source[R, V | None]: ...
    @overload
    def via(self, flow: ValuedFlow[T_co, R, W], combine: Callable[[V_co, W], X]) -> Source[R, X]: ...
    @overload
    def via(self, flow: ShortFlow[T_co, R], combine: Callable[[V_co, None], X]) -> Source[R, X]: ...
    def via(self, flow: Any, combine: Combine = first) -> Any:
        """This source with ``flow`` behind it; ``combine`` says whose materialized value is kept (`Keep`)."""
        expect_flow(flow)
        head: Any = self._create
        source: Source[Any] = Source(head, f"{self.name} -> {name_of(flow)}")
        source._line = longer(self._line, flow, combine)
        return source

    @overload
    def to(self: With, sink: SinkLike[T_co, M]) -> RunnableGraph[M, V_co]: ...
    @overload
    def to(self: Without[V], sink: ValuedSink[T_co, M, W | V]) -> RunnableGraph[M, V | W]: ...
    @overload
    def to(self: Without[V], sink: ShortSink[T_co, M]) -> RunnableGraph[M, V | Future[M]]: ...
    @overload
    def to(self, sink: ValuedSink[T_co, M, W], combine: Callable[[V_co, W], X]) -> RunnableGraph[M, X]: ...
    @overload
    def to(self, sink: ShortSink[T_co, M], combine: Callable[[V_co, Future[M]], X]) -> RunnableGraph[M, X]: ...
    def to(self, sink: Any, combine: Combine = first) -> Any:
        """The whole graph, ready to run; ``combine`` says whose materialized value is kept (`Keep`)."""
        return connect(self, sink, combine)

    @overload
    def run_with(self: With, sink: SinkLike[T_co, M]) -> Running[M, V_co]: ...
    @overload
    def run_with(self: Without[V], sink: ValuedSink[T_co, M, W | V]) -> Running[M, V | W]: ...
    @overload
    def run_with(self: Without[V], sink: ShortSink[T_co, M]) -> Running[M, V | Future[M]]: ...
    @overload
    def run_with(self, sink: ValuedSink[T_co, M, W], combine: Callable[[V_co, W], X]) -> Running[M, X]: ...
    @overload
    def run_with(self, sink: ShortSink[T_co, M], combine: Callable[[V_co, Future[M]], X]) -> Running[M, X]: ...
    def run_with(self, sink: Any, combine: Combine = first) -> Any:
        """``to(sink).run()``."""
        return connect(self, sink, combine).run()

    def _split(self, splitter: FlowLike[Any, SourceLike[Any]], breadth: int) -> SubSource[Any, V_co]:
        return SubSource(self, splitter, breadth)

    def _supervised(self, decider: Decider) -> Source[T_co, V_co]:
        return Source(lambda m: self.create(SupervisedRun(m, decider)), self.name)

    def _source(self, create: Callable[[Materialization], tuple[Publisher[T], V]], name: str) -> Source[T, V]:
        return Source(create, name)

    def map_materialized(self, f: Callable[[V_co], X]) -> Source[T_co, X]:
        """This source, with ``f`` of its materialized value in the place of that."""

        def create(m: Materialization) -> tuple[Publisher[T_co], X]:
            publisher, value = self.create(m)
            return publisher, f(value)

        return Source(create, self.name)

    def __aiter__(self) -> AsyncIterator[T_co]:
        return self.iterate()

    def iterate(self, prefetch: int = ITERATION_PREFETCH) -> AsyncGenerator[T_co, None]:
        """What ``async for`` uses, with the number of elements asked for ahead of the loop's body.

        Leaving the loop cancels the run; for that to happen at once rather than when the generator is collected, wrap it in
        ``contextlib.aclosing``: when that is left, the run is over and its sources have cleaned up.
        """
        if prefetch < 1:
            raise ValueError(f"iterate: prefetch must be at least 1, not {prefetch}")
        return iterate(self, prefetch)

    def iterate_blocking(self, prefetch: int = ITERATION_PREFETCH) -> Generator[T_co, None, None]:
        """The elements one by one, for ``for`` in synchronous code; as `run_blocking`, on an event loop of its own.

        That loop runs while the next element is waited for, and stands still while the body works: what has a time limit may reach it
        meanwhile. Leaving the ``for`` cancels the run when the generator is closed, which ``contextlib.closing`` does at once.

        Raises:
            RuntimeError: an event loop is running in this thread, and would be blocked.
        """
        if prefetch < 1:
            raise ValueError(f"iterate_blocking: prefetch must be at least 1, not {prefetch}")
        return iterate_blocking(self, prefetch)

    def __repr__(self) -> str:
        return f"<Source {self.name}>"

    # Factories

    @staticmethod
    def from_publisher(factory: Callable[[], Publisher[T]]) -> Source[T, None]:
        """A publisher of your own, made for each run."""
        return Source(lambda _m: (factory(), None), "publisher")

    @staticmethod
    def as_subscriber() -> Source[Any, Subscriber[Any]]:
        """What is signalled to the `Subscriber` that a run materializes (``running.value``), of this or another library's publisher."""

        def create(_m: Materialization) -> tuple[Publisher[Any], Subscriber[Any]]:
            relay: Relay[Any] = Relay()
            return relay, relay

        return Source(create, "subscriber")

    @staticmethod
    def of(*elements: T) -> Source[T, None]:
        """The arguments."""
        return Source.from_iterable(elements)

    @staticmethod
    def single(element: T) -> Source[T, None]:
        """One element."""
        return Source.from_iterable((element,))

    @staticmethod
    def empty() -> Source[Any, None]:
        """No element: completes at once."""
        return Source.from_iterable(())

    @staticmethod
    def failed(error: BaseException) -> Source[Any, None]:
        """No element: fails at once."""
        raised_at = error.__traceback__

        def fail() -> Iterable[Any]:
            raise error.with_traceback(raised_at)  # each run would add to that of the run before

        return Source(lambda m: (IterablePublisher(m, fail), None), "failed")

    @staticmethod
    def never() -> Source[Any, None]:
        """No element and no end; only a cancellation ends it."""
        return Source(lambda m: (NeverPublisher(m), None), "never")

    @staticmethod
    def repeat(element: T) -> Source[T, None]:
        """The same element without end."""
        return Source.from_iterable(lambda: itertools.repeat(element))

    @staticmethod
    def cycle(iterable: Iterable[T] | Callable[[], Iterable[T]]) -> Source[T, None]:
        """What an iterable gives, again and again without end.

        Args:
            iterable: one that can be gone through any number of times, or a function called for each turn that returns one. The stream
                fails with ``ValueError`` where a turn gives no element.
        """
        opened = repeatable(iterable)
        return Source(lambda m: (IterablePublisher(m, lambda: cycled(opened), "cycle"), None), "cycle")

    @staticmethod
    def range(*bounds: int) -> Source[int, None]:
        """The numbers of Python's ``range(*bounds)``: up to, and without, its stop."""
        return Source.from_iterable(range(*bounds))

    @staticmethod
    def unfold(state: S, f: Callable[[S], tuple[S, T] | None]) -> Source[T, None]:
        """The elements of ``state, element = f(state)``, one call for each, until ``f`` returns None."""
        return Source(lambda m: (IterablePublisher(m, lambda: unfolded(state, f)), None), "unfold")

    @staticmethod
    def unfold_async(state: S, f: Callable[[S], Awaitable[tuple[S, T] | None]]) -> Source[T, None]:
        """The elements of ``state, element = await f(state)``, one call for each as it is asked for, until that gives None."""
        return Source(lambda m: (AsyncIterablePublisher(m, lambda: unfolded_async(state, f)), None), "unfold_async")

    @staticmethod
    def future(awaited: Awaited[T]) -> Source[T, None]:
        """What an awaitable gives, waited for once it is asked for; completes with it, and fails with its failure.

        Args:
            awaited: a function called for each run that returns an awaitable, which is cancelled with the stream; a coroutine, for one
                run; or an asyncio or concurrent future of somebody else's, which goes on when the stream is cancelled.
        """
        wait = waiting(awaited)
        return Source(lambda m: (FuturePublisher(m, wait), None), "future")

    @staticmethod
    def lazy(factory: Callable[[], SourceLike[T]]) -> Source[T, None]:
        """The source that ``factory`` returns, called once it is first asked for something.

        What that source materializes comes too late for the run's handle: take it inside ``factory``, with `map_materialized`.
        """
        return Source(lambda m: (LazyPublisher(m, factory), None), "lazy")

    @staticmethod
    def from_iterable(iterable: Iterable[T] | Callable[[], Iterable[T]]) -> Source[T, None]:
        """What an iterable gives, as far as it is asked for.

        Args:
            iterable: an iterable, or a function called for each run that returns one. An iterator or generator can only be run through
                once and stays the caller's; one that a function returns is closed when the run is over.
        """
        opened = opener(iterable)
        return Source(lambda m: (IterablePublisher(m, opened, "iterable"), None), "iterable")

    @staticmethod
    def iterable(factory: Callable[[], Iterable[T]]) -> Source[T, None]:
        """What the iterable gives that ``factory`` returns, anew for each run."""
        return Source(lambda m: (IterablePublisher(m, factory, "iterable"), None), "iterable")

    @staticmethod
    def from_async_iterable(iterable: AsyncIterable[T] | Callable[[], AsyncIterable[T]]) -> Source[T, None]:
        """What an asynchronous iterable gives, pulled one at a time as it is asked for, and closed when the run is over.

        Args:
            iterable: the iterable, or a function called for each run that returns one. An asynchronous generator or iterator is for one
                run, for it is closed at its end; another fails with ``RuntimeError``.
        """
        opened = async_opener(iterable)
        return Source(lambda m: (AsyncIterablePublisher(m, opened, "async iterable"), None), "async iterable")

    @staticmethod
    def from_blocking_iterable(iterable: Iterable[T] | Callable[[], Iterable[T]]) -> Source[T, None]:
        """What an iterable gives whose next element may be long in coming: it is gone through in a thread, as far as it is asked for.

        A wait in the iterable cannot be interrupted: at the end of the stream the handle waits for it, as for `map_blocking`.

        Args:
            iterable: as in `from_iterable`. What a function returns is closed in the same thread.
        """
        opened = opener(iterable)
        return Source(lambda m: (BlockingIterablePublisher(m, opened, "blocking iterable"), None), "blocking iterable")

    @staticmethod
    def tick(seconds: float, initial_delay: float = 0.0) -> Source[int, None]:
        """0, 1, 2, ... every ``seconds``; a tick that nobody asks for is dropped, and not counted."""
        if seconds <= 0 or initial_delay < 0:
            raise ValueError(f"tick needs seconds > 0 and initial_delay >= 0, not {seconds} and {initial_delay}")
        return Source(lambda m: (TickPublisher(m, seconds, initial_delay), None), "tick")

    @overload
    @staticmethod
    def queue(
        bound: int,
        overflow: OverflowStrategy = ...,
        *,
        of: type[T],
        max_waiting_offers: int = ...,
        element_context: bool = ...,
    ) -> Source[T, SourceQueue[T]]: ...
    @overload
    @staticmethod
    def queue(
        bound: int,
        overflow: OverflowStrategy = ...,
        *,
        max_waiting_offers: int = ...,
        element_context: bool = ...,
    ) -> Source[Any, SourceQueue[Any]]: ...
    @staticmethod
    def queue(
        bound: int,
        overflow: OverflowStrategy = OverflowStrategy.BACKPRESSURE,
        *,
        of: type[T] | None = None,  # noqa: ARG004 - for type checkers
        max_waiting_offers: int = MAX_WAITING_OFFERS,
        element_context: bool = False,
    ) -> Source[Any, SourceQueue[Any]]:
        """What is offered to the `SourceQueue` that a run materializes (``running.value``).

        Args:
            bound: elements that wait in it at most.
            overflow: what one more does. With BACKPRESSURE it is not taken: ``offer`` says so at once, ``offer_wait`` waits for room.
            of: the type of the elements, for type checkers alone.
            max_waiting_offers: calls of ``offer_wait`` that wait at a time; one more raises `TooManyWaitersError`.
            element_context: functions that an element meets at once, and those of map_async and map_blocking, run in the context
                variables of the task that has offered it. Without it, and behind what holds elements back, they run in the run's.
        """
        positive("queue", "bound", bound)
        positive("queue", "max_waiting_offers", max_waiting_offers)
        member("queue", "overflow", overflow, OverflowStrategy)

        def create(m: Materialization) -> tuple[Publisher[Any], SourceQueue[Any]]:
            queue: SourceQueue[Any] = SourceQueue(m, bound, overflow, max_waiting_offers, element_context)
            return queue, queue

        return Source(create, "queue")

    @staticmethod
    def from_observable(
        observable: ObservableBase[T], size: int, overflow: OverflowStrategy, *, scheduler: SchedulerBase | None = None
    ) -> Source[T, None]:
        """What a reactivex observable pushes, from whatever thread; subscribed to by each run, and disposed of at its end.

        An observable does not wait, so what to do with what nobody has asked for yet must be said. An observable that pushes without
        end from within its ``subscribe`` never lets the event loop run again; give it a ``scheduler`` that has a thread of its own.

        Args:
            observable: the observable.
            size: elements that wait at most.
            overflow: what one more does; anything but BACKPRESSURE, with which an observable cannot comply.
            scheduler: what the observable is subscribed with; without it each of its operators uses its own.
        """
        positive("from_observable", "size", size)
        member("from_observable", "overflow", overflow, OverflowStrategy)
        if overflow is OverflowStrategy.BACKPRESSURE:
            raise ValueError(
                "from_observable: an observable cannot be held back, so BACKPRESSURE is no choice here: "
                "say what may be dropped (DROP_HEAD, DROP_TAIL, DROP_NEW, DROP_BUFFER), or FAIL"
            )
        return Source(lambda m: (ObservablePublisher(m, observable, size, overflow, scheduler), None), "observable")

    @staticmethod
    def file(file: str | os.PathLike[str] | BinaryFile, *, chunk_bytes: int = BLOCK_BYTES) -> Source[bytes, None]:
        """The bytes of a file, a pipe or standard input, in chunks, read in a thread as they are asked for, one chunk ahead.

        Args:
            file: a path, opened for each run; or an open binary file, read from where it stands and left open.
            chunk_bytes: bytes in a chunk at most; it has fewer where no more has come.
        """
        expect_file("file", file, "read")
        positive("file", "chunk_bytes", chunk_bytes)
        return Source(lambda m: (BlockPublisher(m, file, chunk_bytes, "stream file", drains=True), None), "file")

    @staticmethod
    def lines(
        file: str | os.PathLike[str] | BinaryFile, *, max_line_bytes: int = MAX_LINE_BYTES
    ) -> Source[bytes, None]:
        r"""The lines of a file, a pipe or standard input, without their ``\n``, read in a thread as they are asked for.

        Args:
            file: a path, opened for each run; or an open binary file, read from where it stands and left open.
            max_line_bytes: a longer line fails the stream with `LineTooLongError`.
        """
        expect_file("lines", file, "read")
        positive("lines", "max_line_bytes", max_line_bytes)
        blocks = Source(lambda m: (BlockPublisher(m, file), None), "lines")
        framing: StageFlow[bytes, bytes] = StageFlow(
            lambda downstream, m: DrainedLines(downstream, m, max_line_bytes), "split"
        )
        return blocks.via(framing)
