"""Receipts: each names one delivery of one message, in one queue and one life of a broker, and nobody makes one up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.storage.durable_map import MemoryMap
from transport import Broker, BrokerConfig
from transport.broker.served import RefusalError
from transport.gateways.http.receipts import FOREIGN, INVALID, STALE, TEXT_CHARACTERS, Receipts, Taken

ALPHABET = ascii_letters + digits + "-_"
RECEIPTS = Receipts(bytes(range(32)), 7)
U64 = st.integers(0, 2**63 - 1)


def code_of(text: str, queue: int = 3, receipts: Receipts = RECEIPTS) -> str:
    with pytest.raises(RefusalError) as told:
        receipts.read(text, queue, "orders")
    return told.value.code


@pytest.mark.hypothesis
@given(U64, U64, st.integers(0, 2**32 - 1))
def test_a_receipt_names_what_it_was_made_for(queue: int, number: int, delivery: int) -> None:
    text = RECEIPTS.make(queue, number, delivery)
    assert len(text) == TEXT_CHARACTERS
    assert RECEIPTS.read(text, queue, "orders") == Taken(number, delivery)


def test_a_receipt_with_any_character_changed_is_none() -> None:
    text = next(text for number in range(1000) if {"-", "_"} <= set(text := RECEIPTS.make(3, number, 1)))
    for place in range(len(text)):
        for other in ALPHABET + "+/=\n":
            if other != text[place]:
                assert code_of(text[:place] + other + text[place + 1 :]) == INVALID


@pytest.mark.hypothesis
@given(st.text(max_size=80) | st.text(ALPHABET + "=+/\n", min_size=56, max_size=56))
def test_no_other_text_is_a_receipt(text: str) -> None:
    assert code_of(text) == INVALID


@pytest.mark.parametrize("added", ["\n", "=", "==", " ", "A", "\x00"])
def test_what_base64_passes_over_makes_no_second_text_for_a_receipt(added: str) -> None:
    text = RECEIPTS.make(3, 41, 1)
    for other in (text + added, added + text, text[:20] + added + text[20:], text[:-1], ""):
        assert code_of(other) == INVALID


def test_another_queue_another_life_and_another_broker_are_told_apart() -> None:
    text = RECEIPTS.make(3, 41, 1)
    assert code_of(text, queue=4) == FOREIGN
    assert code_of(text, receipts=Receipts(bytes(range(32)), 8)) == STALE
    assert code_of(text, receipts=Receipts(bytes(32), 7)) == INVALID


def test_a_key_is_made_once_and_kept(tmp_path: Path) -> None:
    async def main() -> None:
        made = []
        for _ in range(2):
            async with Broker(BrokerConfig("127.0.0.1:0", "127.0.0.1:0", directory=str(tmp_path))) as broker:
                receipts = await Receipts.of(broker.memory, broker.epoch)
                made.append((receipts, receipts.make(3, 41, 1)))
        (before, old), (now, new) = made
        assert now.read(new, 3, "orders") == Taken(41, 1)
        assert code_of(old, receipts=now) == STALE
        assert before.read(old, 3, "orders") == Taken(41, 1)

    asyncio.run(main())


def test_brokers_in_memory_have_keys_of_their_own() -> None:
    async def main() -> None:
        one, other = [await Receipts.of(MemoryMap(), 7) for _ in range(2)]
        assert code_of(one.make(3, 41, 1), receipts=other) == INVALID

    asyncio.run(main())
