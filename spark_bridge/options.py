"""The options of ``format("penstock")``: names, defaults, and what each value may be.

Spark hands options over as strings with lower-cased names. An unknown one is an error, because a misspelt option that is ignored
shows only when something is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spark_bridge.errors import OptionError
from transport import DEFAULT_RECEIVE_ADDRESS, LocalProtocolError, parse_address

DEFAULT_MAX_ROWS_PER_BATCH = 500_000
"""Half of what a queue stores by default: one batch can be filled while the one before waits to be acknowledged."""
DEFAULT_MAX_BYTES_PER_BATCH = 64 * 2**20
"""A quarter of what a queue stores by default, for the same reason and with room to spare."""
MAX_NAME_BYTES = 255
UNITS_MS = {"": 1000, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
UNITS_BYTES = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30}
_QUANTITY = re.compile(r"(\d+)\s*([a-z]*)")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a source, checked.

    Attributes:
        queue: the queue's name.
        brokers: receiving addresses, ``host:port``.
        subscription: the subscription's name; empty if none was given.
        max_rows_per_batch: rows of one micro-batch at most.
        max_bytes_per_batch: bytes of one micro-batch's messages at most; one message is always let through.
        min_partitions: tasks of one micro-batch at least, rows permitting; None for the default.
        max_records_per_partition: rows of one task at most; None for no limit.
        starting_offsets: ``earliest`` or ``latest``, when the subscription is created.
        include_headers: whether ``headers`` is among the columns.
        fail_on_data_loss: whether positions that are gone end the query or are reported and skipped.
        ack_on: ``commit`` or ``poll``.
        owner_timeout_ms: how long reservations outlive the query's connection; None for ever.
        broker_down: ``wait`` for a broker that cannot be reached, or ``continue`` with the others meanwhile.
        starting_position: the first position that a batch read without a subscription reads; None for the oldest message.
        ending_position: where it stops, itself not read; None for the end of the queue as of the plan.
        token: passed to the broker.
    """

    queue: str = ""
    brokers: tuple[str, ...] = (DEFAULT_RECEIVE_ADDRESS,)
    subscription: str = ""
    max_rows_per_batch: int = DEFAULT_MAX_ROWS_PER_BATCH
    max_bytes_per_batch: int = DEFAULT_MAX_BYTES_PER_BATCH
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    starting_offsets: str = "earliest"
    include_headers: bool = False
    fail_on_data_loss: bool = True
    ack_on: str = "commit"
    owner_timeout_ms: int | None = None
    broker_down: str = "wait"
    starting_position: int | None = None
    ending_position: int | None = None
    token: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SourceOptions:
        """Check the options of a source.

        Raises:
            OptionError: one is unknown, missing, given twice under two names, or has a value it cannot have.
        """
        values: dict[str, Any] = {}
        said: dict[str, str] = {}
        for name, text in given.items():
            option = _BY_NAME.get(name.lower())
            if option is None:
                raise OptionError(f"unknown option {name!r}; known are {', '.join(_KNOWN)}")
            if option.attribute in said:
                raise OptionError(f"options {said[option.attribute]!r} and {name!r} are the same; give one")
            said[option.attribute] = name
            try:
                values[option.attribute] = option.parse(str(text).strip())
            except ValueError as error:
                shown = "a value" if option.attribute == "token" else repr(text)
                raise OptionError(f"option {option.names[0]} has {shown}: {error}") from None
        if "queue" not in values:
            raise OptionError('option queue is missing: .option("queue", "orders")')
        return replace(cls(), **values)

    def for_streaming(self) -> SourceOptions:
        """These options, if a streaming query can use them.

        Raises:
            OptionError: there is no subscription (a name that was made up would strand what a query reserved before it crashed), or
                an option is a batch read's.
        """
        if not self.subscription:
            raise OptionError(
                "option subscription is missing: name what this query's progress is kept under in the broker, "
                'one name a query: .option("subscription", "orders-to-lake")'
            )
        if self.starting_position is not None or self.ending_position is not None:
            raise OptionError(
                "startingPosition and endingPosition are for a batch read; a streaming query begins where its subscription stands"
            )
        return self

    def for_batch(self) -> SourceOptions:
        """These options, if a batch read can use them.

        Raises:
            OptionError: positions are given with a subscription, whose ledger says what is read, or end before they start.
        """
        if self.subscription and (self.starting_position is not None or self.ending_position is not None):
            raise OptionError(
                "startingPosition and endingPosition are for a read without a subscription; with one, what it has reserved is read"
            )
        if (
            self.starting_position is not None
            and self.ending_position is not None
            and self.ending_position < self.starting_position
        ):
            raise OptionError(
                f"endingPosition {self.ending_position} is before startingPosition {self.starting_position}"
            )
        return self


