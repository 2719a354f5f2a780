"""What the journal keeps of failures and of what waits to be tried again, and of settings that older programs have stored."""

from __future__ import annotations

import msgpack
import pytest

from actors.errors import StorageError
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesReturned
from actors.queue.vocabulary.settings import MAX_RECEIVES_LIMIT, QueueSettings
from actors.storage.codec import RETURNED, decode, encode
from actors.storage.settings_codec import settings_as_stored, settings_from
from tests.actors.storage_lives import Life, in_loop

WAITING = MessagesReturned(((0, 2, 1), (3, 4, 2)), 5_000_000, (2_000_000, 0))
ARGUMENTS = b"\xa9 what AMQP has declared it with"


def rows(life: Life, number: int) -> list[tuple[int, int, int, int]]:
    return life.logs[number].retries.rows()


@in_loop
def test_what_waits_to_be_tried_again_is_there_after_a_kill_and_in_a_checkpoint() -> None:
    life = Life()
    life.record(0, life.added(0, b"a", b"b", b"c", b"d"))
    life.record(0, WAITING)
    life.run()
    assert rows(life, 0) == [(0, 2, 7_000_000, 2_000_000)]
    life = life.killed()
    assert rows(life, 0) == [(0, 2, 7_000_000, 2_000_000)]
    life.checkpoint()
    life.record(0, MessagesAcknowledged(((1, 2),)))
    life.storage._gathered.write()
    life.run()
    life = life.killed()
    assert rows(life, 0) == [(0, 1, 7_000_000, 2_000_000)]
    assert list(life.logs[0].returns) == [(0, 1, 1), (3, 4, 2)]
    assert rows(life, 1) == []


def test_a_return_that_waits_for_nothing_is_stored_as_ever() -> None:
    kind, payload = encode(7, MessagesReturned(((0, 2, 1),)))
    assert (kind, msgpack.unpackb(payload)) == (RETURNED, [7, [0, 2, 1]])
    assert decode(kind, memoryview(payload)) == (7, MessagesReturned(((0, 2, 1),)))
    kind, payload = encode(7, WAITING)
    assert decode(kind, memoryview(payload)) == (7, WAITING)


def test_a_return_whose_delays_are_not_those_of_its_ranges_is_refused() -> None:
    payload = msgpack.packb([7, [0, 2, 1], 5, [1, 2]])
    with pytest.raises(StorageError, match="1 ranges came back, with 2 delays"):
        decode(RETURNED, memoryview(payload))


def test_settings_say_of_retries_only_what_is_not_usual() -> None:
    usual = settings_as_stored(QueueSettings(max_receives=3))
    assert usual.keys().isdisjoint({"retry_delay", "retry_max_delay", "drop_failed"})
    settings = QueueSettings(max_receives=3, retry_delay=2.0, retry_max_delay=90.0, drop_failed=True)
    assert settings_from(settings_as_stored(settings)) == settings


@pytest.mark.parametrize(
    "settings",
    [
        QueueSettings(dead_letter_exchange="lost"),
        QueueSettings(dead_letter_queue="lost"),
        QueueSettings(dead_letter_queue="lost", max_receives=MAX_RECEIVES_LIMIT),
        QueueSettings(dead_letter_queue="lost", max_receives=4),
        QueueSettings(max_receives=MAX_RECEIVES_LIMIT, drop_failed=True),
        QueueSettings(max_receives=MAX_RECEIVES_LIMIT),
        QueueSettings(),
    ],
)
@pytest.mark.parametrize("arguments", [b"", ARGUMENTS])
def test_a_place_for_dead_letters_and_a_limit_are_told_apart_in_what_is_stored(
    settings: QueueSettings, arguments: bytes
) -> None:
    assert settings_from(settings_as_stored(settings, arguments)) == settings


def test_a_queue_that_an_older_program_gave_a_limit_for_having_a_place_has_none() -> None:
    fields = settings_as_stored(QueueSettings(dead_letter_exchange="lost"), ARGUMENTS)
    assert fields["max_receives"] == MAX_RECEIVES_LIMIT, "as that program stored it, so that it reads this too"
    assert settings_from(fields) == QueueSettings(dead_letter_exchange="lost")
