"""Events survive the way to the journal and back."""

from __future__ import annotations

from dataclasses import fields, make_dataclass, replace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import Message, MessageBatch
from actors.errors import StorageError
from actors.queue.state.subscriptions import Ledger
from actors.queue.vocabulary.events import (
    Event,
    LedgerAdvanced,
    LedgerExtended,
    MessagesAcknowledged,
    MessagesAdded,
    MessagesDropped,
    MessagesExpired,
    MessagesMoved,
    MessagesReturned,
    QueuePurged,
    ReservedRange,
    StagesDiscarded,
    StagesEnded,
    SubscriptionDeleted,
    SubscriptionLeft,
    SubscriptionOwned,
    SubscriptionReleased,
)
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey
from actors.storage import codec, settings_codec
from actors.storage.settings_codec import WITHOUT_LIMIT, settings_as_stored, settings_from

NUMBERS = st.integers(0, 2**62)
RANGES = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5).map(tuple)
NAMES = st.text(min_size=1, max_size=20)
STAGES = st.lists(st.builds(StageKey, NAMES, NUMBERS, NAMES), max_size=3).map(tuple)
MESSAGES = st.builds(
    Message,
    st.binary(max_size=40),
    st.none() | st.binary(min_size=1, max_size=8),
    st.none()
    | st.dictionaries(
        st.text(min_size=1, max_size=5), st.text(max_size=5) | st.binary(max_size=5), min_size=1, max_size=3
    ),
)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(MessagesAcknowledged, RANGES),
    st.builds(MessagesReturned, st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=4).map(tuple)),
    st.builds(MessagesExpired, RANGES),
    st.builds(MessagesDropped, RANGES),
    st.builds(MessagesMoved, RANGES),
    st.builds(QueuePurged, RANGES),
    st.builds(SubscriptionOwned, NAMES, NUMBERS, NUMBERS, st.none() | st.floats(0, 1e6), NUMBERS),
    st.builds(
        LedgerExtended,
        NAMES,
        NUMBERS,
        st.lists(st.builds(ReservedRange, NUMBERS, NUMBERS, NUMBERS, st.booleans()), min_size=1, max_size=4).map(tuple),
    ),
    st.builds(LedgerAdvanced, NAMES, NUMBERS),
    st.builds(SubscriptionReleased, NAMES, NUMBERS),
    st.builds(SubscriptionDeleted, NAMES, NUMBERS, NUMBERS),
    st.builds(SubscriptionLeft, NAMES, NUMBERS, NUMBERS),
    st.builds(StagesDiscarded, STAGES, NUMBERS),
    st.builds(StagesEnded, STAGES, STAGES, NUMBERS),
)


@given(st.integers(0, 2**32 - 1), EVENTS)
def test_every_event_comes_back_as_it_was(queue: int, event: Event) -> None:
    kind, payload = codec.encode(queue, event)
    assert codec.decode(kind, memoryview(payload)) == (queue, event)


def test_the_opening_of_an_older_journal_is_read() -> None:
    payload = msgpack.packb([3, "sub", 2, 0, None])
    assert codec.decode(codec.OPENED, memoryview(payload)) == (3, SubscriptionOwned("sub", 2, 0, None))


@given(
    st.lists(MESSAGES, min_size=1, max_size=8),
    st.booleans(),
    NUMBERS,
    st.integers(0, 10**9),
    st.none() | st.integers(1, 10**12),
    st.lists(st.tuples(NAMES, NUMBERS), max_size=3).map(tuple),
    st.none() | st.tuples(NUMBERS, st.builds(MessagesMoved, RANGES)),
    st.data(),
)
def test_a_stored_batch_comes_back_as_it_was_whatever_part_of_a_larger_one_it_is(
    messages: list[Message],
    ids: bool,
    wall: int,
    delay: int,
    ttl: int | None,
    producers: tuple[tuple[str, int], ...],
    moved: tuple[int, MessagesMoved] | None,
    data: st.DataObject,
) -> None:
    if ids:
        messages = [
            Message(m.payload, m.key, m.headers, bytes([0xAF, 0xFE, n]) + bytes(13)) for n, m in enumerate(messages)
        ]
    whole = MessageBatch.from_messages(messages)
    start = data.draw(st.integers(0, len(whole) - 1))
    batch = whole.slice(start, data.draw(st.integers(start + 1, len(whole))))
    event = MessagesAdded(5, batch, wall, producers, delay, ttl)
    payload = memoryview(b"".join(codec.encode_added(event, *(moved or ()))))
    back = codec.decode_added(5, len(batch), payload)
    assert back == event
    assert codec.decode_stored(5, len(batch), payload) == (event, moved)
    assert back.batch.ids == batch.ids


