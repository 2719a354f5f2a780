"""Several queues whose logs others write to, against the models of ``test_queue_state_transactions_model``, one for each queue.

Another party stores the same messages in several queues by one event: a publish to many queues, a transaction's, a dead letter's way. It
changes the queues' logs alone. Each queue must notice before it carries out anything else, whatever it is in the middle of. So its model
knows what was written to the log from that instant on, and takes it for noticed as soon as the queue is asked for anything. Whatever is
interleaved: each number is stored once, is with one receiver at most, is never skipped, and counts once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from actors.batch import MessageBatch
from actors.errors import ActorError
from actors.queue import queue_state
from actors.queue.operations import sending
from actors.queue.state.catching_up import catch_up
from actors.queue.state.log import QueueLog
from actors.queue.state.staged import CommittedVersions, Staged, apply_commit
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.distributed import DropStages
from actors.queue.vocabulary.events import Event, MessagesAdded, MessagesMoved, StagesDiscarded, StagesEnded
from actors.queue.vocabulary.letters import Origin
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey, StageNumbers
from tests.actors import driven
from tests.actors.driven import DeadLettersStored, Deliver, Effect, Refuse, empty_log
from tests.actors.test_queue_state_model import DECLARATIONS, DELAYED, LEAVING, OPERATIONS, READY, US, WEIGHTED, Stored
from tests.actors.test_queue_state_transactions_model import MORE, TIMEOUT, WRITERS, ModelStage, TransactionMachine
from tests.examples_tried import tried

WRITTEN, ENDING = "written", "ending"
"""Where a message is that is in the log and that the queue has not noticed; and one of a stage that was committed in the log, of which the
queue has not heard."""
FED_STAGES = ("x", "y")
"""Stages that others write to; those of the queue's own senders have other names."""
ROUTED = "y"
"""Of these the one that is written through an exchange: no queue gives it up, and others discard it in all queues at once."""
MOST_FED = 60
"""Messages that others write to one queue: its model keeps each event."""


class FedQueue(driven.QueueState):
    """A queue that tells its model when it is asked for something, and is told what time it is."""

    model: FedModel

    def now(self) -> tuple[float, int]:
        now = self.model.now
        return now, self.model.wall_us(now)

    def execute(self, command: commands.Command, now: float, wall_us: int) -> Any:
        self.model.notices()
        return super().execute(command, *self.now())

    def tick(self, now: float) -> None:
        self.model.notices()
        super().tick(now)

    def store(self, now: float, wall_us: int) -> None:
        self.model.notices()
        super().store(now, wall_us)

    def catch_up(self, now: float) -> None:
        self.model.notices()
        super().catch_up(now)

    def reset(self, now: float, wall_us: int | None = None) -> list[Any]:
        self.model.notices()
        return super().reset(now, wall_us)


@dataclass
class Shared:
    """What the queues have in common: the sequence of all events, the clocks, the versions; and which kind of queue is tried."""

    kind: type[FedQueue]
    tells_clocks: bool = True
    last: int = 0
    now: float = 100.0
    wall_offset: int = 1_700_000_000 * US
    clock_was_set: bool = False
    versions: CommittedVersions = field(default_factory=CommittedVersions)
    queues: dict[int, FedModel] = field(default_factory=dict)

    def number(self) -> int:
        self.last += 1
        return self.last

    def record_all(self, events: Any) -> int:
        """One event of several queues, which has happened in all of them when it is recorded."""
        number = self.number()
        for queue, event in events.items():
            self.queues[queue].happens(event, number)
        return number


class Recorded(list[Event]):
    """The events of one queue, each with its number among those of all."""

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self.shared = shared
        self.numbers: list[int] = []

    def append(self, event: Event) -> None:
        self.append_as(event, self.shared.number())

    def append_as(self, event: Event, number: int) -> None:
        super().append(event)
        self.numbers.append(number)


@dataclass
class Accepted:
    """A batch that a queue has accepted and not stored."""

    sender: str
    up_to: int
    payloads: list[bytes]
    delay: float | None
    ttl: float | None
    rejected: bool


