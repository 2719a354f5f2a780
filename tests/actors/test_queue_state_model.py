"""`QueueState` against a model that knows every message by itself, under arbitrary commands.

The model predicts nothing about who is served; it checks that whatever the queue does is allowed, that nothing is left
undone that could be done, and that the numbers agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors.batch import MessageBatch
from actors.errors import DataLossError, DemandExceededError, UnknownAcknowledgementError
from actors.limits import NO_DEADLINE
from actors.queue.operations.moving import settle_all, take_parcels
from actors.queue.operations.peeking import peek
from actors.queue.state import retries
from actors.queue.state.capacity import REOPEN_SHARE
from actors.queue.state.counted import Counted, share
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.events import (
    Event,
    LedgerExtended,
    MessagesAdded,
    MessagesDropped,
    MessagesExpired,
    MessagesMoved,
)
from actors.queue.vocabulary.moves import PeekMessages
from actors.queue.vocabulary.replies import EXPIRED, MAXLEN, DeadLetter
from actors.queue.vocabulary.settings import DEAD_LETTER_TIMEOUT, DROP_HEAD, ENTRY_OVERHEAD_BYTES, REJECT, QueueSettings
from tests.actors.driven import (
    Confirm,
    Deliver,
    Effect,
    GrantCapacity,
    QueueState,
    Reserved,
    empty_log,
    reason_of,
    replayed,
)
from tests.examples_tried import tried

F = TypeVar("F", bound=Callable[..., None])

VISIBILITY = 10.0
MAX_MESSAGES = 20
MAX_BYTES = 40 * 20 + 8 * ENTRY_OVERHEAD_BYTES
LARGE = 10**9
RECEIVERS = ("r1", "r2", "r3")
HOLDS_ON = "r3"
"""It has no visibility timeout."""
SENDERS = ("s1", "s2", "s3")
READY, LEASED, DELAYED, RESERVED, LEAVING = "ready", "leased", "delayed", "reserved", "leaving"
US = 1_000_000


def declared(**what: Any) -> QueueSettings:
    return QueueSettings(MAX_MESSAGES, MAX_BYTES, VISIBILITY, **what)


DECLARATIONS = (
    declared(),
    declared(delay=3.0),
    declared(ttl=8.0),
    declared(max_receives=2),
    declared(overflow=REJECT),
    declared(exclusive=True),
    declared(ttl=8.0, dead_letter_queue="late"),
    declared(ttl=0.0),
    declared(ttl=0.0, dead_letter_queue="late"),
    declared(exclusive=True, max_receives=2, overflow=REJECT),
    declared(max_receives=1, ttl=12.0, dead_letter_queue="all", overflow=REJECT),
    declared(retry_delay=2.0, retry_max_delay=7.0),
    declared(retry_delay=2.0, max_receives=3, exclusive=True),
    declared(retry_delay=4.0, max_receives=2, ttl=8.0, dead_letter_queue="late"),
    declared(max_receives=2, drop_failed=True),
    QueueSettings(6, MAX_BYTES, VISIBILITY, overflow=DROP_HEAD),
    QueueSettings(None, 3 * ENTRY_OVERHEAD_BYTES, VISIBILITY, overflow=DROP_HEAD, ttl=8.0),
    QueueSettings(5, None, VISIBILITY, overflow=DROP_HEAD, delay=3.0, max_receives=2),
    QueueSettings(5, 3 * ENTRY_OVERHEAD_BYTES, VISIBILITY, overflow=DROP_HEAD, exclusive=True),
    QueueSettings(4, 3 * ENTRY_OVERHEAD_BYTES, VISIBILITY, overflow=DROP_HEAD, dead_letter_queue="old", ttl=8.0),
)
"""Queues to try it all on; what a sender says about delay and time to live comes on top."""
ENDLESS = (QueueSettings(None, None, VISIBILITY), QueueSettings(None, None, VISIBILITY, overflow=REJECT))
"""Such as have no limit."""


@dataclass
class Stored:
    payload: bytes
    where: str = READY
    holder: str = ""
    until: float = 0.0
    since: float = 0.0
    deliveries: int = 0
    failures: int = 0
    replayed: bool = False
    counted: int = 0
    expires: float | None = None
    sent_until: float = 0.0
    tried_until: float = 0.0
    arrives: bool = False
    why: str = ""
    level: int = 0


@dataclass
class ModelReceiver:
    demand: int = 0
    credit: int = 0
    visibility: float = VISIBILITY
    expired: Counter[int] = field(default_factory=Counter)

    def answers_late(self, number: int) -> None:
        """One of the deliveries of a message that it lost to the visibility timeout is answered."""
        self.expired -= Counter([number])


@dataclass
class ModelSender:
    messages: int = 0
    bytes: int = 0
    wanted_messages: int = 0
    wanted_bytes: int = 0
    next: int = 0
    behind: int | None = None


OPERATIONS: dict[str, tuple[Callable[[Any], Any] | None, dict[str, st.SearchStrategy[Any]]]] = {}
WEIGHTED: list[str] = []


def operation(
    weight: int, possible: Callable[[Any], Any] | None = None, **arguments: st.SearchStrategy[Any]
) -> Callable[[F], F]:
    """One of the machine's commands, chosen with ``weight`` when ``possible``.

    Rules of their own would be chosen alike and left out of whole runs, and most runs would never fill the queue.
    """

    def register(command: F) -> F:
        OPERATIONS[command.__name__] = possible, arguments
        WEIGHTED.extend([command.__name__] * weight)
        return command

    return register


def dropped_by(event: Event) -> tuple[tuple[int, int], ...]:
    """What an event says was too much."""
    if isinstance(event, MessagesDropped):
        return event.ranges
    return event.dropped if isinstance(event, MessagesAdded) else ()


class QueueMachine(RuleBasedStateMachine):
    wall_offset = 1_700_000_000 * US
    clock_was_set = False
    some_came_back = False
    declarations: ClassVar[tuple[QueueSettings, ...]] = (*DECLARATIONS, *ENDLESS)

    def wall_us(self, now: float) -> int:
        return self.wall_offset + round(now * US)

    @initialize(data=st.data())
    def declare(self, data: st.DataObject) -> None:
        self.start(data.draw(st.sampled_from(self.declarations)))

    def start(self, settings: QueueSettings) -> None:
        # Each message is looked at by itself here, so all wait alike.
        self.alike = patch.object(retries, "RETRY_JITTER", 0.0)
        self.alike.start()
        self.settings = settings
        self.worn_out: set[int] = set()
        self.now = 100.0
        self.queue = self.made(empty_log(settings))
        self.unpublished = 0
        self.stored: dict[int, Stored] = {}
        self.entries: dict[int, tuple[int, int]] = {}
        self.next = 0
        self.receivers: dict[str, ModelReceiver] = {}
        self.senders: dict[str, ModelSender] = {}
        self.ledger: list[int] = []
        self.base = 0
        self.owned = False
        self.reserving: tuple[int, int, int, int | None, float] | None = None
        self.events: list[Event] = []
        self.seen_events = 0
        self.expect_confirm: list[tuple[str, int, int | None, bool]] = []
        self.paused: str | None = None
        self.expired = self.moved = self.moved_away = self.rejected = self.dropped = 0
        self.some_are_back = False
        self.answers = 0
        self.acknowledged = self.purged = 0
        self.request = 0
        # A queue in use, so that few steps suffice to get anywhere.
        for name in RECEIVERS[:2]:
            self.queue.attach_receiver(name)
            self.receivers[name] = ModelReceiver()
        for name in SENDERS[:2]:
            self.queue.attach_sender(name, None)
            self.senders[name] = ModelSender(wanted_messages=15, wanted_bytes=LARGE)
            self.queue.request_capacity(name, 15, LARGE)
            self.settle()

    def teardown(self) -> None:
        if hasattr(self, "alike"):
            self.alike.stop()

    def made(self, log: QueueLog) -> QueueState:
        """The queue with this log."""
        return QueueState(
            "q", 7, self.settings, log=log, record=self.record, now=self.now, wall_us=self.wall_us(self.now)
        )

    def hear_more(self) -> None:
        """What those are told of whom this machine knows nothing."""

    def is_staging(self, _effect: Effect) -> bool:
        """Whether an effect has to do with what this machine knows nothing of, and was judged elsewhere."""
        return False

    def is_in_between(self) -> bool:
        """Whether the queue has more to do before anything is delivered, which this machine's never has."""
        return False

    def more_deadlines(self) -> list[float]:
        """Those of what this machine knows nothing of."""
        return []

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        feasible = [name for name in WEIGHTED if (possible := OPERATIONS[name][0]) is None or possible(self)]
        name = data.draw(st.sampled_from(feasible), label="command")
        arguments = {key: data.draw(strategy, label=key) for key, strategy in OPERATIONS[name][1].items()}
        command = getattr(self, name)
        if "data" in command.__code__.co_varnames[: command.__code__.co_argcount]:
            arguments["data"] = data
        command(**arguments)

    # --- the model's reading of what came out

    def record(self, event: Event) -> int:
        self.events.append(event)
        return len(self.events)

    def settle(self) -> None:
        fresh_events = self.events[self.seen_events :]
        self.seen_events = len(self.events)
        reserved = [event for event in fresh_events if isinstance(event, LedgerExtended)]
        expired = [n for e in fresh_events if isinstance(e, MessagesExpired) for r in e.ranges for n in range(*r)]
        for number in expired:
            assert self.settings.dead_letter_queue is None
            self.check_expired(number)
            self.remove(number)
            self.expired += 1
        dropped = [n for event in fresh_events for r in dropped_by(event) for n in range(*r)]
        self.dropped += len(dropped)
        over = [number for number in dropped if not self.has_failed_for_good(number)]
        sizes = [self.size_of(number) for number in over]
        orders = [self.order(number) for number in over]
        for number in over:
            assert self.settings.dead_letter_queue is None
            assert self.stored[number].where == READY, "what is held, or not due yet, is not dropped"
            self.remove(number)
        self.late: list[int] = []
        self.some_expired = bool(expired)
        self.left_over: list[tuple[tuple[int, int], int]] = list(zip(orders, sizes, strict=True))
        self.delivered = False
        for effect in self.queue.take_effects():
            if self.is_staging(effect):
                continue
            if isinstance(effect, Deliver):
                self.check_delivery(effect)
            elif isinstance(effect, DeadLetter):
                self.check_dead_letter(effect)
            elif isinstance(effect, GrantCapacity):
                sender = self.senders[str(effect.sender)]
                assert effect.messages or effect.bytes
                assert self.rejects() or self.paused is None
                sender.wanted_messages -= effect.messages
                sender.wanted_bytes -= effect.bytes
                assert sender.wanted_messages >= 0
                assert sender.wanted_bytes >= 0
                keeps_it_going = sender.messages == 0 and effect.messages == 1
                sender.messages += effect.messages
                sender.bytes += effect.bytes
                if effect.messages and not keeps_it_going and not self.rejects() and not self.drops():
                    most = self.settings.max_messages or LARGE
                    assert self.permits() + len(self.stored) <= most, "granted from what room there is"
            elif isinstance(effect, Confirm):
                rejected = effect.rejected is not None
                assert (effect.sender, effect.up_to, effect.first, rejected) == self.expect_confirm.pop(0)
            elif isinstance(effect, Reserved):
                self.check_reservation(effect, reserved)
            else:
                raise AssertionError(effect)
        self.hear_more()
        self.check_dropped()
        assert not reserved
        assert not self.expect_confirm
        assert not self.worn_out, "what goes nowhere is dropped at once"
        for message in self.stored.values():
            assert not (message.arrives and message.where == READY and message is self.head()), "it expires at once"
            message.arrives = message.arrives and self.is_in_between()
        self.check_all_is_handed_over()
        gone = max(expired + self.late, default=-1)
        # Of a queue with levels, at the head of its own.
        assert (
            self.some_came_back
            or self.settings.max_priority is not None
            or not any(m.where == READY and n < gone for n, m in self.stored.items())
        ), "what expires does at the head"

    def check_all_is_handed_over(self) -> None:
        """More may be under way than this machine stores."""
        assert all(message.until > 0 for message in self.stored.values() if message.where == LEAVING)

    def order(self, number: int) -> tuple[int, int]:
        """What is received before another has less of it."""
        return -self.stored[number].level, number

    def drops(self) -> bool:
        return self.settings.overflow == DROP_HEAD

    def size_of(self, number: int) -> int:
        """What a message counts for towards a limit of bytes: its share of its batch."""
        first = max(first for first in self.entries if first <= number)
        stop, size = self.entries[first]
        return share(first, stop, size + ENTRY_OVERHEAD_BYTES, number, number + 1)

    def has_failed_for_good(self, number: int) -> bool:
        """Whether what is dropped is so because it has failed too often, and not because it is over a limit; it is gone then."""
        if number in self.worn_out:
            self.worn_out.remove(number)
            return True
        if not (self.settings.drop_failed and self.is_worn_out(self.stored[number].failures)):
            return False
        self.remove(number)
        return True

    def check_dropped(self) -> None:
        """What is over a limit is gone, the head first, and no more than that."""
        if not self.drops():
            assert not self.left_over
            return
        ready = [number for number, message in self.stored.items() if message.where == READY]
        size = sum(map(self.size_of, ready))
        most, most_bytes = self.settings.max_messages or LARGE, self.settings.max_bytes or LARGE
        if isinstance(self.queue.ready, Counted) and self.queue.ready.is_counted:
            assert self.queue.ready.bytes == size
        assert len(ready) <= most
        assert size <= most_bytes
        if self.left_over:
            last, last_size = self.left_over[-1] if self.settings.max_priority is None else max(self.left_over)
            assert self.some_are_back or last < min(map(self.order, ready), default=(1, 0)), "what is next"
            some_left = self.delivered or self.some_expired or self.late
            assert some_left or len(ready) + 1 > most or size + last_size > most_bytes, "no more than need be"

    def rejects(self) -> bool:
        return self.settings.overflow == REJECT

    def is_worn_out(self, failures: int) -> bool:
        return self.settings.max_receives is not None and failures >= self.settings.max_receives

    def check_expired(self, number: int) -> None:
        assert number in self.stored, "nobody can receive it yet"
        message = self.stored[number]
        assert message.where == READY
        assert message.expires is not None
        assert message.expires <= self.now

    def check_in_turn(self, number: int, below: int | None = None) -> None:
        """It may be delivered, and is what has to be."""
        assert number == self.lowest_ready(below), "in order, what was returned in its old place"
        expires = self.stored[number].expires
        assert expires is None or expires > self.now or self.stored[number].arrives, "never after its time"
        if self.settings.exclusive:
            in_turn = self.order(number)
            assert not any(m.where == DELAYED and self.order(n) < in_turn for n, m in self.stored.items()), (
                "nothing is passed over"
            )

    def check_dead_letter(self, effect: DeadLetter) -> None:
        assert effect.queue == self.settings.dead_letter_queue
        ((start, stop),) = effect.ranges
        assert stop - start == len(effect.batch)
        for number, payload in enumerate(effect.batch.payloads, start):
            message = self.stored[number]
            assert message.payload == payload
            why = reason_of(effect)
            if not message.why:
                # It says for good why it left, whatever the settings are by now.
                assert (why not in (EXPIRED, MAXLEN)) == self.is_worn_out(message.failures)
            if message.where == READY and why == MAXLEN:
                self.left_over.append((self.order(number), self.size_of(number)))
            elif message.where == READY:
                self.check_expired(number)
                self.late.append(number)
            else:
                assert message.where == LEAVING
                assert message.until <= self.now, "once, until its time is over"
                assert message.why in ("", why), "it left for that"
            message.why = why
            message.where, message.until = LEAVING, self.now + DEAD_LETTER_TIMEOUT

    def holder(self) -> str | None:
        """Who can be served, where only one can."""
        return next(iter(self.in_line()), None) if self.settings.exclusive else None

    def permits(self) -> int:
        return sum(sender.messages for sender in self.senders.values())

    def lowest_ready(self, below: int | None = None) -> int:
        ready = (n for n, message in self.stored.items() if message.where == READY and (below is None or n < below))
        return min(ready, key=self.order)

    def check_delivery(self, effect: Deliver) -> None:
        name = str(effect.receiver)
        receiver = self.receivers[name]
        assert self.holder() in (None, name)
        batch = effect.batch
        assert receiver.demand >= len(batch), "never more than the demand"
        assert receiver.credit > batch.prefix_bytes(len(batch) - 1), (
            "only the last message leads beyond the byte demand"
        )
        self.delivered = True
        receiver.demand -= len(batch)
        receiver.credit -= batch.nbytes
        for number, payload in enumerate(batch.payloads, effect.first):
            self.check_in_turn(number)
            message = self.stored[number]
            message.deliveries += 1
            assert message.payload == payload
            assert message.deliveries == effect.delivery_count
            assert message.replayed == effect.possibly_replayed
            message.where, message.holder, message.until = LEASED, name, self.now + receiver.visibility
            message.since = self.now

    def check_reservation(self, effect: Reserved, events: list[LedgerExtended]) -> None:
        self.answers += 1
        self.delivered = True
        assert self.reserving is not None
        start, messages, size, below, _ = self.reserving
        self.reserving = None
        high = self.base + len(self.ledger)
        if effect.end <= high:
            assert effect.end == min(high, start + messages)
            return
        event = events.pop(0)
        assert event.position == start == high
        total = 0
        for low, stop, delivery_count, again in event.ranges:
            for number in range(low, stop):
                self.check_in_turn(number, below)
                assert below is None or number < below
                message = self.stored[number]
                message.deliveries += 1
                assert (message.deliveries, message.replayed) == (delivery_count, again)
                message.where = RESERVED
                self.ledger.append(number)
                total += len(message.payload) + 4
        assert effect.end == self.base + len(self.ledger) <= start + messages
        assert total <= size or effect.end == start + 1

    def remove(self, number: int) -> None:
        del self.stored[number]
        for first, (stop, _) in list(self.entries.items()):
            if first <= number < stop and not any(n in self.stored for n in range(first, stop)):
                del self.entries[first]

    def held_by(self, name: str) -> list[int]:
        return [number for number, m in self.stored.items() if m.where == LEASED and m.holder == name]

    def give_back(self, number: int, delay: float = 0.0, failed: bool = True) -> None:
        """A delivery came to nothing; ``failed`` unless nobody tried to handle it."""
        message = self.stored[number]
        message.holder, message.replayed = "", True
        message.failures += failed
        counts = self.settings.counts_failures
        if counts:
            message.counted = message.failures
        if self.is_worn_out(message.failures):
            self.leaves(number)
            return
        if failed and not delay and self.settings.retry_delay:
            most = max(self.settings.retry_delay, self.settings.retry_max_delay)
            delay = min(self.settings.retry_delay * 2.0 ** (message.failures - 1), most)
        if failed and counts:
            message.tried_until = self.now + delay
        if delay:
            message.where, message.until = DELAYED, self.now + delay
        else:
            message.where = READY

    def leaves(self, number: int) -> None:
        """A message is worn out."""
        if self.settings.drop_failed:
            self.remove(number)
            self.worn_out.add(number)
        else:
            self.stored[number].where, self.stored[number].until = LEAVING, 0.0

    # --- rules: senders

    @operation(2, lambda self: len(self.senders) < len(SENDERS) or len(self.receivers) < len(RECEIVERS))
    def attach_all(self) -> None:
        self.attach_all_senders()
        for name in RECEIVERS:
            if name not in self.receivers:
                told = NO_DEADLINE if name == HOLDS_ON else 0.0
                waits = self.queue.attach_receiver(name, told)
                assert waits == (self.settings.exclusive and self.in_line()[0] != name)
                self.receivers[name] = ModelReceiver(visibility=max(told, self.settings.visibility_timeout))
        self.settle()

    def attach_all_senders(self) -> None:
        for name in SENDERS:
            if name not in self.senders:
                assert self.queue.attach_sender(name, None) is None
                self.senders[name] = ModelSender()

    @operation(3, lambda self: self.senders, messages=st.integers(0, 30), size=st.sampled_from([LARGE, 0, 1, 50, 400]))
    def request_capacity(self, data: st.DataObject, messages: int, size: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.senders)))
        sender = self.senders[name]
        sender.wanted_messages += messages
        sender.wanted_bytes += size
        self.queue.request_capacity(name, messages, size)
        self.settle()

    @operation(
        8,
        lambda self: any(sender.messages > 0 for sender in self.senders.values()),
        sizes=st.lists(st.integers(0, 60), min_size=1, max_size=12),
        greedy=st.booleans(),
        delay=st.sampled_from([None, None, None, 0.0, 3.0, 15.0]),
        ttl=st.sampled_from([None, None, None, 0.0, 0.5, 5.0, 20.0]),
        behind=st.booleans(),
        priority=st.sampled_from([0, 0, 1, 2, 9]),
    )
    def send(
        self,
        data: st.DataObject,
        sizes: list[int],
        greedy: bool,
        delay: float | None,
        ttl: float | None,
        behind: bool,
        priority: int,
    ) -> None:
        name = data.draw(st.sampled_from([name for name, sender in self.senders.items() if sender.messages > 0]))
        sender = self.senders[name]
        if not greedy:
            sizes = sizes[: sender.messages]
        payloads = [bytes([self.next + i & 0xFF]) * size for i, size in enumerate(sizes)]
        batch = MessageBatch.from_payloads(payloads)
        behind = behind and sender.behind is not None
        sequence = sender.behind if behind and sender.behind is not None else sender.next
        arguments = name, sequence, batch, self.now, self.wall_us(self.now), delay, ttl, priority
        if len(batch) > sender.messages or batch.prefix_bytes(len(batch) - 1) >= sender.bytes:
            with pytest.raises(DemandExceededError):
                self.queue.send(*arguments)
            return
        first = self.queue.send(*arguments)
        sender.messages -= len(batch)
        sender.bytes -= batch.nbytes
        up_to = sequence + len(batch)
        if behind or self.has_no_room(batch):
            assert first is None
            sender.behind = up_to
            self.rejected += len(batch)
            self.expect_confirm.append((name, up_to, None, True))
        else:
            assert first == self.next
            sender.next, sender.behind = up_to, None
            self.expect_confirm.append((name, up_to, first, False))
            self.store(payloads, batch, delay, ttl, priority)
        self.settle()

    def has_no_room(self, batch: MessageBatch) -> bool:
        size = sum(size + ENTRY_OVERHEAD_BYTES for _, size in self.entries.values())
        most, most_bytes = self.settings.max_messages, self.settings.max_bytes
        full = most_bytes is not None and size + batch.nbytes + ENTRY_OVERHEAD_BYTES > most_bytes
        full = full or (most is not None and len(self.stored) + len(batch) > most)
        return self.rejects() and (full or self.paused is not None)

    def store(
        self,
        payloads: list[bytes],
        batch: MessageBatch,
        delay: float | None,
        ttl: float | None,
        priority: int = 0,
    ) -> None:
        delay = self.settings.delay if delay is None else delay
        ttl = min((limit for limit in (ttl, self.settings.ttl) if limit is not None), default=None)
        self.entries[self.next] = (self.next + len(batch), batch.nbytes)
        for payload in payloads:
            # What has no time at all is overdue whatever the clock says.
            expires = None if ttl is None else self.now + ttl if ttl else 0.0
            message = self.stored[self.next] = Stored(payload, expires=expires)
            message.arrives = ttl == 0
            message.level = min(priority, self.settings.max_priority or 0)
            if delay:
                message.where, message.until = DELAYED, self.now + delay
                message.sent_until = message.until
            self.next += 1

    @operation(1, None, reason=st.sampled_from([None, None, "the disk is full"]))
    def pause(self, reason: str | None) -> None:
        self.paused = reason
        self.queue.pause_senders(reason, self.now)
        self.settle()

    @operation(1, lambda self: not self.settings.retry_delay, jump=st.sampled_from([-7200.0, -5.0, 5.0, 7200.0]))
    def set_the_clock(self, jump: float) -> None:
        self.clock_was_set = True
        self.wall_offset += round(jump * US)

    # --- rules: receivers

    @operation(8, lambda self: self.receivers, messages=st.integers(0, 8), size=st.sampled_from([LARGE, 300, 60, 1, 0]))
    def receive(self, data: st.DataObject, messages: int, size: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.receivers)))
        receiver = self.receivers[name]
        receiver.demand += messages
        receiver.credit += size
        self.queue.receive(name, messages, size, self.now)
        self.settle()

    def somebody_knows_something(self) -> bool:
        return any(self.held_by(name) or receiver.expired for name, receiver in self.receivers.items())

    def somebody(self, data: st.DataObject) -> str:
        known = [name for name, receiver in self.receivers.items() if self.held_by(name) or receiver.expired]
        return data.draw(st.sampled_from(sorted(known)))

    def pick(self, data: st.DataObject, name: str, *, late: bool) -> list[tuple[int, int]]:
        """Some of what a receiver holds, as pairs; with what it lost too if ``late``."""
        held = set(self.held_by(name))
        if late:
            held |= set(self.receivers[name].expired)
        if not held:
            return []
        chosen = sorted(data.draw(st.sets(st.sampled_from(sorted(held)), min_size=1)))
        pairs: list[tuple[int, int]] = []
        for number in chosen:
            if pairs and sum(pairs[-1]) == number and data.draw(st.booleans()):
                pairs[-1] = (pairs[-1][0], pairs[-1][1] + 1)
            else:
                pairs.append((number, 1))
        return data.draw(st.permutations(pairs))

    @operation(6, lambda self: self.somebody_knows_something())
    def acknowledge(self, data: st.DataObject) -> None:
        name = self.somebody(data)
        pairs = self.pick(data, name, late=True)
        if not pairs:
            return
        self.queue.acknowledge(name, pairs)
        receiver = self.receivers[name]
        for first, count in pairs:
            for number in range(first, first + count):
                message = self.stored.get(number)
                mine = message is not None and message.where == LEASED and message.holder == name
                if message is not None and (mine or message.where in (READY, DELAYED)):
                    self.remove(number)
                    self.acknowledged += 1
                if not mine:
                    receiver.answers_late(number)
        self.settle()
        first, count = pairs[0]
        if not set(range(first, first + count)) <= set(receiver.expired):
            with pytest.raises(UnknownAcknowledgementError):
                self.queue.acknowledge(name, [pairs[0]])

    @operation(1, lambda self: self.receivers, first=st.integers(0, 60), count=st.integers(1, 5))
    def acknowledge_what_is_not_held(self, data: st.DataObject, first: int, count: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.receivers)))
        known = set(self.held_by(name)) | set(self.receivers[name].expired)
        if not set(range(first, first + count)) <= known:
            with pytest.raises(UnknownAcknowledgementError):
                self.queue.acknowledge(name, [(first, count)])

    @operation(
        3, lambda self: self.somebody_knows_something(), delay=st.sampled_from([0.0, 3.0, 15.0]), failed=st.booleans()
    )
    def negative_acknowledge(self, data: st.DataObject, delay: float, failed: bool) -> None:
        name = self.somebody(data)
        pairs = self.pick(data, name, late=True)
        if not pairs:
            return
        held = set(self.held_by(name))
        for first, count in pairs:
            for number in range(first, first + count):
                if number in held:
                    self.give_back(number, delay, failed)
                else:
                    self.receivers[name].answers_late(number)
        self.queue.negative_acknowledge(name, pairs, delay, self.now, failed)
        self.settle()

    @operation(2, lambda self: self.somebody_knows_something(), seconds=st.sampled_from([1.0, 30.0]))
    def extend(self, data: st.DataObject, seconds: float) -> None:
        name = self.somebody(data)
        pairs = self.pick(data, name, late=False)
        self.queue.extend(name, pairs, seconds, self.now)
        for first, count in pairs:
            for number in range(first, first + count):
                if name != HOLDS_ON:
                    self.stored[number].until = self.now + seconds

    @operation(1, lambda self: self.receivers)
    def cancel_demand(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.receivers)))
        self.queue.cancel_demand(name)
        receiver = self.receivers[name]
        receiver.demand = 0
        receiver.credit = min(0, receiver.credit)

    @operation(1, None, name=st.sampled_from((*RECEIVERS, *SENDERS, "owner", "stranger")), failed=st.booleans())
    def detach(self, name: str, failed: bool) -> None:
        self.receiver_goes(name)
        for number in self.held_by(name):
            self.give_back(number, failed=failed)
        self.receivers.pop(name, None)
        self.senders.pop(name, None)
        if name == "owner":
            self.owned = False
            self.reserving = None
        self.queue.detach(name, self.now, failed)
        self.settle()

    def receiver_goes(self, name: str) -> None:
        """A receiver is about to go."""

    @operation(1, lambda self: len(self.receivers) > 1, failed=st.booleans())
    def leave_together(self, data: st.DataObject, failed: bool) -> None:
        """What they held is delivered as if one had held it, and not before the tick that is due at once."""
        names = data.draw(st.lists(st.sampled_from(sorted(self.receivers)), min_size=2, unique=True))
        for name in names:
            self.receiver_goes(name)
            unseen = self.pick(data, name, late=False)
            never_had = {number for first, count in unseen for number in range(first, first + count)}
            for number in self.held_by(name):
                self.give_back(number, failed=failed and number not in never_had)
            del self.receivers[name]
            self.queue.detach(name, self.now, failed, unseen, together=True)
        assert self.is_overdue()
        self.queue.tick(self.now)
        self.settle()

    # --- rules: the subscription

    @operation(
        4,
        lambda self: (
            not self.owned
            and not self.settings.exclusive
            and not (self.settings.single_active_consumer or self.settings.groups)
        ),
    )
    def own(self) -> None:
        facts = self.queue.open_subscription("owner", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
        assert (facts.base, facts.high) == (self.base, self.base + len(self.ledger))
        assert facts.high_water == self.next
        self.owned = True
        self.settle()

    @operation(
        5,
        lambda self: self.owned,
        back=st.sampled_from([0, 0, 0, 1, 5]),
        messages=st.integers(1, 15),
        size=st.sampled_from([1, 100, LARGE]),
        wait=st.sampled_from([0.0, 4.0]),
        below=st.one_of(st.none(), st.integers(0, 12)),
    )
    def reserve(self, back: int, messages: int, size: int, wait: float, below: int | None) -> None:
        if self.reserving is not None:
            return
        high = self.base + len(self.ledger)
        start = max(self.base, high - back)
        self.request += 1
        below = None if below is None else max(0, self.next - below)
        self.reserving = (start, messages, size, below, self.now + wait)
        before = self.answers
        self.queue.reserve(
            "owner", self.request, start, messages=messages, size=size, wait=wait, below=below, now=self.now
        )
        self.settle()
        assert self.answers == before + 1 or (wait and start == high)

    @operation(3, lambda self: self.owned, count=st.integers(0, 10))
    def commit(self, count: int) -> None:
        done = self.ledger[:count]
        position = self.base + len(done)
        for _ in range(2):
            assert self.queue.commit_position("owner", position) == position
        del self.ledger[:count]
        self.base = position
        for number in done:
            self.remove(number)
            self.acknowledged += 1
        self.settle()

    @operation(2, lambda self: self.ledger and self.owned, low=st.integers(0, 12), count=st.integers(0, 12))
    def fetch(self, low: int, count: int) -> None:
        start, stop = self.base + low, self.base + low + count
        if stop > self.base + len(self.ledger):
            with pytest.raises(DataLossError):
                self.queue.fetch("owner", start, stop)
            return
        got: list[tuple[int, int, bytes]] = []
        for part in self.queue.fetch("owner", start, stop):
            for i, payload in enumerate(part.batch.payloads):
                got.append((part.position + i, part.first + i, payload))
        expected = self.ledger[low : low + count]
        assert got == [(start + i, n, self.stored[n].payload) for i, n in enumerate(expected)]

    @operation(1, lambda self: self.owned and self.ledger)
    def release(self) -> None:
        for number in self.ledger:
            message = self.stored[number]
            message.where, message.replayed = READY, True
            # A reservation is no failure.
            message.failures = message.counted
            if self.is_worn_out(message.failures):
                message.where, message.until = LEAVING, 0.0
        self.base += len(self.ledger)
        released = len(self.ledger)
        self.ledger = []
        if self.reserving is not None:
            _, *rest = self.reserving
            self.reserving = (self.base, *rest)  # type: ignore[assignment]  # the waiting one is at the ledger's end
        assert self.queue.release_subscription("sub", self.now, force=True) == released
        self.settle()

    # --- rules: the queue

    @operation(1)
    def purge(self) -> None:
        gone = [number for number, message in self.stored.items() if message.where in (READY, DELAYED)]
        for number in gone:
            self.remove(number)
        self.purged += len(gone)
        assert self.queue.purge() == len(gone)
        self.settle()

    @operation(2, None, most=st.none() | st.integers(1, 5))
    def move_away(self, data: st.DataObject, most: int | None) -> None:
        """Another queue is handed the first of what is ready, and stores as much of it as it likes; the rest is back."""
        in_order = sorted((n for n, message in self.stored.items() if message.where == READY), key=self.order)
        # What a delivery has just made the head may be expired, and is dropped on the way.
        in_order = [n for n in in_order if (expires := self.stored[n].expires) is None or expires > self.now]
        parcels = take_parcels(self.queue, self.next, most, b"prefix00", self.now)
        numbers = [number for each in parcels for number in range(each.start, each.start + len(each))]
        assert numbers == (in_order if self.gives_away() else [])[: len(numbers)]
        assert most is None or len(numbers) <= most
        assert sum(map(len, self.queue.parcels)) == len(numbers)
        for number, payload in zip(numbers, (each for one in parcels for each in one.batch.payloads), strict=True):
            assert self.stored[number].payload == payload
        for parcel in parcels:
            parcel.stored = data.draw(st.integers(0, len(parcel)))
            taken = (parcel.start, parcel.start + parcel.stored)
            if parcel.stored:
                # It is the other queue's record that says so.
                self.events.append(MessagesMoved((taken,), dead=False))
                if data.draw(st.booleans()):
                    self.queue.log.apply(MessagesMoved((taken,), dead=False))
                self.moved_away += parcel.stored
            for number in range(*taken):
                self.remove(number)
        settle_all(self.queue, tuple(parcels), self.now)
        assert not self.queue.parcels
        # What came back was passed by what expired behind it.
        self.some_came_back = self.some_are_back = True
        self.settle()
        self.some_came_back = self.some_are_back = False

    def gives_away(self) -> bool:
        """Whether anything may be moved."""
        return self.head() is not None

    @operation(1)
    def look(self, data: st.DataObject) -> None:
        """A look shows what is stored, oldest or newest first numbers, and nothing comes of it."""
        count = data.draw(st.integers(1, 25))
        start = data.draw(st.none() | st.integers(0, self.next))
        shown = peek(self.queue, PeekMessages(count, start), self.now)
        found = [
            (each.messages.first + index, payload)
            for each in shown.ranges
            for index, payload in enumerate(each.messages.batch.payloads)
        ]
        stored = [(number, self.stored[number].payload) for number in sorted(self.stored)]
        if start is None:
            assert found == stored[-count:]
        else:
            from_there = [each for each in stored if each[0] >= start]
            assert found == from_there[:count]
            assert (shown.rest is None) == (len(from_there) <= count)
        assert self.seen_events == len(self.events)
        assert self.queue.take_effects() == []

    @operation(4, None, seconds=st.sampled_from([3.0, 10.0, 0.0, 0.5, 9.5, 40.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.now += seconds
        for number, message in list(self.stored.items()):
            if message.where == LEASED and message.until <= self.now:
                self.lose(message.holder, number)
                self.give_back(number)
            elif message.where == DELAYED and message.until <= self.now:
                message.where = READY
        self.some_are_back = True
        self.queue.tick(self.now)
        self.settle()
        if self.is_overdue():
            # What a delivery has just made the head may be expired: that is for the next tick, which is due at once.
            self.queue.tick(self.now)
            self.settle()
        for head in self.heads():
            assert head.expires is None or head.expires > self.now, "what expires goes by itself"
        self.some_are_back = False
        if self.reserving is not None:
            assert self.reserving[-1] > self.now, "a reservation is answered when its wait is over"

    def lose(self, name: str, number: int) -> None:
        """The time of a delivery is over; its receiver may still answer it."""
        self.receivers[name].expired[number] += 1

    @operation(2, lambda self: any(message.where == LEAVING for message in self.stored.values()))
    def answer_for_dead_letters(self, data: st.DataObject) -> None:
        leaving = sorted(number for number, message in self.stored.items() if message.where == LEAVING)
        numbers = data.draw(st.sets(st.sampled_from(leaving), min_size=1))
        ranges = tuple((number, number + 1) for number in sorted(numbers))
        if data.draw(st.booleans()):
            self.queue.log.apply(MessagesMoved(ranges))  # whoever records the other queue's event may do so first
        for number in numbers:
            self.remove(number)
        self.moved += len(numbers)
        self.queue.dead_letters_stored(ranges, self.now)
        # It is the other queue's record that says so.
        self.events.append(MessagesMoved(ranges))
        self.settle()

    def tries_by_another_clock(self) -> bool:
        """Whether how long something waits to be tried again, after a crash, depends on when the clock was set."""
        return self.clock_was_set and any(message.tried_until for message in self.stored.values())

    @operation(1, lambda self: not self.tries_by_another_clock())
    def crash(self) -> None:
        self.queue.reset(self.now)
        self.begin_again()

    @operation(2, lambda self: not self.clock_was_set)
    def restart(self) -> None:
        self.queue = self.made(replayed(self.events, self.settings))
        self.queue.pause_senders(self.paused, self.now)
        self.rejected = 0  # nothing records what was not stored
        self.begin_again()

    def begin_again(self) -> None:
        """Nobody is connected, nobody holds anything, and what is known is what the events say."""
        for message in self.stored.values():
            if message.where == RESERVED:
                continue
            message.holder, message.replayed = "", True
            # Where nobody counts failures, what was counted before is of no account.
            message.deliveries = message.failures = message.counted if self.settings.counts_failures else 0
            message.why = ""
            if self.is_worn_out(message.counted):
                message.where, message.until = LEAVING, 0.0
            elif (until := max(message.sent_until, message.tried_until)) > self.now:
                message.where, message.until = DELAYED, until
            else:
                message.where = READY
        self.receivers.clear()
        self.senders.clear()
        self.owned = False
        self.reserving = None
        self.queue.tick(self.now)
        self.settle()

    # --- what always holds

    def granted(self) -> int:
        """Messages that senders may send."""
        return sum(sender.messages for sender in self.senders.values())

    @invariant()
    def numbers_agree(self) -> None:
        where = [message.where for message in self.stored.values()]
        statistics = self.queue.statistics(self.now)
        assert statistics.ready == where.count(READY)
        assert statistics.in_flight == where.count(LEASED)
        assert statistics.delayed == where.count(DELAYED)
        assert statistics.reserved == where.count(RESERVED) == len(self.ledger)
        assert statistics.stored_messages == len(self.stored)
        assert statistics.stored_bytes == sum(size + ENTRY_OVERHEAD_BYTES for _, size in self.entries.values())
        assert statistics.total_in == self.next - self.unpublished
        assert statistics.next_sequence == self.next
        assert statistics.total_acknowledged == self.acknowledged
        assert statistics.total_purged == self.purged
        assert statistics.leaving == where.count(LEAVING)
        assert statistics.total_expired == self.expired
        assert statistics.total_dropped == self.dropped
        assert statistics.total_dead_lettered == self.moved
        assert statistics.total_moved == self.moved_away
        assert statistics.total_rejected == self.rejected
        assert statistics.paused == self.paused
        assert statistics.waiting_receivers == self.waiting_in_line()
        assert statistics.capacity_granted == self.granted()
        for facts in statistics.connections:
            name = str(facts.connection)
            if facts.role == "receiver":
                assert facts.demand == self.receivers[name].demand
                held = self.held_by(name)
                assert facts.in_flight == len(held)
                oldest = self.stored[min(held)].since if held else self.now
                assert facts.held_ms == round(1000 * (self.now - oldest))
            elif facts.role == "sender" and name in self.senders:
                assert facts.demand == self.senders[name].messages
        waiting = sum(r.demand for r in self.served() if r.credit > 0)
        reserving = self.reserving[1] if self.reserving is not None else 0
        assert statistics.demand_waiting == waiting + reserving + self.more_demand()

    def more_demand(self) -> int:
        """Of those of whom this machine knows nothing."""
        return 0

    def waiting_in_line(self) -> int:
        """How many wait for another to leave."""
        return max(0, len(self.in_line()) - 1) if self.settings.exclusive else 0

    def in_line(self) -> list[str]:
        """Who receives, in the order in which they came."""
        return [str(connection) for connection in self.queue.receivers]

    def served(self) -> list[ModelReceiver]:
        """Those who may have messages."""
        names = self.in_line()[: 1 if self.settings.exclusive else None]
        return [self.receivers[name] for name in names if name in self.receivers]

    def head(self) -> Stored | None:
        """What is next, if it may be delivered."""
        # Of an exclusive queue what is delayed holds up what is behind it.
        in_line = (READY, DELAYED) if self.settings.exclusive else (READY,)
        waiting = [number for number, message in self.stored.items() if message.where in in_line]
        head = self.stored[min(waiting, key=self.order)] if waiting else None
        return head if head is not None and head.where == READY else None

    def heads(self) -> list[Stored]:
        """The same of each level: what is next there, if it may be delivered when its turn comes."""
        head = self.head()
        if head is None or self.settings.max_priority is None:
            return [] if head is None else [head]
        found: list[Stored] = []
        for level in sorted({message.level for message in self.stored.values()}, reverse=True):
            waiting = {n: m.where for n, m in self.stored.items() if m.level == level and m.where in (READY, DELAYED)}
            holds_up = self.settings.exclusive and DELAYED in waiting.values()
            ready = [number for number, where in waiting.items() if holds_up or where == READY]
            if ready and waiting[min(ready)] == READY:
                found.append(self.stored[min(ready)])
            if holds_up:
                # What is delayed holds up what is of lower levels too.
                break
        return found

    def is_overdue(self) -> bool:
        deadline = self.queue.next_deadline()
        return deadline is not None and deadline <= self.now

    @invariant()
    def whoever_wants_what_is_ready_has_it(self) -> None:
        if self.head() is not None:
            assert not any(r.demand > 0 and r.credit > 0 for r in self.served())
            if self.reserving is not None:
                below = self.reserving[3]
                assert below is not None
                assert not any(m.where == READY and n < below for n, m in self.stored.items())

    @invariant()
    def permits_are_bounded_whatever_is_stored(self) -> None:
        if self.settings.max_messages is None or self.drops():
            return
        if not self.rejects():
            assert self.permits() <= MAX_MESSAGES + len(SENDERS)
            assert self.permits() + len(self.stored) <= 2 * MAX_MESSAGES + len(SENDERS)
        else:
            assert len(self.stored) <= MAX_MESSAGES
            assert all(s.wanted_messages == s.wanted_bytes == 0 for s in self.senders.values())

    @invariant()
    def a_sender_that_wants_can_send_while_the_queue_is_not_nearly_full(self) -> None:
        # Between here and the limits it depends on whether the queue has been full since.
        statistics = self.queue.statistics(self.now)
        most, most_bytes = self.queue.senders_limits()
        most, most_bytes = most or LARGE, most_bytes or LARGE
        reopens_at = most - max(1, most // REOPEN_SHARE), most_bytes - max(1, most_bytes // REOPEN_SHARE)
        roomy = statistics.stored_messages <= reopens_at[0] and statistics.stored_bytes <= reopens_at[1]
        if roomy and self.paused is None:
            for sender in self.senders.values():
                assert sender.messages > 0 or sender.wanted_messages == 0
                assert sender.bytes > 0 or sender.wanted_bytes == 0

    @invariant()
    def the_next_deadline_is_the_earliest_one(self) -> None:
        deadlines = [m.until for m in self.stored.values() if m.where in (LEASED, DELAYED, LEAVING)]
        deadlines += self.more_deadlines()
        if self.reserving is not None:
            deadlines.append(self.reserving[-1])
        deadlines += [head.expires for head in self.heads() if head.expires is not None]
        deadlines = [deadline for deadline in deadlines if deadline != NO_DEADLINE]
        assert self.queue.next_deadline() == min(deadlines, default=None)

    @invariant()
    def the_fold_over_the_events_is_the_log(self) -> None:
        assert replayed(self.events, self.settings) == self.queue.log

    @invariant()
    def an_event_applied_twice_changes_nothing(self) -> None:
        twice = empty_log(self.settings)
        for event in self.events:
            twice.apply(event)
            twice.apply(event)
        assert twice == self.queue.log
        for event in self.events:
            twice.apply(event)
        assert twice == self.queue.log


class TestQueueAgainstItsModel(QueueMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(80), stateful_step_count=50)


@pytest.mark.soak
@pytest.mark.timeout(900)
class TestQueueAgainstItsModelForLong(QueueMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=2_000, stateful_step_count=50)
