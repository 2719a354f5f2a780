"""group_by, signal by signal: demand, cancellation and ends of substreams and of the stream they come from."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from streams import (
    Sink,
    Source,
    StreamClosedError,
    TooManySubstreamsError,
)
from streams.testkit import TestSink, TestSource, run_in_virtual_time
from tests.streams.parities import by_parity, send
from tests.streams.substream_probes import subscribed


def test_an_element_that_its_substream_has_not_asked_for_holds_up_the_rest() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.via(by_parity()).to(out).run()
        even = await send(source, out, 0)
        odd = await send(source, out, 1)
        even.request(5)
        await source.probe.expect_request(1)
        source.probe.send_next(3)
        await source.probe.expect_no_request()
        await odd.expect_no_message()
        odd.request(1)
        await odd.expect_next(3)
        await source.probe.expect_request(1)
        source.probe.send_next(2)
        await even.expect_next(2)
        await source.probe.expect_request(1)
        source.probe.send_complete()
        await out.expect_complete()
        await even.expect_complete()
        await odd.expect_complete()

    run_in_virtual_time(main())


def test_the_first_element_of_a_substream_waits_for_downstream_and_then_for_the_substream() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.via(by_parity()).to(out).run()
        even = await send(source, out, 0)
        even.request(9)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        await source.probe.expect_no_request()
        source.probe.send_complete()
        await out.expect_no_message()
        out.request(1)
        odd = subscribed(await out.expect_next())
        await odd.expect_no_message()
        odd.request(1)
        await odd.expect_next(1)
        await odd.expect_complete()
        await out.expect_complete()

    run_in_virtual_time(main())


def test_upstream_is_asked_only_while_somebody_wants_something() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.via(by_parity()).to(out).run()
        await source.probe.expect_no_request()
        even = await send(source, out, 0)
        await source.probe.expect_no_request()
        even.request(2)
        for element in (2, 4):
            await source.probe.expect_request(1)
            source.probe.send_next(element)
        await even.expect_next(2, 4)
        await source.probe.expect_no_request()

    run_in_virtual_time(main())


def test_a_substream_that_is_cancelled_drops_its_elements() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.via(by_parity()).to(out).run()
        even = await send(source, out, 0)
        odd = await send(source, out, 1)
        even.cancel()
        odd.request(2)
        for element in (2, 4, 3):
            await source.probe.expect_request(1)
            source.probe.send_next(element)
        await odd.expect_next(3)
        await out.expect_no_message()

    run_in_virtual_time(main())


def test_a_substream_that_is_cancelled_frees_the_element_that_waits_for_it() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.via(by_parity()).to(out).run()
        even = await send(source, out, 0)
        odd = await send(source, out, 1)
        odd.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(2)
        await source.probe.expect_no_request()
        even.cancel()
        await source.probe.expect_request(1)
        source.probe.send_next(3)
        await odd.expect_next(3)

    run_in_virtual_time(main())


def test_a_cancelled_substream_still_counts_unless_it_may_be_recreated() -> None:
    def run(recreate: bool) -> list[int]:
        groups = Source.of(1, 2, 3, 1).group_by(2, lambda n: n, allow_closed_substream_recreation=recreate)
        return groups.take(1).merge_substreams().to(Sink.collect()).run_blocking()

    assert run(recreate=True) == [1, 2, 3, 1]
    with pytest.raises(TooManySubstreamsError):
        run(recreate=False)


def test_when_downstream_declines_further_substreams_those_that_are_open_go_on() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.via(by_parity()).to(out).run()
        even = await send(source, out, 0)
        out._subscription.cancel()  # type: ignore[union-attr]  # without ending the probe's run, as its cancel would
        even.request(2)
        for element in (1, 2):
            await source.probe.expect_request(1)
            source.probe.send_next(element)
        await even.expect_next(2)
        assert not source.probe.cancelled
        even.cancel()
        assert source.probe.cancelled
        out.cancel()

    run_in_virtual_time(main())


def test_further_substreams_that_were_asked_for_and_then_declined_are_not_made() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.via(by_parity()).to(out).run()
        even = await send(source, out, 0)
        out.request(5)
        await source.probe.expect_request(1)
        out._subscription.cancel()  # type: ignore[union-attr]  # without ending the probe's run, as its cancel would
        source.probe.send_next(1)
        await source.probe.expect_no_request()
        await out.expect_no_message()
        even.request(1)
        await source.probe.expect_request(1)
        even.cancel()
        out.cancel()

    run_in_virtual_time(main())


def test_the_element_that_waits_for_a_cancelled_substream_does_not_begin_another() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.via(by_parity(recreate=True)).to(out).run()
        even = await send(source, out, 0)
        out.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(2)
        even.cancel()
        await out.expect_no_message()
        await source.probe.expect_request(1)
        source.probe.send_next(4)
        again = subscribed(await out.expect_next())
        await again.request_next(4)
        out.cancel()
        again.cancel()
        assert source.probe.cancelled

    run_in_virtual_time(main())


def test_cancelling_before_the_first_substream_cancels_upstream() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.via(by_parity()).to(out).run()
        await out.expect_subscription()
        out.cancel()
        out.cancel()
        await source.probe.expect_cancellation()

    run_in_virtual_time(main())


def test_a_failure_upstream_reaches_every_substream() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        running = source.via(by_parity()).to(out).run()
        even = await send(source, out, 0)
        odd = await send(source, out, 1)
        source.probe.send_error(OSError("broken"))
        for probe in (out, even, odd):
            await probe.expect_error(OSError)
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


def test_a_substream_has_one_subscriber_rule_1_9() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.via(by_parity()).to(out).run()
        await out.expect_subscription()
        out.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(0)
        substream = await out.expect_next()
        first = subscribed(substream)
        second = subscribed(substream)
        await second.expect_error(StreamClosedError)
        await first.request_next(0)
        with pytest.raises(TypeError):
            substream.subscribe(None)

    run_in_virtual_time(main())


def test_a_request_of_a_substream_for_less_than_one_ends_only_that_rule_3_9() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.via(by_parity()).to(out).run()
        even = await send(source, out, 0)
        odd = await send(source, out, 1)
        even.request(0)
        await even.expect_error(ValueError)
        odd.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(3)
        await odd.expect_next(3)
        assert not source.probe.cancelled

    run_in_virtual_time(main())


def test_a_substream_subscribed_to_after_the_end_learns_of_it() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        running = source.via(by_parity()).to(out).run()
        await out.expect_subscription()
        out.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(0)
        late = await out.expect_next()
        source.probe.send_error(OSError("broken"))
        await subscribed(late).expect_error(OSError)
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


def test_a_substream_forgets_a_subscriber_that_has_cancelled_rule_3_13() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.via(by_parity()).to(out).run()
        even = await send(source, out, 0)
        even.cancel()
        kept = weakref.ref(even)
        del even
        gc.collect()
        assert kept() is None
        out.cancel()

    run_in_virtual_time(main())
