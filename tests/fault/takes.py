"""``python -m tests.fault.takes``: thousands of callers of the HTTP API wait for messages, and some of them vanish.

While they wait, the broker has nothing to do. Who is there when messages come gets one each, at once; who has vanished costs no delivery;
who gets none is answered when the time is over. A second broker is told to stop (SIGTERM) while others wait and look on: all are told.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Self

import typer

from benchmarks._processes import cpu_seconds
from streams.testkit import settle
from tests.fault.api_fuzz import resident
from tests.fault.kill_process import Broker, ReservedPort
from transport.wire.address import parse_address

QUEUE: Final = "/api/v1/queues/orders"
WAIT: Final = 20.0
"""Seconds that a caller waits."""
IDLE: Final = 4.0
"""Seconds of looking on while they wait."""
MOST_MEMORY: Final = 60_000_000
"""Bytes that waiting callers may take of a broker's memory, all together."""
MOST_IDLE: Final = 0.02
"""Of a core, while they wait."""
LATE: Final = 10.0
"""Seconds behind its time in which an answer is there, on a machine with much else to do."""
STOP_SECONDS: Final = 6.0
AT_ONCE: Final = 100
"""Connections that are opened together."""
LOOK: Final = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


def post(path: str, body: Any) -> bytes:
    """A request."""
    text = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


class Caller:
    """One connection that speaks HTTP."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def of(cls, address: str) -> Self:
        """One to a broker at that address."""
        return cls(*await asyncio.open_connection(*parse_address(address), limit=2**20))

    def say(self, request: bytes) -> None:
        """Ask."""
        self._writer.write(request)

    async def answer(self) -> tuple[int, Any]:
        """The status and JSON of an answer."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        lines = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        body = await self._reader.readexactly(int(lines["content-length"]))
        return int(head.split()[1]), json.loads(body)

    async def ask(self, request: bytes) -> Any:
        """The JSON of an answer that has to be good."""
        self.say(request)
        status, body = await self.answer()
        if status >= 300:
            raise ConnectionError(f"{status}: {body}")
        return body

    async def rest(self) -> bytes:
        """What comes until the end."""
        return await self._reader.read()

    def vanish(self, *, cut: bool = True) -> None:
        """Be gone, by a reset or in good order."""
        if cut:
            self._writer.transport.abort()
        else:
            self._writer.close()


@dataclass
class Found:
    """What a run saw.

    Attributes:
        memory: bytes that each part of it took of the broker's memory.
        idle: of a core, while all waited.
        slowest: seconds from when messages were sent until the last that got one had it.
        late: seconds behind its time of the last who got none.
        stopped: seconds from SIGTERM to the end of the process.
        violations: what must not be.
    """

    memory: int = 0
    idle: float = 0.0
    slowest: float = 0.0
    late: float = 0.0
    stopped: float = 0.0
    violations: list[str] = field(default_factory=list)


async def open_all(address: str, count: int, say: bytes, ends: AsyncExitStack) -> tuple[float, list[Caller]]:
    """So many connections, each of which has asked; and from when on."""
    callers: list[Caller] = []
    began = time.monotonic()
    for first in range(0, count, AT_ONCE):
        some = await asyncio.gather(*(Caller.of(address) for _ in range(min(AT_ONCE, count - first))))
        for caller in some:
            ends.callback(caller.vanish)
            caller.say(say)
        callers += some
    return began, callers


