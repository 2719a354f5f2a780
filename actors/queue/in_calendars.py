"""What is stored in several queues at a time, and waits long in some of them: where it does, as one record says it for all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from actors.errors import QueueLimitError
from actors.queue.operations.calendar import in_calendar, next_position, scheduled_at, waits_long
from actors.queue.vocabulary.events import MessagesAdded
from actors.queue.vocabulary.settings import MAX_DELAYED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.queue.queue_state import QueueState
    from actors.queue.vocabulary.events import MessagesDeduplicated, MessagesScheduled

MAX_CALENDARS: Final = 1_000
"""Queues in whose calendars one batch may wait: the record's header names a place for each. Where there are more it waits in them as where
there is no calendar."""


def in_calendars(
    added: Mapping[str, tuple[QueueState, MessagesAdded | MessagesDeduplicated]],
    timing: Mapping[str, tuple[QueueState, int, int | None]],
) -> dict[str, tuple[QueueState, MessagesAdded | MessagesDeduplicated]]:
    """The same events, of which those wait in a calendar that are due late; ``timing`` has each queue's delay and time to live.

    Raises:
        QueueLimitError: they would wait in memory, for they are of too many queues, and one of these has no room for another delay there.
    """
    long = [
        name
        for name, (state, event) in added.items()
        if timing[name][1]
        and isinstance(event, MessagesAdded)
        and event.stage is None
        and waits_long(state, timing[name][1])
    ]
    if len(long) > MAX_CALENDARS:
        if any(added[name][0].delayed_batches() >= MAX_DELAYED for name in long):
            raise QueueLimitError(
                "MAX_DELAYED", MAX_DELAYED, f"have what waits long go to at most {MAX_CALENDARS} queues at a time"
            )
        return dict(added)
    found: dict[str, tuple[QueueState, MessagesScheduled]] = {}
    for name in long:
        state, event = added[name]
        assert isinstance(event, MessagesAdded), "it was asked"
        scheduled = scheduled_at(state, event, timing[name][1])
        assert scheduled.place is not None
        first = next_position(state, scheduled.place)
        found[name] = state, in_calendar(event, first, scheduled)
    if len(long) > 1:
        # What all of them get alike stands in the record once, where its times are the same in all of them.
        together: dict[tuple[object, ...], list[str]] = {}
        for name, (_, event) in found.items():
            together.setdefault((event.scheduled.due, event.scheduled.ends), []).append(name)
        for names in together.values():
            there = [found[name][1].scheduled.place for name in names]
            places = tuple(place for place in there if place is not None)
            for name in names:
                state, waiting = found[name]
                found[name] = state, replace(waiting, scheduled=waiting.scheduled._replace(together=places))
    return dict(added) | found
