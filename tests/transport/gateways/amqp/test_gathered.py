"""Large messages as they come: how much memory all that are not complete take, and how long each may take."""

from __future__ import annotations

from collections import deque
from itertools import chain, repeat
from struct import pack
from weakref import ref as weak

import pytest

from tests.transport.gateways.amqp.amqp_frames import raw_frame
from tests.transport.gateways.amqp.test_channel_publishing import Host
from transport.gateways.amqp.basic_methods import BasicPublish
from transport.gateways.amqp.channel_publishing import Publishing
from transport.gateways.amqp.connection_methods import ChannelOpen
from transport.gateways.amqp.contents import BASIC
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.events import Published
from transport.gateways.amqp.layout import FRAME_BODY, FRAME_HEADER, PROTOCOL_HEADER
from transport.gateways.amqp.properties import NO_PROPERTIES
from transport.gateways.amqp.protocol import AmqpProtocol
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.waiting_total import LARGE_BYTES, MOST_WAITING_OF_ALL, WaitingTotal
from transport.gateways.amqp.writing import method_frame
from transport.shell.partial_frames import PartialFrames, PartialRoom
from transport.wire.frames import MAX_FRAME_BYTES

LARGE = 40 << 20
PART = bytes(100_000)


class Publisher:
    """One that has begun a large message, and brings a part of it at a time."""

    bytes_in = 0

    def __init__(self, everybody: PartialFrames, size: int = LARGE) -> None:
        self.protocol = AmqpProtocol()
        self.receiver = self.protocol.receiver
        self.room = PartialRoom(everybody, self)
        self.receiver.keep_in(self.room)
        self.whole = 0
        header = pack(">HHQ", BASIC, 0, size) + NO_PROPERTIES
        begin = [method_frame(1, ChannelOpen()), method_frame(1, BasicPublish()), raw_frame(FRAME_HEADER, 1, header)]
        full, rest = divmod(size, len(PART))
        parts = chain(
            repeat(raw_frame(FRAME_BODY, 1, PART), full), [raw_frame(FRAME_BODY, 1, PART[:rest])] * (rest > 0)
        )
        self.parts = deque(parts)
        self.bring(PROTOCOL_HEADER)
        self.protocol.opened(131_072, 0)
        self.bring(b"".join(begin))

    def bring(self, data: bytes) -> None:
        """Have it received, piece by piece as there is room for it; what is left comes next."""
        at = 0
        while at < len(data) and not self.receiver.stalled:
            view = self.receiver.get_buffer()
            size = min(len(view), len(data) - at)
            view[:size] = data[at : at + size]
            at += size
            self.receiver.received(size)
            while (event := self.protocol.next_event(1)) is not None:
                self.whole += isinstance(event, Published)
                del event
            self.receiver.handled()
        if at < len(data):
            self.parts.appendleft(data[at:])

    def goes_on(self) -> bool:
        """A part more, if there is room for it."""
        if self.receiver.stalled or not self.parts:
            return False
        self.bring(self.parts.popleft())
        return True

    def room_found(self) -> None:
        self.receiver.go_on()

    def waited(self) -> float:
        return 0.0

    def too_slow(self) -> None:
        raise AssertionError("nobody looks")


def test_however_many_have_begun_large_messages_they_keep_a_bounded_memory_and_all_come_through() -> None:
    everybody = PartialFrames(limit=4 * MAX_FRAME_BYTES)
    publishers = [Publisher(everybody) for _ in range(6)]
    most = 0
    while sum(each.goes_on() for each in publishers):
        most = max(most, sum(each.protocol.kept for each in publishers))
        assert everybody.bytes <= everybody.limit + LARGE + MAX_FRAME_BYTES
    assert most <= everybody.limit + LARGE
    assert [each.whole for each in publishers] == [1] * 6
    assert (everybody.bytes, everybody.waiting) == (0, 0)


def test_one_that_is_larger_than_all_places_of_the_line_goes_on_alone() -> None:
    everybody = PartialFrames(limit=MAX_FRAME_BYTES)
    size = 5 * MAX_FRAME_BYTES
    first, second = Publisher(everybody, size), Publisher(everybody, size)
    while first.goes_on() + second.goes_on():
        assert everybody.bytes <= 6 * MAX_FRAME_BYTES
        assert len(everybody._in_turn) <= 1
    assert (first.whole, second.whole) == (1, 1)


def test_each_frame_of_a_message_has_the_time_that_one_has_to_be_complete() -> None:
    publisher = Publisher(PartialFrames())
    assert publisher.receiver.renewed
    assert not publisher.receiver.renewed
    frame = publisher.parts.popleft()
    publisher.bring(frame[:50])
    assert not publisher.receiver.renewed
    publisher.bring(frame[50:])
    assert publisher.receiver.renewed
    assert publisher.receiver.mid_event


def test_what_has_come_of_a_message_is_free_when_its_stream_is_over_whoever_knows_the_connection() -> None:
    publisher = Publisher(PartialFrames())
    publisher.goes_on()
    (content,) = publisher.protocol.frames._channels.values()
    assert content is not None
    ended: list[object] = []
    told_of = weak(content.body.obj, ended.append)  # type: ignore[union-attr, arg-type]  # a view of a mapping
    del content
    publisher.receiver.drop()
    assert (ended, publisher.protocol.kept) == ([told_of], 0)


def test_a_large_message_waits_beside_others_up_to_a_limit_of_all_and_is_refused_then() -> None:
    total = WaitingTotal()
    total.bytes = MOST_WAITING_OF_ALL
    total.check(LARGE, 1)
    total.bytes += 1
    with pytest.raises(
        AmqpError, match=r"1000 bytes wait for the room of their queues, .*: publish it again later"
    ) as caught:
        total.check(1000, 1)
    assert (caught.value.reply_code, caught.value.closes_connection) == (ReplyCode.CONTENT_TOO_LARGE, False)
    # What is counted already does not keep itself from waiting.
    total.check(1000, 1, counted=True)
    with pytest.raises(AmqpError):
        total.check(0, 1, counted=True)


class FullHost(Host):
    """A channel beside others that have taken the memory."""

    def check_waiting(self, more: int, *, counted: bool = False) -> None:
        raise AmqpError(ReplyCode.CONTENT_TOO_LARGE, f"{more} are too many")


def test_what_is_refused_is_not_kept_and_what_is_small_waits_all_the_same() -> None:
    subject = Publishing(FullHost())
    small = Published(1, [BasicPublish(exchange="a")], [NO_PROPERTIES], [b"small"], 5)
    subject.publish(small)
    waiting = subject.waiting_bytes
    large = Published(1, [BasicPublish(exchange="a")], [NO_PROPERTIES], [bytes(LARGE_BYTES)], LARGE_BYTES)
    with pytest.raises(AmqpError, match="are too many"):
        subject.publish(large)
    assert 0 < subject.waiting_bytes == waiting
    (line,) = subject._lines.values()
    assert [len(piece.batch) for piece in line._waiting] == [1]
