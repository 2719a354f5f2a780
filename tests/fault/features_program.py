"""A broker's queues with everything that they can be told, step by step from a seed.

Queues remember ids, have levels or groups, count failures and wait before they try again, drop or refuse what is over their limit, and have
dead letters. What is sent to them is due at once, within a minute, or in months; some waits at an exchange; a schedule stores its own.
Queues are purged, deleted, declared anew, altered, and their messages moved. Checkpoints are made in slices between all that. The time of
day goes on by months in one instant, or back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from actors.batch import Message, MessageBatch
from actors.queue.vocabulary import commands, moves, replies
from actors.queue.vocabulary.deaths import QUEUE, REASON, SENT
from actors.queue.vocabulary.settings import DROP_HEAD, REJECT_DEAD_LETTER, QueueSettings
from actors.scheduling.schedule import TIME_HEADER, Schedule
from actors.storage.snapshot import StoredQueue
from journal import JournalOptions
from streams.testkit import elapse
from tests.actors.letters_bench import Letters
from tests.actors.publishing_bench import Client
from tests.actors.stored_queues import turns
from tests.fault.features_model import (
    COPY,
    LATER,
    PLACE,
    TICKS,
    WINDOW_US,
    Fact,
    Sent,
    compare,
    compare_ids,
    known,
    places_of,
    require,
)
from tests.fault.store_program import DATA

LARGE: Final = 10**9
US: Final = 1_000_000
DAY: Final = 86_400.0
SMALL: Final = JournalOptions(segment_bytes=4096, checkpoint_bytes=8192, checkpoint_records=60, spare_segments=2)
WINDOW: Final = WINDOW_US / US
START: Final = 1_790_000_000.0

QUEUES: Final = {
    "plain": QueueSettings(),
    "ids": QueueSettings(deduplication_window=WINDOW),
    "levels": QueueSettings(max_priority=3, max_receives=2),
    "groups": QueueSettings(groups=True, max_receives=2, retry_delay=50.0),
    "drops": QueueSettings(max_messages=12, overflow=DROP_HEAD, dead_letter_exchange="letters", max_receives=2),
    "refuses": QueueSettings(max_messages=12, overflow=REJECT_DEAD_LETTER, dead_letter_queue="refused"),
    "all": QueueSettings(
        deduplication_window=WINDOW,
        max_priority=3,
        max_receives=2,
        retry_delay=50.0,
        max_messages=20,
        overflow=DROP_HEAD,
        dead_letter_exchange="letters",
    ),
    "all in groups": QueueSettings(
        deduplication_window=WINDOW,
        groups=True,
        max_receives=2,
        retry_delay=50.0,
        max_messages=20,
        overflow=DROP_HEAD,
        dead_letter_exchange="letters",
    ),
}
"""Each feature alone, and all that go together."""
NAMES: Final = {name: name.replace(" ", "-") for name in QUEUES}
LETTERS: Final = (("letters-a", "letters-b"), ("refused",), ("levels.dead",), ("groups.dead",))
"""Where dead letters go: those of an exchange to two queues, by one record."""
KEPT: Final = {COPY, TICKS, PLACE, *(name for names in LETTERS for name in names)}
"""Queues that nobody receives from."""
DELAYS: Final = (
    None,
    None,
    None,
    0.0,
    0.5,
    20.0,
    59.0,
    60.0,
    60.001,
    61.0,
    300.0,
    3_000.0,
    3 * DAY,
    40 * DAY,
    366 * DAY,
)
REASONS: Final = {"max-receives", "expired", "rejected", "maxlen"}
IDS: Final = (None, "a", "b", "c", "d")
GROUPS: Final = (None, "x", "y")


@dataclass(slots=True)
class Sending:
    """A sender's own side: its connection, what it was told, and the payloads that it waits for by their number there."""

    ref: Any
    told: list[Any]
    sequence: int = 0
    waiting: list[tuple[int, list[bytes]]] = field(default_factory=list)


