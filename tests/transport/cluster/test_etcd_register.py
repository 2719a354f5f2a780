"""The register in a real etcd, behind a place where requests and answers are lost: it keeps the contract of every register."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.replication.document import DocumentError
from actors.replication.register import (
    NOTHING,
    Outcome,
    Register,
    RegisterMovedError,
    RegisterUnavailableError,
    SwapUnknownError,
    outcome_of,
)
from tests.examples_tried import tried
from tests.transport.cluster.etcds import Etcds, post, put
from tests.transport.cluster.fault_proxy import Fate, FaultProxy
from tests.transport.cluster.register_contract import FIRST, MOST_TRIES, RegisterContract, after, check_chain
from transport.cluster.addresses import EtcdAddress
from transport.cluster.etcd import EtcdRegister
from transport.wire.address import Address

T = TypeVar("T")

CLUSTERS = itertools.count()
ANSWER_SECONDS = 5.0
"""The machine is shared: no test waits for it but where nothing answers."""


class EtcdWorld:
    """One etcd behind a `FaultProxy`."""

    def __init__(self, etcd: Etcds) -> None:
        self.target = etcd.machines["a"].own.clients
        self.name = ""
        self.proxy: FaultProxy

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        async def with_proxy() -> T:
            self.name = f"test-{next(CLUSTERS)}"
            self.proxy = FaultProxy(self.target)
            await self.proxy.listen()
            try:
                return await main
            finally:
                await self.proxy.close()

        return asyncio.run(with_proxy())

    def register(self, name: str) -> Register:
        return self.at(self.proxy.address)

    def at(self, *endpoints: Address, seconds: float = ANSWER_SECONDS) -> EtcdRegister:
        address = EtcdAddress(self.name, endpoints)
        return EtcdRegister(address, read_seconds=seconds, swap_seconds=seconds, call_seconds=3 * seconds)

    def lose_answer(self) -> None:
        self.proxy.planned.append(Fate.LOSE_ANSWER)

    def lose_request(self) -> None:
        self.proxy.planned.append(Fate.LOSE_REQUEST)

    def hold(self) -> None:
        self.proxy.planned.append(Fate.HOLD)

    async def release(self) -> None:
        await self.proxy.release()

    def refuse(self) -> None:
        self._refusing = asyncio.ensure_future(self.proxy.refuse())

    async def heal(self) -> None:
        await self._refusing
        await self.proxy.listen()


@pytest.fixture
def world(etcd: Etcds) -> EtcdWorld:
    return EtcdWorld(etcd)


class TestEtcdRegister(RegisterContract):
    """Over sockets."""


@given(seed=st.integers(0, 2**32))
@settings(max_examples=tried(30))
def test_swappers_at_once_make_one_chain_whatever_goes_wrong(etcd: Etcds, seed: int) -> None:
    world = EtcdWorld(etcd)
    world.run(check_chain(world, Random(seed)))


@pytest.mark.event_loop
@pytest.mark.parametrize("fate", [Fate.STALL, Fate.HALF_AN_ANSWER, Fate.LOSE_ANSWER])
def test_a_connection_that_fails_behind_the_request_leaves_a_swap_in_doubt_that_was_carried_out(
    world: EtcdWorld, fate: Fate
) -> None:
    async def main() -> Outcome:
        seconds = 0.3 if fate is Fate.STALL else ANSWER_SECONDS
        # The second endpoint would do it again, which nobody may try.
        a = world.at(world.proxy.address, world.target, seconds=seconds)
        world.proxy.planned.append(fate)
        with pytest.raises(SwapUnknownError):
            await a.swap(NOTHING, FIRST)
        # On a busy machine it may be carried out behind the time for its answer.
        for _ in range(MOST_TRIES):
            outcome = outcome_of(NOTHING, FIRST, await world.at(world.target).read())
            if outcome is Outcome.WON:
                break
        return outcome

    assert world.run(main()) is Outcome.WON


def test_a_read_goes_on_to_the_next_endpoint_whatever_happens(world: EtcdWorld) -> None:
    async def main() -> None:
        for fate in (Fate.LOSE_REQUEST, Fate.LOSE_ANSWER, Fate.HALF_AN_ANSWER):
            a = world.at(world.proxy.address, world.target)
            world.proxy.planned.append(fate)
            assert await a.read() == (NOTHING, None)
            before = world.proxy.connections
            # The one that has answered is asked first from then on.
            await a.read()
            assert world.proxy.connections == before

    world.run(main())


def test_a_swap_goes_on_to_the_next_endpoint_where_nobody_listens(world: EtcdWorld) -> None:
    async def main() -> None:
        address = world.proxy.address
        await world.proxy.refuse()
        version = await world.at(address, world.target).swap(NOTHING, FIRST)
        assert await world.at(world.target).read() == (version, FIRST)

    world.run(main())


@pytest.mark.event_loop
def test_an_endpoint_that_is_not_heard_of_is_given_up_in_time(world: EtcdWorld) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        a = world.at(world.proxy.address, seconds=0.2)
        world.proxy.planned.extend([Fate.STALL, Fate.STALL])
        began = loop.time()
        with pytest.raises(RegisterUnavailableError, match=r"127.0.0.1:\d+: no answer within 0.2 s"):
            await a.read()
        with pytest.raises(SwapUnknownError, match=r"has lost its answer: 127.0.0.1:\d+: no answer within 0.2 s"):
            await a.swap(NOTHING, FIRST)
        assert loop.time() - began >= 0.4

    world.run(main())


def test_what_is_no_document_is_told(world: EtcdWorld) -> None:
    async def main() -> None:
        put(world.target, f"/penstock/{world.name}/cluster", b"{}")
        with pytest.raises(DocumentError, match="the document has no version"):
            await world.register("a").read()

    world.run(main())


def test_a_document_that_was_deleted_and_written_again_has_another_version(world: EtcdWorld) -> None:
    async def main() -> None:
        a = world.register("a")
        version = await a.swap(NOTHING, FIRST)
        key = EtcdAddress(world.name, (world.target,)).key
        import base64

        post(world.target, "/v3/kv/deleterange", {"key": base64.b64encode(key.encode()).decode()})
        assert await a.read() == (NOTHING, None)
        with pytest.raises(RegisterMovedError):
            await a.swap(version, after(FIRST, "a/1"))
        assert await a.swap(NOTHING, FIRST) > version
        with pytest.raises(RegisterMovedError):
            await a.swap(version, after(FIRST, "a/2"))

    world.run(main())


def test_clusters_of_other_names_lie_beside_one_another(world: EtcdWorld) -> None:
    async def main() -> None:
        await world.register("a").swap(NOTHING, FIRST)
        world.name += "-other"
        assert await world.register("a").read() == (NOTHING, None)

    world.run(main())
