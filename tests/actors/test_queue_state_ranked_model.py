"""Receivers of different priorities, and a single active one, against the model of ``test_queue_state_model`` that knows who goes first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from actors.queue.state.log import QueueLog
from actors.queue.state.priority_ring import PriorityRing
from actors.queue.vocabulary.settings import REJECT
from tests.actors.driven import Deliver, QueueState, Reserved
from tests.actors.test_queue_state_model import (
    HOLDS_ON,
    NO_DEADLINE,
    OPERATIONS,
    RECEIVERS,
    WEIGHTED,
    ModelReceiver,
    QueueMachine,
    declared,
)
from tests.examples_tried import tried

PRIORITIES = (0, 0, 1, 1, 7, -3)
MORE = ("attach", "attach", "stop")


class RankedMachine(QueueMachine):
    """As the other machine, with priorities; it knows who has a queue that one has at a time."""

    declarations = (
        declared(),
        declared(single_active_consumer=True),
        declared(single_active_consumer=True),
        declared(exclusive=True),
        declared(exclusive=True, single_active_consumer=True),
        declared(single_active_consumer=True, max_receives=2, overflow=REJECT),
        declared(single_active_consumer=True, ttl=8.0, dead_letter_queue="late"),
        declared(ttl=8.0),
    )

    def made(self, log: QueueLog) -> QueueState:
        self.forget_all()
        return super().made(log)

    def forget_all(self) -> None:
        self.priority: dict[str, int] = {}
        # Who stands in line, in the order in which they came, and who has the queue.
        self.line: list[str] = []
        self.has_it: str | None = None

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        feasible = [name for name in WEIGHTED if (possible := OPERATIONS[name][0]) is None or possible(self)]
        name = data.draw(st.sampled_from([*feasible, *MORE * 3]), label="command")
        if name in MORE:
            getattr(self, f"{name}_one")(data)
            return
        arguments: dict[str, Any] = {key: data.draw(each, label=key) for key, each in OPERATIONS[name][1].items()}
        command: Any = getattr(self, name)
        if "data" in command.__code__.co_varnames[: command.__code__.co_argcount]:
            arguments["data"] = data
        command(**arguments)

    def attach_one(self, data: st.DataObject) -> None:
        gone = [name for name in RECEIVERS if name not in self.receivers]
        if gone:
            self.attach(data.draw(st.sampled_from(gone)), data.draw(st.sampled_from(PRIORITIES)))
            self.settle()

    def attach_all(self) -> None:
        self.attach_all_senders()
        for name in RECEIVERS:
            if name not in self.receivers:
                self.attach(name, 0)
        self.settle()

    def attach(self, name: str, priority: int) -> None:
        told = NO_DEADLINE if name == HOLDS_ON else 0.0
        self.receivers[name] = ModelReceiver(visibility=max(told, self.settings.visibility_timeout))
        self.priority[name] = priority
        waits = self.queue.attach_receiver(name, told, priority)
        self.comes(name)
        assert waits == (self.one_at_a_time() and self.now_served() != name)

    def comes(self, name: str) -> None:
        if self.one_at_a_time():
            self.line.append(name)
            self.has_it = self.has_it or name

    def goes(self, name: str) -> None:
        if name in self.line:
            self.line.remove(name)
            if self.has_it == name:
                self.has_it = self.first()

    def stop_one(self, data: st.DataObject) -> None:
        """It consumes no more, as one that is cancelled over AMQP: what it holds it may still settle."""
        if not self.receivers:
            return
        name = data.draw(st.sampled_from(sorted(self.receivers)))
        receiver = self.receivers[name]
        receiver.demand, receiver.credit = 0, min(0, receiver.credit)
        if not self.settings.exclusive:
            self.goes(name)
        self.queue.stop_consuming(name, self.now)
        self.settle()

    def receiver_goes(self, name: str) -> None:
        self.goes(name)
        self.priority.pop(name, None)

    def begin_again(self) -> None:
        self.forget_all()
        super().begin_again()

    def settle(self) -> None:
        # Those who were there from the beginning.
        for name in self.receivers:
            if name not in self.priority:
                self.priority[name] = 0
                self.comes(name)
        super().settle()
        if self.queue.line is not None and self.queue.line.live:
            assert self.queue.next_deadline() == 0.0, "it is time to look who is next"
            self.queue.tick(self.now)
            super().settle()

    # --- who may have what

    def one_at_a_time(self) -> bool:
        return self.settings.exclusive or self.settings.single_active_consumer

    def first(self) -> str | None:
        """Who is first of those who wait."""
        waiting = [name for name in self.line if name != self.has_it]
        return max(waiting, key=lambda name: self.priority[name], default=None)

    def now_served(self) -> str | None:
        """Who gets messages; whoever gives way and holds nothing has given way."""
        if self.has_it is None or self.settings.exclusive:
            return self.has_it
        following = self.first()
        if following is None or self.priority[following] <= self.priority[self.has_it]:
            return self.has_it
        if self.held_by(self.has_it):
            return None
        # It was there before the others of its priority, and so it is first among them again.
        self.line.remove(self.has_it)
        self.line.insert(0, self.has_it)
        self.has_it = following
        return following

    def holder(self) -> str | None:
        return (self.now_served() or "nobody") if self.one_at_a_time() else None

    def served(self) -> list[ModelReceiver]:
        if self.one_at_a_time():
            name = self.now_served()
            return [] if name is None else [self.receivers[name]]
        return list(self.receivers.values())

    def waiting_in_line(self) -> int:
        return len(self.line) - (self.now_served() is not None)

    def who_wants(self, above: int) -> list[str]:
        """Who may have messages and wants some, of a higher priority."""
        served = self.served()
        return [
            name
            for name, each in self.receivers.items()
            if each in served and each.demand > 0 and each.credit > 0 and self.priority[name] > above
        ]

    def check_delivery(self, effect: Deliver) -> None:
        assert not self.who_wants(self.priority[str(effect.receiver)]), "first those of the highest priority"
        super().check_delivery(effect)

    def check_reservation(self, effect: Reserved, events: list[Any]) -> None:
        assert not events or not self.who_wants(0), "a subscription has the priority 0"
        super().check_reservation(effect, events)

    @invariant()
    def there_are_levels_while_somebody_has_a_priority(self) -> None:
        assert isinstance(self.queue.ring, PriorityRing) == any(self.priority.values())

    @invariant()
    def one_has_it(self) -> None:
        facts = {str(each.connection): each for each in self.queue.statistics(self.now).connections}
        active = [name for name, each in facts.items() if each.active]
        self.now_served()
        assert active == ([] if self.has_it is None else [self.has_it])
        assert all(facts[name].priority == priority for name, priority in self.priority.items())


class TestRankedReceiversAgainstTheirModel(RankedMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(80), stateful_step_count=50)


@pytest.mark.soak
@pytest.mark.timeout(900)
class TestRankedReceiversAgainstTheirModelForLong(RankedMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=2_000, stateful_step_count=50)
