"""The table of arguments that RabbitMQ 3.10 knows of queues, exchanges, bindings, consumers and messages, and what may be said with each.

`tests.fault.test_amqp_arguments` says each of them alone to RabbitMQ and to a broker of ours, and holds the generators of the differential
test against the table: whatever stands here they must say, and what stands in `TOGETHER` they must say together.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from transport.gateways.amqp.tables import Field, Table

HOUR_MS: Final = 3_600_000
LIMIT_BYTES: Final = 14_000
"""Two bodies of 5,000 fit, and some small ones, be what they take beside their bodies counted or not; three do not."""
DEAD: Final = "dead"
"""Stands for the episode's exchange and queue of dead letters."""
CLASSIC, QUORUM = "classic", "quorum"
BOTH: Final = (CLASSIC, QUORUM)

NO_INTEGERS: Final = ("1", True, 1.5, None, Table.of({}), Field("A", ()), Field("T", 1), Field("x", b"1"))
NO_TEXTS: Final = (7, True, 1.5, None, Table.of({}), Field("A", ()), Field("T", 1), Field("x", b"a"))
NO_TRUTHS: Final = (1, "true", 1.5, None, Table.of({}), Field("A", ()))


def integers(value: int) -> tuple[Field, ...]:
    """A small number in every width that there is."""
    return tuple(Field(kind, value) for kind in "bBsuIil")


class Argument(NamedTuple):
    """One row.

    Attributes:
        name: as it is said.
        right: values that are taken.
        wrong: values that are refused; both brokers say the same then.
        kinds: of queues that take it. Of others RabbitMQ refuses it, and a broker of ours, whose queues are of one kind, does not.
    """

    name: str
    right: tuple[Any, ...]
    wrong: tuple[Any, ...] = ()
    kinds: tuple[str, ...] = BOTH


QUEUES: Final = (
    Argument("x-expires", (HOUR_MS, Field("l", HOUR_MS)), (0, -1, 1 << 62, *NO_INTEGERS)),
    Argument("x-message-ttl", (HOUR_MS, *integers(100)), (-1, 1 << 62, *NO_INTEGERS)),
    Argument("x-dead-letter-exchange", (DEAD,), NO_TEXTS),
    # Without the exchange it is wrong, whatever it says.
    Argument("x-dead-letter-routing-key", (), ("gone", *NO_TEXTS)),
    Argument("x-dead-letter-strategy", ("at-most-once", "at-least-once"), ("nonsense", *NO_TEXTS), (QUORUM,)),
    Argument("x-max-length", (3, *integers(3)), (-1, *NO_INTEGERS)),
    Argument("x-max-length-bytes", (LIMIT_BYTES, *integers(100)), (-1, *NO_INTEGERS)),
    Argument("x-max-in-memory-length", (0, 3), (-1, *NO_INTEGERS), (QUORUM,)),
    Argument("x-max-in-memory-bytes", (0, 3), (-1, *NO_INTEGERS), (QUORUM,)),
    Argument("x-max-priority", (0, 2, 5, 255, *integers(3)), (-1, 256, *NO_INTEGERS), (CLASSIC,)),
    Argument("x-overflow", ("drop-head", "reject-publish", "reject-publish-dlx"), ("nonsense", "", *NO_TEXTS)),
    Argument("x-queue-mode", ("default", "lazy"), ("nonsense", "", *NO_TEXTS), (CLASSIC,)),
    Argument("x-queue-version", (1, 2, *integers(2)), (0, 3, -1, *NO_INTEGERS), (CLASSIC,)),
    Argument("x-queue-master-locator", ("client-local", "min-masters", "random"), (), (CLASSIC,)),
    Argument("x-queue-leader-locator", ("client-local", "random"), ("nonsense", *NO_TEXTS), (QUORUM,)),
    Argument("x-quorum-initial-group-size", (1, 3), (0, -1, *NO_INTEGERS), (QUORUM,)),
    Argument("x-single-active-consumer", (True, False), NO_TRUTHS),
    Argument("x-queue-type", (CLASSIC,), ("nonsense", "", *NO_TEXTS), (CLASSIC,)),
    Argument("x-queue-type", (QUORUM,), (), (QUORUM,)),
    Argument("x-delivery-limit", (0, 2, *integers(2)), (), (QUORUM,)),
    Argument("x-unknown", ("kept", 1, True, None, Field("A", ())), ()),
)
EXCHANGES: Final = (
    Argument("alternate-exchange", (DEAD, "amq.fanout"), NO_TEXTS),
    Argument("x-unknown", ("kept", 1, True), ()),
)
BINDINGS: Final = (
    Argument("x-match", ("all", "any", "all-with-x", "any-with-x"), ("nonsense", "", *NO_TEXTS)),
    Argument("colour", ("red", 1, True, None), ()),
    Argument("x-colour", ("red", 1, True, None), ()),
)
CONSUMERS: Final = (
    Argument("x-priority", (0, -5, 1 << 40, *integers(2)), NO_INTEGERS),
    Argument("x-cancel-on-ha-failover", (True, False), NO_TRUTHS),
    Argument("x-unknown", ("passed over", 1, True), ()),
)
HEADERS: Final = (
    Argument(
        "CC", (Field("A", (Field("S", "a"),)), Field("A", ()), Field("A", (Field("S", "b"), Field("I", 7)))), (7, "a")
    ),
    Argument("BCC", (Field("A", (Field("S", "a"),)), Field("A", (Field("S", "b"), Field("S", "a")))), (7, "a")),
    Argument("x-delay", (1, 5_000, "soon"), ()),
    Argument("colour", ("red", 1, True, None), ()),
    Argument("x-colour", ("red", 1, True, None), ()),
)
"""Of a message. ``x-delay`` means nothing where no exchange has messages wait."""
PROPERTIES: Final = (
    Argument("expiration", (str(HOUR_MS), "+5000000"), ("-1", "soon", "", "1x", " 1", "1.5", str(1 << 62))),
    Argument("priority", (0, 3, 9, 255), ()),
    # Another one RabbitMQ 3 refuses; 4 does not, nor does a broker of ours.
    Argument("delivery_mode", (1, 2)),
    Argument("user_id", ("guest",), ("somebody",)),
)
"""Of a message likewise. A queue whose length is limited, or a place for dead letters, has its own part in what becomes of one."""


