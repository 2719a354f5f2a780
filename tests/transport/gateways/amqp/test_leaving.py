"""What a connection, or a channel, has left is published within bounds: of time, and of bytes over all connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from transport.gateways.amqp.leaving import (
    COUNTED_BYTES,
    LEAVING_SECONDS,
    MOST_LEAVING_BYTES,
    Leaving,
    Remains,
    Unfinished,
)


class Timer:
    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """Keeps what is to be done later."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Timer]] = []

    def call_later(self, seconds: float, work: Callable[[], None]) -> Timer:
        self.timers.append((seconds, Timer(work)))
        return self.timers[-1][1]


class Channel:
    """Says whether something waits, and notes its end."""

    def __init__(self, *, unstored: bool) -> None:
        self.unstored = unstored
        self.said: list[str] = []
        self.receiving, self.consuming = self, cast("Channel | None", None)

    def leave_behind(self) -> None:
        self.said.append("end")

    def stop(self) -> None:
        self.said.append("nothing more")

    def end(self) -> None:
        self.said.append("end")

    def waiting_changed(self) -> None:
        self.said.append("counted")


def remains(leaving: Leaving, loop: Loop, size: int, *channels: Channel) -> Remains:
    return Remains(leaving, cast("Any", channels), size, cast("Any", loop))


RECEIVING_AND_ALL = ["end", "end"]


def test_those_of_several_channels_get_nothing_more_before_any_of_them_leaves() -> None:
    said: list[str] = []
    channels = Channel(unstored=False), Channel(unstored=False)
    for channel in channels:
        channel.said, channel.consuming = said, channel
    remains(Leaving(), Loop(), 0, *channels)
    assert said == ["nothing more", "nothing more", "end", "end", "end", "end"]


def test_where_nothing_waits_all_ends_at_once() -> None:
    leaving, loop, channel = Leaving(), Loop(), Channel(unstored=False)
    remains(leaving, loop, 0, channel)
    assert (channel.said, loop.timers, leaving.bytes) == (RECEIVING_AND_ALL, [], 0)


def test_what_waits_stays_until_it_is_stored_and_what_was_held_goes_back_at_once() -> None:
    leaving, loop = Leaving(), Loop()
    waits, done = Channel(unstored=True), Channel(unstored=False)
    left = remains(leaving, loop, 100, waits, done)
    assert left.look()
    assert (waits.said, done.said, leaving.bytes) == (["end"], ["end"], 100 + COUNTED_BYTES)
    waits.unstored = False
    assert not left.look()
    assert not left.look()
    ((_, timer),) = loop.timers
    assert (waits.said, done.said, leaving.bytes) == (RECEIVING_AND_ALL, RECEIVING_AND_ALL, 0)
    assert timer.cancelled


def test_what_is_not_stored_in_time_is_dropped() -> None:
    leaving, loop, channel = Leaving(), Loop(), Channel(unstored=True)
    left = remains(leaving, loop, 100, channel)
    ((seconds, timer),) = loop.timers
    assert seconds == LEAVING_SECONDS
    timer.work()
    assert not left.look()
    # Its connection, which may stand, counted what is dropped as waiting for as long as it stood, and may have been read no more for it.
    assert (channel.said, leaving.bytes) == ([*RECEIVING_AND_ALL, "counted"], 0)


def test_what_is_too_much_together_is_dropped_and_what_was_there_before_stays() -> None:
    leaving, loop = Leaving(), Loop()
    first, second, third = (Channel(unstored=True) for _ in range(3))
    room = MOST_LEAVING_BYTES - 2 * COUNTED_BYTES
    remains(leaving, loop, room - 1, first)
    remains(leaving, loop, 2, second)
    remains(leaving, loop, 1, third)
    assert (first.said, second.said, third.said) == (["end"], RECEIVING_AND_ALL, ["end"])
    assert leaving.bytes == MOST_LEAVING_BYTES


def test_channels_that_are_done_are_not_looked_at_again() -> None:
    """Of a connection that closed with two thousand channels all were looked at for each word on one: it took twenty seconds."""
    looks = 0

    def is_unfinished(channel: Any) -> bool:
        nonlocal looks
        looks += 1
        return cast("bool", channel.unstored)

    channels = [Channel(unstored=True) for _ in range(1_000)]
    subject = Unfinished(is_unfinished)
    for channel in channels:
        assert subject.among(cast("Any", channels))
        channel.unstored = False
    assert not subject.among(cast("Any", channels))
    assert looks <= 4 * len(channels)
    channels[0].unstored = True
    assert subject.among(cast("Any", channels))
