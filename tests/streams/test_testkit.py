"""The test kit itself: a clock that jumps, and probes that notice what is wrong."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from streams import Sink, Source
from streams.testkit import (
    DeadlockError,
    TestPublisher,
    TestSink,
    TestSource,
    TestSubscriber,
    VirtualTimeLoop,
    elapse,
    run_in_virtual_time,
    settle,
)


def test_virtual_time_jumps_to_the_next_timer_and_nowhere_else() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        for seconds in (3600, 0.5, 86_400 * 400):
            await elapse(seconds)
            times.append(loop.time())
        return times

    began = time.monotonic()
    assert run_in_virtual_time(main()) == [0.0, 3600.0, 3600.5, 34_563_600.5]
    assert time.monotonic() - began < 10


def test_timers_fire_in_their_order_at_their_times() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        fired: list[tuple[str, float]] = []
        for name, at in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("a2", 1.0)):
            loop.call_at(at, lambda name=name: fired.append((name, loop.time())))
        await elapse(5)
        assert fired == [("a", 1.0), ("a2", 1.0), ("b", 2.0), ("c", 3.0)]

    run_in_virtual_time(main())


def test_a_wait_that_nothing_can_end_is_a_deadlock_that_names_who_waits() -> None:
    async def main() -> None:
        task = asyncio.create_task(asyncio.Event().wait(), name="the one that waits")
        await task

    with pytest.raises(DeadlockError, match="the one that waits"):
        run_in_virtual_time(main(), io_grace=0)


def test_the_result_and_the_failure_of_the_coroutine_come_out() -> None:
    async def main(fail: bool) -> int:
        if fail:
            raise OSError("broken")
        return 5

    assert run_in_virtual_time(main(False)) == 5
    with pytest.raises(OSError, match="broken"):
        run_in_virtual_time(main(True))


def test_threads_and_sockets_work_in_virtual_time() -> None:
    async def main() -> None:
        assert await asyncio.to_thread(lambda: "from a thread") == "from a thread"

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.read(10))
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello")
        assert await reader.read(10) == b"hello"
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()

    run_in_virtual_time(main())


def test_the_loop_is_an_ordinary_selector_loop() -> None:
    loop = VirtualTimeLoop()
    try:
        assert isinstance(loop, asyncio.SelectorEventLoop)
        assert loop.time() == 0.0
        loop.run_until_complete(elapse(2))
        assert loop.time() == 2.0
    finally:
        loop.close()


def failing(awaitable: Any, match: str) -> Any:
    async def expect() -> None:
        with pytest.raises(AssertionError, match=match):
            await awaitable

    return expect()


def test_an_expectation_that_is_not_met_says_what_was_expected_and_what_came() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.to(sink).run()
        sink.request(9)
        source.probe.send_next(1)
        await failing(sink.expect_next(2), "expected next 2, got next 1")
        await failing(sink.expect_next(), "expected an element, but nothing came for 3 s")
        source.probe.send_next(3)
        await failing(sink.expect_complete(), "expected complete, got next 3")
        source.probe.send_next(4)
        await failing(sink.expect_error(), "expected error BaseException, got next 4")
        source.probe.send_next(5)
        await failing(sink.expect_no_message(), "expected no signal, got next 5")
        source.probe.send_error(KeyError("x"))
        await sink.expect_next(5)
        await failing(sink.expect_error(OSError), "expected error OSError, got error KeyError")
        await failing(source.probe.expect_cancellation(), "expected a cancellation")
        await source.probe.expect_request(9)
        await failing(source.probe.expect_request(), "expected a request")
        with pytest.raises(KeyError):
            await running

    run_in_virtual_time(main())


def test_a_request_of_the_wrong_size_is_noticed() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.to(sink).run()
        sink.request(2)
        await failing(source.probe.expect_no_request(), r"got request\(2\)")
        await failing(source.probe.expect_request(3), r"expected request\(3\), got request\(2\)")
        sink.cancel()

    run_in_virtual_time(main())


def test_a_publisher_probe_refuses_to_send_what_was_not_asked_for() -> None:
    async def main() -> None:
        probe, subscriber = TestPublisher[int](), TestSubscriber[int]()
        with pytest.raises(AssertionError, match="nobody has subscribed"):
            probe.send_next(1)
        with pytest.raises(AssertionError, match="before on_subscribe"):
            subscriber.request(1)
        probe.subscribe(subscriber)
        subscriber.request(1)
        with pytest.raises(AssertionError, match="2 was not asked for"):
            probe.send_next(1, 2)
        await subscriber.expect_next(1)

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("break_it", "rule"),
    [
        (lambda s: s.on_next(1), "1.1"),
        (lambda s: (s.on_complete(), s.on_complete()), "1.7"),
        (lambda s: (s.on_error(OSError()), s.request(1), s.on_next(1)), "1.7"),
    ],
)
def test_a_publisher_that_breaks_a_rule_fails_the_next_expectation(break_it: Any, rule: str) -> None:
    async def main() -> None:
        subscriber = TestSubscriber[int]()
        TestPublisher[int]().subscribe(subscriber)
        break_it(subscriber)
        await failing(subscriber.expect_no_message(), rule)

    run_in_virtual_time(main())


def test_a_signal_before_on_subscribe_breaks_rule_1_9() -> None:
    async def main() -> None:
        subscriber = TestSubscriber[int]()
        subscriber.on_complete()
        await failing(subscriber.expect_complete(), r"1\.9")

    run_in_virtual_time(main())


def test_a_subscriber_probe_cancels_a_second_subscription() -> None:
    async def main() -> None:
        subscriber = TestSubscriber[int]()
        first, second = TestPublisher[int](), TestPublisher[int]()
        first.subscribe(subscriber)
        second.subscribe(subscriber)
        assert second.cancelled
        assert not first.cancelled

    run_in_virtual_time(main())


def test_a_test_sink_and_a_test_source_are_for_one_run() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.to(sink).run()
        with pytest.raises(AssertionError, match="one run"):
            Source.of(1).to(sink).run()
        with pytest.raises(AssertionError, match="one subscriber"):
            source.to(Sink.ignore()).run()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await settle()

    run_in_virtual_time(main())
