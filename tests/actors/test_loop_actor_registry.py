"""The registry of loop actors: look-ups, order of stopping, and a cost that does not grow with the number of actors."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pykka
import pytest

from actors.errors import BlockingCallOnLoopError
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_ref import LoopActorRef
from actors.runtime.loop_registry import LoopActorRegistry


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def with_deadline() -> None:
        async with asyncio.timeout(60):
            await scenario
        await LoopActorRegistry.shutdown()

    asyncio.run(with_deadline())


class Named(LoopActor):
    def __init__(self, name: Any = None, stopped: list[Any] | None = None) -> None:
        super().__init__()
        self.name = name
        self.stopped: list[Any] = [] if stopped is None else stopped

    def on_stop(self) -> None:
        self.stopped.append(self.name)


class Special(Named):
    pass


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A one-element count of how often two refs are compared, whoever does it."""
    count = [0]

    def equal(self: object, other: object) -> bool:
        count[0] += 1
        return self is other

    monkeypatch.setattr(pykka.ActorRef, "__eq__", equal)
    monkeypatch.setattr(pykka.ActorRef, "__hash__", object.__hash__)
    return count


def test_running_actors_are_found_by_class_and_urn_until_they_stop() -> None:
    async def scenario() -> None:
        named, special = Named.start(), Special.start()
        assert LoopActorRegistry.get_all() == [named, special]
        assert LoopActorRegistry.get_all(asyncio.get_running_loop()) == [named, special]
        assert LoopActorRegistry.get_by_class(Named) == [named, special]
        assert LoopActorRegistry.get_by_class(Special) == [special]
        assert LoopActorRegistry.get_by_urn(named.actor_urn) is named
        await named.stop(block=False)
        assert LoopActorRegistry.get_all() == [special]
        assert LoopActorRegistry.get_by_urn(named.actor_urn) is None
        LoopActorRegistry.unregister(named)
        assert LoopActorRegistry.get_all() == [special]

    run(scenario())
    assert LoopActorRegistry._refs == {}


def test_pykkas_registry_does_not_know_loop_actors() -> None:
    async def scenario() -> None:
        ref = Named.start()
        assert ref not in pykka.ActorRegistry.get_all()
        assert pykka.ActorRegistry.stop_all(block=False) == []
        assert ref.is_alive()

    run(scenario())


def test_stop_all_asks_every_actor_last_started_first() -> None:
    async def scenario() -> None:
        stopped: list[int] = []
        for number in range(5):
            Named.start(number, stopped)
        futures = LoopActorRegistry.stop_all(block=False)
        assert [await future for future in futures] == [True] * 5
        assert sorted(stopped) == [0, 1, 2, 3, 4]
        assert LoopActorRegistry.get_all() == []

    run(scenario())


def test_stop_all_that_would_block_the_loop_is_refused() -> None:
    async def scenario() -> None:
        ref = Named.start()
        with pytest.raises(BlockingCallOnLoopError):
            LoopActorRegistry.stop_all()
        assert ref.is_alive()

    run(scenario())


def test_stop_all_from_another_thread_waits_for_each() -> None:
    async def scenario() -> None:
        stopped: list[int] = []
        for number in range(5):
            Named.start(number, stopped)
        in_thread = asyncio.get_running_loop().run_in_executor(None, lambda: LoopActorRegistry.stop_all(timeout=30))
        assert await in_thread == [True] * 5
        assert stopped == [4, 3, 2, 1, 0]

    run(scenario())


def test_shutdown_stops_last_started_first_one_after_the_other() -> None:
    async def scenario() -> None:
        stopped: list[int] = []
        for number in range(5):
            Named.start(number, stopped)
        assert await LoopActorRegistry.shutdown() == 5
        assert stopped == [4, 3, 2, 1, 0]
        assert await LoopActorRegistry.shutdown() == 0

    run(scenario())


def test_shutdown_names_the_actor_that_is_late() -> None:
    class Busy(LoopActor):
        def on_receive(self, message: Any) -> None:
            if not relieved:
                # Stops are handled in turn, so one that keeps its drain full for ever is never reached by one.
                self.actor_inbox.queue.appendleft(message)

    relieved: list[bool] = []

    async def scenario() -> None:
        Named.start()
        busy = Busy.start()
        busy.tell("again")
        with pytest.raises(TimeoutError, match=r"Busy \(urn.* and 1 more did not stop within 0\.01 s"):
            await LoopActorRegistry.shutdown(timeout=0.01)
        relieved.append(True)

    run(scenario())


def test_stopping_five_thousand_actors_compares_no_refs(comparisons: list[int]) -> None:
    async def scenario() -> None:
        refs = [Named.start(number) for number in range(5000)]
        await refs[-1].ask("started", block=False)
        futures = [ref.stop(block=False) for ref in refs]
        assert all([await future for future in futures])
        assert LoopActorRegistry.get_by_class(Named) == []
        assert comparisons == [0]

    run(scenario())


def test_the_comparison_count_would_find_a_registry_that_scans(comparisons: list[int]) -> None:
    async def scenario() -> None:
        refs: list[LoopActorRef[Any]] = [Named.start(number) for number in range(100)]
        for ref in refs:
            pykka.ActorRegistry.register(ref)
        for ref in reversed(refs):
            pykka.ActorRegistry.unregister(ref)
        assert comparisons[0] >= 100 * 99 / 2

    run(scenario())
