"""Cases of the operators about failures: what stands in for one, supervision, restart with back-off, kill switches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streams import (
    Flow,
    KillSwitches,
    RestartFlow,
    RestartSettings,
    RestartSink,
    RestartSource,
    Sink,
    Source,
    Supervision,
)
from streams.stages.feed import FEED_WINDOW
from tests.streams.catalogue.case import FlowCase, SinkCase, SourceCase

BAD = 7
"""Every element that is a multiple of this fails in the cases of supervision."""
LIFE = 1000
"""Elements between two restarts."""
QUICKLY = RestartSettings(min_backoff=1e-3, max_backoff=1e-3, random_factor=0)


def start() -> Flow[Any, Any]:
    return Flow.identity()


def same(values: list[int]) -> list[Any]:
    return values


def itself(value: Any) -> Any:
    return value


def without_bad(values: list[int]) -> list[Any]:
    return [value for value in values if value % BAD]


def refuse_bad(value: int) -> int:
    if value % BAD == 0:
        raise ValueError(value)
    return value


async def refuse_bad_later(value: int) -> int:
    return refuse_bad(value)


class Mortal:
    """Fails on every `LIFE`-th element that one restarted flow or sink sees."""

    def __init__(self) -> None:
        self.seen = 0

    def take(self, value: Any) -> Any:
        self.seen += 1
        if self.seen % LIFE == 0:
            raise ValueError(value)
        return value


def survivors(values: list[int]) -> list[Any]:
    return [value for i, value in enumerate(values, 1) if i % LIFE]


def mortal_flow(restart: Callable[..., Flow[Any, Any]]) -> Callable[[], Flow[Any, Any]]:
    def make() -> Flow[Any, Any]:
        mortal = Mortal()
        return restart(QUICKLY, lambda: start().map(mortal.take))

    return make


def mortal_sink(restart: Callable[..., Sink[Any, Any]]) -> Callable[[], Sink[Any, Any]]:
    def make() -> Sink[Any, Any]:
        mortal = Mortal()
        return restart(QUICKLY, lambda: Sink.foreach(mortal.take))

    return make


def added_up() -> Sink[Any, Any]:
    return Sink.fold(0, lambda a, b: a + b)


def let_pass(_error: BaseException) -> None:
    """For functions of a failure that want nothing to do with it."""


FLOWS = [
    FlowCase("recover", lambda: start().recover(let_pass), same, identity=lambda: start().recover(let_pass)),
    FlowCase(
        "recover_with",
        lambda: start().recover_with(-1, let_pass),
        same,
        identity=lambda: start().recover_with(-1, let_pass),
    ),
    FlowCase("map_error", lambda: start().map_error(let_pass), same, identity=lambda: start().map_error(let_pass)),
    FlowCase(
        "on_error_complete",
        lambda: start().on_error_complete(KeyError),
        same,
        identity=lambda: start().on_error_complete(KeyError),
    ),
    FlowCase(
        "with_supervision, map",
        lambda: start().map(refuse_bad).with_supervision(Supervision.resuming),
        without_bad,
        ratio=BAD / (BAD - 1),
        ahead=1,
        identity=lambda: start().map(itself).with_supervision(Supervision.resuming),
    ),
    FlowCase(
        "with_supervision, filter and scan",
        lambda: start().filter(refuse_bad).scan(0, lambda _, n: refuse_bad(n)).with_supervision(Supervision.resuming),
        lambda values: [0, *without_bad(values)],
        ratio=BAD / (BAD - 1),
        ahead=1,
    ),
    FlowCase(
        "with_supervision, map_async",
        lambda: start().map_async(4, refuse_bad_later).with_supervision(Supervision.restarting),
        without_bad,
        ratio=BAD / (BAD - 1),
        ahead=5,
    ),
    FlowCase(
        "restart_flow",
        lambda: RestartFlow.with_backoff(QUICKLY, lambda: start().map(itself)),
        same,
        identity=lambda: RestartFlow.with_backoff(QUICKLY, start),
    ),
    FlowCase(
        "restart_flow, failing",
        mortal_flow(RestartFlow.with_backoff),
        survivors,
        ratio=LIFE / (LIFE - 1),
        ahead=FEED_WINDOW + 1,
    ),
    FlowCase(
        "restart_flow, on_failures_with_backoff",
        lambda: RestartFlow.on_failures_with_backoff(QUICKLY, lambda: start().map(itself)),
        same,
        identity=lambda: RestartFlow.on_failures_with_backoff(QUICKLY, start),
    ),
    FlowCase(
        "restart_flow, on_failures_with_backoff, failing",
        mortal_flow(RestartFlow.on_failures_with_backoff),
        survivors,
        ratio=LIFE / (LIFE - 1),
        ahead=FEED_WINDOW + 1,
    ),
    FlowCase(
        "kill_switch, single",
        KillSwitches.single,
        same,
        identity=KillSwitches.single,
    ),
    FlowCase(
        "kill_switch, shared",
        lambda: KillSwitches.shared("all").flow,
        same,
        identity=lambda: KillSwitches.shared("all").flow,
    ),
]

SOURCES = [
    SourceCase(
        "restart_source",
        exactly=lambda n: RestartSource.on_failures_with_backoff(QUICKLY, lambda: Source.from_iterable(range(n))),
        endless=lambda: RestartSource.with_backoff(QUICKLY, lambda: Source.from_iterable(range(LIFE))),
    ),
]

SINKS = [
    SinkCase("restart_sink", lambda: RestartSink.with_backoff(QUICKLY, added_up), sum),
    SinkCase("restart_sink, failing", mortal_sink(RestartSink.with_backoff)),
    SinkCase(
        "restart_sink, on_failures_with_backoff", lambda: RestartSink.on_failures_with_backoff(QUICKLY, added_up), sum
    ),
    SinkCase("restart_sink, on_failures_with_backoff, failing", mortal_sink(RestartSink.on_failures_with_backoff)),
]
