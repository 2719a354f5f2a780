"""Random graphs of junctions against lists: nothing is lost, nothing is out of order, nothing comes that was not asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streams import Flow, GraphBuilder, OutPort, Source
from streams.junctions import (
    Balance,
    Broadcast,
    Concat,
    Interleave,
    Merge,
    MergePreferred,
    Partition,
    UnzipWith,
    Zip,
    ZipWith,
)
from streams.testkit import TestSink, run_in_virtual_time, settle
from tests.examples_tried import tried

Step = tuple[str, int, int]
"""What to do, and two numbers that say where."""

SPLITS = ("broadcast", "partition", "unzip", "balance")
JOINS = ("merge", "merge_preferred", "concat", "interleave", "zip", "zip_with")
STEPS = ("source", "map", "filter", *SPLITS, *JOINS)


def weight(element: Any) -> int:
    return element if isinstance(element, int) else sum(map(weight, element))


@dataclass
class End:
    """An output that is not connected yet, and what must come out of it.

    Attributes:
        outlet: the port.
        expected: the elements.
        ordered: in that order; else in any.
        roots: the sources above it, by number, and all that these share a junction with.
    """

    outlet: OutPort[Any]
    expected: list[Any]
    ordered: bool
    roots: set[int]


class Growing:
    """A graph in the making. Where two ends come from one source, only a merge joins them: all other joins could wait for one another."""

    def __init__(self) -> None:
        self.builder = GraphBuilder("random")
        self.ends: list[End] = []
        self.sources = 0

    def source(self, size: int) -> None:
        elements = [100 * self.sources + n for n in range(size)]
        part = self.builder.add(Source.from_iterable(elements))
        self.ends.append(End(part.outlet, elements, True, {self.sources}))
        self.sources += 1

    def step(self, step: Step) -> None:
        what, where, number = step
        if what == "source" or not self.ends:
            self.source(number)
        elif what in JOINS:
            if len(self.ends) > 1:
                end = self.ends.pop(where % len(self.ends))
                self.join(what, end, self.ends.pop(number % len(self.ends)), number)
        elif what in SPLITS:
            self.split(what, self.ends.pop(where % len(self.ends)))
        else:
            self.through(what, self.ends.pop(where % len(self.ends)))

    def through(self, what: str, end: End) -> None:
        flow = Flow[Any, Any].identity()
        if what == "map":
            part = self.builder.add(flow.map(lambda element: (element, 1)))
            expected: list[Any] = [(element, 1) for element in end.expected]
        else:
            part = self.builder.add(flow.filter(lambda element: weight(element) % 3))
            expected = [element for element in end.expected if weight(element) % 3]
        self.builder.connect(end.outlet, part)
        self.ends.append(End(part.outlet, expected, end.ordered, end.roots))

    def split(self, what: str, end: End) -> None:
        g, elements = self.builder, end.expected
        if what == "balance":
            # Who gets what is open; together they get everything.
            balance, merge = g.add(Balance[Any](2)), g.add(Merge[Any](2))
            g.connect(end.outlet, balance)
            g.connect(balance.outlets[0], merge.inlets[0])
            g.connect(balance.outlets[1], merge.inlets[1])
            self.ends.append(End(merge.outlet, elements, False, end.roots))
            return
        if what == "broadcast":
            part = g.add(Broadcast[Any](2))
            parts = [elements, elements]
        elif what == "partition":
            part = g.add(Partition[Any](2, lambda element: weight(element) % 2))
            parts = [[e for e in elements if weight(e) % 2 == side] for side in (0, 1)]
        else:
            part = g.add(UnzipWith[Any](2, lambda element: (element, weight(element))))
            parts = [elements, [weight(element) for element in elements]]
        g.connect(end.outlet, part)
        for outlet, expected in zip(part.outlets, parts, strict=True):
            self.ends.append(End(outlet, expected, end.ordered, end.roots))

    def join(self, what: str, a: End, b: End, number: int) -> None:
        if a.roots & b.roots:
            what = "merge"
        if what.startswith("zip") and not (a.ordered and b.ordered):
            what = "concat"
        g, ordered = self.builder, a.ordered and b.ordered
        if what in {"merge", "merge_preferred"}:
            part: Any = g.add(Merge[Any](2) if what == "merge" else MergePreferred[Any](2))
            expected, ordered = a.expected + b.expected, False
        elif what == "concat":
            part, expected = g.add(Concat[Any](2)), a.expected + b.expected
        elif what == "interleave":
            part, expected = g.add(Interleave[Any](2, number + 1)), []
            for i in range(0, max(len(a.expected), len(b.expected)), number + 1):
                expected += a.expected[i : i + number + 1] + b.expected[i : i + number + 1]
        else:
            part = g.add(Zip(2) if what == "zip" else ZipWith(2, lambda one, other: (one, other)))
            expected = list(zip(a.expected, b.expected, strict=False))
        g.connect(a.outlet, part.inlets[0])
        g.connect(b.outlet, part.inlets[1])
        roots = a.roots | b.roots
        for end in self.ends:
            if end.roots & roots:
                end.roots = roots = end.roots | roots
        for end in self.ends:
            if end.roots & roots:
                end.roots = roots
        self.ends.append(End(part.outlet, expected, ordered, roots))


steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=14)


@settings(deadline=None, max_examples=tried(200))
@given(
    steps=steps,
    requests=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=10),
)
def test_a_random_graph_does_what_it_does_to_lists(steps: list[Step], requests: list[tuple[int, int]]) -> None:
    growing = Growing()
    for step in steps:
        growing.step(step)
    sinks: list[TestSink[Any]] = []

    async def main() -> None:
        for end in growing.ends:
            sinks.append(TestSink())
            growing.builder.connect(end.outlet, growing.builder.add(sinks[-1]))
        running = growing.builder.build().run()
        for where, n in requests:
            sinks[where % len(sinks)].request(n)
            await settle()
        for sink in sinks:
            sink.request(10_000)
        await running
        for sink, end in zip(sinks, growing.ends, strict=True):
            assert sink.violations == []
            seen = [signal.element for signal in sink._signals if hasattr(signal, "element")]
            assert seen == end.expected if end.ordered else Counter(seen) == Counter(end.expected)

    run_in_virtual_time(main(), io_grace=0)


@settings(deadline=None, max_examples=tried(100))
@given(
    steps=steps,
    cancels=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.booleans()), max_size=12),
)
def test_sinks_that_cancel_in_any_order_end_the_graph_and_get_no_more(
    steps: list[Step], cancels: list[tuple[int, int, bool]]
) -> None:
    growing = Growing()
    for step in steps:
        growing.step(step)

    async def main() -> None:
        sinks: list[TestSink[Any]] = []
        for end in growing.ends:
            sinks.append(TestSink())
            growing.builder.connect(end.outlet, growing.builder.add(sinks[-1]))
        running = growing.builder.build().run()
        seen_then: dict[int, int] = {}
        for where, n, leave in cancels:
            index = where % len(sinks)
            if leave:
                sinks[index].cancel()
                seen_then.setdefault(index, len(sinks[index]._signals))
            else:
                sinks[index].request(n)
            await settle()
        for sink in sinks:
            sink.cancel()
        await running
        assert all(sink.violations == [] for sink in sinks)
        assert all(len(sinks[index]._signals) == count for index, count in seen_then.items())

    run_in_virtual_time(main(), io_grace=0)
