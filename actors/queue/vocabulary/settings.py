"""Settings of one queue, and the named limits of what a queue keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.limits import (
    MAX_DEDUPLICATION_WINDOW_SECONDS,
    MAX_NAME_BYTES,
    MAX_PRIORITY,
    MAX_QUEUE_EXPIRY_SECONDS,
    MAX_SUBSCRIPTION_EXPIRY_SECONDS,
    MAX_TTL_SECONDS,
    MAX_VISIBILITY_SECONDS,
    time_text,
)
from actors.queue.vocabulary.stages import MAX_ENLISTED

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_MAX_QUEUES = 10_000
"""Queues of one broker; a client that makes up names cannot make up memory."""
MAX_ARGUMENTS_BYTES = 4_096
"""Of what a queue was declared with, kept as it came: with as many queues as a broker has it is 40 MB, in memory and in each checkpoint."""
DEFAULT_MAX_MESSAGES = 1_000_000
DEFAULT_MAX_BYTES = 256 * 1024 * 1024
DEFAULT_MAX_STAGED_MESSAGES = 10_000_000
DEFAULT_MAX_STAGED_BYTES = 4 * 1024**3
"""What transactions that are not committed may hold of a queue: on the disk, a few of the largest batches that a query writes,"""
MEMORY_MAX_STAGED_BYTES = 256 * 1024 * 1024
"""and where a queue is in memory, as much of it as its messages may take."""
DEFAULT_CACHE_BYTES = 64 * 1024 * 1024
"""Recent batches kept in memory, of all queues together: what receivers who keep up read without a disk."""
DEFAULT_TRANSACTION_TIMEOUT = 3600.0
"""Seconds for which a stage stays without a connection and a commit: longer than a query takes to come back."""
MAX_STAGES = MAX_ENLISTED
"""Stages of one queue, as many as one commit may name; each takes some hundred bytes of memory."""
MAX_STAGE_NAME = 255
"""Characters of a writer's or a stage's name, which are in memory and in each record of the stage."""
DEFAULT_VISIBILITY_TIMEOUT = 10.0
"""Seconds until a message that was delivered and not acknowledged can be received again."""

ENTRY_OVERHEAD_BYTES = 768
"""Counted for each stored batch beside its body: its objects and views, about this much on CPython 3.11-3.13.

