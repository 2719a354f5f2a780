"""A queue with levels against the models that know every message by itself: the highest level first, in order within one."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import settings

from actors.queue.vocabulary.settings import DROP_HEAD, ENTRY_OVERHEAD_BYTES, REJECT, QueueSettings
from tests.actors.test_queue_state_altered_model import AlteredMachine
from tests.actors.test_queue_state_fed_model import FedMachine
from tests.actors.test_queue_state_model import DECLARATIONS, MAX_BYTES, VISIBILITY, QueueMachine, declared
from tests.actors.test_queue_state_taken_model import TakenMachine
from tests.actors.test_queue_state_transactions_model import TransactionMachine
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
    declared(max_priority=3, exclusive=True, ttl=8.0, retry_delay=2.0),
    declared(max_priority=3, exclusive=True, ttl=8.0, dead_letter_queue="late"),
    declared(max_priority=2, exclusive=True, max_receives=2, overflow=REJECT),
    declared(max_priority=9, max_receives=1, ttl=12.0, dead_letter_queue="all", overflow=REJECT),
    declared(max_priority=2, retry_delay=2.0, retry_max_delay=7.0),
    declared(max_priority=2, retry_delay=4.0, max_receives=2, ttl=8.0, dead_letter_queue="late"),
    QueueSettings(6, MAX_BYTES, VISIBILITY, overflow=DROP_HEAD, max_priority=2),
    QueueSettings(None, 3 * ENTRY_OVERHEAD_BYTES, VISIBILITY, overflow=DROP_HEAD, ttl=8.0, max_priority=2),
    QueueSettings(5, 3 * ENTRY_OVERHEAD_BYTES, VISIBILITY, overflow=DROP_HEAD, exclusive=True, max_priority=3),
    QueueSettings(4, MAX_BYTES, VISIBILITY, overflow=DROP_HEAD, dead_letter_queue="old", ttl=8.0, max_priority=2),
)
ENDLESS = QueueSettings(None, None, VISIBILITY, max_priority=2)


class LeveledQueueMachine(QueueMachine):
    declarations: ClassVar[tuple[QueueSettings, ...]] = (*LEVELS, ENDLESS)


class LeveledTransactionMachine(TransactionMachine):
    declarations = LEVELS


class LeveledTakenMachine(TakenMachine):
    declarations: ClassVar[tuple[QueueSettings, ...]] = (*LEVELS, ENDLESS)


class LeveledAlteredMachine(AlteredMachine):
    declarations: ClassVar[tuple[QueueSettings, ...]] = (*LEVELS, ENDLESS)


class LeveledFedMachine(FedMachine):
    declarations: ClassVar[tuple[QueueSettings, ...]] = (*LEVELS, *DECLARATIONS[:3])


class TestLevelsAgainstTheirModel(LeveledQueueMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(80), stateful_step_count=50)


class TestTransactionsOnLevels(LeveledTransactionMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=tried(60), stateful_step_count=50)


class TestTakersOfLevels(LeveledTakenMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=tried(40), stateful_step_count=50)


class TestLevelsThatAreAltered(LeveledAlteredMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=tried(40), stateful_step_count=50)


class TestLevelsThatOthersFeed(LeveledFedMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=tried(60), stateful_step_count=50)


@pytest.mark.soak
@pytest.mark.hypothesis
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "machine",
    [
        LeveledQueueMachine,
        LeveledTransactionMachine,
        LeveledTakenMachine,
        LeveledAlteredMachine,
        LeveledFedMachine,
    ],
)
def test_levels_against_their_models_for_long(machine: type[QueueMachine]) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(machine, settings=settings(max_examples=1_000, stateful_step_count=50))