TOGETHER: Final = (
    # Levels with limits, and what drops goes over the levels.
    ("x-max-priority", "priority", "x-max-length", "x-overflow=drop-head", "x-dead-letter-exchange"),
    ("x-max-priority", "priority", "x-max-length", "x-overflow=reject-publish", "confirms"),
    ("x-max-priority", "priority", "x-max-length", "x-overflow=reject-publish-dlx", "x-dead-letter-exchange"),
    ("x-max-priority", "priority", "x-max-length-bytes"),
    ("x-max-priority", "priority", "expiration"),
    ("x-max-priority", "priority", "x-message-ttl", "x-dead-letter-exchange"),
    ("x-max-priority", "x-single-active-consumer", "x-priority"),
    ("x-max-priority", "x-queue-mode", "x-queue-version"),
    # Limits with what becomes of what is over them.
    ("x-max-length", "x-overflow=drop-head", "x-dead-letter-exchange", "x-dead-letter-routing-key"),
    ("x-max-length", "x-max-length-bytes", "x-message-ttl"),
    ("x-max-length", "x-overflow=reject-publish", "confirms", "mandatory"),
    ("x-max-length", "x-overflow=reject-publish-dlx", "confirms", "x-dead-letter-exchange"),
    ("x-max-length", "expiration", "x-dead-letter-exchange"),
    ("x-max-length", "x-single-active-consumer", "x-priority"),
    ("x-max-length", "CC"),
    ("x-max-length", "BCC"),
    # Time to live.
    ("x-message-ttl", "expiration", "x-dead-letter-exchange"),
    ("x-message-ttl", "delivery_mode", "x-queue-mode"),
    ("x-expires", "x-message-ttl", "x-dead-letter-exchange"),
    # Retries that count.
    ("x-queue-type=quorum", "x-delivery-limit", "x-dead-letter-exchange", "x-dead-letter-strategy"),
    ("x-queue-type=quorum", "x-delivery-limit", "x-dead-letter-exchange", "x-dead-letter-routing-key"),
    ("x-queue-type=quorum", "x-delivery-limit", "x-max-length", "x-overflow=drop-head"),
    ("x-queue-type=quorum", "x-delivery-limit", "x-message-ttl"),
    ("x-queue-type=quorum", "x-delivery-limit", "x-single-active-consumer"),
    ("x-queue-type=quorum", "x-delivery-limit", "x-quorum-initial-group-size", "x-queue-leader-locator"),
    ("x-queue-type=quorum", "x-max-in-memory-length", "x-max-in-memory-bytes"),
    # Who receives.
    ("x-single-active-consumer", "x-priority"),
    ("x-priority", "x-cancel-on-ha-failover"),
)
"""What a queue was declared with, a consumer of it says, or a message that is published to it by its name has: all of a line at once."""