Without it a million batches of one byte would count as a few megabytes and take most of a gigabyte.
"""
MAX_PRODUCERS = 10_000
"""Producers whose last sequence number a queue remembers; the least recently heard of is forgotten first."""
MAX_TEMPORARY_PRODUCERS = 10_000
"""The same of producers whose name was made up for one run, beside the others: nobody asks for their numbers but within a reconnect."""
MAX_SUBSCRIPTIONS = 1_000
"""Ledgers of one queue; each open to an owner who may never come back."""
MAX_EXPIRED_RANGES = 4_096
"""Ranges one receiver may let expire without a word; one that does so for longer does not acknowledge at all."""
MAX_RESERVE_WAIT_SECONDS = 10.0
"""The longest that a reservation waits for its first message."""
RETURN_GRACE_SECONDS = 600.0
"""No subscription is forgotten sooner after a start of the broker, or a change of the setting: whoever waited for it has come back then."""
MAX_LOOKED_PAST = 200_000
"""Messages of a queue with groups that wait behind others of theirs, and were looked at to find what somebody may have. With so many the
queue looks no further: it waits for some of those to be done."""
MAX_DELAYED = 100_000
"""Batches, or returned parts of batches, that may wait for a delay: each takes a few hundred bytes of memory."""
DEAD_LETTER_TIMEOUT = 30.0
"""Seconds after which dead letters that the other queue has not answered for are handed over again."""
DEAD_LETTER_BATCHES = 64
DEAD_LETTER_BYTES = 8 * 1024 * 1024
"""Dead letters on their way to the other queue, in parts of batches and in bytes, but one in any case; others wait where they are."""
DEAD_LETTER_PART_BYTES = 4 * 1024 * 1024
"""Bytes of messages, and of headers that say why they are dead, in one batch of dead letters: together they fit a frame."""


BLOCK, REJECT, REJECT_DEAD_LETTER, DROP_HEAD = "block", "reject", "reject-dead-letter", "drop-head"
"""What a queue at its limit does: grants its senders nothing, refuses what they send, or does so and has it be a dead letter, or drops
its oldest messages."""
OVERFLOWS = (BLOCK, REJECT, REJECT_DEAD_LETTER, DROP_HEAD)
REJECTING = frozenset({REJECT, REJECT_DEAD_LETTER})
LETTING_GO = frozenset({REJECT_DEAD_LETTER, DROP_HEAD})
"""Those for which messages are dead letters where a queue or an exchange is named for these."""
MAX_RECEIVES_LIMIT = 1_000
"""The largest ``max_receives``: a message that failed so often will not succeed. Failures are not counted beyond it."""
MAX_FAILURES = "max_failures"
"""What ``max_receives`` may be called as well, wherever settings are said: it counts failures."""
ALIASES = {MAX_FAILURES: "max_receives"}
"""Other names of settings, wherever they are said; shown and stored they are by their own."""
DEFAULT_RETRY_MAX_DELAY = 60.0
"""Seconds to which the time between two tries grows, unless ``retry_delay`` itself is longer."""
DEFAULT_MAX_DEDUPLICATION_IDS, MAX_DEDUPLICATION_IDS = 1_000_000, 10_000_000
"""Ids that a queue with a window remembers at a time, 130 to 180 MB of memory when it has so many, and the most that may be asked for."""
REJECTED_FAILURES = MAX_RECEIVES_LIMIT + 1
"""What stands in the place of a message's failures when a receiver has refused it for good: worn out, whatever ``max_receives`` is."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Limits, times and behaviour of one queue.

    Attributes:
        max_messages: messages stored and granted together; None for no limit of the queue's own: what holds its senders back then are the
            broker's watermarks.
        max_bytes: bytes stored and granted together, each stored batch with ``ENTRY_OVERHEAD_BYTES``; None likewise.
        visibility_timeout: seconds until a message that was delivered and not acknowledged can be received again.
        overflow: at a limit, ``block`` grants senders nothing; ``reject`` refuses what they send, and ``reject-dead-letter`` has it be a
            dead letter besides; ``drop-head`` drops the oldest that are ready, and only what is ready counts towards its limits.
        max_receives: a message that has failed so often goes to the dead-letter queue; None for never. ``max_failures`` is the same.
        dead_letter_queue: its name; None for the queue's own with ``.dead`` after it.
        delay: seconds until a message that was sent can be received, unless its sender says otherwise.
        ttl: seconds after which a message nobody received is of no use, unless its sender says less; None for never. Of 0 it goes to who
            can receive it as it comes, or expires.
        exclusive: one receiver at a time, in strict order; the next ones wait in line.
        max_staged_messages: messages of transactions that are not committed, which do not count as stored.
        max_staged_bytes: their bytes, counted alike; None for as much as is fit for a queue on the disk, or in memory.
        subscription_expiry: seconds without owner or reader after which a subscription is forgotten; None for never.
        durable: whether the queue and what it holds outlive the broker's end. One that does not is transient: it pages to disk like the
            others, nothing waits for the disk, and a start forgets it. In a broker without a journal no queue outlives it.
        dead_letter_exchange: where dead letters are published instead; None for none.
        dead_letter_routing_key: by what it routes them, and their key from then on; None for the key that each has, or the queue's name.
        expires: seconds after which the queue goes that nobody receives from, takes of or declares anew, with all that it holds; None for
            never. They count anew from each start.
        single_active_consumer: one receiver gets everything as long as it receives, and the others wait. An ``exclusive`` queue is
            stricter: it passes nothing over, and who has it keeps it until it has left.
        retry_delay: seconds until what has failed once can be received again, where its receiver says nothing else; 0 for at once. With
            each failure it is twice as long.
        retry_max_delay: seconds to which that grows.
        drop_failed: whether what has failed ``max_receives`` times is dropped, and no dead letter.
        max_priority: its highest level. What has a higher priority is received before what has a lower one, and of one in order; above
            this counts as this. None for a queue without levels, which takes no notice of priorities.
        deduplication_window: seconds in which others with the id of a message are confirmed and not stored; None where nobody looks at ids.
        max_deduplication_ids: ids that are remembered at a time. When they are so many senders wait until the oldest may be forgotten.
        groups: whether messages of one group (the header ``group-id``) go to one receiver at a time, in order. Others pass them.

    Raises:
        ValueError: a value that cannot be; the text names it.
    """

    max_messages: int | None = DEFAULT_MAX_MESSAGES
    max_bytes: int | None = DEFAULT_MAX_BYTES
    visibility_timeout: float = DEFAULT_VISIBILITY_TIMEOUT
    overflow: str = BLOCK
    max_receives: int | None = None
    dead_letter_queue: str | None = None
    delay: float = 0.0
    ttl: float | None = None
    exclusive: bool = False
    max_staged_messages: int = DEFAULT_MAX_STAGED_MESSAGES
    max_staged_bytes: int | None = None
    subscription_expiry: float | None = None
    durable: bool = True
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    expires: float | None = None
    single_active_consumer: bool = False
    retry_delay: float = 0.0
    retry_max_delay: float = DEFAULT_RETRY_MAX_DELAY
    drop_failed: bool = False
    max_priority: int | None = None
    deduplication_window: float | None = None
    max_deduplication_ids: int = DEFAULT_MAX_DEDUPLICATION_IDS
    groups: bool = False

    def __post_init__(self) -> None:
        for name in ("max_messages", "max_bytes", "max_staged_messages", "max_staged_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; 1 or more is possible")
        if not 0 < self.visibility_timeout <= MAX_VISIBILITY_SECONDS:
            raise ValueError(
                f"a visibility timeout of {time_text(self.visibility_timeout)} is not above 0 and at most "
                f"{time_text(MAX_VISIBILITY_SECONDS)}"
            )
        if self.overflow not in OVERFLOWS:
            raise ValueError(f"overflow is {self.overflow!r:.40}, not one of {', '.join(OVERFLOWS)}")
        if self.max_receives is not None and not 1 <= self.max_receives <= MAX_RECEIVES_LIMIT:
            raise ValueError(f"max_receives is {self.max_receives}, not between 1 and {MAX_RECEIVES_LIMIT}")
        if not 0 <= self.delay <= MAX_VISIBILITY_SECONDS:
            raise ValueError(
                f"a delay of {time_text(self.delay)} is not between 0 and {time_text(MAX_VISIBILITY_SECONDS)}"
            )
        if self.ttl is not None and not 0 <= self.ttl <= MAX_TTL_SECONDS:
            raise ValueError(f"a ttl of {time_text(self.ttl)} is not between 0 and {time_text(MAX_TTL_SECONDS)}")
        most = MAX_SUBSCRIPTION_EXPIRY_SECONDS
        if self.subscription_expiry is not None and not 0 < self.subscription_expiry <= most:
            raise ValueError(
                f"a subscription expiry of {time_text(self.subscription_expiry)} is not above 0 and at most {time_text(most)}"
            )
        most = MAX_QUEUE_EXPIRY_SECONDS
        if self.expires is not None and not 0 < self.expires <= most:
            raise ValueError(
                f"the queue expires after {time_text(self.expires)}, which is not above 0 and at most {time_text(most)}"
            )
        self._check_retries()
        if self.max_priority is not None and not 1 <= self.max_priority <= MAX_PRIORITY:
            raise ValueError(f"max_priority is {self.max_priority}, not between 1 and {MAX_PRIORITY}")
        self._check_deduplication()
        if self.groups and self.max_priority is not None:
            raise ValueError(
                "groups and max_priority are set: a queue has its messages in order by group, or by priority"
            )
        if self.groups and self.exclusive:
            raise ValueError(
                "groups and exclusive are set: one receiver of an exclusive queue has all groups, in order"
            )
        self._check_dead_letter_exchange()

    def _check_deduplication(self) -> None:
        window, most = self.deduplication_window, MAX_DEDUPLICATION_WINDOW_SECONDS
        if window is not None and not 0 < window <= most:
            raise ValueError(
                f"a deduplication window of {time_text(window)} is not above 0 and at most {time_text(most)}"
            )
        if not 1 <= self.max_deduplication_ids <= MAX_DEDUPLICATION_IDS:
            raise ValueError(
                f"max_deduplication_ids is {self.max_deduplication_ids}, not between 1 and {MAX_DEDUPLICATION_IDS}"
            )

    def _check_retries(self) -> None:
        for name in ("retry_delay", "retry_max_delay"):
            if not 0 <= (value := getattr(self, name)) <= MAX_VISIBILITY_SECONDS:
                raise ValueError(
                    f"a {name} of {time_text(value)} is not between 0 and {time_text(MAX_VISIBILITY_SECONDS)}"
                )
        if self.drop_failed and self.dead_letters_named:
            raise ValueError(
                "drop_failed is set, and a place for dead letters is named: what has failed too often goes there or is dropped"
            )

    def _check_dead_letter_exchange(self) -> None:
        if self.dead_letter_exchange is None:
            if self.dead_letter_routing_key is not None:
                raise ValueError("a dead-letter routing key is given, but no dead-letter exchange that would go by it")
            return
        if self.dead_letter_routing_key is not None:
            from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES  # noqa: PLC0415 - a client loads nothing of exchanges

            size = len(self.dead_letter_routing_key.encode("utf-8", "surrogatepass"))
            if size > MAX_ROUTING_KEY_BYTES:
                raise ValueError(
                    f"a dead-letter routing key of {size} bytes is longer than a routing key may be, {MAX_ROUTING_KEY_BYTES}"
                )
        if self.dead_letter_queue is not None:
            raise ValueError(
                "a dead-letter queue and a dead-letter exchange are given: dead letters go to one of them, so leave the other empty"
            )

    @property
    def dead_letters_named(self) -> bool:
        """Whether a queue or an exchange is named for dead letters: what expires or is over a limit goes there, and is gone otherwise."""
        return self.dead_letter_queue is not None or self.dead_letter_exchange is not None

    def nearer_in_messages(self, messages: int, size: int) -> bool:
        """Whether so many messages of so many bytes are nearer to the limit of messages than to that of bytes."""
        if self.max_messages is None or self.max_bytes is None:
            return self.max_bytes is None
        return messages * self.max_bytes >= size * self.max_messages

    @property
    def keeps_dead_letters(self) -> bool:
        """Whether what a receiver refuses for good is kept somewhere: where a place is named, or the queue's own is used."""
        return self.dead_letters_named or (self.max_receives is not None and not self.drop_failed)

    @property
    def counts_failures(self) -> bool:
        """Whether it is recorded how often a message has failed: for a limit, or for when it comes again."""
        return self.max_receives is not None or self.retry_delay > 0

    def failures_of_account(self, recorded: int) -> int:
        """What of a recorded count of failures still says something: one of settings that nobody has any more does not."""
        refused = recorded == REJECTED_FAILURES and self.keeps_dead_letters
        return recorded if refused or self.counts_failures else 0

    def level_of(self, priority: int) -> int:
        """The level that messages of a priority are of; 0 where there are none."""
        most = self.max_priority
        return 0 if most is None or not priority else min(priority, most)

    def worn_out(self, failures: int) -> bool:
        """Whether messages that have failed so often may not be delivered again."""
        if failures == REJECTED_FAILURES and self.keeps_dead_letters:
            return True
        return self.max_receives is not None and failures >= self.max_receives


