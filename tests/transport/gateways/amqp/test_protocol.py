"""`transport.gateways.amqp.protocol`: last words, heartbeats and units of work, as the shell of a connection asks for them."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands

from tests.transport.gateways.amqp.amqp_frames import published
from tests.transport.gateways.amqp.amqp_values import marshalled
from transport.errors import TransportError
from transport.gateways.amqp.basic_methods import BasicPublish
from transport.gateways.amqp.connection_methods import ChannelOpen, ConnectionClose
from transport.gateways.amqp.errors import MOST_TEXT_BYTES, AmqpError
from transport.gateways.amqp.events import Published, Settled
from transport.gateways.amqp.layout import PROTOCOL_HEADER
from transport.gateways.amqp.method_codec import decode_method
from transport.gateways.amqp.protocol import (
    A_PUBLISH,
    AN_ANSWER,
    MESSAGES_A_UNIT,
    SIGNS_A_TIMEOUT,
    AmqpProtocol,
    Said,
    Written,
)
from transport.gateways.amqp.publishing import MAX_GROUP_MESSAGES
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.writing import HEARTBEAT
from transport.wire.carried import ANSWERED


def spoken(*received: bytes) -> AmqpProtocol:
    """One that has had the protocol header, a channel, and this."""
    protocol = AmqpProtocol()
    protocol.receive_data(memoryview(PROTOCOL_HEADER + marshalled(commands.Channel.Open(), 1)))
    assert protocol.read() is not None
    assert protocol.read() is not None
    protocol.opened(131_072, 60)
    for data in received:
        protocol.receive_data(memoryview(data))
    return protocol


def told(protocol: AmqpProtocol, code: str, text: str) -> ConnectionClose:
    (frame,) = protocol.last_words(code, text)
    method = decode_method(bytes(frame)[7:-1])
    assert isinstance(method, ConnectionClose)
    return method


def failed(protocol: AmqpProtocol) -> AmqpError:
    with pytest.raises(AmqpError) as caught:
        list(iter(protocol.read, None))
    return caught.value


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"AMQP\0\0\x09\x02", b"AMQP\x00\x01\0\0"]
)
def test_who_speaks_something_else_is_told_what_is_spoken_here(first: bytes) -> None:
    protocol = AmqpProtocol()
    protocol.receive_data(memoryview(first))
    error = failed(protocol)
    assert protocol.last_words(error.code, str(error)) == [PROTOCOL_HEADER]


def test_an_error_of_amqp_is_told_with_its_code_and_the_method_that_it_is_about() -> None:
    protocol = AmqpProtocol()
    protocol.error = AmqpError(ReplyCode.NOT_ALLOWED, "no", BasicPublish.INDEX, 3)
    said = told(protocol, protocol.error.code, str(protocol.error))
    assert (said.reply_code, said.reply_text, said.class_id, said.method_id) == (530, "NOT_ALLOWED - no", 60, 40)


@pytest.mark.parametrize(
    ("code", "reply"),
    [
        ("shutting-down", 320),
        ("timeout", 320),
        ("limit-exceeded", 506),
        ("forbidden", 403),
        ("protocol-error", 502),
        ("frame-too-large", 501),
        ("internal-error", 541),
        ("what nobody knows", 541),
    ],
)
def test_an_error_of_the_brokers_has_a_code_of_amqp(code: str, reply: int) -> None:
    protocol = spoken()
    # One of before that ended nothing is not told in its place.
    protocol.error = AmqpError(ReplyCode.NOT_ALLOWED, "no")
    said = told(protocol, code, "why")
    assert (said.reply_code, said.reply_text) == (reply, f"{ReplyCode(reply).name} - why")


def test_a_text_that_is_too_long_is_cut() -> None:
    text = told(spoken(), "internal-error", "é" * 500).reply_text
    assert len(text.encode()) <= MOST_TEXT_BYTES
    assert text.endswith("é...")


def test_a_frame_that_is_none_is_told_once_and_nothing_is_read_behind_it() -> None:
    protocol = spoken(b"\x09\0\0\0\0\0\0\xce")
    error = failed(protocol)
    assert told(protocol, error.code, str(error)).reply_code == 501
    protocol.receive_data(memoryview(HEARTBEAT))
    assert failed(protocol) is error


def test_a_heartbeat_is_answered_by_nothing_and_a_ping_is_one() -> None:
    protocol = spoken(HEARTBEAT)
    assert protocol.read() is ANSWERED
    assert list(protocol.answer()) == []
    assert list(protocol.ping()) == [HEARTBEAT]


@pytest.mark.parametrize("seconds", [1, 60, 65_535])
def test_a_peer_is_given_up_after_two_of_its_heartbeats(seconds: int) -> None:
    protocol = AmqpProtocol()
    assert not protocol.is_open
    protocol.opened(131_072, seconds)
    assert protocol.is_open
    assert protocol.heartbeat is not None
    assert protocol.heartbeat * SIGNS_A_TIMEOUT == pytest.approx(2 * seconds)


def test_without_a_heartbeat_nobody_is_asked_for_signs_of_life() -> None:
    protocol = AmqpProtocol()
    protocol.opened(131_072, 0)
    assert protocol.heartbeat is None


@pytest.mark.parametrize("count", [1, MESSAGES_A_UNIT - 1, MESSAGES_A_UNIT, 100])
def test_work_grows_with_the_messages_of_an_event(count: int) -> None:
    protocol = spoken(published(b"x") * count)
    protocol.frames.publishing.most_messages = MAX_GROUP_MESSAGES
    event: Any = protocol.read()
    assert isinstance(event, Published)
    assert protocol.work == protocol.due == A_PUBLISH + count // MESSAGES_A_UNIT
    protocol = spoken(b"".join(marshalled(commands.Basic.Ack(tag), 1) for tag in range(1, count + 1)))
    event = protocol.read()
    assert isinstance(event, Settled)
    assert protocol.work == protocol.due == AN_ANSWER + count // MESSAGES_A_UNIT


def test_a_large_message_is_more_work_than_a_small_one() -> None:
    protocol = spoken(published(bytes(1 << 20)))
    assert isinstance(protocol.read(), Published)
    assert protocol.work > 1


def test_methods_and_frames_are_written() -> None:
    protocol = spoken()
    (frame,) = protocol.send(Said(7, ChannelOpen()))
    assert bytes(frame)[:3] == b"\x01\0\x07"
    assert protocol.send(Written([b"as", b"it is"])) == [b"as", b"it is"]


def test_what_is_half_there_counts_as_kept() -> None:
    data = published(bytes(1_000))
    protocol = spoken(data[:500])
    assert protocol.read() is None
    assert not protocol.waiting
    assert 0 < protocol.kept < protocol.whole
    assert issubclass(AmqpError, TransportError)
