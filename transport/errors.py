"""Errors of the transport: one root, the peer's fault and ours kept apart.

``code`` is the wire code (docs/protocol.md, "Error codes"); the text says what exceeded what and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping


class TransportError(Exception):
    """Root of every error of this package."""

    code = "internal-error"


class LocalProtocolError(TransportError):
    """Our own program asked for what the protocol does not allow (a message too large, a bad name)."""

    code = "protocol-error"


class RemoteProtocolError(TransportError):
    """The peer sent what the protocol does not allow. The connection ends; nothing else is touched."""

    code = "protocol-error"


class FrameTooLargeError(RemoteProtocolError):
    """A frame's announced length is over the limit in force."""

    code = "frame-too-large"

    def __init__(self, length: int, limit: int, advice: str = "send smaller batches", what: str = "frame") -> None:
        super().__init__(f"a {what} of {length} bytes exceeds the limit of {limit}; {advice}")
        self.length = length
        self.limit = limit


class ImpossibleTimeError(LocalProtocolError, ValueError):
    """Our own program gave a time that cannot be."""


class ArrowInputError(LocalProtocolError, ValueError):
    """Our own program gave Arrow data that cannot be sent: no such data, other columns, or a row that is no message."""


class MessageTooLargeError(LocalProtocolError):
    """One message does not fit a frame."""

    code = "frame-too-large"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"a message of {size} bytes exceeds the {limit} that fit a frame; split it or send a reference to it"
        )
        self.size = size
        self.limit = limit


class BackupRefusedError(TransportError):
    """A backup cannot be begun, or was given up by the broker; the text says why."""

    code = "backup-refused"


class ClusterChangeError(TransportError):
    """The members of a cluster cannot be changed so, or not now; the text says why."""

    code = "change-refused"


class NoClusterError(TransportError):
    """What is asked for is of a cluster, and the broker is in none."""

    code = "no-cluster"

    def __init__(self) -> None:
        super().__init__("this broker is alone, and of no cluster: docs/cluster.md says how three act as one")


class TruncatedFrameError(RemoteProtocolError, ConnectionError):
    """The stream ended inside a frame: the peer or the network broke off."""


class UnsupportedVersionError(RemoteProtocolError):
    """HELLO names a version that this side does not speak."""

    code = "unsupported-version"


class UnknownRoleError(RemoteProtocolError):
    """HELLO names a role that this address does not serve."""

    code = "unknown-role"


class InvalidNameError(RemoteProtocolError, ValueError):
    """A queue, client or subscription name out of its limits."""

    code = "invalid-name"


class ConfirmedLostError(RemoteProtocolError):
    """The broker no longer has what it had confirmed to a sender.

    Attributes:
        client_id: the producer.
        stored: the producer's number below which the broker has messages now.
        confirmed: the number below which it had confirmed them.
        where: where they were sent, as in ``queue orders``; "" where that is not known.
    """

    code = "data-loss"

    def __init__(self, client_id: str, stored: int, confirmed: int, where: str = "") -> None:
        super().__init__(
            f"{where and f'{where}: '}the broker has stored the messages of {client_id!r} below {stored}, but had confirmed those below "
            f"{confirmed}: it runs on older data than before, lost power with sync set to interval or never, or leads a cluster of the "
            "mode async or one since its leader was lost; or the queue was deleted meanwhile. "
            f"What is missing is lost, {confirmed - stored} of them: send it again with another client id"
        )
        self.client_id = client_id
        self.stored = stored
        self.confirmed = confirmed
        self.where = where


class BadHeadersError(TransportError, ValueError):
    """A message's headers cannot be read: whoever sent it did not write a msgpack map of strings, and no broker looks at headers.

    Attributes:
        queue: its queue.
        sequence: its number there.
    """

    code = "protocol-error"

    def __init__(self, queue: str, sequence: int, reason: str) -> None:
        super().__init__(
            f"message {sequence} of queue {queue!r} has headers that cannot be read ({reason}); "
            "headers_raw has the bytes as its sender wrote them, and the message can be acknowledged or rejected as any other"
        )
        self.queue = queue
        self.sequence = sequence


