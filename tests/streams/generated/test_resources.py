"""The clean-up of a source runs whole, and before the end of the run is told: behind every operator, in every way to end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from streams import Sink, Source, materialize
from streams.testkit import elapse, run_in_virtual_time
from tests.streams.catalogue import every
from tests.streams.catalogue.case import FlowCase, SinkCase
from tests.streams.generated.resources import ENDS, NO_END, SOON, Consumer, Resource, broken, cut_short

BY_AN_ELEMENT = [
    "take",
    "take, of a source that never waits",
    "head",
    "failure below",
    "zip",
    "inner source",
    "iteration left",
]
"""Ends that need no clock: for operators with threads, and for those with another source that never lets virtual time go on."""

NEVER_AT_REST = {"merge_latest", "zip_latest", "zip_latest_with", "expand", "extrapolate"}
"""Operators that go on for ever by themselves, without a pause; those with an endless other source say so in their names."""


def ends_of(case: FlowCase) -> list[str]:
    """Ends at which ``case`` is tested."""
    at_rest = case.virtual_time and "endless other" not in case.name and case.name not in NEVER_AT_REST
    return list(ENDS) if at_rest else BY_AN_ELEMENT


@pytest.mark.parametrize("case", every.flows(), ids=lambda case: case.name)
def test_the_clean_up_of_a_source_runs_whole_behind_every_operator(case: FlowCase) -> None:
    async def main() -> list[str]:
        return await cut_short(lambda source: source.via(case.flow()), ends_of(case))

    assert (run_in_virtual_time if case.virtual_time else asyncio.run)(main()) == []


def test_the_clean_up_of_a_source_runs_whole_with_no_operator_at_all() -> None:
    assert run_in_virtual_time(cut_short(lambda source: source)) == []


@pytest.mark.parametrize("case", [case for case in every.sinks() if case.virtual_time], ids=lambda case: case.name)
@pytest.mark.parametrize("how", ["cancel", "stop", "failure", "completion"])
def test_the_clean_up_of_a_source_runs_whole_above_every_sink(case: SinkCase, how: str) -> None:
    resource = Resource(fail_at=3 if how == "failure" else -1, end_at=3 if how == "completion" else -1)

    async def main() -> None:
        running = resource.source().to(case.sink()).run()
        await elapse(NO_END)
        if how == "stop":
            await running.stop()
        else:
            running.cancel()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await running
        assert resource.opened == resource.closed

    run_in_virtual_time(main())


SECOND: dict[str, Callable[[Source[int]], Source[Any]]] = {
    "merge": lambda other: Source.of(1, 2).merge(other),
    "merge, eager": lambda other: Source.of(1, 2).merge(other, eager_complete=True),
    "merge_preferred": lambda other: Source.of(1, 2).merge_preferred(other, eager_complete=True),
    "merge_prioritized": lambda other: Source.of(1, 2).merge_prioritized(other, 1, 2, eager_complete=True),
    "merge_sorted": lambda other: Source.of(1, 2).merge_sorted(other),
    "merge_latest": lambda other: Source.of(1, 2).merge_latest(other, eager_complete=True),
    "interleave": lambda other: Source.of(1, 2).interleave(other, 1, eager_close=True),
    "concat": lambda other: Source.of(1).concat(other),
    "prepend": lambda other: Source.of(1).prepend(other),
    "or_else": lambda other: Source.empty().or_else(other),
    "zip": lambda other: Source.of(1, 2).zip(other),
    "zip_with": lambda other: Source.of(1, 2).zip_with(other, lambda a, b: (a, b)),
    "zip_all": lambda other: Source.of(1, 2).zip_all(other, 0, 0),
    "zip_latest": lambda other: Source.of(1, 2).zip_latest(other),
    "recover_with": lambda other: Source.failed(OSError("first")).recover_with(1, lambda _error: other),
    "flat_map_concat": lambda other: Source.of(1, 2).flat_map_concat(lambda _: other),
    "flat_map_merge": lambda other: Source.of(1, 2).flat_map_merge(2, lambda n: other if n == 1 else Source.never()),
    "lazy": lambda other: Source.lazy(lambda: other),
    "group_by": lambda other: other.group_by(2, lambda n: n % 2).merge_substreams(),
    "prefix_and_tail": lambda other: other.prefix_and_tail(1).flat_map_concat(lambda pair: pair[1]),
    "flat_map_prefix": lambda other: Source.of(1, 2).flat_map_concat(lambda _: other).map(str),
    "also_to": lambda other: other.also_to(Sink.ignore()),
}
"""Sources within operators."""


@pytest.mark.parametrize("name", SECOND)
def test_the_clean_up_of_a_second_source_runs_whole(name: str) -> None:
    async def main() -> list[str]:
        return await cut_short(SECOND[name])

    assert run_in_virtual_time(main()) == []


@pytest.mark.parametrize("end", ["completion", "take", "failure below"])
def test_an_iterator_with_an_aclose_of_its_own_is_closed_whole(end: str) -> None:
    resource = Resource()
    source = Source.from_async_iterable(lambda: Consumer(resource, 3))

    async def main() -> None:
        behind = {"completion": source, "take": source.take(1), "failure below": source.map(broken)}[end]
        with contextlib.suppress(KeyError):
            await behind.to(Sink.ignore()).run()
        assert (resource.opened, resource.closed) == (1, 1)

    run_in_virtual_time(main())


@pytest.mark.parametrize("how", ["takes nothing", "cancelled at once"])
def test_an_iterator_that_is_open_is_closed_by_a_run_that_takes_nothing_of_it(how: str) -> None:
    resource = Resource()

    async def main() -> None:
        source = Source.from_async_iterable(Consumer(resource, 3))
        if how == "takes nothing":
            assert await source.take(0).to(Sink.collect()).run() == []
        else:
            running = source.to(Sink.ignore()).run()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert resource.opened == resource.closed == 1

    run_in_virtual_time(main())


def test_a_completion_is_passed_on_once_the_iterator_is_closed() -> None:
    """A source that follows must find the place of the first one free."""
    resource = Resource()

    async def main() -> None:
        async def second() -> AsyncIterator[int]:
            assert resource.closed == 1
            yield 7

        first = Source.from_async_iterable(lambda: Consumer(resource, 1))
        following = first.concat(Source.from_async_iterable(second))
        assert await following.to(Sink.collect()).run() == [0, 7]

    run_in_virtual_time(main())


def test_what_a_coroutine_does_about_its_cancellation_runs_whole() -> None:
    """Those of map_async, and of Source.future: they are interrupted once."""
    resource = Resource()

    async def work(_element: object = None) -> int:
        resource.opened += 1
        try:
            await elapse(1e6)
        finally:
            for _ in range(4):
                await asyncio.sleep(0)
            resource.closed += 1
        return 1

    async def main() -> None:
        for stream in (
            Source.of(1, 2, 3).map_async(2, work),
            Source.of(1, 2, 3).map_async_unordered(2, work),
            Source.of(1, 2, 3).map_async_partitioned(2, 1, lambda n: n, lambda n, _key: work(n)),
            Source.future(work),
            Source.unfold_async(0, work),
        ):
            for ended in (stream, stream.completion_timeout(SOON), stream.merge(Source.of(1).map(broken))):
                running = ended.to(Sink.ignore()).run()
                await elapse(2 * SOON)
                running.cancel()
                with contextlib.suppress(Exception, asyncio.CancelledError):
                    await running
                assert resource.opened == resource.closed > 0

    run_in_virtual_time(main())


@pytest.mark.parametrize("where", ["at its yield", "where it waits"])
def test_a_clean_up_that_hangs_has_a_deadline_and_is_reported(where: str, loop_reports: list[str]) -> None:
    async def hanging() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()

    async def main() -> None:
        source = Source.from_async_iterable(hanging)
        loop = asyncio.get_running_loop()
        if where == "at its yield":
            assert await source.take(1).to(Sink.collect()).run() == [1]
        else:
            with pytest.raises(TimeoutError):
                await source.completion_timeout(1).to(Sink.ignore()).run()
        assert loop.time() == pytest.approx(materialize.CLEAN_UP_TIMEOUT + (0 if where == "at its yield" else 1))

    run_in_virtual_time(main())
    assert len(loop_reports) == 1
    assert "clean-up" in loop_reports[0]


def test_an_iterator_that_hangs_when_interrupted_and_when_closed_is_let_go_of(loop_reports: list[str]) -> None:
    class Hanging:
        def __aiter__(self) -> Hanging:
            return self

        async def __anext__(self) -> int:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.Event().wait()
            return 0

        async def aclose(self) -> None:
            await asyncio.Event().wait()

    async def main() -> None:
        from streams import GraphBuilder

        builder = GraphBuilder()
        queue = builder.add(Sink.queue())
        builder.connect(builder.add(Source.from_async_iterable(Hanging)), queue)
        builder.connect(builder.add(Source.never()), builder.add(Sink.ignore()))
        running = builder.build().run()
        await elapse(SOON)
        async with asyncio.timeout(3 * materialize.CLEAN_UP_TIMEOUT):
            await running.value.aclose()
        await running.stop()

    run_in_virtual_time(main())
    assert len(loop_reports) == 2
    assert all("clean-up" in report for report in loop_reports)


@pytest.mark.parametrize("nested", [0, 1, 2, 3])
def test_a_loop_that_shuts_down_interrupts_a_source_once(nested: int) -> None:
    resource = Resource()

    def within(source: Source[int]) -> Source[int]:
        return Source.of(1).flat_map_concat(lambda _: source)

    async def main() -> None:
        source = resource.source()
        for _ in range(nested):
            source = within(source)
        source.to(Sink.ignore()).run()
        await elapse(SOON)

    run_in_virtual_time(main())
    assert (resource.opened, resource.closed) == (1, 1)


def test_a_queue_beside_another_sink_is_closed_with_its_own_source_alone() -> None:
    """The run goes on: closing the queue must not wait for that."""
    resource = Resource()

    async def main() -> None:
        from streams import GraphBuilder

        builder = GraphBuilder()
        queue = builder.add(Sink.queue())
        builder.connect(builder.add(resource.source()), queue)
        builder.connect(builder.add(Source.never()), builder.add(Sink.ignore()))
        running = builder.build().run()
        await elapse(SOON)
        async with asyncio.timeout(1):
            await running.value.aclose()
        assert resource.closed == 1
        assert not running.done()
        await running.stop()

    run_in_virtual_time(main())


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_a_source_that_ends_the_program_has_not_completed(end: type[BaseException], loop_reports: list[str]) -> None:
    told: list[object] = []
    closed: list[int] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            raise end
        finally:
            closed.append(1)

    async def main() -> None:
        source = Source.from_async_iterable(numbers)
        await source.to(Sink.on_complete(told.append)).run()

    with pytest.raises(end):
        asyncio.run(main())
    assert closed == [1]
    assert None not in told
    assert all(end.__name__ in report for report in loop_reports)
