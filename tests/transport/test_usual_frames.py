"""The short way of the usual SEND and SENT says what the codec says: the same frame, or the same error, at the same cost."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors.batch import MessageBatch
from actors.errors import QueueError
from tests.decoding import FrameDecoder
from transport.errors import TransportError
from transport.wire.carried import ANY_SHARE
from transport.wire.codec import decode, encode
from transport.wire.cumulative import GrantedDemand
from transport.wire.frame_protocol import FrameProtocol
from transport.wire.frames import MAX_FRAME_BYTES, RawFrame, encode_frame
from transport.wire.messages import VERSION, Frame, Hello, Send, Sent, Welcome
from transport.wire.protocol import SENDING_ROLES, Protocol, Side
from transport.wire.work import paid_for, work_of

HELLO = Hello(VERSION, "sender", "q", "s", {})
GRANTED = 20, 5_000


def opened() -> FrameProtocol:
    """The broker's side of a sender that was granted something."""
    protocol = FrameProtocol(Protocol(Side.BROKER, SENDING_ROLES))
    feed(protocol, b"".join(encode(HELLO)))
    assert protocol.next_event(ANY_SHARE) == HELLO
    protocol.send(Welcome(VERSION, 1, {}))
    protocol.states.granted = GrantedDemand()
    protocol.states.granted.grow(*GRANTED)
    return protocol


def feed(protocol: FrameProtocol, data: bytes) -> None:
    while data:
        buffer = protocol.receiver.get_buffer()
        taken = min(len(buffer), len(data))
        buffer[:taken] = data[:taken]
        protocol.receiver.received(taken)
        data = data[taken:]


def outcome(call: Any) -> Any:
    try:
        return call()
    except (QueueError, TransportError) as error:
        return type(error), str(error)


def by_the_codec(raw: RawFrame) -> Any:
    """What comes of a frame without the short way: frame or error, work, what is due, demand used."""
    states = opened().states
    states.takes_sends = False
    frame = outcome(lambda: states.receive(raw))
    assert states.granted is not None
    return (
        frame,
        work_of(raw),
        max(1, work_of(raw) - paid_for(raw)),
        states.granted.used_messages,
        states.granted.used_bytes,
    )


def offsets_of(sizes: list[int], first: int = 0) -> bytes:
    ends = [first]
    for size in sizes:
        ends.append(ends[-1] + size)
    return b"".join(end.to_bytes(4, "little", signed=True) for end in ends)


numbers = st.one_of(st.integers(-3, 40), st.sampled_from([2**31, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)]))
items = st.one_of(numbers, st.none(), st.booleans(), st.just(b"x"), st.just("x"), st.just({}), st.floats(0, 10))


@st.composite
def frames(draw: Any) -> tuple[list[Any], bytes]:
    """Headers and bodies of SEND that are right, or wrong in a place or two."""
    sizes = draw(st.lists(st.integers(-2, 30), min_size=1, max_size=8))
    first = draw(st.sampled_from([0, 0, 0, 5, -1]))
    data = bytes(max(0, sum(sizes)))
    header = [Send.TYPE, draw(st.integers(0, 100)), None, len(sizes), len(data), False, None, None]
    body = offsets_of(sizes, first) + data
    for _ in range(draw(st.integers(0, 2))):
        header[draw(st.integers(1, 7))] = draw(items)
    if draw(st.booleans()):
        body = body[: draw(st.integers(0, len(body)))] + draw(st.binary(max_size=9))
    if draw(st.integers(0, 9)) == 0:
        header = header[: draw(st.integers(1, 8))] + draw(st.lists(items, max_size=2))
    return header, body


@given(frames())
@example(([Send.TYPE, 0, None, 10, -3, False, None, None], bytes(41)))
@example(([Send.TYPE, 0, None, 1, -8, False, None, None], b""))
@example(([Send.TYPE, 0, None, 2, -12, False, None, None], b""))
@example(([Send.TYPE, 0, None, 2, 3, False, None, None], offsets_of([5, -2]) + b"abc"))
def test_a_send_is_judged_as_the_codec_judges_it(frame: tuple[list[Any], bytes]) -> None:
    header, body = frame
    data = b"".join(bytes(part) for part in encode_frame(header, [body] if body else []))
    (raw,) = FrameDecoder(MAX_FRAME_BYTES).receive_data(data)
    wanted = by_the_codec(raw)
    protocol = opened()
    feed(protocol, data)
    found = outcome(lambda: protocol.next_event(ANY_SHARE))
    granted = protocol.states.granted
    assert granted is not None
    assert (found, protocol.work, protocol.due, granted.used_messages, granted.used_bytes) == wanted
    if isinstance(found, Send):
        assert found.batch.nbytes == len(body)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_one_that_is_too_much_for_a_share_is_given_again_and_uses_its_demand_once(sizes: list[int]) -> None:
    batch = MessageBatch.from_payloads([bytes(size) for size in sizes])
    protocol = opened()
    feed(protocol, b"".join(bytes(part) for part in encode(Send(7, None, batch))))
    assert protocol.next_event(0) is None
    assert protocol.receiver.waiting
    assert protocol.next_event(1) == Send(7, None, batch)
    assert protocol.states.granted is not None
    assert protocol.states.granted.used_messages == len(batch)


@pytest.mark.parametrize(
    "sent", [Sent(1, 0), Sent(2**63 - 1, None), Sent(5, 2**40), Sent(9, None, "the queue is full"), Sent(3, 2, "")]
)
def test_a_sent_is_written_as_the_codec_writes_it(sent: Sent) -> None:
    data = b"".join(bytes(part) for part in opened().send(sent))
    assert data == b"".join(bytes(part) for part in encode(sent))
    (raw,) = FrameDecoder(MAX_FRAME_BYTES).receive_data(data)
    frame: Frame = decode(raw)
    assert frame == sent
    assert msgpack.unpackb(data[6:])[0] == Sent.TYPE
