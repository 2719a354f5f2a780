"""Both ports of the simple message queue, byte by byte."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.errors import FrameTooLargeError, RemoteProtocolError
from transport.gateways.smq.protocol import (
    MAX_PAYLOAD_BYTES,
    SinkMessage,
    SinkProtocol,
    SourceEnd,
    SourceMessage,
    SourceProtocol,
    Yes,
)

ID = bytes(range(16))
MESSAGES = st.lists(
    st.builds(SourceMessage, st.none() | st.binary(min_size=16, max_size=16), st.binary(max_size=50)), max_size=8
)


def said(message: SourceMessage) -> bytes:
    kind = b"M" if message.id is None else b"I" + message.id
    return kind + len(message.payload).to_bytes(4, "big") + message.payload


def events(protocol: Any) -> list[Any]:
    """All that it has, asked as its shell asks."""
    found = []
    while protocol.waiting:
        found.append(protocol.next_event(1))
    assert protocol.next_event(1) is None
    return found


@given(MESSAGES, st.lists(st.integers(0, 400), max_size=20), st.booleans())
def test_however_it_is_cut_a_source_has_said_the_same(
    messages: list[SourceMessage], cuts: list[int], ends: bool
) -> None:
    stream = b"".join(map(said, messages)) + (b"E and more" if ends else b"")
    protocol = SourceProtocol()
    found = []
    for begin, end in pairwise(sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})):
        protocol.receive_data(memoryview(stream[begin:end]))
        found += events(protocol)
        if found and found[-1] == SourceEnd():
            break
    assert found == [*messages, *([SourceEnd()] if ends else [])]
    assert protocol.kept == 0


@pytest.mark.parametrize("first", [b"\x00", b"Y", b"\x80", b"\xff", b"m"])
def test_an_unknown_byte_ends_the_connection(first: bytes) -> None:
    protocol = SourceProtocol()
    protocol.receive_data(memoryview(first))
    assert protocol.waiting
    with pytest.raises(RemoteProtocolError, match=f"{first[0]:#04x}"):
        protocol.read()


@pytest.mark.parametrize("head", [b"M", b"I" + ID])
def test_a_length_that_cannot_be_is_refused_before_its_payload_comes(head: bytes) -> None:
    for length, error in (
        (-1, RemoteProtocolError),
        (-(1 << 31), RemoteProtocolError),
        (MAX_PAYLOAD_BYTES + 1, FrameTooLargeError),
    ):
        protocol = SourceProtocol()
        protocol.receive_data(memoryview(head + length.to_bytes(4, "big", signed=True)))
        with pytest.raises(error):
            protocol.read()


def test_a_message_that_is_not_whole_waits_and_counts_as_kept() -> None:
    protocol = SourceProtocol()
    protocol.receive_data(memoryview(said(SourceMessage(ID, b"payload"))[:-1]))
    assert not protocol.waiting
    assert protocol.next_event(1) is None
    assert protocol.kept == 1 + 16 + 4 + 6


def test_the_largest_message_is_taken_and_its_turn_pays_for_its_bytes() -> None:
    protocol = SourceProtocol()
    protocol.receive_data(memoryview(said(SourceMessage(None, bytes(MAX_PAYLOAD_BYTES)))))
    (event,) = events(protocol)
    assert len(event.payload) == MAX_PAYLOAD_BYTES
    assert protocol.work == protocol.due > 100


def test_the_broker_says_a_byte_for_each_message_of_a_source() -> None:
    assert b"".join(SourceProtocol().send(Yes(3))) == b"YYY"


def test_a_sinks_messages_are_as_the_original_writes_them() -> None:
    protocol = SinkProtocol()
    assert b"".join(protocol.send(SinkMessage(ID, b"abc", replayed=False))) == b"M" + ID + b"\0\0\0\3abc"
    assert b"".join(protocol.send(SinkMessage(ID, b"", replayed=True))) == b"R" + ID + b"\0\0\0\0"
    assert all(protocol.send(SinkMessage(ID, b"", replayed=True))), "no part is empty"


@given(st.lists(st.binary(max_size=6).map(lambda said: said.replace(b"n", b"Y") or b"Y"), max_size=6))
def test_a_sink_has_accepted_as_many_as_it_said_before_its_first_wrong_byte(parts: list[bytes]) -> None:
    protocol = SinkProtocol()
    accepted, refused = 0, False
    for part in parts:
        protocol.receive_data(memoryview(part))
        while protocol.waiting and not refused:
            try:
                event = protocol.read()
            except RemoteProtocolError:
                refused = True
            else:
                assert event is not None
                accepted += event.count
    stream = b"".join(parts)
    good = len(stream) - len(stream.lstrip(b"Y"))
    assert accepted == good
    assert refused == (good < len(stream))
    assert protocol.kept == 0