def dead_letter_settings(settings: QueueSettings) -> QueueSettings:
    """Of ``settings`` what suits a queue for dead letters: it keeps them, whatever the broker has its queues do with messages."""
    return replace(
        settings,
        overflow=BLOCK,
        max_receives=None,
        dead_letter_queue=None,
        delay=0.0,
        ttl=None,
        exclusive=False,
        durable=True,
        dead_letter_exchange=None,
        dead_letter_routing_key=None,
        expires=None,
        single_active_consumer=False,
        retry_delay=0.0,
        drop_failed=False,
        max_priority=None,
        deduplication_window=None,
        groups=False,
    )


NEVER, NO_LIMIT = "never", "none"
"""How None is typed and shown where it means that something never happens, and where it is the absence of a limit."""
AT_ONCE = -1
"""What is said for a time to live of 0, where 0 says never."""


class Unit(Enum):
    """What a setting of a queue counts or names."""

    COUNT = "messages, failures of one, priorities, or ids"
    BYTES = "bytes"
    SECONDS = "seconds"
    FLAG = "true or false"
    CHOICE = "one of a few words"
    QUEUE = "a queue's name"
    EXCHANGE = "an exchange's name"
    KEY = "a routing key"


class Setting(NamedTuple):
    """One of ``QueueSettings``, for whoever writes and reads them: the wire, the settings file, the command line.

    Attributes:
        name: there.
        unit: what it counts.
        help: what it does, in a line.
        none: what is said where None is meant, which means never, no limit, or the queue's own; None where it cannot be.
        label: over a column of it, where that is not its name.
        word: how None is typed and shown where ``none`` is 0.
        zero: what is said where 0 is meant, and ``none`` is 0; None where it cannot be.
    """

    name: str
    unit: Unit
    help: str
    none: object = None
    label: str = ""
    word: str = NEVER
    zero: int | None = None

    @property
    def heading(self) -> str:
        """Over a column of it."""
        return self.label or self.name.replace("_", " ") + (" s" if self.unit is Unit.SECONDS else "")


