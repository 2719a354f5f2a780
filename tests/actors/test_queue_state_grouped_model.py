"""A queue with groups whose messages are of none, against the model of ``test_queue_state_model``: they are received as in every queue.

So all that becomes of them holds there too: limits, times, retries, dead letters, what is dropped, moved or purged, and restarts. What
holds for groups has a judge of its own (``test_queue_state_groups_model``).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings as tries

from actors.queue.state.grouped_ready import GroupedReady
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.test_queue_state_model import DECLARATIONS, ENDLESS, QueueMachine
from tests.examples_tried import tried

GROUPED = tuple(replace(each, groups=True) for each in (*DECLARATIONS, *ENDLESS) if not each.exclusive)


class GroupedMachine(QueueMachine):
    """As the other machine, of queues with groups."""

    declarations = GROUPED

    def start(self, settings: QueueSettings) -> None:
        super().start(settings)
        assert isinstance(self.queue.ready, GroupedReady)


class TestGroupedQueueAgainstTheModel(GroupedMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = tries(max_examples=tried(100), stateful_step_count=50)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
class TestGroupedQueueAgainstTheModelForLong(GroupedMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = tries(max_examples=3_000, stateful_step_count=60)
