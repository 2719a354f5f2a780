"""Settings that do nothing: what is said natively is refused, and queues that have them, or are declared over AMQP, stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.queue.vocabulary.idle_settings import of_no_effect
from actors.queue.vocabulary.settings import QUEUE_SETTINGS, QueueSettings
from transport import Administration, BrokerError

IDLE: list[dict[str, Any]] = [
    {"drop_failed": True},
    {"overflow": "reject-dead-letter"},
    {"retry_max_delay": 5.0},
    {"max_deduplication_ids": 5},
    {"exclusive": True, "single_active_consumer": True},
]
WANTED: list[dict[str, Any]] = [
    {"drop_failed": True, "max_receives": 3},
    {"overflow": "reject-dead-letter", "dead_letter_queue": "d"},
    {"overflow": "reject-dead-letter", "max_messages": None, "max_bytes": None},
    {"retry_max_delay": 5.0, "retry_delay": 1.0},
    {"max_deduplication_ids": 5, "deduplication_window": 60.0},
    {"exclusive": True},
    {"single_active_consumer": True},
]


@pytest.mark.parametrize("settings", IDLE)
def test_what_would_do_nothing_is_found_where_it_is_said(settings: dict[str, Any]) -> None:
    assert of_no_effect(QueueSettings(**settings), settings) is not None
    assert of_no_effect(QueueSettings(**settings), {"max_messages"}) is None, "it was so before"


@pytest.mark.parametrize("settings", WANTED)
def test_what_does_something_is_not(settings: dict[str, Any]) -> None:
    assert of_no_effect(QueueSettings(**settings), settings) is None


def test_a_queue_of_usual_settings_that_are_all_said_has_none_that_does_nothing() -> None:
    assert of_no_effect(QueueSettings(), [setting.name for setting in QUEUE_SETTINGS]) is None


@pytest.mark.parametrize("settings", IDLE)
def test_a_queue_that_has_such_settings_starts_is_declared_again_and_altered_otherwise(
    run: Any, serve: Any, tmp_path: Any, settings: dict[str, Any]
) -> None:
    folder = str(tmp_path / "data")

    async def main() -> None:
        async with serve(directory=folder) as broker:
            broker.queues.declare("old", replace(broker.queues.settings, **settings))
        async with serve(directory=folder) as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("old", **settings)
            await administration.alter_queue("old", visibility_timeout=5.0)
            row = await administration.queue("old")
            assert {name: row[name] for name in settings} == settings
            with pytest.raises(BrokerError):
                await administration.create_queue("new", **settings)
            assert [each["name"] for each in await administration.queues()] == ["old"]

    run(main)
