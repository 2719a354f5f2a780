"""Reactive streams on an event loop: immutable descriptions of sources, flows and sinks, run under back-pressure. See docs/streams.md."""

from streams.bidi_flow import BidiFlow
from streams.contract import UNBOUNDED, Processor, Publisher, Subscriber, Subscription
from streams.demand import Demand, add_demand, invalid_demand
from streams.errors import (
    BufferOverflowError,
    EmptyStreamError,
    ExpansionLimitError,
    FrameTooLongError,
    FramingError,
    GraphError,
    LimitExceededError,
    LineTooLongError,
    NotSynchronousError,
    OperatorRefusedError,
    RateExceededError,
    StreamClosedError,
    StreamError,
    StreamTimeoutError,
    StreamTooDeepError,
    SubscriptionTimeoutError,
    TooManySubstreamsError,
    TooManyWaitersError,
    TruncatedFrameError,
    null_element,
)
from streams.flow import Flow
from streams.framing import Framing
from streams.graph import RunnableGraph
from streams.graph_builder import GraphBuilder
from streams.keep import Keep
from streams.kill_switch import KillSwitches, SharedKillSwitch, UniqueKillSwitch
from streams.materialize import Materialization
from streams.overflow import OverflowStrategy
from streams.ports import GraphPart, InPort, OutPort
from streams.publishers.source_queue import QueueOfferResult, SourceQueue
from streams.request_strategy import (
    MaxInFlightRequestStrategy,
    OneByOneRequestStrategy,
    RequestStrategy,
    WatermarkRequestStrategy,
    ZeroRequestStrategy,
)
from streams.restart import RestartFlow, RestartSettings, RestartSink, RestartSource
from streams.running import Running
from streams.shapes import FlowLike, SinkLike, SourceLike
from streams.sink import Sink
from streams.source import Source
from streams.stages.monitor import FlowMonitor, FlowPhase, FlowState
from streams.stages.stage import reject
from streams.stages.throttle import ThrottleMode
from streams.stages.watching import LogLevels, Termination
from streams.subscribers.file import IOResult
from streams.subscribers.pull import SinkQueue
from streams.subscribers.sinks import Acknowledgeable
from streams.substream import SubFlow, SubSource
from streams.supervision import Decider, Directive, Supervision

__all__ = [
    "UNBOUNDED",
    "Acknowledgeable",
    "BidiFlow",
    "BufferOverflowError",
    "Decider",
    "Demand",
    "Directive",
    "EmptyStreamError",
    "ExpansionLimitError",
    "Flow",
    "FlowLike",
    "FlowMonitor",
    "FlowPhase",
    "FlowState",
    "FrameTooLongError",
    "Framing",
    "FramingError",
    "GraphBuilder",
    "GraphError",
    "GraphPart",
    "IOResult",
    "InPort",
    "Keep",
    "KillSwitches",
    "LimitExceededError",
    "LineTooLongError",
    "LogLevels",
    "Materialization",
    "MaxInFlightRequestStrategy",
    "NotSynchronousError",
    "OneByOneRequestStrategy",
    "OperatorRefusedError",
    "OutPort",
    "OverflowStrategy",
    "Processor",
    "Publisher",
    "QueueOfferResult",
    "RateExceededError",
    "RequestStrategy",
    "RestartFlow",
    "RestartSettings",
    "RestartSink",
    "RestartSource",
    "RunnableGraph",
    "Running",
    "SharedKillSwitch",
    "Sink",
    "SinkLike",
    "SinkQueue",
    "Source",
    "SourceLike",
    "SourceQueue",
    "StreamClosedError",
    "StreamError",
    "StreamTimeoutError",
    "StreamTooDeepError",
    "SubFlow",
    "SubSource",
    "Subscriber",
    "Subscription",
    "SubscriptionTimeoutError",
    "Supervision",
    "Termination",
    "ThrottleMode",
    "TooManySubstreamsError",
    "TooManyWaitersError",
    "TruncatedFrameError",
    "UniqueKillSwitch",
    "WatermarkRequestStrategy",
    "ZeroRequestStrategy",
    "add_demand",
    "invalid_demand",
    "null_element",
    "reject",
]