SEEN_FIRST = frozenset(
    {
        "acknowledge",
        "negative_acknowledge",
        "detach",
        "release",
        "purge",
        "move_away",
        "look",
        "abort",
        "attach",
        "leave",
        "send",
        "stage",
        "pause",
        "cancel_demand",
    }
)
"""Commands of which the model takes in what they change before they are carried out: what the queue does because it has noticed something
comes before that, and is looked at by itself."""
ELSEWHERE = frozenset(
    {"crash", "let_time_pass", "set_the_clock", "restart", "answer_for_dead_letters", "leave_together"}
)
"""What happens to all queues, or between two; or in several commands."""


class FedModel(TransactionMachine):
    """One of the queues with its model."""

    def __init__(self, shared: Shared, number: int, declared: QueueSettings) -> None:
        super().__init__()
        self.shared = shared
        self.number = number
        self.stages: dict[StageKey, ModelStage] = {}
        self.stagers = {}
        self.discarded = self.published = self.fed_messages = 0
        self.unsettled: list[Effect] = []
        self.leaving: set[str] = set()
        self.fed: set[int] = set()
        self.told_by: dict[int, int] = {}
        self.accepted: list[Accepted] = []
        self.ends: list[tuple[StagesEnded | DropStages, int]] = []
        self.publishing: dict[StageKey, list[int]] = {}
        # Stages that are no more, of which the queue has not heard, and when it would give them up.
        self.absent: dict[StageKey, float | None] = {}
        self.start(declared)
        self.events = Recorded(shared)

    now = property(lambda self: self.shared.now, lambda self, now: None)  # type: ignore[assignment]
    wall_offset = property(lambda self: self.shared.wall_offset)  # type: ignore[assignment]
    clock_was_set = property(lambda self: self.shared.clock_was_set)  # type: ignore[assignment]
    versions = property(lambda self: self.shared.versions)  # type: ignore[assignment]

    def made(self, log: QueueLog) -> FedQueue:
        queue = self.shared.kind(
            f"q{self.number}",
            self.number,
            self.staging_settings(),
            log=log,
            record=self.record,
            record_all=self.shared.record_all,
            now=self.now,
            wall_us=self.wall_us(self.now),
            versions=self.versions,
            transaction_timeout=TIMEOUT,
        )
        queue.model = self
        return queue

    def record(self, event: Event) -> int:
        self.events.append(event)
        return cast("Recorded", self.events).numbers[-1]

    def happens(self, event: Event, number: int) -> None:
        """Another party has recorded an event of this queue."""
        cast("Recorded", self.events).append_as(event, number)
        self.queue.log.apply(event, number)

    # --- what others write

    def write(
        self,
        number: int,
        payloads: list[bytes],
        delay: float,
        ttl: float | None,
        key: StageKey | None,
        happens: bool = True,
        priority: int = 0,
    ) -> None:
        """Messages are stored in this queue's log, by the event ``number``; ``happens`` unless that was done by who stores them."""
        first, batch = self.next, MessageBatch.from_payloads(payloads)
        wall_us = self.wall_us(self.now)
        if happens:
            if self.shared.tells_clocks:
                self.queue.note_time(self.now, wall_us)
            ttl_us = None if ttl is None else round(ttl * US)
            numbers = StageNumbers(0, 0) if key is not None and key.name == ROUTED else None
            facts = first, batch, wall_us, (), round(delay * US), ttl_us, key, (), numbers
            self.happens(MessagesAdded(*facts, priority=self.settings.level_of(priority)), number)
        messages = {first + index: Stored(payload, WRITTEN) for index, payload in enumerate(payloads)}
        for message in messages.values():
            message.expires = None if ttl is None else self.now + ttl
            message.sent_until = self.now + delay if delay else 0.0
            message.level = self.settings.level_of(priority)
        stop = self.next = first + len(payloads)
        if key is None:
            self.stored.update(messages)
            self.entries[first] = (stop, batch.nbytes)
        else:
            stage = self.stages.setdefault(key, ModelStage())
            stage.messages.update(messages)
            stage.entries[first] = (stop, batch.nbytes)
            self.unpublished += len(payloads)
        self.fed.update(messages)
        self.told_by.update(dict.fromkeys(messages, number))
        self.fed_messages += len(payloads)

    def notices(self) -> None:
        """The queue is asked for something, before which it notices what others wrote."""
        if not self.fed:
            return
        for number in self.fed:
            message = self.stored.get(number)
            if message is not None and message.where == WRITTEN:
                delayed = message.sent_until > self.now
                message.where, message.until = (DELAYED, message.sent_until) if delayed else (READY, 0.0)
        self.fed.clear()

    # --- commands

    def command(self, data: st.DataObject) -> None:
        """One of the queue's own."""
        feasible = [name for name in WEIGHTED if (possible := OPERATIONS[name][0]) is None or possible(self)]
        feasible = [name for name in feasible if name not in ELSEWHERE]
        mine = [name for name, weight in MORE.items() if name != "commit" for _ in range(weight // 2)]
        name = data.draw(st.sampled_from(feasible + mine), label="command")
        self.store_accepted()
        if name in SEEN_FIRST or data.draw(st.integers(0, 3)) == 0:
            self.queue.catch_up(self.now)
            self.settle()
        if name in MORE:
            getattr(self, f"do_{name}")(data)
        else:
            arguments = {key: data.draw(strategy, label=key) for key, strategy in OPERATIONS[name][1].items()}
            command: Any = getattr(self, name)
            if "data" in command.__code__.co_varnames[: command.__code__.co_argcount]:
                arguments["data"] = data
            command(**arguments)
        self.settle()

    def accept(self, data: st.DataObject) -> None:
        """A batch is accepted, and stored when something else is asked for; others write meanwhile."""
        able = [name for name, sender in self.senders.items() if sender.messages > 0 and sender.behind is None]
        if not able or len(self.accepted) >= 4:
            return
        name = data.draw(st.sampled_from(able))
        sender = self.senders[name]
        sizes = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=4))[: sender.messages]
        delay, ttl = data.draw(st.sampled_from([(None, None), (None, None), (3.0, None), (None, 5.0)]))
        payloads = [bytes([self.next + i & 0xFF]) * size for i, size in enumerate(sizes)]
        batch = MessageBatch.from_payloads(payloads)
        if batch.prefix_bytes(len(batch) - 1) >= sender.bytes:
            return
        rejected = self.has_no_room(batch)
        # As the actor does: nothing else is looked at for it.
        sending.accept(self.queue, commands.OfferBatch(sender.next, batch, delay, ttl, cast("Any", name)), 0.0)
        sender.messages -= len(batch)
        sender.bytes -= batch.nbytes
        up_to = sender.next + len(batch)
        if rejected:
            sender.behind = up_to
            self.rejected += len(batch)
        else:
            sender.next = up_to
        self.accepted.append(Accepted(name, up_to, payloads, delay, ttl, rejected))

    def has_no_room(self, batch: MessageBatch) -> bool:
        if not self.rejects() or not self.accepted:
            return super().has_no_room(batch)
        entries, stored = dict(self.entries), dict(self.stored)
        for index, each in enumerate(each for each in self.accepted if not each.rejected):
            self.entries[-1 - index] = (0, MessageBatch.from_payloads(each.payloads).nbytes)
            self.stored.update({-1 - len(self.stored) - i: Stored(payload) for i, payload in enumerate(each.payloads)})
        result = super().has_no_room(batch)
        self.entries, self.stored = entries, stored
        return result

    def store_accepted(self) -> None:
        """As the actor does before anything else."""
        if not self.accepted:
            return
        accepted = self.accepted
        self.queue.store(self.now, self.wall_us(self.now))
        self.accepted = []
        shape: Any = ()
        for each in accepted:
            if each.rejected:
                self.expect_confirm.append((each.sender, each.up_to, None, True))
                continue
            self.expect_confirm.append((each.sender, each.up_to, self.next, False))
            first, before = self.next, self.entries.get(self.next_entry) if shape == (each.delay, each.ttl) else None
            batch = MessageBatch.from_payloads(each.payloads)
            self.store(each.payloads, batch, each.delay, each.ttl)
            if before is None:
                self.next_entry, self.joined_payloads = first, list(each.payloads)
            else:
                self.joined_payloads += each.payloads
                del self.entries[first]
                joined = MessageBatch.from_payloads(self.joined_payloads)
                self.entries[self.next_entry] = (self.next, joined.nbytes)
            shape = each.delay, each.ttl
        self.settle()

    next_entry = -1

    # --- what comes out

    def is_staging(self, effect: Effect) -> bool:
        if isinstance(effect, DeadLettersStored):
            return True
        return super().is_staging(effect)

    def check_delivery(self, effect: Deliver) -> None:
        super().check_delivery(effect)
        for number in range(effect.first, effect.first + len(effect.batch)):
            assert effect.after >= self.told_by.get(number, 0), "nothing leaves that the disk may not have"

    def lowest_ready(self, below: int | None = None) -> int:
        try:
            return super().lowest_ready(below)
        except ValueError:
            return -1

    def move_away(self, data: st.DataObject, most: int | None) -> None:
        # What is expired behind what is handed over goes at once, and what is handed over may come back before it.
        if not any(each.expires is not None and each.expires <= self.now for each in self.stored.values()):
            super().move_away(data, most)

    def look(self, data: st.DataObject) -> None:
        # What a commit published or discarded is shown as that when the queue has heard of it.
        if not self.ends:
            super().look(data)

    # --- commits, of which the queue hears later

    def committed(self, ended: StagesEnded, number: int) -> None:
        """A commit has happened in the log."""
        cast("Recorded", self.events).append_as(ended, number)
        self.ends.append((ended, number))
        for key in (*ended.published, *ended.discarded):
            stage = self.stages[key]
            known = not self.fed.issuperset(stage.messages)
            if known:
                self.absent[key] = stage.given_up_at
            if key in ended.discarded:
                self.fed -= set(stage.messages)
                self.drop(key)
                continue
            del self.stages[key]
            self.unpublished -= len(stage.messages)
            self.published += len(stage.messages)
            self.entries.update(stage.entries)
            self.stored.update(stage.messages)
            self.told_by.update(dict.fromkeys(stage.messages, number))
            if known:
                # What it does not know of it comes with the rest.
                self.publishing[key] = list(stage.messages)
                self.fed -= set(stage.messages)
            for message in stage.messages.values():
                message.where = ENDING if known else WRITTEN

    def discards(self, key: StageKey, number: int) -> None:
        """Others have discarded a stage in the log."""
        event = StagesDiscarded((key,), self.queue.log.next_sequence)
        self.happens(event, number)
        self.ends.append((DropStages(event.stages, event.below, number), number))
        self.fed -= set(self.stages[key].messages)
        self.drop(key)

    def hear_of_commit(self) -> None:
        """The queue acts on the oldest commit, or discarding by others, that it has not heard of."""
        self.store_accepted()
        self.queue.catch_up(self.now)
        self.settle()
        ended, number = self.ends.pop(0)
        if isinstance(ended, DropStages):
            self.queue.execute(cast("Any", ended), self.now, self.wall_us(self.now))
            # Others have room by it.
            assert self.taken() == []
            return
        for key in (*ended.published, *ended.discarded):
            self.absent.pop(key, None)
        for key in ended.published:
            for each in self.publishing.pop(key, []):
                message = self.stored[each]
                delayed = message.sent_until > self.now
                message.where, message.until = (DELAYED, message.sent_until) if delayed else (READY, 0.0)
        losers = {
            name
            for name, stager in self.stagers.items()
            if self.versions.covers(*stager.key[:2]) and stager.key not in ended.published
        }
        # Of a later commit, of which it has not heard, it knows all the same that a sender's version is over: that one goes now.
        self.absent |= {key: self.now + TIMEOUT for name in losers if (key := self.stagers[name].key) in self.absent}
        self.let_go(losers)
        self.queue.end_stages(ended, number, self.now)
        refusals = self.taken()
        assert {effect.connection for effect in refusals if isinstance(effect, Refuse)} == losers
        assert len(refusals) == len(losers)

    def do_attach(self, data: st.DataObject) -> None:
        before = set(self.stagers)
        super().do_attach(data)
        for name in set(self.stagers) - before:
            if self.stagers[name].key in self.absent:
                self.absent[self.stagers[name].key] = None

    def do_leave(self, data: st.DataObject) -> None:
        before = {name: stager.key for name, stager in self.stagers.items()}
        super().do_leave(data)
        for name in set(before) - set(self.stagers):
            if before[name] in self.absent:
                self.absent[before[name]] = self.now + TIMEOUT

    def more_deadlines(self) -> list[float]:
        return super().more_deadlines() + [deadline for deadline in self.absent.values() if deadline is not None]

    def passes(self) -> None:
        """The queue's timer rings."""
        self.store_accepted()
        self.notices()
        for key, deadline in self.absent.items():
            if deadline is not None and deadline <= self.now:
                self.absent[key] = None
        self.let_time_pass(0.0)

    # --- the end, and after it

    def restart(self) -> None:
        self.notices()
        self.ends.clear()
        log = empty_log(self.settings)
        for event, number in zip(self.events, cast("Recorded", self.events).numbers, strict=True):
            log.apply(event, number)
        self.queue = self.made(log)
        self.queue.pause_senders(self.paused, self.now)
        self.rejected = 0
        self.begin_again()

    def begin_again(self) -> None:
        self.accepted.clear()
        self.publishing.clear()
        self.absent.clear()
        super().begin_again()
        for key, stage in self.stages.items():
            if key.name == ROUTED:
                stage.given_up_at = None

    # --- what always holds

    def is_behind(self) -> bool:
        """Whether the queue has not noticed or not heard of something, or has not stored what it has accepted."""
        return bool(self.fed or self.ends or self.accepted)

    def hold(self) -> None:
        for each in self.invariants:
            each.function(self)

    @invariant()
    def permits_are_bounded_whatever_is_stored(self) -> None:
        """What others wrote comes on top."""
        self.published += self.fed_messages
        try:
            super().permits_are_bounded_whatever_is_stored()
        finally:
            self.published -= self.fed_messages

    @invariant()
    def a_sender_that_wants_can_send_while_the_queue_is_not_nearly_full(self) -> None:
        if not self.is_behind():
            super().a_sender_that_wants_can_send_while_the_queue_is_not_nearly_full()

    @invariant()
    def staged_numbers_agree(self) -> None:
        if not self.is_behind():
            super().staged_numbers_agree()

    @invariant()
    def who_stages_can_go_on_or_waits_for_somebody_else(self) -> None:
        if not self.is_behind():
            super().who_stages_can_go_on_or_waits_for_somebody_else()


