"""What a server writes, read and written by pamqp: deliveries in a row, contents in several frames, confirms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands, frame, header, heartbeat

from tests.examples_tried import tried
from tests.transport.gateways.amqp.amqp_frames import FRAME_MAX, content
from tests.transport.gateways.amqp.amqp_values import SHORT_STRINGS, marshalled
from transport.errors import LocalProtocolError
from transport.gateways.amqp.basic_methods import BasicGetOk, BasicReturn
from transport.gateways.amqp.entity_methods import QueueDeclareOk
from transport.gateways.amqp.properties import NO_PROPERTIES, Properties
from transport.gateways.amqp.writing import (
    BODY_END,
    FEW,
    HEARTBEAT,
    MAX_COPIED_BYTES,
    MAX_KNOWN_HEADERS,
    Deliveries,
    confirm,
    content_frames,
    method_frame,
)
from transport.wire.receiving import Part

BASIC = commands.Basic
PROPERTIES = st.sampled_from(
    [
        BASIC.Properties(),
        BASIC.Properties(delivery_mode=2),
        BASIC.Properties(message_id="m", headers={"a": "b"}, content_type="text/plain"),
    ]
)


def delivered(tag: str, number: int, redelivered: bool, exchange: str, key: str, channel: int) -> bytes:
    return marshalled(BASIC.Deliver(tag, number, redelivered, exchange, key), channel)


RUNS = st.lists(
    st.tuples(
        st.sampled_from(["", "amq.topic"]),
        SHORT_STRINGS,
        st.booleans(),
        st.lists(st.tuples(PROPERTIES, st.binary(max_size=60)), max_size=4)
        | st.tuples(PROPERTIES, st.lists(st.binary(min_size=7, max_size=7), max_size=3 * FEW)).map(
            lambda alike: [(alike[0], each) for each in alike[1]]
        ),
    ),
    max_size=4,
)


@settings(max_examples=tried(300))
@given(
    RUNS,
    st.text("ctag.1", max_size=10),
    st.integers(1, 65535),
    st.integers(1, 2**63 - 100),
    st.integers(9, 80),
    st.booleans(),
)
def test_deliveries_are_the_bytes_that_pamqp_writes(
    runs: list[Any], tag: str, channel: int, first: int, frame_max: int, views: bool
) -> None:
    deliveries = Deliveries(channel, tag, frame_max)
    parts: list[Part] = []
    expected = b""
    number = first
    for exchange, key, redelivered, messages in runs:
        raw = [each.marshal() for each, _ in messages]
        bodies = [memoryview(data) if views else data for _, data in messages]
        deliveries.put(parts, number, redelivered, exchange, key, raw, bodies)
        for properties, data in messages:
            expected += delivered(tag, number, redelivered, exchange, key, channel)
            expected += content(data, properties, channel, frame_max - 8)
            number += 1
    assert b"".join(parts) == expected


def test_deliveries_that_differ_in_their_bodies_alone_are_a_part_each_and_its_end() -> None:
    bodies = [b"%03d" % number for number in range(FEW)]
    parts: list[Part] = []
    Deliveries(1, "c", FRAME_MAX).put(parts, 1, False, "", "k", [NO_PROPERTIES] * FEW, bodies)
    assert [part is BODY_END for part in parts] == [False, True] * FEW
    large = [bytes(MAX_COPIED_BYTES + 1) for _ in range(FEW)]
    parts = []
    Deliveries(1, "c", FRAME_MAX).put(parts, 1, False, "", "k", [NO_PROPERTIES] * FEW, large)
    assert [part for part in parts if any(part is body for body in large)] == large


def test_bodies_are_passed_on_uncopied_and_no_part_is_empty() -> None:
    data = memoryview(bytes(100))
    parts: list[Part] = []
    Deliveries(1, "t", FRAME_MAX).put(parts, 1, False, "", "q", [NO_PROPERTIES], [data])
    method = BasicReturn(reply_code=312, exchange="", routing_key="")
    for each in (parts, content_frames(1, method, NO_PROPERTIES, data, FRAME_MAX)):
        assert any(part is data for part in each)
        assert all(len(part) for part in each)


def test_more_headers_than_are_remembered_are_right_too() -> None:
    raw = [Properties.of(message_id=str(at)).raw for at in range(3 * MAX_KNOWN_HEADERS)]
    parts: list[Part] = []
    Deliveries(3, "t", FRAME_MAX).put(parts, 1, True, "e", "q", raw, [b"x"] * len(raw))
    stream, found = b"".join(parts), []
    while stream:
        size, channel, each = frame.unmarshal(stream)
        stream = stream[size:]
        assert channel == 3
        if isinstance(each, header.ContentHeader):
            assert isinstance(each.properties, BASIC.Properties)
            found.append(each.properties.message_id)
    assert found == [str(at) for at in range(3 * MAX_KNOWN_HEADERS)]


@pytest.mark.parametrize("size", [0, 1, FRAME_MAX - 8, FRAME_MAX - 7, 3 * FRAME_MAX])
def test_a_content_takes_as_many_bodies_as_it_needs(size: int) -> None:
    data = bytes(size)
    got = content_frames(
        2, BasicGetOk(delivery_tag=1, exchange="e", routing_key="k", message_count=3), NO_PROPERTIES, data, FRAME_MAX
    )
    assert b"".join(got) == marshalled(BASIC.GetOk(1, False, "e", "k", 3), 2) + content(data, None, 2)
    assert max(map(len, got)) <= FRAME_MAX


def test_a_message_that_comes_back_is_as_pamqp_writes_it() -> None:
    method = BasicReturn(reply_code=312, reply_text="NO_ROUTE", exchange="e", routing_key="k")
    expected = marshalled(BASIC.Return(312, "NO_ROUTE", "e", "k"), 2) + content(b"x", None, 2)
    assert b"".join(content_frames(2, method, NO_PROPERTIES, b"x", FRAME_MAX)) == expected


@given(st.integers(1, 65535), st.integers(0, 2**63 - 1), st.booleans())
def test_confirms_are_the_bytes_that_pamqp_writes(channel: int, tag: int, multiple: bool) -> None:
    assert confirm(channel, tag, multiple) == marshalled(BASIC.Ack(tag, multiple), channel)
    assert confirm(channel, tag, multiple, stored=False) == marshalled(BASIC.Nack(tag, multiple, True), channel)


def test_heartbeats_and_methods_are_the_bytes_that_pamqp_writes() -> None:
    assert frame.marshal(heartbeat.Heartbeat(), 0) == HEARTBEAT
    expected = marshalled(commands.Queue.DeclareOk("q", 5, 0), 7)
    assert method_frame(7, QueueDeclareOk(queue="q", message_count=5, consumer_count=0)) == expected


def test_names_that_do_not_fit_are_our_own_error() -> None:
    with pytest.raises(LocalProtocolError):
        Deliveries(1, "t" * 256, FRAME_MAX)
    with pytest.raises(LocalProtocolError):
        Deliveries(1, "t", FRAME_MAX).put([], 1, False, "", "k" * 256, [NO_PROPERTIES], [b"x"])
