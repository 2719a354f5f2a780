"""What every register keeps, whatever it is made of: `RegisterContract` has the tests, and each register brings a `World` for them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from random import Random
from typing import Any, Protocol, TypeVar

import pytest

from actors.replication.document import ClusterDocument, DocumentError, Member
from actors.replication.register import (
    NOTHING,
    Outcome,
    Register,
    RegisterMovedError,
    RegisterUnavailableError,
    SwapUnknownError,
    Versioned,
    outcome_of,
)

T = TypeVar("T")

MOST_TRIES = 100
"""Of a call that may fail: many more than chance takes."""

MEMBERS = {
    name: Member(f"{number:032x}", f"10.0.0.{number}:9182", f"10.0.0.{number}:9183", f"10.0.0.{number}:9184")
    for number, name in enumerate("abc", 1)
}
FIRST = ClusterDocument("c" * 32, 1, "a", MEMBERS, writer="a/first")


class World(Protocol):
    """A register, those who reach it, and what goes wrong on the way."""

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a test in it, with a register that holds nothing."""

    def register(self, name: str) -> Register:
        """The register as one node reaches it; to be called while it runs."""

    def lose_answer(self) -> None:
        """Have the next call be carried out, and its answer lost."""

    def lose_request(self) -> None:
        """Have the next call be sent, and lost."""

    def hold(self) -> None:
        """Have the next call be sent, and arrive only at `release`."""

    async def release(self) -> None:
        """Have what was held arrive, and wait until it has."""

    def refuse(self) -> None:
        """Have nobody find the register, until `heal`."""

    async def heal(self) -> None:
        """Have it found again."""


def after(document: ClusterDocument, writer: str, leader: str = "b") -> ClusterDocument:
    """A document that may follow another."""
    return replace(document, epoch=document.epoch + 1, leader=leader, writer=writer)


async def settled(register: Register, version: int, document: ClusterDocument) -> int | None:
    """Swap as one has to who wants to know: its version where it is what the register holds, None where others have passed it."""
    for _ in range(MOST_TRIES):
        try:
            return await register.swap(version, document)
        except (SwapUnknownError, RegisterMovedError):
            pass
        except RegisterUnavailableError:
            continue
        read = await certain_read(register)
        outcome = outcome_of(version, document, read)
        if outcome is not Outcome.OPEN:
            return read.version if outcome is Outcome.WON else None
    raise AssertionError(f"a swap is open after {MOST_TRIES} tries")


async def certain_read(register: Register) -> Versioned:
    """What it holds, asked until it answers."""
    for _ in range(MOST_TRIES):
        try:
            return await register.read()
        except RegisterUnavailableError:
            continue
    raise AssertionError(f"no answer in {MOST_TRIES} tries")


