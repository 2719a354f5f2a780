"""What there is of metrics: the name, the kind and the meaning of each. docs/metrics.md says more of them."""

from __future__ import annotations

from typing import Final, NamedTuple

from actors.queue.operations.counting import Counters, Figures
from transport.picture.exposition import COUNTER, GAUGE, HISTOGRAM, Family

SINCE: Final = "since the broker started"

COUNTED: Final = {
    "received": "Messages stored or published, each once",
    "acknowledged": "Messages acknowledged by receivers, or committed by Spark queries",
    "purged": "Messages dropped by a purge",
    "expired": "Messages dropped because their time to live was over",
    "dead_lettered": "Messages that went to a dead-letter queue",
    "moved": "Messages that somebody moved to another queue",
    "discarded": "Messages staged by transactions and not published",
    "dropped": "Messages dropped because their queue was over its limit",
    "delivered": "Messages handed out, each time that they were",
    "redelivered": "Messages handed out that had been before",
    "rejected": "Messages that senders were refused",
    "deduplicated": "Messages confirmed and not stored again, by their ids",
}
"""What queues count, in the order of `Counters`."""
assert tuple(COUNTED) == Counters._fields, "each counter has a text"


class Shown(NamedTuple):
    """A figure of a queue, of which there is a sum over all queues too.

    Attributes:
        name: behind ``penstock_`` for all queues, and behind ``penstock_queue_`` for one.
        text: what it means.
    """

    name: str
    text: str


FIGURES: Final = (
    Shown("messages_ready", "Messages that a receiver could have now"),
    Shown("messages_in_flight", "Messages that receivers hold"),
    Shown("messages_reserved", "Messages that Spark queries hold"),
    Shown("messages_delayed", "Messages whose delay is not over"),
    Shown("messages_leaving", "Messages on their way to another queue"),
    Shown("messages_stored", "Messages stored: the five before together"),
    Shown("stored_bytes", "Bytes stored, as they count towards max_bytes"),
    Shown("messages_staged", "Messages of transactions that are not committed"),
    Shown("staged_bytes", "Bytes of transactions that are not committed"),
    Shown("demand_messages", "Messages that receivers ask for and there are none of"),
    Shown("granted_messages", "Messages that senders may send and have not sent"),
    Shown("senders", "Connections that send"),
    Shown("receivers", "Connections that receive, take, or own a subscription"),
    Shown("senders_waiting", "Connections that could send and have no room"),
)
"""What queues are like, in the order of `Figures`."""
assert len(FIGURES) == Figures._fields.index("full"), "each number has a text"


def _all(name: str, kind: str, text: str) -> Family:
    return Family(f"penstock_{name}", kind, text)


TOTALS: Final = tuple(
    _all(f"messages_{name}_total", COUNTER, f"{text}: of all queues, {SINCE}.") for name, text in COUNTED.items()
)
RECOVERED: Final = _all(
    "recovered_messages",
    GAUGE,
    "What the queues found at the start had counted before, from the journal, by counter; with the counter of that name it is all ever.",
)
SUMS: Final = tuple(_all(each.name, GAUGE, f"{each.text}: of all queues.") for each in FIGURES)
QUEUES: Final = _all("queues", GAUGE, "Queues that there are.")
QUEUES_FAILED: Final = _all("queues_failed", GAUGE, "Queues that failed for good, until a client uses them again.")
QUEUES_HELD_BACK: Final = _all(
    "queues_held_back", GAUGE, "Queues that are held back at this moment, by what holds them back."
)
WAITING: Final = _all("messages_waiting", GAUGE, "Messages that wait at exchanges for their delay.")
EXCHANGES: Final = _all("exchanges", GAUGE, "Exchanges that there are, beside those of every broker.")
BINDINGS: Final = _all("bindings", GAUGE, "Bindings from exchanges.")
PUBLISHED: Final = {
    "published": "Messages published to exchanges, those that came again included",
    "unroutable": "Messages published to exchanges that no queue took",
    "returned": "Messages published to exchanges that no queue took and whose senders were told so",
}
"""What exchanges count, as `ExchangeCount` has it."""
PUBLISHED_TOTALS: Final = tuple(
    _all(f"messages_{name}_total", COUNTER, f"{text}: of all exchanges, {SINCE}.") for name, text in PUBLISHED.items()
)
SCHEDULES: Final = _all("schedules", GAUGE, "Schedules that there are.")
SCHEDULES_WAITING: Final = _all("schedules_waiting", GAUGE, "Schedules with a message that waits for room in a queue.")
SCHEDULED: Final = {
    "fired": "Messages of schedules that were stored",
    "missed": "Times of schedules that nothing came of, for they were missed",
    "failed": "Times of schedules that nothing came of, for there was nowhere to store it",
    "waited": "Messages of schedules that had to wait for room in a queue",
}
"""What schedules count, as `ScheduleCounts` has it."""
SCHEDULED_TOTALS: Final = tuple(
    _all(f"schedule_{name}_total", COUNTER, f"{text}: of all schedules, {SINCE}.") for name, text in SCHEDULED.items()
)

