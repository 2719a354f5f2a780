"""What tests of streams need: a clock that jumps, and the two ends of a stream in the test's hands."""

from streams.testkit.expectations import DEFAULT_TIMEOUT, settle
from streams.testkit.publisher_probe import TestPublisher, TestSource
from streams.testkit.subscriber_probe import TestSink, TestSubscriber
from streams.testkit.virtual_time import DeadlockError, VirtualTimeLoop, elapse, run_in_virtual_time

__all__ = [
    "DEFAULT_TIMEOUT",
    "DeadlockError",
    "TestPublisher",
    "TestSink",
    "TestSource",
    "TestSubscriber",
    "VirtualTimeLoop",
    "elapse",
    "run_in_virtual_time",
    "settle",
]