class QueueFullError(TransportError):
    """A queue that rejects what it has no room for did not store a batch, nor anything sent after it.

    Attributes:
        queue: its name; of what is published to an exchange, the exchange's.
        exchange: whether that is so.
        sequence: the producer's number of the first message that was not stored.
        messages: how many messages the rejected batch has.
        reason: the broker's words.
    """

    code = "queue-full"

    def __init__(self, queue: str, sequence: int, messages: int, reason: str, *, exchange: bool = False) -> None:
        where = f"a queue behind exchange {queue!r}" if exchange else f"queue {queue!r}"
        super().__init__(
            f"{where} rejected {messages} message{'' if messages == 1 else 's'} from number {sequence} on: {reason}. "
            "Send smaller batches, or "
            "more slowly, let receivers acknowledge, raise the queue's limits, or let the sender drop what is rejected (on_rejected='drop')"
        )
        self.queue = queue
        self.exchange = exchange
        self.sequence = sequence
        self.messages = messages
        self.reason = reason


class UnroutableError(TransportError):
    """No queue took a message that was published with ``mandatory``; the stream has ended with it.

    Attributes:
        exchange: where it was published.
        sequence: the producer's number of the first such message.
        messages: how many of its batch there are.
        reason: the broker's words.
    """

    code = "unroutable"

    def __init__(self, exchange: str, sequence: int, messages: int, reason: str) -> None:
        super().__init__(
            f"exchange {exchange!r} had no queue for {messages} message{'' if messages == 1 else 's'}, number {sequence} the first: "
            f"{reason}. Bind a queue, or have the sender be told of what comes back (on_returned) and go on"
        )
        self.exchange = exchange
        self.sequence = sequence
        self.messages = messages
        self.reason = reason


class DemandTimeoutError(TransportError):
    """A queue granted a sender that may not wait for ever nothing for too long.

    Attributes:
        queue: its name.
        seconds: how long nothing was granted.
    """

    code = "timeout"

    def __init__(self, queue: str, seconds: float) -> None:
        super().__init__(
            f"queue {queue!r} granted no room for {seconds:g} s: its receivers are slower than this query, or there are none, "
            "or open transactions hold all that may be staged (penstock transaction list). "
            "Start more receivers, raise the queue's limits (penstock stats shows what it holds), or wait longer (demandTimeout)"
        )
        self.queue = queue
        self.seconds = seconds


class StageLostError(TransportError):
    """The broker no longer has messages of a stage that it had confirmed.

    Attributes:
        stored: how many of the stage's messages it has.
        confirmed: how many it had confirmed.
    """

    code = "transaction-incomplete"

    def __init__(self, queue: str, stage: str, stored: int, confirmed: int) -> None:
        super().__init__(
            f"the broker has {stored} messages of stage {stage!r} in queue {queue!r}, but had confirmed {confirmed}: the transaction "
            "was aborted or timed out, or a broker without a journal was started anew. Stage the batch again under another name"
        )
        self.stored = stored
        self.confirmed = confirmed


class AuthenticationError(TransportError):
    """One side did not prove who it is: the client gave a wrong proof, or the broker none. Trying again changes nothing."""

    code = "authentication-failed"


class UnprovedBrokerError(AuthenticationError, RemoteProtocolError):
    """The broker let this client in without the exchange that was asked for, in which it would have proved itself."""


class AuthenticationRequiredError(TransportError):
    """The broker has users, and the client says nothing of who it is."""

    code = "authentication-required"


class ForbiddenError(TransportError):
    """Whoever asks may not do this. Whether what they ask for is there is not told.

    Attributes:
        user: who asks; None where it is not for a right that they are refused.
        right: the one that they have not; None where they have none at all.
        resource: of what; None for the broker.
        log: writes the line of who was refused what, with the right that they are told to lack. Of who has none at all whoever tells them
            knows which that is; None where the line is written.
    """

    code = "forbidden"
    log: Callable[[str], None] | None = None

    def __init__(
        self, text: str, *, user: str | None = None, right: str | None = None, resource: str | None = None
    ) -> None:
        super().__init__(text)
        self.user = user
        self.right = right
        self.resource = resource


class LimitExceededError(TransportError):
    """A named limit of the broker is reached."""

    code = "limit-exceeded"


class PeerTimeoutError(TransportError):
    """The peer was silent for longer than the protocol allows."""

    code = "timeout"


class ConnectionNotFoundError(TransportError):
    """An administrator names a connection that is not there."""

    code = "not-found"

    def __init__(self, number: int) -> None:
        super().__init__(f"there is no connection {number}; the list of connections has those that there are")
        self.number = number


