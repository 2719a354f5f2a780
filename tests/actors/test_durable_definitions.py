"""Exchanges and bindings are found again exactly as they were answered, whenever a process dies; older programs refuse them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import DiskBehindError, StorageError
from actors.exchanges.exchanges import Exchanges
from actors.exchanges.tables import frozen
from actors.exchanges.vocabulary import (
    Binding,
    Bound,
    Definitive,
    Destination,
    Event,
    Exchange,
    ExchangeDeclared,
    ExchangeDeleted,
    QueueUnbound,
    Unbound,
)
from actors.queue.state.staged import CommittedVersions
from actors.storage import codec, exchange_codec, repair_storage, verify_storage
from actors.storage.durable_definitions import DurableDefinitions, MemoryDefinitions
from actors.storage.exchange_codec import decode_changes, encode_changes
from actors.storage.snapshot import Snapshot, decode_snapshot, encoded
from streams.testkit import run_in_virtual_time
from tests.actors.storage_lives import DATA, Life, in_loop
from tests.examples_tried import tried

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
TIMES = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-5, minutes=-30))]))
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | TEXTS
    | st.binary(max_size=6)
    | TIMES
    | st.decimals(allow_nan=False)
)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
TABLES = st.dictionaries(TEXTS, VALUES, max_size=3)
NUMBERS = st.integers(1, 2**63)
EXCHANGES = st.builds(
    Exchange,
    TEXTS,
    st.sampled_from(["direct", "fanout", "topic", "headers", "x-delayed-message"]),
    st.just(True),
    st.booleans(),
    st.booleans(),
    TABLES,
)
BINDINGS = st.builds(Binding, TEXTS, st.builds(Destination, TEXTS, st.booleans()), TEXTS, TABLES, st.just(True))
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(ExchangeDeclared, NUMBERS, EXCHANGES),
    st.builds(ExchangeDeleted, NUMBERS, TEXTS),
    st.builds(Bound, NUMBERS, BINDINGS),
    st.builds(Unbound, NUMBERS, BINDINGS),
    st.builds(QueueUnbound, NUMBERS, TEXTS),
)


@given(st.lists(EVENTS, max_size=4), st.none() | st.integers(0, 2**32 - 1))
def test_changes_come_back_as_they_were_with_whatever_arguments(events: list[Event], queue: int | None) -> None:
    assert decode_changes(memoryview(encode_changes(events, queue))) == (events, queue)


@given(st.lists(EXCHANGES, max_size=3), st.lists(BINDINGS, max_size=3), NUMBERS)
def test_a_checkpoint_has_them_as_they_were(exchanges: list[Exchange], bindings: list[Binding], number: int) -> None:
    definitive = Definitive(number, tuple(exchanges), tuple(bindings))
    packed = b"".join(exchange_codec.encoded_definitions(definitive))
    assert exchange_codec.decoded_definitions(exchange_codec.unpack(packed)) == definitive


def test_an_argument_that_is_no_number_is_found_again_as_the_same_argument() -> None:
    binding = Binding("a", Destination("q"), "", {"f": float("nan"), "d": Decimal("NaN"), "s": Decimal("1.50")})
    ((back,), _) = decode_changes(encode_changes([Bound(1, binding)]))
    assert isinstance(back, Bound)
    assert frozen(back.binding.arguments) == frozen(binding.arguments)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x90",
        msgpack.packb([[[9, 1, "x"]], None]),
        msgpack.packb([[[0, 1, ["short"]]], None]),
        msgpack.packb([[[2, 1, ["a", "q", False, "k", {"t": msgpack.ExtType(7, b"")}]]], None]),
        msgpack.packb([[[2, 1, ["a", "q", False, "k", {"t": msgpack.ExtType(1, b"never")}]]], None]),
        msgpack.packb([[[2, 1, ["a", "q", False, "k", {"t": msgpack.ExtType(2, b"many")}]]], None]),
    ],
)
def test_a_record_that_is_no_change_is_an_error_of_its_own_kind(payload: bytes) -> None:
    with pytest.raises(StorageError, match="exchanges or bindings cannot be decoded"):
        decode_changes(payload)


class Defined:
    """A life of a storage with three queues, and the exchanges over it."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.queues = {queue.name: queue.number for queue in life.storage.queues}
        self.exchanges = Exchanges(
            lambda name: True if name in self.queues else None, definitions=life.storage.definitions
        )

    def declare(self, name: str, **more: Any) -> int:
        return self.life.storage.change_definitions(self.exchanges.decide.declare(name, **more))

    def bind(self, source: str, destination: str, key: str = "", **more: Any) -> int:
        return self.life.storage.change_definitions(self.exchanges.decide.bind(source, destination, key, **more))

    def delete_queue(self, name: str) -> int:
        events = self.exchanges.decide.queue_deleted(name)
        return self.life.storage.change_definitions(events, self.queues.pop(name))

    def facts(self) -> tuple[Definitive, list[str]]:
        return self.exchanges.snapshot(), sorted(self.queues)