@pytest.mark.parametrize("limits", [(None, 5), (7, None), (None, None)])
def test_that_a_limit_is_none_comes_back_and_an_older_program_refuses_it(limits: tuple[int | None, int | None]) -> None:
    settings = QueueSettings(*limits)
    payload = codec.encode_declared(3, "q", settings)
    assert codec.decode_declared(memoryview(payload)) == (3, "q", settings, b"")
    with pytest.raises(TypeError, match="without_limit"):
        QueueSettings(**settings_as_stored(settings))  # as a program from before reads it


def test_a_limit_that_this_program_does_not_know_is_refused() -> None:
    fields = settings_as_stored(QueueSettings()) | {WITHOUT_LIMIT: ["max_consumers"]}
    with pytest.raises(StorageError, match="newer version"):
        codec.decode_declared(memoryview(msgpack.packb([3, "q", fields])))


def test_a_record_of_a_newer_version_is_refused_and_not_skipped() -> None:
    with pytest.raises(StorageError, match=r"unknown kind 200.*newer version"):
        codec.decode(200, memoryview(b"\x90"))
    newer = codec.encode_declared(1, "q", None)[:-1] + b"\x81\xa5color\xa3red"
    with pytest.raises(StorageError, match="color"):
        codec.decode_declared(memoryview(newer))


def test_what_is_no_event_is_an_error_of_its_own_kind() -> None:
    for broken in (b"", b"\xc1", b"\x91\x01", b"\x92\x01\xa1x"):
        with pytest.raises(StorageError, match="cannot be decoded"):
            codec.decode(codec.ACKNOWLEDGED, memoryview(broken))
    with pytest.raises(StorageError, match="messages 3 to 4 cannot be decoded"):
        codec.decode_added(3, 2, memoryview(b"\x01\x00\x90"))


@given(st.booleans(), st.integers(1, 10**9), st.booleans())
def test_a_declaration_comes_back_as_it_was(exclusive: bool, messages: int, durable: bool) -> None:
    settings = QueueSettings(messages, 5, 2.5, "reject", 3, "elsewhere", 1.5, 60.0, exclusive, durable=durable)
    assert codec.decode_declared(memoryview(codec.encode_declared(7, "näme", settings))) == (7, "näme", settings, b"")
    assert codec.decode_declared(memoryview(codec.encode_declared(7, "q", None))) == (7, "q", None, b"")


def test_what_an_older_version_refuses_is_stored_only_where_it_says_something() -> None:
    plain, expiring, transient = QueueSettings(), QueueSettings(subscription_expiry=5.0), QueueSettings(durable=False)
    to_exchange = QueueSettings(ttl=1.0, dead_letter_exchange="x")
    newer = {"subscription_expiry", "durable", "dead_letter_exchange", "dead_letter_routing_key", "expires"}
    newer |= {"single_active_consumer"}
    passing, single = QueueSettings(expires=0.5), QueueSettings(single_active_consumer=True)
    assert not newer & settings_as_stored(plain).keys()
    assert newer & settings_as_stored(to_exchange).keys() == {"dead_letter_exchange"}
    assert settings_as_stored(transient)["durable"] is False
    for settings in (
        plain,
        expiring,
        transient,
        to_exchange,
        replace(to_exchange, dead_letter_routing_key="k"),
        passing,
        single,
    ):
        assert settings_from(settings_as_stored(settings)) == settings


def test_an_older_program_refuses_a_queue_whose_dead_letters_go_to_an_exchange_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newer = ("dead_letter_exchange", "dead_letter_routing_key", "expires", "single_active_consumer")
    known = [(one.name, one.type, one.default) for one in fields(QueueSettings) if one.name not in newer]
    declared = {
        name: memoryview(codec.encode_declared(7, name, settings))
        for name, settings in (
            ("plain", QueueSettings(ttl=1.0, dead_letter_queue="d")),
            ("new", QueueSettings(ttl=1.0, dead_letter_exchange="x")),
            ("passing", QueueSettings(expires=1.0)),
            ("single", QueueSettings(single_active_consumer=True)),
        )
    }
    monkeypatch.setattr(settings_codec, "QueueSettings", make_dataclass("Older", known))
    assert codec.decode_declared(declared["plain"])[1] == "plain"
    with pytest.raises(StorageError, match=r"a queue's declaration cannot be decoded: .*'dead_letter_exchange'"):
        codec.decode_declared(declared["new"])
    with pytest.raises(StorageError, match=r"a queue's declaration cannot be decoded: .*'expires'"):
        codec.decode_declared(declared["passing"])
    with pytest.raises(StorageError, match=r"a queue's declaration cannot be decoded: .*'single_active_consumer'"):
        codec.decode_declared(declared["single"])


def test_a_ledger_of_a_checkpoint_from_before_says_less() -> None:
    for times in ([], [7], [7, 8]):
        ledger = Ledger.restored(["s", 3, 5, 0, None, [[5, 6, 1, False]], *times])
        assert (ledger.opened_us, ledger.left_us) == (*times, 0, 0)[:2]
