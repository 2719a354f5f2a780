from .expectations import DEFAULT_TIMEOUT, settle
from .publisher_probe import TestPublisher, TestSource
from .subscriber_probe import TestSink, TestSubscriber
from .virtual_time import DeadlockError, VirtualTimeLoop, elapse, run_in_virtual_time

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