STEPS = {
    "another_party_writes": 24,
    "a_queue_does_something": 40,
    "a_batch_is_accepted": 8,
    "a_transaction_is_committed": 4,
    "another_party_commits_at_once": 3,
    "another_party_discards": 3,
    "a_queue_hears_of_a_commit": 6,
    "time_passes": 8,
    "the_clock_is_set": 1,
    "dead_letters_move": 4,
    "a_queue_fails": 2,
    "all_start_again": 2,
}


class FedMachine(RuleBasedStateMachine):
    """The queues, and whoever writes to several of them."""

    kind: type[FedQueue] = FedQueue
    tells_clocks = True
    steps: ClassVar[dict[str, int]] = STEPS
    declarations: ClassVar[tuple[QueueSettings, ...]] = DECLARATIONS

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        declared = data.draw(st.lists(st.sampled_from(self.declarations), min_size=2, max_size=3), label="declared")
        self.shared = Shared(self.kind, self.tells_clocks)
        for number, settings_ in enumerate(declared, 1):
            self.shared.queues[number] = FedModel(self.shared, number, settings_)
        self.queues = list(self.shared.queues.values())
        self.payloads = 0

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        name = data.draw(
            st.sampled_from([name for name, weight in self.steps.items() for _ in range(weight)]), label="step"
        )
        getattr(self, name)(data)

    def one(self, data: st.DataObject, among: Iterable[FedModel] | None = None) -> FedModel:
        return data.draw(st.sampled_from(list(self.queues if among is None else among)), label="queue")

    def fresh(self, data: st.DataObject) -> list[bytes]:
        sizes = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=6), label="sizes")
        self.payloads += 1
        return [bytes([self.payloads + index & 0xFF]) * size for index, size in enumerate(sizes)]

    def some(self, data: st.DataObject, among: list[FedModel], fewest: int = 1) -> list[FedModel]:
        return data.draw(st.lists(st.sampled_from(among), min_size=fewest, unique=True), label="queues")

    # --- steps

    def stage(self, data: st.DataObject) -> StageKey:
        writer = data.draw(st.sampled_from(WRITERS))
        last = self.shared.versions.of(writer)
        version = data.draw(st.integers(0, 2)) if last is None else last + data.draw(st.integers(1, 2))
        return StageKey(writer, version, data.draw(st.sampled_from(FED_STAGES)))

    def another_party_writes(self, data: st.DataObject, staged: bool = False) -> StageKey | None:
        room = [queue for queue in self.queues if queue.fed_messages < MOST_FED]
        if not room:
            return None
        queues, payloads = self.some(data, room), self.fresh(data)
        delay = data.draw(st.sampled_from([0.0, 0.0, 0.0, 3.0, 15.0]), label="delay")
        ttl = data.draw(st.sampled_from([None, None, 0.5, 5.0, 20.0]), label="ttl")
        key = self.stage(data) if staged or data.draw(st.integers(0, 2)) == 0 else None
        number, priority = self.shared.number(), data.draw(st.sampled_from([0, 0, 1, 9]), label="priority")
        for queue in queues:
            queue.write(number, payloads, delay, ttl, key, priority=priority)
        return key

    def another_party_commits_at_once(self, data: st.DataObject) -> None:
        """What it wrote is published before the queues have noticed it."""
        if (key := self.another_party_writes(data, staged=True)) is not None:
            winners = {queue.number: [key.name] for queue in self.queues if key in queue.stages}
            self.commit(key.writer, key.version, winners)

    def another_party_discards(self, data: st.DataObject) -> None:
        """A stage is discarded in all queues, and may be begun anew before they hear of it."""
        keys = sorted({key for queue in self.queues for key in queue.stages if key.name == ROUTED})
        if not keys:
            return
        key = data.draw(st.sampled_from(keys), label="stage")
        number = self.shared.number()
        queues = [queue for queue in self.queues if key in queue.stages]
        for queue in queues:
            queue.discards(key, number)
        if data.draw(st.booleans()):
            number, payloads = self.shared.number(), self.fresh(data)
            for queue in queues:
                queue.write(number, payloads, 0.0, None, key)

    def a_queue_does_something(self, data: st.DataObject) -> None:
        self.one(data).command(data)

    def a_batch_is_accepted(self, data: st.DataObject) -> None:
        self.one(data).accept(data)

    def a_transaction_is_committed(self, data: st.DataObject) -> None:
        transactions = sorted({key[:2] for queue in self.queues for key in queue.stages})
        if not transactions:
            return
        writer, version = data.draw(st.sampled_from(transactions), label="transaction")
        winners: dict[int, list[str]] = {}
        for queue in self.queues:
            names = [key.name for key in queue.stages if key[:2] == (writer, version)]
            if names:
                winners[queue.number] = data.draw(st.lists(st.sampled_from(names), unique=True))
        self.commit(writer, version, winners)

    def commit(self, writer: str, version: int, winners: dict[int, list[str]]) -> None:
        logs = {queue.number: queue.queue.log for queue in self.queues}
        number = self.shared.number()
        ended = apply_commit(logs, self.shared.versions, writer, version, winners, number)
        for queue, event in ended.items():
            self.shared.queues[queue].committed(event, number)

    def a_queue_hears_of_a_commit(self, data: st.DataObject) -> None:
        if among := [queue for queue in self.queues if queue.ends]:
            self.one(data, among).hear_of_commit()

    def time_passes(self, data: st.DataObject) -> None:
        """A queue's timer may ring late: what it is asked for meanwhile comes first."""
        self.shared.now += data.draw(st.sampled_from([3.0, 10.0, 0.0, 0.5, 9.5, 40.0]), label="seconds")
        for queue in self.queues if data.draw(st.booleans()) else self.some(data, self.queues):
            queue.passes()

    def the_clock_is_set(self, data: st.DataObject) -> None:
        self.shared.clock_was_set = True
        self.shared.wall_offset += round(data.draw(st.sampled_from([-7200.0, -5.0, 5.0, 7200.0])) * US)

    def dead_letters_move(self, data: st.DataObject) -> None:
        """They are in others in the same instant, be it that one of those stores them or that another party does."""
        leaving = {
            queue.number: [number for number, message in queue.stored.items() if message.where == LEAVING]
            for queue in self.queues
        }
        among = [queue for queue in self.queues if leaving[queue.number]]
        if not among:
            return
        source = self.one(data, among)
        source.store_accepted()
        numbers = sorted(data.draw(st.sets(st.sampled_from(sorted(leaving[source.number])), min_size=1)))
        numbers = [number for number in numbers if source.stored[number].where == LEAVING]
        ranges = tuple((number, number + 1) for number in numbers)
        payloads = [source.stored[number].payload for number in numbers]
        targets = self.some(data, [queue for queue in self.queues if queue is not source], 0)
        if len(targets) == 1 and data.draw(st.booleans()):
            (target,) = targets
            target.store_accepted()
            target.queue.catch_up(target.now)
            target.settle()
            batch, before = MessageBatch.from_payloads(payloads), target.queue.log.next_sequence
            target.queue.store_dead_letters(batch, Origin(source.number, ranges), target.now, 0)
            assert before == target.next
            target.write(self.shared.last, payloads, 0.0, target.settings.ttl, None, happens=False)
            target.notices()
            target.settle()
        else:
            number = self.shared.number()
            for target in targets:
                target.write(number, payloads, 0.0, target.settings.ttl, None)
            source.happens(MessagesMoved(ranges), number)
        for number in numbers:
            source.remove(number)
        source.moved += len(numbers)
        source.queue.catch_up(source.now)
        source.queue.dead_letters_stored(ranges, source.now)
        source.settle()

    def a_queue_fails(self, data: st.DataObject) -> None:
        self.one(data).crash()

    def all_start_again(self, data: st.DataObject) -> None:
        if not self.shared.clock_was_set:
            for queue in self.queues:
                queue.restart()

    @invariant()
    def every_queue_is_as_its_model(self) -> None:
        for queue in self.queues:
            queue.hold()


