"""Queues that drop their oldest against the model that knows every message by itself."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import settings

from actors.queue.vocabulary.settings import DROP_HEAD, QueueSettings
from tests.actors.test_queue_state_model import DECLARATIONS, QueueMachine
from tests.examples_tried import tried


class DroppingMachine(QueueMachine):
    declarations: ClassVar[tuple[QueueSettings, ...]] = tuple(
        each for each in DECLARATIONS if each.overflow == DROP_HEAD
    )


class TestDroppingQueueAgainstItsModel(DroppingMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(80), stateful_step_count=50)


@pytest.mark.soak
@pytest.mark.timeout(900)
class TestDroppingQueueAgainstItsModelForLong(DroppingMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=2_000, stateful_step_count=50)
