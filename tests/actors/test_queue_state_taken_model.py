"""A queue from which messages are taken by request, against the model of ``test_queue_state_model``, which knows requests too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.replies import Lost, MessagesTaken, NothingHeld, TakenSettled
from actors.queue.vocabulary.takes import Settlement
from tests.actors.taking import TakerState
from tests.actors.test_queue_state_model import (
    LARGE,
    LEASED,
    OPERATIONS,
    READY,
    VISIBILITY,
    WEIGHTED,
    QueueMachine,
)
from tests.examples_tried import tried

TAKER = "t"
MORE = ("take", "take", "take", "cancel", "settle", "settle", "settle", "unseen", "leave", "get", "get")


@dataclass
class Asked:
    messages: int
    size: int
    visibility: float
    until: float
    name: str = TAKER


class TakenMachine(QueueMachine):
    """As the other machine, with a taker beside the receivers."""

    def made(self, log: QueueLog) -> TakerState:
        self.asked: dict[int, Asked] = {}
        self.left: int | None = None
        self.attached = False
        self.last_take = 0
        self.settled: dict[int, tuple[tuple[tuple[int, int], Lost], ...]] = {}
        # One that has just come has nothing to be told.
        self.idle = True
        return TakerState(
            "q", 7, self.settings, log=log, record=self.record, now=self.now, wall_us=self.wall_us(self.now)
        )

    @property
    def takers(self) -> TakerState:
        assert isinstance(self.queue, TakerState)
        return self.queue

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        feasible = [name for name in WEIGHTED if (possible := OPERATIONS[name][0]) is None or possible(self)]
        name = data.draw(st.sampled_from([*feasible, *MORE * 3]), label="command")
        if name in MORE:
            if not self.attached:
                self.takers.attach_taker()
                self.attached = self.idle = True
                self.last_take = 0
            getattr(self, f"{name}_some")(data)
            return
        arguments: dict[str, Any] = {key: data.draw(each, label=key) for key, each in OPERATIONS[name][1].items()}
        command: Any = getattr(self, name)
        if "data" in command.__code__.co_varnames[: command.__code__.co_argcount]:
            arguments["data"] = data
        command(**arguments)

    # --- the model's reading of what came out

    def hear_more(self) -> None:
        told, self.takers.told = self.takers.told, []
        self.told_idle = False
        for name, reply in told:
            if isinstance(reply, MessagesTaken):
                assert name == self.asked[reply.request].name
                self.check_taken(reply)
                continue
            assert name == TAKER
            if isinstance(reply, TakenSettled):
                self.settled[reply.request] = reply.lost
            else:
                assert reply == NothingHeld(self.last_take), "the last request that it has heard of"
                self.told_idle = True

    def settle(self) -> None:
        super().settle()
        idle = self.attached and not self.asked and not self.held_by(TAKER)
        assert self.told_idle or not idle or self.idle, "a taker that holds nothing is told"
        self.idle = idle

    def check_taken(self, answer: MessagesTaken) -> None:
        asked = self.asked.pop(answer.request)
        self.left = answer.ready
        if not answer.ranges:
            assert asked.until <= self.now
            return
        total = sum(each.batch.nbytes for each in answer.ranges)
        count = sum(len(each.batch) for each in answer.ranges)
        assert 1 <= count <= asked.messages
        assert total <= asked.size or count == 1
        for each in answer.ranges:
            for number, payload in enumerate(each.batch.payloads, each.first):
                message = self.stored[number]
                assert message.where == READY
                assert message.expires is None or message.expires > self.now or message.arrives
                message.deliveries += 1
                assert (message.payload, message.deliveries) == (payload, each.delivery_count)
                assert message.replayed == each.possibly_replayed
                message.where, message.holder, message.until = LEASED, asked.name, self.now + asked.visibility
                message.since = self.now

    def check_in_turn(self, number: int, below: int | None = None) -> None:
        """A request that was answered with what is before it is read after it."""
        message = self.stored[number]
        assert message.where == READY
        assert message.expires is None or message.expires > self.now or message.arrives

    def lose(self, name: str, number: int) -> None:
        if name != TAKER:
            super().lose(name, number)

    def more_demand(self) -> int:
        serves = not self.settings.exclusive or self.in_line()[:1] == [TAKER]
        return sum(asked.messages for asked in self.asked.values()) if serves else 0

    def more_deadlines(self) -> list[float]:
        return [asked.until for asked in self.asked.values()]

    # --- rules: the taker

    def take_some(self, data: st.DataObject) -> None:
        self.request += 1
        wait = data.draw(st.sampled_from([0.0, 2.0, 12.0]))
        visibility = data.draw(st.sampled_from([None, 1.0, 30.0]))
        asked = Asked(
            data.draw(st.integers(1, 9)),
            data.draw(st.sampled_from([LARGE, 1, 70])),
            VISIBILITY if visibility is None else visibility,
            self.now + wait,
        )
        self.asked[self.request] = asked
        self.last_take = self.request
        self.takers.take(self.request, asked.messages, size=asked.size, wait=wait, visibility=visibility, now=self.now)
        self.settle()
        assert wait or self.request not in self.asked, "without a wait it is answered at once"

    def get_some(self, data: st.DataObject) -> None:
        """A receiver takes what is there now: it holds that as what it was delivered, and answers for it so."""
        if not self.receivers:
            return
        name = data.draw(st.sampled_from(sorted(self.receivers)))
        messages, size = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([LARGE, 1, 70]))
        visibility = self.receivers[name].visibility
        self.request += 1
        self.asked[self.request] = Asked(messages, size, visibility, self.now, name)
        before = self.queue.statistics(self.now)
        self.takers.take(self.request, messages, size=size, now=self.now, taker=name)
        self.left = None
        self.settle()
        after = self.queue.statistics(self.now)
        assert self.request not in self.asked, "it never waits"
        assert self.left == after.ready, "it is told how many are left"
        assert after.total_out - before.total_out == after.in_flight - before.in_flight

    def cancel_some(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from([*self.asked, 0]))
        self.asked.pop(request, None)
        self.takers.cancel_take(request, self.now)
        self.settle()

    def named(self, data: st.DataObject) -> list[tuple[int, int]]:
        numbers = data.draw(st.lists(st.integers(0, max(0, self.next)), max_size=6, unique=True))
        numbers += [number for number in self.held_by(TAKER) if data.draw(st.booleans()) and number not in numbers]
        return [
            (number, self.stored[number].deliveries - data.draw(st.sampled_from([0, 0, 0, 1])))
            if number in self.stored
            else (number, 1)
            for number in numbers
        ]

    def is_held(self, number: int, delivery: int) -> bool:
        message = self.stored.get(number)
        return (
            message is not None
            and (message.where, message.holder) == (LEASED, TAKER)
            and message.deliveries == delivery
        )

    def settle_some(self, data: st.DataObject) -> None:
        named = self.named(data)
        how = data.draw(st.sampled_from(list(Settlement)))
        seconds = data.draw(st.sampled_from([0.0, 4.0]))
        failed = data.draw(st.booleans())
        self.request += 1
        lost = []
        for number, delivery in named:
            if not self.is_held(number, delivery):
                lost.append(((number, delivery), Lost.EXPIRED if number in self.stored else Lost.GONE))
            elif how is Settlement.ACKNOWLEDGE:
                self.remove(number)
                self.acknowledged += 1
            elif how is Settlement.RETURN:
                self.give_back(number, seconds, failed)
            else:
                self.stored[number].until = self.now + seconds
        self.takers.settle(self.request, named, how, seconds=seconds, failed=failed, now=self.now)
        self.settle()
        assert self.settled.pop(self.request) == tuple(lost)
        if how is Settlement.EXTEND and not seconds:
            self.let_time_pass(0.0)

    def unseen_some(self, data: st.DataObject) -> None:
        named = self.named(data)
        for number, delivery in named:
            if self.is_held(number, delivery):
                message = self.stored[number]
                message.deliveries -= 1
                message.where, message.holder = READY, ""
        self.takers.give_back_unseen(named, self.now)
        self.settle()

    def leave_some(self, _data: st.DataObject) -> None:
        for number in self.held_by(TAKER):
            self.give_back(number, failed=False)
        self.asked.clear()
        self.attached = False
        self.queue.detach(TAKER, self.now, failed=False)
        self.settle()

    def begin_again(self) -> None:
        self.asked.clear()
        self.attached = False
        self.takers.told.clear()
        super().begin_again()

    # --- what always holds

    @invariant()
    def a_request_that_waits_has_nothing_to_wait_for(self) -> None:
        if self.asked and self.head() is not None:
            assert self.settings.exclusive
            assert self.in_line()[0] != TAKER

    @invariant()
    def nothing_is_held_for_longer_than_its_time(self) -> None:
        assert all(self.stored[number].until > self.now for number in self.held_by(TAKER))


class TestTakenQueueAgainstItsModel(TakenMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(80), stateful_step_count=50)


@pytest.mark.soak
@pytest.mark.timeout(900)
class TestTakenQueueAgainstItsModelForLong(TakenMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=2_000, stateful_step_count=50)