QUEUE_SETTINGS: tuple[Setting, ...] = (
    Setting("max_messages", Unit.COUNT, "Messages that one queue stores.", none=0, word=NO_LIMIT),
    Setting("max_bytes", Unit.BYTES, "Bytes that one queue stores.", none=0, word=NO_LIMIT),
    Setting(
        "visibility_timeout",
        Unit.SECONDS,
        "After which an unacknowledged message is delivered again.",
        label="visibility s",
    ),
    Setting("overflow", Unit.CHOICE, "What a full queue does: let senders wait, refuse, or drop."),
    Setting("max_receives", Unit.COUNT, "Failures of a message until it is dead-lettered.", none=0),
    Setting(
        "dead_letter_queue",
        Unit.QUEUE,
        "Where dead letters go; each queue's own by default.",
        none="",
        label="dead letters",
    ),
    Setting("delay", Unit.SECONDS, "Until a sent message can be received."),
    Setting("ttl", Unit.SECONDS, "After which a message that nobody received is dropped.", none=0, zero=AT_ONCE),
    Setting("exclusive", Unit.FLAG, "One receiver of a queue at a time; the next wait in line."),
    Setting(
        "max_staged_messages", Unit.COUNT, "Messages that open transactions hold of one queue.", label="max staged"
    ),
    Setting("max_staged_bytes", Unit.BYTES, "Bytes that open transactions hold of one queue."),
    Setting("subscription_expiry", Unit.SECONDS, "After which a subscription that nobody uses is forgotten.", none=0),
    Setting("durable", Unit.FLAG, "Queues outlive the broker's end; if not, a start forgets them."),
    Setting(
        "dead_letter_exchange",
        Unit.EXCHANGE,
        "Where dead letters are published, instead of a queue; none by default.",
        none="",
        label="dead-letter exchange",
    ),
    Setting(
        "dead_letter_routing_key",
        Unit.KEY,
        "What that routes them by; the key that each has by default.",
        none="",
        label="dead-letter key",
    ),
    Setting("expires", Unit.SECONDS, "After which a queue that nobody uses is deleted, with what it holds.", none=0),
    Setting("single_active_consumer", Unit.FLAG, "One receiver gets everything; the others wait to go on."),
    Setting("retry_delay", Unit.SECONDS, "Until what has failed comes again; each time twice as long."),
    Setting("retry_max_delay", Unit.SECONDS, "To which that grows."),
    Setting("drop_failed", Unit.FLAG, "What has failed max_receives times is dropped, and no dead letter."),
    Setting(
        "max_priority", Unit.COUNT, "The highest priority; messages of a higher one go first.", none=0, word=NO_LIMIT
    ),
    Setting("deduplication_window", Unit.SECONDS, "In which a message with the id of another is not stored.", none=0),
    Setting("max_deduplication_ids", Unit.COUNT, "Ids that a queue remembers; when so many are, senders wait."),
    Setting("groups", Unit.FLAG, "Messages of one group go to one receiver at a time, in order."),
)
"""Every setting of a queue, in the order of ``QueueSettings``."""


