"""Errors of the streams package: one root; the message says what exceeded what."""

from __future__ import annotations

import sys
from asyncio import CancelledError
from typing import Final

FAILURES: Final = (Exception, CancelledError)
"""What a stream fails with if a user's function raises it. CancelledError is among them: it says that what the function waited for is
no more, not that the stream is to stop without a word. KeyboardInterrupt and SystemExit go through to the loop, which they are to end."""


class StreamError(Exception):
    """Root of every error that this package raises of its own."""


class StreamClosedError(StreamError):
    """Something was offered to, or started in, a stream that has ended."""


class EmptyStreamError(StreamError, LookupError):
    """A sink that needs an element (head, last) saw none before the end."""


class BufferOverflowError(StreamError):
    """A buffer with ``OverflowStrategy.FAIL`` was full when one more element came.

    Attributes:
        size: elements it holds.
    """

    def __init__(self, size: int) -> None:
        super().__init__(f"the buffer is full at {size} elements and its overflow strategy is FAIL")
        self.size = size


class LimitExceededError(StreamError):
    """A stream had more elements than its sink was told to hold.

    Attributes:
        limit: elements allowed.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the stream has more than the {limit} elements that Sink.collect may hold: "
            "raise its limit, take() fewer, or fold() instead"
        )
        self.limit = limit


class LineTooLongError(StreamError, ValueError):
    """A line is longer than may be held in memory.

    Attributes:
        limit: bytes allowed in a line.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(f"a line is longer than the limit of {limit} bytes (max_line_bytes)")
        self.limit = limit


class StreamTimeoutError(StreamError, TimeoutError):
    """A stream was slower than one of its time-outs allows.

    Attributes:
        operator: the time-out: ``idle_timeout``, say.
        seconds: what it allows.
    """

    def __init__(self, operator: str, seconds: float, what: str) -> None:
        super().__init__(f"{what} within the {seconds:g} s of {operator}")
        self.operator = operator
        self.seconds = seconds


class RateExceededError(StreamError):
    """Elements came faster than a throttle with ``ThrottleMode.ENFORCING`` lets through.

    Attributes:
        elements: their cost allowed in ``per``.
        per: seconds.
        burst: cost allowed at once.
    """

    def __init__(self, elements: int, per: float, burst: int) -> None:
        super().__init__(
            f"elements come faster than {elements} in {per:g} s with bursts of {burst}: "
            "slow the source down, allow a greater maximum_burst, or use ThrottleMode.SHAPING"
        )
        self.elements = elements
        self.per = per
        self.burst = burst


class TooManyWaitersError(StreamError):
    """More callers wait for room in a queue, or for an element of one, than it was told to hold.

    Attributes:
        limit: callers that may wait.
    """

    def __init__(self, limit: int, setting: str) -> None:
        super().__init__(
            f"{limit} callers wait for this queue already ({setting}): await them before the next, or raise that"
        )
        self.limit = limit


class FramingError(StreamError, ValueError):
    """The bytes that came are no frames of the kind that was expected."""


class FrameTooLongError(FramingError):
    """A frame is longer than may be held in memory.

    Attributes:
        size: bytes in the frame, as far as they are known.
        limit: bytes allowed.
        setting: the name of that limit.
    """

    def __init__(self, size: int, limit: int, setting: str = "max_frame_bytes") -> None:
        super().__init__(f"a frame of {size} bytes or more is longer than the limit of {limit} bytes ({setting})")
        self.size = size
        self.limit = limit
        self.setting = setting


class TruncatedFrameError(FramingError):
    """The stream ended in the middle of a frame.

    Attributes:
        held: bytes of the frame that had come.
    """

    def __init__(self, held: int, missing: str) -> None:
        super().__init__(f"the stream ended in the middle of a frame, of which {held} bytes had come: {missing}")
        self.held = held


