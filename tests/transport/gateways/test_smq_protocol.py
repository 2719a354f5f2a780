"""Both ports of the simple message queue, byte by byte."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.errors import FrameTooLargeError, RemoteProtocolError
from transport.gateways.smq.protocol import (
    MAX_GROUP_MESSAGES,
    MAX_PAYLOAD_BYTES,
    SinkMessage,
    SinkProtocol,
    SourceMessages,
    SourceProtocol,
    Yes,
)
from transport.shell.turns import SHARE

ID = bytes(range(16))
Said = tuple[bytes | None, bytes]
MESSAGES = st.lists(st.tuples(st.none() | st.binary(min_size=16, max_size=16), st.binary(max_size=50)), max_size=8)
END = SourceMessages(())


def said(given_id: bytes | None, payload: bytes) -> bytes:
    kind = b"M" if given_id is None else b"I" + given_id
    return kind + len(payload).to_bytes(4, "big") + payload


def events(protocol: Any) -> list[Any]:
    """All that it has, asked as its shell asks."""
    found = []
    while protocol.waiting:
        found.append(protocol.next_event(1))
    assert protocol.next_event(1) is None
    return found


def single(groups: list[SourceMessages]) -> list[Said]:
    """The messages of groups, one by one."""
    found: list[Said] = []
    for group in groups:
        ids = (
            [None] * len(group.payloads)
            if group.ids is None
            else [group.ids[at : at + 16] for at in range(0, len(group.ids), 16)]
        )
        found += zip(ids, group.payloads, strict=True)
    return found


@given(MESSAGES, st.lists(st.integers(0, 400), max_size=20), st.booleans(), st.integers(1, 3), st.integers(1, 100))
def test_however_it_is_cut_and_grouped_a_source_has_said_the_same(
    messages: list[Said], cuts: list[int], ends: bool, most_messages: int, most_bytes: int
) -> None:
    stream = b"".join(said(*each) for each in messages) + (b"E and more" if ends else b"")
    protocol = SourceProtocol()
    protocol.most_messages, protocol.most_bytes = most_messages, most_bytes
    found = []
    for begin, end in pairwise(sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})):
        protocol.receive_data(memoryview(stream[begin:end]))
        found += events(protocol)
    assert found.count(END) == ends
    assert not ends or found.pop() == END
    assert single(found) == messages
    assert protocol.kept == 0
    for group in found:
        assert 1 <= len(group.payloads) <= most_messages
        assert len(b"".join(group.payloads[:-1])) < most_bytes


def test_what_is_said_behind_the_end_is_ignored() -> None:
    protocol = SourceProtocol()
    protocol.receive_data(memoryview(said(None, b"a") + b"E\x00"))
    assert events(protocol) == [SourceMessages((b"a",)), END]
    protocol.receive_data(memoryview(b"\x00\xff"))
    assert events(protocol) == []
    assert protocol.kept == 0


def test_messages_that_came_together_are_given_together_those_with_ids_apart() -> None:
    protocol = SourceProtocol()
    stream = said(None, b"a") + said(None, b"b") + said(ID, b"c") + said(ID, b"") + said(None, b"d")
    protocol.receive_data(memoryview(stream))
    assert events(protocol) == [
        SourceMessages((b"a", b"b")),
        SourceMessages((b"c", b""), ID + ID),
        SourceMessages((b"d",)),
    ]


def test_a_group_is_a_share_of_a_turn() -> None:
    protocol = SourceProtocol()
    protocol.receive_data(memoryview(said(None, b"") * (MAX_GROUP_MESSAGES + 1)))
    group = protocol.read()
    assert group is not None
    assert len(group.payloads) == MAX_GROUP_MESSAGES
    assert SHARE <= protocol.work <= SHARE + 2


def test_what_comes_before_a_length_that_cannot_be_is_given_first() -> None:
    protocol = SourceProtocol()
    protocol.receive_data(memoryview(said(None, b"a") + b"M\xff\xff\xff\xff"))
    assert protocol.read() == SourceMessages((b"a",))
    with pytest.raises(RemoteProtocolError, match="of -1 bytes"):
        protocol.read()


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
    protocol.receive_data(memoryview(said(ID, b"payload")[:-1]))
    assert not protocol.waiting
    assert protocol.next_event(1) is None
    assert protocol.kept == 1 + 16 + 4 + 6
    assert protocol.whole == 1 + 16 + 4 + 7


def test_the_largest_message_is_taken_and_its_turn_pays_for_its_bytes() -> None:
    protocol = SourceProtocol()
    protocol.receive_data(memoryview(said(None, bytes(MAX_PAYLOAD_BYTES))))
    (event,) = events(protocol)
    assert len(event.payloads[0]) == MAX_PAYLOAD_BYTES
    assert protocol.work == protocol.due > 100


def test_the_broker_says_a_byte_for_each_message_of_a_source() -> None:
    assert b"".join(SourceProtocol().send(Yes(3))) == b"YYY"


def test_a_sinks_messages_are_as_the_original_writes_them() -> None:
    protocol = SinkProtocol()
    assert b"".join(protocol.send(SinkMessage(ID, b"abc", replayed=False))) == b"M" + ID + b"\0\0\0\3abc"
    assert b"".join(protocol.send(SinkMessage(ID, b"", replayed=True))) == b"R" + ID + b"\0\0\0\0"
    assert all(protocol.send(SinkMessage(ID, b"", replayed=True))), "no part is empty"


@given(st.lists(st.binary(max_size=6), max_size=6), st.integers(1, 300))
def test_neither_port_raises_anything_but_its_errors_whatever_comes(parts: list[bytes], most: int) -> None:
    for protocol in (SourceProtocol(), SinkProtocol()):
        for part in parts:
            protocol.receive_data(memoryview(part * most))
            try:
                events(protocol)
            except RemoteProtocolError:
                break
            assert protocol.kept < protocol.whole or protocol.kept == 0


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
                accepted += event.accepted
    stream = b"".join(parts)
    good = len(stream) - len(stream.lstrip(b"Y"))
    assert accepted == good
    assert refused == (good < len(stream))
    assert protocol.kept == 0