def _name(text: str) -> str:
    if not text or not text.isprintable() or any(character.isspace() for character in text):
        raise ValueError("a name is printable and without white space")
    if len(text.encode()) > MAX_NAME_BYTES:
        raise ValueError(f"a name has at most {MAX_NAME_BYTES} bytes")
    return text


def _addresses(text: str) -> tuple[str, ...]:
    addresses = tuple(part.strip() for part in text.split(",") if part.strip())
    if not addresses:
        raise ValueError("expected host:port, several separated by commas")
    for address in addresses:
        try:
            parse_address(address)
        except LocalProtocolError as error:
            raise ValueError(str(error)) from None
    return addresses


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise ValueError("expected a whole number of at least 1")
    return int(text)


def _position(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError("expected a whole number of at least 0")
    return int(text)


def _quantity(text: str, units: Mapping[str, int], what: str) -> int:
    match = _QUANTITY.fullmatch(text.lower())
    if match is None or match[2] not in units or int(match[1]) < 1:
        raise ValueError(f"expected {what}")
    return int(match[1]) * units[match[2]]


def _bytes(text: str) -> int:
    return _quantity(text, UNITS_BYTES, "a size of at least 1 byte: 67108864, 64m or 1g")


def _duration(text: str) -> int | None:
    if text.lower() == "never":
        return None
    return _quantity(text, UNITS_MS, "never or a duration: 90s, 30m, 12h or 2d")


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in allowed:
            raise ValueError(f"expected {' or '.join(allowed)}")
        return text.lower()

    return parse


def _text(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


@dataclass(frozen=True, slots=True)
class _Option:
    attribute: str
    names: tuple[str, ...]
    """The name documented, then its aliases."""
    parse: Callable[[str], Any]


_OPTIONS = (
    _Option("queue", ("queue", "subscribe"), _name),
    _Option("brokers", ("brokers",), _addresses),
    _Option("subscription", ("subscription",), _name),
    _Option("max_rows_per_batch", ("maxRowsPerBatch", "maxOffsetsPerTrigger", "maxRecordsPerTrigger"), _count),
    _Option("max_bytes_per_batch", ("maxBytesPerBatch",), _bytes),
    _Option("min_partitions", ("minPartitions",), _count),
    _Option("max_records_per_partition", ("maxRecordsPerPartition",), _count),
    _Option("starting_offsets", ("startingOffsets",), _one_of("earliest", "latest")),
    _Option("include_headers", ("includeHeaders",), _flag),
    _Option("fail_on_data_loss", ("failOnDataLoss",), _flag),
    _Option("ack_on", ("ackOn",), _one_of("commit", "poll")),
    _Option("owner_timeout_ms", ("ownerTimeout",), _duration),
    _Option("broker_down", ("brokerDown",), _one_of("wait", "continue")),
    _Option("starting_position", ("startingPosition",), _position),
    _Option("ending_position", ("endingPosition",), _position),
    _Option("token", ("token",), _text),
)
_BY_NAME = {name.lower(): option for option in _OPTIONS for name in option.names}
_KNOWN = [" or ".join(option.names) for option in _OPTIONS]
