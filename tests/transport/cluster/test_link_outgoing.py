"""What is sent on a link: small messages are not held up by large ones, whatever the socket takes, and it is told when those have left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actors.replication import vocabulary as say
from actors.replication.limits import BEAT_SECONDS
from actors.replication.positions import Position
from transport.cluster import outgoing
from transport.cluster.frames import FRAME_BYTES, HEADER_BYTES, FrameReader, FrameWriter
from transport.cluster.link_codec import Encoded, LinkCodec
from transport.cluster.outgoing import HIGH_BYTES, MAX_UNSENT_BYTES, MOST_LATE_SECONDS, MOST_QUEUE_BYTES, Outgoing, Pace
from transport.cluster.records import Record
from transport.cluster.transfer_messages import GivenState
from transport.errors import UnreadError

CODEC = LinkCodec()
SEED = 3
FRAME = FRAME_BYTES + HEADER_BYTES


class Clock:
    """A loop, as far as time goes."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Any:
        timer = (when, call)
        self.timers.append(timer)
        clock = self

        class Handle:
            def cancel(self) -> None:
                if timer in clock.timers:
                    clock.timers.remove(timer)

        return Handle()

    def go(self, seconds: float) -> None:
        until = self.now + seconds
        while due := sorted(timer for timer in self.timers if timer[0] <= until):
            self.timers.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][1]()
        self.now = until


