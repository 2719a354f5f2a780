"""Ids and their messages are there together or not at all, through power losses and deaths at any call of the journal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.events import MessagesAdded
from tests.fault.history import HistoryError
from tests.fault.ids_program import IdsProgram
from tests.fault.store_program import verify_lives

SEEDS = 25


def test_no_id_is_lost_and_none_is_there_without_its_message_through_power_losses() -> None:
    duplicates = lost = 0
    for seed in range(SEEDS):
        program = IdsProgram(seed)
        verify_lives(program)
        duplicates += program.duplicates
        lost += program.lost
    assert duplicates > 500, "it met duplicates"
    assert lost > 50, "it lost what nobody was told of"


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_no_id_is_lost_for_long() -> None:
    for seed in range(SEEDS, 500):
        verify_lives(IdsProgram(seed))


def test_a_log_that_forgets_the_ids_of_a_record_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = QueueLog.apply

    def forgetful(log: QueueLog, event: Any, number: int = 0) -> None:
        apply(log, replace(event, ids_until_us=0) if type(event) is MessagesAdded else event, number)

    monkeypatch.setattr(QueueLog, "apply", forgetful)
    with pytest.raises(HistoryError, match="have an id that is new"):
        verify_lives(IdsProgram(3))