class UnreadError(TransportError, ConnectionError):
    """The peer does not read what is written to it: too much waits, or it has waited for too long. The connection is cut."""

    code = "timeout"


ADVICE = "; is the broker running there? (penstock broker)"
"""What the error of a client ends with that has found no broker for as long as it may seek one."""
LEADERLESS_HINT = "`penstock cluster status` shows which of its nodes are there: half and one have to be"
LEADERLESS_ADVICE = f"; {LEADERLESS_HINT}"
"""The same where brokers were found, and none leads."""


class ConnectionLostError(TransportError, ConnectionError):
    """The connection ended before the work on it did, and may be tried again."""


class FellSilentError(ConnectionLostError):
    """The broker has said nothing for longer than it promised; it may still take connections, and others may answer sooner."""


class UnreachableError(ConnectionLostError):
    """No broker answered for as long as a client bears with that.

    Attributes:
        seconds: how long that was.
        last: why the last attempt failed.
    """

    def __init__(self, what: str, seconds: float, attempts: int, last: Exception) -> None:
        super().__init__(f"{what} could not be reached for {seconds:.1f} s ({attempts} attempts); the last: {last}")
        self.seconds = seconds
        self.last = str(last)


class BrokerError(TransportError):
    """The broker refused something and said why.

    Attributes:
        code: the wire code.
        text: the broker's words.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"the broker answered {code}: {text}")
        self.code = code
        self.text = text

    @property
    def transient(self) -> bool:
        """Whether connecting again may help."""
        return self.code in TRANSIENT_CODES


class NotLeaderError(BrokerError):
    """The broker does not lead its cluster. A client goes to the leader by itself, and fails with this where none was found for too long.

    Attributes:
        leader: the leader's addresses, as far as the broker knows; as it wrote them.
    """

    def __init__(self, code: str, text: str, leader: str = "") -> None:
        super().__init__(code, text)
        self.leader = leader


class OldBrokerError(TransportError):
    """The broker cannot do what is asked for, and would do something else."""


class MoveStoppedError(BrokerError):
    """A move of messages from one queue to another has ended before its time; what was moved stays moved.

    Attributes:
        moved: how many messages that were.
    """

    def __init__(self, code: str, text: str, moved: int) -> None:
        until = f"{moved} messages were moved until then" if moved else "nothing was moved"
        super().__init__(code, f"{text}; {until}")
        self.moved = moved


TRANSIENT_CODES = frozenset(
    {
        "shutting-down",
        "timeout",
        "internal-error",
        "limit-exceeded",
        "queue-deleted",
        "journal-failed",
        "closed",
        "not-leader",
    }
)
ELSEWHERE_CODES = frozenset({"shutting-down", "journal-failed", "not-leader"})
"""With these a broker of a cluster goes, and another one will lead: those with several addresses try the others at once."""


def forget_variables(error: BaseException) -> None:
    """Drop the traceback of ``error``, and of each error that led to it: it keeps every variable of the calls that it tells of."""
    led: list[BaseException | None] = [error]
    seen: set[int] = set()
    while led:
        one = led.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            led += [one.__cause__, one.__context__]


class DeadLetterError(TransportError):
    """Raised by a handler of a `Consumer`: its message can never be handled, and is to be a dead letter at once.

    Args:
        reason: why, for those who look at dead letters; what is longer than 300 bytes is cut.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = str(reason)  # an exception is given, too


class PartlyFailedError(TransportError):
    """Raised by a batch handler of a `Consumer`: some of its messages have failed, and the others are done.

    Args:
        failed: the places in the list of those that failed, from 0; or what each has failed with, by its place.
    """

    def __init__(self, failed: Mapping[int, Exception] | Iterable[int]) -> None:
        self.failed: dict[int, Exception] = dict(failed) if isinstance(failed, Mapping) else dict.fromkeys(failed, self)
        super().__init__(f"{len(self.failed)} of the batch failed")

    def __reduce__(self) -> tuple[object, ...]:
        # By pickle's own way it would be made anew of its text, the letters of which would be counted.
        return type(self), ((),), self.__dict__ | {"args": self.args}


class HandlerProcessError(TransportError):
    """A process of a `Consumer`'s handler has ended with a message in it, or could not be started; or stands for what cannot be pickled.

    The message that was in it has failed. Where an exception that the handler has raised cannot be carried to the consumer, this is
    raised in its place, with its type and text.
    """
