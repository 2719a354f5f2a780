"""The options of ``format("penstock")`` as a source: names, defaults, and what each value may be."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spark_bridge.access_options import ACCESS_OPTIONS, with_access
from spark_bridge.errors import OptionError
from spark_bridge.option_values import (
    MAX_DURATION_MS,
    UNITS_MS,
    Option,
    duration_ms,
    flag,
    listed,
    name,
    parse_options,
    quantity,
    whole_number,
)
from spark_bridge.replicas import parse_replicas
from transport import DEFAULT_RECEIVE_ADDRESS, LocalProtocolError
from transport.clients.subscription_client import OWNER_WAIT
from transport.security.access_sources import GivenAccess
from transport.wire.names import MAX_NAME_BYTES

DEFAULT_MAX_ROWS_PER_BATCH = 500_000
"""Half of what a queue stores by default: one batch can be filled while the one before waits to be acknowledged."""
DEFAULT_MAX_BYTES_PER_BATCH = 64 * 2**20
"""A quarter of what a queue stores by default, for the same reason and with room to spare."""
DEFAULT_MAX_TRIGGER_DELAY_MS = 15 * 60_000
"""With minRowsPerBatch; Kafka's source has the same."""
MAX_BROKERS = 64
"""Each costs the worker that plans a query a connection and a thread, and has its position in every offset of Spark's log."""
DEFAULT_OWNER_WAIT_MS = round(OWNER_WAIT * 1000)
"""What a killed driver leaves behind lingers for seconds, and a machine that is gone until its silence is noticed."""
EVERY_KEY = "#"
"""Of a topic exchange the pattern of every key; a fanout and a headers exchange look at none."""
ONE_QUEUE = "a query reads one queue for each source that it loads, not a list or a pattern of names"
UNITS_BYTES = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a source, checked.

    Attributes:
        queue: the queue's name.
        exchange: the exchange that the subscription's own queue is bound to; empty for none.
        binding_keys: what it is bound by.
        brokers: what each broker is known by: its receiving address, ``host:port`` in lower case, or the name of a cluster. Each broker is
            read, and each is listed once.
        replicas: the contact points of those brokers that are no single address.
        subscription: the subscription's name; empty if none was given.
        max_rows_per_batch: rows of one micro-batch at most.
        max_bytes_per_batch: bytes of one micro-batch's messages at most; one message is always let through.
        min_rows_per_batch: rows that are worth a batch; None for any.
        max_trigger_delay_ms: how long a smaller batch waits for more.
        parallelism: tasks that run at a time in the cluster; None where neither the query nor its registration says.
        min_partitions: tasks of one micro-batch at least, rows permitting; None for the default.
        max_records_per_partition: rows of one task at most; None for no limit.
        max_bytes_per_partition: bytes of one task about at most, by the mean of its batch's messages; None for no limit.
        starting_offsets: ``earliest`` or ``latest``, when the subscription is created.
        include_headers: whether ``headers`` is among the columns.
        bad_headers: ``null`` reads headers that are none as null, ``fail`` ends the query.
        oversized: what a message does that fits no frame of a broker, as AMQP lets them be: ``fail`` the query, or ``skip`` it.
        fail_on_data_loss: whether positions that are gone end the query or are reported and skipped.
        ack_on: ``commit`` or ``poll``.
        owner_timeout_ms: how long reservations outlive the query's connection; None for ever.
        take_over: whether the subscription is taken from a query that lives.
        owner_wait_ms: how long a query that reads the subscription and lives is waited for.
        missing_queue: ``create`` a queue that does not exist, or ``fail``.
        broker_down: ``wait`` for a broker that cannot be reached, or ``continue`` with the others meanwhile.
        starting_position: the first position that a batch read without a subscription reads; None for the oldest message.
        ending_position: where it stops, itself not read; None for the end of the queue as of the plan.
        access: who the query is, and how it knows its brokers; files are read where connections are made.
    """

    queue: str = ""
    exchange: str = ""
    binding_keys: tuple[str, ...] = (EVERY_KEY,)
    brokers: tuple[str, ...] = (DEFAULT_RECEIVE_ADDRESS,)
    replicas: tuple[tuple[str, tuple[str, ...]], ...] = ()
    subscription: str = ""
    max_rows_per_batch: int = DEFAULT_MAX_ROWS_PER_BATCH
    max_bytes_per_batch: int = DEFAULT_MAX_BYTES_PER_BATCH
    min_rows_per_batch: int | None = None
    max_trigger_delay_ms: int | None = None
    parallelism: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_bytes_per_partition: int | None = None
    starting_offsets: str = "earliest"
    include_headers: bool = False
    bad_headers: str = "null"
    oversized: str = "fail"
    fail_on_data_loss: bool = True
    ack_on: str = "commit"
    owner_timeout_ms: int | None = None
    take_over: bool = False
    owner_wait_ms: int = DEFAULT_OWNER_WAIT_MS
    missing_queue: str = "create"
    broker_down: str = "wait"
    starting_position: int | None = None
    ending_position: int | None = None
    access: GivenAccess = field(default_factory=GivenAccess)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SourceOptions:
        """Check the options of a source.

        Raises:
            OptionError: one is unknown, missing, given twice under two names, has a value it cannot have, or does nothing without another.
        """
        _refuse_several_queues(given)
        values = with_access(parse_options(_OPTIONS, given, explain=_explained))
        _name_own_queue(values)
        _name_brokers(values)
        if "queue" not in values:
            raise OptionError(
                'option queue is missing: .option("queue", "orders"), or an exchange: .option("exchange", "orders")'
            )
        options = replace(cls(), **values)
        if options.max_trigger_delay_ms is not None and options.min_rows_per_batch is None:
            raise OptionError(
                "option maxTriggerDelay does nothing without minRowsPerBatch: it says how long fewer rows than that wait; give that one as "
                "well, or leave both out"
            )
        return options

    def addresses(self, broker: str) -> tuple[str, ...]:
        """Where ``broker`` is found, one of `brokers`."""
        return dict(self.replicas).get(broker, (broker,))

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
        if self.min_rows_per_batch is not None and self.min_rows_per_batch > self.max_rows_per_batch:
            raise OptionError(
                f"minRowsPerBatch {self.min_rows_per_batch} exceeds maxRowsPerBatch {self.max_rows_per_batch}: no batch could have so many"
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


def _name_own_queue(values: dict[str, Any]) -> None:
    """Where an exchange is given and no queue, the subscription's own queue is meant."""
    exchange, subscription = values.get("exchange"), values.get("subscription")
    if exchange is None:
        if "binding_keys" in values:
            raise OptionError("option bindingKey belongs to an exchange: give option exchange too, or leave it out")
        return
    if not subscription:
        raise OptionError(
            "option exchange needs a subscription, whose own queue gets a copy of what is published: "
            '.option("subscription", "orders-to-lake")'
        )
    queue = values.setdefault("queue", f"{exchange}.{subscription}")
    if len(queue.encode()) > MAX_NAME_BYTES:
        raise OptionError(
            f"the subscription's own queue would be called {queue!r:.60}, which has more than {MAX_NAME_BYTES} bytes: "
            "name it by option queue"
        )