class RegisterContract:
    """Each test has the fixture ``world``."""

    def test_a_register_holds_nothing_at_first(self, world: World) -> None:
        async def main() -> Versioned:
            return await world.register("a").read()

        assert world.run(main()) == (NOTHING, None)

    def test_what_was_swapped_is_read_by_everybody_at_the_version_that_was_told(self, world: World) -> None:
        async def main() -> None:
            a, b = world.register("a"), world.register("b")
            version = await a.swap(NOTHING, FIRST)
            assert version > NOTHING
            assert await a.read() == await b.read() == (version, FIRST)
            second = after(FIRST, "b/1")
            later = await b.swap(version, second)
            assert later > version
            assert await a.read() == (later, second)

        world.run(main())

    def test_a_swap_from_another_version_changes_nothing_and_says_which_there_is(self, world: World) -> None:
        async def main() -> None:
            a = world.register("a")
            old = await a.swap(NOTHING, FIRST)
            version = await a.swap(old, after(FIRST, "a/1"))
            before = await a.read()
            for wrong in (NOTHING, old, version + 1):
                with pytest.raises(RegisterMovedError) as raised:
                    await a.swap(wrong, after(FIRST, "a/2"))
                assert raised.value.version == version
            assert await a.read() == before

        world.run(main())

    def test_a_swap_from_a_version_of_what_holds_nothing_changes_nothing(self, world: World) -> None:
        async def main() -> None:
            a = world.register("a")
            with pytest.raises(RegisterMovedError) as raised:
                await a.swap(7, FIRST)
            assert raised.value.version == NOTHING
            assert await a.read() == (NOTHING, None)

        world.run(main())

    def test_of_two_swaps_from_one_version_exactly_one_wins(self, world: World) -> None:
        async def main() -> None:
            registers = [world.register(name) for name in "abc"]
            version, document = NOTHING, None
            for turn in range(6):
                wanted = [FIRST if document is None else after(document, f"{name}/{turn}", name) for name in "abc"]
                wanted = [replace(each, writer=f"{name}/{turn}") for name, each in zip("abc", wanted, strict=True)]
                ends = await asyncio.gather(
                    *(each.swap(version, wish) for each, wish in zip(registers, wanted, strict=True)),
                    return_exceptions=True,
                )
                won = [number for number, end in enumerate(ends) if isinstance(end, int)]
                assert len(won) == 1, ends
                version, document = await registers[0].read()
                assert version == ends[won[0]]
                assert document == wanted[won[0]]
                lost = [end for end in ends if not isinstance(end, int)]
                assert all(isinstance(end, RegisterMovedError) and end.version == version for end in lost), ends

        world.run(main())

    def test_a_swap_that_was_carried_out_and_lost_its_answer_is_told_by_reading(self, world: World) -> None:
        async def main() -> None:
            a = world.register("a")
            world.lose_answer()
            with pytest.raises(SwapUnknownError):
                await a.swap(NOTHING, FIRST)
            read = await a.read()
            assert outcome_of(NOTHING, FIRST, read) is Outcome.WON
            assert read.document == FIRST

        world.run(main())

    def test_a_swap_that_failed_and_lost_its_answer_is_told_by_reading(self, world: World) -> None:
        async def main() -> None:
            a, b = world.register("a"), world.register("b")
            await b.swap(NOTHING, FIRST)
            world.lose_answer()
            mine = replace(FIRST, writer="a/2")
            with pytest.raises(SwapUnknownError):
                await a.swap(NOTHING, mine)
            assert outcome_of(NOTHING, mine, await a.read()) is Outcome.PASSED

        world.run(main())

    def test_a_swap_that_never_arrived_is_open_and_is_done_by_swapping_again(self, world: World) -> None:
        async def main() -> None:
            a = world.register("a")
            world.lose_request()
            with pytest.raises(SwapUnknownError):
                await a.swap(NOTHING, FIRST)
            assert outcome_of(NOTHING, FIRST, await a.read()) is Outcome.OPEN
            assert await a.swap(NOTHING, FIRST) == (await a.read()).version

        world.run(main())

    def test_an_open_swap_may_land_late(self, world: World) -> None:
        async def main() -> None:
            a = world.register("a")
            world.hold()
            with pytest.raises(SwapUnknownError):
                await a.swap(NOTHING, FIRST)
            assert outcome_of(NOTHING, FIRST, await a.read()) is Outcome.OPEN
            await world.release()
            assert outcome_of(NOTHING, FIRST, await a.read()) is Outcome.WON

        world.run(main())

    def test_a_swap_that_lands_behind_another_does_nothing(self, world: World) -> None:
        async def main() -> None:
            a, b = world.register("a"), world.register("b")
            version = await b.swap(NOTHING, FIRST)
            mine, other = after(FIRST, "a/1"), after(FIRST, "b/1")
            world.hold()
            with pytest.raises(SwapUnknownError):
                await a.swap(version, mine)
            later = await b.swap(version, other)
            await world.release()
            assert await a.read() == (later, other)
            assert outcome_of(version, mine, await a.read()) is Outcome.PASSED

        world.run(main())

    def test_a_swap_that_was_sent_again_lands_once(self, world: World) -> None:
        async def main() -> None:
            a = world.register("a")
            world.hold()
            with pytest.raises(SwapUnknownError):
                await a.swap(NOTHING, FIRST)
            version = await a.swap(NOTHING, FIRST)
            await world.release()
            assert await a.read() == (version, FIRST)

        world.run(main())

    def test_what_is_not_found_is_unavailable_and_nothing_was_done(self, world: World) -> None:
        async def main() -> None:
            a = world.register("a")
            version = await a.swap(NOTHING, FIRST)
            world.refuse()
            with pytest.raises(RegisterUnavailableError):
                await a.read()
            with pytest.raises(RegisterUnavailableError):
                await a.swap(version, after(FIRST, "a/1"))
            await world.heal()
            assert await a.read() == (version, FIRST)

        world.run(main())

    def test_a_read_without_an_answer_is_unavailable(self, world: World) -> None:
        async def main() -> None:
            a = world.register("a")
            await a.swap(NOTHING, FIRST)
            for lose in (world.lose_answer, world.lose_request):
                lose()
                with pytest.raises(RegisterUnavailableError):
                    await a.read()
            assert (await a.read()).document == FIRST

        world.run(main())

    def test_a_document_that_is_too_large_is_refused_before_anything_is_sent(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("actors.replication.document.MAX_DOCUMENT_BYTES", 100)

        async def main() -> None:
            a = world.register("a")
            with pytest.raises(DocumentError):
                await a.swap(NOTHING, FIRST)
            assert await a.read() == (NOTHING, None)

        world.run(main())


ROUNDS = 5
"""Swaps that each of the swappers tries."""


async def check_chain(world: World, random: Random) -> None:
    """Three nodes read and swap at once, answers and requests lost; what they were told has to be of one chain of documents."""
    won: dict[int, str] = {}
    doubtful: set[int] = set()
    first = world.register("a")
    newest = await settled(first, NOTHING, FIRST) or NOTHING
    assert newest > NOTHING

    async def node(name: str) -> None:
        nonlocal newest
        register = world.register(name)
        for turn in range(ROUNDS):
            seen_before = newest
            try:
                version, document = await register.read()
            except RegisterUnavailableError:
                continue
            # What somebody was told is there is there for all who ask later.
            assert version >= seen_before
            newest = max(newest, version)
            assert document is not None
            wanted = after(document, f"{name}/{turn}", name)
            chance = random.random()
            if chance < 0.2:
                world.lose_answer()
            elif chance < 0.35:
                world.lose_request()
            elif chance < 0.45:
                world.hold()
            mine = await settled(register, version, wanted)
            if mine is None:
                doubtful.add(wanted.epoch)
                continue
            assert wanted.epoch not in won, f"two were told that theirs is epoch {wanted.epoch}"
            won[wanted.epoch] = wanted.writer
            newest = max(newest, mine)

    await asyncio.gather(*(node(name) for name in "abc"))
    await world.release()
    version, last = await certain_read(first)
    assert last is not None
    assert version >= newest
    # Every epoch was written once. One that nobody was told is theirs was passed by others before its writer could read it.
    missing = set(range(2, last.epoch + 1)) - set(won)
    assert missing <= doubtful, (missing, won)
    assert max(won, default=1) <= last.epoch
    if last.epoch in won:
        assert won[last.epoch] == last.writer
