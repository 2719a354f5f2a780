"""What is much for one connection is written in slices: in order, in whole frames, and no faster than its socket takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from transport.gateways.amqp.basic_methods import BasicGetOk
from transport.gateways.amqp.layout import EMPTY_FRAME_BYTES, FRAME_END, FRAME_HEAD
from transport.gateways.amqp.outgoing import SLICE_BYTES, TURN_SLICES, Outgoing
from transport.gateways.amqp.properties import NO_PROPERTIES
from transport.gateways.amqp.writing import HEARTBEAT, content_frames
from transport.wire.receiving import Part

FRAME_MAX = 131_072


def frames_in(data: bytes) -> int:
    """How many frames there are; they are whole."""
    at = count = 0
    while at < len(data):
        _, _, size = FRAME_HEAD.unpack_from(data, at)
        at += size + EMPTY_FRAME_BYTES
        count += 1
        assert data[at - 1] == FRAME_END
    assert at == len(data)
    return count


class Socket:
    """What takes slices, while it does."""

    def __init__(self, takes: int = 1 << 30) -> None:
        self.sent: list[bytes] = []
        self.takes = takes
        self.later: list[Callable[[], None]] = []
        self.changes: list[bool] = []
        self.outgoing = Outgoing(self.send, self.later.append, lambda: self.changes.append(self.outgoing.is_free))

    def send(self, parts: Sequence[Part]) -> None:
        self.sent.append(b"".join(parts))
        self.takes -= 1
        if not self.takes:
            self.outgoing.writable_changed(False)

    def turn(self) -> int:
        """One of the loop; returns how many slices were written in it."""
        before = len(self.sent)
        later, self.later = self.later[:], self.later
        self.later.clear()
        for each in later:
            each()
        return len(self.sent) - before


def delivery(size: int, fill: bytes = b"\xce") -> list[Part]:
    """A message whose bytes are those that end a frame."""
    method = BasicGetOk(delivery_tag=1, redelivered=False, exchange="", routing_key="q", message_count=0)
    return content_frames(1, method, NO_PROPERTIES, fill * size, FRAME_MAX)


def test_slices_are_whole_frames_and_few_in_a_turn_and_nothing_else_is_written_before_them() -> None:
    socket = Socket()
    parts = delivery(10 * SLICE_BYTES + 5)
    socket.outgoing.put(parts)
    assert socket.changes == [False]
    assert len(socket.sent) == TURN_SLICES
    socket.outgoing.put([HEARTBEAT])
    while socket.later:
        assert 0 < socket.turn() <= TURN_SLICES
    assert b"".join(socket.sent) == b"".join(parts) + HEARTBEAT
    assert all(len(each) <= SLICE_BYTES + FRAME_MAX for each in socket.sent)
    assert sum(map(frames_in, socket.sent)) == frames_in(b"".join(parts)) + 1
    assert socket.changes == [False, True]
    assert not socket.outgoing.waiting


def test_a_body_that_looks_like_the_end_of_a_frame_is_not_taken_for_it() -> None:
    socket = Socket()
    filling = HEARTBEAT * 400
    socket.outgoing.put([*delivery(SLICE_BYTES - 2_000), filling, *delivery(1), *delivery(1)])
    while socket.later:
        socket.turn()
    assert len(socket.sent) == 2
    assert [frames_in(each) > 0 for each in socket.sent] == [True, True]


def test_a_socket_that_takes_no_more_is_given_no_more_until_it_does() -> None:
    socket = Socket(takes=2)
    socket.outgoing.put(delivery(6 * SLICE_BYTES))
    assert (len(socket.sent), socket.later) == (2, [])
    assert not socket.outgoing.is_free
    socket.takes = 1
    socket.outgoing.writable_changed(True)
    socket.outgoing.writable_changed(True)
    assert len(socket.sent) == 2
    assert (socket.turn(), socket.later) == (1, [])


def test_an_end_lets_go_of_all_and_what_is_put_then_is_dropped() -> None:
    socket = Socket()
    socket.outgoing.put(delivery(10 * SLICE_BYTES))
    socket.outgoing.end()
    socket.outgoing.put(delivery(10))
    assert (socket.turn(), len(socket.outgoing.waiting)) == (0, 0)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(0, 5 * SLICE_BYTES)),
            st.tuples(st.sampled_from(("turn", "stops", "goes on")), st.just(0)),
        ),
        max_size=12,
    )
)
def test_whatever_the_socket_does_all_is_written_in_order(steps: list[tuple[str, int]]) -> None:
    socket, said = Socket(), b""
    for number, (what, size) in enumerate(steps):
        if what == "put":
            parts = delivery(size, bytes((number,)))
            said += b"".join(parts)
            socket.outgoing.put(parts)
        elif what == "turn":
            socket.turn()
        else:
            socket.outgoing.writable_changed(what == "goes on")
        assert said.startswith(b"".join(socket.sent))
    socket.outgoing.writable_changed(True)
    while socket.later:
        socket.turn()
    assert b"".join(socket.sent) == said
