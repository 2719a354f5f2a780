"""What a message costs on a link, counted and not timed: bytecode instructions of ours, of who sends it and of who hears it.

A limit is what was counted when it was set, and a little more; see tests/transport/test_cost_of_a_message.py. Counted on CPython 3.11.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

from actors.replication import vocabulary as say
from actors.replication.positions import Position
from journal import ShippedRecord
from transport.cluster.hello import Answering, Dialing, Identity
from transport.cluster.link import Link
from transport.cluster.link_codec import LinkCodec
from transport.cluster.outgoing import Pace

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the limits are instructions of CPython 3.11")

PRODUCT = tuple(str(Path(__file__).resolve().parents[3] / package) for package in ("journal", "actors", "transport"))
TIMES = 32
MANY = 512
LIMITS = {
    "one record, shipped": 430,
    "one record, heard": 540,
    "one record, shipped to another one": 280,
    "a small one, shipped": 410,
    "a small one, heard": 540,
    "each of many records, shipped": 95,
    "each of many records, heard": 62,
    "a frame of a large record, shipped": 306,
    "a frame of a large record, heard": 281,
    "an answer, sent": 233,
    "an answer, heard": 339,
}


class Count:
    """Instructions of the product while it is entered."""

    def __init__(self) -> None:
        self.instructions = 0

    def __enter__(self) -> Self:
        def trace(frame: FrameType, event: str, _argument: object) -> Any:
            if not frame.f_code.co_filename.startswith(PRODUCT):
                return None
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
            if event == "opcode":
                self.instructions += 1
            return trace

        sys.settrace(trace)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.settrace(None)


class Wire(asyncio.Transport):
    """Takes everything, and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = bytearray()

    def write(self, data: Any) -> None:
        self.taken += data

    def writelines(self, parts: Any) -> None:
        for part in parts:
            self.taken += part

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return False


class Owner:
    """Takes everybody, and keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def made(self, link: Link) -> None: ...

    def judge(self, link: Link) -> None: ...

    def opened(self, link: Link) -> None: ...

    def received(self, link: Link, message: Any) -> None:
        self.heard.append(message)

    def ended(self, link: Link, error: Exception) -> None:
        raise AssertionError(error)


class Ends:
    """A link from one node to another, both of which are here."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        me, other = (Identity("c" * 32, each * 32, each, "h:1", each.encode() * 8) for each in "ab")
        self.codec = LinkCodec(ShippedRecord)
        self.owner = Owner()
        sides = (Dialing(me, other.directory, b"s" * 20, bytes(32)), Answering(other, b"s" * 20, bytes(32)))
        self.one, self.other = (Link(side, self.owner, self.codec, Pace(1e9), loop) for side in sides)
        self.wires = Wire(), Wire()
        for link, wire in zip((self.one, self.other), self.wires, strict=True):
            link.connection_made(wire)
        while any(wire.taken for wire in self.wires):
            self.carry(self.wires[0], self.other)
            self.carry(self.wires[1], self.one)
        assert self.one.is_open
        assert self.other.is_open

    def carry(self, wire: Wire, link: Link) -> None:
        data, wire.taken = memoryview(wire.taken), bytearray()
        while data:
            buffer = link.get_buffer(-1)
            taken = min(len(buffer), len(data))
            buffer[:taken] = data[:taken]
            link.buffer_updated(taken)
            data = data[taken:]

    def shipped(self, message: Any, of: int = 1, *, again: bool = False) -> tuple[float, float]:
        """To the first who is sent the records; ``again``: to another one."""
        messages = [message if again else message._replace(records=list(message.records)) for _ in range(TIMES)]
        self.codec.encode(message)
        with Count() as sending:
            for each in messages:
                assert self.one.ship(self.codec.encode(each), lambda: None)
        return sending.instructions / TIMES / of, self._heard(self.wires[0], self.other) / of

    def sent(self, message: Any) -> tuple[float, float]:
        with Count() as sending:
            for _ in range(TIMES):
                self.other.send(self.codec.encode(message))
        return sending.instructions / TIMES, self._heard(self.wires[1], self.one)

    def _heard(self, wire: Wire, link: Link) -> float:
        size = len(wire.taken) // TIMES
        messages = [bytes(wire.taken[at : at + size]) for at in range(0, len(wire.taken), size)]
        self.owner.heard.clear()
        with Count() as hearing:
            for each in messages:
                wire.taken = bytearray(each)
                self.carry(wire, link)
        assert len(self.owner.heard) == TIMES
        return hearing.instructions / TIMES


def replicate(count: int, size: int) -> say.Replicate:
    records = [ShippedRecord(10 + n, 3, 2, 1, (bytes(16), bytes(size))) for n in range(count)]
    return say.Replicate(3, Position(3, 9), 8, 1.5, records)


def test_no_message_of_a_link_has_become_dearer() -> None:
    found: dict[str, float] = {}

    async def measure() -> None:
        ends = Ends()
        for what, message, of in (
            ("one record", replicate(1, 4096), 1),
            ("each of many records", replicate(MANY, 100), MANY),
            ("a frame of a large record", replicate(1, 1 << 20), 17),
        ):
            found[f"{what}, shipped"], found[f"{what}, heard"] = ends.shipped(message, of)
        found["one record, shipped to another one"], _ = ends.shipped(replicate(1, 4096), again=True)
        found["a small one, shipped"], found["a small one, heard"] = ends.shipped(replicate(1, 300))
        found["an answer, sent"], found["an answer, heard"] = ends.sent(say.Stored(3, 10, 1.5))
        for link in (ends.one, ends.other):
            link._owner.ended = lambda *_: None  # type: ignore[method-assign]
            link.connection_lost(None)

    asyncio.run(measure())
    assert found.keys() == LIMITS.keys()
    over = {what: round(cost) for what, cost in found.items() if cost > LIMITS[what]}
    assert not over, f"{over}, of {found}"
