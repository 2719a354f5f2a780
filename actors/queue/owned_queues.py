"""Queues that go with their owner: each is deleted when the actor of its connection has ended. Most have a name that nobody has chosen."""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.errors import StorageError
from actors.queue.directory_errors import QueueExistsError, QueueNotFoundError
from actors.runtime.loop_ref import LoopActorRef

if TYPE_CHECKING:
    from actors.queue.vocabulary.settings import QueueSettings
    from actors.runtime._loop_inbox import Watch

PREFIX: Final = "own."
NAME_BYTES: Final = 16
"""Of randomness: nobody guesses a name, and none is given twice."""

logger = logging.getLogger("penstock.queue")


class Queues(Protocol):
    """What it asks of the broker's queues; see ``QueueDirectory``."""

    def __contains__(self, name: str) -> bool:
        """Whether there is a queue of this name."""

    def declare(self, name: str, settings: QueueSettings, arguments: bytes = b"") -> LoopActorRef[Any]:
        """Make a queue."""

    def delete(self, name: str) -> None:
        """Remove a queue, with its bindings."""


class OwnedQueues:
    """Which queues have an owner. Lives on the broker's loop; it is no actor, like the ``QueueDirectory`` that has it.

    Anybody may publish to them, as to any queue. Whoever lets receivers in asks whose a queue is.

    Args:
        queues: the broker's.
        random_bytes: gives so many random bytes.
    """

    def __init__(self, queues: Queues, random_bytes: Callable[[int], bytes]) -> None:
        self._queues = queues
        self._random_bytes = random_bytes
        self._owned: dict[str, tuple[LoopActorRef[Any], Watch]] = {}

    def make(self, owner: LoopActorRef[Any], settings: QueueSettings) -> str:
        """Make a transient queue that is deleted when ``owner`` has ended, or by `release`; returns its name.

        Where no dead-letter queue is named nothing is dead-lettered: a queue for these would be left behind by each owner.

        Raises:
            TooManyQueuesError: there is no room for another.
            DiskBehindError, StorageError: as ``QueueDirectory.declare``.
            pykka.ActorDeadError: the owner has ended, and its loop with it.
        """
        name = self.declare(settings)
        try:
            self.give(name, owner)
        except BaseException:
            self._queues.delete(name)
            raise
        return name

    def declare(self, settings: QueueSettings, named: str | None = None, arguments: bytes = b"") -> str:
        """Make a queue that is given its owner, by `give`, before anybody else has a turn; as `make`, with its errors.

        An actor that is attached to a queue from its beginning can be its owner only when it is there.

        Args:
            settings: what it is made with; it is transient in any case.
            named: its name; None for one that nobody has chosen.
            arguments: as of ``QueueDirectory.declare``.

        Raises:
            QueueExistsError: there is a queue of this name.
        """
        name = named or PREFIX + urlsafe_b64encode(self._random_bytes(NAME_BYTES)).rstrip(b"=").decode()
        if name in self._queues:
            why = "another has it" if named else "the randomness of this machine gave a name twice"
            raise QueueExistsError(f"queue {name!r:.255} exists: {why}")
        settings = replace(settings, durable=False)
        if not settings.dead_letters_named and not settings.drop_failed:
            settings = replace(settings, max_receives=None)
        self._queues.declare(name, settings, arguments)
        return name

    def give(self, name: str, owner: LoopActorRef[Any]) -> None:
        """The queue goes with ``owner`` from now on; raises pykka.ActorDeadError where that has ended, and its loop with it."""
        # One that has ended is reported in the loop's next turn.
        self._owned[name] = (owner, owner.watch(lambda _failure: self._owner_ended(name)))

    def owner_of(self, name: str) -> LoopActorRef[Any] | None:
        """The actor that a queue goes with, and that alone may receive from it; None for a queue of everybody's."""
        owned = self._owned.get(name)
        return None if owned is None else owned[0]

    def names(self) -> Collection[str]:
        """The queues that have an owner."""
        return self._owned.keys()

    def release(self, name: str) -> None:
        """The owner has no use for its queue any more: delete it.

        Raises:
            QueueNotFoundError: there is none of this name that has an owner.
            StorageError: it cannot be recorded. Nothing has changed.
        """
        if name not in self._owned:
            raise QueueNotFoundError(name)
        self._queues.delete(name)

    def deleted(self, name: str) -> None:
        """A queue is deleted, by whomever: if it had an owner it has none any more."""
        owned = self._owned.pop(name, None)
        if owned is not None:
            owned[1].cancel()

    def _owner_ended(self, name: str) -> None:
        try:
            self.release(name)
        except StorageError as error:
            # The broker has been told, and is about to end; the next start forgets the queue.
            logger.debug("queue %s is not deleted, though its owner has ended: %s", name, error)
