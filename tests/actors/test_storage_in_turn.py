"""Events of queues in turn are one record that says all of them, any number of each queue's, and what it says is read again."""

from __future__ import annotations

import msgpack
import pytest

from actors.errors import StorageError, TooMuchTogetherError
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesReturned, StagesEnded
from actors.queue.vocabulary.settings import REJECTED_FAILURES
from actors.queue.vocabulary.stages import PASSING, StageKey
from actors.storage import codec, together
from actors.storage.together import decode_in_turn, encode_in_turn

KEY = StageKey(PASSING + "abc", 7, "0")
EVENTS = [
    (3, StagesEnded((KEY,), (), 12)),
    (3, MessagesAcknowledged(((0, 4), (6, 7)))),
    (3, MessagesReturned(((4, 6, REJECTED_FAILURES),))),
    (1, MessagesAcknowledged(((9, 10),))),
]


def test_what_is_read_is_what_was_said_in_order() -> None:
    encoded = encode_in_turn(EVENTS)
    assert encoded.kind == codec.IN_TURN
    assert decode_in_turn(memoryview(encoded.other)) == EVENTS


@pytest.mark.parametrize(
    "payload", [b"", b"\xc0", msgpack.packb([[1]]), msgpack.packb([[2, b"\x91\x01"]]), b"\x91\x01"]
)
def test_a_record_that_is_none_is_refused(payload: bytes) -> None:
    with pytest.raises(StorageError, match="cannot be decoded"):
        decode_in_turn(memoryview(payload))


def test_an_event_of_a_newer_version_is_refused() -> None:
    with pytest.raises(StorageError, match="unknown kind 250: this directory was written by a newer version"):
        decode_in_turn(memoryview(msgpack.packb([[250, b""]])))


def test_a_record_has_a_limit_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "MAX_TOGETHER_BYTES", 20)
    with pytest.raises(TooMuchTogetherError, match="bytes in one record exceed 20"):
        encode_in_turn(EVENTS)


def test_only_a_writer_that_no_client_can_name_has_passing_stages() -> None:
    assert KEY.passing
    assert not StageKey("passing", 0, "0").passing
    assert " " in PASSING
