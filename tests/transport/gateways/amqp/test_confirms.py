"""`transport.gateways.amqp.confirms`: what a client takes for confirmed is what is stored, whatever the order in which that comes."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from transport.gateways.amqp.confirms import Answer, Confirms


class Client(RuleBasedStateMachine):
    """Keeps what is unanswered as a client does: a multiple answer takes out everything up to it."""

    def __init__(self) -> None:
        super().__init__()
        self.subject = Confirms()
        self.published = 0
        self.under_way: set[int] = set()
        self.became: dict[int, bool] = {}
        self.unanswered: set[int] = set()
        self.answered: dict[int, bool] = {}

    @rule(count=st.integers(1, 4))
    def publish(self, count: int) -> None:
        assert self.subject.number(count) == self.published + 1
        numbers = range(self.published + 1, self.published + count + 1)
        self.published += count
        self.under_way.update(numbers)
        self.unanswered.update(numbers)

    @rule(data=st.data(), stored=st.booleans())
    def settle(self, data: st.DataObject, stored: bool) -> None:
        if not self.under_way:
            return
        first = data.draw(st.sampled_from(sorted(self.under_way)))
        count = 1
        while first + count in self.under_way and data.draw(st.booleans()):
            count += 1
        self.subject.settle(first, count, stored=stored)
        for number in range(first, first + count):
            self.under_way.remove(number)
            self.became[number] = stored

    @rule()
    def hear(self) -> None:
        for tag, multiple, stored in self.subject.answers():
            meant = {each for each in self.unanswered if each == tag or (multiple and each < tag)}
            assert tag in meant
            self.unanswered -= meant
            self.answered.update(dict.fromkeys(meant, stored))
        assert self.answered == self.became
        assert self.unanswered == self.under_way

    @invariant()
    def it_knows_whether_something_is_owed(self) -> None:
        assert self.subject.owed is bool(self.unanswered)


TestConfirms = Client.TestCase
TestConfirms.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def test_what_is_stored_in_a_row_is_one_answer() -> None:
    subject = Confirms()
    for _ in range(10):
        subject.number(100)
    for first in range(1, 1001, 100):
        subject.settle(first, 100, stored=True)
    assert subject.answers() == [Answer(1000, multiple=True, stored=True)]
    assert subject.answers() == []
    assert len(subject) == 0
