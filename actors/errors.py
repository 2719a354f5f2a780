"""Errors of the actors package: one root, one class for each thing that a caller can do something about.

A dead actor is reported with pykka's own ``ActorDeadError``, so code written for pykka handles both runtimes alike.
"""

from __future__ import annotations

from typing import ClassVar


class ActorError(Exception):
    """Root of every error that this package raises of its own."""


class NoEventLoopError(ActorError, RuntimeError):
    """An actor has no event loop to live on, or its loop is not known yet."""


class BlockingCallOnLoopError(ActorError, RuntimeError):
    """A call that would block was made on the thread of a running event loop.

    Blocking there would stop every actor on that loop, in most cases the very one whose answer is awaited.
    """


class AsyncHandlerError(ActorError, TypeError):
    """A handler or hook is a coroutine; messages are handled whole, so handlers are plain functions."""


class InboxOverflowError(ActorError):
    """A message was refused because the actor's inbox is full.

    Attributes:
        actor: the actor, as text.
        bound: how many messages its inbox holds.
    """

    def __init__(self, actor: str, bound: int) -> None:
        super().__init__(
            f"the inbox of {actor} is full at {bound} messages: send it no more than it asks for, "
            "handle its messages faster, or raise max_inbox on its class"
        )
        self.actor = actor
        self.bound = bound


class NextTurnError(ActorError):
    """An actor's handler raises this where it has done as much as there is to be in one turn, and nothing of this message.

    The message is handled again in the loop's next turn, before all that is behind it in the inbox.
    """


class TooManyTimersError(ActorError):
    """An actor has as many pending timers as it may have.

    Attributes:
        actor: the actor, as text.
        bound: how many timers it may have pending.
    """

    def __init__(self, actor: str, bound: int) -> None:
        super().__init__(
            f"{actor} already has {bound} timers pending: keep one timer for the earliest deadline of many, "
            "or raise max_timers on its class"
        )
        self.actor = actor
        self.bound = bound


class BatchError(ActorError, ValueError):
    """A batch that cannot be built, or received bytes that are not one."""


class StorageError(ActorError):
    """What is stored cannot be read, or nothing can be stored any more: the broker ends, and says why.

    Nothing that was acknowledged is lost by it; the text says what to do.
    """

    told = False
    """Whoever ends the broker has been told, and says it once: nobody else need."""


class NoStorageError(StorageError):
    """What was named as a data directory is none: a file, or, where one has to be there, nothing or a directory without a journal."""


class BackupFailedError(StorageError):
    """A backup cannot be made or restored; the text says why. No broker is concerned."""


class QueueError(ActorError):
    """A queue refused a command and is as it was before.

    Attributes:
        code: the wire code, as in docs/protocol.md, "Error codes".
        close: whether the connection that sent the command ends with it.
    """

    code: ClassVar[str] = "internal-error"
    close: ClassVar[bool] = True


class QueueGoneError(QueueError):
    """The queue was deleted while something of it was being read."""

    code = "queue-deleted"

    def __init__(self) -> None:
        super().__init__("the queue was deleted, and what it held is gone")


class InvalidRequestError(QueueError, ValueError):
    """A command whose arguments, or whose time, the protocol does not allow."""

    code = "protocol-error"


class DemandExceededError(QueueError):
    """A sender sent more than it was granted.

    Attributes:
        messages: how many messages the batch has.
        size: bytes of the batch's body.
        granted_messages: how many it might have had.
        granted_bytes: how many bytes all but its last message had to be below.
    """

    code = "demand-exceeded"

    def __init__(self, messages: int, size: int, granted_messages: int, granted_bytes: int) -> None:
        super().__init__(
            f"a batch of {messages} messages and {size} bytes exceeds the demand left, {granted_messages} messages and "
            f"{granted_bytes} bytes: wait for more demand, or send smaller batches"
        )
        self.messages = messages
        self.size = size
        self.granted_messages = granted_messages
        self.granted_bytes = granted_bytes


