"""The moves of messages out of a queue: each goes on step by step, while the queue serves everybody else between two of them.

A step is one message to the other queue and one back. Of one move there is one step under way at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pykka

from actors.errors import InboxOverflowError, QueueGoneError
from actors.queue.operations.histories import without_history
from actors.queue.operations.moving import settle_all, take_parcels, waits_for_its_turn
from actors.queue.vocabulary.moves import MOVE_PAUSE, MessagesHandedOver, SilentQueueError, StoreParcels

if TYPE_CHECKING:
    from actors.errors import QueueError
    from actors.queue.queue_output import QueueOutput
    from actors.queue.queue_state import QueueState
    from actors.queue.vocabulary.moves import MoveMessages, Parcel, ParcelsStored
    from actors.runtime._loop_inbox import Watch
    from actors.runtime._loop_timer import TimerHandle
    from actors.runtime.loop_actor import LoopActor
    from actors.runtime.loop_future import LaterReply

STEP_TIMEOUT = 3.0
"""Seconds after which the other queue has failed on what it was handed. Nothing is in doubt then: each parcel says who has it."""


class Move:
    """One of them; told to the queue by its own timer, it goes on."""

    __slots__ = ("after", "below", "command", "ends", "left", "moved", "parcels", "reply", "timer", "watch")

    def __init__(self, command: MoveMessages, reply: LaterReply, below: int, ends: float) -> None:
        self.command = command
        self.reply = reply
        self.below = below
        self.ends = ends
        self.left = command.count
        self.moved = self.after = 0
        self.parcels: tuple[Parcel, ...] = ()
        self.timer: TimerHandle | None = None
        self.watch: Watch | None = None


class MovesOut:
    """All moves that are under way out of one queue.

    The queue's actor is given with each call: a way back from here would keep it from being free as soon as it has stopped.

    Args:
        state: what the queue holds.
        output: its way to whoever has asked.
    """

    def __init__(self, state: QueueState, output: QueueOutput) -> None:
        self._state = state
        self._output = output
        self._moves: dict[Move, None] = {}

    def begin(self, actor: LoopActor, command: MoveMessages, carry_out: Callable[[], None]) -> LaterReply:
        """Move what can be received now. ``carry_out`` does what the state asks for where no message to the queue has led to it."""
        log = self._state.log
        below = log.next_sequence if command.below is None else min(command.below, log.next_sequence)
        move = Move(command, self._output.promise(), below, actor.loop.time() + command.seconds)
        self._moves[move] = None

        def gone(_failure: BaseException | None) -> None:
            self._target_gone(actor, move)
            carry_out()

        move.watch = actor.watch(command.target, gone)
        self._step(actor, move)
        return move.reply

    def go_on(self, actor: LoopActor, move: Move) -> None:
        """Its timer has come: the next step, or the end of one that was never answered."""
        if move not in self._moves or (move.timer is not None and move.timer.pending()):
            return  # of a timer that had rung when it was cancelled, and another is set
        move.timer = None
        if move.parcels:
            self._settle(actor, move)
            self._end(move, SilentQueueError(STEP_TIMEOUT))
        else:
            self._step(actor, move)

    def stored(self, actor: LoopActor, answer: ParcelsStored) -> None:
        """The other queue has looked at what it was handed."""
        # One that was given up is not among them: what was stored of it is known, and nothing more will be.
        for move in self._moves:
            if move.parcels is answer.parcels:
                break
        else:
            return
        self._settle(actor, move)
        if answer.refusal is not None:
            self._end(move, answer.refusal)
        else:
            # In a turn of its own: everybody else has theirs between two steps.
            move.timer = actor.schedule_at(actor.loop.time(), move)

    def forget(self) -> None:
        """The queue has stopped, or has failed and begins again with what is known for sure; whoever asked is told so by others."""
        for move in list(self._moves):
            self._leave(move)

    def _step(self, actor: LoopActor, move: Move) -> None:
        now = actor.loop.time()
        if move.left == 0 or now >= move.ends:
            self._end(move)
            return
        command = move.command
        parcels = move.parcels = tuple(take_parcels(self._state, move.below, move.left, command.id_prefix, now))
        if command.keep_history is not True:
            died_in = None if command.keep_history is False else command.name
            for parcel in parcels:
                parcel.batch = without_history(parcel.batch, died_in)
        if not parcels:
            if waits_for_its_turn(self._state, move.below):
                move.timer = actor.schedule(MOVE_PAUSE, move)
            else:
                self._end(move)
            return
        move.timer = actor.schedule(STEP_TIMEOUT, move)
        try:
            command.target.tell(StoreParcels(actor.actor_ref, parcels))
        except pykka.ActorDeadError:
            self._target_gone(actor, move)
        except InboxOverflowError:
            self._settle(actor, move)
            self._end(move, SilentQueueError(0))

    def _settle(self, actor: LoopActor, move: Move) -> None:
        """What is stored of a step is gone from here, and the rest is back."""
        if move.timer is not None:
            move.timer.cancel()
            move.timer = None
        parcels, move.parcels = move.parcels, ()
        # Whatever has led here: what is told of them waits for the disk.
        move.after = max((move.after, *(parcel.event for parcel in parcels)))
        moved = settle_all(self._state, parcels, actor.loop.time())
        move.moved += moved
        if move.left is not None:
            move.left -= moved

    def _target_gone(self, actor: LoopActor, move: Move) -> None:
        if move in self._moves:
            self._settle(actor, move)
            self._end(move, QueueGoneError())

    def _end(self, move: Move, refusal: QueueError | None = None) -> None:
        more = move.left != 0 and waits_for_its_turn(self._state, move.below)
        self._leave(move)
        answer = MessagesHandedOver(move.moved, move.below, more, refusal)
        self._output.answer_later(move.reply, answer, move.after)

    def _leave(self, move: Move) -> None:
        self._moves.pop(move)
        for held in (move.timer, move.watch):
            if held is not None:
                held.cancel()
        move.timer = move.watch = None
        move.parcels = ()
