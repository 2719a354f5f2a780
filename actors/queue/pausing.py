"""What a broker as a whole has against what senders send: a reason for which they get no demand, or a moment in which they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.vocabulary.commands import PauseSenders

if TYPE_CHECKING:
    from actors.queue.queue_actor import QueueActor
    from actors.queue.schedule_directory import ScheduleDirectory
    from actors.queue.state.held import Held
    from actors.runtime.loop_ref import LoopActorRef


class Pausing:
    """The part of a directory of queues that does so. Receivers have nothing to do with it.

    Attributes:
        held: whether senders are held back, which its queues look at.
    """

    held: Held
    schedules: ScheduleDirectory
    _queues: dict[str, LoopActorRef[QueueActor]]
    _pauses: dict[str, str]
    _paused: str | None

    def pause_senders(self, reason: str | None, source: str = "watermark") -> None:
        """Grant no sender anything for ``reason``, until each ``source`` that gave one takes it back with None."""
        if reason is None:
            self._pauses.pop(source, None)
        else:
            self._pauses[source] = reason
        paused = "; ".join(self._pauses.values()) or None
        if paused != self._paused:
            self._paused = paused
            for queue in self._queues.values():
                if queue.is_alive():
                    queue.tell(PauseSenders(paused))
            self.schedules.look()

    def hold_senders(self, holds: bool) -> None:
        """Grant no sender anything for a moment, or do so again: part by part of each second, so that they send less.

        Nothing that is sent is refused for it, as it is while senders pause.
        """
        self.held.on = holds
        if not holds:
            for name in self.held.take():
                queue = self._queues.get(name)
                if queue is not None and queue.is_alive():
                    # Nothing is paused or ended by that: it looks whom it can grant something.
                    queue.tell(PauseSenders(self._paused))

    def _storage_behind(self, behind: bool) -> None:
        self.pause_senders("the disk cannot follow what is sent" if behind else None, "storage")
