"""A queue with groups under arbitrary commands, against a judge who knows of each message who has it.

What is given is of a group that nobody else has, and the first of it; and nothing is left that somebody who waits could have.
"""

from __future__ import annotations

from dataclasses import replace
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
from actors.queue.state import groups as groups_of_queues
from actors.queue.state.grouped_ready import GroupedReady
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.commands import AlterQueue
from actors.queue.vocabulary.events import Event, MessagesMoved, StagesEnded
from actors.queue.vocabulary.prefetch import ReturnedForMore
from actors.queue.vocabulary.replies import MessagesTaken
from actors.queue.vocabulary.settings import DROP_HEAD, QueueSettings
from actors.queue.vocabulary.stages import StageKey
from actors.queue.vocabulary.takes import Settlement
from tests.actors.driven import Deliver, empty_log
from tests.actors.taking import LARGE, TakerState
from tests.examples_tried import tried

US = 1_000_000
VISIBILITY = 10.0
RECEIVERS = ("r1", "r2", "r3")
NAMES = ("a", "a", "b", "c", None)
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
RETRIES: tuple[dict[str, Any], ...] = (
    {"max_receives": None, "retry_delay": 0.0, "drop_failed": False},
    {"max_receives": None, "retry_delay": 4.0, "drop_failed": False},
    {"max_receives": 2, "retry_delay": 0.0, "drop_failed": False},
)
DELAYS = st.sampled_from((0.0, 0.0, 3.0))
PICKS = st.integers(0, 63)


