"""Queues that are found apart from being made, and declared with what a gateway says of them: part of `operations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from transport.broker import audit
from transport.broker.asking import Asking
from transport.broker.operation_rows import OPERATIONS, dead_letters_said, exchange_resource
from transport.errors import ForbiddenError
from transport.security.principal import EVERYTHING
from transport.wire.names import check_name

if TYPE_CHECKING:
    from actors import LoopActorRef, QueueSettings
    from actors.exchanges.vocabulary import Exchange
    from actors.queue.queue_figures import FoundQueue
    from transport.broker.services import Services
    from transport.security.principal import Principal

    Ref = LoopActorRef[Any]

EXCHANGE: Final = "the exchange "
MADE_BY: Final = "queue.create"


class Declarations(Asking):
    """What one principal may find and declare.

    Attributes:
        owner: what the queues of its own go with, if it has any.
    """

    __slots__ = ("owner",)

    def __init__(self, services: Services, principal: Principal) -> None:
        super().__init__(services, principal)
        self.owner: Ref | None = None

    @property
    def staged_limits(self) -> dict[str, Any]:
        """What transactions may hold of a queue unless it says otherwise, by the names of the settings: the broker's own."""
        settings = self._services.queues.settings
        return {"max_staged_messages": settings.max_staged_messages, "max_staged_bytes": settings.max_staged_bytes}

    def delay_until(self, time: float) -> float:
        """Seconds from now until a time of day, seconds since the epoch; 0 where that is past."""
        return self._services.queues.distributor.delay_until(time)

    def find_queue(self, queue: str) -> FoundQueue:
        """A queue that is there, as it stands; it takes any right on it, and nothing is made.

        Raises:
            QueueNotFoundError: there is no such queue.
        """
        self._need_any(check_name(queue), "queue")
        return self._services.queues.find(queue)

    async def declare_queue(self, queue: str, settings: QueueSettings, arguments: bytes = b"") -> FoundQueue:
        """Have a queue with these settings, made with ``arguments`` where there is none; it returns when that is durable.

        It takes the rights of ``queue.create`` for these settings. Where the queue is there with the same settings, its arguments stay: who
        cares compares them before (`find_queue`).

        Raises:
            QueueExistsError, QueueLimitError, TooManyQueuesError: as of ``QueueDirectory.declare``.
            TimeoutError, StorageError: the disk does not store it.
        """
        queues = self._services.queues
        self._may_declare(queue, settings)
        audit.allowed(self.principal.name, MADE_BY, queue, self.peer, MADE_BY)
        try:
            queues.declare(queue, settings, arguments)
            await self._services.commands.durable()
        except Exception as error:
            audit.not_done(self.principal.name, MADE_BY, queue, self.peer, MADE_BY, error)
            raise
        return queues.find(queue)

    def declare_own(self, queue: str, settings: QueueSettings, arguments: bytes, owner: Ref) -> None:
        """Make a transient queue of this name that goes with ``owner``, from which alone this one receives; rights as of `declare_queue`.

        Nothing waits for the disk: a start forgets the queue.

        Raises:
            QueueExistsError: there is a queue of this name.
            QueueLimitError, TooManyQueuesError: as of ``QueueDirectory.declare``.
        """
        queues = self._services.queues
        self._may_declare(queue, settings)
        self.owner = owner
        queues.owned.declare(settings, queue, arguments)
        try:
            queues.owned.give(queue, owner)
        except BaseException:
            queues.delete(queue)
            raise

    def queue_used(self, queue: str) -> None:
        """A queue was declared as it is, or looked for by who relies on it: one that is to expire has all its time again.

        It takes no right more than to find it (`find_queue`), which is asked before.
        """
        self._services.queues.used(queue)

    def delete_unused(self, queue: str) -> None:
        """Delete a queue that was to go with its last consumer. That was said when it was declared, so it takes no right now."""
        if queue in self._services.queues:
            self._services.queues.delete(queue)

    async def figures(self, queue: str) -> tuple[int, int]:
        """Messages that are ready, and connections that receive, behind all that a queue was told before; errors as of `find_queue`."""
        self.find_queue(queue)
        figures = await self._services.commands.figures(queue)
        return figures.ready, figures.attached_receivers

    def figures_at_once(self, queue: str) -> tuple[int, int] | None:
        """As `figures`, of a queue that was just found and has nothing to do; None where it has, and is to be asked."""
        return self._services.queues.at_once(queue)

    def exchange(self, name: str) -> Exchange | None:
        """An exchange that is there, for who has any right on it; None where there is none."""
        self._need_any(exchange_resource(name), "exchange", EXCHANGE)
        return self._services.queues.exchanges.exchanges.get(name)

    def has_rights_within(self, beginning: str) -> bool:
        """Whether whoever asks has any right on names that begin so; where they have none, the log of who did what is told."""
        found = self.principal.grants.within(beginning)
        if not found:
            audit.refused(self.principal.name, "use", "virtual host", beginning + EVERYTHING, self.peer)
        return found

    # Inside

    def _may_declare(self, queue: str, settings: QueueSettings) -> None:
        self._check(MADE_BY, check_name(queue))
        for right, of in OPERATIONS[MADE_BY].also(self._services.queues, dead_letters_said(queue, settings)):
            self._need(right, of, MADE_BY)

    def _check_not_owned(self, name: str) -> None:
        """Refuse what concerns the messages of a queue that goes with another connection."""
        owner = self._services.queues.owned.owner_of(name)
        if owner is not None and owner is not self.owner:
            raise ForbiddenError(f"queue {name!r:.255} is the own one of another receiver, and nobody else's")
