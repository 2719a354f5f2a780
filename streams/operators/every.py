"""All operators together: what a source and a flow can be continued with. Each group is a module of its own."""

from __future__ import annotations

from streams.operators.asynchronous import AsynchronousOperators
from streams.operators.batching import BatchingOperators
from streams.operators.buffering import BufferingOperators
from streams.operators.elementwise import ElementwiseOperators
from streams.operators.failures import FailureOperators
from streams.operators.fan_in import FanInOperators
from streams.operators.fan_out import FanOutOperators
from streams.operators.substreams import SubstreamOperators
from streams.operators.timing import TimingOperators
from streams.operators.watching import WatchingOperators


class Operators(
    ElementwiseOperators,
    BatchingOperators,
    AsynchronousOperators,
    BufferingOperators,
    TimingOperators,
    FanInOperators,
    FanOutOperators,
    SubstreamOperators,
    FailureOperators,
    WatchingOperators,
):
    """What can be put behind a source or a flow."""
