"""Elements that know for themselves what becomes of them when a function fails on them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from streams import Directive, Sink, Source, Supervision


class Job:
    """Notes what failed on it; one that is ``stubborn`` leaves failures to the stream."""

    def __init__(self, number: int, stubborn: bool = False) -> None:
        self.number = number
        self.stubborn = stubborn
        self.failures: list[BaseException] = []

    def __failed_on__(self, error: Exception) -> bool:
        self.failures.append(error)
        return not self.stubborn


def odd_fails(job: Job) -> Job:
    if job.number % 2:
        raise ValueError(job.number)
    return job


async def odd_fails_later(job: Job) -> Job:
    await asyncio.sleep(0)
    return odd_fails(job)


async def odd_fails_there(job: Job, _partition: int) -> Job:
    return odd_fails(job)


OPERATORS: dict[str, Callable[[Source[Job, None]], Source[Any, None]]] = {
    "map": lambda source: source.map(odd_fails),
    "map, map": lambda source: source.map(lambda job: job).map(odd_fails),
    "filter": lambda source: source.filter(lambda job: bool(odd_fails(job))),
    "take_while": lambda source: source.take_while(lambda job: bool(odd_fails(job))),
    "drop_while": lambda source: source.drop_while(lambda job: odd_fails(job).number < 0).filter(
        lambda job: not job.number % 2
    ),
    "map_concat": lambda source: source.map_concat(lambda job: [odd_fails(job)]),
    "flat_map_concat": lambda source: source.flat_map_concat(lambda job: Source.of(odd_fails(job))),
    "map_async": lambda source: source.map_async(3, odd_fails_later),
    "map_async_unordered": lambda source: source.map_async_unordered(3, odd_fails_later),
    "map_async_partitioned": lambda source: source.map_async_partitioned(3, 1, lambda job: 0, odd_fails_there),
    "map_blocking": lambda source: source.map_blocking(3, odd_fails),
    "map_blocking_unordered": lambda source: source.map_blocking_unordered(3, odd_fails),
    "throttle": lambda source: source.throttle(1000, 1.0, cost=lambda job: 1 if odd_fails(job) else 0),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_stream_goes_on_without_an_element_that_deals_with_its_failure(operator: str) -> None:
    jobs = [Job(n) for n in range(6)]
    out = OPERATORS[operator](Source.from_iterable(jobs)).to(Sink.collect()).run_blocking()
    assert sorted(job.number for job in out) == [0, 2, 4]
    assert [len(job.failures) for job in jobs] == ([0, 1, 0, 1, 0, 1] if operator != "drop_while" else [0] * 6)


def test_drop_while_goes_on_dropping_behind_an_element_that_it_fails_on() -> None:
    jobs = [Job(n) for n in range(6)]
    out = Source.from_iterable(jobs).drop_while(lambda job: odd_fails(job).number < 2).to(Sink.collect()).run_blocking()
    assert [job.number for job in out] == [2, 3, 4, 5]
    assert [len(job.failures) for job in jobs] == [0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_element_that_leaves_it_to_the_stream_fails_it(operator: str) -> None:
    with pytest.raises(ValueError, match="1"):
        OPERATORS[operator](Source.of(Job(1, stubborn=True), Job(2))).to(Sink.collect()).run_blocking()


SINKS: dict[str, Sink[Job, int]] = {
    "foreach": Sink.foreach(odd_fails),
    "foreach_async": Sink.foreach_async(3, odd_fails_later),
    "foreach_blocking": Sink.foreach_blocking(3, odd_fails),
}


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("way", ["one at a time", "at once", "at once behind a map"])
def test_it_holds_for_sinks_that_call_a_function_of_an_element(sink: str, way: str) -> None:
    jobs = [Job(n) for n in range(6)]
    source = Source.from_iterable(jobs)
    if way != "at once":
        source = source.buffer(8) if way == "one at a time" else source.map(lambda job: job)
    assert source.to(SINKS[sink]).run_blocking() == 3
    assert [len(job.failures) for job in jobs] == [0, 1, 0, 1, 0, 1]


def test_a_decider_goes_first_and_may_stop_the_stream() -> None:
    job = Job(1)
    source = Source.of(job).map(odd_fails).with_supervision(Supervision.stopping)
    with pytest.raises(ValueError, match="1"):
        source.to(Sink.collect()).run_blocking()
    assert job.failures == []
    assert (
        Source.of(job).map(odd_fails).with_supervision(lambda _: Directive.RESUME).to(Sink.collect()).run_blocking()
        == []
    )
    assert len(job.failures) == 1


def test_an_element_that_fails_at_that_fails_the_stream() -> None:
    class Broken:
        def __failed_on__(self, error: Exception) -> bool:
            raise KeyError("broken") from error

    def fail(_element: Broken) -> int:
        raise ValueError("x")

    with pytest.raises(KeyError, match="broken"):
        Source.of(Broken()).map(fail).to(Sink.ignore()).run_blocking()


async def nothing(_job: Job) -> None: ...


RETURNING_NONE: dict[str, tuple[Callable[[Source[Job, None]], Source[Any, None]], str]] = {
    "map": (lambda source: source.map(lambda job: None), r"map needs an element.*Sink\.foreach in the place of map "),
    "map_async": (lambda source: source.map_async(1, nothing), r"map_async needs.*nothing return.*Sink\.foreach_async"),
    "map_blocking_unordered": (
        lambda source: source.map_blocking_unordered(1, lambda job: None),
        r"map_blocking_unordered needs.*Sink\.foreach_blocking",
    ),
}


@pytest.mark.parametrize("operator", RETURNING_NONE)
def test_a_function_that_returns_none_is_no_failure_of_the_element_and_the_error_says_what_to_do(operator: str) -> None:
    apply, text = RETURNING_NONE[operator]
    job = Job(1)
    with pytest.raises(TypeError, match=text):
        apply(Source.of(job)).to(Sink.ignore()).run_blocking()
    assert job.failures == []
