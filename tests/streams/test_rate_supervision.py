"""Operators of the groups elementwise, batching, buffering, timing and watching under supervision: their functions fail on the number 3."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from streams import Flow, LogLevels
from streams.supervision import Decider, Supervision
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle


def not_three(f: Callable[..., Any]) -> Callable[..., Any]:
    """``f``, which fails where its last argument is 3."""

    def checked(*arguments: Any) -> Any:
        if arguments[-1] == 3:
            raise KeyError("three")
        return f(*arguments)

    return checked


def start() -> Flow[int, int]:
    return Flow.identity()


single = not_three(lambda n: [n])
join = not_three(lambda group, n: [*group, n])
add = not_three(lambda total, n: total + n)
itself = not_three(lambda n: n)
RUNNING = not_three(lambda total, n: (total + n, total + n))

CASES: dict[str, tuple[Callable[[], Flow[Any, Any]], list[Any], list[Any]]] = {
    "map_concat": (lambda: start().map_concat(not_three(lambda n: (n, n))), *[[1, 1, 2, 2, 4, 4, 5, 5, 6, 6]] * 2),
    "stateful_map": (
        lambda: start().stateful_map(int, RUNNING, lambda total: -total),
        [1, 3, 7, 12, 18, -18],
        [1, 3, 4, 9, 15, -15],
    ),
    "take_while": (lambda: start().take_while(not_three(lambda n: n < 6)), *[[1, 2, 4, 5]] * 2),
    "drop_while": (lambda: start().drop_while(not_three(lambda n: n < 5)), *[[5, 6]] * 2),
    "scan": (lambda: start().scan(0, add), [0, 1, 3, 7, 12, 18], [0, 1, 3, 0, 4, 9, 15]),
    "fold": (lambda: start().fold(0, add), [18], [15]),
    "reduce": (lambda: start().reduce(add), [18], [15]),
    "grouped_weighted": (lambda: start().grouped_weighted(7, itself), [[1, 2, 4], [5], [6]], [[4], [5], [6]]),
    "grouped_within": (
        lambda: start().grouped_within(3, 1e6, max_weight=7, weight=itself),
        [[1, 2, 4], [5], [6]],
        [[4], [5], [6]],
    ),
    "conflate_with_seed": (lambda: start().conflate_with_seed(single, join), [[1, 2, 4, 5, 6]], [[4, 5, 6]]),
    "batch": (lambda: start().batch(2, single, join), [[1, 2], [4, 5], [6]], [[1, 2], [4, 5], [6]]),
    "batch_weighted, cost": (
        lambda: start().batch_weighted(7, itself, lambda n: [n], lambda group, n: [*group, n]),
        [[1, 2, 4], [5], [6]],
        [[4], [5], [6]],
    ),
    "batch_weighted": (
        lambda: start().batch_weighted(7, lambda n: n, single, join),
        [[1, 2, 4], [5], [6]],
        [[4], [5], [6]],
    ),
    "expand": (lambda: start().expand(not_three(lambda n: (n,))), *[[1, 2, 4, 5, 6]] * 2),
    "throttle": (lambda: start().throttle(1, 1.0, 1, not_three(lambda _: 1)), *[[1, 2, 4, 5, 6]] * 2),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("decider", "which"), [(Supervision.resuming, 1), (Supervision.restarting, 2)])
def test_a_supervised_stage_leaves_out_the_element_and_goes_on(name: str, decider: Decider, which: int) -> None:
    """Downstream asks for one element at a time, so what gathers elements has something at hand to keep or to forget."""

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[Any](timeout=50)
        flow = CASES[name][0]().with_supervision(decider)
        source.via(flow).to(sink).run()
        expected = list(CASES[name][which])
        numbers = [6, 5, 4, 3, 2, 1]

        async def send() -> None:
            while numbers and source.probe.demand.outstanding and not source.probe.cancelled:
                source.probe.send_next(numbers.pop())
                if not numbers:
                    source.probe.send_complete()
                await settle()

        await send()
        for element in expected:
            sink.request(1)
            await send()
            await sink.expect_next(element)
            await elapse(1.5)
            await send()
        if numbers:
            sink.request(1)
            await send()
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_log_under_supervision_leaves_out_what_it_cannot_extract(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        levels = LogLevels(element=logging.INFO, finish=None)
        source.via(start().log("numbers", itself, levels=levels).with_supervision(Supervision.resuming)).to(sink).run()
        sink.request(2)
        source.probe.send_next(3, 4)
        await sink.expect_next(4)
        assert source.probe.demand.outstanding == 1
        sink.cancel()

    with caplog.at_level(logging.INFO):
        run_in_virtual_time(main())
    assert [record.getMessage() for record in caplog.records if record.name == "streams"] == ["[numbers] element: 4"]


def test_keep_alive_under_supervision_tries_again_when_as_much_time_has_passed() -> None:
    async def main() -> None:
        outcomes = iter([OSError("first"), -1])

        def make() -> int:
            outcome = next(outcomes)
            if isinstance(outcome, OSError):
                raise outcome
            return outcome

        source, sink = TestSource[int](), TestSink[int](timeout=100)
        source.via(start().keep_alive(5, make).with_supervision(Supervision.resuming)).to(sink).run()
        sink.request(1)
        await sink.expect_no_message(9.9)
        await sink.expect_next(-1)
        sink.cancel()

    run_in_virtual_time(main())