class TestFedQueuesAgainstTheirModels(FedMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(90), stateful_step_count=50)


@pytest.mark.soak
@pytest.mark.timeout(1800)
class TestFedQueuesAgainstTheirModelsForLong(FedMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=1_000, stateful_step_count=60)


class Defective(FedQueue):
    """A queue that does not notice as it should what others wrote.

    Attributes:
        asked: for what it is.
        steps: what is to happen more often than usual, so that few examples find it.
        declarations: the queues to try it on.
    """

    asked = "command"
    steps: ClassVar[dict[str, int]] = {}
    declarations: ClassVar[tuple[QueueSettings, ...]] = DECLARATIONS

    def notice(self, now: float) -> None:
        catch_up(self, now)

    def tick(self, now: float) -> None:
        self.asked = "tick"
        super().tick(now)
        self.asked = "command"

    def store(self, now: float, wall_us: int) -> None:
        self.asked = "store"
        super().store(now, wall_us)
        self.asked = "command"


class NeverCaughtUp(Defective):
    def notice(self, now: float) -> None:
        """Nothing."""


class LeftOutBeforeCommand(Defective):
    def notice(self, now: float) -> None:
        if self.asked != "command":
            catch_up(self, now)


class LeftOutBeforeTick(Defective):
    def notice(self, now: float) -> None:
        if self.asked != "tick":
            catch_up(self, now)


