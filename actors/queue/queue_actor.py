"""The queue actor: dispatches messages to the pure ``QueueState`` and carries out the effects it asks for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import pykka

from actors.errors import DiskBehindError, InboxOverflowError, NextTurnError, QueueError, QueueGoneError, StorageError
from actors.queue.changes import Changes
from actors.queue.letters_line import LettersStep
from actors.queue.measures import Measures
from actors.queue.moves_out import Move, MovesOut
from actors.queue.operations.browsing import describe
from actors.queue.operations.dead_letters import has_room
from actors.queue.operations.purging import begin_purge, purge_step
from actors.queue.operations.sending import accept
from actors.queue.queue_output import QueueOutput
from actors.queue.queue_state import BESIDE_INCOMING, OPERATIONS
from actors.queue.refused_letters import RefusedLetters
from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.to_itself import DURABLE, STORE, TICK, Durable, Purge, Store, Tick
from actors.queue.vocabulary import commands, distributed, letters, moves, replies, takes
from actors.queue.vocabulary.budgets import IDS_BUDGET
from actors.queue.vocabulary.commands import Left, OfferBatch
from actors.queue.vocabulary.distributed import AwaitRoom, BatchRead, RoomMade, RoutesChanged, StoredBeside
from actors.queue.waited_out import letters_out
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_future import LaterReply
from actors.runtime.supervision import Supervision

if TYPE_CHECKING:
    from actors.queue.letters_out import Routes
    from actors.queue.queue_state import QueueState
    from actors.queue.vocabulary.replies import Connection
    from actors.queue.vocabulary.statistics import QueueStatistics
    from actors.runtime._loop_inbox import Watch
    from actors.runtime._loop_timer import TimerHandle
    from actors.storage import Storage

QUEUE_INBOX = 4_194_304
"""Messages that may wait for a queue: no bound to work with, but a last resort. What senders have under way is bounded by
their permits, a million by default, and what receivers answer by what they hold."""
STORE_TURNS = 3
"""Turns of the loop that a batch waits for others to be stored with, while more comes in each of them."""

logger = logging.getLogger("penstock.queue")


class QueueActor(LoopActor):
    """One queue. What it is told and what it tells is in ``actors.queue.vocabulary``.

    A connection is the ref that its messages carry; it is watched, and detached when its actor stops, or its inbox is full. The state
    survives a failing handler: what was in flight is ready again, and the connections, which cannot know what became of it, are to end.

    What leaves it waits in a gate for the events it depends on to be durable, so nobody acts on what a crash could undo.

    Args:
        state: the queue's state; the actor's own from now on.
        wall_clock: seconds since the epoch, for enqueue times. Deadlines are on the loop's clock.
        storage: where the state's events are made durable; None for a queue in memory.
        find_queue: the queue with a name, made if need be, for dead letters.
        changes: told that this queue has changed.
        measures: told how long messages take.
        routes: how dead letters get to exchanges; None where there are none.
    """

    supervision = Supervision.RESTART
    max_inbox: ClassVar[int] = QUEUE_INBOX

    def __init__(
        self,
        state: QueueState,
        wall_clock: Callable[[], float] = time.time,
        storage: Storage | None = None,
        find_queue: Callable[[str], commands.Ref] | None = None,
        changes: Changes | None = None,
        measures: Measures | None = None,
        routes: Routes | None = None,
    ) -> None:
        super().__init__()
        self._changes = Changes() if changes is None else changes
        self._state = state
        state.ids_left = IDS_BUDGET
        self._wall_clock = wall_clock
        self._storage = storage
        measures = Measures(wall_clock) if measures is None else measures
        self._confirmation = measures.confirmation
        elsewhere = None if routes is None else routes.queues.is_declared_elsewhere
        self._output = QueueOutput(
            self.actor_ref, state.name, state.number, storage, find_queue, elsewhere, self._unwatch, DURABLE, measures
        )
        self._moves = MovesOut(state, self._output)
        # Nobody waits for a sync of what a transient queue stores, and its thread least of all.
        self._begin_alone = storage.begin_alone if storage is not None and state.settings.durable else None
        self._letters = letters_out(state, self._output, routes)
        self._refused = RefusedLetters()
        # Queues with dead letters for this one, which was full.
        self._awaited: dict[commands.Ref, None] = {}
        self._timer: TimerHandle | None = None
        self._accepted_before = self._turns = 0
        # When the first of what is to be stored was accepted.
        self._accepted_at = 0.0
        self._watches: dict[Connection, Watch] = {}

    def on_start(self) -> None:
        """What was recovered may have something due."""
        self._carry_out()

    def on_receive(self, message: Any) -> Any:
        """Carry out one ``Command``; the return value is the answer to an ask.

        Raises:
            QueueError: to an ask that carries no connection.
            TypeError: a message of another kind.
        """
        kind = type(message)
        try:
            if kind is OfferBatch:
                return self._offer(message)
            handler = _HANDLERS.get(kind)
            if handler is not None:
                if kind is Store and self._more_comes():
                    return None
                if self._state.incoming:
                    # What was accepted comes first: nothing else may see the queue without it.
                    self._store(kind is Store)
                elif self._state.ready.known != self._state.log.next_sequence:
                    self._state.catch_up(self.loop.time())
                answer = handler(self, message)
                self._carry_out()
                return answer
            if kind not in OPERATIONS:
                raise TypeError(
                    f"a queue actor does not handle {kind.__name__}; actors.queue.vocabulary.commands has what it does"
                )
            answer = self._execute(message)
            self._carry_out()
        except QueueGoneError:
            # It was deleted, and is about to hear of it: that is no failure. Its connections are told as it stops.
            self.stop()
            if self.asked:
                raise
            return None
        return None if answer is None else self._output.answer_later(LaterReply(), answer, self._state.last_event)

    def _offer(self, message: OfferBatch) -> None:
        """Accept a batch, which asks for nothing: what comes of it comes when it is stored, with all that arrives together with it."""
        state = self._state
        fresh = not state.incoming
        try:
            accept(state, message, 0.0)
        except QueueError as error:
            self._refuse(message, error)
        except NextTurnError:
            state.ids_left = IDS_BUDGET
            if state.incoming:
                self._store(in_turn=False)
                self._carry_out()
            raise
        if fresh and state.incoming:
            self._accepted_at = self.loop.time()
            self.actor_ref.tell(STORE)

    def _execute(self, command: Any) -> Any:
        """Have the state carry out a command, or tell the connection why it does not."""
        kind, state = type(command), self._state
        attaches = kind in _ATTACHES
        if attaches and command.connection is None:
            raise TypeError(f"{kind.__name__} without a connection: there is nobody to tell what comes of it")
        if state.incoming and kind not in BESIDE_INCOMING:
            # Before the command, so that what goes wrong here is nothing that the command has done.
            self._store(in_turn=False)
        try:
            if kind is Left:
                self._unwatch(command.connection)
            answer = state.execute(command, wall_us=self._wall_us(), now=self.loop.time())
            if attaches:
                self._watch(command.connection)
        except QueueError as error:
            if kind is letters.StoreDeadLetters and isinstance(error, DiskBehindError):
                # They are still where they were, and come again.
                logger.warning("dead letters for %s wait: %s", state.name, error)
                return None
            self._refuse(command, error)
            return None
        else:
            return answer

    def _refuse(self, command: Any, error: QueueError) -> None:
        """Tell a command's connection why it was not carried out; raises ``error`` where it has none."""
        state, connection = self._state, getattr(command, "connection", None)
        if connection is None:
            raise error
        # It may tell of what has happened, and comes behind all that the connection is told of what it asked for before.
        if state.incoming:
            self._store(in_turn=False)
        self._carry_out()
        refused = replies.Refused(error.code, str(error), getattr(command, "request", None), error.close)
        self._output.tell(connection, refused, state.last_event)
        if self._output.ended:
            # It takes nothing more: what it said behind this is no sender's.
            self._carry_out()

    def on_restart(self, failure: BaseException) -> None:
        """Let go of every connection and take back what they held; the failure may have left either half done."""
        if isinstance(failure, StorageError) and self._storage is not None and self._storage.failure is not None:
            # The broker has been told, and is about to end; whatever was half done is told to nobody.
            self.stop()
        self._timer = None
        self._moves.forget()
        self._letters.forget()
        self._output.clear(failure)
        # Of those who browse the state knows nothing.
        connections = dict.fromkeys((*self._state.reset(self.loop.time()), *self._watches))
        for watch in self._watches.values():
            watch.cancel()
        self._watches.clear()
        refused = replies.Refused(
            "internal-error", f"the queue failed on {type(failure).__name__} and went on: connect again"
        )
        for connection in connections:
            self._output.tell(connection, refused)
        # Those who could not be told are detached already.
        self._output.ended.clear()
        self._carry_out()

    def on_stop(self) -> None:
        """Tell the connections that the queue is gone."""
        self._end(f"{self} stopped before its answer was durable", replies.QueueDeleted())

    def on_failure(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Too many restarts: connections and whoever asked are told, so that they do not wait for ever."""
        refused = replies.Refused("internal-error", "the queue failed for good, with what it held")
        self._end(f"{self} failed for good on {type(error).__name__}", refused)

    def _end(self, why: str, last: replies.Reply) -> None:
        """Whoever asked gets ``why``, and each connection ``last``; then nothing leads back here, and what was held is free at once."""
        if self._changes.names is not None:
            self._changes.names.add(self._state.name)
        self._moves.forget()
        self._letters.forget()
        self._output.clear(pykka.ActorDeadError(why))
        for connection in self._watches:
            self._output.tell(connection, last)
        self._watches.clear()
        self._output.end()
        self._state.end()
        self._changes.note(self._state.name)

    # --- carrying out

    def _carry_out(self) -> None:
        """Do what the state asks for, until it asks for nothing: each connection found dead makes more of it."""
        state, output = self._state, self._output
        if (changed := self._changes.names) is not None:
            changed.add(state.name)
        while True:
            if effects := state.take_effects():
                output.carry_out(effects)
                if output.letters:
                    self._letters.add(self, output.letters)
            if output.confirming:
                output.note_confirmed(self.loop.time())
            if not output.ended:
                break
            connection = output.ended.pop()
            # One that has stopped is about to be detached by its own last word, or its watch: only that says what has failed.
            if connection.is_alive() or connection not in self._watches:
                self._detach(connection)
        if self._awaited and has_room(state):
            self._tell_of_room()
        deadline = state.next_deadline()
        if deadline is not None and (self._timer is None or deadline < self._timer.when):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.schedule_at(deadline, TICK)

    def _tell_of_room(self) -> None:
        awaited, self._awaited = self._awaited, {}
        for queue in awaited:
            # One that does not take it looks again in time.
            with suppress(pykka.ActorDeadError, InboxOverflowError):
                queue.tell(RoomMade())

    # --- connections

    def _watch(self, connection: commands.Ref) -> None:
        if connection not in self._watches:
            self._watches[connection] = self.watch(connection, lambda _failure: self._connection_ended(connection))

    def _unwatch(self, connection: Connection) -> None:
        watch = self._watches.pop(connection, None)
        if watch is not None:
            watch.cancel()

    def _connection_ended(self, connection: commands.Ref) -> None:
        self._detach(connection)
        self._carry_out()

    def _detach(self, connection: commands.Ref) -> None:
        """Forget a connection that has gone without a word; nothing more is delivered to it, be it of what was just accepted."""
        self._unwatch(connection)
        self._state.forget(connection, wall_us=self._wall_us(), now=self.loop.time())

    # --- handlers

    def _store(self, in_turn: bool) -> None:
        storage, state = self._storage, self._state
        self._accepted_before = self._turns = 0
        first = state.log.next_sequence
        alone = in_turn and self._begin_alone is not None and self._begin_alone(len(state.incoming))
        try:
            state.store(wall_us=self._wall_us(), now=self.loop.time())
        finally:
            if alone and storage is not None:
                storage.end_alone()
        stored = state.log.next_sequence - first
        if stored:
            if storage is None or storage.durable >= state.last_event:
                self._confirmation.observe(self.loop.time() - self._accepted_at, stored)
            else:
                self._output.confirming.append((state.last_event, self._accepted_at, stored))

    def _more_comes(self) -> bool:
        """Whether to wait another turn of the loop before storing: while more comes in each, for a few."""
        accepted = len(self._state.incoming)
        if accepted <= max(1, self._accepted_before) or self._turns >= STORE_TURNS:
            return False
        self._accepted_before = accepted
        self._turns += 1
        self.loop.call_soon(self._wake_to_store)
        return True

    def _wake_to_store(self) -> None:
        self.actor_inbox.offer_beyond_bound(STORE)

    def _stored(self, _message: Store | StoredBeside) -> None:
        """What was accepted is stored, and what others have stored is noticed, before any message is handled."""

    def _wall_us(self) -> int:
        """The time of day, read before that of the loop: see `both_clocks`, which would cost more at each command."""
        # The wire has no times before 1970, whatever the clock was set to.
        return max(0, int(self._wall_clock() * US_PER_SECOND))

    def _purge(self, _message: commands.PurgeQueue) -> LaterReply:
        purge = Purge(self._output.promise(), *begin_purge(self._state))
        self._purge_on(purge)
        return purge.reply

    def _purge_on(self, purge: Purge) -> None:
        """A step of it; others have their turn between two of them."""
        purged = purge_step(self._state, purge.below)
        purge.messages += purged
        # What is being judged may be put back where the purge has been.
        if purged or self._state.judging is not None:
            self.schedule_at(self.loop.time(), purge)
        else:
            self._output.answer_later(purge.reply, purge.messages, self._state.last_event)

    def _move(self, message: moves.MoveMessages) -> LaterReply:
        return self._moves.begin(self, message, self._carry_out)

    def _move_on(self, move: Move) -> None:
        self._moves.go_on(self, move)

    def _moved(self, message: moves.ParcelsStored) -> None:
        self._moves.stored(self, message)

    def _await_room(self, message: AwaitRoom) -> None:
        self._awaited[message.source] = None

    def _room_made(self, _message: RoomMade) -> None:
        self._letters.room_made(self)

    def _routes_changed(self, _message: RoutesChanged) -> None:
        self._letters.routes_changed(self)

    def _letters_step(self, _message: LettersStep) -> None:
        self._letters.step(self)

    def _refused_step(self, _message: distributed.LettersRefused) -> None:
        self._refused.step(self, self._state, self._letters, self._output.refused)

    def _alter(self, message: commands.AlterQueue) -> LaterReply:
        answer = self._execute(message)
        self._letters.altered(self)
        return self._output.answer_later(LaterReply(), answer, self._state.last_event)

    def _statistics(self, message: commands.GetStatistics) -> QueueStatistics:
        return describe(self._state, self.loop.time(), parties=message.parties)

    def _durable(self, _message: Durable) -> None:
        self._output.release()

    def _read(self, _message: BatchRead) -> None:
        self._state.tick(self.loop.time())

    def _tick(self, _message: Tick) -> None:
        self._timer = None
        self._state.tick(wall_us=self._wall_us(), now=self.loop.time())


_ATTACHES = frozenset({commands.AttachSender, commands.AttachReceiver, commands.OpenSubscription, takes.AttachTaker})
"""Behind these the queue knows a connection."""

_HANDLERS: dict[type, Callable[[QueueActor, Any], Any]] = {
    commands.PurgeQueue: QueueActor._purge,
    commands.GetStatistics: QueueActor._statistics,
    moves.MoveMessages: QueueActor._move,
    moves.ParcelsStored: QueueActor._moved,
    StoredBeside: QueueActor._stored,
    BatchRead: QueueActor._read,
    AwaitRoom: QueueActor._await_room,
    RoomMade: QueueActor._room_made,
    RoutesChanged: QueueActor._routes_changed,
    LettersStep: QueueActor._letters_step,
    distributed.LettersRefused: QueueActor._refused_step,
    commands.AlterQueue: QueueActor._alter,
    Purge: QueueActor._purge_on,
    Move: QueueActor._move_on,
    Tick: QueueActor._tick,
    Store: QueueActor._stored,
    Durable: QueueActor._durable,
}
