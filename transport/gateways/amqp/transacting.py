"""Transactions of one channel (AMQP 0-9-1, class tx): what is published and settled waits for ``tx.commit``, and then happens at once.

What is published is staged in its queues as it comes; where it goes is decided then, as with RabbitMQ. What is settled is withheld here, in
ranges. A commit is one record over all queues, and what ends the channel before rolls it back. Texts of errors are RabbitMQ's, where it has
such an error.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from actors.errors import StorageError
from actors.queue.passing_transactions import TransactionRejectedError
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.distributed import Settlement
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp.consuming import REASON, Outcome
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from actors.queue.passing_transactions import PassingTransaction
    from actors.queue.vocabulary.stages import StageKey
    from transport.broker.operations import Operations
    from transport.gateways.amqp.confirms import Confirms
    from transport.gateways.amqp.consuming import Consumer
    from transport.gateways.amqp.deliveries import Held
    from transport.gateways.amqp.held_back import HeldBack
    from transport.gateways.amqp.method import Method
    from transport.gateways.amqp.names import Names
    from transport.gateways.amqp.publishing_line import Returned

MOST_SETTLED: Final = 65_536
"""Ranges of deliveries that one transaction may settle: what is acknowledged in a row is one."""
RETURNED_BYTES: Final = 512
"""What each message counts as, besides, that no queue takes and that its client is to have back at the commit."""
ROOM_SECONDS: Final = 30.0
"""For which a commit waits for room for what was published: what fills the queue may be what the transaction itself acknowledges."""
PARTIAL: Final = "partial tx completion"


class Withholding(Protocol):
    """What the channel receives; see ``Receiving``."""

    def withheld_settled(self, taken: Sequence[Held[Consumer]]) -> None:
        """What was withheld is settled, and its queues know."""

    def withheld_put_back(self, taken: Sequence[Held[Consumer]]) -> None:
        """What was withheld is to be settled, as it was."""


class Published(Protocol):
    """What the channel publishes; see ``Publishing``."""

    confirms: Confirms | None
    transacted: bool

    async def all_confirmed(self) -> None:
        """Return when nothing is owed any more of what was published, or it is over."""


class Connected(Protocol):
    """The channel's connection.

    Attributes:
        operations: the door, for whoever it is.
        held_back: what its transactions keep until they are committed.
    """

    operations: Operations
    held_back: HeldBack


class Host(Protocol):
    """The channel, as its transactions see it.

    Attributes:
        names: of its connection's virtual host.
        transacting: its transactions; None where it has none.
    """

    names: Names
    transacting: Transacting | None

    @property
    def link(self) -> Connected:
        """Its connection."""

    @property
    def receiving(self) -> Withholding:
        """What it receives."""

    @property
    def publishing(self) -> Published:
        """What it publishes."""

    def publishing_over(self) -> None:
        """Nothing more comes of what was published: what comes next is another transaction's."""

    def give_back(self, messages: Sequence[Returned]) -> None:
        """Tell the client what no queue has taken."""

    def run(self, method: Method, work: Coroutine[None, None, Method | None]) -> None:
        """Have a command carried out. What the client has said behind it waits."""

    def say(self, method: Method) -> None:
        """Write a method."""

    def fail(self, error: AmqpError) -> None:
        """Have the channel end."""


def select(channel: Host, _: basic.TxSelect) -> None:
    """From now on the channel has transactions.

    Raises:
        AmqpError: PRECONDITION_FAILED: it has confirms.
    """
    if channel.publishing.confirms is not None:
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transacting is None:
        # What was published before is stored, and belongs to none.
        channel.publishing_over()
        channel.publishing.transacted = True
        channel.transacting = Transacting(channel)
    channel.say(basic.TxSelectOk())


def commit(channel: Host, method: basic.TxCommit) -> None:
    """All of it happens; errors as of `Transacting.commit`, and where there are no transactions."""
    channel.run(method, _of(channel).commit())


def roll_back(channel: Host, _: basic.TxRollback) -> None:
    """Nothing of it happens; an error where there are no transactions."""
    _of(channel).roll_back()
    channel.say(basic.TxRollbackOk())


def _of(channel: Host) -> Transacting:
    if channel.transacting is None:
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, "channel is not transactional")
    return channel.transacting