class LeftOutBeforeStore(Defective):
    def notice(self, now: float) -> None:
        if self.asked != "store":
            catch_up(self, now)


class CountedTwice(Defective):
    def notice(self, now: float) -> None:
        before = self.ready.known
        catch_up(self, now)
        self.ready.add(self.ready.known, self.ready.known - before)


class TimeToLiveNotWatched(Defective):
    def notice(self, now: float) -> None:
        before = self.ttl_below
        catch_up(self, now)
        self.ttl_below = before


class ForgottenByReset(Defective):
    """What it had not noticed when it failed has no time to live for it."""

    steps: ClassVar[dict[str, int]] = {"a_queue_fails": 30}
    declarations: ClassVar[tuple[QueueSettings, ...]] = DECLARATIONS[:1]

    def reset(self, now: float, wall_us: int | None = None) -> list[Any]:
        before = self.ttl_below
        connections = super().reset(now, wall_us)
        self.ttl_below = before
        return connections


class DelaysNotKept(Defective):
    def notice(self, now: float) -> None:
        delayed, self.log.delayed = self.log.delayed, {}
        catch_up(self, now)
        self.log.delayed = delayed


class CapacityNotTold(Defective):
    """Senders get room that what others wrote has taken."""

    unseen = 0

    def notice(self, now: float) -> None:
        self.unseen += self.log.next_sequence - self.ready.known
        catch_up(self, now)

    def grant(self) -> None:
        unseen = min(self.unseen, self.log.stored_messages)
        self.log.stored_messages -= unseen
        super().grant()
        self.log.stored_messages += unseen


