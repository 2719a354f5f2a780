"""The register in an etcd of three processes, of which one is killed or stands still: its leader, or another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from actors.replication.document import ClusterDocument
from actors.replication.register import (
    NOTHING,
    RegisterMovedError,
    RegisterUnavailableError,
    SwapUnknownError,
    Versioned,
)
from tests.transport.cluster.etcds import Etcds
from tests.transport.cluster.register_contract import FIRST, MOST_TRIES, after, certain_read, settled
from transport.cluster.etcd import EtcdRegister

TURNS = 4
"""Swaps that each of three nodes tries while one of the processes is away."""


@pytest.fixture(scope="module")
def etcds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcds]:
    running = Etcds(tmp_path_factory.mktemp("etcds"))
    yield running
    running.close()


@pytest.fixture
def whole(etcds: Etcds) -> Iterator[Etcds]:
    """All three, which go on or are started again behind the test."""
    yield etcds
    for each in etcds.by_name.values():
        each.go_on()
        if each.process.poll() is not None:
            each.start()
            each.wait_until_ready()


def others(etcds: Etcds, name: str) -> list[str]:
    return [each for each in etcds.by_name if each != name]


async def swap_in_turns(registers: dict[str, EtcdRegister], strike: Callable[[], None]) -> list[int]:
    """Have each node put its name into the document again and again; the versions that they were told are theirs, in order.

    At the second of these it strikes, while others are under way.
    """
    told: list[int] = []

    async def node(name: str, register: EtcdRegister) -> None:
        for turn in range(TURNS):
            before = max(told, default=NOTHING)
            version, document = await certain_read(register)
            assert version >= before, "an older document was read than somebody was told of"
            assert document is not None
            mine = await settled(register, version, after(document, f"{name}/{turn}", name))
            if mine is not None:
                told.append(mine)
                if len(told) == 2:
                    strike()

    await asyncio.gather(*(node(name, register) for name, register in registers.items()))
    return told


@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("role", ["leader", "follower"])
def test_swaps_go_on_in_one_chain_while_one_of_three_is_away(whole: Etcds, role: str, how: str) -> None:
    leader = whole.leader()
    away = leader if role == "leader" else others(whole, leader)[0]
    # Whoever is away is whom everybody asks first.
    order = [away, *others(whole, away)]
    address = whole.address(f"{role}-{how}", order)

    async def main() -> None:
        registers = {name: EtcdRegister(address) for name in "abc"}
        await settled(registers["a"], NOTHING, FIRST)
        told = await swap_in_turns(registers, whole.by_name[away].kill if how == "killed" else whole.by_name[away].stop)
        assert len(told) == len(set(told))
        version, document = await certain_read(registers["a"])
        assert version >= max(told)
        assert document is not None
        # Each that was told of its version has written an epoch of its own.
        assert len(told) + 1 <= document.epoch <= 3 * TURNS + 1

    asyncio.run(main())


def test_without_half_of_them_and_one_nothing_is_done_and_nothing_is_claimed(whole: Etcds) -> None:
    address = whole.address("minority")
    wanted = after(FIRST, "a/1")

    async def main() -> None:
        register = EtcdRegister(address, answer_seconds=0.3, call_seconds=1.0)
        patient = EtcdRegister(address)
        version = await settled(patient, NOTHING, FIRST)
        assert version is not None
        for name in ("b", "c"):
            whole.by_name[name].stop()
        with pytest.raises(RegisterUnavailableError):
            await register.read()
        with pytest.raises((RegisterUnavailableError, SwapUnknownError)):
            await register.swap(version, wanted)
        for name in ("b", "c"):
            whole.by_name[name].go_on()
        read = await certain_read(patient)
        assert read.document in (FIRST, wanted)
        assert await settled(patient, version, wanted) is not None

    asyncio.run(main())


def test_a_leader_that_stood_still_answers_with_nothing_old(whole: Etcds) -> None:
    leader = whole.leader()
    only_it = whole.address("stood-still", [leader])
    without_it = whole.address("stood-still", others(whole, leader))

    async def main() -> None:
        register, alone = EtcdRegister(without_it), EtcdRegister(only_it)
        version = await settled(register, NOTHING, FIRST)
        assert version is not None
        whole.by_name[leader].stop()
        later = await settled(register, version, after(FIRST, "a/1"))
        assert later is not None
        reading = [asyncio.ensure_future(read_if_possible(alone)) for _ in range(5)]
        await asyncio.sleep(0)
        whole.by_name[leader].go_on()
        # It believes that it leads still, until it hears of the others.
        for each in await asyncio.gather(*reading):
            assert each is None or each.version == later
        with pytest.raises(RegisterMovedError):
            await swap_until_answered(alone, version, replace(FIRST, writer="b/1"))

    asyncio.run(main())


async def read_if_possible(register: EtcdRegister) -> Versioned | None:
    try:
        return await register.read()
    except RegisterUnavailableError:
        return None


async def swap_until_answered(register: EtcdRegister, version: int, document: ClusterDocument) -> int:
    for _ in range(MOST_TRIES):
        try:
            return await register.swap(version, document)
        except (RegisterUnavailableError, SwapUnknownError):
            continue
    raise AssertionError(f"no answer in {MOST_TRIES} tries")