CONNECTIONS: Final = _all("connections", GAUGE, "Connections that stand, by listener and by what they are for.")
CONNECTIONS_LIMIT: Final = _all("connections_limit", GAUGE, "Connections that there may be.")
ACCEPTED: Final = _all("connections_accepted_total", COUNTER, f"Connections accepted {SINCE}.")
BYTES_RECEIVED: Final = _all("bytes_received_total", COUNTER, f"Bytes from clients {SINCE}, by listener.")
BYTES_SENT: Final = _all("bytes_sent_total", COUNTER, f"Bytes to clients {SINCE}, by listener; of HTTP bodies alone.")

CONFIRMATION: Final = _all(
    "confirmation_seconds",
    HISTOGRAM,
    "From a message accepted to the moment in which it may be confirmed, which is when it is durable. A batch counts by its messages.",
)
LAG: Final = _all(
    "delivery_lag_seconds",
    HISTOGRAM,
    "From a message stored to its first delivery, the queue's delay included. Messages that Spark reads are not among them.",
)
LOOP_DELAY: Final = _all(
    "loop_delay_seconds",
    HISTOGRAM,
    "By how much a timer of the event loop came too late. Measured ten times a second while metrics are asked for.",
)
SYNC: Final = _all("journal_sync_seconds", HISTOGRAM, "How long syncs of the journal took.")
WRITE: Final = _all("journal_write_bytes", HISTOGRAM, "Bytes of the journal's group commits.")
JOURNAL: Final = {
    "segments": _all("journal_segments", GAUGE, "Files of the journal that hold records."),
    "disk_bytes": _all("journal_disk_bytes", GAUGE, "Bytes of the journal on the disk, spare files included."),
    "free_bytes": _all("journal_free_bytes", GAUGE, "Bytes free on the disk of the journal."),
    "pending_bytes": _all("journal_pending_bytes", GAUGE, "Bytes appended to the journal and not durable yet."),
    "records": _all("journal_records_total", COUNTER, f"Records written to the journal {SINCE}."),
    "checkpoints": _all("journal_checkpoints_total", COUNTER, f"Checkpoints made {SINCE}."),
    "cache_bytes": _all("journal_cache_bytes", GAUGE, "Bytes of recent batches in memory."),
    "cache_hits": _all("journal_cache_hits_total", COUNTER, f"Batches found in memory {SINCE}."),
    "cache_misses": _all("journal_cache_misses_total", COUNTER, f"Batches read from the disk {SINCE}."),
}
"""By their names in `Storage.statistics`; a broker in memory has none of these."""

CLUSTER_ROLE: Final = _all("cluster_role", GAUGE, "1 for what this node of a cluster is at this moment; else 0.")
CLUSTER: Final = {
    "epoch": _all(
        "cluster_epoch", GAUGE, "The epoch that this node is in: each leader of the cluster has a greater one."
    ),
    "end": _all("cluster_log_end", GAUGE, "One more than the number of the last record of this node's log."),
    "committed": _all("cluster_committed", GAUGE, "Every record below it is committed, as far as this node knows."),
    "whole": _all(
        "cluster_whole", GAUGE, "0 where what was confirmed before this leader may be missing; 1 where nothing is."
    ),
    "held_back": _all(
        "cluster_senders_held_back",
        GAUGE,
        "Share of the time for which the leader grants senders nothing, so that a node that lags comes in step.",
    ),
}
"""By their names in what a node says of its cluster; a broker that is alone has none of these."""
CLUSTER_REGISTER: Final = _all(
    "cluster_register_up", GAUGE, "1 where the register answered when it was asked last; else 0."
)
CLUSTER_FULL: Final = _all(
    "cluster_full", GAUGE, "1 where this node takes no records when it follows, for it has no room for them; else 0."
)
CLUSTER_MEMBERS: Final = _all("cluster_members", GAUGE, "Members of the cluster, learners included.")
OF_A_MEMBER: Final = {
    "connected": _all("cluster_member_connected", GAUGE, "1 where this node has a connection to that member; else 0."),
    "in_step": _all(
        "cluster_member_in_step", GAUGE, "1 where that member has what was committed a moment ago; else 0."
    ),
    "lag_records": _all("cluster_member_lag_records", GAUGE, "Records of the log that are not on that member's disk."),
    "lag_bytes": _all(
        "cluster_member_lag_bytes", GAUGE, "Bytes of the records that are not on that member's disk, about."
    ),
    "lag_s": _all(
        "cluster_member_lag_seconds", GAUGE, "Age of the first record that is not on that member's disk, about."
    ),
    "heard_s": _all(
        "cluster_member_heard_seconds", GAUGE, "Seconds since what that member has answered last was sent."
    ),
    "damaged": _all("cluster_member_damaged", GAUGE, "1 where that member has met damage, and has left; else 0."),
    "doubt": _all(
        "cluster_member_in_doubt",
        GAUGE,
        "1 where that member has cut a write off its log, and may lack what was confirmed; else 0.",
    ),
    "cut_records": _all(
        "cluster_member_cut_records_total",
        COUNTER,
        "Records cut off that member's log since it started, for the cluster has others there.",
    ),
    "cut_messages": _all("cluster_member_cut_messages_total", COUNTER, "Messages that these records held."),
    "kept_files": _all(
        "cluster_member_kept_files", GAUGE, "Copies of what was cut off that lie in that member's directory."
    ),
    "kept_bytes": _all("cluster_member_kept_bytes", GAUGE, "Bytes of these copies."),
    "kept_damaged": _all(
        "cluster_member_kept_damaged", GAUGE, "Damaged journals that were put aside in that member's directory."
    ),
}
"""Likewise, of each member; the leader knows all of it, and other nodes only whether they have a connection."""
ROLES: Final = ("leader", "follower", "learner", "candidate", "closing", "waiting", "damaged")