class GroupsMachine(RuleBasedStateMachine):
    @initialize(
        settings=st.sampled_from(SETTINGS),
        most=st.sampled_from((3, 8, 10**6)),
        budget=st.sampled_from((1, 70, 10**6)),
        at_once=st.sampled_from((0, 1, 10**6)),
    )
    def start(self, settings: QueueSettings, most: int, budget: int, at_once: int) -> None:
        self.patches = [
            patch.object(groups_of_queues, "SETTLED_AT_ONCE", at_once),
            patch.object(groups_of_queues, "EMPTIED_AT_ONCE", at_once),
            patch.object(grouped_ready, "STEP_BUDGET", budget),
            patch.object(grouped_ready, "MAX_LOOKED_PAST", most),
            patch.object(grouped_ready, "LOOK_BUDGET", budget),
            patch.object(grouped_ready, "MOST_STALE", 2),
            patch.object(grouped_ready, "REMEMBERED_BATCHES", 2),
        ]
        for each in self.patches:
            each.start()
        self.settings = settings
        self.now = 100.0
        self.events = 0
        self.request = 0
        self.stage: StageKey | None = None
        self.group: dict[int, str | None] = {}
        # What anybody was given so far.
        self.had: set[int] = set()
        self.begin(empty_log(settings))

    def begin(self, log: QueueLog) -> None:
        self.queue = TakerState(
            "q", 0, self.settings, log=log, record=self.record, now=self.now, wall_us=round(self.now * US)
        )
        self.by_request: dict[int, int] = {}
        self.sent = 0
        self.queue.attach_sender("s", None)
        self.queue.request_capacity("s", 10**6, LARGE)
        for name in RECEIVERS[:2]:
            self.queue.attach_receiver(name)
            # A queue in use, so that few steps suffice to get anywhere.
            self.queue.receive(name, 3, LARGE, self.now)
        self.queue.attach_taker()
        self.settle()

    def teardown(self) -> None:
        for each in getattr(self, "patches", ()):
            each.stop()

    def record(self, _event: Event) -> int:
        self.events += 1
        return self.events

    # --- what the judge sees

    @property
    def ready(self) -> GroupedReady:
        return cast("GroupedReady", self.queue.ready)

    def held(self) -> dict[int, Any]:
        """Who has which message: a receiver, or a request."""
        return {
            number: self.by_request[number] if name == "t" else name
            for name, receiver in self.queue.receivers.items()
            for span in receiver.held
            for number in range(span.start, span.stop)
        }

    def tried_again(self) -> set[int]:
        """What came back and waits for its time."""
        return self.had & {n for span in self.ready.delayed for n in range(span.start, span.stop)}

    def receivable(self) -> set[int]:
        """What nobody has, and nothing keeps."""
        queue = self.queue
        elsewhere = [*self.ready.delayed, *queue.outbox.waiting, *queue.outbox.sent, *queue.parcels.values()]
        kept = {number for span in elsewhere for number in range(span.start, span.stop)}
        stored = {number for start, stop in queue.log.stored() for number in range(start, stop)}
        return stored - kept - self.held().keys()

    def settle(self) -> None:
        """Have all be done that is due, and judge what was given in each step."""
        for turns in range(1_000):
            self.judge()
            deadline = self.queue.next_deadline()
            if deadline is None or deadline > self.now:
                return
            assert turns < 999, "the queue does not come to rest"
            self.queue.tick(self.now)

    def judge(self) -> None:
        given: dict[int, Any] = {}
        for effect in self.queue.take_effects():
            if isinstance(effect, Deliver):
                for number, payload in enumerate(effect.batch.payloads, effect.first):
                    assert payload == str(number).encode()
                    given[number] = effect.receiver
        told, self.queue.told = self.queue.told, []
        for _, reply in told:
            for each in reply.ranges if isinstance(reply, MessagesTaken) else ():
                for number, payload in enumerate(each.batch.payloads, each.first):
                    assert payload == str(number).encode()
                    given[number] = self.by_request[number] = reply.request
        held, receivable, tried = self.held(), self.receivable(), self.tried_again()
        assert given.items() <= held.items()
        self.had |= given.keys()
        having: dict[str, Any] = {}
        for number, holder in held.items():
            name = self.group[number]
            if name is not None:
                assert having.setdefault(name, holder) == holder, f"two have group {name}"
        for number in given:
            if (name := self.group[number]) is not None:
                alike = {other for other, group in self.group.items() if group == name}
                assert not tried & alike, "what is tried again is before it"
                assert not any(other < number for other in receivable & alike), f"there is one before {number}"

    def could_have(self, holder: Any) -> list[int]:
        held = self.held()
        kept = {self.group[number] for number in self.tried_again()}
        kept |= {self.group[number] for number, other in held.items() if other != holder}
        kept.discard(None)
        return sorted(number for number in self.receivable() if self.group[number] not in kept)

    @invariant()
    def nobody_waits_for_what_is_there(self) -> None:
        if not hasattr(self, "queue") or self.ready.is_full:
            return
        queue = self.queue
        if self.settings.dead_letters_named and queue.outbox.waiting:
            return  # what expires waits for it
        served = None if queue.line is None else queue.line.served
        for name, receiver in queue.receivers.items():
            if receiver.demand > 0 and (queue.line is None or receiver is served):
                assert not self.could_have(name), f"{name} waits"
            for request in receiver.takes or ():
                assert not self.could_have(request), f"request {request} waits"

    @invariant()
    def the_figures_are_right(self) -> None:
        if not hasattr(self, "queue"):
            return
        ready, groups = self.ready, self.ready.groups
        assert ready.messages == len(self.receivable())
        outstanding = {self.group[number] for number in [*self.held(), *self.tried_again()]} - {None}
        assert {each.name.decode() for each in groups._known.values() if each.held or each.delayed} == outstanding
        assert 0 <= ready.passed_over <= ready.messages
        assert groups.turn is None
        assert groups.ranges == sum(len(each.waiting) for each in groups._known.values())
        assert all(sorted(each.waiting) == list(each.waiting) for each in groups._known.values())
        assert all(groups.own.values())

    # --- senders

    def batch(self, names: list[str | None]) -> MessageBatch:
        first = self.queue.log.next_sequence
        messages = []
        for number, name in enumerate(names, first):
            self.group[number] = name
            messages.append(Message(str(number).encode(), headers=None if name is None else {GROUP_HEADER: name}))
        return MessageBatch.from_messages(messages)

    @rule(
        names=st.one_of(
            st.lists(st.sampled_from(NAMES), min_size=1, max_size=6),
            st.builds(lambda name, times: [name] * times, st.sampled_from(NAMES), st.integers(1, 5)),
        ),
        delay=DELAYS,
    )
    def send(self, names: list[str | None], delay: float) -> None:
        self.queue.send("s", self.sent, self.batch(names), self.now, round(self.now * US), delay or None)
        self.sent += len(names)
        self.settle()

    @rule(names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4))
    def stage_some(self, names: list[str | None]) -> None:
        if self.stage is None:
            self.stage = StageKey("w", self.events, "p")
            self.queue.attach_stage("w", self.stage, self.now)
            self.queue.request_capacity("w", 10**6, LARGE)
            self.staged = 0
        self.queue.send("w", self.staged, self.batch(names), self.now, round(self.now * US))
        self.staged += len(names)
        self.settle()

    @precondition(lambda self: self.stage is not None)
    @rule(publishes=st.booleans())
    def end_stage(self, publishes: bool) -> None:
        stage = self.stage
        assert stage is not None
        self.stage = None
        below = self.queue.log.next_sequence
        ended = StagesEnded((stage,), (), below) if publishes else StagesEnded((), (stage,), below)
        number = self.record(ended)
        self.queue.log.apply(ended, number)
        self.queue.end_stages(ended, number, self.now)
        self.queue.detach("w", self.now)
        self.settle()

    # --- receivers

    @rule(name=st.sampled_from(RECEIVERS), messages=st.integers(1, 7), tiny=st.booleans())
    def demand(self, name: str, messages: int, tiny: bool) -> None:
        if name not in self.queue.receivers:
            self.queue.attach_receiver(name, priority=2 if name == "r3" else 0)
        for _ in range(messages if tiny else 1):
            self.queue.receive(name, 1 if tiny else messages, LARGE, self.now)
            self.settle()

    def picked(self, holder: Any, picks: int) -> list[int]:
        numbers = sorted(number for number, each in self.held().items() if each == holder)
        return [number for at, number in enumerate(numbers) if picks >> (at % 6) & 1]

    @rule(name=st.sampled_from(RECEIVERS), picks=PICKS)
    def acknowledge(self, name: str, picks: int) -> None:
        if numbers := self.picked(name, picks):
            self.queue.acknowledge(name, [(number, 1) for number in numbers])
            self.settle()

    @rule(name=st.sampled_from(RECEIVERS), picks=PICKS, delay=DELAYS, failed=st.booleans())
    def give_back(self, name: str, picks: int, delay: float, failed: bool) -> None:
        if numbers := self.picked(name, picks):
            self.queue.negative_acknowledge(name, [(number, 1) for number in numbers], delay, self.now, failed)
            self.settle()

    @rule(name=st.sampled_from(RECEIVERS), picks=PICKS, messages=st.integers(0, 7))
    def give_back_for_more(self, name: str, picks: int, messages: int) -> None:
        if numbers := self.picked(name, picks):
            parts = [(number, 1) for number in numbers]
            command = ReturnedForMore(parts, messages, cast("Any", name))
            self.queue.execute(command, self.now, round(self.now * US))
            self.settle()

    @rule(name=st.sampled_from(RECEIVERS), picks=PICKS)
    def extend(self, name: str, picks: int) -> None:
        if numbers := self.picked(name, picks):
            self.queue.extend(name, [(number, 1) for number in numbers], VISIBILITY, self.now)
            self.settle()

    @rule(name=st.sampled_from(RECEIVERS), failed=st.booleans())
    def leave(self, name: str, failed: bool) -> None:
        if name in self.queue.receivers:
            self.queue.detach(name, self.now, failed)
            self.settle()

    # --- takers

    @rule(messages=st.integers(1, 6), wait=st.sampled_from((0.0, 5.0)))
    def take(self, messages: int, wait: float) -> None:
        self.request += 1
        self.queue.take(self.request, messages, wait=wait, now=self.now)
        self.settle()

    @rule(picks=PICKS, how=st.sampled_from((*Settlement, None)), delay=DELAYS, which=st.integers(0, 3))
    def settle_taken(self, picks: int, how: Settlement | None, delay: float, which: int) -> None:
        requests = sorted({holder for holder in self.held().values() if isinstance(holder, int)})
        if not requests:
            return
        numbers = self.picked(requests[which % len(requests)], picks)
        held = self.queue.receivers[cast("Any", "t")].held
        pairs = [(number, cast("Any", held.first_from(number)).deliveries) for number in numbers]
        if how is None:
            self.queue.give_back_unseen(pairs, self.now)
        else:
            seconds = VISIBILITY if how is Settlement.EXTEND else delay
            self.queue.settle(0, pairs, how, seconds=seconds, now=self.now)
        self.settle()

    # --- the rest

    @rule(seconds=st.sampled_from((0.5, 2.0, 5.0, 11.0)))
    def time_passes(self, seconds: float) -> None:
        end = self.now + seconds
        while (deadline := self.queue.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.queue.tick(self.now)
            self.settle()
        self.now = end

    @rule(
        which=st.sampled_from(("purge", "restart", "fail", "alter", "move", "dead_letters_are_stored")), data=st.data()
    )
    def seldom(self, which: str, data: st.DataObject) -> None:
        if which == "alter":
            self.alter(data.draw(st.sampled_from((None, 2_000, 9_000))), data.draw(st.sampled_from((*RETRIES, None))))
        elif which == "move":
            self.move(data.draw(st.integers(0, 60)), data.draw(st.integers(1, 5)), data.draw(st.integers(0, 5)))
        else:
            getattr(self, which)()

    def purge(self) -> None:
        self.queue.purge()
        self.settle()

    def dead_letters_are_stored(self) -> None:
        sent = tuple((span.start, span.stop) for span in self.queue.outbox.sent)
        if not sent:
            return
        self.queue.log.apply(MessagesMoved(sent), self.record(MessagesMoved(sent)))
        self.queue.dead_letters_stored(sent, self.now)
        self.settle()

    def move(self, below: int, most: int, stored: int) -> None:
        parcels = take_parcels(self.queue, below, most, b"12345678", self.now)
        self.judge()
        for parcel in parcels:
            parcel.stored = min(stored, len(parcel))
            stored -= parcel.stored
        settle_all(self.queue, tuple(parcels), self.now)
        self.settle()

    def restart(self) -> None:
        log, stage = self.queue.log, self.stage
        self.queue.end()
        self.begin(log)
        if stage is not None:
            self.queue.attach_stage("w", stage, self.now)
            self.queue.request_capacity("w", 10**6, LARGE)
        self.settle()

    def fail(self) -> None:
        """Its actor goes on with the same state."""
        self.queue.reset(self.now)
        self.sent = 0
        self.queue.attach_sender("s", None)
        self.queue.request_capacity("s", 10**6, LARGE)
        self.queue.attach_taker()
        if self.stage is not None:
            self.queue.attach_stage("w", self.stage, self.now)
            self.queue.request_capacity("w", 10**6, LARGE)
        self.settle()

    def alter(self, overflow: int | None, retries: dict[str, Any] | None) -> None:
        what: dict[str, Any] = {"overflow": "block"} if overflow is None else {"overflow": DROP_HEAD}
        what |= retries or {}
        self.settings = replace(self.settings, max_messages=None, max_bytes=overflow, **what)
        self.queue.execute(AlterQueue(self.settings), self.now, round(self.now * US))
        self.settle()


class TestGroupsAgainstTheirJudge(GroupsMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(300), stateful_step_count=40)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
class TestGroupsAgainstTheirJudgeForLong(GroupsMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=5_000, stateful_step_count=80)