class Broker(Letters):
    """Queues over a disk, whose time of day goes with the loop's, and can be set."""

    def __init__(self, disk: Any, program: FeaturesProgram, **options: Any) -> None:
        self._program = program
        super().__init__(DATA, options=options.pop("options", SMALL), files=disk, **options)

    @property
    def time_of_day(self) -> float:
        return self._program.base + asyncio.get_running_loop().time()

    @time_of_day.setter
    def time_of_day(self, _: float) -> None:
        """It is set by its base."""

    def times(self) -> list[str]:
        """What the messages of the schedule are for, in order."""
        return [headers[TIME_HEADER] for headers in self.headers(TICKS)]

    @property
    def now_stored(self) -> list[StoredQueue]:
        return self.storage.queues


class FeaturesProgram:
    """The program; its random generator, and what it was told, live through the deaths of its processes.

    Attributes:
        seen: what has happened that a run is meant to see.
    """

    def __init__(self, seed: int, names: Sequence[str] = ()) -> None:
        self.random = Random(seed)
        self.names = [NAMES[name] for name in (names or self.random.sample(sorted(QUEUES), 3))]
        self.settings = {NAMES[name]: settings for name, settings in QUEUES.items()}
        self.facts: list[Fact] = []
        self.count = 0
        self.base = START
        self.highest_us = self.leeway_us = 0
        self.seen: Counter[str] = Counter()
        # An id counts by the time of day, which goes on only where ids are looked at.
        self.sets_back = not any(self.settings[name].deduplication_window for name in self.names)

    @property
    def wall_us(self) -> int:
        """The time of day."""
        return max(0, int((self.base + asyncio.get_running_loop().time()) * US))

    @property
    def over_us(self) -> int:
        """What is of use until then may be gone: where the time of day was set back, more than it says."""
        return max(self.highest_us, self.wall_us) + (round(400 * DAY) * US if self.leeway_us else 0)

    # --- a life

    bench: Broker

    async def live(self, files: Any, steps: int, *, last: bool = False, closes: bool = False) -> None:
        """One process: it opens, looks at what it finds, takes some steps, and is gone; the last one receives all that there is."""
        self.bench = Broker(files, self)
        self.unsure: list[bytes] = []
        self.senders: dict[str, Sending] = {}
        self.clients: dict[str, Sending] = {}
        self._found()
        await self._declare()
        if steps:
            # What waits to be tried again does so over a start.
            await self._receive(self.random.choice(self.names))
        for _ in range(steps):
            await self._step()
            if self.bench.failures:
                raise self.bench.failures[0]
        if last:
            await self._drain()
        if closes:
            await self._all_acknowledged()
        await self._end(closes)

    async def _drain(self) -> None:
        """Everything comes, once; nothing is left, nor counted."""
        for _ in range(20):
            for name in self.names:
                await self._receive(name, 1.0)
            await self._all_acknowledged()
            self.base += 40 * DAY
            await elapse(130.0)
        for queue in self.bench.now_stored:
            if queue.name in self.names:
                log = queue.log
                waiting = (0, 0) if log.calendar is None else (log.calendar.messages, log.calendar.bytes)
                left = (log.stored_messages, log.stored_batches, log.stored_bytes, *waiting)
                require(not any(left), f"queue {queue.name} is empty, and counts {left}")
        for letters in LETTERS:
            for headers in self.bench.headers(letters[0]):
                said = headers.get(QUEUE), headers.get(REASON), headers.get(SENT)
                require(said[0] in self.names and said[1] in REASONS and str(said[2]).isdigit(), f"a death is {said}")
        times = self.bench.times()
        require(times == sorted(set(times)), "a schedule's time is there twice")
        self._found()

    async def _end(self, closes: bool = False) -> None:
        bench = self.bench
        for each in (*self.senders.values(), *self.clients.values()):
            each.ref.stop(block=False)
        await turns()
        await self._sync()
        bench.queues.schedules.end()
        if closes:
            bench.storage.close()
        await bench.die()
        await turns()

    def _found(self) -> None:
        places = places_of(self.bench.now_stored)
        model = known(self.facts)
        compare(model, places, LETTERS, self.over_us)
        compare_ids(model, self.bench.storage, self.wall_us, places)
        there = {payload: set(names) for payload, names in places.items() if not payload.startswith(b"tick")}
        copies = frozenset(payload for payload, names in there.items() if names == {COPY})
        self.facts.append(("started", frozenset(there) - copies, copies))

    async def _declare(self) -> None:
        bench = self.bench
        queues, exchanges = bench.queues, bench.queues.exchanges
        for name in (COPY, TICKS, *(name for names in LETTERS for name in names)):
            queues.get_or_create(name)
        for name in self.names:
            if name not in queues:
                queues.declare(name, self.settings[name])
        for exchange, kind, bound in (
            ("letters", "fanout", LETTERS[0]),
            (LATER, "x-delayed-message", (self.names[0], COPY)),
        ):
            arguments = {"x-delayed-type": "fanout"} if exchange == LATER else None
            await self._done(exchanges.declare(exchange, kind, durable=True, arguments=arguments))
            for name in bound:
                await self._done(exchanges.bind(exchange, name, ""))
        if not len(queues.schedules):
            queues.schedules.declare(Schedule("tick", "every 30s", queue=TICKS, payload=b"tick"))
        await self._sync()

    async def _done(self, change: Any) -> Any:
        task = asyncio.ensure_future(change)
        await turns()
        await self._sync()
        return await self._answer(task)

    async def _durable(self) -> None:
        """What was done is on the disk; raises where the broker has failed, and nobody knows."""
        await self._sync()
        if self.bench.failures:
            raise self.bench.failures[0]

    async def _answer(self, task: asyncio.Future[Any]) -> Any:
        """What a queue says; a broker that has failed ends its connections, and answers nobody who waits for the disk."""
        if self.bench.failures and not task.done():
            task.cancel()
            raise self.bench.failures[0]
        return await task

    # --- its steps

    async def _step(self) -> None:
        draw, random = self.random.random(), self.random
        if draw < 0.28:
            await self._send_own(random.choice(self.names))
        elif draw < 0.40:
            await self._send_through(random.choice(self.names))
        elif draw < 0.47:
            await self._send_later()
        elif draw < 0.62:
            await self._receive(random.choice(self.names))
        elif draw < 0.80:
            await self._sync()
        elif draw < 0.88:
            await self._pass_time()
        elif draw < 0.92:
            self.bench.storage._checkpoints.make()
        elif draw < 0.935:
            await self._purge(random.choice(self.names))
        elif draw < 0.95:
            # What waits at the exchange is to find the first.
            await self._delete(random.choice(self.names[1:]))
        elif draw < 0.97:
            await self._move()
        elif draw < 0.985:
            await self._alter(random.choice(self.names))
        else:
            await self._all_acknowledged()
        await turns()
        self._hear()

    def _number(self, name: str) -> tuple[str, int]:
        return name, self.bench.queues.number_of(name)

    def _batch(
        self, name: str, delay: float | None, ttl: float | None, **facts: Any
    ) -> tuple[MessageBatch, list[bytes]]:
        """A batch of messages, which are noted as sent."""
        settings, now_us = self.bench.queues.settings_of(name), self.wall_us
        messages, payloads = [], []
        for _ in range(self.random.choice((1, 1, 2, 4))):
            self.count += 1
            payload = b"m%d:" % self.count + bytes(self.random.choice((1, 60)))
            own_id = self.random.choice(IDS)
            judged = own_id if settings.deduplication_window is not None and not facts.get("later") else None
            headers = {"x-delay": str(round(delay * 1000))} if facts.get("later") and delay else None
            messages.append(
                Message(payload, headers=headers, deduplication_id=own_id, group=self.random.choice(GROUPS))
            )
            payloads.append(payload)
            due_us = now_us + round((delay or 0) * US)
            ends_us = None if ttl is None else (due_us if facts.get("later") else now_us) + round(ttl * US)
            self.facts.append(("sent", payload, Sent(self._number(name), now_us, due_us, ends_us, judged, **facts)))
        return MessageBatch.from_messages(messages), payloads

    async def _send_own(self, name: str) -> None:
        """As a sender of one queue."""
        sender = self.senders.get(name)
        if sender is None:
            ref, told = await self.bench.connect(
                self.bench.queues.get(name),
                lambda ref: commands.AttachSender(f"of-{name}", connection=ref),
                lambda ref: commands.RequestCapacity(LARGE, LARGE, connection=ref),
            )
            await self._sync()
            attached = next(reply for reply in told if isinstance(reply, replies.SenderAttached))
            sender = self.senders[name] = Sending(ref, told, attached.last_sequence or 0)
        delay, ttl = self._timing()
        batch, payloads = self._batch(name, delay, ttl)
        first = sender.sequence
        sender.sequence += len(batch)
        sender.waiting.append((sender.sequence, payloads))
        self.bench.queues.get(name).tell(
            commands.OfferBatch(first, batch, delay, ttl, sender.ref, self.random.randrange(4))
        )
        await turns()

    async def _send_through(self, name: str) -> None:
        """Through the default exchange."""
        delay, ttl = self._timing()
        await self._publish("", name, *self._batch(name, delay, ttl), delay=delay, ttl=ttl)

    async def _send_later(self) -> None:
        delay, name = self.random.choice((0.5, 20.0, 61.0, 300.0, 40 * DAY)), self.names[0]
        await self._publish(LATER, "", *self._batch(name, delay, None, later=True))

    async def _publish(
        self, exchange: str, key: str, batch: MessageBatch, payloads: list[bytes], **timing: Any
    ) -> None:
        client = self.clients.get(exchange + key)
        if client is None:
            made = Client(self.bench, exchange, key)
            await turns()
            client = self.clients[exchange + key] = Sending(made.ref, made.told)
        first = client.sequence
        client.sequence += len(batch)
        client.waiting.append((client.sequence, payloads))
        offer = commands.OfferBatch(first, batch, connection=client.ref, priority=self.random.randrange(4), **timing)
        client.ref.tell(offer)
        await turns()

    def _timing(self) -> tuple[float | None, float | None]:
        return self.random.choice(DELAYS), self.random.choice((None, None, None, 100.0, 50 * DAY))

    def _hear(self) -> None:
        """What senders were told."""
        for each in (*self.senders.values(), *self.clients.values()):
            told, each.told[:] = [r for r in each.told if isinstance(r, replies.SentMessages)], []
            for reply in told:
                dealt = [payloads for number, payloads in each.waiting if number <= reply.up_to]
                each.waiting = [item for item in each.waiting if item[0] > reply.up_to]
                payloads = [payload for payloads in dealt for payload in payloads]
                if reply.rejected is not None:
                    self.seen["refused"] += 1
                self.facts.append(("told" if reply.rejected is None else "refused", payloads))

    async def _receive(self, name: str, done: float = 0.5) -> None:
        """Somebody receives some, and is done with them, or has failed, or goes without a word."""
        bench = self.bench
        queue = bench.queues.get(name)
        ref, told = await bench.connect(
            queue,
            lambda ref: commands.AttachReceiver(connection=ref),
            lambda ref: commands.DemandSignalled(self.random.choice((1, 5, 30)), LARGE, connection=ref),
        )
        await self._sync()
        model = known(self.facts)
        for reply in told:
            if not isinstance(reply, replies.ReceivedMessages):
                continue
            payloads = [bytes(payload) for payload in reply.batch.payloads]
            for payload in payloads:
                sent = model.sent.get(payload)
                require(sent, f"{payload!r} is received, and nobody has sent it")
                assert sent is not None
                require(not sent.gone, f"{payload!r} is received again: {sent}")
                early = (sent.due_us - max(self.highest_us, self.wall_us) - self.leeway_us) / US
                require(early <= 0, f"{payload!r} comes {early} s before its time: {sent}")
            self.facts.append(("told", payloads))
            pairs = ((reply.first, len(payloads)),)
            draw = self.random.random()
            if draw < done:
                queue.tell(commands.Acknowledged(pairs, connection=ref))
                self.facts.append(("going", payloads))
                self.unsure += payloads
            elif draw < 0.85:
                self.seen["failed"] += 1
                queue.tell(commands.Rejected(pairs, connection=ref, reason="no good"))
            await turns()
        queue.tell(commands.Left(connection=ref))
        await turns()
        ref.stop(block=False)

    async def _all_acknowledged(self) -> None:
        """What was acknowledged is durable."""
        payloads, self.unsure = self.unsure, []
        self.bench.storage._gathered.write()
        await self._durable()
        self.facts.append(("gone", payloads))

    async def _sync(self) -> None:
        await turns()
        await self.bench.commit()
        await turns()
        self._hear()

    async def _pass_time(self) -> None:
        """Some of it, or months in one instant; or the time of day is set back."""
        draw = self.random.random()
        self.highest_us = max(self.highest_us, self.wall_us)
        if draw < 0.2:
            self.base += self.random.choice((3_000.0, 3 * DAY, 40 * DAY, 366 * DAY))
        elif draw < 0.25 and self.sets_back:
            self.base -= self.random.choice((100.0, DAY))
            # What is due within a minute, or about to be, goes by a clock that nobody sets.
            self.leeway_us = 70 * US
        await elapse(self.random.choice((0.1, 1.0, 12.0, 12.0, 70.0)))
        await turns()
        self.highest_us = max(self.highest_us, self.wall_us)

    def _in(self, name: str) -> set[bytes]:
        return {
            payload
            for payload, there in places_of(q for q in self.bench.now_stored if q.name == name).items()
            if there[name]
        }

    async def _purge(self, name: str) -> None:
        before = self._in(name)
        # Of what is purged by several records some may be durable before others.
        self.facts.append(("going", sorted(before)))
        await self._done(self.bench.queues.get(name).ask(commands.PurgeQueue(), block=False))
        after = self._in(name)
        self.seen["purged"] += len(before - after)
        self.facts.append(("gone", sorted(before - after)))
        self.facts.append(("stays", sorted(before & after)))

    async def _delete(self, name: str) -> None:
        """And the queue is declared anew."""
        bench = self.bench
        there = sorted(self._in(name))
        self.facts.append(("going", there))
        self.senders.pop(name, None)
        if (client := self.clients.pop(name, None)) is not None:
            client.ref.stop(block=False)
        bench.queues.delete(name)
        await self._durable()
        self.facts.append(("gone", there))
        self.seen["deleted with a calendar"] += bool(there)
        bench.queues.declare(name, self.settings[name])

    async def _move(self) -> None:
        source, target = self.random.sample(self.names, 2)
        queues = self.bench.queues
        before = self._in(source)
        command = moves.MoveMessages(queues.get(target), bytes(8), self.random.choice((None, 3)), None)
        answer = queues.get(source).ask(command, block=False)
        task = asyncio.ensure_future(_awaited(answer))
        for _ in range(20):
            await self._sync()
            if task.done():
                break
            await elapse(0.02)
        await self._answer(task)
        self.seen["moved"] += len(before - self._in(source))

    async def _alter(self, name: str) -> None:
        settings = self.bench.queues.settings_of(name)
        changed: dict[str, Any] = {"retry_delay": self.random.choice((0.0, 50.0, 100.0))}
        if settings.max_messages is not None and settings.max_messages < 100:
            changed["max_messages"] = self.random.choice((4, 12, 30))
        command = self.bench.queues.alter(name, changed)
        await self._done(self.bench.queues.get(name).ask(command, block=False))


async def _awaited(future: Any) -> Any:
    return await future