BUILD: Final = _all("build_info", GAUGE, "Always 1; the labels say which version of what this is.")
STARTED: Final = _all("start_time_seconds", GAUGE, "When the broker started, seconds since 1970.")
PAUSED: Final = _all("senders_paused", GAUGE, "1 while the broker lets nobody send, for memory or the disk; else 0.")
PRESSURE: Final = _all("memory_pressure", GAUGE, "1 while the memory watermark is reached; else 0.")
WATERMARK: Final = _all("memory_watermark_bytes", GAUGE, "Bytes of memory at which the watermark is reached.")
RESIDENT: Final = Family("process_resident_memory_bytes", GAUGE, "Resident memory of the process.")
CPU: Final = Family("process_cpu_seconds_total", COUNTER, "Processor time of the process, user and system.")
OPEN_FILES: Final = Family("process_open_fds", GAUGE, "Files that the process has open.")
MOST_FILES: Final = Family("process_max_fds", GAUGE, "Files that the process may have open.")
PROCESS_STARTED: Final = Family("process_start_time_seconds", GAUGE, "When the process started, seconds since 1970.")


OLDEST: Final = Family(
    "penstock_queue_oldest_seconds", GAUGE, "Age of the message that is next; 0 where none is ready."
)
OF_A_QUEUE: Final = (
    *(
        Family(f"penstock_queue_messages_{name}_total", COUNTER, f"{text}: of this queue, {SINCE}.")
        for name, text in COUNTED.items()
    ),
    *(Family(f"penstock_queue_{each.name}", GAUGE, f"{each.text}: of this queue.") for each in FIGURES),
    Family("penstock_queue_max_messages", GAUGE, "Messages that the queue may store."),
    Family("penstock_queue_max_bytes", GAUGE, "Bytes that the queue may store."),
    OLDEST,
)
"""The families of ``/metrics/queues`` that have a sample of each queue."""
QUEUE_HELD_BACK: Final = Family(
    "penstock_queue_held_back", GAUGE, "1, with what holds the queue back at this moment; nothing where nothing does."
)
QUEUE_NEXT_DUE: Final = Family(
    "penstock_queue_next_due_timestamp_seconds",
    GAUGE,
    "When the next message that waits for a delay is due, seconds since 1970; nothing where none waits.",
)
OF_AN_EXCHANGE: Final = (
    Family("penstock_exchange_bindings", GAUGE, "Bindings from this exchange."),
    Family("penstock_exchange_messages_waiting", GAUGE, "Messages that wait at this exchange for their delay."),
    *(
        Family(f"penstock_exchange_messages_{name}_total", COUNTER, f"{text}: of this exchange, {SINCE}.")
        for name, text in PUBLISHED.items()
    ),
)
"""The families of ``/metrics/exchanges``, which have a sample of each exchange."""
EVERY: Final = (
    *TOTALS,
    RECOVERED,
    *SUMS,
    QUEUES,
    QUEUES_FAILED,
    QUEUES_HELD_BACK,
    EXCHANGES,
    BINDINGS,
    WAITING,
    *PUBLISHED_TOTALS,
    SCHEDULES,
    SCHEDULES_WAITING,
    *SCHEDULED_TOTALS,
    CONNECTIONS,
    CONNECTIONS_LIMIT,
    ACCEPTED,
    BYTES_RECEIVED,
    BYTES_SENT,
    CONFIRMATION,
    LAG,
    LOOP_DELAY,
    SYNC,
    WRITE,
    *JOURNAL.values(),
    CLUSTER_ROLE,
    *CLUSTER.values(),
    CLUSTER_REGISTER,
    CLUSTER_FULL,
    CLUSTER_MEMBERS,
    *OF_A_MEMBER.values(),
    BUILD,
    STARTED,
    PAUSED,
    PRESSURE,
    WATERMARK,
    RESIDENT,
    CPU,
    OPEN_FILES,
    MOST_FILES,
    PROCESS_STARTED,
    *OF_A_QUEUE,
    QUEUE_HELD_BACK,
    QUEUE_NEXT_DUE,
    *OF_AN_EXCHANGE,
)
"""All there are, in the order of the pages."""
