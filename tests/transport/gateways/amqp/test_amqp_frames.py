"""AMQP's frames out of a stream: the same however it is cut, groups, and what is wrong with frames and with their order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands, frame, heartbeat

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
from tests.transport.gateways.amqp.amqp_values import marshalled, methods_of
from transport.gateways.amqp.basic_methods import BasicAck, BasicNack, BasicPublish, BasicReject
from transport.gateways.amqp.connection_methods import ChannelClose, ChannelCloseOk, ChannelOpen
from transport.gateways.amqp.entity_methods import QueueDeclare
from transport.gateways.amqp.errors import AmqpError, WrongProtocolError
from transport.gateways.amqp.events import Heartbeat, MethodReceived, ProtocolHeader, Published, Settled
from transport.gateways.amqp.frames import MAX_GROUP_TAGS, FrameDecoder
from transport.gateways.amqp.layout import MIN_FRAME_MAX, PROTOCOL_HEADER
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.method_codec import decode_method, encode_method
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.publishing import MAX_GROUP_BYTES, MAX_GROUP_MESSAGES, MAX_KNOWN, decode_publish
from transport.gateways.amqp.reply_codes import ReplyCode

BASIC, CHANNEL, QUEUE = commands.Basic, commands.Channel, commands.Queue
PERSISTENT = BASIC.Properties(delivery_mode=2)
PUBLISH = marshalled(BASIC.Publish(routing_key="queue"))
SESSION = b"".join(
    [
        PROTOCOL_HEADER,
        marshalled(commands.Connection.TuneOk(channel_max=10, frame_max=FRAME_MAX, heartbeat=60), 0),
        marshalled(CHANNEL.Open(), 1),
        marshalled(CHANNEL.Open(), 2),
        marshalled(QUEUE.Declare(queue="q", durable=True, arguments={"x-max-length": 5}), 1),
        frame.marshal(heartbeat.Heartbeat(), 0),
        # What is like the last one in all, and in all but one thing: body, key, properties, size.
        *[published(b"body %d" % at, properties=PERSISTENT) for at in range(3)],
        published(b"body 3", key="other", properties=PERSISTENT),
        published(b"body 4", properties=PERSISTENT),
        published(b"body 5", properties=PERSISTENT),
        published(b"body 6", properties=BASIC.Properties(priority=2)),
        published(b"body 7", properties=PERSISTENT),
        published(b"other", key="elsewhere", exchange="e"),
        published(b"", properties=BASIC.Properties(message_id="m")),
        published(b"in parts", most=3),
        # Two channels whose contents come by turns.
        PUBLISH,
        marshalled(BASIC.Publish(routing_key="second"), 2),
        content(b"x", channel=2)[:22],
        content(b"one", PERSISTENT),
        content(b"x", channel=2)[22:],
        *[marshalled(BASIC.Ack(tag), 1) for tag in range(1, 6)],
        marshalled(BASIC.Ack(9, True), 1),
        marshalled(BASIC.Nack(10, True, False), 1),
        marshalled(BASIC.Reject(11, True), 1),
        marshalled(BASIC.Reject(12, False), 2),
        marshalled(CHANNEL.Close(200, "bye", 0, 0), 2),
        marshalled(CHANNEL.Open(), 2),
        published(b"again", channel=2),
    ]
)


def fresh() -> FrameDecoder:
    return FrameDecoder()


def decoded() -> list[Any]:
    return single(events(fresh(), SESSION))


def test_a_session_is_read_as_it_was_written() -> None:
    found = decoded()
    names = [each.method.NAME if isinstance(each, MethodReceived) else type(each).__name__ for each in found]
    assert names[:7] == [
        "ProtocolHeader",
        "connection.tune-ok",
        "channel.open",
        "channel.open",
        "queue.declare",
        "Heartbeat",
        "tuple",
    ]
    assert found[0] == ProtocolHeader((0, 9, 1))
    messages = [each for each in found if each[:1] == ("published",)]
    assert [(each[1], each[2].routing_key, each[-1]) for each in messages] == [
        (1, "queue", b"body 0"),
        (1, "queue", b"body 1"),
        (1, "queue", b"body 2"),
        (1, "other", b"body 3"),
        (1, "queue", b"body 4"),
        (1, "queue", b"body 5"),
        (1, "queue", b"body 6"),
        (1, "queue", b"body 7"),
        (1, "elsewhere", b"other"),
        (1, "queue", b""),
        (1, "queue", b"in parts"),
        (1, "queue", b"one"),
        (2, "second", b"x"),
        (2, "queue", b"again"),
    ]
    modes = [Properties(each[3]).delivery_mode for each in messages]
    assert modes == [*[2] * 6, None, 2, *[None] * 3, 2, *[None] * 2]
    assert [each[1:] for each in found if each[:1] == ("settled",)] == [
        *[(1, BasicAck.INDEX, tag, False, False) for tag in range(1, 6)],
        (1, BasicAck.INDEX, 9, True, False),
        (1, BasicNack.INDEX, 10, True, False),
        (1, BasicReject.INDEX, 11, False, True),
        (2, BasicReject.INDEX, 12, False, False),
    ]


def test_cut_in_two_at_any_byte_it_is_the_same() -> None:
    whole = decoded()
    for at in range(len(SESSION) + 1):
        decoder = fresh()
        assert single(events(decoder, SESSION[:at], SESSION[at:])) == whole, at
        assert decoder.kept == 0


def test_byte_by_byte_it_is_the_same_and_no_more_is_kept_than_came() -> None:
    decoder = fresh()
    found = []
    for at in range(len(SESSION)):
        found += single(events(decoder, SESSION[at : at + 1]))
        assert decoder.kept <= at + 1
        assert decoder.whole == 0 or decoder.whole > decoder.kept
    assert found == decoded()
    assert decoder.kept == decoder.whole == 0


@settings(max_examples=tried(200))
@given(st.lists(st.integers(0, len(SESSION)), max_size=30))
def test_however_it_is_cut_it_is_the_same(cuts: list[int]) -> None:
    parts = [SESSION[begin:end] for begin, end in pairwise(sorted({0, len(SESSION), *cuts}))]
    assert single(events(fresh(), *parts)) == decoded()
    decoder = fresh()
    for part in parts:
        decoder.receive(part)  # more comes before what waits was looked at
    assert single(events(decoder, b"")) == decoded()


MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "ü" * 100]),
        st.binary(max_size=40),
        st.sampled_from([None, PERSISTENT, BASIC.Properties(message_id="m", headers={"a": 1})]),
        st.integers(1, 2),
        st.integers(1, 30),
    ),
    max_size=12,
)


@settings(max_examples=tried(300))
@given(MESSAGES, st.lists(st.integers(0, 3000), max_size=6))
def test_messages_are_those_that_pamqp_wrote_whatever_they_have_in_common(messages: list[Any], cuts: list[int]) -> None:
    stream = b"".join(
        published(data, key, properties=properties, channel=channel, most=most)
        for key, data, properties, channel, most in messages
    )
    parts = [
        stream[begin:end] for begin, end in pairwise(sorted({0, len(stream), *(min(c, len(stream)) for c in cuts)}))
    ]
    found = single(events(opened(1, 2), *parts))
    assert [(each[2].routing_key, each[-1], each[1]) for each in found] == [
        (key, data, channel) for key, data, _, channel, _ in messages
    ]
    for each, (_, _, properties, _, _) in zip(found, messages, strict=True):
        assert each[3] == (properties or BASIC.Properties()).marshal()


def test_of_messages_that_begin_alike_a_wrong_byte_is_found_as_if_each_came_by_itself() -> None:
    one = published(b"four", properties=PERSISTENT)
    stream = one * 5

    def outcome(*parts: bytes) -> tuple[list[Any], str | None]:
        decoder, found = opened(), []
        try:
            for part in parts:
                decoder.receive(part)
                while (event := decoder.next_event()) is not None:
                    found += single([event])
        except AmqpError as error:
            return found, str(error)
        return found, None

    whole = outcome(stream)
    assert len(whole[0]) == 5
    for at in range(len(one), len(stream)):
        wrong = stream[:at] + bytes((stream[at] ^ 1,)) + stream[at + 1 :]
        each = [wrong[begin : begin + len(one)] for begin in range(0, len(wrong), len(one))]
        assert outcome(wrong) == outcome(*each), at


def test_messages_that_came_together_are_one_event_and_share_their_method() -> None:
    (event,) = events(opened(), published(b"a") + published(b"bc", properties=PERSISTENT) + published(b"d"))
    assert isinstance(event, Published)
    assert event.bodies == [b"a", b"bc", b"d"]
    assert event.methods[0] is event.methods[1] is event.methods[2]
    assert event.size == 4 + sum(map(len, event.properties))


def test_a_group_has_its_limits() -> None:
    found = events(opened(), published(b"x") * (MAX_GROUP_MESSAGES + 1))
    assert [len(event.methods) for event in found if isinstance(event, Published)] == [MAX_GROUP_MESSAGES, 1]
    half = bytes(MAX_GROUP_BYTES // 4)
    found = events(opened(), published(half) * 6)
    assert [len(event.methods) for event in found if isinstance(event, Published)] == [4, 2]
    found = events(opened(), published(b"x", properties=BASIC.Properties(headers={"a": half.decode()})) * 6)
    assert [len(event.methods) for event in found if isinstance(event, Published)] == [4, 2]
    found = events(opened(), marshalled(BASIC.Ack(1)) * (MAX_GROUP_TAGS + 1))
    assert [len(event.tags) for event in found if isinstance(event, Settled)] == [MAX_GROUP_TAGS, 1]


def test_acknowledgements_are_grouped_while_they_differ_in_their_tags_alone() -> None:
    stream = b"".join(
        marshalled(each, channel)
        for each, channel in [
            (BASIC.Ack(3), 1),
            (BASIC.Ack(2), 1),
            (BASIC.Ack(2**63 - 1), 1),
            (BASIC.Ack(4), 2),
            (BASIC.Ack(7, True), 1),
            (BASIC.Ack(0, True), 1),
            (BASIC.Nack(8, False, True), 1),
            (BASIC.Nack(9, False, False), 1),
        ]
    )
    assert events(opened(1, 2), stream) == [
        Settled(1, BasicAck.INDEX, [3, 2, 2**63 - 1], False, False),
        Settled(2, BasicAck.INDEX, [4], False, False),
        Settled(1, BasicAck.INDEX, [7, 0], True, False),
        Settled(1, BasicNack.INDEX, [8], False, True),
        Settled(1, BasicNack.INDEX, [9], False, False),
    ]


def test_the_last_of_a_row_of_acknowledgements_has_to_end_too() -> None:
    wrong = marshalled(BASIC.Ack(1)) * 2 + marshalled(BASIC.Ack(5))[:-1] + b"\x00"
    decoder = opened()
    decoder.receive(wrong)
    assert decoder.next_event() == Settled(1, BasicAck.INDEX, [1, 1], False, False)
    with pytest.raises(AmqpError, match="invalid_frame_end_marker,0"):
        decoder.next_event()


@given(methods_of(BasicPublish), st.binary(max_size=3), st.integers(0, 600))
def test_a_publish_read_by_hand_is_the_same_or_the_same_error(method: Method, more: bytes, cut: int) -> None:
    payload = (encode_method(method) + more)[: 4 + cut]
    assert outcome(decode_publish, payload) == outcome(decode_method, payload)


def outcome(decode: Any, payload: bytes) -> Any:
    try:
        return decode(payload)
    except AmqpError as error:
        return error.reply_code, error.explanation, error.index


def test_many_keys_are_no_more_than_the_limit_in_memory_and_each_is_right() -> None:
    keys = [f"key-{at}" for at in range(1000)] * 2
    decoder = opened()
    found = single(events(decoder, b"".join(published(b"x", key) for key in keys)))
    assert [each[2].routing_key for each in found] == keys
    assert len(decoder.publishing._known) <= MAX_KNOWN


def test_an_equal_method_is_the_same_object_and_one_with_a_secret_is_not_kept() -> None:
    decoder = opened()
    poll = marshalled(BASIC.Get(queue="q"))
    first, second = events(decoder, poll, poll)
    assert first == second
    assert first.method is second.method  # type: ignore[union-attr]
    secret = marshalled(commands.Connection.UpdateSecret(new_secret="s", reason=""), 0)
    first, second = events(decoder, secret, secret)
    assert first == second
    assert first.method is not second.method  # type: ignore[union-attr]


def refusal(decoder: FrameDecoder, data: bytes) -> AmqpError:
    """The error that these bytes end with."""
    with pytest.raises(AmqpError) as raised:
        events(decoder, data)
    assert decoder.kept == 0
    assert decoder.waiting
    with pytest.raises(AmqpError) as again:
        decoder.next_event()
    assert again.value is raised.value
    return raised.value


ACK = marshalled(BASIC.Ack(1))
DECLARE = marshalled(QUEUE.Declare(queue="q"))


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        (raw_frame(4, 1, b"abc"), 501, 'type 4, all octets = <<"abc">>: unknown_frame'),
        (raw_frame(0, 0, b"\x01\x02"), 501, "type 0, all octets = <<1,2>>: unknown_frame"),
        (raw_frame(255, 1, bytes(20)), 501, f"type 255, first 16 octets = <<{','.join('0' * 16)}>>: unknown_frame"),
        (raw_frame(1, 1, b"\0\0\0"), 501, "type 1, all octets = <<0,0,0>>: unknown_frame"),
        (raw_frame(2, 1, bytes(11)), 501, f"type 2, all octets = <<{','.join('0' * 11)}>>: unknown_frame"),
        (raw_frame(8, 0, b"x"), 501, 'type 8, all octets = <<"x">>: unknown_frame'),
        (raw_frame(8, 1, b""), 505, "type 8, all octets = <<>>"),
        (raw_frame(3, 0, b"x"), 505, 'type 3, all octets = <<"x">>'),
        (raw_frame(1, 1, bytes(4), b"\xcd"), 501, "type 1, all octets = <<0,0,0,0>>: {invalid_frame_end_marker,205}"),
        (ACK[:-1] + b"\0", 501, "type 1, all octets = <<0,60,0,80,0,0,0,0,0,0,0,1,0>>: {invalid_frame_end_marker,0}"),
        (PUBLISH[:-1] + b"\1", 501, "invalid_frame_end_marker,1"),
        (b"\x01\x00\x01\x00\x02\x00\x01", 501, "type 1, all octets = <<>>: {frame_too_large,131073,131064}"),
        (b"\x03\x00\x01\xff\xff\xff\xff", 501, "type 3, all octets = <<>>: {frame_too_large,4294967295,131064}"),
        (raw_frame(3, 1, b"x"), 505, "expected method frame, got non method frame instead"),
        (raw_frame(3, 7, b"x"), 505, "expected method frame, got non method frame instead"),
        (content(b"x"), 505, "expected method frame, got non method frame instead"),
        (PUBLISH + ACK, 505, "expected content header for class 60, got non content header frame instead"),
        (PUBLISH + PUBLISH, 505, "expected content header for class 60, got non content header frame instead"),
        (PUBLISH + raw_frame(3, 1, b"x"), 505, "expected content header for class 60, got non content header frame instead"),
        (PUBLISH + raw_frame(2, 1, b"\0\x32" + bytes(12)), 505, "expected content header for class 60, got one for class 50 instead"),
        (PUBLISH + raw_frame(2, 1, b"\0\x3c\0\1" + bytes(10)), 505, "expected content header for class 60, got non content header"),
        (PUBLISH + content(b"xy")[:22] + DECLARE, 505, "expected content body, got non content body frame instead"),
        (PUBLISH + content(b"xy")[:22] * 2, 505, "expected content body, got non content body frame instead"),
        (PUBLISH + content(b"xy")[:22] + raw_frame(3, 1, b"xyz"), 501, "content body frame exceeds remaining content size"),
        (PUBLISH + content(b"xy")[:22] + raw_frame(3, 1, b"x") + raw_frame(3, 1, b"yz"), 501, "content body frame exceeds"),
        (PUBLISH + raw_frame(2, 1, b"\0\x3c\0\0" + bytes(7) + b"\1\x80\0"), 502, "properties end before all"),
        (PUBLISH + raw_frame(2, 1, b"\0\x3c\0\0" + bytes(7) + b"\1\x80\0") + raw_frame(3, 1, b"x"), 502, "properties end before"),
        (PUBLISH + raw_frame(2, 1, b"\0\x3c\0\0" + bytes(8)), 502, "properties end before all"),
        (PUBLISH + raw_frame(2, 1, b"\0\x3c\0\0" + bytes(7)) + raw_frame(3, 1, bytes(206)), 501, "type 2, all octets = <<0,60,0,0"),
        (PUBLISH + content(b"x")[:21] + b"\0" + raw_frame(3, 1, b"x"), 501, "invalid_frame_end_marker,0"),
        (PUBLISH + content(b"x")[:22] + raw_frame(2, 1, b"x"), 501, 'type 2, all octets = <<"x">>: unknown_frame'),
        (PUBLISH + content(b"x")[:22] + raw_frame(3, 6, b"x"), 505, "expected method frame, got non method frame instead"),
        (published(b"good", properties=PERSISTENT)[:-1] + b"\0", 501, "invalid_frame_end_marker,0"),
        (published(b"good")[:-1] + b"\0", 501, "invalid_frame_end_marker,0"),
        (raw_frame(1, 1, b"\0\x3c\0\x28\0\0\0\1\xff\0"), 501, "Malformed UTF-8 in shortstr"),
        (raw_frame(1, 1, b"\0\x3c\0\x28\0\0\0\1"), 501, "cannot decode <<0,0,0,1>>"),
        (raw_frame(1, 1, b"\0\x3c\x0f\xff"), 503, "unimplemented method 60.4095"),
        (marshalled(BASIC.Deliver("t", 1, False, "", "q")), 503, "unimplemented method"),
        (marshalled(BASIC.GetOk(1, False, "", "q", 1)), 503, "unimplemented method"),
        (raw_frame(1, 1, b"\0\x3c\0\x50" + bytes(8)), 501, "cannot decode <<0,0,0,0,0,0,0,0>>"),
        (raw_frame(1, 1, b"\0\x3c\0\x50" + bytes(10)), 501, "cannot decode"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_rabbitmqs_code_and_text(data: bytes, code: int, text: str) -> None:
    # Behind a message that is good; the last of what is good is given first.
    for before in (b"", published(b"good"), ACK, published(b"good", properties=PERSISTENT) * 2):
        error = refusal(opened(), before + data)
        assert (error.reply_code, error.closes_connection) == (code, True)
        assert error.explanation.startswith(text) or text in error.explanation.partition(":")[2] + error.explanation
        decoder = opened()
        decoder.receive(before + data)
        assert not before or decoder.next_event() is not None


def test_an_error_of_a_content_names_publish_and_its_channel() -> None:
    error = refusal(opened(5), marshalled(BASIC.Publish(), 5) + marshalled(BASIC.Publish(), 5))
    assert (error.class_id, error.method_id, error.channel) == (60, 40, 5)


def test_a_frame_may_be_as_large_as_the_limit_and_eight_bytes_more_and_no_larger() -> None:
    decoder = opened()
    assert bodies(events(decoder, published(bytes(FRAME_MAX), most=FRAME_MAX))) == [bytes(FRAME_MAX)]
    assert refusal(decoder, published(bytes(FRAME_MAX + 1), most=FRAME_MAX + 1)).reply_code == ReplyCode.FRAME_ERROR


def test_before_a_limit_is_agreed_on_it_is_the_least() -> None:
    decoder = fresh()
    assert len(events(decoder, PROTOCOL_HEADER + raw_frame(8, 0, b""))) == 2
    assert (
        "frame_too_large,8193,8184"
        in refusal(decoder, b"\x01\0\0" + (MIN_FRAME_MAX + 1).to_bytes(4, "big")).explanation
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"GET / HTTP/1.1\r\n", "an HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
        (b"SSH-", "another protocol"),
        (b"AMQQ", "another protocol"),
        (b"AMQP\x00\x01\x00\x00", "AMQP version 0-1-0-0 is not 0-9-1"),
        (b"AMQP\x03\x01\x00\x00", "AMQP version 3-1-0-0 is not 0-9-1"),
        (b"AMQP\x00\x00\x08\x00", "AMQP version 0-0-8-0 is not 0-9-1"),
    ],
)
def test_another_protocol_is_refused_as_soon_as_it_can_be_told(data: bytes, text: str) -> None:
    for parts in ([data], [data[at : at + 1] for at in range(len(data))]):
        decoder = fresh()
        with pytest.raises(WrongProtocolError, match=text if len(parts) == 1 else "not"):
            events(decoder, *parts)


def test_amqp_0_9_is_spoken_to_as_0_9_1() -> None:
    assert events(fresh(), b"AMQP\x01\x01\x00\x09") == [ProtocolHeader((0, 9, 0))]


def test_on_a_channel_that_is_not_open_nothing_is_put_together() -> None:
    decoder = opened(1)
    (found,) = events(decoder, marshalled(BASIC.Publish(), 9))
    assert isinstance(found, MethodReceived)
    assert type(found.method) is BasicPublish
    assert events(decoder, marshalled(BASIC.Ack(4), 9)) == [MethodReceived(9, BasicAck(delivery_tag=4))]
    decoder.discard_all()
    assert events(decoder, content(b"x", channel=9)) == []


def test_a_channel_that_was_told_to_close_is_passed_over_until_it_says_so() -> None:
    decoder = opened(1, 2)
    assert events(decoder, PUBLISH + content(b"xyz")[:22]) == []
    assert decoder.kept > 0
    decoder.discard_channel(1)
    assert decoder.kept == decoder.whole == 0
    passed = (
        raw_frame(3, 1, b"xyz")
        + published(b"x")
        + ACK
        + DECLARE
        + raw_frame(2, 1, b"\xff" * 12)
        + raw_frame(1, 1, b"\xff" * 6)
    )
    assert events(decoder, passed) == []
    assert bodies(events(decoder, published(b"y", channel=2))) == [b"y"]
    close, close_ok = marshalled(CHANNEL.Close(200, "", 0, 0)), marshalled(CHANNEL.CloseOk())
    assert [type(each.method) for each in events(decoder, close + passed + close_ok)] == [ChannelClose, ChannelCloseOk]  # type: ignore[union-attr]
    (found,) = events(decoder, DECLARE)
    assert found == MethodReceived(1, QueueDeclare(queue="q"))
    assert bodies(events(decoder, marshalled(CHANNEL.Open()) + published(b"z"))) == [b"z"]


def test_what_was_looked_at_beforehand_is_passed_over_too() -> None:
    decoder = opened(1, 2)
    decoder.receive(published(b"1") + published(b"2", channel=2) + marshalled(CHANNEL.Close(200, "", 0, 0)))
    assert decoder.waiting
    decoder.discard_channel(1)
    assert bodies([decoder.next_event()]) == [b"2"]  # type: ignore[list-item]
    assert decoder.waiting
    decoder.discard_channel(1)
    assert isinstance(decoder.next_event(), MethodReceived)


def test_a_connection_that_was_told_to_close_is_passed_over_but_for_its_last_words() -> None:
    decoder = opened(1)
    decoder.receive(DECLARE + published(b"x"))
    assert decoder.waiting
    decoder.discard_all()
    close = marshalled(commands.Connection.Close(200, "", 0, 0), 0)
    close_ok = marshalled(commands.Connection.CloseOk(), 0)
    names = [each.method.NAME for each in events(decoder, published(b"y") + ACK + close + DECLARE + close_ok)]  # type: ignore[union-attr]
    assert names == ["connection.close", "connection.close-ok"]


def test_a_heartbeat_is_heard_between_the_frames_of_a_content() -> None:
    beat = frame.marshal(heartbeat.Heartbeat(), 0)
    found = events(opened(), PUBLISH + beat + content(b"x")[:22] + beat + content(b"x")[22:])
    assert [type(each) for each in found] == [Heartbeat, Heartbeat, Published]


def test_an_empty_body_frame_is_passed_over() -> None:
    empty, one, other = (raw_frame(3, 1, data) for data in (b"", b"x", b"y"))
    assert bodies(events(opened(), PUBLISH + content(b"xy")[:22] + empty + one + empty + other)) == [b"xy"]


def test_a_second_open_lets_go_of_what_has_begun() -> None:
    decoder = opened()
    (found,) = events(decoder, marshalled(CHANNEL.Open()))
    assert found == MethodReceived(1, ChannelOpen(out_of_band="0"))


def test_pamqp_says_the_same_of_a_session() -> None:
    data, count = SESSION, 0
    while data:
        size, _, _ = frame.unmarshal(data)
        data, count = data[size:], count + 1
    assert count > len(decoded())
