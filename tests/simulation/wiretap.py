"""Listens on the broker's end of a connection and notes what the frames say; docs/protocol.md tells what they mean."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any

import msgpack

from tests.simulation.failure_checker import UNTRIED
from tests.simulation.history import (
    Acknowledged,
    Arrived,
    CommandAnswered,
    CommandHeard,
    Confirmed,
    Delivered,
    Extended,
    History,
    Ranges,
    Released,
    Returned,
    name_of,
)
from transport.clients.deaths import deaths_in
from transport.wire.codec import decode
from transport.wire.frames import RawFrame
from transport.wire.messages import Ack, Cancel, Command, Deliver, Error, Extend, Hello, Nack, Result, Send, Sent

PREFIX = struct.Struct(">IH")
DEFINING = frozenset(
    {"exchange.create", "exchange.delete", "binding.create", "binding.delete", "queue.create", "queue.delete"}
)
"""The commands that change where messages go."""


class Frames:
    """Cuts a stream that is known to be good into frames."""

    def __init__(self) -> None:
        self._left = b""

    def feed(self, data: bytes) -> list[Any]:
        """The frames that ``data`` completes."""
        left = self._left + data if self._left else data
        found = []
        at, end = 0, len(left)
        while end - at >= PREFIX.size:
            length, header_length = PREFIX.unpack_from(left, at)
            if end - at < length:
                break
            body_at = at + PREFIX.size + header_length
            header = msgpack.unpackb(left[at + PREFIX.size : body_at])
            at += length
            found.append(decode(RawFrame(header, memoryview(left[body_at:at]))))
        self._left = left[at:]
        return found


class Wiretap:
    """One connection's."""

    def __init__(self, number: int, history: History, clock: Callable[[], float]) -> None:
        self._number = number
        self._history = history
        self._clock = clock
        self._in, self._out = Frames(), Frames()
        self._queue = ""
        self._over = False
        self._publishes = False
        self._asked: list[int] = []
        self._unanswered: deque[tuple[str, ...]] = deque()

    def received(self, data: bytes) -> None:
        """The broker is about to be given these bytes."""
        for frame in self._in.feed(data):
            if not self._over:
                self._heard(frame)

    def written(self, data: bytes) -> None:
        """The broker has written these bytes."""
        for frame in self._out.feed(data):
            if isinstance(frame, Deliver):
                self._history.add(
                    Delivered(
                        self._clock(),
                        self._number,
                        self._queue,
                        frame.first,
                        tuple(map(name_of, frame.batch.payloads.tolist())),
                        frame.delivery_count,
                        frame.possibly_replayed,
                        frame.failures,
                        frame.enqueued_us,
                        _deaths(frame),
                    )
                )
            elif isinstance(frame, Sent):
                self._sent(frame)
            elif isinstance(frame, Result) and frame.request in self._asked:
                self._answered(frame.request, None)
            elif isinstance(frame, Error) and frame.close:
                self.ended(f"ERROR {frame.code}")
            elif isinstance(frame, Error) and self._asked:
                self._answered(self._asked[0], frame.code)

    def ended(self, reason: str) -> None:
        """The broker takes nothing more from this connection."""
        if not self._over:
            self._over = True
            self._history.add(Released(self._clock(), self._number, reason))

    def _sent(self, frame: Sent) -> None:
        """A batch is answered for, each in order."""
        if not self._unanswered:
            return
        messages = self._unanswered.popleft()
        if frame.rejected is None and messages and messages[0].partition("/")[0] in self._history.told:
            self._history.add(Confirmed(self._clock(), self._queue, messages))

    def _answered(self, request: int, code: str | None) -> None:
        self._asked.remove(request)
        self._history.add(CommandAnswered(self._clock(), self._number, request, code))

    def _heard(self, frame: Any) -> None:
        now, number, queue, add = self._clock(), self._number, self._queue, self._history.add
        if isinstance(frame, Hello):
            self._queue = frame.queue or frame.options.get("existing_queue") or ""
            self._publishes = "exchange" in frame.options
        elif isinstance(frame, Command) and frame.name in DEFINING:
            self._asked.append(frame.request)
            add(CommandHeard(now, number, frame.request, frame.name, tuple(sorted(frame.arguments.items()))))
        elif isinstance(frame, Send) and not self._publishes:
            properties = frame.properties or {}
            messages = tuple(map(name_of, frame.batch.payloads.tolist()))
            delay, ttl, at = (_seconds(properties.get(name)) for name in ("delay_ms", "ttl_ms", "deliver_at_ms"))
            self._unanswered.append(messages)
            add(Arrived(now, number, queue, messages, delay, ttl, properties.get("priority", 0), at))
        elif isinstance(frame, Ack):
            add(Acknowledged(now, number, queue, _ranges(frame.ranges)))
        elif isinstance(frame, Nack):
            add(Returned(now, number, queue, _ranges(frame.ranges), frame.delay_ms / 1000, frame.failed))
        elif isinstance(frame, Extend):
            add(Extended(now, number, queue, _ranges(frame.ranges), frame.ms / 1000))
        elif isinstance(frame, Cancel):
            self.ended("CANCEL" if frame.failed else UNTRIED)
        elif isinstance(frame, Error):
            self.ended("ERROR from the client")


def _ranges(pairs: Any) -> Ranges:
    return tuple((int(first), int(count)) for first, count in pairs)


def _deaths(frame: Deliver) -> tuple[tuple[str, str], ...]:
    """Of each message how it died last; empty where none of them did."""
    batch = frame.batch
    if batch.headers is None:
        return ()
    found = [deaths_in(batch.message(index).headers) for index in range(len(batch))]
    return tuple((each[0].reason, each[0].queue) if each else ("", "") for each in found) if any(found) else ()


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
