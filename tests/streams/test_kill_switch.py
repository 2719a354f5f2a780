"""Kill switches: one stream or many, from the loop or from another thread, before, during and after."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

from streams import Keep, KillSwitches, Sink, Source, StreamError, UniqueKillSwitch
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle

WAIT = 30.0
"""Seconds within which a thread must get on; only a failing test takes them."""


def test_shutdown_completes_downstream_and_cancels_upstream() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.via(KillSwitches.single(), Keep.right).to(sink, Keep.left).run()
        switch = running.value
        assert isinstance(switch, UniqueKillSwitch)
        sink.request(2)
        await source.probe.expect_request(2)
        source.probe.send_next(1)
        switch.shutdown()
        assert source.probe.cancelled
        source.probe.send_next(2)  # still on its way
        await sink.expect_next(1)
        await sink.expect_complete()
        await sink.expect_no_message()
        await running

    run_in_virtual_time(main())


def test_abort_fails_downstream_and_cancels_upstream() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.via(KillSwitches.single(), Keep.right).to(sink, Keep.left).run()
        sink.request(2)
        error = OSError("enough")
        running.value.abort(error)
        assert await sink.expect_error(OSError) is error
        assert source.probe.cancelled
        with pytest.raises(OSError, match="enough"):
            await running

    run_in_virtual_time(main())


def test_the_first_use_counts() -> None:
    async def main() -> None:
        running = Source.tick(1).via(KillSwitches.single(), Keep.right).to(Sink.collect(), Keep.left).run()
        await settle(2.5)
        running.value.shutdown()
        running.value.abort(OSError("too late"))
        running.value.shutdown()
        assert await running == [0, 1, 2]
        running.value.abort(OSError("later still"))

    run_in_virtual_time(main())


def test_each_run_of_a_single_switch_has_its_own() -> None:
    async def main() -> None:
        graph = Source.tick(1).via(KillSwitches.single(), Keep.right).to(Sink.ignore(), Keep.left)
        first, second = graph.run(), graph.run()
        first.value.shutdown()
        await first
        await settle(1)
        assert not second.done()
        second.value.shutdown()
        await second

    run_in_virtual_time(main())


@pytest.mark.parametrize("error", [None, OSError("enough")])
def test_a_shared_switch_ends_all_its_streams_and_those_that_are_started_later(error: OSError | None) -> None:
    async def main() -> None:
        switch = KillSwitches.shared("all")
        sinks = [TestSink[int]() for _ in range(4)]
        sources = [TestSource[int]() for _ in range(4)]
        runs = [source.via(switch.flow).to(sink).run() for source, sink in zip(sources[:3], sinks, strict=False)]
        for sink in sinks[:3]:
            sink.request(1)
        switch.shutdown() if error is None else switch.abort(error)
        runs.append(sources[3].via(switch.flow).to(sinks[3]).run())
        for source, sink, running in zip(sources, sinks, runs, strict=True):
            assert source.probe.cancelled
            if error is None:
                await sink.expect_complete()
                await running
            else:
                assert await sink.expect_error() is error
                with pytest.raises(OSError, match="enough"):
                    await running
            await sink.expect_no_message()

    run_in_virtual_time(main())


def test_a_shared_switch_stands_in_several_places_of_one_stream_and_materializes_itself() -> None:
    async def main() -> None:
        switch = KillSwitches.shared("twice")
        graph = Source.repeat(1).via(switch.flow, Keep.right).merge(Source.tick(1).via(switch.flow))
        running = graph.to(Sink.ignore(), Keep.left).run()
        assert running.value is switch
        switch.shutdown()
        await running

    run_in_virtual_time(main())


def test_a_shared_switch_holds_no_stream_that_has_ended() -> None:
    async def main() -> None:
        switch = KillSwitches.shared("long-lived")
        gone: list[weakref.ref[Any]] = []
        for end in ("completes", "fails", "cancelled"):
            source, sink = TestSource[int](), TestSink[int]()
            gone.append(weakref.ref(source.probe))
            running = source.via(switch.flow).to(sink).run()
            sink.request(1)
            if end == "completes":
                source.probe.send_complete()
                await running
            elif end == "fails":
                source.probe.send_error(OSError("broken"))
                with pytest.raises(OSError, match="broken"):
                    await running
            else:
                sink.cancel()
                await running
            assert repr(switch) == "<SharedKillSwitch long-lived of 0 streams>"
            del source, sink, running
        gc.collect()
        assert [reference() for reference in gone] == [None, None, None]

    run_in_virtual_time(main())


@pytest.mark.parametrize("use", ["shutdown", "abort"])
def test_a_switch_may_be_used_from_another_thread_and_for_streams_on_several_loops(use: str) -> None:
    switch = KillSwitches.shared("across threads")
    started = threading.Barrier(3)
    outcomes: list[object] = []

    def run() -> None:
        async def main() -> None:
            running = Source.tick(3600, 3600).via(switch.flow).run_with(Sink.collect())
            await asyncio.get_running_loop().run_in_executor(None, started.wait, WAIT)
            try:
                outcomes.append(await running)
            except StreamError as error:
                outcomes.append(error)

        asyncio.run(main())

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait(WAIT)
    error = StreamError("from another thread")
    switch.shutdown() if use == "shutdown" else switch.abort(error)
    for thread in threads:
        thread.join(WAIT)
    assert outcomes == ([[], []] if use == "shutdown" else [error, error])


def test_a_switch_of_a_stream_whose_loop_is_closed_can_be_used_without_harm() -> None:
    kept: list[Any] = []

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.via(KillSwitches.single(), Keep.right).to(sink, Keep.left).run()
        kept.extend((running.value, source, sink))

    run_in_virtual_time(main())
    kept[0].abort(OSError("nobody is there"))
    assert "used" in repr(kept[0])


def test_a_switch_that_is_used_while_an_element_is_taken_ends_the_stream_behind_that_element() -> None:
    switch = KillSwitches.shared("from within")
    seen: list[int] = []

    def take(element: int) -> None:
        seen.append(element)
        if element == 2:
            switch.shutdown()

    async def main() -> None:
        assert await Source.from_iterable(range(9)).via(switch.flow).run_with(Sink.foreach(take)) == 3

    run_in_virtual_time(main())
    assert seen == [0, 1, 2]


def test_demand_below_one_is_refused_and_abort_wants_an_exception() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        running = Source.of(1).via(KillSwitches.single()).to(sink).run()
        (await sink.expect_subscription()).request(0)
        await sink.expect_error(ValueError)
        with pytest.raises(ValueError, match=r"3\.9"):
            await running

    run_in_virtual_time(main())
    with pytest.raises(TypeError, match="shutdown"):
        KillSwitches.shared("x").abort("text")  # type: ignore[arg-type]  # what is tested
