"""A queue with groups under arbitrary commands, against a judge who knows of each message who has it.

What is given is of a group that nobody else has, and the first of it; and nothing is left that somebody who waits could have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.batch import Message, MessageBatch
from actors.limits import GROUP_HEADER
from actors.queue.operations.moving import settle_all, take_parcels
from actors.queue.state import grouped_ready
from actors.queue.state.grouped_ready import GroupedReady
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.events import Event, MessagesDropped, MessagesExpired, MessagesMoved, StagesEnded
from actors.queue.vocabulary.replies import DeadLetter, MessagesTaken, NothingHeld, TakenSettled, Tell
from actors.queue.vocabulary.settings import DROP_HEAD, QueueSettings
from actors.queue.vocabulary.stages import StageKey
from actors.queue.vocabulary.takes import Settlement
from tests.actors.driven import Deliver, empty_log
from tests.actors.taking import LARGE, TakerState
from tests.examples_tried import tried

US = 1_000_000
VISIBILITY = 10.0
RECEIVERS = ("r1", "r2", "r3")
NAMES = ("a", "b", "c", "d", None)
READY, HELD, DELAYED, STAGED, AWAY, LEAVING = "ready", "held", "delayed", "staged", "away", "leaving"
SETTINGS = (
    QueueSettings(groups=True),
    QueueSettings(groups=True, max_receives=2),
    QueueSettings(groups=True, retry_delay=2.0, max_receives=3, drop_failed=True),
    QueueSettings(groups=True, ttl=6.0),
    QueueSettings(groups=True, ttl=6.0, dead_letter_queue="late"),
    QueueSettings(12, None, groups=True, overflow=DROP_HEAD),
    QueueSettings(None, 9_000, groups=True, overflow=DROP_HEAD, ttl=20.0),
    QueueSettings(groups=True, single_active_consumer=True),
)
DELAYS = st.sampled_from((0.0, 0.0, 3.0))
PICKS = st.integers(0, 63)


@dataclass
class Known:
    group: str | None
    where: str = READY
    holder: Any = None
    tried: bool = False
    """Whether somebody has had it."""


@dataclass
class Waiting:
    demand: int = 0
    priority: int = 0


class GroupsMachine(RuleBasedStateMachine):
    @initialize(
        settings=st.sampled_from(SETTINGS), most=st.sampled_from((3, 8, 10**6)), budget=st.sampled_from((1, 70, 10**6))
    )
    def start(self, settings: QueueSettings, most: int, budget: int) -> None:
        self.patches = [
            patch.object(grouped_ready, "MAX_LOOKED_PAST", most),
            patch.object(grouped_ready, "LOOK_BUDGET", budget),
            patch.object(grouped_ready, "MOST_STALE", 2),
            patch.object(grouped_ready, "REMEMBERED_BATCHES", 2),
        ]
        for each in self.patches:
            each.start()
        self.most = most
        self.settings = settings
        self.now = 100.0
        self.events: list[Event] = []
        self.seen_events = 0
        self.known: dict[int, Known] = {}
        self.lost: set[tuple[str, int]] = set()
        self.begin(empty_log(settings))

    def begin(self, log: QueueLog) -> None:
        self.queue = TakerState(
            "q", 0, self.settings, log=log, record=self.record, now=self.now, wall_us=round(self.now * US)
        )
        self.receivers: dict[str, Waiting] = {}
        self.asked: dict[int, int] = {}
        self.taken: dict[int, dict[int, int]] = {}
        self.request = 0
        self.stage: StageKey | None = None
        self.queue.attach_sender("s", None)
        self.queue.request_capacity("s", 10**6, LARGE)
        for name in RECEIVERS[:2]:
            self.queue.attach_receiver(name)
            self.receivers[name] = Waiting()
        self.queue.attach_taker()
        self.settle()

    def teardown(self) -> None:
        for each in getattr(self, "patches", ()):
            each.stop()

    def record(self, event: Event) -> int:
        self.events.append(event)
        return len(self.events)

    # --- what came of it

    def settle(self) -> None:
        """Have all be done that is due, and judge what was given."""
        for turns in range(400):
            self.judge()
            deadline = self.queue.next_deadline()
            if deadline is None or deadline > self.now:
                return
            assert turns < 399, "the queue does not come to rest"
            self.queue.tick(self.now)

    def judge(self) -> None:
        effects = self.queue.take_effects()
        for event in self.events[self.seen_events :]:
            if isinstance(event, MessagesExpired | MessagesDropped) or getattr(event, "dropped", ()):
                for start, stop in getattr(event, "ranges", ()) or getattr(event, "dropped", ()):
                    for number in range(start, stop):
                        assert number not in self.known or self.known[number].where in (READY, DELAYED)
                        self.known.pop(number, None)
        self.seen_events = len(self.events)
        told, self.queue.told = self.queue.told, []
        given: list[tuple[Any, int]] = []
        for effect in effects:
            if isinstance(effect, Deliver):
                waiting = self.receivers[str(effect.receiver)]
                waiting.demand -= len(effect.batch)
                assert waiting.demand >= 0
                for number in range(effect.first, effect.first + len(effect.batch)):
                    self.give(number, str(effect.receiver), effect.batch, effect.first)
            elif isinstance(effect, DeadLetter):
                for start, stop in effect.ranges:
                    for number in range(start, stop):
                        self.known[number].where = LEAVING
        for _, reply in told:
            if isinstance(reply, MessagesTaken):
                demand = self.asked.pop(reply.request)
                for each in reply.ranges:
                    for number in range(each.first, each.first + len(each.batch)):
                        self.give(number, reply.request, each.batch, each.first)
                        self.taken.setdefault(reply.request, {})[number] = each.delivery_count
                        demand -= 1
                assert demand >= 0
            else:
                assert isinstance(reply, NothingHeld | TakenSettled)
        assert not given

    def give(self, number: int, holder: Any, batch: MessageBatch, first: int) -> None:
        message = self.known[number]
        assert batch.payloads[number - first] == str(number).encode()
        assert message.where == READY, f"{number} is {message.where}"
        if message.group is not None:
            for other, known in self.known.items():
                if known.group != message.group or other == number:
                    continue
                assert known.where != HELD or known.holder == holder, f"{known.holder} has {other} of the group"
                if other < number:
                    assert known.where != READY, f"{other} is before {number}"
                assert known.where != DELAYED or not known.tried, f"{other} is tried again before {number}"
        message.where, message.holder, message.tried = HELD, holder, True

    def could_have(self, holder: Any) -> Iterator[int]:
        blocked: set[str] = set()
        for known in self.known.values():
            if known.group is not None and (
                (known.where == HELD and known.holder != holder) or (known.where == DELAYED and known.tried)
            ):
                blocked.add(known.group)
        for number, known in sorted(self.known.items()):
            if known.where == READY and (known.group is None or known.group not in blocked):
                yield number

    @invariant()
    def nobody_waits_for_what_is_there(self) -> None:
        if not hasattr(self, "queue"):
            return
        ready = cast("GroupedReady", self.queue.ready)
        if self.queue.parcels or self.queue.outbox.waiting:
            return
        assert self.queue.unfinished_at is None
        served = self.queue.line.served if self.queue.line is not None else None
        waiting: list[Any] = [
            name
            for name, each in self.receivers.items()
            if each.demand and (self.queue.line is None or self.queue.receivers[cast("Any", name)] is served)
        ]
        waiting += self.asked
        if ready.is_full:
            return
        for holder in waiting:
            assert not list(self.could_have(holder)), f"{holder} waits"

    @invariant()
    def the_figures_are_right(self) -> None:
        if not hasattr(self, "queue"):
            return
        ready = cast("GroupedReady", self.queue.ready)
        assert ready.messages == sum(each.where == READY for each in self.known.values())
        held = {each.group for each in self.known.values() if each.where == HELD and each.group}
        tried = {each.group for each in self.known.values() if each.where == DELAYED and each.tried and each.group}
        groups = ready.groups
        assert {each.name.decode() for each in groups._known.values() if each.held or each.delayed} == held | tried
        assert 0 <= ready.passed_over <= ready.messages
        assert groups.turn is None
        assert groups.ranges == sum(len(each.waiting) for each in groups._known.values())
        for group in groups._known.values():
            assert sorted(group.waiting) == list(group.waiting)
        assert all(groups.own.values())

    # --- senders

    def batch(self, names: list[str | None], first: int) -> MessageBatch:
        return MessageBatch.from_messages(
            [
                Message(str(first + at).encode(), headers=None if name is None else {GROUP_HEADER: name})
                for at, name in enumerate(names)
            ]
        )

    @rule(
        names=st.one_of(
            st.lists(st.sampled_from(NAMES), min_size=1, max_size=6),
            st.builds(lambda name, times: [name] * times, st.sampled_from(NAMES), st.integers(1, 5)),
        ),
        delay=DELAYS,
    )
    def send(self, names: list[str | None], delay: float) -> None:
        first = self.queue.log.next_sequence
        for at, name in enumerate(names):
            self.known[first + at] = Known(name, DELAYED if delay else READY)
        self.queue.send("s", first, self.batch(names, first), self.now, round(self.now * US), delay or None)
        self.settle()

    @precondition(lambda self: not self.settings.ttl and self.settings.overflow != DROP_HEAD)
    @rule(names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4))
    def stage_some(self, names: list[str | None]) -> None:
        if self.stage is None:
            self.stage = StageKey("w", len(self.events), "p")
            self.queue.attach_stage("w", self.stage, self.now)
            self.queue.request_capacity("w", 10**6, LARGE)
            self.settle()
            self.staged = 0
        first = self.queue.log.next_sequence
        for at, name in enumerate(names):
            self.known[first + at] = Known(name, STAGED)
        self.queue.send("w", self.staged, self.batch(names, first), self.now, round(self.now * US))
        self.staged += len(names)
        self.settle()

    @precondition(lambda self: self.stage is not None)
    @rule()
    def publish(self) -> None:
        assert self.stage is not None
        ended = StagesEnded("w", self.stage.version, (self.stage,), (), self.queue.log.next_sequence)
        number = self.record(ended)
        self.seen_events = len(self.events)
        self.queue.log.apply(ended, number)
        for each in self.known.values():
            if each.where == STAGED:
                each.where = READY
        self.queue.end_stages(ended, number, self.now)
        self.queue.detach("w", self.now)
        self.stage = None
        self.settle()

    # --- receivers

    @rule(name=st.sampled_from(RECEIVERS), messages=st.integers(1, 7), tiny=st.booleans())
    def demand(self, name: str, messages: int, tiny: bool) -> None:
        if name not in self.receivers:
            self.queue.attach_receiver(name, priority=2 if name == "r3" else 0)
            self.receivers[name] = Waiting()
        for _ in range(messages if tiny else 1):
            self.receivers[name].demand += 1 if tiny else messages
            self.queue.receive(name, 1 if tiny else messages, LARGE, self.now)
            self.settle()

    def held_by(self, holder: Any) -> list[int]:
        return [number for number, each in self.known.items() if each.where == HELD and each.holder == holder]

    def some(self, numbers: list[int], picks: int) -> list[int]:
        return [number for at, number in enumerate(numbers) if picks >> (at % 6) & 1]

    @rule(name=st.sampled_from(RECEIVERS), picks=PICKS)
    def acknowledge(self, name: str, picks: int) -> None:
        if numbers := self.some(self.held_by(name), picks):
            for number in numbers:
                del self.known[number]
            self.queue.acknowledge(name, [(number, 1) for number in numbers])
            self.settle()

    @rule(name=st.sampled_from(RECEIVERS), picks=PICKS, delay=DELAYS, failed=st.booleans())
    def give_back(self, name: str, picks: int, delay: float, failed: bool) -> None:
        if numbers := self.some(self.held_by(name), picks):
            self.back(numbers, delay, failed)
            self.queue.negative_acknowledge(name, [(number, 1) for number in numbers], delay, self.now, failed)
            self.look()
            self.settle()

    def back(self, numbers: list[int], delay: float = 0.0, failed: bool = True) -> None:
        """Where messages are that somebody gave back: as the queue says, which has its own tests for when they are tried again."""
        self.may_move = set(numbers)
        for number in numbers:
            self.known[number].holder = None
            self.known[number].where = DELAYED if delay or (failed and self.settings.retry_delay) else READY

    def look(self) -> None:
        """What has failed too often leaves."""
        leaving = {n for spans in (self.queue.outbox.waiting, self.queue.outbox.sent) for s in spans for n in range(s.start, s.stop)}
        for number in leaving:
            self.known[number].where = LEAVING
        ready = cast("GroupedReady", self.queue.ready)
        delayed = {n for span in ready.delayed for n in range(span.start, span.stop)}
        for number, each in self.known.items():
            if each.where == DELAYED and number not in delayed and number not in leaving:
                each.where = READY

    @rule(name=st.sampled_from(RECEIVERS), picks=PICKS)
    def extend(self, name: str, picks: int) -> None:
        if numbers := self.some(self.held_by(name), picks):
            self.queue.extend(name, [(number, 1) for number in numbers], VISIBILITY, self.now)
            self.settle()

    @rule(name=st.sampled_from(RECEIVERS), failed=st.booleans())
    def leave(self, name: str, failed: bool) -> None:
        if self.receivers.pop(name, None) is not None:
            self.back(self.held_by(name), failed=failed)
            # What leaves is judged behind what its going has others get.
            self.queue.detach(name, self.now, failed)
            self.look()
            self.settle()

    # --- takers

    @rule(messages=st.integers(1, 6), wait=st.sampled_from((0.0, 5.0)))
    def take(self, messages: int, wait: float) -> None:
        self.request += 1
        self.asked[self.request] = messages
        self.queue.take(self.request, messages, wait=wait, now=self.now)
        self.settle()

    @rule(
        picks=PICKS, how=st.sampled_from(Settlement), unseen=st.booleans(), delay=DELAYS, which=st.integers(0, 3)
    )
    def settle_taken(self, picks: int, how: Settlement, unseen: bool, delay: float, which: int) -> None:
        held = {
            request: numbers
            for request in self.taken
            if (numbers := self.held_by(request))
        }
        if not held:
            return
        request = list(held)[which % len(held)]
        numbers = self.some(held[request], picks)
        pairs = [(number, self.taken[request][number]) for number in numbers]
        if not numbers:
            return
        if unseen:
            self.back(numbers)
            for number in numbers:
                self.known[number].where = READY
            self.queue.give_back_unseen(pairs, self.now)
        elif how is Settlement.ACKNOWLEDGE:
            for number in numbers:
                del self.known[number]
            self.queue.settle(0, pairs, how, now=self.now)
        elif how is Settlement.RETURN:
            self.back(numbers, delay)
            self.queue.settle(0, pairs, how, seconds=delay, now=self.now)
        else:
            self.queue.settle(0, pairs, how, seconds=VISIBILITY, now=self.now)
        self.look()
        self.settle()

    # --- the rest

    @rule(seconds=st.sampled_from((0.5, 2.0, 5.0, 11.0)))
    def time_passes(self, seconds: float) -> None:
        end = self.now + seconds
        while (deadline := self.queue.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            before = {n for n, each in self.known.items() if each.where == HELD}
            self.queue.tick(self.now)
            held = {
                number
                for receiver in self.queue.receivers.values()
                for span in receiver.held
                for number in range(span.start, span.stop)
            }
            self.back([number for number in before if number not in held or number in self.redelivered()])
            self.released()
            self.settle()
        self.now = end
        self.settle()

    def redelivered(self) -> set[int]:
        return {
            number
            for effect in self.queue.effects
            if isinstance(effect, Tell)
            for number in _numbers(effect.reply)
        }

    def released(self) -> None:
        """What waited for a delay that is over, or was given to somebody in the same instant."""
        self.look()
        for number in self.redelivered():
            if number in self.known and self.known[number].where in (DELAYED, HELD):
                self.known[number].where = READY
        for request in [each for each, demand in self.asked.items() if not self.still_asked(each) and demand]:
            if not any(
                isinstance(effect, Tell)
                and isinstance(effect.reply, MessagesTaken)
                and effect.reply.request == request
                for effect in self.queue.effects
            ):
                del self.asked[request]

    def still_asked(self, request: int) -> bool:
        return request in (self.queue.receivers[cast("Any", "t")].takes or {})

    @rule()
    def purge(self) -> None:
        for number in [n for n, each in self.known.items() if each.where in (READY, DELAYED)]:
            del self.known[number]
        self.queue.purge()
        self.settle()

    @rule(below=st.integers(0, 60), most=st.integers(1, 5), stored=st.booleans())
    def move(self, below: int, most: int, stored: bool) -> None:
        parcels = take_parcels(self.queue, below, most, b"12345678", self.now)
        for parcel in parcels:
            for number in range(parcel.start, parcel.start + len(parcel)):
                assert self.known[number].where == READY
                if stored:
                    del self.known[number]
            if stored:
                parcel.stored = len(parcel)
                self.record(MessagesMoved(((parcel.start, parcel.start + len(parcel)),), dead=False))
        self.judge()
        settle_all(self.queue, tuple(parcels), self.now)
        self.settle()

    @rule()
    def restart(self) -> None:
        for number, each in list(self.known.items()):
            if each.where == STAGED and self.stage is None:
                del self.known[number]
            elif each.where in (HELD, LEAVING, AWAY):
                each.where, each.holder = READY, None
        stage = self.stage
        self.queue.end()
        self.lost.clear()
        self.begin_again(stage)

    def begin_again(self, stage: StageKey | None) -> None:
        self.begin_log = self.queue.log
        self.begin(self.begin_log)
        for number, each in self.known.items():
            each.tried = each.tried and any(number in range(s.start, s.stop) for s in self.queue.ready.delayed)
        self.stage = stage
        if stage is not None:
            facts = self.queue.attach_stage("w", stage, self.now)
            self.staged = facts.messages
            self.queue.request_capacity("w", 10**6, LARGE)
        self.look()
        self.settle()


def _numbers(reply: Any) -> Iterator[int]:
    if isinstance(reply, MessagesTaken):
        for each in reply.ranges:
            yield from range(each.first, each.first + len(each.batch))
    elif hasattr(reply, "delivery_count"):
        yield from range(reply.first, reply.first + len(reply.batch))


class TestGroupsAgainstTheirJudge(GroupsMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(300), stateful_step_count=40)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
class TestGroupsAgainstTheirJudgeForLong(GroupsMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=5_000, stateful_step_count=80)
