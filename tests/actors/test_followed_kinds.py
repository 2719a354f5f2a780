"""Generated histories of everything that a broker records, followed by others that lag, die at any call, and take over."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from actors.batch import Message, MessageBatch
from actors.exchanges.vocabulary import Exchange, ExchangeDeclared, ExchangeDeleted
from actors.queue.vocabulary.calendar import Left, Place, Scheduled
from actors.queue.vocabulary.events import (
    CalendarPurged,
    Event,
    LedgerAdvanced,
    LedgerExtended,
    MessagesAcknowledged,
    MessagesAdded,
    MessagesDeduplicated,
    MessagesDropped,
    MessagesExpired,
    MessagesMoved,
    MessagesReturned,
    MessagesScheduled,
    QueuePurged,
    ReservedRange,
    StagesDiscarded,
    StagesEnded,
    SubscriptionDeleted,
    SubscriptionLeft,
    SubscriptionOwned,
    SubscriptionReleased,
)
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey, WriterVersion
from actors.storage import codec
from actors.storage.contents import _APPLY
from actors.storage.leader_storage import LeaderStorage
from streams.testkit import run_in_virtual_time
from tests.actors.node_cluster import Trio, differences

KINDS = {*codec._DECODERS, *_APPLY}
"""Every kind of record there is: one that is new has to be in a history here."""
SETTINGS = (
    None,
    QueueSettings(max_priority=3),
    QueueSettings(deduplication_window=5.0, groups=True),
    QueueSettings(durable=False),
)
US = 1_000_000


class History:
    """What happens to a leader's queues, a step at a time."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.names = 0
        self.version = 0
        self.now_us = 1_000 * US
        self.steps: list[Callable[[int], None]] = [
            *[self.add] * 4,
            self.acknowledge,
            self.gathered,
            self.take_away,
            self.give_back,
            self.reserve,
            self.go_on_with_ledgers,
            self.stage,
            self.end_stages,
            self.commit,
            self.together,
            self.move,
            self.in_turn,
            self.deduplicate,
            self.wait,
            self.come_due,
            self.put,
            self.exchange,
            self.declare,
            self.delete,
            self.redeclare,
        ]

    storage: LeaderStorage

    def step(self) -> None:
        self.now_us += self.random.randrange(US)
        queues = list(self.storage.contents.queues)
        if len(queues) < 4:
            self.declare(0)
            return
        self.random.choice(self.steps)(self.random.choice(queues))

    def log(self, number: int) -> Any:
        return self.storage.contents.queues[number].log

    def record(self, number: int, event: Event) -> None:
        stored = self.storage.contents.queues[number]
        record = self.storage.record_unawaited if stored.transient else self.storage.record
        lsn = record(number, event)
        stored.log.apply(event, lsn)

    def batch(self) -> MessageBatch:
        random = self.random
        return MessageBatch.from_messages(
            [
                Message(
                    random.randbytes(random.randrange(40)),
                    deduplication_id=f"id{random.randrange(50)}" if random.random() < 0.5 else None,
                    group=random.choice((None, "x")),
                )
                for _ in range(random.randrange(1, 5))
            ]
        )

    def added(self, number: int, **facts: Any) -> MessagesAdded:
        settings, log = self.storage.contents.queues[number].settings, self.log(number)
        if settings is not None and settings.max_priority is not None:
            facts["priority"] = self.random.randrange(4)
        if settings is not None and settings.deduplication_window is not None:
            facts["ids_until_us"] = self.now_us + 5 * US
        return MessagesAdded(log.next_sequence, self.batch(), self.now_us, **facts)

    def ranges(self, number: int) -> tuple[tuple[int, int], ...]:
        """Some of what is stored there."""
        stored = self.log(number).stored()
        if not stored:
            return ()
        start, stop = self.random.choice(stored)
        first = self.random.randrange(start, stop)
        return ((first, min(stop, first + self.random.randrange(1, 6))),)

    def add(self, number: int) -> None:
        random = self.random
        facts: dict[str, Any] = {}
        if random.random() < 0.3:
            facts["producers"] = ((f"p{random.randrange(3)}", self.now_us),)
        elif random.random() < 0.3:
            facts["temporary"] = ((f"t{random.randrange(3)}", self.now_us),)
        if random.random() < 0.2:
            facts["delay_us"], facts["ttl_us"] = US * random.randrange(1, 30), US * 100
        if random.random() < 0.1:
            facts["dropped"] = self.ranges(number)
        self.record(number, self.added(number, **facts))

    def acknowledge(self, number: int) -> None:
        self.record(number, MessagesAcknowledged(self.ranges(number)))

    def gathered(self, _number: int) -> None:
        self.storage._gathered.write()

    def take_away(self, number: int) -> None:
        made = self.random.choice((MessagesExpired, MessagesDropped, QueuePurged, MessagesMoved))
        self.record(number, made(self.ranges(number)))

    def give_back(self, number: int) -> None:
        for start, stop in self.ranges(number):
            self._give_back(number, start, stop)

    def _give_back(self, number: int, start: int, stop: int) -> None:
        waits = self.random.random() < 0.5
        returned = ((start, stop, self.random.randrange(1, 4)),)
        self.record(number, MessagesReturned(returned, self.now_us, (US,)) if waits else MessagesReturned(returned))

    def reserve(self, number: int) -> None:
        log = self.log(number)
        if "s" not in log.ledgers:
            self.record(number, SubscriptionOwned("s", log.deleted_epoch + 1, 0, 30.0, self.now_us))
            return
        for start, stop in self.ranges(number):
            entry = log.table.at(start)
            assert entry is not None
            reserved = ReservedRange(start, min(stop, entry.stop), 1, False)
            self.record(number, LedgerExtended("s", log.ledgers["s"].high, (reserved,)))

    def go_on_with_ledgers(self, number: int) -> None:
        ledger = self.log(number).ledgers.get("s")
        if ledger is None:
            return
        position = self.random.randint(ledger.base, ledger.high)
        events: list[Event] = [
            LedgerAdvanced("s", position),
            SubscriptionReleased("s", position),
            SubscriptionLeft("s", ledger.epoch, self.now_us),
            SubscriptionOwned("s", ledger.epoch + 1, 0, None, self.now_us),
            SubscriptionDeleted("s", ledger.epoch, ledger.high),
        ]
        self.record(number, self.random.choice(events))

    def stage(self, number: int) -> None:
        key = StageKey("w", self.version, self.random.choice("ab"))
        self.record(number, self.added(number, stage=key))

    def end_stages(self, number: int) -> None:
        log = self.log(number)
        keys = tuple(log.stages)
        if keys:
            ended = StagesEnded((keys[0],), keys[1:], log.next_sequence)
            self.record(number, self.random.choice((ended, StagesDiscarded(keys[:1], log.next_sequence))))

    def commit(self, _number: int) -> None:
        self.version += 1
        everybody = {number: ["a"] for number in self.storage.contents.queues}
        self.storage.commit(WriterVersion("w", self.version - 1), everybody)

    def together(self, number: int) -> None:
        other = self.random.choice(list(self.storage.contents.queues))
        events: dict[int, Event] = {number: self.added(number)}
        if other != number:
            events[other] = self.random.choice((self.added(other), MessagesExpired(self.ranges(other))))
        self.storage.record_all(events, WriterVersion("v", self.now_us) if self.random.random() < 0.3 else None)

    def move(self, number: int) -> None:
        other = self.random.choice(list(self.storage.contents.queues))
        if other != number:
            dead = self.random.random() < 0.5
            self.storage.record_all({other: self.added(other), number: MessagesMoved(self.ranges(number), dead)})

    def in_turn(self, number: int) -> None:
        events = [
            (number, MessagesAcknowledged(self.ranges(number))),
            (number, MessagesReturned(tuple((*part, 1) for part in self.ranges(number)))),
        ]
        other = self.random.choice(list(self.storage.contents.queues))
        events.append((other, MessagesAcknowledged(self.ranges(other))))
        self.storage.record_in_turn(events)

    def deduplicate(self, number: int) -> None:
        self.record(number, MessagesDeduplicated((("p0", self.now_us),), (("t0", self.now_us),)))

    def wait(self, number: int) -> None:
        """Messages wait in the queue's calendar."""
        contents, log = self.storage.contents, self.log(number)
        calendar, streams = log.calendar, log.table.calendar
        assert streams is not None
        index = self.now_us // (20 * US)
        slot = None if calendar is None else calendar.slot(0, index)
        stream = None if calendar is None else calendar.free_stream() if slot is None else slot.stream
        if stream is None:
            stream = streams.new_stream()
        place = Place(number, stream, 0, index)
        first = 0 if calendar is None else calendar.next_of(stream)
        scheduled = Scheduled(place, (self.now_us + 100 * US,), together=(place,))
        event = MessagesScheduled(first, self.batch(), self.now_us, priority=stream - number, scheduled=scheduled)
        lsn = self.storage.record_all({number: event})
        assert lsn
        assert contents.calendars[stream] == number

    def come_due(self, number: int) -> None:
        """Some of what waits in the calendar comes into the queue; or all of it is dropped."""
        calendar = self.log(number).calendar
        slots = [] if calendar is None else list(calendar.used())
        if not slots:
            return
        slot = slots[0]
        if self.random.random() < 0.5:
            self.record(number, CalendarPurged(((slot.stream, slot.next),)))
            return
        gaps = slot.gone.gaps(0, slot.next)
        start, stop = gaps[0]
        batch = MessageBatch.from_payloads([b"due"] * (stop - start))
        scheduled = Scheduled(left=(Left(slot.stream, ((start, stop),)),))
        event = MessagesScheduled(self.log(number).next_sequence, batch, self.now_us, scheduled=scheduled)
        self.storage.record_all({number: event})

    def put(self, _number: int) -> None:
        value = self.random.choice((None, b"value"))
        self.storage.put("section", f"key{self.random.randrange(3)}", value)

    def exchange(self, _number: int) -> None:
        definitions, name = self.storage.definitions, f"x{self.random.randrange(3)}"
        change = definitions.number + 1
        there = name in definitions.exchanges
        made = ExchangeDeleted(change, name) if there else ExchangeDeclared(change, Exchange(name, "fanout"))
        self.storage.change_definitions([made])

    def declare(self, _number: int) -> None:
        if len(self.storage.contents.queues) < 7:
            self.names += 1
            settings = SETTINGS[self.names % len(SETTINGS)]
            self.storage.declare(f"q{self.names}", settings, b"arguments" if settings is not None else b"")

    def redeclare(self, number: int) -> None:
        settings = self.storage.contents.queues[number].settings
        if settings is not None and settings.durable and settings.max_priority is None:
            self.storage.redeclare(number, QueueSettings(deduplication_window=self.random.choice((None, 5.0))))

    def delete(self, number: int) -> None:
        if self.random.random() < 0.3:
            self.storage.delete(number)


