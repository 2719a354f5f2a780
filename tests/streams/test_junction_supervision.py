"""Functions of junctions, and of the operators that have several inputs, under supervision: as those of every other stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streams import Directive, Flow, GraphBuilder, Keep, RunnableGraph, Sink, Source, Supervision
from streams.junctions import MergeSorted, Partition, Unzip, UnzipWith, ZipLatestWith, ZipWith
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time

NUMBERS = range(6)
BAD = 3
WITHOUT_IT = [0, 1, 2, 4, 5]


def burst(n: int) -> int:
    if n == BAD:
        raise ValueError(f"not {n}")
    return n


def added(*numbers: int) -> int:
    return sum(map(burst, numbers))


def forgetful(*numbers: int) -> Any:
    return None if BAD in numbers else sum(numbers)


def even_and_odd(n: int) -> int:
    return burst(n) % 2


def twice(n: int) -> tuple[int, int]:
    return burst(n), n


def through(junction: Any, *others: Any) -> Flow[int, Any]:
    """A flow through the first input of a junction and its output; at the other inputs stand ``others``."""
    builder = GraphBuilder()
    part = builder.add(junction)
    for inlet, other in zip(part.inlets[1:], others, strict=True):
        builder.connect(builder.add(other), inlet)
    return builder.build_flow(part.inlets[0], part.outlet)


def split(junction: Any, *, of: Any = NUMBERS) -> Source[Any]:
    """What comes out of a junction of two outputs, together again: pairs of the output's index and the element."""
    builder = GraphBuilder()
    source, part = builder.add(Source.from_iterable(of)), builder.add(junction)
    together = builder.add(MergeSorted[Any](2, key=lambda pair: pair[1]))
    builder.connect(source, part)
    builder.connect(part.outlets[0], Flow.identity().map(lambda n: (0, n)), together.inlets[0])
    builder.connect(part.outlets[1], Flow.identity().map(lambda n: (1, n)), together.inlets[1])
    return builder.build_source(together)


ZEROS = Source.of(*[0] * 6)
NONE_LEFT = Source.of(*[10] * 6)
# The source, and what comes out when a function of the junction's fails on one element and it resumes, and when it restarts.
SUPERVISED: dict[str, tuple[Callable[[], Source[Any]], list[Any]]] = {
    "zip_with": (lambda: Source.from_iterable(NUMBERS).zip_with(ZEROS, added), WITHOUT_IT),
    "zip_with None": (lambda: Source.from_iterable(NUMBERS).zip_with(ZEROS, forgetful), WITHOUT_IT),
    "zip_with, a junction": (
        lambda: Source.from_iterable(NUMBERS).via(through(ZipWith(2, added), ZEROS)),
        WITHOUT_IT,
    ),
    "zip_with, of three": (
        lambda: Source.from_iterable(NUMBERS).via(through(ZipWith(3, added), ZEROS, ZEROS)),
        WITHOUT_IT,
    ),
    "merge_sorted": (
        lambda: Source.from_iterable(NUMBERS).merge_sorted(Source.of(*NUMBERS, *NUMBERS[5:]), burst),
        [0, 0, 1, 1, 2, 2, 4, 4, 5, 5, 5],
    ),
    "merge_sorted, a junction": (
        lambda: Source.from_iterable(NUMBERS).via(through(MergeSorted(2, burst), NONE_LEFT)),
        [*WITHOUT_IT, *[10] * 6],
    ),
    "merge_sorted, of what cannot be compared": (
        lambda: Source.of(1, 4).merge_sorted(Source.of(2, "three", 3, 5)),
        [1, 2, 3, 4, 5],
    ),
    "unzip_with": (lambda: split(UnzipWith(2, twice)), [(i, n) for n in WITHOUT_IT for i in (0, 1)]),
    "unzip_with, other numbers of parts": (
        lambda: split(UnzipWith(2, lambda n: [n] * (1 if n == BAD else 2))),
        [(i, n) for n in WITHOUT_IT for i in (0, 1)],
    ),
    "unzip_with, of parts": (lambda: split(Unzip(2), of=[(0, 0), (BAD,), (1, 1)]), [(0, 0), (1, 0), (0, 1), (1, 1)]),
    "partition": (lambda: split(Partition(2, even_and_odd)), [(n % 2, n) for n in WITHOUT_IT]),
    "partition, of another number": (
        lambda: split(Partition(2, lambda n: 7 if n == BAD else n % 2)),
        [(n % 2, n) for n in WITHOUT_IT],
    ),
}
each_junction = pytest.mark.parametrize("name", SUPERVISED)


