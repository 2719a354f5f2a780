"""A slow sink among those that share a source holds the source to its pace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from streams import Flow, RunnableGraph, Sink, Source
from streams.testkit import run_in_virtual_time, settle
from tests.streams.generated.pacing import SlowSubscriber, finish

ROUNDS = 300
STEP = 7
"""Divides no buffer's size."""
FIRST_OF = 3
"""Of so many numbers the slow one of two partitions gets one."""

Share = Callable[[Source[int], Sink[int, Any], Sink[int, Any]], RunnableGraph[list[Any]]]


def broadcast(source: Source[int], slow: Sink[int, Any], other: Sink[int, Any]) -> RunnableGraph[list[Any]]:
    return source.broadcast(slow, other)


def balance(source: Source[int], slow: Sink[int, Any], other: Sink[int, Any]) -> RunnableGraph[list[Any]]:
    return source.balance(slow, other)


def partition(source: Source[int], slow: Sink[int, Any], other: Sink[int, Any]) -> RunnableGraph[list[Any]]:
    return source.partition(lambda n: int(n % FIRST_OF > 0), slow, other)


async def furthest_ahead(share: Share, rounds: int, other_step: int | None) -> tuple[float, SlowSubscriber]:
    """How far the source was ever ahead of what was asked of it, and the slow sink.

    Args:
        share: shares the source between two sinks.
        rounds: how often the slow sink asks for `STEP` elements.
        other_step: how many the other sink asks for each time; None if it takes all there are.
    """
    given = 0

    def numbers() -> Iterator[int]:
        nonlocal given
        for number in count():
            given = number + 1
            yield number

    slow, other = SlowSubscriber(), SlowSubscriber()
    second = Sink.ignore() if other_step is None else Sink.from_subscriber(lambda: other)
    graph = share(Source.iterable(numbers), Sink.from_subscriber(lambda: slow), second)
    running = graph.run()
    await settle()
    most, own_share = 0.0, FIRST_OF if share is partition else 1
    for _ in range(rounds):
        if other_step is not None:
            await other.ask(other_step)
        await slow.ask(STEP)
        await settle()
        assert slow.got == slow.asked
        assert other.got <= other.asked
        most = max(most, given - own_share * slow.asked - (other.asked if share is balance else 0))
    running.cancel()
    await finish(running)
    return most, slow


@pytest.mark.parametrize(("share", "ahead"), [(broadcast, 0), (partition, FIRST_OF)], ids=["broadcast", "partition"])
def test_the_slowest_sink_holds_the_source_back(share: Share, ahead: int) -> None:
    most, slow = run_in_virtual_time(furthest_ahead(share, ROUNDS, None))
    assert slow.got == ROUNDS * STEP
    assert most <= ahead


def test_a_balanced_source_gives_what_all_sinks_together_have_asked_for() -> None:
    most, slow = run_in_virtual_time(furthest_ahead(balance, ROUNDS, 2 * STEP))
    assert slow.got == ROUNDS * STEP
    assert most <= 0


def test_a_fast_sink_of_a_balanced_source_does_not_wait_for_a_slow_one() -> None:
    async def main() -> int:
        slow = SlowSubscriber()
        taken = Source.range(1000).balance(Sink.from_subscriber(lambda: slow), Sink.foreach(int)).run()
        await settle()
        assert slow.got == 0
        slow.cancel()
        return int((await taken)[1])

    assert run_in_virtual_time(main()) == 1000


def test_a_way_to_share_that_runs_ahead_is_caught() -> None:
    def buffered(source: Source[int], slow: Sink[int, Any], other: Sink[int, Any]) -> RunnableGraph[list[Any]]:
        return source.broadcast(Flow[int, int].identity().buffer(64).to(slow), other)

    most, _slow = run_in_virtual_time(furthest_ahead(buffered, 30, None))
    assert most > FIRST_OF
