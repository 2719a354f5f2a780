"""Mistakes that type checkers must see: each line that ends in ``# wrong: <code>`` must be an error with that code, and no other line."""

from __future__ import annotations

from streams import Flow, GraphBuilder, KillSwitches, Sink, Source, SourceQueue
from streams.junctions import Broadcast


def lengths(text: str) -> int:
    return len(text)


def measured() -> Flow[str, int]:
    return Flow[str, str].identity().map(lengths)


def written() -> Flow[int, str]:
    return Flow[int, int].identity().map(str)


def of_strings(text: list[str]) -> None:
    """Takes strings."""


async def mistakes() -> None:
    Source.of(1).map(lengths)  # wrong: arg-type
    Source.of(1).via(measured())  # wrong: arg-type
    Source.of(1).group_by(2, bool).map(lengths)  # wrong: arg-type
    Source.of(1).group_by(2, bool).mapp(str)  # wrong: attr-defined
    Source.of(1).group_by(2, bool).map(str).merge_substreams().map(abs)  # wrong: arg-type
    of_strings(await Source.of(1).group_by(2, bool).merge_substreams().run_with(Sink.collect()))  # wrong: arg-type
    Source.queue(1, of=int).map(lengths)  # wrong: arg-type
    Source.queue(1, of=int).to(Sink.ignore()).run().materialized(SourceQueue[int]).offer("text")  # wrong: arg-type
    Source.of(1).via(KillSwitches.single()).map(lengths)  # wrong: arg-type
    Source.of(1).via(KillSwitches.shared("all").flow).map(lengths)  # wrong: arg-type
    of_strings(await Source.of(1).broadcast(Sink.fold(0, _added), Sink.fold(0, _added)).run())  # wrong: arg-type


def graphs() -> None:
    builder = GraphBuilder()
    source = builder.add(Source.of(1))
    fan_out = builder.add(Broadcast[int](2))
    texts: Sink[str, list[str]] = Sink.collect()
    words = builder.add(texts)
    builder.connect(source, words)  # wrong: misc
    builder.connect(source, measured(), words)  # wrong: misc
    builder.connect(fan_out.outlets[0], measured(), written(), words)  # wrong: misc
    builder.connect(source, "no port")  # wrong: call-overload
    total: int = builder.build(words).run_blocking()  # wrong: assignment
    print(total)


def _added(total: int, n: int) -> int:
    return total + n
