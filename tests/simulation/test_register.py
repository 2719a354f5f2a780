"""The simulated register: it keeps the contract of every register, and what goes wrong on the way is that of its faults."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.replication.document import ClusterDocument
from actors.replication.register import (
    NOTHING,
    Outcome,
    Register,
    RegisterMovedError,
    RegisterUnavailableError,
    SwapUnknownError,
    outcome_of,
)
from streams.testkit import elapse, run_in_virtual_time
from tests.examples_tried import tried
from tests.simulation.loop import SimulatedLoop
from tests.simulation.register import CALL_SECONDS, Fault, RegisterFaults, SimulatedRegister
from tests.simulation.schedule import Schedule
from tests.transport.cluster.register_contract import FIRST, RegisterContract, after, check_chain

T = TypeVar("T")


class SimulatedWorld:
    """A register in virtual time."""

    def __init__(self, faults: RegisterFaults | None = None, seed: int = 0) -> None:
        self._faults = faults
        self._seed = seed
        self.simulated: SimulatedRegister

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        async def with_register() -> T:
            self.simulated = SimulatedRegister(asyncio.get_running_loop(), Random(self._seed), self._faults)
            return await main

        return run_in_virtual_time(with_register())

    def register(self, name: str) -> Register:
        return self.simulated.client(name)

    def lose_answer(self) -> None:
        self.simulated.planned.append(Fault.LOST_ANSWER)

    def lose_request(self) -> None:
        self.simulated.planned.append(Fault.LOST_REQUEST)

    def hold(self) -> None:
        self.simulated.planned.append(Fault.HELD)

    async def release(self) -> None:
        self.simulated.release()
        await elapse(1.0)

    def refuse(self) -> None:
        self.simulated.refuse("a", "b", "c")

    async def heal(self) -> None:
        self.simulated.heal("a", "b", "c")


@pytest.fixture
def world() -> SimulatedWorld:
    return SimulatedWorld()


class TestSimulatedRegister(RegisterContract):
    """In virtual time."""


@given(st.integers(0, 2**32))
@settings(max_examples=tried(150))
def test_swappers_at_once_make_one_chain_whatever_goes_wrong(seed: int) -> None:
    random = Random(seed)
    refused, request, answer, late = (random.choice([0.0, 0.1]) for _ in range(4))
    faults = RegisterFaults(refused, request, answer, late)
    world = SimulatedWorld(faults, seed)
    world.run(check_chain(world, random))
    written = world.simulated.history
    assert [each.document.epoch for each in written] == list(range(1, len(written) + 1))


def check_told(world: SimulatedWorld, random: Random) -> None:
    """What nodes were told of their swaps is what became of them, of all that three of them try at once."""
    told: dict[str, int | type[Exception]] = {}

    async def node(name: str) -> None:
        register = world.register(name)
        for turn in range(8):
            version, document = world.simulated.now
            wanted = after(document, f"{name}/{turn}", name) if document else replace(FIRST, writer=f"{name}/{turn}")
            await elapse(random.random())
            try:
                told[wanted.writer] = await register.swap(version, wanted)
            except (RegisterUnavailableError, RegisterMovedError, SwapUnknownError) as error:
                told[wanted.writer] = type(error)

    async def main() -> None:
        await asyncio.gather(*(node(name) for name in "abc"))
        await elapse(100 * CALL_SECONDS)

    world.run(main())
    written = {each.document.writer: each.version for each in world.simulated.history}
    assert len(written) == len(world.simulated.history), "a swap was carried out twice"
    for writer, what in told.items():
        if isinstance(what, int):
            assert written.get(writer) == what, f"{writer} was told version {what}, and has {written.get(writer)}"
        elif what is not SwapUnknownError:
            assert writer not in written, f"{writer} was told {what.__name__}, and was carried out"


@given(st.integers(0, 2**32))
@settings(max_examples=tried(150))
def test_what_nodes_are_told_of_their_swaps_is_what_became_of_them(seed: int) -> None:
    check_told(SimulatedWorld(RegisterFaults(0.1, 0.1, 0.1, 0.1), seed), Random(seed))


class BrokenWorld(SimulatedWorld):
    """One whose register, or whose clients, break a rule."""

    def __init__(self, rule: str, seed: int) -> None:
        super().__init__(RegisterFaults(0.05, 0.05, 0.1, 0.1, latency=(0.01, 0.5)), seed)
        self._rule = rule

    def register(self, name: str) -> Register:
        simulated = self.simulated
        if self._rule == "it does not compare":
            whole = simulated.compare_and_swap
            simulated.compare_and_swap = lambda name, _, content: whole(name, simulated.now.version, content)  # type: ignore[method-assign]
        client = simulated.client(name)
        swap = client.swap

        async def broken(version: int, document: ClusterDocument) -> int:
            try:
                return await swap(version, document)
            except SwapUnknownError:
                if self._rule == "a lost answer is taken for a refusal":
                    raise RegisterUnavailableError("refused, it seems") from None
                if self._rule == "a lost answer is taken for a success":
                    return simulated.now.version
                if self._rule == "a lost swap is sent again":
                    return await swap(version, document)
                raise

        client.swap = broken  # type: ignore[method-assign]
        return client


def breaks(check: Callable[[SimulatedWorld, Random], object], rule: str) -> bool:
    """Whether a check finds it within some seeds."""
    for seed in range(30):
        try:
            check(BrokenWorld(rule, seed), Random(seed))
        except (AssertionError, RegisterMovedError):
            return True
    return False


def chain(world: SimulatedWorld, random: Random) -> None:
    world.run(check_chain(world, random))


@pytest.mark.parametrize(
    ("check", "rule", "found"),
    [
        (chain, "none", False),
        (check_told, "none", False),
        (chain, "it does not compare", True),
        (check_told, "a lost answer is taken for a refusal", True),
        (check_told, "a lost answer is taken for a success", True),
        (chain, "a lost answer is taken for a success", True),
        # The second of the two finds the version moved, by the first one.
        (check_told, "a lost swap is sent again", True),
    ],
)
def test_a_register_that_breaks_a_rule_is_found(check: Any, rule: str, found: bool) -> None:
    assert breaks(check, rule) is found


def outcomes(seed: int, faults: RegisterFaults, calls: int) -> tuple[Counter[str], list[Any]]:
    """How ``calls`` swaps end, each from what there is, and what was written."""
    world = SimulatedWorld(faults, seed)

    async def main() -> Counter[str]:
        a, counted = world.register("a"), Counter[str]()
        for number in range(calls):
            version, document = world.simulated.now
            wanted = after(document or FIRST, f"a/{number}")
            try:
                await a.swap(version, wanted)
            except (RegisterUnavailableError, SwapUnknownError, RegisterMovedError) as error:
                counted[type(error).__name__] += 1
            else:
                counted["won"] += 1
        await elapse(100 * CALL_SECONDS)
        return counted

    return world.run(main()), world.simulated.history


def test_a_register_without_faults_loses_nothing() -> None:
    counted, written = outcomes(1, RegisterFaults(), 200)
    assert counted == {"won": 200}
    assert len(written) == 200


@pytest.mark.parametrize(
    ("faults", "error", "lands"),
    [
        (RegisterFaults(refused=0.5), "RegisterUnavailableError", False),
        (RegisterFaults(lost_request=0.5), "SwapUnknownError", False),
        (RegisterFaults(lost_answer=0.5), "SwapUnknownError", True),
    ],
)
def test_each_fault_is_as_frequent_as_it_is_told_and_has_its_error(
    faults: RegisterFaults, error: str, lands: bool
) -> None:
    counted, written = outcomes(1, faults, 400)
    assert set(counted) == {"won", error}
    assert 150 < counted[error] < 250
    assert len(written) == counted["won"] + (counted[error] if lands else 0)


def test_what_is_late_lands_when_nobody_waits_any_more_unless_others_were_first() -> None:
    counted, written = outcomes(1, RegisterFaults(late=0.5, latency=(0.1, 1.0)), 400)
    assert counted["SwapUnknownError"] > 100
    # Some were passed by the next swap, and some have landed and had the next one fail.
    assert counted["won"] < len(written) < 400
    assert counted["RegisterMovedError"] > 0


def test_one_seed_is_one_run() -> None:
    faults = RegisterFaults(0.1, 0.1, 0.1, 0.1)
    assert outcomes(7, faults, 100) == outcomes(7, faults, 100)
    assert outcomes(7, faults, 100) != outcomes(8, faults, 100)


def test_a_node_that_is_cut_off_hears_nothing_and_what_it_sent_may_land_when_it_is_healed() -> None:
    landed = 0
    for seed in range(20):
        world = SimulatedWorld(seed=seed)

        async def main(world: SimulatedWorld = world) -> bool:
            a, b = world.register("a"), world.register("b")
            world.simulated.silence("a")
            with pytest.raises(RegisterUnavailableError):
                await a.read()
            with pytest.raises(SwapUnknownError):
                await a.swap(NOTHING, FIRST)
            assert await b.read() == (NOTHING, None)
            world.simulated.heal("a")
            await elapse(1.0)
            return outcome_of(NOTHING, FIRST, await a.read()) is Outcome.WON

        landed += world.run(main())
    assert 0 < landed < 20


def test_a_swap_of_a_node_that_was_killed_meanwhile_lands() -> None:
    loop = SimulatedLoop(Schedule(Random(3), rush=0.2, pause=0.2))
    try:
        register = SimulatedRegister(loop, Random(1))
        dying, living = loop.process("a"), loop.process("b")
        dying.spawn(register.client("a").swap(NOTHING, FIRST))

        async def wait(seconds: float) -> None:
            await elapse(seconds)

        loop.run_until_complete(living.spawn(wait(0.0)))
        loop.kill(dying)
        loop.run_until_complete(living.spawn(wait(1.0)))
        assert register.now.document == FIRST
        assert [each.by for each in register.history] == ["a"]
        assert loop.run_until_complete(living.spawn(register.client("b").read())) == register.now
        loop.abandon_tasks()
    finally:
        loop.close()


def test_a_register_that_forgets_swaps_carries_them_out_tells_nobody_and_is_read(world: SimulatedWorld) -> None:
    async def main() -> None:
        register = world.register("a")
        world.simulated.forgets_swaps = True
        with pytest.raises(SwapUnknownError):
            await register.swap(NOTHING, FIRST)
        version, document = await register.read()
        assert (version, document) == world.simulated.now
        assert document == FIRST
        world.simulated.forgets_swaps = False
        assert await register.swap(version, after(FIRST, "next", "a")) > version

    world.run(main())