def killed(defined: Defined) -> Defined:
    return Defined(defined.life.killed())


@in_loop
def test_what_was_declared_and_bound_routes_after_a_death_a_checkpoint_and_a_clean_end() -> None:
    defined = Defined(Life())
    defined.declare("orders", kind="topic", arguments={"alternate-exchange": "rest", "since": datetime.now(UTC)})
    defined.declare("rest", kind="fanout", internal=True)
    defined.bind("orders", "a", "eu.#")
    defined.bind("orders", "b", "*.new", arguments={"note": Decimal("1.0")})
    defined.bind("rest", "c")
    defined.life.run()
    facts = defined.facts()
    for _ in range(2):
        for again in (killed(defined), Defined(defined.life.closed())):
            assert again.facts() == facts
            assert again.exchanges.route("orders", ("eu.new",)) == ("a", "b")
            assert again.exchanges.route("orders", ("us",)) == ("c",)
            defined = again
        defined.life.checkpoint()
    defined.life.storage.close()
    assert verify_storage(DATA, defined.life.disk) == []


@in_loop
def test_what_a_restart_forgets_is_not_recorded_and_is_not_found_again() -> None:
    defined = Defined(Life())
    before = defined.life.storage._journal.next_lsn
    assert defined.declare("passing", durable=False) == 0
    assert defined.bind("passing", "a") == 0
    assert defined.life.storage._journal.next_lsn == before
    assert defined.exchanges.route("passing", ("",)) == ("a",)
    again = killed(defined)
    assert again.exchanges.get("passing") is None
    assert again.exchanges.snapshot() == Definitive(0, (), ())


@in_loop
def test_a_queue_goes_with_its_bindings_and_with_what_went_with_them_in_one_record() -> None:
    defined = Defined(Life())
    defined.declare("last", auto_delete=True)
    defined.declare("more")
    defined.bind("last", "a")
    defined.bind("more", "a")
    defined.bind("more", "b")
    before = defined.life.storage._journal.next_lsn
    defined.delete_queue("a")
    assert defined.life.storage._journal.next_lsn == before + 1
    defined.life.run()
    for again in (defined, killed(defined)):
        assert sorted(queue.name for queue in again.life.storage.queues) == ["b", "c"]
        assert again.exchanges.get("last") is None
        assert again.exchanges.route("more", ("",)) == ("b",)
        assert again.facts() == defined.facts()


@in_loop
def test_a_queue_without_bindings_is_deleted_by_the_record_that_it_always_was() -> None:
    defined = Defined(Life())
    defined.life.run()
    with_kinds: list[int] = []
    append = defined.life.storage._journal.append
    defined.life.storage._journal.append = lambda kind, *rest, **more: (  # type: ignore[method-assign]
        with_kinds.append(kind) or append(kind, *rest, **more)
    )
    defined.delete_queue("a")
    assert with_kinds == [codec.QUEUE_DELETED]


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("declare"),
            st.sampled_from("xyz"),
            st.sampled_from(["direct", "topic"]),
            st.booleans(),
            st.booleans(),
        ),
        st.tuples(st.just("delete"), st.sampled_from("xyz")),
        st.tuples(st.just("bind"), st.sampled_from("xyz"), st.sampled_from("abc"), st.sampled_from(["", "k"])),
        st.tuples(st.just("join"), st.sampled_from("xyz"), st.sampled_from("xyz")),
        st.tuples(st.just("unbind"), st.sampled_from("xyz"), st.sampled_from("abc"), st.sampled_from(["", "k"])),
        st.tuples(st.just("drop"), st.sampled_from("abc")),
        st.sampled_from([("commit",), ("checkpoint",), ("close",), ("kill",), ("kill",)]),
    ),
    max_size=40,
)


def carry_out(defined: Defined, step: tuple[Any, ...]) -> None:
    """One step, whatever comes of it."""
    kind, *rest = step
    decide, change = defined.exchanges.decide, defined.life.storage.change_definitions
    if kind == "declare":
        name, what, durable, auto_delete = rest
        if defined.exchanges.get(name) is None:
            change(decide.declare(name, what, durable=durable, auto_delete=auto_delete))
    elif kind == "delete":
        change(decide.delete(rest[0]))
    elif kind == "unbind":
        change(decide.unbind(*rest))
    elif kind == "drop":
        if rest[0] in defined.queues:
            defined.delete_queue(rest[0])
    elif defined.exchanges.get(rest[0]) is not None:
        if kind == "join" and defined.exchanges.get(rest[1]) is not None:
            change(decide.bind(rest[0], rest[1], to_exchange=True))
        elif kind == "bind" and rest[1] in defined.queues:
            change(decide.bind(*rest))


