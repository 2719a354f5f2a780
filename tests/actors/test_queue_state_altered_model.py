"""A queue whose settings are altered at any moment, against the model of ``test_queue_state_model``, which has them too.

Whatever it held it holds, each limit, time and count is the new one from then on, and what was given out before stays given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from actors.queue.state.log import QueueLog
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.settings import BLOCK, DROP_HEAD, ENTRY_OVERHEAD_BYTES, REJECT, QueueSettings
from tests.actors.driven import QueueState
from tests.actors.test_queue_state_model import (
    DELAYED,
    LARGE,
    LEAVING,
    MAX_BYTES,
    MAX_MESSAGES,
    OPERATIONS,
    READY,
    SENDERS,
    WEIGHTED,
    QueueMachine,
)
from tests.examples_tried import tried

CHANGES: tuple[dict[str, Any], ...] = (
    {"max_messages": 5},
    {"max_messages": 1},
    {"max_messages": MAX_MESSAGES},
    {"max_messages": 250},
    {"max_messages": None, "max_bytes": None},
    {"max_bytes": None},
    {"max_bytes": 2 * ENTRY_OVERHEAD_BYTES},
    {"max_bytes": MAX_BYTES},
    {"visibility_timeout": 2.0},
    {"visibility_timeout": 25.0},
    {"overflow": BLOCK},
    {"overflow": REJECT},
    {"overflow": DROP_HEAD},
    {"overflow": DROP_HEAD, "max_messages": 4, "max_bytes": 3 * ENTRY_OVERHEAD_BYTES},
    {"max_receives": None},
    {"max_receives": 1},
    {"max_receives": 3},
    {"dead_letter_queue": None},
    {"dead_letter_queue": "elsewhere", "max_receives": 2},
    {"dead_letter_queue": "elsewhere", "ttl": 6.0},
    {"delay": 0.0},
    {"delay": 4.0},
    {"ttl": None},
    {"ttl": 3.0},
    {"max_messages": 8, "overflow": REJECT, "delay": 1.0, "max_receives": 1},
    {"dead_letter_queue": "elsewhere", "max_receives": None, "ttl": None},
    {"drop_failed": False},
    {"drop_failed": True, "max_receives": 2},
    {"retry_delay": 0.0},
    {"retry_delay": 2.0, "retry_max_delay": 5.0},
)


def judged(settings: QueueSettings) -> tuple[Any, ...]:
    """Settings that have what has failed be judged anew."""
    return settings.max_receives, settings.dead_letter_queue, settings.drop_failed


class AlteredMachine(QueueMachine):
    """As the other machine, with settings that change."""

    changes = CHANGES
    more_commands: tuple[str, ...] = ()

    def made(self, log: QueueLog) -> QueueState:
        if not hasattr(self, "largest"):
            self.largest = self.settings.max_messages or LARGE
            # Who may send whatever it asks for, as where a queue rejects, keeps that.
            self.unbounded = self.rejects() or self.drops()
        return super().made(log)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        feasible = [name for name in WEIGHTED if (possible := OPERATIONS[name][0]) is None or possible(self)]
        name = data.draw(st.sampled_from([*feasible, *["alter"] * 8, *self.more_commands]), label="command")
        if name == "alter":
            self.alter(data.draw(st.sampled_from(self.changes), label="changed"))
            return
        if name in self.more_commands:
            getattr(self, name)()
            return
        arguments = {key: data.draw(strategy, label=key) for key, strategy in OPERATIONS[name][1].items()}
        command: Any = getattr(self, name)
        if "data" in command.__code__.co_varnames[: command.__code__.co_argcount]:
            arguments["data"] = data
        command(**arguments)

    def alter(self, changed: dict[str, Any]) -> None:
        before = self.settings
        try:
            after = replace(before, **changed)
        except ValueError:
            # A dead-letter queue, and what would go there is dropped.
            return
        if after.drop_failed != before.drop_failed and any(each.where == LEAVING for each in self.stored.values()):
            # What was handed over is dropped once it was not answered for in time, which this does not know.
            return
        if after.retry_delay and self.clock_was_set:
            # What waits is measured by another clock after a crash.
            return
        self.settings = after
        self.largest = max(self.largest, after.max_messages or LARGE)
        self.unbounded = self.unbounded or self.rejects() or self.drops()
        for receiver in self.receivers.values():
            receiver.visibility = max(receiver.visibility, after.visibility_timeout)
        if judged(before) != judged(after):
            self.judge()
        assert self.queue.execute(commands.AlterQueue(after), self.now, self.wall_us(self.now)) == after
        self.settle()

    def judge(self) -> None:
        """What is worn out by other settings leaves."""
        for number, message in list(self.stored.items()):
            if message.where in (READY, DELAYED) and self.is_worn_out(message.failures):
                self.leaves(number)

    @invariant()
    def permits_are_bounded_whatever_is_stored(self) -> None:
        if not self.unbounded:
            assert self.permits() <= self.largest + len(SENDERS)
            assert self.permits() + len(self.stored) <= 2 * self.largest + len(SENDERS)
        if self.rejects():
            assert all(s.wanted_messages == s.wanted_bytes == 0 for s in self.senders.values())


class TestAlteredQueueAgainstItsModel(AlteredMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(80), stateful_step_count=50)


@pytest.mark.soak
@pytest.mark.timeout(900)
class TestAlteredQueueAgainstItsModelForLong(AlteredMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=2_000, stateful_step_count=50)
