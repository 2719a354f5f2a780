"""What a broker can be told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from actors import QueueSettings
from actors.queue.vocabulary.settings import (
    DEFAULT_CACHE_BYTES,
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_MESSAGES,
    DEFAULT_MAX_QUEUES,
    DEFAULT_MAX_STAGED_BYTES,
    DEFAULT_TRANSACTION_TIMEOUT,
    MEMORY_MAX_STAGED_BYTES,
    QUEUE_SETTINGS,
    dead_letter_settings,
)
from actors.replication.document import MAJORITY
from transport.config.clustered import CLUSTER_MODES as CLUSTER_MODES  # noqa: PLC0414 - given here too
from transport.config.clustered import DEFAULT_CLUSTER_LOG_BYTES, check_cluster
from transport.config.virtual_hosts import check_virtual_hosts
from transport.errors import LocalProtocolError
from transport.wire.address import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, parse_address
from transport.wire.liveness import DEFAULT_HEARTBEAT
from transport.wire.names import check_name

DEFAULT_MAX_CONNECTIONS = 10_000
"""Connections on both addresses together; each costs about 10 KiB while idle, and a file descriptor."""
DEFAULT_MAX_UNAUTHENTICATED = 256
"""Connections that have not shown who they are; each may take a handshake of TLS and a frame of 4 KiB."""
DURABLE_MAX_MESSAGES = 100_000_000
"""Messages of a queue with a journal, unless told: its backlog lies on disk, so the disk floor is the real bound."""
DURABLE_MAX_BYTES = 64 * 2**30
"""Bytes of a queue with a journal, unless told; as above."""
OPTIONAL, REQUIRED = CLIENT_CERTIFICATES = ("optional", "required")
"""Whether a client shows a certificate if it has one, or is refused without."""
IN_MEMORY = {
    "max_messages": DEFAULT_MAX_MESSAGES,
    "max_bytes": DEFAULT_MAX_BYTES,
    "max_staged_bytes": MEMORY_MAX_STAGED_BYTES,
}
WITH_JOURNAL = {
    "max_messages": DURABLE_MAX_MESSAGES,
    "max_bytes": DURABLE_MAX_BYTES,
    "max_staged_bytes": DEFAULT_MAX_STAGED_BYTES,
}
"""What queues may hold unless told: as much as is fit for memory, or for a disk."""
DEFAULT_DIRECTORY = "./penstock-data"
"""Where the command keeps the journal, unless told. A broker inside a program keeps none unless told."""
DEFAULT_HTTP_ADDRESS = "127.0.0.1:9180"
"""Where the command `penstock broker` speaks HTTP unless it is told otherwise; a broker in a program speaks none unless it is told to."""

SYNC_POLICIES = ("always", "interval", "never")
"""When the journal syncs: before it reports durable, every so often, or when the operating system pleases."""
DEFAULT_SYNC_INTERVAL = 0.05
MAX_SYNC_INTERVAL = 60.0
"""Seconds; who may lose more than a minute's messages wants ``never``."""
DEFAULT_SEGMENT_BYTES = 64 * 2**20
MIN_SEGMENT_BYTES = 64 * 2**10
"""With smaller segments a backlog would be more files than data."""
MAX_SEGMENT_BYTES = 2**30
"""Disk is given back a segment at a time, and an offset in one has 32 bits."""
DEFAULT_MEMORY_WATERMARK = 0.6
"""Share of the machine's or the container's memory: what is left covers a burst between two looks, and the page cache."""
DEFAULT_DISK_FLOOR = 2**30
"""Free bytes under which senders wait: compaction and checkpoints need room when the disk is nearly full."""

DEFAULT_DRAIN = 10.0
"""Seconds of an orderly end. Our own clients need a few milliseconds; a disk that is behind needs some of the rest."""
MAX_DRAIN = 3600.0
"""Seconds; no supervisor waits longer for an end."""
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
DEFAULT_SMQ_QUEUE = "smq"
MAX_AMQP_MESSAGE_BYTES = 128 * 2**20
"""Of one message over AMQP, unless told less: what RabbitMQ 3 takes. It is one record of the journal, and is read and written whole."""

OF_QUEUES = {"max_messages": "max_queue_messages", "max_bytes": "max_queue_bytes"}
"""Settings of queues that have a longer name among a broker's."""

