"""`BrokerConfig`: what is refused, and what follows from where a broker keeps its messages."""

from __future__ import annotations

from typing import Any

import pytest

from actors import QueueSettings
from journal import JournalOptions
from transport.config.config import (
    DURABLE_MAX_BYTES,
    DURABLE_MAX_MESSAGES,
    MAX_SEGMENT_BYTES,
    MAX_SYNC_INTERVAL,
    MIN_SEGMENT_BYTES,
    SYNC_POLICIES,
    BrokerConfig,
)
from transport.errors import InvalidNameError, LocalProtocolError


def test_a_queue_in_memory_gets_the_settings_of_a_queue_unless_told() -> None:
    assert BrokerConfig().queue_settings() == QueueSettings(max_staged_bytes=256 * 2**20)


def test_a_queue_with_a_journal_may_hold_far_more_unless_told() -> None:
    durable = BrokerConfig(directory="data").queue_settings()
    assert (durable.max_messages, durable.max_bytes) == (DURABLE_MAX_MESSAGES, DURABLE_MAX_BYTES)
    told = BrokerConfig(directory="data", max_queue_messages=5, max_queue_bytes=6).queue_settings()
    assert (told.max_messages, told.max_bytes) == (5, 6)


def test_every_queue_default_reaches_the_queue() -> None:
    config = BrokerConfig(
        max_queue_messages=1,
        max_queue_bytes=2,
        visibility_timeout=3.0,
        overflow="reject",
        max_receives=4,
        dead_letter_queue="failed",
        delay=5.0,
        ttl=6.0,
        exclusive=True,
        max_staged_messages=7,
        max_staged_bytes=8,
    )
    assert config.queue_settings() == QueueSettings(1, 2, 3.0, "reject", 4, "failed", 5.0, 6.0, True, 7, 8)


def test_the_journal_knows_every_policy_of_syncing_and_has_the_same_defaults() -> None:
    # The configuration loads no journal, so it states them for itself.
    unless_told = JournalOptions()
    config = BrokerConfig()
    assert {JournalOptions(sync=policy).sync for policy in SYNC_POLICIES} == set(SYNC_POLICIES)
    assert (config.sync, config.sync_interval) == (unless_told.sync, unless_told.sync_interval)
    assert config.segment_bytes == unless_told.segment_bytes


def test_what_may_be_staged_is_bounded_by_memory_where_there_is_no_disk() -> None:
    assert BrokerConfig().queue_settings().max_staged_bytes == 256 * 2**20
    assert BrokerConfig(directory="data").queue_settings().max_staged_bytes == 4 * 2**30
    assert BrokerConfig(directory="data").queue_settings().max_staged_messages == 10_000_000


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"sync": "sometimes"}, "not one of always, interval, never"),
        ({"sync_interval": 0}, "sync_interval is 0 s"),
        ({"sync_interval": MAX_SYNC_INTERVAL + 1}, "at most 60"),
        ({"sync_interval": float("nan")}, "sync_interval is nan"),
        ({"amqp_max_message_bytes": 0}, "amqp_max_message_bytes is 0, not between 1 and 134217728"),
        ({"amqp_max_message_bytes": 2**27 + 1}, "amqp_max_message_bytes is 134217729, not between"),
        ({"segment_bytes": MIN_SEGMENT_BYTES - 1}, f"not between {MIN_SEGMENT_BYTES}"),
        ({"segment_bytes": MAX_SEGMENT_BYTES + 1}, f"and {MAX_SEGMENT_BYTES}"),
        ({"cache_bytes": -1}, "cache_bytes is -1"),
        ({"disk_floor": -1}, "disk_floor is -1"),
        ({"transaction_timeout": 0}, "transaction_timeout is 0"),
        ({"transaction_timeout": float("nan")}, "transaction_timeout is nan"),
        ({"memory_watermark": 0}, "memory_watermark is 0"),
        ({"memory_watermark": 60}, "60% is 0.6"),
        ({"memory_watermark": float("nan")}, "memory_watermark is nan"),
        ({"directory": ""}, "empty name"),
        ({"max_queues": 1, "queues": {"a": QueueSettings(), "b": QueueSettings()}}, "2 queues are declared"),
    ],
)
def test_storage_options_that_cannot_be_are_refused_and_named(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LocalProtocolError, match=complaint):
        BrokerConfig(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"queues": {"two words": QueueSettings()}},
        {"queues": {"a": QueueSettings(max_receives=1, dead_letter_queue="two words")}},
        {"max_receives": 1, "dead_letter_queue": "two words"},
    ],
)
def test_a_queue_name_that_cannot_be_is_refused_wherever_it_stands(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidNameError, match="two words"):
        BrokerConfig(**options)


def test_a_queue_default_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="overflow is 'spill'"):
        BrokerConfig(overflow="spill")
    with pytest.raises(ValueError, match="drop_failed is set, and a place"):
        BrokerConfig(dead_letter_queue="failed", drop_failed=True)


def test_a_configuration_can_be_a_key() -> None:
    assert len({BrokerConfig(), BrokerConfig(), BrokerConfig(directory="data")}) == 2
