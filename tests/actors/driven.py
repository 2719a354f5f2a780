"""A queue in short words: each command as a method with its arguments, and what comes of it by kind, for tests of the state alone.

Effects are told apart here by what they tell, with everything in one tuple: ``Deliver(receiver, first, batch, ...)`` for a ``Tell`` of
``ReceivedMessages``, and so on. The reply that a command has by itself, as ``SenderAttached``, is what its method returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from actors.batch import MessageBatch
from actors.queue import queue_state
from actors.queue.operations.browsing import describe
from actors.queue.operations.purging import purge_step
from actors.queue.state.leveled_memory import log_in_memory
from actors.queue.state.log import QueueLog
from actors.queue.state.subscriptions import pieces
from actors.queue.vocabulary import commands, letters, replies
from actors.queue.vocabulary.deaths import REASON
from actors.queue.vocabulary.events import Event, StagesEnded
from actors.queue.vocabulary.letters import Origin
from actors.queue.vocabulary.prefetch import DemandWithdrawn
from actors.queue.vocabulary.replies import Connection, DeadLetter, Tell
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey

LARGE = 10**12


def reason_of(letter: DeadLetter) -> str:
    """Why messages are dead, as each of them says."""
    (reason,) = {(message.headers or {})[REASON] for message in letter.batch.messages()}
    return str(reason)


def empty_log(settings: QueueSettings | None = None) -> QueueLog:
    """Of a queue in memory with these settings."""
    return log_in_memory(settings or QueueSettings())


def replayed(events: Iterable[Event], settings: QueueSettings | None = None) -> QueueLog:
    """The fold over ``events``."""
    log = empty_log(settings)
    for number, event in enumerate(events, 1):
        log.apply(event, number)
    return log


class Deliver(NamedTuple):
    receiver: Connection
    first: int
    batch: MessageBatch
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool
    after: int = 0


class GrantCapacity(NamedTuple):
    sender: Connection
    messages: int
    bytes: int
    after: int = 0


class Confirm(NamedTuple):
    sender: Connection
    up_to: int
    first: int | None
    rejected: str | None = None
    after: int = 0
    numbers: tuple[tuple[int | None, int], ...] | None = None


class Supersede(NamedTuple):
    sender: Connection
    after: int = 0


class ReservationFacts(NamedTuple):
    backlog: int
    backlog_bytes: int
    oldest_ms: int
    sender_demand: int
    high_water: int
    in_flight: int
    full: bool
    reserved_bytes: int | None = None
    live_subscriptions: int = 1


class Reserved(NamedTuple):
    consumer: Connection
    request: int
    end: int
    facts: ReservationFacts
    after: int = 0


class Refuse(NamedTuple):
    connection: Connection
    code: str
    text: str
    request: int | None
    close: bool
    after: int = 0


class DeadLettersStored(NamedTuple):
    origin: Origin
    after: int = 0


class StageFacts(NamedTuple):
    messages: int
    committed: bool


class Opening(NamedTuple):
    take_over: bool = False
    client: str = ""
    now: float = 0.0
    wall_us: int = 0


class Fetching:
    """What a fetch asks for: iterable any number of times, each batch read as it is reached."""

    def __init__(self, read: Callable[[], Iterator[tuple[replies.FetchedMessages, int]]]) -> None:
        self.read = read

    def __iter__(self) -> Iterator[replies.FetchedMessages]:
        return (piece for piece, _ in self.read())


class Browsed(NamedTuple):
    ranges: tuple[replies.FetchedMessages, ...]
    end: int
    after: int


Effect = Deliver | GrantCapacity | Confirm | Supersede | Reserved | Refuse | DeadLettersStored | DeadLetter


def seen(effect: Tell | DeadLetter) -> Effect:
    """An effect by what it tells."""
    if isinstance(effect, DeadLetter):
        return effect
    to, reply, after = effect
    match reply:
        case replies.ReceivedMessages():
            return Deliver(to, *reply[:5], after)
        case replies.CapacityGranted():
            return GrantCapacity(to, *reply, after)
        case replies.SentMessages():
            return Confirm(to, *reply[:3], after, reply.numbers)
        case replies.Superseded():
            return Supersede(to, after)
        case replies.MessagesReserved():
            return Reserved(to, reply.request, reply.end, ReservationFacts(**cast("Any", reply.facts)), after)
        case replies.Refused():
            return Refuse(to, reply.code, reply.text, reply.request, reply.close, after)
        case letters.DeadLettersMoved():
            origin = cast("Origin", to)
            assert reply.ranges == origin.ranges
            return DeadLettersStored(origin, after)
    raise AssertionError(f"{reply} is the reply of a command: its method returns it")


class QueueState(queue_state.QueueState):
    """The queue's state with a method for each command."""

    __slots__ = ()

    def take_effects(self) -> list[Any]:
        return [seen(effect) for effect in super().take_effects()]

    def _told(self, command: Any, now: float = 0.0, wall_us: int | None = None) -> Any:
        """Carry out a command that has one reply, and return that; what else comes of it stays to be taken."""
        self.execute(command, now, self.clocks.time_us(now) if wall_us is None else wall_us)
        effects = self.effects
        mine = [effect for effect in effects if isinstance(effect, Tell) and effect.connection is command.connection]
        effects.remove(mine[-1])
        return mine[-1].reply

    # --- senders

    def attach_sender(self, connection: Connection, producer: str | None, temporary: bool = False) -> int | None:
        command = commands.AttachSender(producer, None, temporary, cast("Any", connection))
        return cast("int | None", self._told(command).last_sequence)

    def attach_stage(self, connection: Connection, stage: StageKey, now: float) -> StageFacts:
        attached = self._told(commands.AttachSender(None, stage, connection=cast("Any", connection)), now)
        return StageFacts(attached.last_sequence or 0, attached.committed)

    def request_capacity(self, connection: Connection, messages: int, size: int) -> None:
        self.execute(commands.RequestCapacity(messages, size, cast("Any", connection)), 0.0, 0)

    def accept(
        self,
        connection: Connection,
        sequence: int,
        batch: MessageBatch,
        delay: float | None = None,
        ttl: float | None = None,
        priority: int = 0,
    ) -> None:
        self.execute(commands.OfferBatch(sequence, batch, delay, ttl, cast("Any", connection), priority), 0.0, 0)

    def send(
        self,
        connection: Connection,
        sequence: int,
        batch: MessageBatch,
        now: float,
        wall_us: int,
        delay: float | None = None,
        ttl: float | None = None,
        priority: int = 0,
    ) -> int | None:
        """Accept and store at once; returns the queue's number of the first message, None if it was stored before or is rejected."""
        self.accept(connection, sequence, batch, delay, ttl, priority)
        new = self.incoming[-1].new
        self.store(now, wall_us)
        return self.log.next_sequence - len(batch) if new == len(batch) else None

    def pause_senders(self, reason: str | None, now: float = 0.0) -> None:
        self.execute(commands.PauseSenders(reason), now, self.clocks.time_us(now))

    # --- transactions

    def end_stages(self, ended: StagesEnded, after: int, now: float) -> None:
        self.execute(commands.EndStages(ended.published, ended.discarded, after), now, self.clocks.time_us(now))

    def discard_transaction(self, writer: str, version: int, now: float) -> int:
        return cast("int", self.execute(commands.DiscardTransaction(writer, version), now, self.clocks.time_us(now)))

    # --- receivers

    def attach_receiver(self, connection: Connection, told_visibility: float = 0.0, priority: int = 0) -> bool:
        command = commands.AttachReceiver(cast("Any", connection), told_visibility, priority)
        return cast("bool", self._told(command).waiting)

    def receive(self, connection: Connection, messages: int, size: int, now: float) -> None:
        self.execute(commands.DemandSignalled(messages, size, cast("Any", connection)), now, self.clocks.time_us(now))

    def acknowledge(self, connection: Connection, pairs: Sequence[tuple[int, int]]) -> None:
        self.execute(commands.Acknowledged(pairs, cast("Any", connection)), 0.0, 0)

    def negative_acknowledge(
        self,
        connection: Connection,
        pairs: Sequence[tuple[int, int]],
        delay: float,
        now: float,
        failed: bool = True,
        reason: str | None = None,
    ) -> None:
        self.execute(
            commands.Rejected(pairs, delay, failed, cast("Any", connection), reason), now, self.clocks.time_us(now)
        )

    def extend(self, connection: Connection, pairs: Sequence[tuple[int, int]], seconds: float, now: float) -> None:
        self.execute(commands.Extended(pairs, seconds, cast("Any", connection)), now, self.clocks.time_us(now))

    def cancel_demand(self, connection: Connection) -> None:
        self.execute(DemandWithdrawn(cast("Any", connection)), 0.0, 0)

    def stop_consuming(self, connection: Connection, now: float) -> None:
        self.execute(DemandWithdrawn(cast("Any", connection), ends=True), now, self.clocks.time_us(now))

    def detach(
        self,
        connection: Connection,
        now: float,
        failed: bool = True,
        unseen: Sequence[tuple[int, int]] = (),
        together: bool = False,
    ) -> None:
        left = commands.Left(failed, cast("Any", connection), unseen, together)
        self.execute(left, now, self.clocks.time_us(now))

    # --- subscriptions

    def open_subscription(
        self,
        connection: Connection,
        name: str,
        mode: str,
        *,
        epoch: int | None,
        starting: str,
        owner_timeout: float | None,
        opening: Opening = Opening(),  # noqa: B008 - immutable
    ) -> replies.SubscriptionOpened:
        command = commands.OpenSubscription(
            name,
            mode,
            epoch,
            starting,
            owner_timeout,
            opening.take_over,
            opening.client,
            connection=cast("Any", connection),
        )
        return cast("replies.SubscriptionOpened", self._told(command, opening.now, opening.wall_us))

    def reserve(
        self,
        connection: Connection,
        request: int,
        start: int,
        *,
        messages: int,
        size: int,
        wait: float,
        below: int | None,
        now: float,
    ) -> None:
        command = commands.ReserveRequested(request, start, messages, size, wait, below, cast("Any", connection))
        self.execute(command, now, self.clocks.time_us(now))

    def commit_position(self, connection: Connection, position: int) -> int:
        return cast("int", self._told(commands.CommitRequested(0, position, cast("Any", connection))).base)

    def fetch(self, connection: Connection, start: int, stop: int) -> Fetching:
        """All that is asked for; what the queue tells is the first step of it."""
        self.execute(commands.FetchRequested(7, start, stop, cast("Any", connection)), 0.0, 0)
        effect = self.effects.pop()
        ledger = self.subscribers[connection].ledger
        segments = ledger.segments(start, stop)
        fetching = Fetching(lambda: pieces(ledger.name, segments, self.log.table))
        assert isinstance(effect, Tell)
        told = effect.reply
        assert isinstance(told, replies.FetchedRanges)
        step, later = list(fetching.read())[: len(told.ranges)], list(fetching)[len(told.ranges) :]
        assert (effect.connection, told.request) == (connection, 7)
        assert (list(told.ranges), told.rest) == ([piece for piece, _ in step], later[0].position if later else None)
        assert effect.after == max([self.barrier, *(event for _, event in step)])
        return fetching

    def browse(self, start: int, stop: int) -> Browsed:
        self.execute(commands.BrowseRequested(0, start, stop), 0.0, 0)
        effect = self.effects.pop()
        assert isinstance(effect, Tell)
        reply = effect.reply
        assert isinstance(reply, replies.FetchedRanges)
        return Browsed(tuple(reply.ranges), stop if reply.rest is None else reply.rest, effect.after)

    def release_subscription(self, name: str, now: float, *, delete: bool = False, force: bool = False) -> int:
        return cast(
            "int", self.execute(commands.ReleaseSubscription(name, delete, force), now, self.clocks.time_us(now))
        )

    # --- the rest

    def store_dead_letters(self, batch: MessageBatch, origin: Origin, now: float, wall_us: int) -> None:
        self.execute(letters.StoreDeadLetters(cast("Any", origin), origin, batch), now, wall_us)

    def dead_letters_stored(self, ranges: tuple[tuple[int, int], ...], now: float) -> None:
        self.execute(letters.DeadLettersMoved(ranges), now, self.clocks.time_us(now))

    def statistics(self, now: float) -> replies.QueueStatistics:
        return describe(self, now)

    def purge(self) -> int:
        """All of it: an actor goes by steps, and gives others their turn."""
        below = self.log.next_sequence
        return sum(iter(lambda: purge_step(self, below), 0))