class Transacting:
    """One channel's transactions, one after another; the first begins with ``tx.select``.

    Args:
        host: the channel.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._under_way: PassingTransaction | None = None
        self._settled: list[tuple[Outcome, Held[Consumer]]] = []
        self._returned: list[Returned] = []
        self._returned_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def stage(self) -> StageKey:
        """Under what the next line publishes; raises QueueLimitError where there are too many."""
        if self._under_way is None:
            self._under_way = self._host.link.operations.passing_transaction()
        return self._under_way.stage()

    def settled(self, outcome: Outcome, taken: Iterable[Held[Consumer]]) -> None:
        """Deliveries are to be settled in one way, at the commit.

        Raises:
            AmqpError: PRECONDITION_FAILED: they are too many pieces.
        """
        for held in taken:
            if self._settled and (joined := _joined(*self._settled[-1], outcome, held)) is not None:
                self._settled[-1] = outcome, joined
                continue
            self._settled.append((outcome, held))
        if len(self._settled) > MOST_SETTLED:
            text = (
                f"{len(self._settled)} ranges of deliveries are settled in this transaction, above MOST_SETTLED of {MOST_SETTLED}: "
                "commit more often, or acknowledge in order"
            )
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, text)

    def returned(self, messages: Iterable[Returned]) -> None:
        """No queue takes these: the client hears of it at the commit."""
        before = self._returned_bytes
        for each in messages:
            self._returned.append(each)
            self._returned_bytes += len(each.body) + len(each.headers) + RETURNED_BYTES
        held_back = self._host.link.held_back
        held_back.add(self._returned_bytes - before)
        if (error := held_back.too_much()) is not None:
            self._host.fail(error)

    def awaits_room(self) -> None:
        """A commit waits until all is stored that was published; not for ever."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ROOM_SECONDS, self._no_room)

    def commit(self) -> Coroutine[None, None, Method]:
        """Have all of it happen, now; what is returned answers when it is durable.

        Raises:
            AmqpError: PRECONDITION_FAILED: a queue does not take what is published there. Nothing of the transaction has happened.
                INTERNAL_ERROR: the journal takes nothing more.
            QueueError: likewise, for another reason.
        """
        self._wait_no_more()
        under_way = self._under_way or self._host.link.operations.passing_transaction()
        try:
            number = under_way.commit(self._settlements())
        except TransactionRejectedError as error:
            text = f"{PARTIAL}: {self._host.names.shown(str(error))}"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, text, basic.TxCommit.INDEX) from None
        except StorageError as error:
            text = f"the broker can store nothing any more and stops: {error}"
            raise AmqpError(ReplyCode.INTERNAL_ERROR, text, basic.TxCommit.INDEX) from None
        self._under_way = None
        settled, self._settled = self._settled, []
        self._host.receiving.withheld_settled([held for _, held in settled])
        return self._committed(under_way, number)

    async def _committed(self, transaction: PassingTransaction, number: int) -> Method:
        await transaction.durable(number)
        # What no queue takes is told with what the others have taken, behind whatever was published before it.
        await self._host.publishing.all_confirmed()
        self._host.publishing_over()
        returned = self._forget_returned()
        if returned:
            self._host.give_back(returned)
        return basic.TxCommitOk()

    def roll_back(self) -> None:
        """Nothing of it happens, and what was settled is to be settled again."""
        self._host.publishing_over()
        self.end()
        settled, self._settled = self._settled, []
        self._host.receiving.withheld_put_back([held for _, held in settled])

    def end(self) -> None:
        """The channel is over, and what it holds goes back: likewise."""
        self._wait_no_more()
        self._forget_returned()
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.roll_back()

    # Inside

    def _settlements(self) -> list[Settlement]:
        """What is settled, by who holds it."""
        by_holder: dict[Consumer, dict[Outcome, list[tuple[int, int]]]] = {}
        for outcome, held in self._settled:
            ranges = by_holder.setdefault(held.holder, {each: [] for each in Outcome})
            ranges[outcome].append((held.first, held.first + held.messages))
        return [
            Settlement(
                self._host.names.queue(holder.queue),
                holder.number,
                holder.actor,
                merged(sorted(ranges[Outcome.ACKNOWLEDGED])),
                merged(sorted(ranges[Outcome.REFUSED])),
                merged(sorted(ranges[Outcome.RETURNED])),
                REASON,
            )
            for holder, ranges in by_holder.items()
            if holder.actor is not None
        ]

    def _forget_returned(self) -> list[Returned]:
        self._host.link.held_back.add(-self._returned_bytes)
        returned, self._returned, self._returned_bytes = self._returned, [], 0
        return returned

    def _wait_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _no_room(self) -> None:
        self._timer = None
        text = (
            f"{PARTIAL}: nothing of the transaction is done: a queue has had no room for {ROOM_SECONDS:.0f} s for what is published "
            "there; if its own deliveries fill it, acknowledge them in a transaction before"
        )
        self._host.fail(AmqpError(ReplyCode.PRECONDITION_FAILED, text, basic.TxCommit.INDEX))


def _joined(before: Outcome, last: Held[Consumer], outcome: Outcome, held: Held[Consumer]) -> Held[Consumer] | None:
    """Both as one, where they are settled alike and in a row; else None."""
    if (
        before is outcome
        and last.holder is held.holder
        and last.first + last.messages == held.first
        and last.tag + last.messages == held.tag
    ):
        return last._replace(messages=last.messages + held.messages)
    return None
