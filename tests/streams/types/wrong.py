"""Mistakes that type checkers must see: each line that ends in ``# wrong: <code>`` must be an error with that code, and no other line."""

from __future__ import annotations

from streams import Flow, GraphBuilder, Keep, KillSwitches, Publisher, Sink, Source, SourceQueue, UniqueKillSwitch
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


def values() -> None:
    queue, switch = Source.queue(1, of=int), KillSwitches.single()
    queue.run_with(Sink.ignore()).value.offr(1)  # wrong: attr-defined
    queue.run_with(Sink.ignore()).value.offer("text")  # wrong: arg-type
    queue.map(str).via(written_of_texts()).run_with(Sink.queue()).value.pull()  # wrong: attr-defined
    Source.of(1).run_with(Sink.ignore()).value.offer(1)  # wrong: attr-defined
    of_strings(Source.of(1).run_with(Sink.collect()).value.result())  # wrong: arg-type
    Source.of(1).via(switch).run_with(Sink.queue()).value.pull()  # wrong: attr-defined
    queue.via(switch, taking_the_other_way_round)  # wrong: arg-type
    queue.to(Sink.queue(), taking_the_other_way_round)  # wrong: arg-type
    queue.monitor(taking_the_other_way_round)  # wrong: arg-type
    queue.also_to(Sink.queue(), lambda offers, pulled: offers.pull())  # wrong: attr-defined
    queue.via(switch, Keep.both).run_with(Sink.ignore()).value.offer(1)  # wrong: attr-defined
    queue.map_materialized(lambda offers: offers.pull())  # wrong: attr-defined
    Source.of(1).monitor().run_with(Sink.ignore()).value.elements()  # wrong: attr-defined
    texts_offered: Source[int, SourceQueue[str]] = queue  # wrong: assignment
    plain: Source[int, None] = queue  # wrong: assignment
    number: int = Source.of(1).merge(queue).run_with(Sink.ignore()).value  # wrong: assignment
    print(texts_offered, plain, number)


def taking_the_other_way_round(switch: UniqueKillSwitch, queue: SourceQueue[int]) -> None:
    """Takes the second first."""


def written_of_texts() -> Flow[str, str]:
    return Flow[str, str].identity()


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
    builder.build(words, value=source).run().value.offer(1)  # wrong: attr-defined
    pair: tuple[list[str], int] = builder.build(words, words).run_blocking()  # wrong: assignment
    print(total, pair, first)


def _added(total: int, n: int) -> int:
    return total + n
