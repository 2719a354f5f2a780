"""Events of queues in turn, in one record: what a transaction does that publishes, and settles what receivers held.

A queue may have several events of it: what is published there, and what was acknowledged and refused. All of it happens in the instant in
which it is recorded, and a crash leaves all of it or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.storage.options import UNAWAITED
from actors.storage.together import encode_all, encode_in_turn, encode_one
from actors.storage.unawaited import UnawaitedEvents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.queue.vocabulary.events import Event


class EventsInTurn(UnawaitedEvents):
    """What a storage does for transactions that settle."""

    def record_staged(self, events: Mapping[int, Event]) -> int:
        """As ``record_all``, of messages that wait for a commit, which makes them durable with it: they cause no sync of their own soon."""
        contents = self._contents
        if contents.all_transient(events):
            return self._record_all_unawaited(events)
        if not contents.takes(events):
            return 0
        lsn = self._record_together(
            encode_all(events, None) if len(events) > 1 else encode_one(*next(iter(events.items()))), lazy=True
        )
        contents.apply(events, None, lsn)
        return lsn

    def record_in_turn(self, events: Sequence[tuple[int, Event]]) -> int:
        """Have events of queues happen, by the queues' numbers, in order; none of them is messages, and each log has them at once.

        Whoever holds what they are about must act on that before it carries out anything else. An event of a queue that was deleted
        meanwhile changes nothing.

        Returns:
            the number of what is recorded; 0 where nothing has happened, `UNAWAITED` where every queue is transient.

        Raises:
            TooMuchTogetherError: more bytes than one record may hold. Nothing has happened.
            StorageError: the journal takes nothing more, and the broker, which has been told, is about to end.
        """
        contents = self._contents
        there = [(number, event) for number, event in events if number in contents.queues]
        if not there:
            return 0
        lazy = contents.all_transient(number for number, _ in there)
        lsn = self._record_together(encode_in_turn(there), lazy=lazy)
        self._checkpoints.schedule()
        contents.apply_in_turn(there, UNAWAITED if lazy else lsn)
        return UNAWAITED if lazy else lsn
