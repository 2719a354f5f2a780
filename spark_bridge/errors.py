"""What can go wrong between Spark and the broker, in words for the one who reads a failed query's stack trace."""

from __future__ import annotations

import re

from transport import DEFAULT_RECEIVE_ADDRESS, parse_address
from transport.errors import UnreachableError

RECEIVING_PORT = parse_address(DEFAULT_RECEIVE_ADDRESS).port
NO_SUBSCRIPTION = "no subscription "
"""In the text of ``not-found`` where the queue is there: an owner that connects again after its subscription was deleted is told so."""
_WORKER = re.compile(r"spark@(.+)/([0-9]+)/[0-9a-f]{8}")
"""What the owner of a streaming query calls itself."""


class SparkBridgeError(Exception):
    """Root of this package's errors."""


class OptionError(SparkBridgeError, ValueError):
    """An option that is unknown, missing, or has a value that it cannot have."""


class SchemaError(SparkBridgeError, ValueError):
    """A schema with a column that the source does not have, or has with another type."""


class CheckpointError(SparkBridgeError):
    """An offset that is not this subscription's: the checkpoint belongs to something else."""


OVERSIZED = "frame-too-large"
"""The broker's code where a read comes to a message that fits no frame."""


class OversizedMessageError(SparkBridgeError):
    """A read has come to a message that no frame of the broker carries: it came over AMQP."""

    def __init__(self, text: str, broker: str) -> None:
        super().__init__(
            f"broker {broker}: {text}. Receive it there, or set option oversized to skip: then the query leaves such messages out, and "
            "acknowledges them with the others"
        )


SHARED = (
    "Two subscriptions of one queue SHARE it: each message goes to one of them, none to both. Two queries that both need every message "
    "need two queues"
)
"""What people who know other brokers expect otherwise; said wherever a second name might look like the remedy."""


class SubscriptionTakenError(SparkBridgeError):
    """Another query, or another source of the same query, has taken the subscription over."""

    def __init__(self, subscription: str, queue: str) -> None:
        super().__init__(
            f"another query has taken over subscription {subscription!r} of queue {queue!r}, with takeOver=true or while this one's "
            f"connection was away; this one can neither read nor acknowledge any more. A subscription has one query"
        )
        self.subscription = subscription
        self.queue = queue


class SubscriptionInUseError(SparkBridgeError):
    """Another query reads the subscription, and lives.

    Attributes:
        owner: what that one calls itself; empty where it does not say.
    """

    def __init__(self, subscription: str, queue: str, broker: str, owner: str, seconds: float) -> None:
        super().__init__(
            f"another query reads subscription {subscription!r} of queue {queue!r} at broker {broker}, and did not leave within "
            f"{seconds:g} s{_named(owner)}. If it is this query, still running elsewhere, or another source of this query: end it. If it "
            f"is to make room at once: start this one with takeOver=true, which ends it. A subscription has one query. {SHARED}"
        )
        self.subscription = subscription
        self.queue = queue
        self.broker = broker
        self.owner = owner


def _named(owner: str) -> str:
    """An owner in an error's text: the process is one that Spark starts, and no program that anybody has started."""
    worker = _WORKER.fullmatch(owner)
    if worker is not None:
        return f": it is a Python worker of the driver on {worker[1]}, pid {worker[2]}"
    return f": it is {owner}" if owner else ""


class DataLossError(SparkBridgeError):
    """Positions that the query needs are acknowledged, released, or were lost with the broker.

    Args:
        subscription: its name.
        queue: its queue's.
        what: what is not there, behind the two names.
        cause: a sentence, or nothing.
        allowed: whether the query goes on without it, so that it needs no advice.
    """

    def __init__(self, subscription: str, queue: str, what: str, cause: str = "", *, allowed: bool = False) -> None:
        advice = "" if allowed else "find out why, then set failOnDataLoss=false to go on without what is gone: "
        super().__init__(f"{advice}subscription {subscription!r} of queue {queue!r} {what}. {cause}".strip())
        self.subscription = subscription
        self.queue = queue


