"""A queue with levels against the model that knows every message by itself: the highest level first, in order within one."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import settings

from actors.queue.vocabulary.settings import REJECT, QueueSettings
from tests.actors.test_queue_state_model import VISIBILITY, QueueMachine, declared
from tests.examples_tried import tried

LEVELS = (
    declared(max_priority=2),
    declared(max_priority=255),
    declared(max_priority=2, delay=3.0),
    declared(max_priority=2, ttl=8.0),
    declared(max_priority=3, max_receives=2),
    declared(max_priority=2, overflow=REJECT),
    declared(max_priority=2, exclusive=True),
    declared(max_priority=1, ttl=8.0, dead_letter_queue="late"),
    declared(max_priority=2, ttl=0.0),
    declared(max_priority=2, exclusive=True, max_receives=2, overflow=REJECT),
    declared(max_priority=9, max_receives=1, ttl=12.0, dead_letter_queue="all", overflow=REJECT),
    QueueSettings(None, None, VISIBILITY, max_priority=2),
)


class LeveledQueueMachine(QueueMachine):
    declarations: ClassVar[tuple[QueueSettings, ...]] = LEVELS


class TestLevelsAgainstTheirModel(LeveledQueueMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(80), stateful_step_count=50)


@pytest.mark.soak
@pytest.mark.timeout(900)
class TestLevelsAgainstTheirModelForLong(LeveledQueueMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=600, stateful_step_count=50)