def by_own_names(said: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are said, each by its own name; raises ValueError where one is said by both of its names."""
    found = {name: value for name, value in said.items() if name not in ALIASES}
    for alias, name in ALIASES.items():
        if said.get(alias) is None:
            continue
        if found.get(name) is not None:
            raise ValueError(f"{alias} and {name} are one setting, and both are said: leave one of them out")
        found[name] = said[alias]
    return found


UNALTERABLE = {
    "exclusive": "its receivers rely on it",
    "durable": "what was confirmed was so for it",
    "single_active_consumer": "its receivers rely on it",
    "max_priority": "what it holds is stored by its levels",
    "groups": "its receivers rely on it",
}
"""Settings that a queue keeps as long as it is there, each with why."""


DEAD_LETTER_SUFFIX = ".dead"
DIGEST_DIGITS = 16
"""Of a digest of the name that is cut: so many that no two queues share their dead letters by chance."""


def dead_letter_name(queue: str) -> str:
    """The queue's own name with ``.dead`` after it; one too long for that is cut, and ``~`` with a digest of all of it is put between."""
    name = queue + DEAD_LETTER_SUFFIX
    encoded = queue.encode()
    if len(encoded) + len(DEAD_LETTER_SUFFIX) <= MAX_NAME_BYTES:
        return name
    import hashlib  # noqa: PLC0415 - of few names, and it loads OpenSSL, which no help needs

    ending = f"~{hashlib.sha256(encoded).hexdigest()[:DIGEST_DIGITS]}{DEAD_LETTER_SUFFIX}"
    return encoded[: MAX_NAME_BYTES - len(ending)].decode(errors="ignore") + ending