async def until_waiting(asker: Caller, wanted: int) -> dict[str, Any]:
    """Ask for the queue's figures until so much is wanted of it; those."""
    async with asyncio.timeout(60):
        while True:
            row: dict[str, Any] = await asker.ask(f"GET {QUEUE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            if row["demand_waiting"] == wanted:
                return row
            await settle(0.02)


async def waiting(callers: int, wait: float, idle: float) -> Found:
    """So many wait for so long; a fifth is cut off, and a fifth goes. Two fifths get a message each, and a fifth none."""
    found = Found()
    with closing(ReservedPort()) as port:
        async with (
            Broker(["--memory", "--http", port.address, "--max-connections", str(callers + 10)]) as broker,
            AsyncExitStack() as ends,
        ):
            await broker.start()
            asker = await Caller.of(port.address)
            ends.callback(asker.vanish)
            await asker.ask(post("/api/v1/queues", {"name": "orders"}))
            before = resident(broker.pid)
            asked = post(f"{QUEUE}/take", {"wait": wait, "visibility": "1h"})
            began, there = await open_all(port.address, callers, asked, ends)
            await until_waiting(asker, callers)
            last = time.monotonic()
            found.memory = resident(broker.pid) - before
            pid = _broker_of(broker.pid)
            used = cpu_seconds(pid)
            await settle(idle)
            found.idle = (cpu_seconds(pid) - used) / idle
            fifth = callers // 5
            for caller in there[:fifth]:
                caller.vanish()
            for caller in there[fifth : 2 * fifth]:
                caller.vanish(cut=False)
            await until_waiting(asker, callers - 2 * fifth)
            await _served(asker, there[2 * fifth :], 2 * fifth, (began + wait, last + wait), found)
            row = await until_waiting(asker, 0)
            if (row["in_flight"], row["total_out"], row["total_redelivered"]) != (2 * fifth, 2 * fifth, 0):
                found.violations.append(f"of {2 * fifth} messages, once each, the queue says {row}")
            found.violations += broker.defects
            await broker.stop()
    if found.memory > MOST_MEMORY:
        found.violations.append(f"{callers} that wait take {found.memory} bytes, {MOST_MEMORY} are the most")
    if found.idle > MOST_IDLE:
        found.violations.append(f"the broker takes {found.idle:.1%} of a core while all wait")
    return found


async def _served(
    asker: Caller, there: Sequence[Caller], messages: int, over: tuple[float, float], found: Found
) -> None:
    """Send messages to those who wait; each gets one or, in its time, none."""
    sent = time.monotonic()

    async def hear(caller: Caller) -> tuple[float, list[dict[str, Any]]]:
        status, body = await caller.answer()
        if status != 200:
            found.violations.append(f"a caller was answered {status}: {body}")
        return time.monotonic(), body.get("messages", [])

    hearing = [asyncio.create_task(hear(caller)) for caller in there]
    for first in range(0, messages, 1000):
        some = [{"payload": str(number)} for number in range(first, min(first + 1000, messages))]
        await asker.ask(post(f"{QUEUE}/messages", {"messages": some}))
    heard = await asyncio.gather(*hearing)
    got = [(when, some) for when, some in heard if some]
    empty = [when for when, some in heard if not some]
    found.slowest = max(when for when, _ in got) - sent
    payloads = [each["payload"] for _, some in got for each in some]
    if sorted(payloads, key=int) != [str(number) for number in range(messages)]:
        found.violations.append(f"{len(payloads)} messages came, {messages} were sent, each once")
    if any(len(some) > 1 or some[0]["deliveries"] != 1 or some[0]["possibly_replayed"] for _, some in got):
        found.violations.append("somebody got more than one message, or one that was delivered before")
    earliest, latest = over
    if empty:
        found.late = max(empty) - latest
        if min(empty) < earliest - 0.05 or found.late > LATE:
            found.violations.append(
                f"who got nothing was answered {min(empty) - earliest:.2f} to {found.late:.2f} s behind its time"
            )


def _broker_of(pid: int) -> int:
    """The process itself: what started it may be its parent."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        children = file.read().split()
    return int(children[0]) if children else pid


async def stopping(each: int) -> Found:
    """So many wait to take and so many look on when the broker is told to stop."""
    found = Found()
    with closing(ReservedPort()) as port:
        async with Broker(["--memory", "--http", port.address]) as broker, AsyncExitStack() as ends:
            await broker.start()
            asker = await Caller.of(port.address)
            ends.callback(asker.vanish)
            await asker.ask(post("/api/v1/queues", {"name": "orders"}))
            _, takers = await open_all(port.address, each, post(f"{QUEUE}/take", {"wait": 60}), ends)
            _, lookers = await open_all(port.address, each, LOOK, ends)
            await until_waiting(asker, each)
            for caller in lookers:
                async with asyncio.timeout(30):
                    await caller._reader.readuntil(b"event: picture")
            answers = [asyncio.create_task(caller.answer()) for caller in takers]
            streams = [asyncio.create_task(caller.rest()) for caller in lookers]
            began = time.monotonic()
            await broker.stop()
            found.stopped = time.monotonic() - began
            async with asyncio.timeout(30):
                told = await asyncio.gather(*answers, return_exceptions=True)
                ended = await asyncio.gather(*streams, return_exceptions=True)
            wrong = [
                one
                for one in told
                if not (isinstance(one, tuple) and one[0] == 503 and one[1]["code"] == "shutting-down")
            ]
            if wrong:
                found.violations.append(f"{len(wrong)} who waited were told otherwise: {wrong[0]!r}")
            untold = [
                one
                for one in ended
                if not (isinstance(one, bytes) and b'event: end\ndata: {"code":"shutting-down"' in one)
            ]
            if untold:
                found.violations.append(f"{len(untold)} who looked on were told otherwise: {untold[0]!r:.300}")
            if found.stopped > STOP_SECONDS:
                found.violations.append(f"the broker ended {found.stopped:.1f} s after SIGTERM")
            found.violations += broker.defects
    return found


def main(
    callers: Annotated[int, typer.Option(min=10)] = 5_000,
    wait: Annotated[float, typer.Option(min=1)] = WAIT,
    each: Annotated[int, typer.Option(min=1, help="that wait, and that look on, at SIGTERM")] = 100,
) -> None:
    """Run both once and say what they found."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    waited = asyncio.run(waiting(callers, wait, IDLE))
    stopped = asyncio.run(stopping(each))
    typer.echo(
        f"{callers} that wait take {waited.memory / 1e6:.1f} MB and {waited.idle:.2%} of a core; {callers // 5 * 2} messages reached "
        f"as many of them within {waited.slowest:.2f} s; the last who got none heard so {waited.late:.2f} s behind its time"
    )
    typer.echo(f"with {each} that wait and {each} that look on the broker ended {stopped.stopped:.2f} s after SIGTERM")
    found = waited.violations + stopped.violations
    for violation in found:
        typer.echo(violation)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    typer.run(main)
