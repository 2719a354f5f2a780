"""A queue that judges anew what it holds, by other settings, a span in each step, with any command between two steps.

The model does not say how far the judging is: it looks where each message is, and checks that it may be there by the settings of now.
The dead-letter queue takes few messages at a time, so that others wait to leave, and may come back.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant

from actors.queue.operations import judging
from actors.queue.state import ready
from actors.queue.vocabulary.replies import EXPIRED, DeadLetter
from tests.actors.driven import reason_of
from tests.actors.test_queue_state_altered_model import AlteredMachine
from tests.actors.test_queue_state_model import DELAYED, LARGE, LEAVING, MAX_MESSAGES, READY, Stored
from tests.examples_tried import tried

BUDGET, BATCHES = 1, 2
CHANGES: tuple[dict[str, Any], ...] = (
    {"max_receives": None, "dead_letter_queue": None},
    {"max_receives": None, "dead_letter_queue": None},
    {"max_receives": 1},
    {"max_receives": 1},
    {"max_receives": 2},
    {"max_receives": 3},
    {"max_receives": 9},
    {"dead_letter_queue": "elsewhere", "max_receives": 2},
    {"dead_letter_queue": "late", "ttl": 6.0},
    {"dead_letter_queue": None},
    {"max_messages": 8},
)


class JudgingMachine(AlteredMachine):
    """As the other machine, with a judging in as many steps as there are spans."""

    changes = CHANGES
    more_commands = (*["go_on"] * 10, *["have_all_come_back"] * 6)

    def __init__(self) -> None:
        super().__init__()
        self.budgets = judging.JUDGE_BUDGET, ready.DEAD_LETTER_BATCHES
        judging.JUDGE_BUDGET, ready.DEAD_LETTER_BATCHES = BUDGET, BATCHES

    def teardown(self) -> None:
        judging.JUDGE_BUDGET, ready.DEAD_LETTER_BATCHES = self.budgets
        super().teardown()

    def go_on(self) -> None:
        """The next turn."""
        self.queue.tick(self.now)
        self.settle()

    def have_all_come_back(self) -> None:
        """Somebody takes all there is, and gives it back by single messages: some at once, some later, some without a failure."""
        if not self.receivers:
            self.attach_all()
        name = next(iter(self.receivers))
        receiver = self.receivers[name]
        receiver.demand += MAX_MESSAGES
        receiver.credit += LARGE
        self.queue.receive(name, MAX_MESSAGES, LARGE, self.now)
        self.settle()
        self.queue.cancel_demand(name)
        receiver.demand, receiver.credit = 0, min(0, receiver.credit)
        for number in self.held_by(name):
            delay, failed = 5.0 * (number % 4 == 1), number % 3 != 0
            self.give_back(number, delay, failed)
            self.queue.negative_acknowledge(name, [(number, 1)], delay, self.now, failed)
            self.settle()

    def judge(self) -> None:
        """Step by step."""

    def is_judging(self) -> bool:
        return self.queue.judging is not None

    def is_in_between(self) -> bool:
        return self.is_judging() or self.queue.unfinished_at is not None

    def check_dropped(self) -> None:
        """Nothing is dropped before the last step of a judging, nor while something waits to leave for others before it."""
        if not self.is_in_between() and not self.queue.outbox.waiting:
            super().check_dropped()

    def settle(self) -> None:
        self.look_where_they_are()
        super().settle()

    def leaving(self) -> set[int]:
        outbox = self.queue.outbox
        spans = [*outbox.sent, *outbox.waiting, *(span for spans in outbox._doubted for span in spans)]
        return {number for span in spans for number in range(span.start, span.stop)}

    def look_where_they_are(self) -> None:
        """What has left since was to leave, and what has come back was not."""
        leaving = self.leaving()
        for number, message in self.stored.items():
            if message.where in (READY, DELAYED) and number in leaving:
                assert self.is_worn_out(message.failures) or self.is_late(message) or self.drops()
                message.where, message.until = LEAVING, 0.0
            elif message.where == LEAVING and number not in leaving:
                assert message.until == 0.0, "what was handed over is the other queue's"
                if self.settings.drop_failed and self.is_worn_out(message.failures):
                    # It goes nowhere, and is dropped by now.
                    continue
                assert not self.is_worn_out(message.failures)
                message.where, message.why = READY, ""

    def is_late(self, message: Stored) -> bool:
        expired = message.expires is not None and message.expires <= self.now
        return expired and self.settings.dead_letter_queue is not None

    def check_in_turn(self, number: int, below: int | None = None) -> None:
        assert not self.is_worn_out(self.stored[number].failures)
        assert not self.is_judging()
        super().check_in_turn(number, below)

    def check_dead_letter(self, effect: DeadLetter) -> None:
        assert not self.rewrites(effect), "what expired long ago and need not leave any more is not told so"
        super().check_dead_letter(effect)

    def rewrites(self, effect: DeadLetter) -> bool:
        """Whether it goes for the first time, and for a reason that does not hold."""
        ((start, stop),) = effect.ranges
        fresh = [m for number, m in self.stored.items() if start <= number < stop and m.until == 0.0]
        return reason_of(effect) == EXPIRED and any(m.expires is None or m.expires > self.now for m in fresh)

    def check_all_is_handed_over(self) -> None:
        leaving = [message for message in self.stored.values() if message.where == LEAVING]
        under_way = [message for message in leaving if message.until > 0]
        assert under_way or not leaving or self.is_judging(), "something is always under way"

    def head(self) -> Stored | None:
        """Nothing is next before all are judged, and nothing expires before what is ahead of it has left."""
        head = super().head()
        if head is None or self.is_in_between():
            return None
        waits = self.settings.dead_letter_queue is not None and self.queue.outbox.waiting
        late = head.expires is not None and (waits or (head.expires <= self.now and self.is_overdue()))
        return None if late else head

    def gives_away(self) -> bool:
        return not self.is_judging() and super().head() is not None

    @invariant()
    def what_was_judged_is_where_it_belongs(self) -> None:
        if self.is_judging():
            return
        assert not self.queue.outbox._doubted
        for message in self.stored.values():
            if message.where in (READY, DELAYED):
                assert not self.is_worn_out(message.failures)
            elif message.where == LEAVING and message.until == 0.0:
                assert self.is_worn_out(message.failures) or self.is_late(message) or self.drops()

    @invariant()
    def the_next_deadline_is_the_earliest_one(self) -> None:
        waiting = {number: m for number, m in self.stored.items() if m.where == LEAVING and m.until == 0.0}
        if self.is_judging() or self.is_overdue():
            assert self.queue.next_deadline() is not None
            assert self.is_overdue(), "the next step is due at once"
            return
        for message in waiting.values():
            message.where = ""
        try:
            super().the_next_deadline_is_the_earliest_one()
        finally:
            for message in waiting.values():
                message.where = LEAVING


class TestJudgingQueueAgainstItsModel(JudgingMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(80), stateful_step_count=50)


@pytest.mark.soak
@pytest.mark.timeout(900)
class TestJudgingQueueAgainstItsModelForLong(JudgingMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=2_000, stateful_step_count=50)