class SequenceGapError(QueueError):
    """A producer left out messages.

    Attributes:
        expected: the client number that had to come next.
        received: the one that came.
    """

    code = "protocol-error"

    def __init__(self, expected: int, received: int) -> None:
        super().__init__(
            f"message {received} of this producer came where {expected} had to: what lies between would be missing. Send from number "
            f"{expected} on, each message with the number it had; how they are cut into batches may differ"
        )
        self.expected = expected
        self.received = received


class UnknownAcknowledgementError(QueueError):
    """A range names a message that the connection does not hold: never delivered on it, or given back already.

    Attributes:
        first: the first sequence number of the range.
        stop: the number after its last.
        unknown: the first number in it that is not held.
    """

    code = "unknown-acknowledgement"

    def __init__(self, first: int, stop: int, unknown: int) -> None:
        super().__init__(
            f"messages {first} to {stop - 1} are named, but {unknown} was not delivered on this connection or was "
            "acknowledged or returned already: answer each delivery of a message once"
        )
        self.first = first
        self.stop = stop
        self.unknown = unknown


class QueueLimitError(QueueError):
    """A named limit of the queue is reached.

    Attributes:
        limit: its name.
        bound: its value.
    """

    code = "limit-exceeded"

    def __init__(self, limit: str, bound: int, advice: str) -> None:
        super().__init__(f"{limit} of {bound} is reached: {advice}")
        self.limit = limit
        self.bound = bound


class RecordTooLargeError(QueueError):
    """A batch comes with more facts (names, numbers, properties) than a record of the journal has room for beside the messages.

    Attributes:
        size: bytes of the facts.
        limit: bytes that a record has for them.
    """

    code = "frame-too-large"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"a record's header of {size} bytes exceeds {limit}: use shorter names for producer, writer and stage"
        )
        self.size = size
        self.limit = limit


class TooMuchTogetherError(QueueError):
    """Events of several queues are more than one record may hold. Nothing has happened.

    Attributes:
        what: of what there is too much.
        size: how much there is.
        limit: how much there may be.
    """

    code = "limit-exceeded"

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{size} {what} in one record exceed {limit}: do it in several steps")
        self.what = what
        self.size = size
        self.limit = limit


class MapLimitError(QueueError):
    """The durable map has no room for an entry, or the entry is too large. Nothing has happened.

    Attributes:
        size: what there would be.
        limit: the limit's name.
        bound: its value.
    """

    code = "limit-exceeded"
    close = False

    def __init__(self, what: str, size: int, limit: str, bound: int, advice: str) -> None:
        super().__init__(f"{what}: {size} exceed {limit} of {bound}: {advice}")
        self.size = size
        self.limit = limit
        self.bound = bound


class DiskBehindError(QueueError):
    """More waits for the disk than may wait in memory, so nothing is taken in. It is over when the disk has followed.

    Attributes:
        pending: bytes that wait.
        limit: bytes that may.
    """

    code = "limit-exceeded"

    def __init__(self, pending: int, limit: int) -> None:
        super().__init__(
            f"{pending} bytes wait for the disk, and MAX_PENDING_BYTES is {limit}: this is not stored; send it again"
        )
        self.pending = pending
        self.limit = limit


class TransactionCommittedError(QueueError):
    """A message is staged for a version that is committed: its batch was taken from other stages.

    Attributes:
        writer: whose transaction.
        version: its number.
    """

    code = "transaction-committed"

    def __init__(self, writer: str, version: int) -> None:
        super().__init__(
            f"version {version} of writer {writer!r} is committed, and nothing can be added to it: an attempt that won has "
            "done this one's work"
        )
        self.writer = writer
        self.version = version


class TransactionIncompleteError(QueueError):
    """A commit names a stage that the queue does not hold, or not just so many messages of it.

    Attributes:
        queue: where the stage is to be.
        stage: its name.
        messages: how many messages it is to hold.
        found: how many the queue has.
    """

    code = "transaction-incomplete"
    close = False

    def __init__(self, queue: str, stage: str, messages: int, found: int) -> None:
        super().__init__(
            f"stage {stage!r} is committed with {messages} messages in queue {queue!r}, which has {found} of it: what is staged is "
            "discarded by an abort and after transaction_timeout without a connection; stage the batch again"
        )
        self.queue = queue
        self.stage = stage
        self.messages = messages
        self.found = found


