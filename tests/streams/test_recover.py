"""What stands in for a failure: recover, recover_with, map_error, on_error_complete."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from streams import Flow, Sink, Source
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle


def failing_after(*elements: int, error: BaseException | None = None) -> Source[int]:
    return Source.from_iterable(elements).concat(Source.failed(error or OSError("first")))


def test_recover_gives_one_last_element_and_waits_for_demand_to_do_so() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.recover(lambda error: int(str(error))).to(sink).run()
        sink.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        await sink.expect_next(1)
        source.probe.send_error(OSError("7"))
        await sink.expect_no_message(1)
        await sink.request_next(7)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_a_recovery_that_was_not_asked_for_ends_with_a_cancellation() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.recover(lambda _: 7).to(sink).run()
        source.probe.send_error(OSError("broken"))
        sink.cancel()
        await running
        await sink.expect_no_message()

    run_in_virtual_time(main())


def test_recover_lets_a_failure_pass_for_which_it_has_nothing() -> None:
    async def main() -> None:
        with pytest.raises(OSError, match="first"):
            await failing_after(1).recover(lambda _: None).run_with(Sink.collect())

    run_in_virtual_time(main())


def test_recover_with_goes_on_with_the_source_that_the_function_gives() -> None:
    async def main() -> None:
        source = failing_after(1, 2).recover_with(1, lambda error: Source.of(str(error), "done"))
        assert await source.run_with(Sink.collect()) == [1, 2, "first", "done"]

    run_in_virtual_time(main())


@pytest.mark.parametrize(("attempts", "expected"), [(0, []), (1, [1]), (3, [1, 2, 3])])
def test_recover_with_makes_as_many_attempts_as_it_may_and_then_fails(attempts: int, expected: list[int]) -> None:
    seen: list[int] = []
    asked: list[BaseException] = []

    def again(error: BaseException) -> Source[int]:
        asked.append(error)
        return failing_after(len(asked), error=OSError(f"attempt {len(asked)}"))

    async def main() -> None:
        with pytest.raises(OSError, match=f"attempt {attempts}" if attempts else "first"):
            await failing_after().recover_with(attempts, again).run_with(Sink.foreach(seen.append))
        assert seen == expected
        assert len(asked) == attempts

    run_in_virtual_time(main())


def test_recover_with_without_a_limit_outlives_any_number_of_failures_and_holds_none_of_them() -> None:
    attempts = 0
    pieces: list[weakref.ref[Any]] = []

    def again(error: BaseException) -> Source[int]:
        nonlocal attempts
        attempts += 1
        source = Source.of(attempts) if attempts == 1000 else failing_after(error=OSError(str(attempts)))
        pieces.append(weakref.ref(source))
        return source

    async def main() -> None:
        sink = TestSink[int](timeout=10)
        running = failing_after().recover_with(-1, again).concat(Source.queue(1)).to(sink).run()
        sink.request(2)
        await sink.expect_next(1000)
        gc.collect()
        assert sum(piece() is not None for piece in pieces) < 5
        running.cancel()

    run_in_virtual_time(main())


def test_demand_that_the_failed_source_has_not_met_goes_to_the_next() -> None:
    async def main() -> None:
        first, second, sink = TestSource[int](), TestSource[int](), TestSink[int]()
        first.recover_with(1, lambda _: second).to(sink).run()
        sink.request(5)
        await first.probe.expect_request(5)
        first.probe.send_next(1, 2)
        first.probe.send_error(OSError("broken"))
        await second.probe.expect_request(3)
        sink.request(1)
        await second.probe.expect_request(1)
        second.probe.send_next(3)
        await sink.expect_next(1, 2, 3)
        sink.cancel()
        await second.probe.expect_cancellation()

    run_in_virtual_time(main())


def test_cancelling_before_the_next_source_has_begun_keeps_it_from_beginning() -> None:
    async def main() -> None:
        first, second, sink = TestSource[int](), TestSource[int](), TestSink[int]()
        first.recover_with(1, lambda _: second).to(sink).run()
        sink.request(1)
        await first.probe.expect_request(1)
        first.probe.send_error(OSError("broken"))
        sink.cancel()
        await settle()
        with pytest.raises(AssertionError, match="nobody has subscribed"):
            _ = second.probe.subscriber
        await sink.expect_no_message()

    run_in_virtual_time(main())


def test_what_belongs_to_the_source_that_stands_in_ends_with_it() -> None:
    closed: list[str] = []

    async def generate() -> Any:
        try:
            yield 1
            await elapse(1e6)
        finally:
            closed.append("closed")

    async def main() -> None:
        sink = TestSink[int]()
        running = failing_after().recover_with(1, lambda _: Source.from_async_iterable(generate)).to(sink).run()
        sink.request(2)
        await sink.expect_next(1)
        sink.cancel()
        await running
        assert closed == ["closed"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["recover", "map_error", "on_error_complete"])
def test_a_function_that_fails_takes_the_place_of_the_failure_which_is_its_context(operator: str) -> None:
    def burst(error: BaseException) -> Any:
        raise KeyError("worse")

    async def main() -> None:
        with pytest.raises(KeyError) as caught:
            await getattr(failing_after(), operator)(burst).run_with(Sink.ignore())
        assert str(caught.value.__context__) == "first"
        assert f"in the stage {operator}(" in caught.value.__notes__[0]
        with pytest.raises(KeyError):
            await failing_after().recover_with(1, burst).run_with(Sink.ignore())

    run_in_virtual_time(main())


def test_map_error_puts_another_failure_in_its_place_with_the_first_as_the_cause() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="explained") as caught:
            await failing_after(1).map_error(lambda _: ValueError("explained")).run_with(Sink.ignore())
        assert str(caught.value.__cause__) == "first"
        with pytest.raises(OSError, match="first"):
            await failing_after(1).map_error(lambda _: None).run_with(Sink.ignore())
        with pytest.raises(OSError, match="first"):
            await failing_after(1).map_error(lambda error: error).run_with(Sink.ignore())
        with pytest.raises(TypeError, match="exception or None, not str"):
            await failing_after(1).map_error(str).run_with(Sink.ignore())  # type: ignore[arg-type]  # what is tested

    run_in_virtual_time(main())


@pytest.mark.parametrize("which", [None, OSError, (KeyError, OSError), lambda error: str(error) == "first"])
def test_on_error_complete_ends_instead_of_failing(which: Any) -> None:
    async def main() -> None:
        flow = Flow[int, int].identity()
        flow = flow.on_error_complete() if which is None else flow.on_error_complete(which)
        assert await failing_after(1, 2).via(flow).run_with(Sink.collect()) == [1, 2]

    run_in_virtual_time(main())


@pytest.mark.parametrize("which", [KeyError, (KeyError, ValueError), lambda _: False])
def test_on_error_complete_lets_other_failures_pass(which: Any) -> None:
    async def main() -> None:
        with pytest.raises(OSError, match="first"):
            await failing_after(1).on_error_complete(which).run_with(Sink.collect())

    run_in_virtual_time(main())


def test_on_error_complete_lets_a_cancellation_pass_unless_it_is_named() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.on_error_complete().run_with(Sink.collect())
        source.probe.send_error(asyncio.CancelledError())
        with pytest.raises(asyncio.CancelledError):
            await running
        source = TestSource[int]()
        running = source.on_error_complete(asyncio.CancelledError).run_with(Sink.collect())
        source.probe.send_error(asyncio.CancelledError())
        assert await running == []

    run_in_virtual_time(main())


def test_arguments_that_make_no_sense_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="attempts"):
        Source.of(1).recover_with(-2, lambda _: None)
    with pytest.raises(TypeError):
        Source.of(1).on_error_complete((1, 2))  # type: ignore[arg-type]  # what is tested
