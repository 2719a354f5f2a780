"""The map beside the queues: what is put is there, within limits, after any number of starts. Older programs say that they know none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import DiskBehindError, InvalidRequestError, MapLimitError, StorageError
from actors.queue.state.staged import CommittedVersions
from actors.storage import DurableMap, MemoryMap, Storage, codec, durable_map, snapshot
from actors.storage.durable_map import (
    ENTRY_OVERHEAD_BYTES,
    MAX_KEY_BYTES,
    MAX_MAP_BYTES,
    MAX_VALUE_BYTES,
    EntryPut,
    Sections,
)
from actors.storage.snapshot import Snapshot, decode_snapshot, encoded
from journal import ManualCommitter
from streams.testkit import run_in_virtual_time
from tests.actors.storage_lives import DATA, Life, in_loop
from tests.examples_tried import tried
from tests.fault.disk import SimulatedDisk

NAMES = st.sampled_from(["a", "b", "näme"])
VALUES = st.none() | st.binary(max_size=40)
STEPS = st.lists(
    st.tuples(st.just("put"), NAMES, NAMES, VALUES)
    | st.sampled_from([("commit",), ("checkpoint",), ("close",), ("kill",), ("message",)]),
    max_size=40,
)


def entries_of(of: DurableMap) -> dict[str, dict[str, bytes]]:
    return dict(of.sections)


def stored() -> DurableMap:
    return Life().storage


@pytest.fixture(params=[MemoryMap, stored], ids=["in memory", "stored"])
def fresh(request: pytest.FixtureRequest) -> Callable[[], DurableMap]:
    made: Callable[[], DurableMap] = request.param
    return made


def on_a_loop(test: Callable[[], None]) -> None:
    in_loop(test)()


def test_an_entry_that_was_put_is_read_and_one_that_was_removed_is_not(fresh: Callable[[], DurableMap]) -> None:
    def main() -> None:
        memory = fresh()
        assert memory.get("s", "k") is None
        assert dict(memory.section("s")) == {}
        memory.put("s", "k", b"1")
        memory.put("s", "l", b"")
        memory.put("t", "k", b"2")
        memory.put("s", "k", b"3")
        assert memory.get("s", "k") == b"3"
        assert dict(memory.section("s")) == {"k": b"3", "l": b""}
        memory.put("s", "k", None)
        memory.put("t", "k", None)
        assert entries_of(memory) == {"s": {"l": b""}}
        assert memory.sections.bytes == ENTRY_OVERHEAD_BYTES + 2

    on_a_loop(main)


def test_a_section_that_is_read_cannot_be_changed(fresh: Callable[[], DurableMap]) -> None:
    def main() -> None:
        memory = fresh()
        memory.put("s", "k", b"1")
        for section in ("s", "none"):
            with pytest.raises(TypeError):
                memory.section(section)["k"] = b"2"  # type: ignore[index]

    on_a_loop(main)


@pytest.mark.parametrize("name", ["", " ", "a b", "a\n", "\x1b[1m", "\ud800"])
def test_sections_and_keys_are_names(fresh: Callable[[], DurableMap], name: str) -> None:
    def main() -> None:
        memory = fresh()
        with pytest.raises(InvalidRequestError, match="section"):
            memory.put(name, "k", b"")
        with pytest.raises(InvalidRequestError, match="key"):
            memory.put("s", name, None)
        assert memory.sections.number == 0

    on_a_loop(main)


def test_each_limit_is_refused_by_name_and_nothing_has_happened(
    fresh: Callable[[], DurableMap], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_map, "MAX_SECTION_ENTRIES", 3)
    monkeypatch.setattr(durable_map, "MAX_MAP_BYTES", 3000)

    def main() -> None:
        memory = fresh()
        for key in "abc":
            memory.put("s", key, b"1")
        before = entries_of(memory)
        for section, key, value, said in (
            ("s", "d", b"", "entries of section s: 4 exceed MAX_SECTION_ENTRIES of 3: remove some first"),
            ("t", "k", bytes(2000), f"bytes of the whole map: {3 * 259 + 258 + 2000} exceed MAX_MAP_BYTES of 3000"),
            ("s", "a", bytes(2300), f"bytes of the whole map: {3 * 259 + 2299} exceed MAX_MAP_BYTES of 3000"),
            ("s" * 256, "k", b"", "bytes of a section: 256 exceed MAX_NAME_BYTES of 255"),
            ("t", "ä" * 513, b"", f"bytes of a key: 1026 exceed MAX_KEY_BYTES of {MAX_KEY_BYTES}"),
            (
                "t",
                "k",
                bytes(MAX_VALUE_BYTES + 1),
                f"{MAX_VALUE_BYTES + 1} exceed MAX_VALUE_BYTES of {MAX_VALUE_BYTES}",
            ),
        ):
            with pytest.raises(MapLimitError) as refused:
                memory.put(section, key, value)
            assert said in str(refused.value)
            assert refused.value.code == "limit-exceeded"
        assert entries_of(memory) == before
        memory.put("s", "a", b"2")
        memory.put("s", "b", None)
        memory.put("s", "d", bytes(100))
        assert memory.sections.number == 6

    on_a_loop(main)


def test_values_are_bytes_and_nothing_else(fresh: Callable[[], DurableMap]) -> None:
    def main() -> None:
        memory: Any = fresh()
        with pytest.raises(TypeError, match="a value is bytes, not bytearray"):
            memory.put("s", "k", bytearray(b"1"))

    on_a_loop(main)


def test_a_full_map_takes_less_than_a_tenth_more_in_a_checkpoint_than_its_limit() -> None:
    sections = Sections()
    number = 0
    while True:
        try:
            event = sections.change("s", f"key-{number}", bytes(1000))
        except MapLimitError:
            break
        assert event is not None
        sections.apply(event)
        number += 1
    payload = b"".join(encoded(Snapshot(1, 0, [], CommittedVersions(), sections)))
    assert 0.7 * MAX_MAP_BYTES < len(payload) < 1.1 * MAX_MAP_BYTES


def test_an_answer_comes_when_the_change_is_durable() -> None:
    async def main() -> None:
        life = Life()
        life.run()
        answered = asyncio.ensure_future(life.storage.synced(life.storage.put("s", "k", b"1")))
        # The same again has nothing to record, and is as durable as the first.
        again = asyncio.ensure_future(life.storage.synced(life.storage.put("s", "k", b"1")))
        await asyncio.sleep(0)
        assert not answered.done()
        assert not again.done()
        life.run()
        await asyncio.gather(answered, again)
        assert life.storage.sections.number == 1

    run_in_virtual_time(main())


def test_in_memory_the_answer_comes_at_once() -> None:
    async def main() -> None:
        memory = MemoryMap()
        await memory.synced(memory.put("s", "k", b"1"))
        await memory.synced()
        assert memory.get("s", "k") == b"1"

    run_in_virtual_time(main())


@settings(max_examples=tried(60))
@given(STEPS)
def test_the_map_is_what_was_put_through_checkpoints_and_deaths(steps: list[tuple[Any, ...]]) -> None:
    def main() -> None:
        life = Life()
        model: dict[str, dict[str, bytes]] = {}
        made = 0
        for step in steps:
            match step:
                case ("put", section, key, value):
                    made += value != model.get(section, {}).get(key)
                    life.storage.put(section, key, value)
                    entries = model.setdefault(section, {})
                    entries.pop(key, None)
                    if value is not None:
                        entries[key] = value
                    if not entries:
                        del model[section]
                case ("message",):
                    life.record(0, life.added(0, b"m"))
                case ("commit",):
                    life.run()
                case ("checkpoint",):
                    life.checkpoint()
                case ("close",):
                    life = life.closed()
                case ("kill",):
                    life.run()
                    life = life.killed()
            assert entries_of(life.storage) == model
        life = life.closed()
        assert entries_of(life.storage) == model
        sections = life.storage.sections
        assert sections.number == made
        assert sections.bytes == sum(
            ENTRY_OVERHEAD_BYTES + len(section.encode()) + len(key.encode()) + len(value)
            for section, entries in model.items()
            for key, value in entries.items()
        )

    on_a_loop(main)


@given(st.lists(st.tuples(NAMES, NAMES, VALUES), max_size=20), st.data())
def test_changes_that_are_seen_again_change_nothing(changes: list[tuple[str, str, bytes | None]], data: Any) -> None:
    sections, events = Sections(), []
    for change in changes:
        event = sections.change(*change)
        if event is not None:
            sections.apply(event)
            events.append(event)
    before = dict(sections)
    for event in events[data.draw(st.integers(0, len(events))) :]:
        sections.apply(event)
    assert (dict(sections), sections.number) == (before, len(events))


@in_loop
def test_changes_while_a_checkpoint_is_made_are_in_what_the_next_start_finds() -> None:
    life = Life()
    for number in range(3000):
        life.storage.put("s", f"k{number}", bytes(1000))
    life.storage._checkpoints.make()
    number = 0
    while life.storage._checkpoints._slices is not None:
        life.storage.put("s", f"k{number}", b"new" if number % 2 else None)
        life.storage._checkpoints._advance()
        number += 1
    assert number > 5
    before = entries_of(life.storage)
    life.run()
    life = life.killed()
    assert entries_of(life.storage) == before


@given(st.integers(1, 2**62), NAMES, NAMES, VALUES)
def test_a_change_comes_back_as_it_was(number: int, section: str, key: str, value: bytes | None) -> None:
    event = EntryPut(number, section, key, value)
    assert codec.decode_put(memoryview(codec.encode_put(event))) == event


def test_a_record_that_is_no_change_is_an_error_of_its_own_kind() -> None:
    for broken in (b"", b"\xc1", b"\x91\x01"):
        with pytest.raises(StorageError, match="durable map cannot be decoded"):
            codec.decode_put(memoryview(broken))


# Versions


def test_a_program_from_before_the_map_refuses_its_record_with_a_sentence() -> None:
    # What such a program does with the kinds of records that it does not know.
    with pytest.raises(StorageError, match=rf"unknown kind {codec.ENTRY_PUT}: this directory was written by a newer"):
        codec.decode(codec.ENTRY_PUT, memoryview(codec.encode_put(EntryPut(1, "s", "k", None))))


@in_loop
def test_a_program_from_before_the_map_refuses_its_checkpoint_and_reads_one_of_a_store_that_has_none() -> None:
    life = Life()
    life.record(0, life.added(0, b"m"))
    life = life.closed()
    with pytest.MonkeyPatch.context() as older:
        older.setattr(snapshot, "READABLE", frozenset({1, 2}))
        Storage.open(DATA, files=life.disk.restart())._journal.abandon()
        life.storage.put("s", "k", b"1")
        life.storage.put("s", "k", None)
        life.storage.close()
        with pytest.raises(StorageError, match="a checkpoint of version 3"):
            Storage.open(DATA, files=life.disk.restart())
    again = Storage.open(DATA, files=life.disk.restart(), committer=ManualCommitter())
    assert again.sections.number == 2
    assert entries_of(again) == {}


def test_a_checkpoint_without_a_map_is_read_and_written_as_before() -> None:
    packed = b"".join(encoded(decode_snapshot(_EMPTY, lambda _: None)))  # type: ignore[arg-type,return-value]
    assert msgpack.unpackb(packed) == msgpack.unpackb(_EMPTY)


_EMPTY = msgpack.packb({"version": 2, "store": 7, "next_queue": 0, "queues": [], "writers": [["w", 3]]})


def put_many(memory: DurableMap) -> None:
    for number in range(100):
        memory.put("s", f"k{number}", bytes(500))


def test_a_change_is_refused_while_too_much_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.storage.storage.MAX_PENDING_BYTES", 2000)
    monkeypatch.setattr("actors.storage.storage.PENDING_HIGH_BYTES", 1000)

    def main() -> None:
        life = Life(SimulatedDisk())
        told: list[bool] = []
        life.storage.on_behind = told.append
        with pytest.raises(DiskBehindError, match="this is not stored"):
            put_many(life.storage)
        before = life.storage.sections.number
        assert told == [True]
        life.run()
        life.storage.put("s", "k", b"1")
        assert life.storage.sections.number == before + 1

    on_a_loop(main)