class StagesReceivable(Defective):
    def notice(self, now: float) -> None:
        stages, self.log.stages = self.log.stages, {}
        catch_up(self, now)
        self.log.stages = stages


class CommitsNotWaitedFor(Defective):
    """What a commit published before the queue knew of it leaves before the commit is on the disk."""

    steps: ClassVar[dict[str, int]] = {"another_party_commits_at_once": 30}
    declarations: ClassVar[tuple[QueueSettings, ...]] = DECLARATIONS[:1]

    def notice(self, now: float) -> None:
        before, self.log.published_by = self.log.published_by, 0
        catch_up(self, now)
        self.log.published_by = before


class CommittedMeanwhile(Defective):
    """What was added to a stage that is committed in the log, of which the queue has not heard, is ready once more when it hears."""

    def notice(self, now: float) -> None:
        known, self.staged.stages = self.staged.stages, {}
        catch_up(self, now)
        self.staged.stages = known | self.staged.stages


DEFECT_TRIES = 300
"""Examples for a defect, at most: the first few find it."""


def tried_on(machine: type[FedMachine]) -> None:
    """Look for a defect; what is found is no failure, and not worth making small."""
    tries = settings(max_examples=DEFECT_TRIES, stateful_step_count=50, phases=[Phase.generate])
    run_state_machine_as_test(machine, settings=settings(tries, report_multiple_bugs=False, print_blob=False))


