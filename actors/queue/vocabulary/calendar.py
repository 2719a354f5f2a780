"""What waits longer than a moment for its time: in which slot of a queue's calendar, and when each message is due.

A calendar has slots of three widths. A message that is due soon is in a narrow slot, one that is due in months in a wide one. As the time
of a slot comes near, what is in it moves to narrower ones, and from the narrowest into the queue, where it gets its number. So each message
is written again three times at most, and there are some hundreds of slots, however many messages wait.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from actors.queue.structures.ranges import Range

NEAR_SECONDS: Final = 60.0
"""What is due sooner waits in the queue itself, in memory by when it is due; so it is where a queue has no calendar."""
NEAR_BATCHES: Final = 50_000
"""Batches that wait in memory, above which even what is due sooner waits in the calendar."""
WIDTHS_SECONDS: Final = (20, 2_400, 288_000)
"""The widths of slots: 20 s, 40 min, 80 h."""
REACH: Final = 120
"""How many slots of a width what is due may lie ahead; what is due later is in a wider one. A year and a day is 110 of the widest."""


class Place(NamedTuple):
    """A slot of a queue's calendar, and the stream of the journal that has its messages.

    Attributes:
        queue: the queue's number.
        stream: the stream's; another slot has it when this one is over.
        width: which of the widths.
        slot: its times are ``slot`` to ``slot + 1`` widths since the epoch.
        level: the level of the queue that the messages are of.
    """

    queue: int
    stream: int
    width: int
    slot: int
    level: int = 0


class Left(NamedTuple):
    """Messages that leave a slot, by their positions in its stream."""

    stream: int
    ranges: tuple[Range, ...]


class Scheduled(NamedTuple):
    """What a batch has to do with the calendar of the queue that gets it.

    Attributes:
        place: where it waits; None where it is in the queue itself.
        due: when each of its messages is due, microseconds since the epoch; one time where all are due at it.
        left: what leaves the calendar with it, to be where it is.
        together: where it waits in all of the queues that get it by one record, this one among them; empty where this is the only one.
        ends: until when each of them is of use, as ``due``; empty where that has no end.
    """

    place: Place | None = None
    due: tuple[int, ...] = ()
    left: tuple[Left, ...] = ()
    together: tuple[Place, ...] = ()
    ends: tuple[int, ...] = ()

    def waiting_in(self, stream: int) -> Scheduled:
        """The same as a queue has it where it waits in a stream."""
        return self._replace(place=next((place for place in self.together if place.stream == stream), None))


NOWHERE: Final = Scheduled()
"""Nothing of a calendar."""
