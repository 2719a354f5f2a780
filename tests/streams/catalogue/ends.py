"""Sources, sinks and framing flows, for the generated tests."""

from __future__ import annotations

import asyncio
import io
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import reactivex
from reactivex.disposable import Disposable

from streams import BidiFlow, Flow, Framing, OverflowStrategy, Publisher, Sink, Source, Subscriber, Subscription
from streams.stages.framing import LineFraming
from tests.streams.catalogue.case import FlowCase, SinkCase, SourceCase
from tests.streams.verification.originals import PassOn

BLOCK = b"x" * 1024
"""What files without end consist of."""


class _Endless(io.RawIOBase):
    """A file without end."""

    def read(self, size: int = -1) -> bytes:
        return (BLOCK * (size // len(BLOCK) + 1))[:size]


class _EndlessLines(io.RawIOBase):
    """A file of lines without end."""

    def read(self, size: int = -1) -> bytes:
        return b"line\n" * (size // 5)


class _Nowhere(io.RawIOBase):
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


async def _numbers(count: int | None = None) -> AsyncIterator[int]:
    for n in itertools.count() if count is None else range(count):
        yield n


def _queue(count: int | None) -> Source[Any]:
    """A queue that a task fills with ``offer_wait``."""

    def create(m: Any) -> tuple[Publisher[Any], Any]:
        publisher, queue = Source.queue(16).create(m)

        async def feed() -> None:
            for n in itertools.count() if count is None else range(count):
                await queue.offer_wait(n)
            queue.complete()

        # A stream that is cancelled closes the queue while the task waits: no failure of the run's.
        m.spawn(feed(), "feed", lambda task: task.cancelled() or task.exception())
        return publisher, queue

    return Source(create, "queue")


def _observable_on_a_timer(count: int) -> Any:
    """An observable that pushes a number every millisecond, as long as it is subscribed to."""

    def subscribe(observer: Any, _scheduler: Any = None) -> Any:
        loop = asyncio.get_running_loop()
        handle: list[Any] = []

        def push(n: int) -> None:
            if n == count:
                observer.on_completed()
                return
            handle[:] = [loop.call_later(0.001, push, n + 1)]
            observer.on_next(n)

        def dispose() -> None:
            handle[0].cancel()  # the one of now

        handle.append(loop.call_soon(push, 0))
        return Disposable(dispose)

    return reactivex.create(subscribe)


def _from_publisher(elements: Source[Any]) -> Source[Any]:
    """A source of a publisher: the one that another source has in the same run."""
    return Source(lambda m: Source.from_publisher(lambda: elements.create(m)[0]).create(m), "publisher")


def _as_subscriber(elements: Source[Any]) -> Source[Any]:
    """A source whose subscriber is given to the publisher that another source has in the same run."""

    def create(m: Any) -> tuple[Publisher[Any], Any]:
        publisher, subscriber = Source.as_subscriber().create(m)
        elements.create(m)[0].subscribe(subscriber)
        return publisher, subscriber

    return Source(create, "subscriber")


def _step(n: int) -> tuple[int, int]:
    return n + 1, n


def _steps(count: int) -> Callable[[int], tuple[int, int] | None]:
    return lambda n: _step(n) if n < count else None


def _later(step: Callable[[int], tuple[int, int] | None]) -> Callable[[int], Any]:
    async def later(n: int) -> tuple[int, int] | None:
        return step(n)

    return later


async def _one() -> int:
    return 1


def _only(count: int, source: Callable[[], Source[Any]]) -> Callable[[int], Source[Any]]:
    """For a source that has ``count`` elements and no other number: fewer by `take`, more by repetition of the source."""

    def exactly(wanted: int) -> Source[Any]:
        whole = source()
        return whole.concat(*(source() for _ in range(-(-wanted // count) - 1))).take(wanted)

    return exactly


SOURCES: list[SourceCase] = [
    SourceCase("from_iterable", lambda n: Source.from_iterable(range(n)), lambda: Source.iterable(itertools.count)),
    SourceCase("iterable", lambda n: Source.iterable(lambda: iter(range(n))), lambda: Source.iterable(itertools.count)),
    SourceCase(
        "from_blocking_iterable",
        lambda n: Source.from_blocking_iterable(lambda: iter(range(n))),
        lambda: Source.from_blocking_iterable(itertools.count),
        virtual_time=False,
    ),
    SourceCase("range", Source.range, lambda: Source.range(2**62)),
    SourceCase("of", lambda n: Source.of(*range(n))),
    SourceCase("single", _only(1, lambda: Source.single(7))),
    SourceCase(
        "from_publisher",
        lambda n: _from_publisher(Source.range(n)),
        lambda: _from_publisher(Source.iterable(itertools.count)),
    ),
    SourceCase(
        "as_subscriber",
        lambda n: _as_subscriber(Source.range(n)),
        lambda: _as_subscriber(Source.iterable(itertools.count)),
    ),
    SourceCase("repeat", lambda n: Source.repeat(7).take(n), lambda: Source.repeat(7)),
    SourceCase("cycle", lambda n: Source.cycle([1, 2, 3]).take(n), lambda: Source.cycle([1, 2, 3])),
    SourceCase(
        "from_async_iterable",
        lambda n: Source.from_async_iterable(lambda: _numbers(n)),
        lambda: Source.from_async_iterable(_numbers),
    ),
    SourceCase("unfold", lambda n: Source.unfold(0, _steps(n)), lambda: Source.unfold(0, _step)),
    SourceCase(
        "unfold_async",
        lambda n: Source.unfold_async(0, _later(_steps(n))),
        lambda: Source.unfold_async(0, _later(_step)),
    ),
    SourceCase("tick", lambda n: Source.tick(0.001).take(n), lambda: Source.tick(0.001)),
    SourceCase("queue", _queue, lambda: _queue(None)),
    SourceCase("future", _only(1, lambda: Source.future(_one))),
    SourceCase("lazy", lambda n: Source.lazy(lambda: Source.range(n)), lambda: Source.lazy(lambda: Source.repeat(7))),
    SourceCase(
        "from_observable",
        # As many as there are find room, so that none is dropped however slowly they are asked for.
        lambda n: Source.from_observable(_observable_on_a_timer(n), max(1, n), OverflowStrategy.FAIL),
        lambda: Source.from_observable(_observable_on_a_timer(-1), 16, OverflowStrategy.DROP_HEAD),
    ),
    SourceCase(
        "lines",
        lambda n: Source.lines(io.BytesIO(b"line\n" * n)),
        lambda: Source.lines(_EndlessLines()),
        virtual_time=False,
    ),
    SourceCase(
        "file",
        lambda n: Source.file(io.BytesIO(BLOCK * n), chunk_bytes=len(BLOCK)),
        lambda: Source.file(_Endless(), chunk_bytes=len(BLOCK)),
        virtual_time=False,
    ),
]


async def _nothing(_element: Any) -> None:
    """Takes no time."""


async def _add(state: int, element: int) -> int:
    return state + element


def _encoded(sink: Sink[bytes, Any]) -> Sink[Any, Any]:
    return Flow[Any, Any].identity().map(lambda n: b"%r" % (n,)).to(sink)


class _Acknowledged:
    """What `Sink.acknowledge` takes."""

    def acknowledge(self) -> None:
        """Nothing is to be done."""


class _OneByOne(Subscriber[Any]):
    """A subscriber of somebody's own."""

    def on_subscribe(self, subscription: Subscription) -> None:
        if subscription is None:
            raise TypeError("on_subscribe(None)")
        if hasattr(self, "_subscription"):
            subscription.cancel()
            return
        self._subscription = subscription
        subscription.request(1)

    def on_next(self, element: Any) -> None:
        if element is None:
            raise TypeError("on_next(None)")
        self._subscription.request(1)

    def on_error(self, error: BaseException) -> None:
        if error is None:
            raise TypeError("on_error(None)")

    def on_complete(self) -> None:
        """Nothing is to be done."""


SINKS: list[SinkCase] = [
    SinkCase("from_subscriber", lambda: Sink.from_subscriber(_OneByOne), lambda _: None),
    SinkCase(
        "valued",
        lambda: Sink.valued(lambda publisher, m: (Sink.ignore().attach_sink(publisher, m), "a value")),
        lambda _: None,
    ),
    SinkCase("foreach", lambda: Sink.foreach(str), len),
    SinkCase("foreach_async", lambda: Sink.foreach_async(4, _nothing), len),
    SinkCase("foreach_blocking", lambda: Sink.foreach_blocking(2, str), len, virtual_time=False),
    SinkCase("collect", Sink.collect, list, endless=False),
    SinkCase("fold", lambda: Sink.fold(0, int.__add__), sum),
    SinkCase("fold_async", lambda: Sink.fold_async(0, _add), sum),
    SinkCase("reduce", lambda: Sink.reduce(max), None),
    SinkCase("head", Sink.head, None),
    SinkCase("head_option", Sink.head_option, lambda numbers: numbers[0] if numbers else None),
    SinkCase("last", Sink.last, None),
    SinkCase("last_option", Sink.last_option, lambda numbers: numbers[-1] if numbers else None),
    SinkCase("take_last", lambda: Sink.take_last(3), lambda numbers: numbers[-3:]),
    SinkCase("ignore", Sink.ignore, lambda _: None),
    SinkCase("cancelled", Sink.cancelled, lambda _: None),
    SinkCase("on_complete", lambda: Sink.on_complete(str), lambda _: None),
    SinkCase(
        "acknowledge",
        lambda: Flow[Any, Any].identity().map(lambda _: _Acknowledged()).to(Sink.acknowledge()),
        len,
    ),
    # These wait for somebody who pulls, subscribes or observes; by themselves they take what they hold ahead and no more.
    SinkCase("queue", Sink.queue, None),
    SinkCase("as_async_iterator", Sink.as_async_iterator, None),
    SinkCase("as_observable", Sink.as_observable, None),
    SinkCase("as_publisher", Sink.as_publisher, None),
    SinkCase("file", lambda: _encoded(Sink.file(_Nowhere())), None, virtual_time=False),
]


def _framed(before: Callable[[int], bytes], framing: Callable[[], Flow[bytes, bytes]]) -> Callable[[], Flow[Any, Any]]:
    """Numbers as bytes, framed, taken apart again."""
    return lambda: Flow[int, int].identity().map(before).via(framing()).map(int)


def _lines() -> Flow[bytes, bytes]:
    return Flow.from_stage(lambda downstream, m: LineFraming(downstream, m, 100), "lines")


def _same(numbers: list[int]) -> list[int]:
    return numbers


def _there_and_back() -> Flow[int, int]:
    """Through both flows of a protocol, with nothing at its other end."""
    return BidiFlow.from_functions(lambda n: n + 1, lambda n: n - 1).join(Flow[int, int].identity())


def _nothing_there_and_back() -> Flow[int, int]:
    return BidiFlow[int, int, int, int].identity().join(Flow[int, int].identity())


def _processor() -> Flow[int, int]:
    return Flow.from_processor(PassOn)


def _valued() -> Flow[int, int]:
    return Flow.valued(lambda publisher, m: (Flow[int, int].identity().attach_flow(publisher, m), "a value"))


FLOWS: list[FlowCase] = [
    FlowCase("identity", Flow.identity, _same, identity=Flow.identity),
    FlowCase("valued", _valued, _same, identity=_valued),
    FlowCase("from_processor", _processor, _same, identity=_processor),
    FlowCase("bidi_flow, join", _there_and_back, _same, identity=_there_and_back),
    FlowCase("bidi_flow, identity", _nothing_there_and_back, _same, identity=_nothing_there_and_back),
    # One block is asked for at a time and one frame is in each.
    FlowCase("lines", _framed(lambda n: b"%d\n" % n, _lines), _same, ahead=0),
    FlowCase(
        "framing, delimiter of one byte",
        _framed(lambda n: b"%d|" % n, lambda: Framing.delimiter(b"|", 100)),
        _same,
        ahead=0,
    ),
    FlowCase(
        "framing, delimiter",
        _framed(lambda n: b"%d\r\n" % n, lambda: Framing.delimiter(b"\r\n", 100)),
        _same,
        ahead=0,
    ),
    FlowCase(
        "framing, length_field",
        lambda: (
            Flow[int, int]
            .identity()
            .map(lambda n: b"%d" % n)
            .via(Framing.encode_length_field(2, max_frame_bytes=100))
            .via(Framing.length_field(2, max_frame_bytes=100, keep_header=False))
            .map(int)
        ),
        _same,
        ahead=0,
    ),
]