class StageDiscardedError(QueueError):
    """A transaction was aborted while a sender was at it.

    Attributes:
        queue: where the stage was.
        stage: its name.
    """

    code = "transaction-incomplete"

    def __init__(self, queue: str, stage: str) -> None:
        super().__init__(f"stage {stage!r} of queue {queue!r} was discarded by an abort: stage the batch again")
        self.queue = queue
        self.stage = stage


class StageGoneError(QueueError):
    """A queue has lost what it held of a stage that is written through an exchange: what the others hold is a half.

    Attributes:
        queue: where it was.
        stage: the stage's name.
    """

    code = "transaction-incomplete"

    def __init__(self, queue: str, stage: str) -> None:
        super().__init__(f"queue {queue!r} has lost what it held of stage {stage!r}: stage the batch again")
        self.queue = queue
        self.stage = stage


class TransactionTooLargeError(QueueError):
    """A transaction would hold more in one queue than may be staged there.

    Attributes:
        limit: the limit's name.
        bound: its value.
        amount: what the transaction would hold.
    """

    code = "transaction-too-large"

    def __init__(self, queue: str, writer: str, version: int, limit: str, bound: int, amount: int) -> None:
        super().__init__(
            f"version {version} of writer {writer!r} would have {amount} of {limit} {bound} staged in queue {queue!r}: commit smaller "
            "batches, or raise the limit"
        )
        self.limit = limit
        self.bound = bound
        self.amount = amount


class SubscriptionNotFoundError(QueueError):
    """A subscription that nobody has opened as its owner.

    Attributes:
        subscription: its name.
    """

    code = "not-found"
    close = False

    def __init__(self, subscription: str) -> None:
        super().__init__(f"there is no subscription {subscription!r}: it is made when its owner first opens it")
        self.subscription = subscription


class SubscriptionOwnedError(QueueError):
    """Another owner has the subscription, and lives: its connection is open, and was heard within its heartbeats.

    Args:
        subscription: its name.
        owner: what the owner calls itself; empty where it does not say.
        remedy: what whoever asks may do.

    Attributes:
        subscription: its name.
        owner: what the owner calls itself; empty where it does not say.
    """

    code = "subscription-owned"

    def __init__(self, subscription: str, owner: str, remedy: str) -> None:
        by = f" ({owner})" if owner else ""
        super().__init__(f"subscription {subscription!r} has an owner that is connected{by}: {remedy}")
        self.subscription = subscription
        self.owner = owner


class StaleEpochError(QueueError):
    """Another owner has taken the subscription.

    Attributes:
        subscription: its name.
        epoch: the epoch of whoever asks.
        current: the epoch in force.
    """

    code = "stale-epoch"
    close = False

    def __init__(self, subscription: str, epoch: int, current: int) -> None:
        super().__init__(
            f"epoch {epoch} of subscription {subscription!r} is over, {current} is in force: another reader has taken "
            "it; give each reader a subscription of its own"
        )
        self.subscription = subscription
        self.epoch = epoch
        self.current = current


class DataLossError(QueueError):
    """A position that was acknowledged, released, or never reserved.

    Attributes:
        subscription: its name.
        start: the first position asked for.
        stop: the position after the last.
        base: the lowest position that there is.
        high: the position after the highest.
    """

    code = "data-loss"
    close = False

    def __init__(self, subscription: str, start: int, stop: int, base: int, high: int) -> None:
        super().__init__(
            f"ledger positions {start} to {stop} of subscription {subscription!r} are asked for, it holds {base} to {high}: "
            "what is missing was acknowledged or released, or was lost with a broker that held it in memory"
        )
        self.subscription = subscription
        self.start = start
        self.stop = stop
        self.base = base
        self.high = high
