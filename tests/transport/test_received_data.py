"""How much is received at a time of protocols that keep what they were given (`DataReceiver`)."""

from __future__ import annotations

import pytest

from tests.transport.gateways.amqp.raw_amqp import HANDSHAKE, methods, published
from transport.errors import TransportError
from transport.gateways.amqp import connection_methods
from transport.gateways.amqp.events import Published
from transport.gateways.amqp.protocol import AmqpProtocol
from transport.gateways.smq.protocol import SinkProtocol
from transport.shell.partial_frames import PartialFrames, PartialRoom
from transport.wire.frames import FIRST_PARTIAL_BYTES
from transport.wire.receiving import AMPLE, SHARED_BUFFER_BYTES, Room

SMALL = published("q", bytes(100))
FRAME_BYTES = 131_072


class Scarce(Room):
    line = (None,)


class Owner:
    bytes_in = 0

    def room_found(self) -> None: ...

    def waited(self) -> float:
        return 0.0

    def too_slow(self) -> None: ...


def opened(room: Room) -> AmqpProtocol:
    protocol = AmqpProtocol()
    protocol.receiver.keep_in(room)
    protocol.opened(FRAME_BYTES, 0)
    begun = HANDSHAKE + methods(1, connection_methods.ChannelOpen())
    assert receives(protocol, begun) == ([len(begun)], 0)
    return protocol


def receives(protocol: AmqpProtocol, stream: bytes) -> tuple[list[int], int]:
    """What a socket in which all of the stream waits gives, receive by receive, and the messages in it."""
    receiver, sizes, messages = protocol.receiver, [], 0
    while stream:
        buffer = receiver.get_buffer()
        size = min(len(buffer), len(stream))
        buffer[:size], stream = stream[:size], stream[size:]
        sizes.append(size)
        receiver.received(size)
        while (event := protocol.next_event(1)) is not None:
            messages += len(event.bodies) if isinstance(event, Published) else 0
        receiver.handled()
    return sizes, messages


@pytest.mark.parametrize("at", range(1, len(SMALL), 7))
def test_behind_a_little_message_that_came_in_part_many_are_received_at_once(at: int) -> None:
    protocol = opened(PartialRoom(PartialFrames(), Owner()))
    assert receives(protocol, SMALL[:at]) == ([at], 0)
    rest = SMALL[at:] + SMALL * 9_999
    sizes, messages = receives(protocol, rest)
    assert messages == 10_000
    assert len(sizes) <= len(rest) // FIRST_PARTIAL_BYTES + 2


def test_where_memory_is_scarce_no_more_than_a_message_is_received_within_one() -> None:
    protocol = opened(Scarce())
    receives(protocol, SMALL[:-50])
    sizes, messages = receives(protocol, SMALL[-50:] + SMALL)
    assert sizes[0] <= len(SMALL)
    assert messages == 2


def test_what_is_kept_beyond_a_receive_is_counted_whatever_came_with_it() -> None:
    everybody = PartialFrames()
    protocol = opened(PartialRoom(everybody, Owner()))
    receives(protocol, SMALL[:60])
    assert 60 <= everybody.bytes <= len(SMALL)
    receives(protocol, SMALL[60:] + SMALL[:70])
    assert 70 <= everybody.bytes <= len(SMALL)
    receives(protocol, SMALL[70:])
    assert everybody.bytes == 0


@pytest.mark.parametrize(
    ("protocol", "stream"),
    [(opened(AMPLE), SMALL * 2 + published("q", properties=b"\x80\0")), (SinkProtocol(), b"YYX")],
    ids=["properties", "sink"],
)
def test_an_error_behind_what_is_given_is_raised_though_nothing_more_comes(
    protocol: AmqpProtocol | SinkProtocol, stream: bytes
) -> None:
    receiver = protocol.receiver
    receiver.get_buffer()[: len(stream)] = stream
    receiver.received(len(stream))
    assert protocol.next_event(1) is not None
    assert not receiver.idle
    with pytest.raises(TransportError):
        protocol.next_event(1)


def test_of_a_large_message_nothing_behind_it_is_received_until_little_of_it_is_left() -> None:
    protocol = opened(AMPLE)
    large = published("q", bytes(FRAME_BYTES - 8))
    sizes, messages = receives(protocol, large + SMALL * 10)
    assert messages == 11
    assert sizes == [len(large) + len(SMALL) * 10]
    head = large[:100]
    assert receives(protocol, head) == ([100], 0)
    sizes, messages = receives(protocol, large[100:] + SMALL * 10_000)
    assert messages == 10_001
    assert all(FIRST_PARTIAL_BYTES <= size <= SHARED_BUFFER_BYTES for size in sizes[:-1])
