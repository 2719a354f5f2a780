from .bidi_flow import BidiFlow
from .contract import UNBOUNDED, Processor, Publisher, Subscriber, Subscription
from .demand import Demand, add_demand, invalid_demand
from .errors import (
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
from .flow import Flow
from .framing import Framing
from .graph import RunnableGraph
from .graph_builder import GraphBuilder
from .keep import Keep
from .kill_switch import KillSwitches, SharedKillSwitch, UniqueKillSwitch
from .materialize import Materialization
from .overflow import OverflowStrategy
from .ports import GraphPart, InPort, OutPort
from .publishers.source_queue import QueueOfferResult, SourceQueue
from .request_strategy import (
    MaxInFlightRequestStrategy,
    OneByOneRequestStrategy,
    RequestStrategy,
    WatermarkRequestStrategy,
    ZeroRequestStrategy,
)
from .restart import RestartFlow, RestartSettings, RestartSink, RestartSource
from .running import Running
from .shapes import FlowLike, SinkLike, SourceLike
from .sink import Sink
from .source import Source
from .stages.monitor import FlowMonitor, FlowPhase, FlowState
from .stages.stage import reject
from .stages.throttle import ThrottleMode
from .stages.watching import LogLevels, Termination
from .subscribers.file import IOResult
from .subscribers.pull import SinkQueue
from .subscribers.sinks import Acknowledgeable
from .substream import SubFlow, SubSource
from .supervision import Decider, Directive, Supervision

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