@each_junction
@pytest.mark.parametrize("decider", [Supervision.resuming, Supervision.restarting])
@pytest.mark.parametrize("demand", ["all", "one by one"])
def test_a_junction_goes_on_without_the_element(name: str, decider: Any, demand: str) -> None:
    make, expected = SUPERVISED[name]

    async def main() -> None:
        source = make().with_supervision(decider)
        if demand == "all":
            assert await source.run_with(Sink.collect()) == expected
            return
        sink = TestSink[Any]()
        source.to(sink).run()
        for element in expected:
            await sink.request_next(element)
        sink.request(1)
        await sink.expect_complete()

    run_in_virtual_time(main())


@each_junction
@pytest.mark.parametrize("decider", [None, Supervision.stopping])
def test_a_junction_without_a_decider_and_one_that_is_to_stop_fails_with_a_note_of_its_name(
    name: str, decider: Any
) -> None:
    make, _ = SUPERVISED[name]

    async def main() -> None:
        source = make() if decider is None else make().with_supervision(decider)
        with pytest.raises((ValueError, TypeError, IndexError)) as caught:
            await source.run_with(Sink.collect())
        notes = [note for note in caught.value.__notes__ if "in the stage" in note]
        assert len(notes) == 1
        assert f"in the stage {name.split(' ', maxsplit=1)[0].strip(',')}(" in notes[0]

    run_in_virtual_time(main())


@each_junction
def test_a_whole_graph_is_supervised_as_a_source_is(name: str) -> None:
    make, expected = SUPERVISED[name]

    async def main() -> None:
        graph = make().to(Sink.collect())
        assert await graph.with_supervision(Supervision.resuming).run() == expected
        with pytest.raises((ValueError, TypeError, IndexError)):
            await graph.run()

    run_in_virtual_time(main())


@each_junction
@pytest.mark.parametrize("wrong", [lambda _: 1 / 0, lambda _: "resume"])
def test_a_decider_that_fails_or_decides_nothing_ends_the_junction_and_is_named(name: str, wrong: Any) -> None:
    async def main() -> None:
        with pytest.raises((ZeroDivisionError, TypeError)) as caught:
            await SUPERVISED[name][0]().with_supervision(wrong).run_with(Sink.collect())
        assert "lambda" in caught.value.__notes__[0]

    run_in_virtual_time(main())


def divided(a: int, b: int) -> tuple[int, int]:
    return burst(a), b


@pytest.mark.parametrize("junction", [True, False])
@pytest.mark.parametrize(
    ("decider", "expected"),
    [
        (Supervision.resuming, [(1, 10), (4, 10), (4, 11), (5, 11)]),
        (Supervision.restarting, [(1, 10), (4, 11), (5, 11)]),
    ],
)
def test_zip_latest_with_keeps_the_latest_of_each_when_it_resumes_and_forgets_them_when_it_restarts(
    decider: Any, expected: Any, junction: bool
) -> None:
    async def main() -> None:
        left, right, sink = TestSource[int](), TestSource[int](), TestSink[Any]()
        flow = (
            through(ZipLatestWith(2, divided), right)
            if junction
            else Flow[int, int].identity().zip_latest_with(right, divided)
        )
        left.via(flow.with_supervision(decider)).to(sink).run()
        sink.request(9)
        right.probe.send_next(10)
        for n in (1, BAD, 4):
            left.probe.send_next(n)
        right.probe.send_next(11)
        left.probe.send_next(5)
        await sink.expect_next(*expected)
        left.probe.send_complete()
        await sink.expect_complete()

    run_in_virtual_time(main())