class OperatorRefusedError(StreamError, ValueError):
    """`Flow.rx` was given an operator of reactivex that cannot be held to demand.

    Attributes:
        operator: its name.
        instead: names in `streams` of what to use.
    """

    def __init__(self, operator: str, reason: str, instead: tuple[str, ...], advice: str) -> None:
        super().__init__(f"Flow.rx cannot hold {operator} to demand, because it {reason}: {advice}")
        self.operator = operator
        self.instead = instead


class NotSynchronousError(StreamError):
    """An operator in `Flow.rx` did something outside of the signals it was given: it waits for a timer, a thread or another source."""


class ExpansionLimitError(StreamError):
    """The operators in `Flow.rx` made more elements of one than may wait for demand.

    Attributes:
        limit: elements allowed.
    """

    def __init__(self, operators: str, limit: int) -> None:
        super().__init__(
            f"{operators} made more than {limit} elements of one (max_expansion): "
            "raise that, or use flat_map or flat_map_concat, which make them as they are asked for"
        )
        self.limit = limit


class TooManySubstreamsError(StreamError):
    """A group_by saw more keys than it may have substreams.

    Attributes:
        limit: substreams allowed.
        key: the one too many.
    """

    def __init__(self, limit: int, key: object) -> None:
        super().__init__(
            f"the key {key!r:.100} needs a substream more than the {limit} that group_by may have: raise its max_substreams, "
            "use a key with fewer values, or let closed substreams be recreated"
        )
        self.limit = limit
        self.key = key


class SubscriptionTimeoutError(StreamError, TimeoutError):
    """Nobody subscribed to a substream while there was time.

    Attributes:
        seconds: the time there was.
    """

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(
            f"{what} was not subscribed to within {seconds:g} s: run it sooner, or raise subscription_timeout"
        )
        self.seconds = seconds


class GraphError(StreamError, ValueError):
    """The parts given to a `GraphBuilder` make no graph.

    Attributes:
        ports: the names of the ports, or parts, that it is about.
    """

    def __init__(self, message: str, ports: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.ports = ports


SURE_OPERATORS: Final = 64
"""Operators, whichever they are, that may stand one behind the other in any stream: the deepest takes 13 calls a signal, and Python's stack
holds 1,000 unless told otherwise. Of most, three times as many may."""


class StreamTooDeepError(StreamError, RecursionError):
    """A stream has so many operators one behind the other that a signal, which is a call within a call, does not fit Python's stack.

    Attributes:
        operators: how many there are.
    """

    def __init__(self, operators: int) -> None:
        super().__init__(
            f"the stream has {operators} operators one behind the other, and a signal goes through them as calls within calls: more "
            f"than the {sys.getrecursionlimit()} that Python allows. {SURE_OPERATORS} always fit; for more, raise the limit with "
            "sys.setrecursionlimit(), or let one operator do the work of several"
        )
        self.operators = operators


def null_element(where: str) -> TypeError:
    """The error of rule 2.13, made here so that it reads the same everywhere."""
    return TypeError(f"{where}: None is not an element of a stream (Reactive Streams 2.13)")


def returned_none(operator: str, function: object) -> TypeError:
    """The error of a function that has returned None where its operator passes on what it returns; it says what to do."""
    kind = next((kind for kind in ("async", "blocking") if f"map_{kind}" in operator), "")
    sink = f"Sink.foreach_{kind}" if kind else "Sink.foreach"
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return TypeError(
        f"{operator} needs an element: the function has returned None. Have {name} return the element; or, if nothing is to follow, "
        f"end the stream with {sink} in the place of {operator} (Reactive Streams 2.13)"
    )


def add_place(error: BaseException, place: str) -> None:
    """Notes where ``error`` came from, once: the same object can end many runs."""
    if place not in getattr(error, "__notes__", ()):
        error.add_note(place)


def storable(error: BaseException) -> BaseException:
    """``error``, or what stands for it where a future cannot hold it: StopIteration becomes RuntimeError, as in generators."""
    if not isinstance(error, StopIteration):
        return error
    stand_in = RuntimeError("a function in the stream raised StopIteration")
    stand_in.__cause__ = error
    for note in getattr(error, "__notes__", ()):
        stand_in.add_note(note)
    return stand_in
