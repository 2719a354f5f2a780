"""What the stages of substreams and side sinks do when a user's function fails and a decider says that they go on."""

from __future__ import annotations

from typing import Any

import pytest

from streams import Flow, Sink, Source
from streams.supervision import Supervision


def third_fails(n: int) -> int:
    if n == 3:
        raise ZeroDivisionError("three")
    return n % 2


def third_has_no_source(n: int) -> Source[int]:
    third_fails(n)
    return Source.single(n)


def numbers() -> Source[int]:
    return Source.from_iterable(range(8))


WITHOUT_THREE = [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.parametrize("decider", [Supervision.resuming, Supervision.restarting])
@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (lambda: numbers().flat_map_concat(third_has_no_source), WITHOUT_THREE),
        (lambda: numbers().flat_map_merge(2, third_has_no_source), WITHOUT_THREE),
        (lambda: numbers().divert_to(Sink.ignore(), third_fails), [0, 2, 4, 6]),
        (lambda: numbers().wire_tap(third_fails), WITHOUT_THREE),
        (lambda: numbers().group_by(2, third_fails).merge_substreams(), WITHOUT_THREE),
        (lambda: numbers().split_when(third_fails).concat_substreams(), WITHOUT_THREE),
        (lambda: numbers().split_after(third_fails).concat_substreams(), WITHOUT_THREE),
        (lambda: numbers().flat_map_concat(lambda n: Source.single(n).wire_tap(third_fails)), WITHOUT_THREE),
        (lambda: numbers().group_by(2, lambda n: n % 2).wire_tap(third_fails).merge_substreams(), WITHOUT_THREE),
    ],
)
def test_the_element_is_left_out_and_the_stream_goes_on(stream: Any, expected: list[int], decider: Any) -> None:
    assert stream().with_supervision(decider).to(Sink.collect()).run_blocking() == expected
    with pytest.raises(ZeroDivisionError, match="three"):
        stream().with_supervision(Supervision.stopping).to(Sink.collect()).run_blocking()


def test_resuming_keeps_the_substreams_there_are_and_restarting_begins_others() -> None:
    def run(decider: Any, stream: Any) -> list[list[int]]:
        supervised = stream.grouped(10).merge_substreams().with_supervision(decider)
        lists: list[list[int]] = supervised.to(Sink.collect()).run_blocking()
        return sorted(lists)

    assert run(Supervision.resuming, numbers().group_by(2, third_fails)) == [[0, 2, 4, 6], [1, 5, 7]]
    assert run(Supervision.restarting, numbers().group_by(2, third_fails)) == [[0, 2], [1], [4, 6], [5, 7]]
    assert run(Supervision.resuming, numbers().split_when(third_fails)) == [[0], [1, 2, 4], [5, 6], [7]]
    assert run(Supervision.restarting, numbers().split_when(third_fails)) == [[0], [1, 2], [4], [5, 6], [7]]


def test_a_decider_can_hold_for_the_substreams_alone() -> None:
    source = numbers().group_by(2, lambda n: n % 2).wire_tap(third_fails).with_supervision(Supervision.resuming)
    assert source.merge_substreams().to(Sink.collect()).run_blocking() == WITHOUT_THREE
    flow = Flow[int, int].identity().group_by(2, third_fails).with_supervision(Supervision.resuming)
    assert numbers().via(flow.merge_substreams()).to(Sink.collect()).run_blocking() == WITHOUT_THREE
    with pytest.raises(ZeroDivisionError):
        source.merge_substreams().wire_tap(lambda n: 1 // (n - 4)).to(Sink.collect()).run_blocking()
