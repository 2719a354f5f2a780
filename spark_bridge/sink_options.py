"""The options of ``df.write.format("penstock")`` and ``df.writeStream.format("penstock")``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_bridge.access_options import ACCESS_OPTIONS, with_access
from spark_bridge.errors import OptionError
from spark_bridge.option_values import Option, contact_points, duration_ms, listed, name, parse_options, whole_number
from spark_bridge.replicas import MEMBERS, parse_replicas
from transport import DEFAULT_SEND_ADDRESS, LocalProtocolError
from transport.security.access_sources import GivenAccess

DEFAULT_DEMAND_TIMEOUT_MS = 300_000
"""How long a task waits for room: a receiver that is restarted is back by then, and a query that hangs is noticed."""
MAX_VERSION = 2**63 - 1
"""As far as the batch ids go that versions stand for."""
ASYNCHRONOUS = "asyncprogresstrackingenabled"
SPARKS_OWN = frozenset(
    {
        "checkpointlocation",
        "queryname",
        ASYNCHRONOUS,
        "asyncprogresstrackingcheckpointintervalms",
        "_asyncprogresstrackingoverridesinksupportcheck",
    }
)
"""Options of a streaming query that Spark hands to its sink as well."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options of a sink, checked.

    Attributes:
        queue: where a row goes that has no ``queue`` of its own; None where every row has.
        exchange: where all rows are published, in place of queues; None for none.
        routing_key: of rows that have no key of their own; only with ``exchange``.
        brokers: sending addresses of one broker, its contact points, ``host:port``.
        demand_timeout_ms: how long a task waits for room in a queue before it fails.
        writer: the name under which a batch write is done once; None for a new one each time.
        version: the version of what ``writer`` writes; None without one.
        access: who the query is, and how it knows its broker; files are read where connections are made.
    """

    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    brokers: tuple[str, ...] = (DEFAULT_SEND_ADDRESS,)
    demand_timeout_ms: int = DEFAULT_DEMAND_TIMEOUT_MS
    writer: str | None = None
    version: int | None = None
    access: GivenAccess = field(default_factory=GivenAccess)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        """Check the options of a sink.

        Raises:
            OptionError: one is unknown or has a value it cannot have, ``writer`` and ``version`` are not both there, or Spark is to
                track progress asynchronously.
        """
        if any(option.lower() == ASYNCHRONOUS and str(value).lower() == "true" for option, value in given.items()):
            # Spark allows it for few sinks, but there is an option to have it for any.
            raise OptionError(
                "asyncProgressTrackingEnabled cannot be used with this sink: a batch that runs again may then have other rows, "
                "and they would be taken for those that are written already"
            )
        options = replace(cls(), **with_access(parse_options(_OPTIONS, given, SPARKS_OWN, explain=_explained)))
        if options.exchange is not None and options.queue is not None:
            raise OptionError("options queue and exchange are both there: rows go to one of them; leave one out")
        if options.exchange is None and options.routing_key is not None:
            raise OptionError("option routingKey belongs to an exchange: give option exchange too, or leave it out")
        if (options.writer is None) != (options.version is None):
            raise OptionError(
                "options writer and version go together: the name of what writes, "
                "and a number that is greater for each thing it writes"
            )
        return options

    def for_streaming(self) -> SinkOptions:
        """These options, if a streaming query can use them.

        Raises:
            OptionError: ``writer`` and ``version`` are given, which a streaming query has of its own.
        """
        if self.writer is not None:
            raise OptionError(
                "options writer and version are for df.write; a streaming query writes under its query id and batch id"
            )
        return self


def _explained(unknown: Sequence[str]) -> Sequence[str]:
    from spark_bridge import options  # noqa: PLC0415 - only for an error's words
    from spark_bridge.foreign_options import refused  # noqa: PLC0415

    return refused(unknown, _OPTIONS, options.NAMES, "source (readStream, spark.read)")


def _routing_key(text: str) -> str:
    from transport.wire.exchange_named import check_routing_key  # noqa: PLC0415 - of few writes

    try:
        return check_routing_key(text)
    except LocalProtocolError as error:
        raise ValueError(str(error)) from None


def _one_broker(text: str) -> tuple[str, ...]:
    """The contact points of one broker: with commas, or as a source has those of a cluster, by its name or without."""
    if MEMBERS not in text and "=" not in text:
        return contact_points(text)
    brokers = parse_replicas(list(listed(text)))
    if len(brokers) > 1:
        raise ValueError(f"a sink writes to one broker, and these are {len(brokers)}: {', '.join(brokers)}")
    return next(iter(brokers.values()))


def _version(text: str) -> int:
    return whole_number(text, most=MAX_VERSION)


_OPTIONS = (
    Option("queue", ("queue",), name),
    Option("exchange", ("exchange",), name),
    Option("routing_key", ("routingKey",), _routing_key),
    Option("brokers", ("brokers",), _one_broker),
    Option("demand_timeout_ms", ("demandTimeout",), duration_ms),
    Option("writer", ("writer",), name),
    Option("version", ("version",), _version),
    *ACCESS_OPTIONS,
)
NAMES = tuple(name for option in _OPTIONS for name in option.names)
"""Of all options of a sink."""
