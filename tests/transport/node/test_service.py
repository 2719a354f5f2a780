"""At a node there is a broker or a door, never both, whatever order leads and their ends come in."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest

from actors.errors import StorageError
from actors.storage.failures import LeadershipLostError
from transport.node.service import STEP_DOWN_SECONDS, Service


class Record:
    """What stood, in order; at most one of the two at a time."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.standing: set[str] = set()
        self.left: list[float] = []
        self.fails: Exception | None = None
        self.ends_with: Exception | None = None

    def up(self, what: str) -> None:
        assert not self.standing, f"{what} comes beside {self.standing}"
        self.standing.add(what)
        self.said.append(what)

    def down(self, what: str) -> None:
        self.standing.remove(what)
        self.said.append(f"no {what}")


class FakeBroker:
    def __init__(self, record: Record) -> None:
        self.record = record

    async def __aenter__(self) -> Self:
        await asyncio.sleep(0)
        if self.record.fails is not None:
            raise self.record.fails
        self.record.up("broker")
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)
        self.record.down("broker")
        if self.record.ends_with is not None:
            raise self.record.ends_with

    async def drain(self, seconds: float) -> None:
        self.record.said.append(f"drained within {seconds:g}")

    def lead_no_more(self) -> None:
        self.record.said.append("leads no more")

    def leave_within(self, seconds: float) -> None:
        self.record.left.append(seconds)


class FakeDoor:
    def __init__(self, record: Record) -> None:
        self.record = record

    async def open(self) -> None:
        await asyncio.sleep(0)
        self.record.up("door")

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.record.down("door")


def service(record: Record) -> Service:
    make: Any = lambda storage: FakeBroker(record)  # noqa: E731
    return Service(make, FakeDoor(record))


async def opened() -> Any:
    return "storage"


def run(body: Any) -> Record:
    record = Record()
    asyncio.run(body(service(record), record))
    return record


def test_the_door_makes_room_for_the_broker_and_comes_back_behind_it() -> None:
    async def body(made: Service, record: Record) -> None:
        await made.follow()
        await made.follow()
        assert await made.lead(opened)
        assert made.broker is not None
        await made.follow()
        assert made.broker is None

    assert run(body).said == ["door", "no door", "broker", "no broker", "door"]


def test_those_inside_hear_at_once_that_a_lead_is_over_and_have_a_while_to_go() -> None:
    async def body(made: Service, record: Record) -> None:
        made.lead_no_more()
        assert await made.lead(opened)
        made.lead_no_more()
        await made.follow()
        made.lead_no_more()

    record = run(body)
    assert record.said == ["broker", "leads no more", "no broker", "door"]
    assert record.left == [STEP_DOWN_SECONDS]


def test_a_lead_that_is_lost_before_the_broker_stands_leaves_the_door() -> None:
    async def lost() -> Any:
        raise LeadershipLostError("gone")

    async def body(made: Service, record: Record) -> None:
        await made.follow()
        assert not await made.lead(lost)
        await made.follow()
        record.fails = LeadershipLostError("gone while it began")
        assert not await made.lead(opened)
        await made.follow()

    assert run(body).said == ["door", "no door", "door"]


def test_what_keeps_a_broker_from_standing_is_told() -> None:
    async def body(made: Service, record: Record) -> None:
        record.fails = OSError(98, "taken")
        with pytest.raises(OSError, match="taken"):
            await made.lead(opened)

    assert run(body).said == []


@pytest.mark.parametrize("error", [LeadershipLostError("no leader"), StorageError("the disk fails")])
def test_a_broker_that_ends_badly_is_still_gone(error: Exception) -> None:
    async def body(made: Service, record: Record) -> None:
        assert await made.lead(opened)
        record.ends_with = error
        await made.follow()

    assert run(body).said == ["broker", "no broker", "door"]


def test_the_end_of_a_lead_waits_for_its_begin() -> None:
    async def body(made: Service, record: Record) -> None:
        await made.follow()
        led, _ = await asyncio.gather(made.lead(opened), made.follow())
        assert led

    assert run(body).said == ["door", "no door", "broker", "no broker", "door"]


def test_behind_a_drain_nothing_stands_any_more() -> None:
    async def body(made: Service, record: Record) -> None:
        await made.lead(opened)
        await made.drain(3.0)
        await made.follow()
        assert not await made.lead(opened)

    assert run(body).said == ["broker", "drained within 3", "no broker"]


def test_a_follower_is_drained_at_once() -> None:
    async def body(made: Service, record: Record) -> None:
        await made.follow()
        await made.drain(3.0)

    assert run(body).said == ["door", "no door"]
