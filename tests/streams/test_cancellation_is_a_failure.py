"""asyncio.CancelledError out of a user's function fails the stream like any other failure; what ends the process passes through."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from reactivex import operators as ops

from streams import (
    Flow,
    LogLevels,
    Materialization,
    Publisher,
    Sink,
    Source,
    StreamClosedError,
    Subscriber,
    Supervision,
)
from streams.testkit import run_in_virtual_time

Operator = Callable[[Source[int]], Source[Any]]


def cancelled(*_arguments: object) -> Any:
    raise asyncio.CancelledError("of the function")


def gives_then_is_cancelled(*_arguments: object) -> Iterator[int]:
    yield 1
    cancelled()


OPERATORS: dict[str, Operator] = {
    "map": lambda source: source.map(cancelled),
    "map behind map": lambda source: source.map(str).map(cancelled).map(str),
    "filter": lambda source: source.filter(cancelled),
    "filter_not": lambda source: source.filter_not(cancelled),
    "take_while": lambda source: source.take_while(cancelled),
    "drop_while": lambda source: source.drop_while(cancelled),
    "scan": lambda source: source.scan(0, cancelled),
    "fold": lambda source: source.fold(0, cancelled),
    "reduce": lambda source: source.reduce(cancelled),
    "stateful_map": lambda source: source.stateful_map(int, cancelled),
    "stateful_map, create": lambda source: source.stateful_map(cancelled, lambda state, _x: (state, 1)),
    "map_concat": lambda source: source.map_concat(cancelled),
    "map_concat, its iterable": lambda source: source.map_concat(gives_then_is_cancelled),
    "expand": lambda source: source.expand(cancelled),
    "expand, its iterable": lambda source: source.expand(lambda _x: iter(cancelled, 0)),
    "grouped_weighted": lambda source: source.grouped_weighted(3, cancelled),
    "throttle": lambda source: source.throttle(1, 1.0, cost=cancelled),
    "conflate_with_seed": lambda source: source.conflate_with_seed(cancelled, max),
    "group_by": lambda source: source.group_by(3, cancelled).merge_substreams(),
    "split_when": lambda source: source.split_when(cancelled).merge_substreams(),
    "flat_map_concat": lambda source: source.flat_map_concat(cancelled),
    "flat_map_concat, its source": lambda source: source.flat_map_concat(
        lambda _x: Source.failed(asyncio.CancelledError())
    ),
    "flat_map_merge": lambda source: source.flat_map_merge(2, cancelled),
    "zip_with": lambda source: source.zip_with(Source.range(5), cancelled),
    "merge_sorted": lambda source: source.merge_sorted(Source.range(5), key=cancelled),
    "map_async": lambda source: source.map_async(2, cancelled),
    "map_async_unordered": lambda source: source.map_async_unordered(2, cancelled),
    "divert_to": lambda source: source.divert_to(Sink.ignore(), cancelled),
    "log": lambda source: source.log("here", cancelled, levels=LogLevels(element=logging.CRITICAL)),
    "rx map": lambda source: source.via(Flow.rx(ops.map(cancelled))),
    "recover": lambda source: source.map(lambda _x: 1 // 0).recover(cancelled),
    "recover_with": lambda source: source.map(lambda _x: 1 // 0).recover_with(1, cancelled),
    "map_error": lambda source: source.map(lambda _x: 1 // 0).map_error(cancelled),
    "with_supervision": lambda source: source.map(lambda _x: 1 // 0).with_supervision(cancelled),
}

SOURCES: dict[str, Callable[[], Source[Any]]] = {
    "failed": lambda: Source.failed(asyncio.CancelledError("of the function")),
    "iterable": lambda: Source.iterable(gives_then_is_cancelled),
    "its factory": lambda: Source.iterable(cancelled),
    "unfold": lambda: Source.unfold(0, cancelled),
    "lazy": lambda: Source.lazy(cancelled),
    "future": lambda: Source.future(cancelled),
}

SINKS: dict[str, Callable[[], Sink[Any, Any]]] = {
    "foreach": lambda: Sink.foreach(cancelled),
    "fold": lambda: Sink.fold(0, cancelled),
    "reduce": lambda: Sink.reduce(cancelled),
    "fold_async": lambda: Sink.fold_async(0, cancelled),
    "on_complete": lambda: Sink.on_complete(cancelled),
}


async def outcome(source: Source[Any], sink: Sink[Any, Any]) -> Any:
    """How the run ends, seen from outside, so that this task need not be cancelled to know."""
    running = source.run_with(sink)
    ended = asyncio.ensure_future(_wait(running))
    async with asyncio.timeout(100):
        return await ended


async def _wait(running: Any) -> Any:
    try:
        return await running
    except asyncio.CancelledError as error:
        return error


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operators_function_that_raises_cancelled_error_fails_the_stream(name: str) -> None:
    async def main() -> None:
        upstream_ends: list[BaseException | None] = []
        source = Source.range(1, 100).watch_termination(upstream_ends.append)
        failures: list[BaseException] = []
        seen = OPERATORS[name](source).map_error(failures.append)  # type: ignore[arg-type]  # it returns None
        assert isinstance(await outcome(seen, Sink.ignore()), asyncio.CancelledError)
        assert [type(failure) for failure in failures] == [asyncio.CancelledError], "downstream was told"
        assert len(upstream_ends) == 1, "upstream was cancelled, or had ended"

    run_in_virtual_time(main())


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_that_raises_cancelled_error_fails(name: str) -> None:
    async def main() -> None:
        failures: list[BaseException] = []
        seen = SOURCES[name]().map_error(failures.append)  # type: ignore[arg-type,var-annotated]  # as above
        assert isinstance(await outcome(seen, Sink.ignore()), asyncio.CancelledError)
        assert [type(failure) for failure in failures] == [asyncio.CancelledError]

    run_in_virtual_time(main())


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", SINKS)
def test_a_sinks_function_that_raises_cancelled_error_fails_the_stream(name: str, fused: bool) -> None:
    async def main() -> None:
        source = Source.range(1, 100)
        found = await outcome(source.map(int) if fused else source, SINKS[name]())
        assert isinstance(found, asyncio.CancelledError)

    run_in_virtual_time(main())


def test_it_does_not_go_to_a_decider_as_it_is_no_failure_of_an_element() -> None:
    async def main() -> None:
        source = Source.range(100).map(cancelled).with_supervision(Supervision.resuming)
        assert isinstance(await outcome(source, Sink.ignore()), asyncio.CancelledError)

    run_in_virtual_time(main())


class _Rude(Subscriber[Any]):
    """Raises from on_next, against rule 2.13."""

    def on_subscribe(self, subscription: Any) -> None:
        subscription.request(3)

    def on_next(self, _element: Any) -> None:
        cancelled()

    def on_error(self, error: BaseException) -> None:
        """Nothing."""

    def on_complete(self) -> None:
        """Nothing."""


@pytest.mark.parametrize("source", [Source.range(5), Source.tick(1.0)], ids=["iterable", "tick"])
def test_a_subscriber_that_raises_cancelled_error_fails_the_run_and_not_the_loop(source: Source[int]) -> None:
    async def main() -> None:
        def attach(publisher: Publisher[Any], m: Materialization) -> asyncio.Future[None]:
            publisher.subscribe(_Rude())
            done: asyncio.Future[None] = m.loop.create_future()
            m.on_cancel(done.cancel)  # type: ignore[arg-type]  # what it returns is of no interest
            return done

        assert isinstance(await outcome(source, Sink(attach)), asyncio.CancelledError)

    run_in_virtual_time(main())


@pytest.mark.parametrize("fatal", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_process_ends_the_loop(fatal: type[BaseException]) -> None:
    ended: list[str] = []

    def raising(_element: int) -> int:
        raise fatal

    async def main() -> None:
        try:
            await Source.range(5).map(raising).to(Sink.ignore()).run()
        finally:
            ended.append("main")

    with pytest.raises(fatal):
        run_in_virtual_time(main())
    assert ended == ["main"]


def test_a_run_that_was_cancelled_is_told_from_one_that_failed_with_cancelled_error() -> None:
    async def main() -> None:
        failed = Source.failed(asyncio.CancelledError("told")).run_with(Sink.queue())
        with pytest.raises(asyncio.CancelledError, match="told"):
            await failed.value.pull()
        stopped = Source.never().run_with(Sink.queue())
        stopped.cancel()
        with pytest.raises(StreamClosedError):
            await stopped.value.pull()

    run_in_virtual_time(main())