def same(what: str, one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one == other, differences(what, one, other)


async def judge(trio: Trio) -> None:
    """Each follower has what a node has that has begun with nothing, and folded the same records."""
    for member in sorted(trio.members, key=lambda member: member.node.folded):
        if member is trio.led or member.node._followed.behind or member.node.folded < trio.whole.node.folded:
            continue
        trio.whole.node.commit(member.node.folded)
        await trio.whole.folded()
        same(f"a follower at record {member.node.folded}", member.state(), trio.whole.state())
        trio.seen["judged"] += 1


async def happen(seed: int, lives: int, steps: int) -> tuple[Counter[str], set[int]]:
    random = Random(seed)
    trio = Trio(random, share=0.03)
    history = History(random)
    for life in range(lives):
        history.storage = (await trio.lead()).start(trio.led.failures.append)
        assert life == 0 or history.storage.store_id
        await judge(trio)
        confirmed: dict[str, Any] = {}
        for _ in range(steps):
            history.step()
            draw = random.random()
            if draw < 0.15:
                trio.lags = {n for n in range(3) if n != trio.leader and random.random() < 0.3}
                if len(trio.lags) == 2:
                    trio.lags.pop()
                await trio.round(random.choice((1, 7, 10**6)))
                await asyncio.sleep(0)
                await judge(trio)
            elif draw < 0.2:
                history.storage.checkpoints.make()
            elif draw < 0.23:
                number = random.choice([n for n in range(3) if n != trio.leader])
                await trio.ship(number, random.choice((1, 5, 10**6)))
                trio.die(number)
        if random.random() < 0.5:
            # All of it is confirmed: the next leader has all of it.
            history.storage._gathered.write()
            while trio.committed < trio.led.node.journal.next_lsn:
                await trio.round()
            confirmed = trio.led.state()
        assert trio.led.failures == []
        assert trio.leader is not None
        trio.die(trio.leader)
        if confirmed:
            await trio.lead()
            same("the next leader", trio.led.state(), confirmed)
            trio.seen["confirmed"] += 1
            assert trio.leader is not None
            trio.die(trio.leader)
    kinds = {record.kind for record in trio.whole.node.journal.read_log(1)}
    ends(trio)
    return trio.seen, kinds


def ends(trio: Trio) -> None:
    for member in (*trio.members, trio.whole):
        member.gone()


SEEDS = 10
_FOUND: dict[int, tuple[Counter[str], set[int]]] = {}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_follower_is_what_a_start_makes_of_the_same_log_and_a_leader_has_all_that_was_confirmed(seed: int) -> None:
    async def main() -> None:
        _FOUND[seed] = await happen(seed, 3, 100)

    run_in_virtual_time(main())
    assert _FOUND[seed][0]["judged"]


def test_these_histories_have_every_kind_of_record() -> None:
    async def main() -> None:
        for seed in range(SEEDS):
            if seed not in _FOUND:
                _FOUND[seed] = await happen(seed, 3, 100)

    run_in_virtual_time(main())
    seen, kinds = Counter[str](), set[int]()
    for each, found in _FOUND.values():
        seen += each
        kinds |= found
    assert kinds == KINDS
    assert {"judged", "confirmed", "died", "died at a call", "truncated"} <= seen.keys()
