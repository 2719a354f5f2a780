"""Cases of the operators with a sink beside the stream."""

from __future__ import annotations

from streams import Flow, Sink
from tests.streams.catalogue.case import FlowCase, SinkCase, SourceCase

FLOWS: list[FlowCase] = [
    FlowCase(
        "also_to",
        lambda: Flow.identity().also_to(Sink.ignore()),
        model=list,
        identity=lambda: Flow.identity().also_to(Sink.ignore()),
    ),
    FlowCase(
        "divert_to",
        lambda: Flow.identity().divert_to(Sink.ignore(), lambda n: n % 2),
        model=lambda xs: [x for x in xs if not x % 2],
        ratio=2.0,
        ahead=1,
        identity=lambda: Flow.identity().divert_to(Sink.ignore(), lambda _: False),
    ),
    FlowCase(
        "wire_tap",
        lambda: Flow.identity().wire_tap(Sink.ignore()),
        model=list,
        identity=lambda: Flow.identity().wire_tap(Sink.ignore()),
    ),
    FlowCase(
        "wire_tap, a function",
        lambda: Flow.identity().wire_tap(lambda _: None),
        model=list,
        identity=lambda: Flow.identity().wire_tap(lambda _: None),
    ),
]
SOURCES: list[SourceCase] = []
SINKS: list[SinkCase] = []
