"""Reactive streams on an event loop: immutable descriptions of sources, flows and sinks, run under back-pressure. See docs/streams.md."""

from streams.contract import UNBOUNDED, Processor, Publisher, Subscriber, Subscription
from streams.demand import Demand, add_demand
from streams.errors import (
    BufferOverflowError,
    EmptyStreamError,
    LimitExceededError,
    LineTooLongError,
    StreamClosedError,
    StreamError,
)
from streams.flow import Flow
from streams.graph import RunnableGraph
from streams.keep import Keep
from streams.materialize import Materialization, Running
from streams.publishers.source_queue import SourceQueue
from streams.request_strategy import (
    MaxInFlightRequestStrategy,
    OneByOneRequestStrategy,
    RequestStrategy,
    WatermarkRequestStrategy,
    ZeroRequestStrategy,
)
from streams.shapes import FlowLike, SinkLike, SourceLike
from streams.sink import Sink
from streams.source import Source
from streams.stages.buffer import OverflowStrategy
from streams.subscribers.sinks import Acknowledgeable

__all__ = [
    "UNBOUNDED",
    "Acknowledgeable",
    "BufferOverflowError",
    "Demand",
    "EmptyStreamError",
    "Flow",
    "FlowLike",
    "Keep",
    "LimitExceededError",
    "LineTooLongError",
    "Materialization",
    "MaxInFlightRequestStrategy",
    "OneByOneRequestStrategy",
    "OverflowStrategy",
    "Processor",
    "Publisher",
    "RequestStrategy",
    "RunnableGraph",
    "Running",
    "Sink",
    "SinkLike",
    "Source",
    "SourceLike",
    "SourceQueue",
    "StreamClosedError",
    "StreamError",
    "Subscriber",
    "Subscription",
    "WatermarkRequestStrategy",
    "ZeroRequestStrategy",
    "add_demand",
]
