"""What bad peers cost: bytes that mean nothing, sizes that are only announced, many contents at a time."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands

from tests.examples_tried import tried
from tests.transport.gateways.amqp.amqp_frames import (
    FRAME_MAX,
    bodies,
    content,
    events,
    opened,
    published,
    raw_frame,
    single,
)
from tests.transport.gateways.amqp.amqp_values import marshalled
from transport.gateways.amqp.contents import MAX_ANNOUNCED_BYTES, MAX_MESSAGE_BYTES
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.events import MethodReceived, Refused
from transport.gateways.amqp.frames import FrameDecoder
from transport.gateways.amqp.layout import PROTOCOL_HEADER
from transport.gateways.amqp.method_codec import decode_method
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.tables import decode_table

BASIC = commands.Basic
PUBLISH = marshalled(BASIC.Publish(routing_key="q"))
LITTLE = 256 * 1024
"""Bytes that may be allocated for what is refused, or has not come."""


def header(size: int, properties: bytes = b"\0\0", channel: int = 1) -> bytes:
    return raw_frame(2, channel, struct.pack(">HHQ", 60, 0, size) + properties)


@contextmanager
def little_memory(most: int = LITTLE) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def outcome(decoder: FrameDecoder, data: bytes) -> AmqpError | None:
    """What these bytes end with, where that is an error."""
    try:
        events(decoder, data)
    except AmqpError as error:
        return error
    return None


KINDS = st.one_of(
    st.sampled_from(
        [
            PUBLISH,
            header(3),
            header(0),
            header(2**40),
            raw_frame(3, 1, b"xyz"),
            raw_frame(3, 1, b"x"),
            published(b"abc", properties=BASIC.Properties(delivery_mode=2)),
            published(b"abc", channel=2),
            marshalled(BASIC.Ack(5)),
            marshalled(BASIC.Nack(5)),
            marshalled(commands.Channel.Open(), 2),
            marshalled(commands.Channel.Close(200, "", 0, 0), 2),
            marshalled(commands.Queue.Declare(queue="q", arguments={"a": {"b": [1, "c", 2.5, None]}})),
            marshalled(BASIC.Get(queue="q")),
            raw_frame(8, 0, b""),
        ]
    ),
    st.builds(raw_frame, st.integers(0, 9), st.integers(0, 3), st.binary(max_size=20)),
    st.binary(max_size=12),
)


@settings(max_examples=tried(900))
@given(
    st.lists(KINDS, max_size=8),
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=3),
    st.integers(1, 50),
)
def test_bytes_are_events_or_an_error_of_ours_and_no_more_is_kept_than_came(
    frames: list[bytes], changes: list[tuple[int, int]], step: int
) -> None:
    stream = bytearray(b"".join(frames))
    for at, other in changes:
        if stream:
            stream[at % len(stream)] = other
    decoder = opened()
    for at in range(0, len(stream), step):
        error = outcome(decoder, bytes(stream[at : at + step]))
        if error is not None:
            assert error.closes_connection
            assert len(error.reply_text.encode()) <= 255
            assert decoder.kept == 0
            break
        assert decoder.kept <= at + step
        assert decoder.whole == 0 or decoder.whole > decoder.kept


def everything(parts: list[bytes]) -> tuple[list[Any], str, AmqpError | None]:
    """All events one by one, and how it ends."""
    decoder, found = opened(), []
    for part in parts:
        decoder.receive(part)
        try:
            while (event := decoder.next_event()) is not None:
                found += single([event])
        except AmqpError as error:
            return found, str(error), error
    return found, "", None


@settings(max_examples=tried(900))
@given(st.lists(KINDS, max_size=8), st.integers(0, 600), st.integers(0, 255), st.booleans())
def test_read_in_groups_or_frame_by_frame_bad_bytes_are_the_same_events_and_the_same_error(
    frames: list[bytes], at: int, other: int, repeated: bool
) -> None:
    stream = bytearray(b"".join(frames) * (1 + repeated))
    if stream:
        stream[at % len(stream)] = other
    found, text, error = everything([bytes(stream)])
    for step in (1, 7):
        again = everything([bytes(stream[begin : begin + step]) for begin in range(0, len(stream), step)])
        assert again[:2] == (found, text)
        assert error is None or again[2] is None or (error.index, error.channel) == (again[2].index, again[2].channel)


@settings(max_examples=tried(600))
@given(st.binary(max_size=60), st.booleans())
def test_random_bytes_are_events_or_an_error_of_ours(data: bytes, greeted: bool) -> None:
    decoder = opened() if greeted else FrameDecoder()
    assert decoder.kept == 0 if outcome(decoder, data) else decoder.kept <= len(data)


def test_nothing_is_allocated_for_a_length_that_is_only_announced() -> None:
    for begin in (
        b"\x01\0\1\xff\xff\xff\xff",
        b"\x03\0\1" + FRAME_MAX.to_bytes(4, "big"),
        PUBLISH + header(MAX_MESSAGE_BYTES) + b"\x03\0\1" + FRAME_MAX.to_bytes(4, "big") + b"x",
        PUBLISH + header(MAX_MESSAGE_BYTES),
        PUBLISH + header(2**64 - 1),
    ):
        decoder = opened()
        with little_memory():
            error = outcome(decoder, begin)
        assert error is None or error.reply_code is ReplyCode.FRAME_ERROR
    with little_memory(), pytest.raises(AmqpError):
        decode_table(b"\0S\xff\xff\xff\xff")
    with little_memory(), pytest.raises(AmqpError):
        decode_method(bytes.fromhex("000a0015") + b"\xff\xff\xff\xff")


def test_a_message_over_the_limit_closes_its_channel_before_it_comes() -> None:
    decoder = opened(1, 2, max_message_bytes=1000)
    assert bodies(events(decoder, published(bytes(1000)))) == [bytes(1000)]
    for before in (b"", published(b"y")):
        decoder = opened(1, 2, max_message_bytes=1000)
        *_, refused = events(decoder, before + published(bytes(1001)))
        assert isinstance(refused, Refused)
        assert refused.channel == 1
        assert not refused.error.closes_connection
        assert (refused.error.class_id, refused.error.method_id) == (60, 40)
        assert (
            refused.error.reply_text
            == "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"
        )
        # What still comes there is passed over, and takes no memory.
        assert events(decoder, published(b"x") + published(b"z", channel=2)) == events(
            opened(2), published(b"z", channel=2)
        )
        assert decoder.kept == decoder.whole == 0


def test_a_message_as_large_as_any_may_be_is_taken_or_its_connection_closed() -> None:
    decoder = opened(max_message_bytes=2 * MAX_ANNOUNCED_BYTES)
    assert events(decoder, PUBLISH + header(MAX_ANNOUNCED_BYTES)) == []
    assert decoder.whole >= MAX_ANNOUNCED_BYTES
    with pytest.raises(
        AmqpError, match="FRAME_ERROR - content body size 536870913 exceeds maximum allowed size 536870912"
    ):
        events(opened(), PUBLISH + header(MAX_ANNOUNCED_BYTES + 1))


def test_a_body_of_many_small_parts_takes_the_memory_of_its_bytes() -> None:
    size, parts = 20_000, raw_frame(3, 1, b"x") * 100
    decoder = opened()
    decoder.receive(PUBLISH + header(size))
    assert decoder.next_event() is None
    with little_memory(8 * size):
        found = events(decoder, *[parts] * (size // 100))
    assert bodies(found) == [b"x" * size]


def test_contents_that_have_begun_are_no_more_than_two_of_the_largest_over_all_channels() -> None:
    most = FRAME_MAX * 2
    decoder = opened(*range(1, 7), max_message_bytes=most)
    begin = {channel: marshalled(BASIC.Publish(), channel) + header(most, channel=channel) for channel in range(1, 7)}
    assert events(decoder, begin[1] + begin[2]) == []
    # What was given up, and what is complete, counts no more.
    decoder.discard_channel(2)
    assert events(decoder, begin[3]) == []
    assert bodies(events(decoder, raw_frame(3, 3, bytes(FRAME_MAX)) * 2)) == [bytes(most)]
    assert events(decoder, begin[4]) == []
    error = outcome(decoder, begin[5])
    assert error is not None
    assert error.reply_code is ReplyCode.RESOURCE_ERROR
    assert error.closes_connection


def test_headers_of_contents_that_have_begun_count() -> None:
    decoder = opened(*range(1, 40), max_message_bytes=1000)
    large = BASIC.Properties(headers={"a": "b" * 100_000}).marshal()
    begin = {channel: marshalled(BASIC.Publish(), channel) + header(5, large, channel) for channel in range(1, 40)}
    assert events(decoder, begin[1]) == []
    assert decoder.kept == len(large)
    error = outcome(decoder, begin[2])
    assert error is not None
    assert error.reply_code is ReplyCode.RESOURCE_ERROR


def test_a_message_of_many_frames_comes_with_all_channels_and_is_let_go_with_the_connection() -> None:
    decoder = opened(1, 2)
    data = bytes(range(256)) * 4000
    stream = published(data, most=FRAME_MAX - 8)
    found = events(decoder, *[stream[at : at + 65_536] for at in range(0, len(stream), 65_536)])
    assert bodies(found) == [data]
    assert events(decoder, stream[:500_000]) == []
    assert decoder.kept > 400_000
    decoder.discard_all()
    assert decoder.kept <= FRAME_MAX


def test_more_than_two_thousand_channels_are_cheap() -> None:
    decoder = FrameDecoder()
    with little_memory(2 << 20):
        found = events(
            decoder, PROTOCOL_HEADER + b"".join(marshalled(commands.Channel.Open(), at) for at in range(1, 2049))
        )
    assert sum(isinstance(each, MethodReceived) for each in found) == 2048


def test_bytes_behind_an_error_are_not_kept() -> None:
    decoder = opened()
    decoder.receive(published(b"good") + raw_frame(9, 0, b"") + content(bytes(1000)))
    assert decoder.next_event() is not None
    for _ in range(3):
        with pytest.raises(AmqpError):
            decoder.next_event()
        decoder.receive(bytes(100_000))
        assert decoder.kept == 0