@pytest.mark.parametrize("eager", [True, False])
def test_a_restart_of_zip_latest_with_ends_it_where_an_input_that_has_ended_has_nothing_more_to_give(
    eager: bool,
) -> None:
    async def main() -> None:
        left, sink = TestSource[int](), TestSink[Any]()
        junction = ZipLatestWith(2, divided, eager_complete=eager)
        left.via(through(junction, Source.of(10)).with_supervision(Supervision.restarting)).to(sink).run()
        sink.request(9)
        left.probe.send_next(BAD)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_a_row_that_fails_takes_nothing_of_the_demand_and_all_that_fail_leave_an_empty_stream() -> None:
    async def main() -> None:
        asked: list[Exception] = []

        def decide(error: Exception) -> Directive:
            asked.append(error)
            return Directive.RESUME

        many = 5000  # more than a stack could hold, were each left out within the one before
        bad = Source.from_iterable(lambda: iter([BAD] * many))
        zipped = bad.zip_with(Source.repeat(1), added).with_supervision(decide)
        assert await zipped.run_with(Sink.collect()) == []
        assert len(asked) == many
        asked.clear()
        merged = bad.merge_sorted(Source.of(1, 2), burst).with_supervision(decide)
        assert await merged.run_with(Sink.collect()) == [1, 2]
        assert len(asked) == many
        asked.clear()
        assert await split(Partition(2, burst), of=[BAD] * many).with_supervision(decide).run_with(Sink.collect()) == []
        assert len(asked) == many

    run_in_virtual_time(main())


def test_partition_to_sinks_and_graphs_that_are_no_line_go_by_the_decider_of_the_whole_graph() -> None:
    async def main() -> None:
        everything: Sink[int, list[int]] = Sink.collect()
        graph: RunnableGraph[list[list[int]]] = Source.from_iterable(NUMBERS).partition(
            even_and_odd, everything, everything
        )
        assert await graph.with_supervision(Supervision.resuming).run() == [[0, 2, 4], [1, 5]]
        with pytest.raises(ValueError, match="not 3"):
            await graph.run()

        builder = GraphBuilder("whole")
        source, part = builder.add(Source.from_iterable(NUMBERS)), builder.add(Partition(2, even_and_odd))
        even, odd = (
            builder.add(everything),
            builder.add(Flow[int, int].identity().map(lambda n: 5 // (n - 5) or n).to(everything)),
        )
        builder.connect(source, part)
        builder.connect(part.outlets[0], even)
        builder.connect(part.outlets[1], odd)
        whole = builder.build(even, odd).with_supervision(Supervision.resuming)
        assert await whole.run() == ([0, 2, 4], [-2])
        assert repr(whole) == "<RunnableGraph whole>"

    run_in_virtual_time(main())


def test_the_decider_of_a_part_is_asked_before_that_of_the_graph() -> None:
    asked: list[str] = []

    def decider(name: str) -> Any:
        def decide(_error: Exception) -> Directive:
            asked.append(name)
            return Directive.RESUME

        return decide

    async def main() -> None:
        part = Source.from_iterable(NUMBERS).map(burst).with_supervision(decider("part"))
        graph = part.zip_with(Source.repeat(1), lambda a, b: a // (a - 4) + b).to(Sink.collect())
        await graph.with_supervision(decider("graph")).run()
        assert asked == ["part", "graph"]
        with pytest.raises(TypeError, match="decider must be a function"):
            graph.with_supervision("resume")  # type: ignore[arg-type]

    run_in_virtual_time(main())


def test_a_supervised_graph_has_the_same_values_and_the_same_end_as_the_graph() -> None:
    async def main() -> None:
        source, sink = Source.queue(4, of=int), Sink.queue()
        running = (
            source.zip_with(Source.repeat(0), added).to(sink, Keep.both).with_supervision(Supervision.resuming).run()
        )
        queue, pulled = running.value
        for n in NUMBERS:
            await queue.offer_wait(n)
            if n != BAD:
                assert await pulled.pull() == n
        queue.complete()
        assert await pulled.pull() is None
        await running

        running = source.to(sink, Keep.both).with_supervision(Supervision.resuming).run()
        await elapse(1)
        await running.stop()
        assert running.done()
        assert await Source.of(1).to(Sink.collect()).with_supervision(Supervision.resuming).run() == [1]

    run_in_virtual_time(main())
    graph = Source.of(1, BAD).map(burst).to(Sink.collect()).with_supervision(Supervision.resuming)
    assert graph.run_blocking() == [1]