def _binding_keys(text: str) -> tuple[str, ...]:
    """One key, or a JSON array of several."""
    from transport.wire.receiver_bindings import Binding, checked_bindings  # noqa: PLC0415 - of few queries

    keys = [text]
    if text.startswith("["):
        try:
            keys = json.loads(text)
        except ValueError:
            keys = []
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
        raise ValueError('expected one key, or a JSON array of keys: ["eu.*", "us.*"]')
    try:
        checked_bindings([Binding("e", key) for key in keys])
    except LocalProtocolError as error:
        raise ValueError(str(error)) from None
    return tuple(keys)


def _explained(unknown: Sequence[str]) -> Sequence[str]:
    from spark_bridge.foreign_options import SINKS, refused  # noqa: PLC0415 - only for an error's words

    return refused(unknown, _OPTIONS, SINKS, "sink (writeStream, df.write)")


def _refuse_several_queues(given: Mapping[str, str]) -> None:
    """What Kafka's source takes by these names and this one does not, in its own words rather than as an unknown option."""
    for option, text in given.items():
        if option.lower() in ("subscribepattern", "assign"):
            raise OptionError(f'option {option} is of no use here: {ONE_QUEUE}; name it: .option("queue", "orders")')
        if option.lower() == "subscribe" and "," in text:
            raise OptionError(
                f"option subscribe has {text!r}, several names: {ONE_QUEUE}. Load each queue with a subscription of its own, and union "
                "the frames where they belong together. A queue whose name has a comma is named by option queue, as it is"
            )


