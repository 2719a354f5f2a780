"""The operations of takers: messages by request, and what became of them; ``actors.queue.vocabulary.takes`` has the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import InvalidRequestError, QueueLimitError
from actors.limits import MAX_VISIBILITY_SECONDS, NO_DEADLINE
from actors.queue.operations import in_line
from actors.queue.operations.dead_letters import hand_over
from actors.queue.operations.delivering import end_wait
from actors.queue.operations.dispatch import dispatch
from actors.queue.operations.dropping import drop_over
from actors.queue.operations.failing import give_back
from actors.queue.operations.in_line import consume_no_more, takes_wait
from actors.queue.operations.receiving import is_new_receiver, tell_if_idle
from actors.queue.state.receivers import Receiver, Take
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.events import MessagesAcknowledged
from actors.queue.vocabulary.replies import Lost, MessagesTaken, TakenSettled
from actors.queue.vocabulary.settings import MAX_DELAYED
from actors.queue.vocabulary.takes import (
    MAX_TAKE_MESSAGES,
    MAX_TAKE_WAIT_SECONDS,
    MAX_TAKEN_MESSAGES,
    MAX_TAKES,
    Settlement,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.queue.state.core import QueueCore
    from actors.queue.state.entries import Span
    from actors.queue.vocabulary import takes
    from actors.queue.vocabulary.replies import Connection


def attach_taker(core: QueueCore, command: takes.AttachTaker, _now: float) -> None:
    """Make a taker known."""
    connection = is_new_receiver(core, command.connection)
    receiver = core.receivers[connection] = Receiver(connection, by_request=True, takes={})
    core.use.come()
    in_line.come(core, receiver)
    # Nobody may ever ask it for anything.
    tell_if_idle(core, receiver)


def take_messages(core: QueueCore, command: takes.TakeMessages, now: float) -> None:
    """Have a request wait for messages, or answer it with those that are there."""
    receiver = core.receiver(command.connection)
    receiver.last_take = command.request
    if receiver.takes is None:
        receiver.takes = {}
        consume_no_more(core, receiver, now)
    core.use.since = now
    waiting = receiver.takes
    visibility = _visibility(core, receiver, command)
    if not 1 <= command.messages <= MAX_TAKE_MESSAGES or command.bytes < 1:
        raise InvalidRequestError(
            f"{command.messages} messages and {command.bytes} bytes are asked for: 1 to {MAX_TAKE_MESSAGES} messages and a byte at least"
        )
    if not 0 <= command.wait <= MAX_TAKE_WAIT_SECONDS:
        raise InvalidRequestError(f"a wait of {command.wait} s is not between 0 and {MAX_TAKE_WAIT_SECONDS:.0f} s")
    if not 0 < visibility <= MAX_VISIBILITY_SECONDS and (receiver.by_request or visibility != NO_DEADLINE):
        raise InvalidRequestError(
            f"a visibility timeout of {visibility} s is not above 0 and at most {MAX_VISIBILITY_SECONDS:.0f} s"
        )
    if command.request in waiting:
        raise InvalidRequestError(f"request {command.request} waits already")
    if len(waiting) >= MAX_TAKES:
        raise QueueLimitError("MAX_TAKES", MAX_TAKES, "let fewer requests wait at the same time")
    if receiver.by_request and receiver.in_flight + command.messages > MAX_TAKEN_MESSAGES:
        raise QueueLimitError("MAX_TAKEN_MESSAGES", MAX_TAKEN_MESSAGES, "acknowledge or return what was taken before")
    take = Take(receiver, command.request, command.messages, command.bytes, visibility)
    waiting[command.request] = take
    core.wait_deadlines.push(take, now + command.wait)
    if not takes_wait(core, receiver):
        core.ring.join(take)
        dispatch(core, now)
    if command.wait == 0 and command.request in waiting and core.unfinished_at is None:
        if core.ring.reading:
            answer_late(core, take)
        else:
            answer_empty(core, take)


def _visibility(core: QueueCore, receiver: Receiver, command: takes.TakeMessages) -> float:
    """For how long what is taken is held: as long as the receiver holds what it demands, unless the request says less."""
    if command.visibility is not None:
        return command.visibility
    return core.settings.visibility_timeout if receiver.by_request else receiver.visibility


def answer_empty(core: QueueCore, take: Take) -> None:
    """There was nothing in its time."""
    end_wait(core, take)
    core.tell(take.receiver.connection, MessagesTaken(take.request, (), core.ready.messages))
    tell_if_idle(core, take.receiver)


def answer_late(core: QueueCore, take: Take) -> None:
    """Its time is over, and what it asks for may be being read: it is answered behind that."""
    if take.deadline is not None:
        core.wait_deadlines.forget(take)
    core.ring.late.append(take)


def answer_those_late(core: QueueCore) -> None:
    """What was read has left: there is nothing for who still waits."""
    if core.ring.late and not core.ring.reading and core.unfinished_at is None:
        late, core.ring.late = core.ring.late, []
        for take in late:
            if (take.receiver.takes or {}).get(take.request) is take:
                answer_empty(core, take)


def cancel_take(core: QueueCore, command: takes.CancelTake, _now: float) -> None:
    """Have a request wait no more."""
    receiver = core.receiver(command.connection)
    take = (receiver.takes or {}).get(command.request)
    if take is not None:
        end_wait(core, take)
    tell_if_idle(core, receiver)


def taken_seen(core: QueueCore, command: takes.TakenSeen, _now: float) -> None:
    """Count what was delivered."""
    core.total_out += command.messages
    core.total_redelivered += command.again


def give_back_unseen(core: QueueCore, command: takes.GiveBackUnseen, now: float) -> None:
    """Take back what nobody saw, as if nothing had happened."""
    receiver = _taker(core, command.connection)
    held, _ = _held(core, receiver, command.taken)
    for span in held:
        span.deliveries -= 1
        receiver.messages -= len(span)
        core.put_back(span, None)
    # By settings that were altered meanwhile some may leave in place of coming back.
    hand_over(core, now)
    if core.drops:
        drop_over(core, now)
    tell_if_idle(core, receiver)
    dispatch(core, now)


def settle_taken(core: QueueCore, command: takes.SettleTaken, now: float) -> None:
    """Acknowledge, return or extend what is still held."""
    receiver = _taker(core, command.connection)
    how, seconds = command.how, command.seconds
    if not 0 <= seconds <= MAX_VISIBILITY_SECONDS:
        raise InvalidRequestError(f"{seconds} s are not between 0 and {MAX_VISIBILITY_SECONDS:.0f} s")
    if how is Settlement.RETURN and seconds > 0 and len(core.ready.delayed) + len(command.taken) > MAX_DELAYED:
        raise QueueLimitError("MAX_DELAYED", MAX_DELAYED, "return fewer messages, or with no delay")
    held, lost = _held(core, receiver, command.taken)
    if how is Settlement.EXTEND:
        for span in held:
            core.leases.grant(receiver, span, now + seconds)
    elif how is Settlement.RETURN:
        give_back(core, held, now, seconds, command.failed, command.reason)
    elif held:
        core.commit(MessagesAcknowledged(merged(sorted((span.start, span.stop) for span in held))))
        core.grant()
    core.tell(receiver.connection, TakenSettled(command.request, tuple(lost)))
    tell_if_idle(core, receiver)
    if how is Settlement.RETURN:
        dispatch(core, now)


def _taker(core: QueueCore, connection: Connection) -> Receiver:
    receiver = core.receiver(connection)
    if not receiver.by_request:
        raise InvalidRequestError("this connection is no taker: it answers for what it has itself, not by requests")
    return receiver


def _held(
    core: QueueCore, receiver: Receiver, taken: Iterable[tuple[int, int]]
) -> tuple[list[Span], list[tuple[tuple[int, int], Lost]]]:
    """End the leases on what is held by just these deliveries; of the others, why it is not."""
    held: list[Span] = []
    lost: list[tuple[tuple[int, int], Lost]] = []
    for number, delivery in dict.fromkeys(taken):
        span = receiver.held.first_from(number)
        if span is not None and span.start <= number and span.deliveries == delivery:
            held += core.leases.take(receiver, number, number + 1)
        else:
            stored = number < core.log.next_sequence and core.log.acknowledged.reach(number) == number
            lost.append(((number, delivery), Lost.EXPIRED if stored else Lost.GONE))
    return held, lost
