"""Errors of the streams package: one root; the message says what exceeded what."""

from __future__ import annotations


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


def null_element(where: str) -> TypeError:
    """The error of rule 2.13, made here so that it reads the same everywhere."""
    return TypeError(f"{where}: None is not an element of a stream (Reactive Streams 2.13)")


def storable(error: BaseException) -> BaseException:
    """``error``, or what stands for it where a future cannot hold it: StopIteration becomes RuntimeError, as in generators."""
    if not isinstance(error, StopIteration):
        return error
    stand_in = RuntimeError("a function in the stream raised StopIteration")
    stand_in.__cause__ = error
    return stand_in