def _brokers(text: str) -> dict[str, tuple[str, ...]]:
    """The brokers in one way of writing, since offsets name them by it, each with its addresses."""
    brokers = parse_replicas(list(listed(text)))
    if len(brokers) > MAX_BROKERS:
        raise ValueError(f"{len(brokers)} brokers are more than {MAX_BROKERS}; have several queries share them")
    return brokers


def _name_brokers(values: dict[str, Any]) -> None:
    """What they are known by, and beside that where those are which are known by no address."""
    brokers: dict[str, tuple[str, ...]] | None = values.get("brokers")
    if brokers is not None:
        values["brokers"] = tuple(brokers)
        values["replicas"] = tuple((known_by, found) for known_by, found in brokers.items() if found != (known_by,))


def _count(text: str) -> int:
    return whole_number(text, 1)


def _bytes(text: str) -> int:
    return quantity(text, UNITS_BYTES, "a size of at least 1 byte: 67108864, 64m or 1g")


def _duration(text: str) -> int | None:
    if text.lower() == "never":
        return None
    return quantity(text, UNITS_MS, "never or a duration: 90s, 30m, 12h or 2d", MAX_DURATION_MS)


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in allowed:
            raise ValueError(f"expected {' or '.join(allowed)}")
        return text.lower()

    return parse


def _starting(text: str) -> str:
    if text.startswith("{"):
        raise ValueError(
            "expected earliest or latest: a queue has no partitions with offsets of their own; a batch read without a subscription takes "
            "startingPosition"
        )
    return _one_of("earliest", "latest")(text)


_OPTIONS = (
    Option("queue", ("queue", "subscribe"), name),
    Option("exchange", ("exchange",), name),
    Option("binding_keys", ("bindingKey",), _binding_keys),
    Option("brokers", ("brokers",), _brokers),
    Option("subscription", ("subscription",), name),
    Option("max_rows_per_batch", ("maxRowsPerBatch", "maxOffsetsPerTrigger", "maxRecordsPerTrigger"), _count),
    Option("min_rows_per_batch", ("minRowsPerBatch", "minOffsetsPerTrigger"), _count),
    Option("max_trigger_delay_ms", ("maxTriggerDelay",), duration_ms),
    Option("max_bytes_per_batch", ("maxBytesPerBatch",), _bytes),
    Option("parallelism", ("parallelism",), _count),
    Option("min_partitions", ("minPartitions",), _count),
    Option("max_records_per_partition", ("maxRowsPerPartition", "maxRecordsPerPartition"), _count),
    Option("max_bytes_per_partition", ("maxBytesPerPartition",), _bytes),
    Option("starting_offsets", ("startingOffsets",), _starting),
    Option("include_headers", ("includeHeaders",), flag),
    Option("bad_headers", ("badHeaders",), _one_of("null", "fail")),
    Option("oversized", ("oversized",), _one_of("fail", "skip")),
    Option("fail_on_data_loss", ("failOnDataLoss",), flag),
    Option("ack_on", ("ackOn",), _one_of("commit", "poll")),
    Option("owner_timeout_ms", ("ownerTimeout",), _duration),
    Option("take_over", ("takeOver",), flag),
    Option("owner_wait_ms", ("ownerWait",), duration_ms),
    Option("missing_queue", ("missingQueue",), _one_of("create", "fail")),
    Option("broker_down", ("brokerDown",), _one_of("wait", "continue")),
    Option("starting_position", ("startingPosition",), whole_number),
    Option("ending_position", ("endingPosition",), whole_number),
    *ACCESS_OPTIONS,
)
NAMES = tuple(name for option in _OPTIONS for name in option.names)
"""Of all options of a source."""