_QUEUE = QueueSettings()


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A broker's options.

    Attributes:
        send_address: where senders and administrators connect, ``host:port``; port 0 takes any free one.
        receive_address: where receivers and subscriptions connect.
        max_queue_messages: messages one queue stores, unless declared otherwise; None for 1 million in memory,
            ``DURABLE_MAX_MESSAGES`` with a journal; ``math.inf`` for no limit.
        max_queue_bytes: bytes one queue stores, unless declared otherwise; None for 256 MiB in memory, ``DURABLE_MAX_BYTES``
            with a journal; ``math.inf`` for no limit.
        visibility_timeout: seconds until a message not acknowledged is receivable again.
        heartbeat: seconds between signs of life on a quiet connection; three of silence end it.
        max_connections: connections at one time; fewer where the limit of open files (``ulimit -n``) allows fewer.
        max_unauthenticated: connections that are accepted and have not shown yet who they are; the next wait to be accepted.
        max_queues: queues at one time.
        overflow: what a queue at its limit does, unless declared otherwise; as in `QueueSettings`, like the next five.
        max_receives: failures of a message until it goes to the dead-letter queue; None for no such limit.
        dead_letter_queue: its name; None for the queue's own with ``.dead`` after it.
        delay: seconds until a sent message is receivable.
        ttl: seconds after which a message nobody received is of no use; None for never.
        exclusive: one receiver at a time.
        directory: where the journal is; None keeps everything in memory only.
        sync: one of ``SYNC_POLICIES``.
        sync_interval: seconds between syncs where ``sync`` is ``interval``.
        segment_bytes: size of one file of the journal.
        cache_bytes: recent batches kept in memory, in bytes; 0 keeps none.
        memory_watermark: share of the memory this process may have; above it caches are turned off, and a broker without a
            journal lets senders wait.
        max_staged_messages: messages that open transactions may hold of one queue, beside those it stores.
        max_staged_bytes: their bytes; None for ``MEMORY_MAX_STAGED_BYTES`` in memory, ``DEFAULT_MAX_STAGED_BYTES`` with a journal.
        subscription_expiry: seconds after which a subscription that nobody uses is forgotten; None for never.
        durable: whether a queue outlives the broker's end, unless declared otherwise.
        dead_letter_exchange: where dead letters are published, instead of a queue; None for none.
        dead_letter_routing_key: what that routes them by; None for the key that each has.
        expires: seconds after which a queue that nobody uses is deleted, with what it holds; None for never.
        single_active_consumer: one receiver of a queue gets everything, and the others wait to go on.
        retry_delay: seconds until what has failed once is receivable again; each time twice as long.
        retry_max_delay: seconds to which that grows.
        drop_failed: whether what has failed ``max_receives`` times is dropped, and no dead letter.
        max_priority: the highest priority of a message; None for queues that take no notice of priorities.
        deduplication_window: seconds in which a message with the id of another is not stored; None for queues that look at no ids.
        max_deduplication_ids: ids that a queue remembers at a time; senders wait when it does.
        groups: messages of one group go to one receiver at a time, in order.
        transaction_timeout: seconds after which what was staged is discarded, without a connection that stages it and without a commit.
        disk_floor: free bytes of the journal's file system under which senders wait; 0 never lets them.
        drain: seconds that a broker which is told to stop has for an end in good order; 0 tells its clients at once.
        log_level: the least that is logged, one of ``LOG_LEVELS``.
        log_format: one of ``LOG_FORMATS``.
        users_file: who may come in (`penstock user`); None lets everybody in.
        http: where HTTP is spoken, ``host:port``; None for nowhere (docs/http.md). It takes the extra ``http``.
        amqp: where clients of AMQP 0-9-1 connect, ``host:port``, in plain; None for nowhere (docs/amqp.md).
        amqps: where they connect under TLS, which takes ``tls_certificate``.
        amqp_virtual_hosts: virtual hosts of AMQP beside ``/``, each with what the broker's names in it begin with: a queue ``orders`` of
            ``{"shop": "shop/"}`` is the broker's ``shop/orders``.
        amqp_max_message_bytes: bytes of one message's body over AMQP, at most.
        smq_source: where sources of the simple message queue connect, ``host:port``; None for nowhere (docs/smq.md).
        smq_sink: where its sinks connect, likewise. With them the queue is exclusive.
        smq_queue: the queue that both use.
        insecure: whether addresses that are not of this machine alone are allowed without users and TLS.
        tls_certificate: file of the broker's certificate with its chain, PEM; None for connections without TLS.
        tls_key: file of its key; None where the certificate's file has it too.
        tls_client_ca: file of the certificates that sign those of clients; None where clients show none.
        tls_client_certificates: one of ``CLIENT_CERTIFICATES``: whether each client has to show one.
        cluster: the cluster that this broker is a node of, as `transport.cluster.addresses` reads it; None for a broker that is alone. What
            follows is of use with it only.
        cluster_node: the node's name.
        cluster_members: the nodes that the cluster begins with, ``a=HOST,b=HOST,c=HOST``, where ``cluster`` does not list them.
        cluster_address: where the other nodes connect, ``host:port``; None for ``CLUSTER_PORT`` of the host that is advertised.
        cluster_advertise: the host by which clients and the other nodes reach this one; None for the one that ``cluster`` lists.
        cluster_mode: one of ``CLUSTER_MODES``, for a cluster that begins.
        cluster_secret_file: what the nodes know each other by: a file that is the same on all; None for TLS alone.
        cluster_certificate: file of the node's certificate, PEM, for connections between nodes; None for no TLS.
        cluster_key: file of its key; None where the certificate's file has it too.
        cluster_ca: file of what signs the certificates of all nodes.
        cluster_log_bytes: of the log so much is kept for nodes that lag.
        cluster_auto_heal: whether this node, where it meets damage, is filled anew without a person, once enough others have all.
        queues: queues that are there from the start, and what they are declared with.

    Raises:
        LocalProtocolError: an address, a name or a number that cannot be.
        ValueError: a queue setting that cannot be.
    """

    send_address: str = DEFAULT_SEND_ADDRESS
    receive_address: str = DEFAULT_RECEIVE_ADDRESS
    max_queue_messages: float | None = None
    max_queue_bytes: float | None = None
    visibility_timeout: float = _QUEUE.visibility_timeout
    heartbeat: float = DEFAULT_HEARTBEAT
    max_connections: int = DEFAULT_MAX_CONNECTIONS
    max_queues: int = DEFAULT_MAX_QUEUES
    overflow: str = _QUEUE.overflow
    max_receives: int | None = _QUEUE.max_receives
    dead_letter_queue: str | None = _QUEUE.dead_letter_queue
    delay: float = _QUEUE.delay
    ttl: float | None = _QUEUE.ttl
    exclusive: bool = _QUEUE.exclusive
    directory: str | None = None
    sync: str = SYNC_POLICIES[0]
    sync_interval: float = DEFAULT_SYNC_INTERVAL
    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    cache_bytes: int = DEFAULT_CACHE_BYTES
    memory_watermark: float = DEFAULT_MEMORY_WATERMARK
    disk_floor: int = DEFAULT_DISK_FLOOR
    users_file: str | None = None
    insecure: bool = False
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    tls_client_certificates: str = OPTIONAL
    max_unauthenticated: int = DEFAULT_MAX_UNAUTHENTICATED
    max_staged_messages: int = _QUEUE.max_staged_messages
    max_staged_bytes: int | None = None
    subscription_expiry: float | None = _QUEUE.subscription_expiry
    durable: bool = _QUEUE.durable
    dead_letter_exchange: str | None = _QUEUE.dead_letter_exchange
    dead_letter_routing_key: str | None = _QUEUE.dead_letter_routing_key
    expires: float | None = _QUEUE.expires
    single_active_consumer: bool = _QUEUE.single_active_consumer
    retry_delay: float = _QUEUE.retry_delay
    retry_max_delay: float = _QUEUE.retry_max_delay
    drop_failed: bool = _QUEUE.drop_failed
    max_priority: int | None = _QUEUE.max_priority
    deduplication_window: float | None = _QUEUE.deduplication_window
    max_deduplication_ids: int = _QUEUE.max_deduplication_ids
    groups: bool = _QUEUE.groups
    transaction_timeout: float = DEFAULT_TRANSACTION_TIMEOUT
    drain: float = DEFAULT_DRAIN
    log_level: str = LOG_LEVELS[2]
    log_format: str = LOG_FORMATS[0]
    http: str | None = None
    amqp: str | None = None
    amqps: str | None = None
    amqp_virtual_hosts: Mapping[str, str] = field(default_factory=dict, hash=False)
    amqp_max_message_bytes: int = MAX_AMQP_MESSAGE_BYTES
    smq_source: str | None = None
    smq_sink: str | None = None
    smq_queue: str = DEFAULT_SMQ_QUEUE
    cluster: str | None = None
    cluster_node: str | None = None
    cluster_members: str | None = None
    cluster_address: str | None = None
    cluster_advertise: str | None = None
    cluster_mode: str = MAJORITY
    cluster_secret_file: str | None = None
    cluster_certificate: str | None = None
    cluster_key: str | None = None
    cluster_ca: str | None = None
    cluster_log_bytes: int = DEFAULT_CLUSTER_LOG_BYTES
    cluster_auto_heal: bool = False
    queues: Mapping[str, QueueSettings] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for address in self.addresses().values():
            parse_address(address)
        check_name(self.smq_queue)
        check_virtual_hosts(self.amqp_virtual_hosts)
        for name in ("heartbeat", "max_connections", "max_unauthenticated", "max_queues", "transaction_timeout"):
            value = getattr(self, name)
            if not value > 0:
                raise LocalProtocolError(f"{name} is {value}; it must be more than zero")
        self._check_amqp()
        if not 0 <= self.drain <= MAX_DRAIN:
            raise LocalProtocolError(f"drain is {self.drain} s, not between 0 and {MAX_DRAIN:g}")
        for name, known in (("log_level", LOG_LEVELS), ("log_format", LOG_FORMATS)):
            if getattr(self, name) not in known:
                raise LocalProtocolError(f"{name} is {getattr(self, name)!r:.40}, not one of {', '.join(known)}")
        self._check_storage()
        check_cluster(
            self.cluster_mode, self.cluster_log_bytes, self.cluster_node, self.cluster_address, self.cluster_members
        )
        if self.tls_client_certificates not in CLIENT_CERTIFICATES:
            raise LocalProtocolError(
                f"tls_client_certificates is {self.tls_client_certificates!r:.40}, not one of {', '.join(CLIENT_CERTIFICATES)}"
            )
        self.queue_settings()
        if (declared := len(self.declared_queues())) > self.max_queues:
            raise LocalProtocolError(f"{declared} queues are declared, and max_queues is {self.max_queues}")
        for name, settings in self.queues.items():
            check_name(name)
            if settings.dead_letter_queue == name:
                raise LocalProtocolError(f"queue {name!r} cannot be its own dead-letter queue: name another")
            if settings.dead_letter_queue is not None:
                check_name(settings.dead_letter_queue, "dead-letter queue")
            if settings.dead_letter_exchange is not None:
                check_name(settings.dead_letter_exchange, "dead-letter exchange")

    def addresses(self) -> dict[str, str]:
        """Where the broker is to listen, by the name of the setting that says so."""
        names = ("send_address", "receive_address", "http", "amqp", "amqps", "smq_source", "smq_sink")
        asked = {name: getattr(self, name) for name in names}
        return {name: address for name, address in asked.items() if address is not None}

    @property
    def gateways(self) -> tuple[str, ...]:
        """The settings that ask for listeners of other protocols than Penstock's own."""
        return tuple(name for name in self.addresses() if name not in ("send_address", "receive_address"))

    def queue_settings(self) -> QueueSettings:
        """What a queue gets that is not declared otherwise."""
        if self.dead_letter_queue is not None:
            check_name(self.dead_letter_queue, "dead-letter queue")
        if self.dead_letter_exchange is not None:
            check_name(self.dead_letter_exchange, "dead-letter exchange")
        unless_told = IN_MEMORY if self.directory is None else WITH_JOURNAL
        settings: dict[str, Any] = {}
        for each in QUEUE_SETTINGS:
            told = getattr(self, OF_QUEUES.get(each.name, each.name))
            settings[each.name] = unless_told.get(each.name) if told is None else None if told == math.inf else told
        return QueueSettings(**settings)

    def declared_queues(self) -> Mapping[str, QueueSettings]:
        """As ``queues``; where sinks of the simple message queue connect, theirs is among them, and is exclusive."""
        if self.smq_sink is None:
            return self.queues
        name, plain = self.smq_queue, self.queue_settings()
        if name == self.dead_letter_queue:
            plain = dead_letter_settings(plain)
        return {**self.queues, name: replace(self.queues.get(name, plain), exclusive=True)}

    def _check_amqp(self) -> None:
        if not 1 <= self.amqp_max_message_bytes <= MAX_AMQP_MESSAGE_BYTES:
            raise LocalProtocolError(
                f"amqp_max_message_bytes is {self.amqp_max_message_bytes}, not between 1 and {MAX_AMQP_MESSAGE_BYTES}"
            )

    def _check_storage(self) -> None:
        if self.directory is not None and not self.directory:
            raise LocalProtocolError("the journal's directory is an empty name; use None to keep everything in memory")
        if self.sync not in SYNC_POLICIES:
            raise LocalProtocolError(f"sync is {self.sync!r:.40}, not one of {', '.join(SYNC_POLICIES)}")
        if not 0 < self.sync_interval <= MAX_SYNC_INTERVAL:
            raise LocalProtocolError(
                f"sync_interval is {self.sync_interval} s, not above 0 and at most {MAX_SYNC_INTERVAL:g}"
            )
        if not MIN_SEGMENT_BYTES <= self.segment_bytes <= MAX_SEGMENT_BYTES:
            raise LocalProtocolError(
                f"segment_bytes is {self.segment_bytes}, not between {MIN_SEGMENT_BYTES} and {MAX_SEGMENT_BYTES}"
            )
        if not 0 < self.memory_watermark <= 1:
            raise LocalProtocolError(
                f"memory_watermark is {self.memory_watermark}, not a share above 0 and at most 1 (60% is 0.6)"
            )
        for name in ("cache_bytes", "disk_floor"):
            if getattr(self, name) < 0:
                raise LocalProtocolError(f"{name} is {getattr(self, name)}; it must not be below zero")
