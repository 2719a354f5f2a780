"""`transport.gateways.amqp.deliveries`: delivery tags of a channel, against a dictionary that has each message by itself."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from transport.gateways.amqp import deliveries
from transport.gateways.amqp.deliveries import Deliveries, Held
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.reply_codes import ReplyCode

COUNTS = st.integers(1, 5)


class Model(RuleBasedStateMachine):
    """Consumers come and go; what each receives, and what is settled, is known message by message."""

    def __init__(self) -> None:
        super().__init__()
        self.subject: Deliveries[str] = Deliveries()
        self.last = 0
        self.held: dict[int, tuple[str, int]] = {}
        self.withheld: dict[int, tuple[str, int]] = {}
        self.taken: list[Held[str]] = []
        self.next_number: dict[str, int] = {}
        self.consumers = 0

    @rule(count=COUNTS, gap=st.integers(0, 2), who=st.integers(0, 3), new=st.booleans())
    def deliver(self, count: int, gap: int, who: int, new: bool) -> None:
        if new:
            self.consumers += 1
        name = f"consumer {max(0, self.consumers - who)}"
        first = self.next_number.get(name, 0) + gap
        self.next_number[name] = first + count
        assert self.subject.add(name, first, count) == self.last + 1
        for number in range(first, first + count):
            self.last += 1
            self.held[self.last] = name, number

    @rule(count=COUNTS)
    def deliver_what_nobody_settles(self, count: int) -> None:
        assert self.subject.pass_by(count) == self.last + 1
        self.last += count

    @rule(back=st.integers(-2, 12), multiple=st.booleans(), withholds=st.booleans())
    def settle(self, back: int, multiple: bool, withholds: bool) -> None:
        does = self.subject.withhold if withholds else self.subject.settle
        tag = max(0, self.last - back)
        if tag not in self.held and not (multiple and tag == 0):
            with pytest.raises(AmqpError) as caught:
                does(tag, multiple=multiple)
            assert caught.value.reply_code is ReplyCode.PRECONDITION_FAILED
            assert str(caught.value) == f"PRECONDITION_FAILED - unknown delivery tag {tag}"
            return
        wanted = [each for each in sorted(self.held) if (multiple and (each <= tag or tag == 0)) or each == tag]
        taken = does(tag, multiple=multiple)
        if withholds:
            self.taken += taken
            self.withheld |= {each: self.held[each] for each in wanted}
        assert _one_by_one(taken) == [(each, *self.held.pop(each)) for each in wanted]

    @rule(backs=st.lists(st.integers(-1, 8), min_size=1, max_size=4), count=COUNTS)
    def settle_each(self, backs: list[int], count: int) -> None:
        """Rows of tags, some of which are not there: all before the first of those are settled, and it is told."""
        tags = [max(0, self.last - back) + each for back in backs for each in range(count)]
        taken: list[Held[str]] = []
        told = None
        try:
            for row in self.subject.settle_each(tags):
                taken += row
        except AmqpError as error:
            told = str(error)
        settled = []
        for tag in tags:
            if tag not in self.held:
                assert told == f"PRECONDITION_FAILED - unknown delivery tag {tag}"
                break
            settled.append((tag, *self.held.pop(tag)))
        else:
            assert told is None
        assert _one_by_one(taken) == settled

    @rule(backwards=st.booleans(), comes=st.booleans())
    def a_transaction_ends(self, backwards: bool, comes: bool) -> None:
        taken = self.taken[::-1] if backwards else self.taken
        if comes:
            self.subject.settle_withheld(taken)
        else:
            self.subject.put_back(taken)
            self.held |= self.withheld
        self.withheld, self.taken = {}, []

    @invariant()
    def everything_that_is_not_settled_is_there_in_order(self) -> None:
        assert self.subject.last_tag == self.last
        assert self.subject.count == len(self.held) + len(self.withheld)
        assert _one_by_one(deepcopy(self.subject).settle(0, multiple=True)) == [
            (tag, *self.held[tag]) for tag in sorted(self.held)
        ]
        for name in self.next_number:
            unsettled = (self.held | self.withheld).values()
            assert self.subject.held_by(name) == sum(holder == name for holder, _ in unsettled)


def _one_by_one(held: object) -> list[tuple[int, str, int]]:
    return [(each.tag + at, each.holder, each.first + at) for each in held for at in range(each.messages)]


class SmallModel(Model):
    """The same where runs and holders are forgotten as soon as may be."""

    def __init__(self) -> None:
        super().__init__()
        self.before = deliveries.KEPT_RUNS, deliveries.KEPT_HOLDERS
        deliveries.KEPT_RUNS = deliveries.KEPT_HOLDERS = 2
        self.subject = Deliveries()

    def teardown(self) -> None:
        deliveries.KEPT_RUNS, deliveries.KEPT_HOLDERS = self.before


TestDeliveries = Model.TestCase
TestDeliveries.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestDeliveriesThatForget = SmallModel.TestCase
TestDeliveriesThatForget.settings = TestDeliveries.settings


def test_a_million_messages_in_a_row_are_one_run() -> None:
    subject: Deliveries[str] = Deliveries()
    for first in range(0, 1_000_000, 1_000):
        subject.add("c", first, 1_000)
    assert (len(subject), subject.count) == (1, 1_000_000)
    assert subject.settle(0, multiple=True) == [Held("c", 0, 1_000_000, 1)]
    assert (len(subject), subject.count) == (0, 0)


def test_consumers_that_have_nothing_any_more_are_forgotten_though_an_old_message_is_never_settled() -> None:
    subject: Deliveries[int] = Deliveries()
    subject.add(-1, 0, 1)
    for consumer in range(10 * deliveries.KEPT_HOLDERS):
        tag = subject.add(consumer, 0, 1)
        subject.settle(tag, multiple=False)
    assert len(subject._holders) <= 2 * deliveries.KEPT_HOLDERS
    assert subject.settle(1, multiple=False) == [Held(-1, 0, 1, 1)]


def test_settled_runs_are_forgotten_though_none_of_the_last_ones_is_settled() -> None:
    subject: Deliveries[str] = Deliveries()
    for number in range(3 * deliveries.KEPT_RUNS):
        subject.add("c", 2 * number, 1)
    subject.settle(2 * deliveries.KEPT_RUNS, multiple=True)
    assert len(subject) == deliveries.KEPT_RUNS


def test_settled_runs_are_forgotten_though_an_old_message_is_never_settled() -> None:
    """Whoever shares a queue gets a run with each message: twenty bytes of each were kept as long as the channel stood."""
    subject: Deliveries[str] = Deliveries()
    subject.add("c", 0, 1)
    for number in range(1, 5 * deliveries.KEPT_RUNS):
        tag = subject.add("c", 2 * number, 1)
        subject.settle(tag, multiple=False)
        assert len(subject) <= deliveries.KEPT_RUNS + 1
    assert subject.settle(1, multiple=False) == [Held("c", 0, 1, 1)]


def test_who_holds_something_is_known_without_a_look_at_what() -> None:
    subject: Deliveries[str] = Deliveries()
    subject.add("a", 0, 1)
    tag = subject.add("b", 0, 2)
    assert list(subject.holders()) == ["a", "b"]
    subject.settle(tag, multiple=True)
    assert list(subject.holders()) == ["b"]