@pytest.mark.parametrize("defect", Defective.__subclasses__(), ids=lambda defect: defect.__name__)
def test_a_queue_that_does_not_notice_as_it_should_is_found(
    monkeypatch: pytest.MonkeyPatch, defect: type[Defective]
) -> None:
    for module in (queue_state, sending):
        monkeypatch.setattr(module, "catch_up", lambda queue, now: queue.notice(now))

    class Machine(FedMachine):
        kind = defect
        steps: ClassVar[dict[str, int]] = STEPS | defect.steps
        declarations: ClassVar[tuple[QueueSettings, ...]] = defect.declarations

    with pytest.raises((AssertionError, ActorError)):
        tried_on(Machine)


def test_clocks_that_are_not_told_when_others_write_are_found() -> None:
    class Machine(FedMachine):
        tells_clocks = False
        steps: ClassVar[dict[str, int]] = STEPS | {"the_clock_is_set": 8}

    with pytest.raises(AssertionError):
        tried_on(Machine)


def test_a_stage_that_is_taken_for_the_one_of_its_name_that_others_have_discarded_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def whatever_was_begun_since(core: Any, command: DropStages, _now: float) -> None:
        for key in command.stages:
            core.staged.take(key)
        core.grant()

    monkeypatch.setitem(queue_state._OPERATIONS, DropStages, whatever_was_begun_since)

    class Machine(FedMachine):
        steps: ClassVar[dict[str, int]] = STEPS | {"another_party_discards": 30, "a_queue_hears_of_a_commit": 20}

    with pytest.raises((AssertionError, KeyError)):
        tried_on(Machine)


def test_a_queue_that_gives_up_what_is_written_through_an_exchange_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Staged.__post_init__

    def each_for_itself(self: Staged, queue_settings: Any, log: QueueLog, durable: bool, now: float) -> None:
        made(self, queue_settings, log, durable, now)
        for key, stage in log.stages.items():
            if stage.numbers is not None:
                self.is_away(key, now)

    monkeypatch.setattr(Staged, "__post_init__", each_for_itself)

    class Machine(FedMachine):
        steps: ClassVar[dict[str, int]] = STEPS | {"a_queue_fails": 30, "time_passes": 30}

    with pytest.raises((AssertionError, KeyError)):
        tried_on(Machine)