@settings(max_examples=tried(200))
@given(STEPS)
def test_whatever_happened_and_was_answered_is_found_by_every_start_and_nothing_by_half(
    steps: list[tuple[Any, ...]],
) -> None:
    def main() -> None:
        defined = Defined(Life())
        defined.life.run()
        # What every state since the last one that was answered was like, by the number of the journal's next record.
        answered = defined.facts()
        since = [answered]
        for step in steps:
            if step[0] == "kill":
                defined = killed(defined)
                assert defined.facts() in since
                answered, since = defined.facts(), [defined.facts()]
            elif step[0] in {"commit", "checkpoint", "close"}:
                if step[0] == "close":
                    before = defined.facts()
                    defined = Defined(defined.life.closed())
                    assert defined.facts() == before
                elif step[0] == "checkpoint":
                    defined.life.checkpoint()
                else:
                    defined.life.run()
                answered, since = defined.facts(), [defined.facts()]
            else:
                carry_out(defined, step)
                since.append(defined.facts())

    run_in_virtual_time(_awaited(main))


async def _awaited(main: Callable[[], None]) -> None:
    main()


@in_loop
def test_changes_that_repair_has_lost_are_told_and_what_is_left_is_used(caplog: pytest.LogCaptureFixture) -> None:
    defined = Defined(Life())
    for name in ("kept", "lost-one"):
        defined.declare(name)
        defined.life.run()
    defined.bind("kept", "a")
    defined.life.run()
    defined.life.storage._journal.abandon()
    disk = defined.life.disk.restart()
    (name,) = [each for each in disk.names(DATA) if each.endswith(".segment")]
    file = disk.open(DATA / name, write=True)
    content = disk.read(file, disk.size(file), 0)
    disk.write(file, [b"X"], content.find(b"lost-one"))
    disk.sync(file)
    disk.close(file)
    repair_storage(DATA, disk)
    again = Defined(Life(disk))
    assert "1 changes of exchanges and bindings are lost" in caplog.text
    assert again.exchanges.route("kept", ("",)) == ("a",)
    assert again.exchanges.get("lost-one") is None


@in_loop
def test_a_binding_to_a_queue_that_repair_has_lost_is_lost_with_it(caplog: pytest.LogCaptureFixture) -> None:
    defined = Defined(Life())
    defined.declare("kept")
    defined.bind("kept", "a")
    defined.bind("kept", "b")
    del defined.life.storage._contents.queues[defined.queues["a"]]
    assert defined.life.storage._contents.unbind_lost_queues() == 1
    assert defined.exchanges.route("kept", ("",)) == ("b",)


def test_a_checkpoint_without_any_is_written_as_before_and_one_with_some_is_refused_by_older_programs() -> None:
    empty = Snapshot(1, 0, [], CommittedVersions())
    assert msgpack.unpackb(b"".join(encoded(empty)))["version"] == 2
    some = Snapshot(1, 0, [], CommittedVersions())
    some.definitions.apply(ExchangeDeclared(1, Exchange("x", "direct")))
    fields = msgpack.unpackb(b"".join(encoded(some)))
    assert fields["version"] == 4
    assert "map" not in fields
    back = decode_snapshot(b"".join(encoded(some)), lambda _number: None)  # type: ignore[arg-type, return-value]
    assert back.definitions.snapshot() == some.definitions.snapshot()
    # A program from before them knows no such kind of record.
    with pytest.raises(StorageError, match=r"unknown kind 38.*newer version"):
        codec.decode(codec.EXCHANGES_CHANGED, memoryview(encode_changes([ExchangeDeleted(1, "x")])))


@in_loop
def test_a_change_is_refused_while_too_much_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    defined = Defined(Life())
    defined.life.storage._behind = True
    monkeypatch.setattr("actors.storage.storage.MAX_PENDING_BYTES", -1)
    with pytest.raises(DiskBehindError):
        defined.declare("x")
    assert defined.exchanges.get("x") is None
    assert defined.declare("passing", durable=False) == 0


def test_in_memory_they_are_changed_and_nothing_is_recorded() -> None:
    memory: DurableDefinitions = MemoryDefinitions()
    exchanges = Exchanges(lambda _: True, definitions=memory.definitions)
    assert memory.change_definitions(exchanges.decide.declare("x", "fanout")) == 0
    assert memory.change_definitions(exchanges.decide.bind("x", "q")) == 0
    assert exchanges.route("x", ("",)) == ("q",)
    memory.change_definitions(exchanges.decide.queue_deleted("q"), 7)
    assert exchanges.route("x", ("",)) == ()
