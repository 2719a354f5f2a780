"""What a run has: its queues, programs and faults, as plans. ``plan`` draws them."""

from __future__ import annotations

from dataclasses import dataclass

from actors import QueueSettings
from tests.simulation.checker import QueueRules
from tests.simulation.exchange_plan import ExchangesPlan
from tests.simulation.said import NOTHING, Says


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """One queue: its settings, and what the checker is to hold it to."""

    name: str
    settings: QueueSettings
    rules: QueueRules


@dataclass(frozen=True, slots=True)
class ProducerPlan:
    """One producing program.

    Attributes:
        named: whether it has a client id of its own, which its next life has too.
        total: messages that it sends in all its lives.
        largest_batch: messages in one batch, at most.
        largest_payload: bytes of one message, at most.
        pause: mean seconds between batches.
        max_in_flight: as the sender's.
        delay: seconds that its sender asks for; None for what the queue declares.
        ttl: likewise.
        drops: whether it lets go of what the queue rejects.
        says: what its messages say.
        priorities: one of these for each message; none for messages without.
        later: one of these for each message, the seconds until it is due; none for what ``delay`` says.
        timed: whether it says a time of day in place of such a delay.
    """

    name: str
    queue: str
    named: bool
    total: int
    largest_batch: int
    largest_payload: int
    pause: float
    max_in_flight: int
    delay: float | None = None
    ttl: float | None = None
    drops: bool = False
    says: Says = NOTHING
    priorities: tuple[int, ...] = ()
    later: tuple[float, ...] = ()
    timed: bool = False


@dataclass(frozen=True, slots=True)
class WriterPlan:
    """One program that writes in transactions.

    Attributes:
        queues: where each of its versions has messages.
        versions: how many it commits.
        tasks: stages of a version in each queue that win.
        largest_stage: messages of one, at most; none is possible.
        fails: how many of the attempts at a task fail in the middle and are made again.
        lingers: how many of those that failed go on sending all the same.
        aborts: how many of its transactions are aborted first, and staged again.
        pause: mean seconds between batches.
        says: what its messages say, by their queue.
    """

    name: str
    queues: tuple[str, ...]
    versions: int
    tasks: int
    largest_stage: int
    largest_payload: int
    fails: float
    lingers: float
    aborts: float
    pause: float
    says: tuple[tuple[str, Says], ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """One consuming program; the shares say what it does with how much of what it gets, the rest is acknowledged at once.

    Attributes:
        max_in_flight: as the receiver's.
        late: acknowledged after a while, which may be too late.
        returned: given back, at once or with a delay.
        forgotten: never answered.
        extended: extended first, and acknowledged later.
        stays: mean seconds until it leaves in good order, and comes back.
        priority: as the receiver's.
    """

    name: str
    queue: str
    max_in_flight: int
    late: float
    returned: float
    forgotten: float
    extended: float
    stays: float
    priority: int = 0


@dataclass(frozen=True, slots=True)
class MoverPlan:
    """One program that moves messages from a queue to another, and looks at what is there.

    Attributes:
        largest_move: messages asked for at once, at most; a step of the broker's has its own bounds.
        pause: mean seconds between two moves.
    """

    name: str
    source: str
    target: str
    largest_move: int
    pause: float


@dataclass(frozen=True, slots=True)
class TakerPlan:
    """Callers that take from one queue by request, and settle by receipts, their own and those of others.

    Attributes:
        callers: at a time.
        largest_take: messages of a request, at most.
        wait: seconds that a request waits, at most.
        leaves: how many of the requests have a caller who goes away while it waits.
        unseen: how many of the answers reach nobody.
        late: how many receipts are given a while later.
        forgotten: never.
        returned: with which messages come again, with a failure or without.
        extended: with which more time is asked for first.
        twice: how many receipts are given again.
        pause: mean seconds between two requests of a caller.
        alters: mean seconds between two changes of the queue's settings; None where nobody alters them.
    """

    queue: str
    callers: int
    largest_take: int
    wait: float
    leaves: float
    unseen: float
    late: float
    forgotten: float
    returned: float
    extended: float
    twice: float
    pause: float
    alters: float | None


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """How often what goes wrong: weights of the kinds, and the mean seconds between two of any."""

    interval: float
    weights: dict[str, float]
    until: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run.

    Attributes:
        heartbeat: the broker's, seconds.
        commit_delay: seconds that what is journalled waits for its commit, at most.
        durable: whether the broker has a disk; else it is never restarted.
        transaction_timeout: the broker's, seconds.
        takers: callers that take by request, a queue each.
        deletes: mean seconds that a queue of the takers' own lives until it is deleted and made anew; None where there is none.
        remembers: mean seconds between the changes that a gateway makes of the map beside the queues; None where there is no gateway.
        exchanges: what is published to exchanges, and by whom; None where there are none.
        leaps: mean seconds between two times at which the time of day is set forward; None where it never is.
        rush: how often a turn of the loop takes so long that more arrives meanwhile.
        pause: how often something that is ready lets a turn pass.
    """

    seed: int
    queues: tuple[QueuePlan, ...]
    producers: tuple[ProducerPlan, ...]
    consumers: tuple[ConsumerPlan, ...]
    faults: FaultPlan
    heartbeat: float
    commit_delay: float
    durable: bool
    writers: tuple[WriterPlan, ...] = ()
    movers: tuple[MoverPlan, ...] = ()
    transaction_timeout: float = 3600.0
    rush: float = 0.0
    pause: float = 0.0
    remembers: float | None = None
    takers: tuple[TakerPlan, ...] = ()
    deletes: float | None = None
    exchanges: ExchangesPlan | None = None
    leaps: float | None = None