class Socket(asyncio.Transport):
    """A transport of which a test says how much leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = bytearray()
        self.left = bytearray()
        self.takes = 0
        self.out: Outgoing | None = None
        self._paused = False

    def writelines(self, parts: Any) -> None:
        for part in parts:
            self.waiting += part
        self.leave(self.takes)

    def leave(self, nbytes: int) -> None:
        """So much is taken."""
        taken = self.waiting[:nbytes]
        del self.waiting[: len(taken)]
        self.left += taken
        if self._paused and len(self.waiting) <= HIGH_BYTES // 4:
            self._paused = False
            assert self.out is not None
            self.out.resumed()

    def get_write_buffer_size(self) -> int:
        return len(self.waiting)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if len(self.waiting) > HIGH_BYTES and not self._paused:
            self._paused = True
            assert self.out is not None
            self.out.paused()

    def is_closing(self) -> bool:
        return False


class Sender:
    """The sending side of a link, and what came of it."""

    def __init__(self, rate: float = 1e12) -> None:
        self.clock = Clock()
        self.socket = Socket()
        self.errors: list[Exception] = []
        self.pace = Pace(rate)
        self.out = Outgoing(self.clock, self.socket, FrameWriter(SEED), self.pace, self.errors.append)  # type: ignore[arg-type]
        self.socket.out = self.out
        self._reader = FrameReader(SEED)

    def came(self) -> list[Any]:
        """What has left since."""
        data, self.socket.left = bytes(self.socket.left), bytearray()
        return [CODEC.decode(whole) for whole in self._reader.feed(data)]

    def drain(self) -> None:
        while self.socket.waiting or self.clock.timers:
            self.socket.leave(len(self.socket.waiting))
            self.clock.go(0.001)


def replicate(size: int, lsn: int = 10) -> Encoded:
    return CODEC.encode(say.Replicate(3, Position(3, lsn - 1), 0, 0.0, [Record(lsn, 3, 1, 0, (bytes(size),))]))


def state(size: int) -> Encoded:
    return CODEC.encode(GivenState(7, 0, bytes(size)))


BEAT = CODEC.encode(say.Replicate(3, Position(3, 9), 0, 0.0))
NEVER: Callable[[], None] = lambda: pytest.fail("told, and it was sent at once")  # noqa: E731


def lsns(messages: list[Any]) -> list[int | None]:
    return [each.records[0].lsn if each.records else None for each in messages]


def test_a_message_with_records_that_the_socket_takes_is_sent_at_once() -> None:
    sender = Sender()
    sender.socket.takes = 10**9
    assert sender.out.ship(replicate(1_000), NEVER)
    assert sender.out.ship(replicate(1_000_000, 11), NEVER)
    assert lsns(sender.came()) == [10, 11]


def test_a_large_message_is_sent_when_its_last_frame_was_handed_to_the_socket() -> None:
    sender = Sender()
    told: list[int] = []
    assert not sender.out.ship(replicate(1_000_000), lambda: told.append(len(sender.socket.waiting)))
    while not told:
        before = len(sender.socket.waiting)
        assert before <= MOST_QUEUE_BYTES
        sender.socket.leave(before)
    sender.drain()
    assert lsns(sender.came()) == [10]
    assert len(told) == 1


def test_a_sign_of_life_goes_between_the_frames_of_a_large_record() -> None:
    sender = Sender()
    sender.out.ship(replicate(1_000_000), lambda: None)
    waited = len(sender.socket.waiting)
    assert waited == FRAME
    sender.out.prompt(BEAT)
    sender.socket.leave(waited + HEADER_BYTES + BEAT.size)
    assert lsns(sender.came()) == [None]
    sender.drain()
    assert lsns(sender.came()) == [10]


def test_what_is_sent_when_a_large_message_has_left_comes_behind_it() -> None:
    sender = Sender()
    sender.out.ship(replicate(300_000), lambda: sender.out.prompt(BEAT))
    sender.drain()
    assert lsns(sender.came()) == [10, None]


def test_messages_with_records_keep_their_order() -> None:
    sender = Sender()
    told: list[int] = []
    for lsn in range(10, 10 + outgoing.MAX_SHIPMENTS):
        assert not sender.out.ship(replicate(300_000, lsn), lambda lsn=lsn: told.append(lsn)) or lsn > 10
    sender.drain()
    assert told == lsns(sender.came()) == [*range(10, 18)]


def test_what_is_shipped_from_within_is_sent_in_its_turn() -> None:
    sender = Sender()
    sent: list[bool] = []
    sender.out.ship(
        replicate(300_000), lambda: sent.append(sender.out.ship(replicate(5_000_000, 11), lambda: sent.append(True)))
    )
    sender.drain()
    assert sent == [False, True]
    assert lsns(sender.came()) == [10, 11]


@pytest.mark.parametrize("rate", [300_000, 1_000_000, 10_000_000])
def test_a_sign_of_life_waits_for_less_than_a_beat_at_any_usual_rate(rate: int) -> None:
    """While as much is shipped as the socket takes, and more."""
    sender = Sender()
    clock = sender.clock

    def more() -> None:
        while sender.out.ship(replicate(1_000_000), more):
            pass

    more()
    begun = None
    worst = 0.0
    for tick in range(2_000):
        clock.go(0.005)
        sender.socket.leave(rate // 200)
        if begun is None and tick > 200:
            sender.out.prompt(BEAT)
            begun = clock.now
        if begun is not None and None in lsns(sender.came()):
            worst = max(worst, clock.now - begun)
            begun = None
        elif begun is None:
            sender.came()
    assert 0 < worst < BEAT_SECONDS


def test_as_much_waits_as_leaves_in_a_while_and_no_more() -> None:
    sender = Sender()
    clock = sender.clock
    going = True

    def more() -> None:
        while going and sender.out.ship(replicate(1_000_000), more):
            pass

    more()
    for rate in (20_000_000, 200_000_000, 2_000_000):
        most = 0
        for tick in range(1_000):
            clock.go(0.002)
            sender.socket.leave(rate // 500)
            if tick > 600:
                most = max(most, len(sender.socket.waiting))
        expected = min(max(rate * outgoing.QUEUE_SECONDS, outgoing.LEAST_QUEUE_BYTES), MOST_QUEUE_BYTES)
        assert expected / 4 <= most <= expected * 1.5 + FRAME
    going = False


def test_one_who_takes_nothing_is_broken_off_when_much_waits() -> None:
    sender = Sender()
    for _ in range(MAX_UNSENT_BYTES // (HEADER_BYTES + BEAT.size) + 1):
        sender.out.prompt(BEAT)
    assert not sender.errors
    sender.out.prompt(BEAT)
    assert [type(each) for each in sender.errors] == [UnreadError]
    assert len(sender.socket.waiting) < MAX_UNSENT_BYTES + 1_000


def test_one_for_whom_too_many_messages_wait_is_broken_off() -> None:
    sender = Sender()
    for _ in range(outgoing.MAX_SHIPMENTS):
        sender.out.ship(replicate(500_000), lambda: None)
    assert not sender.errors
    sender.out.ship(replicate(10), lambda: None)
    assert "takes none" in str(sender.errors[0])


def test_pieces_of_transfers_go_when_nothing_else_waits() -> None:
    sender = Sender()
    sender.out.ship(replicate(500_000), lambda: None)
    sender.out.transfer(state(300_000))
    sender.out.ship(replicate(500_000, 11), lambda: None)
    sender.drain()
    assert [type(each) for each in sender.came()] == [say.Replicate, say.Replicate, GivenState]


def test_a_piece_of_a_transfer_holds_up_a_sign_of_life_by_one_frame() -> None:
    sender = Sender()
    sender.out.transfer(state(2_000_000))
    assert len(sender.socket.waiting) <= FRAME
    sender.out.prompt(BEAT)
    sender.socket.leave(FRAME + HEADER_BYTES + BEAT.size)
    assert lsns(sender.came()) == [None]


def test_records_go_before_the_rest_of_a_piece() -> None:
    sender = Sender()
    sender.out.transfer(state(1_000_000))
    sender.out.ship(replicate(100_000), lambda: None)
    sender.drain()
    assert [type(each) for each in sender.came()] == [say.Replicate, GivenState]


def test_transfers_keep_their_pace() -> None:
    sender = Sender(rate=1_000_000)
    sender.socket.takes = 10**9
    sender.out.transfer(state(1_500_000))
    for _ in range(10):
        sender.clock.go(0.1)
    assert 900_000 <= len(sender.socket.left) <= 1_000_000 + 2 * FRAME
    sender.clock.go(1.0)
    assert [type(each) for each in sender.came()] == [GivenState]


def test_the_pace_is_of_all_together_and_saves_up_no_more_than_a_late_turn_has_lost() -> None:
    pace = Pace(1_000)
    pace.spend(500, 10.0)
    free = 10.5 - MOST_LATE_SECONDS
    assert pace.wait(10.0) == pytest.approx(free - 10.0)
    pace.spend(500, free)
    assert pace.wait(free) == pytest.approx(0.5)
    # Turns that each come late by less than that lose nothing.
    for number in range(1, 101):
        pace.spend(10, free + 0.5 + 0.01 * number + MOST_LATE_SECONDS / 2)
    assert pace.wait(free) == pytest.approx(0.5 + 100 * 0.01)
    pace.spend(100, 100.0)
    assert pace.wait(100.0) == pytest.approx(0.1 - MOST_LATE_SECONDS)


def test_who_asks_again_gets_the_last_that_it_asked_for() -> None:
    sender = Sender(rate=1_000_000)
    sender.socket.takes = 10**9
    for size in (400_000, 300_000, 200_000, 100_000):
        sender.out.transfer(state(size))
    sender.clock.go(5.0)
    assert [len(each.piece) for each in sender.came()] == [400_000, 100_000]


def test_nothing_is_sent_behind_its_end() -> None:
    sender = Sender(rate=1_000)
    sender.out.transfer(state(300_000))
    sender.out.ship(replicate(900_000), NEVER)
    waiting = len(sender.socket.waiting)
    sender.out.close()
    sender.out.prompt(BEAT)
    sender.out.transfer(state(10))
    assert not sender.out.ship(replicate(10), NEVER)
    sender.clock.go(1_000.0)
    assert len(sender.socket.waiting) == waiting
    sender.drain()
    assert sender.clock.timers == []
