"""The exchanges of a broker: what commands change of them, and what goes with a queue that is deleted."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from pykka import ActorDeadError

from actors.errors import InboxOverflowError
from actors.exchanges.exchanges import Exchanges
from actors.exchanges.vocabulary import Unbound
from actors.queue.exchange_publishing import ExchangePublishing
from actors.queue.exchange_publishing import Queues as PublishedTo
from actors.queue.letters_line import LettersLine
from actors.queue.vocabulary.distributed import RoutesChanged
from actors.queue.waiting_queues import Queues as Waiting
from actors.queue.waiting_queues import WaitingQueues
from actors.storage.durable_definitions import DurableDefinitions, MemoryDefinitions

if TYPE_CHECKING:
    from collections.abc import Collection

    from actors.exchanges.limits import ExchangeLimits
    from actors.exchanges.tables import Table
    from actors.exchanges.vocabulary import Binding, Event
    from actors.queue.distribution import Distributor
    from actors.queue.routed_stages import RoutedStages
    from actors.runtime.loop_ref import LoopActorRef
    from actors.storage import Storage


class Queues(PublishedTo, Waiting, Protocol):
    """What exchanges ask of the broker's queues; see ``QueueDirectory``."""

    async def durable(self) -> None:
        """Return when all that was recorded so far is durable."""


class ExchangeDirectory:
    """Every exchange and binding of a broker. Lives on the broker's loop; it is no actor, like the ``QueueDirectory`` that has it.

    What a command has changed is so at once, for whoever publishes next. Whoever asked is answered when it is durable: a command that finds
    all as it shall be may have come just behind the one that made it so.

    Args:
        queues: the broker's.
        storage: where what is durable of them is recorded; None for a broker in memory.
        distributor: stores what is published.
        stages: those that are written through exchanges.
        limits: how much there may be.

    Attributes:
        exchanges: all of them, to be looked at, and to route by.
        publishing: what an ``ExchangeSender`` publishes by.
        held: queues whose dead letters wait for room in another; each is told once of what changes, and puts itself here again.
        waiting: the queues in which messages wait at exchanges.
        letters: queues whose dead letters have a step to take.
    """

    def __init__(
        self,
        queues: Queues,
        storage: Storage | None,
        distributor: Distributor,
        stages: RoutedStages,
        limits: ExchangeLimits | None = None,
    ) -> None:
        self._queues = queues
        self._definitions: DurableDefinitions = MemoryDefinitions() if storage is None else storage
        self.exchanges = Exchanges(self._is_durable, limits, self._definitions.definitions)
        self.waiting = WaitingQueues(queues, self.exchanges)
        self.publishing = ExchangePublishing(self.exchanges, queues, distributor, storage, stages)
        distributor.lost = self.publishing.counts.lost
        self.held: dict[LoopActorRef[Any], None] = {}
        self.letters = LettersLine()

    async def declare(
        self,
        name: str,
        kind: str = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table | None = None,
    ) -> bool:
        """An exchange is to be there: as ``Decisions.declare``, with its errors; returns when it is durable.

        Returns:
            whether something has changed: it was not there before. So for the other three.

        Raises:
            DiskBehindError: more waits for the disk than may wait. Nothing has happened.
            StorageError: it cannot be made durable; whether it is, the next start tells.
        """
        return await self._change(
            self.exchanges.decide.declare(
                name, kind, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
            )
        )

    async def delete(self, name: str, *, if_unused: bool = False) -> bool:
        """An exchange is to be gone: as ``Decisions.delete``, with its errors and those of `declare`."""
        events = self.exchanges.decide.delete(name, if_unused=if_unused)
        self.publishing.counts.deleted(name)
        return await self._change(events)

    async def bind(
        self, source: str, destination: str, key: str = "", arguments: Table | None = None, *, to_exchange: bool = False
    ) -> bool:
        """A binding is to be there: as ``Decisions.bind``, with its errors and those of `declare`."""
        return await self._change(
            self.exchanges.decide.bind(source, destination, key, arguments, to_exchange=to_exchange)
        )

    async def unbind(
        self, source: str, destination: str, key: str = "", arguments: Table | None = None, *, to_exchange: bool = False
    ) -> bool:
        """A binding is to be gone: as ``Decisions.unbind``, with its errors and those of `declare`."""
        return await self._change(
            self.exchanges.decide.unbind(source, destination, key, arguments, to_exchange=to_exchange)
        )

    async def bind_only(self, queue: str, bindings: Collection[tuple[str, str, Table | None]]) -> list[Binding]:
        """A queue is to have these bindings (source, key and arguments), and no others of the same exchanges.

        All of that in one instant: of two who say it of one queue, the last one is right, whoever waits longer for the disk.

        Returns:
            those that are gone.

        Raises:
            ExchangeError: as `bind`. What was said before it is there, and nothing is gone.
        """
        decide = self.exchanges.decide
        for source, key, arguments in bindings:
            self._carry_out(decide.bind(source, queue, key, arguments))
        gone = [event for event in decide.unbind_others(queue, bindings) if isinstance(event, Unbound)]
        self._carry_out(tuple(gone))
        await self._queues.durable()
        return [event.binding for event in gone]

    def queue_deleted(self, name: str, number: int) -> None:
        """A queue is deleted, and in the same instant its bindings, and what goes with these.

        Raises:
            StorageError: it cannot be recorded. Nothing has changed.
        """
        events = self.exchanges.decide.queue_deleted(name)
        waited = self.waiting.before(events)
        self._definitions.change_definitions(events, number)
        self.waiting.after(waited)
        if events:
            self._changed()

    async def _change(self, events: tuple[Event, ...]) -> bool:
        """Carry out what was decided, at once, and wait until it is durable, or what it found is: that may have been made just before."""
        self._carry_out(events)
        await self._queues.durable()
        return bool(events)

    def _carry_out(self, events: tuple[Event, ...]) -> None:
        waited = self.waiting.before(events)
        self._definitions.change_definitions(events)
        self.waiting.after(waited)
        if events:
            self._changed()

    def _changed(self) -> None:
        """Messages may go elsewhere: those of senders, and dead letters."""
        self.publishing.changed()
        held = list(self.held)
        self.held.clear()
        for queue in held:
            # One that does not take it looks again in time.
            with suppress(ActorDeadError, InboxOverflowError):
                queue.tell(RoutesChanged())

    def _is_durable(self, name: str) -> bool | None:
        # Nobody publishes to a queue that waits for an exchange, nor binds it: its name has a blank, and no other has.
        state = None if " " in name else self._queues.state(name)
        return None if state is None else state.settings.durable