class OtherQueueError(DataLossError):
    """The checkpoint's positions are of another queue: one with another name, or one of the same name that was made anew.

    Attributes:
        expected: the queue that the checkpoint is of.
        found: the queue that is there.
    """

    def __init__(
        self,
        subscription: str,
        queue: str,
        broker: str,
        expected: str,
        found: str,
        *,
        made_anew: bool,
        allowed: bool = False,
    ) -> None:
        if made_anew:
            cause = (
                "The queue was deleted and made anew, or its broker was started without its data (with --memory it keeps none): take a "
                "new checkpoint location"
            )
        else:
            cause = "Option queue names another queue than before: put it back, or take a new checkpoint location for the new one"
        begins = (
            ""
            if allowed
            else ". Or set failOnDataLoss=false: the query then begins anew where the subscription stands there"
        )
        SparkBridgeError.__init__(
            self,
            f"the checkpoint is that of {expected}, and subscription {subscription!r} at broker {broker} is of {found}. {cause}{begins}",
        )
        self.subscription = subscription
        self.queue = queue
        self.expected = expected
        self.found = found


def not_receiving(broker: str) -> OptionError:
    """The error of an address that serves no subscriptions."""
    return OptionError(
        f"{broker} serves no subscriptions: option brokers of a source takes receiving addresses, {DEFAULT_RECEIVE_ADDRESS} "
        "by default; this may be a sending one"
    )


_ERRNO = re.compile(r"^\[Errno -?[0-9]+\] ")


def unanswered(broker: str, why: str) -> str:
    """What is said of a broker that does not answer."""
    return (
        f"no broker answers at {broker} ({why}): is option brokers right (the receiving address, {RECEIVING_PORT}), and is a broker "
        "running there?"
    )


def why_unreachable(error: Exception, broker: str) -> str:
    """Why a broker cannot be reached, in a few words: whoever tells it names the broker."""
    text = _ERRNO.sub(
        "", (error.last if isinstance(error, UnreachableError) else str(error)).removeprefix(f"{broker}: ")
    )
    text = text[:1].lower() + text[1:]
    return f"{text}, {error.seconds:.0f} s" if isinstance(error, UnreachableError) else text


class BrokerUnreachableError(SparkBridgeError):
    """A broker that the query cannot do without could not be reached in time."""

    def __init__(self, broker: str, queue: str, why: str, hint: str = "") -> None:
        super().__init__(
            f"{unanswered(broker, why)} {hint}Nothing is lost: the query goes on where it was when it is started again"
        )
        self.broker = broker
        self.queue = queue
        self.why = why


class QueueMissingError(SparkBridgeError):
    """None of the brokers has the queue that is to be read, or its subscription; a batch read creates neither."""


class PlanOutdatedError(SparkBridgeError):
    """What a task was to read is not there any more as it was planned: the frame has to be loaded again."""


class WriteError(SparkBridgeError):
    """Rows that could not be written.

    Attributes:
        code: the broker's wire code, where it was the broker that refused; empty otherwise.
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type[WriteError], tuple[str, str]]:
        """Pickled by both arguments."""
        return type(self), (str(self), self.code)


class BadHeadersError(SparkBridgeError):
    """A message's headers are no msgpack map of strings, and ``badHeaders`` is ``fail``."""

    def __init__(self, queue: str, position: int) -> None:
        super().__init__(
            f"the message at position {position} of queue {queue!r} has headers that are no msgpack map of strings: its sender wrote "
            "something else. With the option badHeaders set to null they are null, and the row is read"
        )
        self.queue = queue
        self.position = position

    def __reduce__(self) -> tuple[type[BadHeadersError], tuple[str, int]]:
        return BadHeadersError, (self.queue, self.position)
