"""A failure that its user has been told otherwise than by the handle is not reported as lost; one that nobody came for is."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from streams import Flow, Keep, Running, Sink, Source, Supervision
from streams.supervised_run import SupervisedRun
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle


def reports() -> list[str]:
    found: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: found.append(str(context.get("exception", context["message"])))
    )
    return found


async def collected() -> None:
    await settle()
    gc.collect()
    await settle()


def failing() -> Source[int]:
    return Source.failed(OSError("broken"))


@pytest.mark.parametrize("sink", [Sink.queue(), Sink.as_async_iterator()], ids=["queue", "iterator"])
@pytest.mark.parametrize("keep_handle", [True, False])
def test_a_failure_that_was_pulled_is_not_reported(sink: Sink[Any, None], keep_handle: bool) -> None:
    async def main() -> None:
        found = reports()
        running: Running[Any] | None = failing().run_with(sink)
        queue = running.value  # type: ignore[union-attr]  # it is one still
        if not keep_handle:
            running = None
        await collected()  # the run is over before anybody comes
        with pytest.raises(OSError, match="broken"):
            await anext(queue)
        del queue, running
        await collected()
        assert found == []

    run_in_virtual_time(main())


def test_a_failure_is_handed_over_to_one_who_waits_for_it() -> None:
    async def main() -> None:
        found = reports()
        source = TestSource[int]()
        running = source.run_with(Sink.queue(), Keep.right)
        waiting = asyncio.ensure_future(running.value.pull())
        await settle()
        source.probe.send_error(OSError("broken"))
        with pytest.raises(OSError, match="broken"):
            await waiting
        del running, waiting
        await collected()
        assert found == []

    run_in_virtual_time(main())


def test_a_failure_that_nobody_pulled_is_reported() -> None:
    async def main() -> None:
        found = reports()
        queue = failing().run_with(Sink.queue()).value
        await collected()
        assert found == []  # somebody may still come
        del queue
        await collected()
        assert found == ["broken"]

    run_in_virtual_time(main())


def test_another_failure_than_the_one_that_was_told_is_reported() -> None:
    async def main() -> None:
        found = reports()
        running = Source.never().broadcast(Sink.queue(), Sink.ignore()).run()
        running._m.hand_over(ValueError("told"))
        running._m.fail(OSError("not told"))
        del running
        await collected()
        assert found == ["not told"]

    run_in_virtual_time(main())


def test_the_handle_raises_what_was_handed_over() -> None:
    async def main() -> None:
        running = failing().run_with(Sink.queue())
        with pytest.raises(OSError, match="broken"):
            await running.value.pull()
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


def test_what_an_observer_was_told_is_not_reported() -> None:
    async def main() -> None:
        found = reports()
        told: list[str] = []
        running = failing().run_with(Sink.as_observable())
        running.value.subscribe(on_error=lambda error: told.append(str(error)))
        del running
        await collected()
        assert (told, found) == (["broken"], [])

    run_in_virtual_time(main())


def test_an_observer_without_on_error_ends_the_run_and_its_fault_is_reported() -> None:
    async def main() -> None:
        found = reports()
        running = failing().run_with(Sink.as_observable())
        running.value.subscribe(lambda _element: None)
        with pytest.raises(OSError, match="broken"):
            await running
        assert found == ["broken"]

    run_in_virtual_time(main())


def test_what_a_subscriber_of_a_publisher_was_told_is_not_reported() -> None:
    async def main() -> None:
        found = reports()
        sink = TestSink[int]()
        other = Source.from_publisher(lambda: failing().run_with(Sink.as_publisher()).value).run_with(sink)
        await sink.expect_subscription_and_error(OSError)
        with pytest.raises(OSError, match="broken"):
            await other
        del other, sink
        await collected()
        assert found == []

    run_in_virtual_time(main())


def test_a_failure_under_supervision_is_handed_over_all_the_same() -> None:
    async def main() -> None:
        found = reports()
        supervised = failing().via(Flow.identity()).with_supervision(Supervision.resuming)
        running = supervised.run_with(Sink.queue())
        with pytest.raises(OSError, match="broken"):
            await running.value.pull()
        SupervisedRun(running._m, Supervision.stopping).will_hand_over()
        SupervisedRun(running._m, Supervision.stopping).hand_over(OSError("another"))
        del running
        await collected()
        assert found == []

    run_in_virtual_time(main())
