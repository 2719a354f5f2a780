"""Mistakes that type checkers must see: each line that ends in ``# wrong: <code>`` must be an error with that code, and no other line."""

from __future__ import annotations

from streams import Flow, GraphBuilder, KillSwitches, Publisher, Sink, Source, SourceQueue
from streams.junctions import Broadcast


def lengths(text: str) -> int:
    return len(text)


def measured() -> Flow[str, int]:
    return Flow[str, str].identity().map(lengths)


def written() -> Flow[int, str]:
    return Flow[int, int].identity().map(str)


def texts() -> Sink[str, list[str]]:
    return Sink.collect()


def of_strings(text: list[str]) -> None:
    """Takes strings."""


async def mistakes() -> None:
    Source.of(1).map(lengths)  # wrong: arg-type
    Source.of(1).via(measured())  # wrong: arg-type
    Source.of(1).group_by(2, bool).map(lengths)  # wrong: arg-type
    Source.of(1).group_by(2, bool).mapp(str)  # wrong: attr-defined
    Source.of(1).group_by(2, bool).map(str).merge_substreams().map(abs)  # wrong: arg-type
    of_strings(await Source.of(1).group_by(2, bool).merge_substreams().run_with(Sink.collect()))  # wrong: arg-type
    Source.of(1).group_by(2, bool).group_by(2, bool).map(lengths)  # wrong: arg-type
    Source.of(1).group_by(2, bool).group_by(2, bool).mapp(str)  # wrong: attr-defined
    Source.of(1).group_by(2, bool).split_when(bool).merge_substreams().run_with(Sink.ignore())  # wrong: attr-defined
    Source.queue(1, of=int).map(lengths)  # wrong: arg-type
    Source.queue(1, of=int).to(Sink.ignore()).run().materialized(SourceQueue[int]).offer("text")  # wrong: arg-type
    Source.of(1).via(KillSwitches.single()).map(lengths)  # wrong: arg-type
    Source.of(1).via(KillSwitches.shared("all").flow).map(lengths)  # wrong: arg-type
    switch = KillSwitches.single()
    Source.of(1).via(switch).map(lengths)  # wrong: arg-type
    measured().via(switch).map(lengths)  # wrong: arg-type
    Source.of(1).to(Sink.as_publisher()).run().materialized(Publisher[int]).request(1)  # wrong: attr-defined
    Source.of(1).broadcast(texts(), Sink.ignore())  # wrong: arg-type
    Source.of(1).balance(Sink.ignore(), texts())  # wrong: arg-type
    Source.of(1).partition(lengths, Sink.ignore(), Sink.ignore())  # wrong: arg-type
    Source.of(1).partition(abs, Sink.ignore(), texts())  # wrong: arg-type
    of_strings(await Source.of(1).broadcast(Sink.fold(0, _added), Sink.fold(0, _added)).run())  # wrong: arg-type


def graphs() -> None:
    builder = GraphBuilder()
    source = builder.add(Source.of(1))
    fan_out = builder.add(Broadcast[int](2))
    words = builder.add(texts())
    measuring = builder.add(measured())
    builder.connect(source, words)  # wrong: misc
    builder.connect(source, measured(), words)  # wrong: misc
    builder.connect(fan_out.outlets[0], measured(), written(), words)  # wrong: misc
    builder.connect(source, "no port")  # wrong: call-overload
    builder.connect(source, measuring)  # wrong: misc
    builder.connect(measuring, words)  # wrong: misc
    builder.connect(measuring.outlet, words.inlet)  # wrong: misc
    builder.connect(source.outlet, KillSwitches.single(), words.inlet)  # wrong: misc
    builder.connect(source, source)  # wrong: misc
    builder.connect(words, measuring)  # wrong: misc
    builder.connect(measuring.inlet, words)  # wrong: call-overload
    builder.build(measuring)  # wrong: call-overload
    builder.build(words, words, words, words, measuring)  # wrong: call-overload
    first: Source[str] = builder.build_source(source)  # wrong: arg-type
    total: int = builder.build(words).run_blocking()  # wrong: assignment
    pair: tuple[list[str], int] = builder.build(words, words).run_blocking()  # wrong: assignment
    print(total, pair, first)


def _added(total: int, n: int) -> int:
    return total + n
